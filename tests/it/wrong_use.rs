//! Invalid scenarios and command lines: one clear error with location and remedy, and exit code 2.

use std::fs::File;
use std::process::Stdio;

use crate::program::{finish, text, weir};

/// Runs `weir` with `arguments` in a folder with the scenario file `bad.yaml`. The error must contain `words`.
fn check(arguments: &[&str], scenario: &str, words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("bad.yaml"), scenario).unwrap();
    let output = finish(weir(folder.path(), arguments));
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?} with\n{scenario}\ngave: {error}");
    assert_eq!(error.lines().filter(|line| line.starts_with("error")).count(), 1, "one error: {error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is missing in: {error}");
    }
    assert!(!error.contains("panicked"), "{error}");
}

const GOOD: &str = "\
name: good
question: Is it?
gateways: [weir]
limits: { data: { cpus: 0.5 } }
topology: { domains: 1, paths: [/ping] }
origin: { body: 64B }
loads:
  full: { model: closed, connections: 4 }
warmup: 1s
duration: 2s
repeats: 1
";

/// Checks the valid scenario with one replacement.
fn scenario(from: &str, to: &str, words: &[&str]) {
    assert!(GOOD.contains(from));
    check(&["run", "bad.yaml", "--plan"], &GOOD.replacen(from, to, 1), words);
}

#[test]
fn the_valid_scenario_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("good.yaml"), GOOD).unwrap();
    let output = finish(weir(folder.path(), &["run", "good.yaml", "--plan"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn a_closed_pipe_is_no_error_but_a_full_disk_is_one() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [&["schema", "results"][..], &["completions", "bash"]] {
        let mut command = weir(folder.path(), arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()), "{arguments:?}");
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = weir(folder.path(), arguments).stdout(full).stderr(Stdio::piped()).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{arguments:?}: {error}");
        assert!(
            error.starts_with("error: cannot write to standard output: No space left on device"),
            "{error}"
        );
        assert_eq!(error.lines().count(), 2, "{error}");
    }
}

#[test]
fn negative_values_are_not_mistaken_for_flags() {
    for (flag, value) in
        [("--rate", "-5/s"), ("--max-cpu", "-5%"), ("--price", "-1/h"), ("--growth", "-300%/y")]
    {
        let mut arguments = vec!["size", "last", flag, value];
        if flag != "--rate" {
            arguments.extend(["--rate", "5/s"]);
        }
        check(&arguments, GOOD, &[flag, value]);
        let folder = tempfile::tempdir().unwrap();
        let error = text(&finish(weir(folder.path(), &arguments)).stderr);
        assert!(!error.contains("unexpected argument") && !error.contains("tip"), "{error}");
    }
}

#[test]
fn unknown_fields_are_rejected() {
    scenario("duration:", "durations:", &["bad.yaml:10:", "durations", "duration"]);
    scenario("connections: 4", "conections: 4", &["bad.yaml:8:", "conections", "connections"]);
    scenario("cpus: 0.5", "cpu: 0.5", &["bad.yaml:4:", "cpu", "cpus"]);
}

#[test]
fn invalid_values_are_rejected() {
    scenario("connections: 4", "connections: 0", &["bad.yaml", "connections"]);
    scenario("connections: 4", "connections: 4, shuffle: true", &["bad.yaml:8:", "shuffle", "file"]);
    scenario("duration: 2s", "duration: 2", &["bad.yaml:10:", "20ms"]);
    scenario("duration: 2s", "duration: 0s", &["bad.yaml", "duration"]);
    scenario("body: 64B", "body: 64 bites", &["bad.yaml:6:", "64"]);
    scenario("model: closed, connections: 4", "model: open, rate: 5000", &["bad.yaml", "/s"]);
    scenario("model: closed", "model: closd", &["bad.yaml:8:", "closed"]);
    scenario("model: closed, connections: 4", "model: open", &["bad.yaml", "rate"]);
    scenario("cpus: 0.5", "cpus: -1", &["bad.yaml:4:", "`-1` is out of range"]);
    scenario("repeats: 1", "repeats: 0", &["bad.yaml", "repeats"]);
    scenario("[/ping]", "[ping]", &["bad.yaml", "ping", "/"]);
    scenario("[weir]", "[wier]", &["wier", "weir"]);
    scenario("[weir]", "[weir, weir]", &["bad.yaml", "weir"]);
    scenario("[weir]", "[]", &["bad.yaml", "gateways"]);
    scenario("repeats: 1", "repeats: 1\nobjective: { p98.5: 3ms }", &["bad.yaml", "p98.5"]);
    scenario("repeats: 1", "repeats: 1\nvary: { limits.data.cpu: [1] }", &["limits.data.cpu"]);
    scenario("repeats: 1", "repeats: 1\nrepeats: 2", &["bad.yaml:12:", "repeats"]);
}

#[test]
fn unsupported_fields_are_rejected() {
    scenario("paths: [/ping]", "paths: [/ping], routes: 9", &["routes", "not supported yet"]);
    scenario(
        "gateways: [weir]",
        "gateways: [{ name: weir, replicas: 2 }]",
        &["replicas", "not supported yet"],
    );
}

#[test]
fn all_errors_of_a_scenario_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text_of = GOOD.replace("repeats: 1", "repeats: 0").replace("[weir]", "[weir-gateway]");
    std::fs::write(folder.path().join("bad.yaml"), text_of).unwrap();
    let output = finish(weir(folder.path(), &["run", "bad.yaml", "--plan"]));
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: bad.yaml:3:12: gateways[0]: unknown gateway or driver `weir-gateway`\n \
         help: did you mean `weir`?\n\
         error: bad.yaml:11:10: repeats: `0` is out of range\n \
         help: use 1 to 1000; a headline result needs at least 3 repeats\n\
         2 errors\n"
    );
}

#[test]
fn files_without_a_scenario_are_rejected() {
    check(&["run", "bad.yaml"], "", &["bad.yaml"]);
    check(&["run", "bad.yaml"], "name: [", &["bad.yaml"]);
    check(&["run", "bad.yaml"], "{\"name\": \"x\",}", &["bad.yaml:1:"]);
    check(&["run", "absent.yaml"], "", &["absent.yaml"]);
    check(&["run", "side-by-sid"], "", &["side-by-side"]);
}

#[test]
fn invalid_command_lines_are_rejected() {
    check(&["run"], "", &["SCENARIO"]);
    check(&["run", "quickstart", "--set", "durations=3s", "--plan"], "", &["durations", "duration"]);
    check(&["run", "quickstart", "--set", "duration", "--plan"], "", &["--set", "limits.data.cpus=0.5"]);
    check(&["run", "quickstart", "--gateway", "ngnix", "--plan"], "", &["ngnix", "nginx"]);
    check(&["run", "quickstart", "--repeats", "0", "--plan"], "", &["repeats"]);
    check(&["run", "--resume", "nosuchrun", "--db", "x.db"], "", &["x.db"]);
    check(&["report", "nosuchrun", "--db", "x.db"], "", &["x.db"]);
    check(&["load"], "", &["URL"]);
    check(&["load", "127.0.0.1:80"], "", &["http://"]);
    check(&["load", "ftp://127.0.0.1/"], "", &["https://"]);
    check(&["load", "http://127.0.0.1/", "--rate", "5000"], "", &["5000/s"]);
    check(&["load", "http://127.0.0.1/", "--rate", "0/s"], "", &["rate"]);
    check(&["load", "http://127.0.0.1/", "--connections", "0"], "", &["connections"]);
    check(&["load", "http://127.0.0.1/", "--duration", "10"], "", &["20ms"]);
    check(&["load", "http://127.0.0.1/", "-H", "no colon"], "", &["no colon"]);
    check(&["load", "http://127.0.0.1/", "-X", "G T"], "", &["G T"]);
    check(&["load", "http://127.0.0.1/", "--connections", "1", "--workers", "2"], "", &["workers"]);
    check(&["load", "http://127.0.0.1/", "--conections", "1"], "", &["--connections"]);
    check(&["load", "http://127.0.0.1/", "--shuffle"], "", &["--file"]);
    let load = |flags: &[&str], words: &[&str]| {
        check(&[&["load", "http://127.0.0.1/"], flags].concat(), "", words);
    };
    load(&["-r", "1/s..x"], &["--rate", "5000/s"]);
    load(&["-c", "1..9..0"], &["--connections", "1..60..5"]);
    load(&["-c", "1..9", "-n", "5"], &["--connections", "ramp", "duration"]);
    load(&["-c", "1..9", "-r", "5/s"], &["--connections", "closed load"]);
    load(&["-r", "1/s,2/s", "-c", "1,2,3"], &["--rate", "`rate` has 2"]);
    load(&["-r", "5/s", "--burst", "9/s:1s/1s"], &["--burst", "shorter than its interval"]);
    load(&["-r", "5/s", "--burst", "9/s"], &["--burst", "5000/s:200ms/1s"]);
    load(&["--burst", "9/s:1ms/1s"], &["--rate"]);
    load(&["-r", "5/s", "--think", "1ms"], &["--think", "--rate"]);
    load(&["--think", "0s"], &["--think", "more than 0"]);
    load(&["--think", "5"], &["--think", "20ms"]);
    load(&["--think", "gamma:5ms"], &["--think", "exp:20ms"]);
    load(&["--streams", "0"], &["--streams", "1 to"]);
    load(&["--per-connection", "0"], &["--per-connection", "at least 1"]);
    load(&["--check", "state=200"], &["--check", "status=200"]);
    load(&["-f", "absent"], &["absent", "correct the path"]);
    load(&["http://127.0.0.1/x", "-f", "absent"], &["--file", "without a path"]);
    load(&["--tokens", "absent"], &["--tokens", "absent"]);
    load(&["--body", "@absent"], &["--body", "absent"]);
    load(&["--resolve", "a:b"], &["--resolve", "example.com:443:127.0.0.1"]);
    load(&["-k"], &["--insecure", "https://"]);
    load(&["http://localhost/"], &["different servers"]);
    check(&["load", "https://127.0.0.1/", "--tls", "1.1"], "", &["--tls", "1.2 or 1.3"]);
    check(&["load", "https://127.0.0.1/", "--resumption", "2"], "", &["--resumption", "50%"]);
    check(&["load", "https://127.0.0.1/", "--cert", "x.pem"], "", &["--key"]);
    check(&["load", "https://127.0.0.1/", "--cacert", "absent.pem"], "", &["--cacert", "absent.pem"]);
    check(&["origin", "--listen", "nowhere"], "", &["nowhere"]);
    check(&["origin", "--listen", "127.0.0.1:0", "--delay", "5ms"], "", &["5ms", "const:5ms"]);
    check(&["origin", "--listen", "127.0.0.1:0", "--errors", "200%"], "", &["200%"]);
    check(&["render", "quickstart", "--gateway", "ngnix", "--out", "x"], "", &["nginx"]);
    check(&["schema", "scenarios"], "", &["scenario"]);
    check(&["export", "nosuchrun", "--db", "x.db"], "", &["x.db"]);
    check(&["export", "last", "--format", "cvs"], "", &["csv"]);
    check(&["export", "last", "--format", "weir", "--load", "full"], "", &["--load", "--format"]);
    check(&["export", "last", "--out", "."], "", &["directory", "--out"]);
    check(&["import"], "", &["FILE"]);
    check(&["import", "absent.weir"], "", &["absent.weir", "read"]);
    check(&["import", "bad.yaml"], "name: x\n", &["bad.yaml", "weir export"]);
}
