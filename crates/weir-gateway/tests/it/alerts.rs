//! The alerts in dashboards/rules: promtool accepts them, and they name existing metrics, labels and causes. Each alert
//! fires in its case and in no other. `docs/operations.md` names the alerts with `severity: page`.

use std::collections::BTreeSet;
use std::process::Command;

use rcgen::PKCS_ECDSA_P256_SHA256;
use serde_json::{Value, json};
use weir_dataplane::Cause;

use crate::process::{Gateway, ask, config, connect, origin, peer};
use crate::tls::Authority;

const RULES: &str = include_str!("../../../../dashboards/rules/weir-gateway.yaml");
const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// Labels that Prometheus itself adds.
const LABELS_OF_PROMETHEUS: [&str; 3] = ["job", "instance", "le"];

/// Three strings: the name of a series, values that make an alert fire, and values that do not. Each of the two lists
/// of values covers half an hour, one value per minute.
type Series = (&'static str, &'static str, &'static str);

/// The series that make each alert fire.
const CASES: [(&str, &[Series]); 20] = [
    ("WeirGatewayGone", &[("up", "0x30", "1x30")]),
    (
        "WeirGatewayErrors",
        &[
            ("weir_errors_total{cause='upstream_closed',listener='l'}", "0+60x30", "0+1x30"),
            ("weir_errors_total{cause='no_route',listener='l'}", "0+0x30", "0+6000x30"),
            ("weir_requests_total{listener='l'}", "0+600x30", "0+6000x30"),
        ],
    ),
    (
        "WeirBackendErrors",
        &[
            ("weir_route_responses_total{backend='b',group='g',status='5xx'}", "0+60x30", "0+1x30"),
            ("weir_route_responses_total{backend='b',group='g',status='2xx'}", "0+600x30", "0+600x30"),
        ],
    ),
    ("WeirBackendOut", &[("weir_upstream_endpoints_out{backend='b'}", "1x30", "0x30")]),
    ("WeirBackendAllOut", &[("weir_upstream_panics_total{backend='b'}", "0+1x30", "7x30")]),
    (
        "WeirUpstreamConnects",
        &[
            ("weir_upstream_connect_failures_total{backend='b'}", "0+60x30", "0+1x30"),
            ("weir_upstream_connects_total{backend='b'}", "0+120x30", "0+120x30"),
        ],
    ),
    ("WeirBackendLimit", &[("weir_upstream_overflows_total{backend='b'}", "0+1x30", "7x30")]),
    (
        "WeirRetriesOverBudget",
        &[("weir_upstream_retries_over_budget_total{backend='b'}", "0+120x30", "0+1x30")],
    ),
    (
        "WeirSlow",
        &[
            ("weir_request_duration_seconds_bucket{backend='b',le='1'}", "0+10x30", "0+1000x30"),
            ("weir_request_duration_seconds_bucket{backend='b',le='2.5'}", "0+1000x30", "0+1000x30"),
            ("weir_request_duration_seconds_bucket{backend='b',le='+Inf'}", "0+1000x30", "0+1000x30"),
        ],
    ),
    (
        "WeirConnections",
        &[
            ("weir_connections_open{listener='a'}", "5000x30", "3000x30"),
            ("weir_connections_open{listener='b'}", "5000x30", "3000x30"),
        ],
    ),
    ("WeirUpstreamConnections", &[("weir_upstream_connections_open{backend='b'}", "7000x30", "6000x30")]),
    ("WeirOverloaded", &[("weir_requests_shed_total{reason='memory'}", "0+1x30", "7x30")]),
    ("WeirNoDescriptors", &[("weir_accept_pauses_total", "0+1x30", "7x30")]),
    ("WeirConfigurationRefused", &[("weir_reloads_refused_total", "0+1x30", "7x30")]),
    (
        "WeirConfigurationsDiffer",
        &[
            ("weir_worker_table_version{worker='0'}", "3x30", "4x30"),
            ("weir_worker_table_version{worker='1'}", "4x30", "4x30"),
        ],
    ),
    ("WeirNameLookups", &[("weir_name_lookup_failures_total", "0+1x30", "7x30")]),
    (
        "WeirHandshakes",
        &[
            ("weir_tls_handshakes_failed_total{listener='l'}", "0+60x30", "0+1x30"),
            ("weir_tls_handshakes_total{listener='l'}", "0+600x30", "0+600x30"),
        ],
    ),
    (
        "WeirHandshakesDelayed",
        &[("weir_tls_handshakes_delayed_total{listener='l'}", "0+120000x30", "0+60x30")],
    ),
    // The clock of promtool starts in 1970.
    (
        "WeirCertificateEnds",
        &[("weir_certificate_expiry_timestamp_seconds{listener='l'}", "86400x30", "7776000x30")],
    ),
    ("WeirLogLinesLost", &[("weir_access_log_dropped_total{reason='queue'}", "0+1x30", "7x30")]),
];

/// The values of this field in the rules file, in order.
fn each(field: &str) -> Vec<&'static str> {
    RULES.lines().filter_map(|line| line.trim_start_matches([' ', '-']).strip_prefix(field)).collect()
}

/// Metric names in an expression.
fn metrics(expression: &str) -> BTreeSet<&str> {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    expression.split(|c: char| !is_of_name(c)).filter(|word| word.starts_with("weir_")).collect()
}

/// The name of the metric family to which this series belongs.
fn family(metric: &str) -> &str {
    metric.strip_suffix("_bucket").unwrap_or(metric)
}

/// Labels in an expression: in braces, and after `by` and `on`.
fn labels(expression: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for (_, rest) in expression.match_indices('{').map(|(at, _)| expression.split_at(at + 1)) {
        let inside = rest.split('}').next().unwrap_or_default();
        found.extend(inside.split('"').step_by(2).filter_map(|part| {
            let name = part.trim_matches([',', ' ']).trim_end_matches(['=', '~', '!']);
            (!name.is_empty()).then_some(name)
        }));
    }
    for word in ["by (", "on ("] {
        for (at, _) in expression.match_indices(word) {
            let list = expression[at + word.len()..].split(')').next().unwrap_or_default();
            found.extend(list.split(", "));
        }
    }
    found
}

/// Runs promtool on a file with the content `text`. Returns whether promtool accepts the file, and what promtool
/// printed.
fn promtool(words: &[&str], name: &str, text: &str) -> (bool, String) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(dir.path().join("rules.yaml"), RULES).expect("a file");
    std::fs::write(dir.path().join(name), text).expect("a file");
    let mut command = Command::new(peer("promtool"));
    let output = command.current_dir(dir.path()).args(words).arg(name).output().expect("it starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn promtool_accepts_the_rules() {
    let (is_good, said) = promtool(&["check", "rules"], "rules.yaml", RULES);
    assert!(is_good && said.contains(&format!("SUCCESS: {} rules found", CASES.len())), "{said}");
}

/// Returns the labels of a metric in the output of `/metrics`. Panics if the output contains no sample of the metric.
fn labels_of<'e>(exposed: &'e str, metric: &str) -> BTreeSet<&'e str> {
    let is_sample = |line: &&str| line.strip_prefix(metric).is_some_and(|rest| rest.starts_with(['{', ' ']));
    let mut samples = exposed.lines().filter(is_sample).peekable();
    assert!(samples.peek().is_some(), "no sample of {metric}");
    samples.flat_map(labels).collect()
}

/// Metrics of a gateway that has a certificate and has served one request. They include every series that a rule can
/// name.
fn exposed() -> String {
    let dir = tempfile::tempdir().expect("a temporary folder");
    Authority::new(dir.path()).sign(&dir.path().join("own"), &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let plain = config(origin().0);
    let secure = ", { address: 127.0.0.1:0, name: secure, tls: { certificate: own.pem, key: own.key } }]";
    let text = plain.replacen(']', secure, 1);
    let gateway = Gateway::spawn_in(dir, &text, Command::new(env!("CARGO_BIN_EXE_weir-gateway")));
    assert!(ask(&mut connect(gateway.address)).is_some());
    let series = "\nweir_request_duration_seconds_bucket{";
    gateway.wait_for("the first request", |gateway| gateway.admin("/metrics").contains(series));
    gateway.admin("/metrics")
}

#[test]
fn rules_name_existing_metrics_labels_and_causes() {
    let exposed = exposed();
    for metric in metrics(OPERATIONS) {
        assert!(exposed.contains(&format!("\n# TYPE {} ", family(metric))), "{metric} is no metric");
    }
    let (expressions, annotations) = (each("expr: "), each("annotations: "));
    assert_eq!((expressions.len(), annotations.len()), (CASES.len(), CASES.len()));
    for (expression, annotation) in expressions.iter().zip(annotations) {
        let mut known: BTreeSet<&str> = LABELS_OF_PROMETHEUS.into();
        for metric in metrics(expression) {
            known.extend(labels_of(&exposed, metric));
        }
        let annotated = annotation
            .split("$labels.")
            .skip(1)
            .map(|rest| rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default());
        for label in labels(expression).into_iter().chain(annotated) {
            assert!(known.contains(label), "{expression} has no label {label}, only {known:?}");
        }
    }
    let (_, rest) = RULES.split_once("cause=~\"").expect("causes");
    for cause in rest.split('"').next().unwrap_or_default().split('|') {
        let is_of = |name: &str| match cause.strip_suffix(".*") {
            Some(start) => name.starts_with(start),
            None => name == cause,
        };
        assert!(Cause::ALL.iter().any(|cause| is_of(cause.name())), "{cause} is no cause");
    }
}

/// A promtool test of the rules with these series. `firing` is the expected number of alerts that match `selector`;
/// `None` means no alert.
fn case(series: Vec<(String, &str)>, selector: &str, firing: Option<u32>) -> Value {
    let series: Vec<Value> =
        series.into_iter().map(|(name, values)| json!({ "series": name, "values": values })).collect();
    let expected: Vec<Value> =
        firing.into_iter().map(|count| json!({ "labels": "{}", "value": count })).collect();
    json!({
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            { "expr": format!("count(ALERTS{selector})"), "eval_time": "25m", "exp_samples": expected },
        ],
    })
}

/// The series with the labels that Prometheus adds when it scrapes a gateway.
fn scraped(series: &str) -> String {
    let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
    format!("{name}{{job='weir-gateway',instance='a',{labels}").replace(",}", "}")
}

#[test]
fn each_alert_fires_only_in_its_case() {
    assert_eq!(each("alert: "), CASES.map(|(alert, _)| alert));
    let of = |(alert, series): &(&str, &[Series])| {
        let series = series.iter().map(|(name, values, _)| (scraped(name), *values)).collect();
        case(series, &format!("{{alertname='{alert}',alertstate='firing'}}"), Some(1))
    };
    let mut cases: Vec<Value> = CASES.iter().map(of).collect();
    let quiet = CASES.iter().flat_map(|(_, series)| series.iter());
    cases.push(case(quiet.map(|(name, _, values)| (scraped(name), *values)).collect(), "", None));
    let text =
        json!({ "rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases }).to_string();
    let (is_good, said) = promtool(&["test", "rules"], "tests.yaml", &text);
    assert!(is_good, "{said}");
}

#[test]
fn the_operations_page_names_the_alerts_that_page_somebody() {
    assert!(OPERATIONS.contains("dashboards/rules/weir-gateway.yaml"));
    let paging: BTreeSet<&str> = RULES
        .split("- alert: ")
        .skip(1)
        .filter(|rule| rule.contains("{ severity: page }"))
        .filter_map(|rule| rule.split_whitespace().next())
        .collect();
    let named: BTreeSet<&str> = OPERATIONS
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| word.len() > "Weir".len() && word.starts_with("Weir"))
        .collect();
    assert_eq!(named, paging);
}
