//! Metrics that weir pushes while load runs. A real Prometheus receives them from a real run, every query of the
//! dashboards and rules returns data, and counts agree with the run.

mod boards;
mod query;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use self::boards::{Query, boards, metrics_of, rules, selectors};
use self::query::Answers;
use crate::program::{Origin, finish, free_port, json, text, the_host, the_host_alone, until, wait, weir};
use crate::prometheus::{receiver, receiver_3, receiver_with_password, weir_gateway_with_tls};

/// Two gateways under two loads: one load is valid even on a busy host, the other has only error responses.
const SCENARIO: &str = "\
name: watched
question: Do others see what weir sees?
gateways: [weir, nginx]
limits: { data: { cpus: 0.5, memory: 256MiB } }
topology: { domains: 1, paths: [/ping] }
origin: { body: 64B }
loads:
  tail: { model: open, rate: 300/s }
  broken: { model: closed, connections: 2, think: 2ms, mix: [{ path: /ping, checks: { status: [404] } }] }
warmup: 500ms
duration: 2s
repeats: 1
retries: 0
thresholds: { disturbed_share: 1, worker_busy_share: 1, lateness_ns: 3600000000000, completed_share: 0,
  throttled_share: 1, upstream_delay_share: 1, drift_share: 1 }
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A scenario in `folder`.
fn scenario(folder: &Path) -> String {
    let path = folder.join("watched.yaml");
    std::fs::write(&path, SCENARIO).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The ID of the run in `weir.db`; `None` before the run starts.
fn run_id(folder: &Path) -> Option<String> {
    let output = finish(weir(folder, &["runs", "--db", "weir.db", "--json"]));
    let runs: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(runs.as_array()?.first()?["id"].as_str()?.to_owned())
}

#[test]
fn every_query_of_dashboards_and_rules_returns_data_of_a_run() {
    let _host = the_host_alone();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &[]);
    let (gateway, admin) = weir_gateway_with_tls(folder, origin.address);
    let files =
        ["weir-load.yaml", "weir-gateway.yaml"].map(|name| root().join("dashboards/rules").join(name));
    let prometheus = receiver(folder, &[("weir-gateway", admin)], &files);
    let answers = Answers::of(prometheus.address);
    // The gateway in production is under load during the run.
    let beside = format!("http://{}/ping", gateway.address);
    let load = weir(folder, &["load", &beside, "-r", "50/s", "-d", "20s", "--json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (path, url) = (scenario(folder), format!("http://{}", prometheus.address));
    let run = ["run", &path, "--db", "weir.db", "--out", "out", "--json", "--prometheus-write", &url];
    let run = weir(folder, &run).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("the run is stored", || run_id(folder).is_some());
    let id = run_id(folder).unwrap();

    let mut pending: Vec<Query> =
        boards(&root()).iter().flat_map(|board| board.queries(&id, ["tail", "broken"])).collect();
    assert!(pending.len() > 60, "{} queries", pending.len());
    let begun = answers.now_s();
    let run = std::thread::spawn(move || wait(run));
    while !pending.is_empty() && !run.is_finished() {
        pending.retain(|query| !answers.has_data(query, begun));
        std::thread::sleep(Duration::from_millis(500));
    }
    let output = run.join().unwrap();
    let result = json(&output);
    assert!(
        text(&output.stderr).lines().all(|line| !line.contains("not written")),
        "{}",
        text(&output.stderr)
    );
    pending.retain(|query| !answers.has_data(query, begun));
    assert!(pending.is_empty(), "queries without data: {pending:#?}");
    assert_eq!(wait(load).status.code(), Some(0));

    check_rules(&answers, &files);
    check_books(&answers, &result, &id);
    let left = answers.vector(&format!("{{__name__=~\"weir_.+\",run=\"{id}\"}}"));
    assert!(left.is_empty(), "series that have not ended: {left:?}");
}

/// Checks that every rule is evaluated without error, that its series exist, and that the broken load causes alerts.
fn check_rules(answers: &Answers, files: &[PathBuf]) {
    let evaluated = answers.rules();
    let mut names = 0;
    for file in files {
        for (name, expression) in rules(&std::fs::read_to_string(file).unwrap()) {
            names += 1;
            let (health, error) = evaluated.get(&name).unwrap_or_else(|| panic!("{name} is not evaluated"));
            assert_eq!((health.as_str(), error.as_str()), ("ok", ""), "{name}");
            for metric in metrics_of(&expression) {
                let ever = answers.vector(&format!("count_over_time({metric}[15m])"));
                assert!(!ever.is_empty(), "{name}: no series {metric}");
            }
        }
    }
    assert_eq!(names, evaluated.len(), "two rules have the same name");
    for alert in ["WeirLoadInvalid", "WeirLoadErrors"] {
        let fired = format!(
            "count_over_time(ALERTS{{alertname=\"{alert}\",load=\"broken\",alertstate=\"firing\"}}[15m])"
        );
        assert!(!answers.vector(&fired).is_empty(), "{alert} has not fired");
    }
    let quiet = "count_over_time(ALERTS{alertname=\"WeirLoadErrors\",load=\"tail\"}[15m])";
    assert!(answers.vector(quiet).is_empty(), "a load without errors causes an alert");
}

/// Checks that counters and histograms agree exactly with the records of the run.
fn check_books(answers: &Answers, result: &Value, id: &str) {
    let mut loads = 0;
    for cell in result["cells"].as_array().unwrap() {
        let key = &cell["key"];
        for measurement in cell["outcome"]["measurements"].as_array().unwrap() {
            loads += 1;
            let labels = BTreeMap::from([
                ("run", id.to_owned()),
                ("gateway", key["gateway"].as_str().unwrap().to_owned()),
                ("load", measurement["load"].as_str().unwrap().to_owned()),
                ("cell", key["index"].to_string()),
                ("repeat", (key["repeat"].as_u64().unwrap() + 1).to_string()),
            ]);
            check_load(answers, &labels, &measurement["record"]["whole"]);
            check_verdicts(answers, &labels, &measurement["judgement"]["verdicts"]);
        }
    }
    assert_eq!(loads, 6, "two loads of two gateways and direct");
}

fn check_load(answers: &Answers, labels: &BTreeMap<&str, String>, whole: &Value) {
    let count = |name: &str| whole[name].as_u64().unwrap();
    let last = |metric: &str, more: &str| answers.last(&selectors(metric, labels, more));
    assert!(count("sent") > 0);
    assert_eq!(last("weir_load_requests_sent_total", ""), Some(count("sent") as f64), "{labels:?}");
    assert_eq!(last("weir_load_requests_completed_total", ""), Some(count("completed") as f64), "{labels:?}");
    for class in ["unexpected", "failed", "timed_out", "dropped", "in_flight"] {
        let errors = last("weir_load_errors_total", &format!("class=\"{class}\""));
        assert_eq!(errors, Some(count(class) as f64), "{class} of {labels:?}");
    }
    let histogram = answers.last_histogram(&selectors("weir_load_request_duration_seconds", labels, ""));
    assert_eq!(histogram, Some(count("completed")), "{labels:?}");
}

fn check_verdicts(answers: &Answers, labels: &BTreeMap<&str, String>, verdicts: &Value) {
    for reason in verdicts["latency"].as_array().unwrap() {
        let more = format!("metric=\"latency\",reason={reason}");
        assert_eq!(answers.last(&selectors("weir_valid", labels, &more)), Some(0.0), "{labels:?}");
    }
    let is_broken = labels["load"] == "broken";
    let errors = answers.last(&selectors("weir_valid", labels, "metric=\"latency\",reason=\"errors\""));
    assert_eq!(errors, is_broken.then_some(0.0), "{labels:?}");
}

/// Runs `weir load` with these flags. Returns (JSON, standard error).
fn load(folder: &Path, target: SocketAddr, flags: &[&str]) -> (Value, String) {
    let url = format!("http://{target}/ping");
    let arguments = [&["load", &url, "-r", "200/s", "-d", "2s", "--json"], flags].concat();
    let output = finish(weir(folder, &arguments));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    (json(&output), text(&output.stderr))
}

#[test]
fn a_load_is_pushed_and_each_receiver_error_is_reported_once() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &[]);
    let prometheus = receiver(folder, &[], &[]);
    let answers = Answers::of(prometheus.address);
    let url = format!("http://{}", prometheus.address);

    let (result, said) = load(folder, origin.address, &["--prometheus-write", &url]);
    assert!(!said.contains("not written"), "{said}");
    let gateway = format!("gateway=\"{}\"", origin.address);
    let sent = result["requests"]["sent"].as_f64();
    assert_eq!(answers.last(&format!("weir_load_requests_sent_total{{{gateway}}}")), sent, "{result}");
    let cores = answers.last(&format!("weir_part_cpu_cores{{{gateway},role=\"generator\"}}"));
    assert!(cores.is_some_and(|cores| cores >= 0.0), "{cores:?}");

    // Each agent has its own series, which agree with its shard.
    let flags = ["--prometheus-write", &url, "--on", "local:2", "-c", "4"];
    let (result, said) = load(folder, origin.address, &flags);
    assert!(!said.contains("not written"), "{said}");
    let shards = result["shards"].as_array().unwrap();
    assert_eq!(shards.len(), 2, "{result}");
    for shard in shards {
        let own = format!("{gateway},agent={}", shard["agent"]);
        let last = |metric: &str| answers.last(&format!("{metric}{{{own}}}"));
        assert!(shard["requests"]["sent"].as_u64() > Some(0), "{shard}");
        assert_eq!(last("weir_load_requests_sent_total"), shard["requests"]["sent"].as_f64(), "{own}");
        let histogram = answers.last_histogram(&format!("weir_load_request_duration_seconds{{{own}}}"));
        assert_eq!(histogram, shard["requests"]["completed"].as_u64(), "{own}");
    }
    let left = answers.vector(&format!("{{{gateway}}}"));
    assert!(left.is_empty(), "series that have not ended: {left:?}");

    // This Prometheus does not support version 2.0 of remote write. It finds no series in the body and still reports
    // success.
    let second = ["--prometheus-write", &url, "--prometheus-write-version", "2"];
    let (_, said) = load(folder, origin.address, &second);
    assert!(said.contains("use `--prometheus-write-version 1`"), "{said}");

    let check = |flags: &[&str], words: &[&str]| {
        let (result, said) = load(folder, origin.address, flags);
        assert!(result["requests"]["completed"].as_u64() > Some(0));
        let lines: Vec<&str> = said.lines().filter(|line| line.contains("not written")).collect();
        assert_eq!(lines.len(), 1, "{said}");
        assert!(words.iter().all(|word| lines[0].contains(word)), "{words:?}: {said}");
    };
    let gone = format!("http://127.0.0.1:{}", free_port());
    check(&["--prometheus-write", &gone], &[&gone, "check that the receiver runs"]);
    check(&["--otlp", &gone], &[&format!("{gone}/v1/metrics"), "check that the receiver runs"]);
    let wrong = format!("{url}/api/v1/nothing");
    check(&["--prometheus-write", &wrong], &["HTTP status 404", "--web.enable-remote-write-receiver"]);
}

#[test]
fn credentials_come_from_the_environment() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &[]);
    let prometheus = receiver_with_password(folder);
    let url = format!("http://{}", prometheus.address);
    let pushed = |headers: &str| {
        let target = format!("http://{}/ping", origin.address);
        let mut command =
            weir(folder, &["load", &target, "-r", "200/s", "-d", "1s", "--prometheus-write", &url]);
        command.env("WEIR_PROMETHEUS_WRITE_HEADERS", headers);
        let output = finish(command);
        (output.status.code(), text(&output.stderr))
    };
    let (code, said) = pushed("Authorization=Basic%20d2VpcjphCg");
    assert!(code == Some(0) && said.contains("HTTP status 401"), "{said}");
    assert!(said.contains("put credentials into WEIR_PROMETHEUS_WRITE_HEADERS"), "{said}");
    let (code, said) = pushed("Authorization=Basic%20d2Vpcjph");
    assert!(code == Some(0) && !said.contains("not written"), "{said}");
    let (code, said) = pushed("d2VpcjphCg");
    assert!(code == Some(2) && said.contains("header 1 does not have the form name=value"), "{said}");
    assert!(!said.contains("d2Vp"), "{said}");
}

#[test]
fn remote_write_2_and_otlp_have_the_same_counts() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let origin = Origin::start(folder, free_port(), &[]);
    let prometheus = receiver_3(folder);
    let answers = Answers::of(prometheus.address);
    let url = format!("http://{}", prometheus.address);
    let otlp = format!("{url}/api/v1/otlp/v1/metrics");
    let flags = ["--prometheus-write", &url, "--prometheus-write-version", "2", "--otlp", &otlp];
    let (result, said) = load(folder, origin.address, &flags);
    assert!(!said.contains("not written"), "{said}");
    let count = |name: &str| result["requests"][name].as_u64().unwrap();
    assert!(count("completed") > 0);
    let check = |gateway: &str, histogram: &str| {
        let own = format!("{gateway}=\"{}\"", origin.address);
        let last = |metric: &str| answers.last(&format!("{metric}{{{own}}}"));
        assert_eq!(last("weir_load_requests_sent_total"), Some(count("sent") as f64), "{gateway}");
        assert_eq!(last("weir_load_requests_completed_total"), Some(count("completed") as f64), "{gateway}");
        let latencies = answers.last_histogram(&format!("{histogram}{{{own}}}"));
        assert_eq!(latencies, Some(count("completed")), "{gateway}");
        assert!(!answers.vector(&format!("last_over_time(weir_valid{{{own}}}[15m])")).is_empty());
        let left = answers.vector(&format!("{{{own}}}"));
        assert!(left.is_empty(), "series that have not ended: {left:?}");
    };
    check("gateway", "weir_load_request_duration_seconds");
    check("weir_gateway", "http_client_request_duration_seconds");
    let port = format!("http_client_request_duration_seconds{{server_port=\"{}\"}}", origin.address.port());
    assert_eq!(
        answers.last_histogram(&port),
        Some(count("completed")),
        "no attributes of the semantic conventions for HTTP"
    );
}

#[test]
fn an_invalid_url_is_rejected_before_any_load() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        finish(weir(folder.path(), &["load", "http://127.0.0.1:9/", "--prometheus-write", "127.0.0.1:9090"]));
    assert_eq!(output.status.code(), Some(2));
    let said = text(&output.stderr);
    assert!(said.contains("--prometheus-write: 127.0.0.1:9090: ") && said.contains("help: "), "{said}");
}
