//! `weir-gateway check`, run as an operator runs it.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;

use crate::mistakes::{DAYS, GOOD, Kind, MISTAKES, write_files, write_pair};

/// A folder with a configuration and the files that it references.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let dir = tempfile::tempdir().expect("a temporary folder");
        write_files(dir.path());
        Folder(dir)
    }

    /// Checks a configuration with this text. Returns exit code, output and messages.
    fn check(&self, text: &str, more: &[&str]) -> (Option<i32>, String, String) {
        self.write("gateway.yaml", text);
        self.run(&[&["check", "gateway.yaml"], more].concat())
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.path().join(name), content).expect("a file");
    }

    fn run(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
        let output = command.current_dir(self.0.path()).args(arguments).output().expect("it starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (output.status.code(), text(output.stdout), text(output.stderr))
    }
}

#[test]
fn a_valid_configuration_is_summarized() {
    let summary = format!(
        "gateway.yaml: valid\n\
         listeners     127.0.0.1:8080 `plain`, plain HTTP\n              127.0.0.1:8443, TLS with 1 certificate\n\
         routes        4 for 2 hosts, some for every host\n\
         backends      2 with 3 endpoints\n\
         certificates  a.pem: {DAYS} days left, for a.test\n"
    );
    let good = (Some(0), summary, String::new());
    let folder = Folder::new();
    assert_eq!(folder.check(GOOD, &["--strict"]), good);
    assert_eq!(folder.run(&["--config", "gateway.yaml", "--check"]), good, "the flag prints the same");
}

#[test]
fn check_opens_no_socket() {
    let held = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken = GOOD.replace("127.0.0.1:8080", &held.local_addr().expect("its address").to_string());
    assert_eq!(Folder::new().check(&taken, &[]).0, Some(0));
}

#[test]
fn each_mistake_is_one_problem_with_its_line_and_a_remedy() {
    let folder = Folder::new();
    for mistake in MISTAKES {
        let (code, output, messages) = folder.check(&mistake.text(), &[]);
        let is_warning = mistake.kind == Kind::Warning;
        assert_eq!(code, Some(if is_warning { 0 } else { 2 }), "{mistake:?}: {messages}");
        assert_eq!(output.starts_with("gateway.yaml: valid, 1 warning\n"), is_warning, "{output}");
        let lines: Vec<&str> = messages.lines().collect();
        let [problem, remedy] = lines.as_slice() else { panic!("{mistake:?}: {messages}") };
        let place = format!("gateway.yaml:{}:", mistake.line);
        assert!(problem.starts_with(&place) && problem.contains(mistake.what), "{mistake:?}: {messages}");
        assert!(remedy.starts_with("  help: ") && remedy.contains(mistake.remedy), "{mistake:?}: {messages}");
        assert_eq!(folder.check(&mistake.text(), &["--strict"]).0, Some(2), "{mistake:?}");
    }
    assert_eq!(folder.check(GOOD, &[]).0, Some(0), "without mistakes it is valid");
}

#[test]
fn certificates_that_expire_or_match_no_host_are_warnings() {
    let folder = Folder::new();
    let at = "gateway.yaml:5:20: warning: listeners[1].tls.certificate:";
    let end = |what: &str| {
        format!(
            "{at} a certificate in `a.pem` {what}\n  help: renew the certificate; the gateway reloads the \
             file by itself\n"
        )
    };
    let check = |host: &str, seconds_left: i64, text: &str, expected: &str| {
        write_pair(folder.0.path(), host, seconds_left);
        let (code, output, messages) = folder.check(text, &[]);
        assert_eq!((code, messages.as_str()), (Some(0), expected), "{host} {seconds_left}");
        output
    };
    check("a.test", 15 * 86_400, GOOD, "");
    check("a.test", 13 * 86_400 + 3600, GOOD, &end("expires in 13 days"));
    let output = check("a.test", -86_400 - 3600, GOOD, &end("expired 2 days ago"));
    assert!(output.contains("a.pem: expired 2 days ago, for a.test"), "{output}");
    // Every route has hosts, and the certificate matches none of these hosts.
    let hosts = GOOD.replace("  - regex:", "  - hosts: [b.test]\n    regex:");
    let hosts = hosts.replace("  - path:", "  - hosts: [c.test]\n    path:");
    let none = "`a.pem` is valid for none of the hosts in `routes`\n  \
                help: use a certificate for these hosts, or add a route for a host of this certificate\n";
    check("d.test", 15 * 86_400, &hosts, &format!("{at} {none}"));
    check("x.a.test", 15 * 86_400, &hosts, "");
}

#[test]
fn all_errors_are_reported_at_once() {
    let folder = Folder::new();
    let mut text = GOOD.to_owned();
    let mut lines = Vec::new();
    // Mistakes in different parts of the configuration. None of them shifts the line numbers of the others.
    for what in [
        "missing field `address`",
        "unsupported cipher suite `RC4-SHA`",
        "a wildcard must be",
        "`api` does not start",
        "unknown method `get`",
        "invalid header name",
        "unknown backend `apy`",
        "unclosed group",
        "200 is not a redirect status",
        "`ten` is not a share",
        "is not an IP address or a host name with a port",
        "unknown value `refuse`",
        "out of range; allowed: 8 to 128",
        "`75` has no unit",
    ] {
        let mistake = MISTAKES.iter().rev().find(|mistake| mistake.what.contains(what)).expect("one of them");
        text = text.replacen(mistake.change.0, mistake.change.1, 1);
        lines.push(format!("gateway.yaml:{}:", mistake.line));
    }
    let (code, _, messages) = folder.check(&text, &[]);
    assert_eq!(code, Some(2));
    let problems: Vec<&str> = messages.lines().filter(|line| !line.starts_with("  help: ")).collect();
    assert_eq!(problems.len(), lines.len(), "{messages}");
    for (problem, line) in problems.iter().zip(&lines) {
        assert!(problem.starts_with(line), "{problem}: {line}: {messages}");
    }
}

#[test]
fn an_access_log_that_cannot_be_written_is_an_error() {
    let folder = Folder::new();
    let with = |file: &str| folder.check(&format!("{GOOD}access_log: {{ file: {file} }}\n"), &[]);
    assert_eq!(with("access.log").0, Some(0));
    assert!(!folder.0.path().join("access.log").exists(), "check creates no file");
    folder.write("there.log", "");
    assert_eq!(with("there.log").0, Some(0));
    let line = GOOD.lines().count() + 1;
    let (code, output, messages) = with("logs/access.log");
    assert_eq!((code, output.as_str()), (Some(2), ""), "{messages}");
    assert!(
        messages.starts_with(&format!("gateway.yaml:{line}:21: access_log.file: cannot write")),
        "{messages}"
    );
    assert!(
        messages.contains("logs/access.log: No such file") && messages.contains("help: create the directory")
    );
    let (code, _, messages) = with(".");
    assert!(code == Some(2) && messages.contains("is a directory"), "{messages}");
}

#[test]
fn json_is_for_scripts() {
    let folder = Folder::new();
    let read = |text: &str, more: &[&str]| -> (Option<i32>, Value) {
        let (code, output, messages) = folder.check(text, &[&["--json"], more].concat());
        assert_eq!(messages, "");
        (code, serde_json::from_str(&output).expect("JSON"))
    };
    let (code, report) = read(GOOD, &["--strict"]);
    assert_eq!(
        (code, &report["is_good"], &report["problems"]),
        (Some(0), &Value::Bool(true), &Value::Array(Vec::new()))
    );
    let summary = &report["summary"];
    assert_eq!((summary["routes"].as_u64(), summary["endpoints"].as_u64()), (Some(4), Some(3)));
    assert_eq!(summary["certificates"][0]["days_left"].as_i64(), Some(DAYS));
    let one = |what: &str| MISTAKES.iter().find(|mistake| mistake.what.contains(what)).expect("one of them");
    let (code, report) = read(&one("unknown backend").text(), &[]);
    let expected = serde_json::json!({
        "severity": "error", "file": "gateway.yaml", "line": 14, "column": 14, "field": "routes[0].backend",
        "message": "unknown backend `apy`", "remedy": "did you mean `api`?",
    });
    assert_eq!((code, &report["problems"][0], &report["summary"]), (Some(2), &expected, &Value::Null));
    let unweighted = one("all weights are 0").text();
    let (code, report) = read(&unweighted, &[]);
    assert_eq!((code, report["problems"][0]["severity"].as_str()), (Some(0), Some("warning")));
    assert_eq!(read(&unweighted, &["--strict"]).0, Some(2));
}

#[test]
fn problems_name_the_file_of_a_directory() {
    let folder = Folder::new();
    std::fs::create_dir(folder.0.path().join("d")).expect("a folder");
    let a = "listeners: [{ address: 127.0.0.1:1 }]\n\
             backends: { b: { endpoints: ['127.0.0.1:2'] }, c: { endpoints: [] } }\n";
    let b = "routes:\n  - { path: /, backend: b }\n";
    folder.write("d/a.yaml", a);
    folder.write("d/b.yaml", b);
    let (code, output, messages) = folder.run(&["check", "d"]);
    assert_eq!((code, output.lines().next()), (Some(0), Some("d: valid, 1 warning")), "{messages}");
    assert!(
        messages.starts_with("d/a.yaml:2:51: warning: backends.c: no route uses this backend\n"),
        "{messages}"
    );
    folder.write("d/a.yaml", a.replace("address", "adress"));
    folder.write("d/b.yaml", b.replace("path", "pth"));
    let (code, _, messages) = folder.run(&["check", "d"]);
    let problems: Vec<&str> = messages.lines().filter(|line| !line.starts_with("  help: ")).collect();
    let expected = ["d/a.yaml:1:15: unknown field `adress`", "d/b.yaml:2:7: unknown field `pth`"];
    assert_eq!((code, problems), (Some(2), expected.to_vec()));
}

#[test]
fn files_that_are_no_configuration_are_errors() {
    let folder = Folder::new();
    folder.write("empty.yaml", "");
    folder.write("latin.yaml", b"listeners: [] # \xe4\n");
    folder.write("comma.json", "{\n  \"listeners\": [],\n}\n");
    std::fs::create_dir(folder.0.path().join("folder")).expect("a folder");
    for (name, what, remedy) in [
        ("empty.yaml", "empty.yaml:1:1: the document is empty", "write one YAML or JSON document"),
        (
            "latin.yaml",
            "latin.yaml: cannot read: stream did not contain valid UTF-8",
            "save the file in UTF-8",
        ),
        ("comma.json", "comma.json:3:1: trailing comma", "remove the comma"),
        ("none.yaml", "none.yaml: cannot read: No such file or directory", "check that the file exists"),
        ("folder", "folder", ""),
    ] {
        let (code, output, messages) = folder.run(&["check", name]);
        assert_eq!((code, output.as_str()), (Some(2), ""), "{name}");
        let (problem, help) = messages.split_once('\n').expect("a line");
        assert!(
            problem.starts_with(what) && help.starts_with("  help: ") && help.contains(remedy),
            "{messages}"
        );
    }
}
