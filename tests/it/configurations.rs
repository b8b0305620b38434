//! Configuration files of the user: measured, compared with the driver's file, and rejected if they cannot work.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::pages::blocks;
use crate::program::{finish, free_port, json, scenario, text, the_host, weir};
use crate::run::{assert_reconciled, measurements, outcomes, run};

const GATEWAYS: &str = "[nginx, { name: mine, driver: nginx, config: ./my.conf }]";

/// The configuration file that the docs show.
fn documented() -> String {
    blocks("scenarios.md").into_iter().find(|block| block.language == "nginx").unwrap().text
}

fn run_with(folder: &Path, file: &str, arguments: &[&str]) -> Output {
    std::fs::write(folder.join("my.conf"), file).unwrap();
    run(folder, GATEWAYS, "", &[&["--repeats", "1"][..], arguments].concat())
}

fn cell<'a>(result: &'a Value, gateway: &str) -> &'a Value {
    result["cells"].as_array().unwrap().iter().find(|cell| cell["key"]["gateway"] == gateway).unwrap()
}

#[test]
fn the_documented_file_is_measured_beside_the_file_of_the_driver() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let file = documented();
    let result = json(&run_with(folder.path(), &file, &[]));
    for gateway in ["nginx", "mine", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 2, "two loads of {gateway}");
        all.into_iter().for_each(|measurement| assert_reconciled(measurement, gateway));
    }
    let kept = &result["run"]["manifest"]["configurations"]["mine"];
    assert_eq!(kept["text"], file);
    assert_eq!(kept["sha256"].as_str().unwrap().len(), 64);

    let unequal = |gateway: &str| cell(&result, gateway)["unequal"].to_string();
    let said = unequal("mine");
    for words in ["the user's configuration my.conf", "proxy_next_upstream off;", "proxy_read_timeout 60s;"] {
        assert!(said.contains(words) && !unequal("nginx").contains(words), "{words}: {said}");
    }
    // Directives in the user's file are not listed as differences.
    for words in ["access_log", "worker_processes", "proxy_http_version"] {
        assert!(!said.contains(words), "{words}: {said}");
    }
    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for words in ["mine: nginx", "Configuration of mine", "no retries: my.conf lacks "] {
        assert!(report.contains(words), "{words}: {report}");
    }
}

#[test]
fn a_file_that_forwards_nothing_loses_only_its_own_cells() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let file = documented().replace("proxy_pass http://backend;", "return 200 'by itself';");
    let result = json(&run_with(folder.path(), &file, &[]));
    assert_eq!(measurements(&result, "nginx").len(), 2);
    let outcome = outcomes(&result, "mine")[0];
    assert_eq!(outcome["cause"], "never-ready", "{outcome}");
    let message = outcome["message"].as_str().unwrap();
    assert!(message.contains("returned status 200, but the upstream received no request"), "{message}");
    assert!(outcome["remedy"].as_str().unwrap().contains("{{ origins[0] }}"), "{outcome}");
}

#[test]
fn a_file_that_listens_on_another_port_fails_early_and_names_the_port() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let port = free_port();
    // `{{ listen }}` appears only in a comment.
    let elsewhere = format!("listen 127.0.0.1:{port}; # not {{{{ listen }}}}");
    let file = documented().replace("listen {{ listen }};", &elsewhere);
    let result = json(&run_with(folder.path(), &file, &["--gateway", "mine"]));
    let outcome = outcomes(&result, "mine")[0];
    assert_eq!(outcome["cause"], "never-ready", "{outcome}");
    let message = outcome["message"].as_str().unwrap();
    assert!(
        message.contains("(it listens on ") && message.contains(&format!("127.0.0.1:{port}")),
        "{message}"
    );
    // The message states how long weir waited. The driver's timeout for nginx is one minute, but weir stops waiting
    // when the gateway listens on another port.
    let waited = message.split("after ").nth(1).unwrap().split('.').next().unwrap();
    assert!(waited.parse::<u32>().unwrap() < 60, "{message}");
    assert!(outcome["remedy"].as_str().unwrap().contains("{{ listen }}"), "{outcome}");
}

#[test]
fn a_file_that_cannot_work_is_rejected_before_the_run_starts() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |file: &str, arguments: &[&str], words: &[&str]| {
        let output = run_with(folder.path(), file, arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{words:?}: {error}");
        assert!(!folder.path().join("weir.db").exists(), "the run has started");
    };
    refused(
        "listen {{ listen }}; proxy_pass http://127.0.0.1:9000;",
        &[],
        &["my.conf: ", "{{ origins[0] }}"],
    );
    refused(
        "listen 8080; server {{ origins[0] }};",
        &[],
        &["my.conf: ", "{{ listen }}", "listen: 127.0.0.1:8080"],
    );
    refused("a;\n{{ listen", &[], &["my.conf:2"]);
    refused("", &["--set", "gateways.mine.config=absent.conf"], &["--set", "absent.conf", "No such file"]);
}

#[test]
fn a_user_configuration_can_be_rendered() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("my.conf"), documented()).unwrap();
    let path = scenario(folder.path(), GATEWAYS, "");
    let arguments = ["render", path.to_str().unwrap(), "--gateway", "mine", "--out", "out", "--json"];
    let replicas = ["--set", "origin.driver=nginx", "--set", "origin.replicas=2"];
    let manifest = json(&finish(weir(folder.path(), &[&arguments[..], &replicas[..]].concat())));
    assert_eq!(manifest["config"]["text"], documented());
    let rendered = std::fs::read_to_string(folder.path().join("out/nginx.conf")).unwrap();
    for words in ["listen 127.0.0.1:8080;", "server 127.0.0.1:9000;", "server 127.0.0.1:9001;"] {
        assert!(rendered.contains(words), "{words}: {rendered}");
    }
}
