//! Invalid scenarios and overrides: each gives one error with its location and a remedy.

use weir_lab::{LabError, Overrides, Source};

use crate::{EXAMPLE, read, read_with};

const HEAD: &str = "name: x\ngateways: [weir]\n";
pub(crate) const LOADS: &str = "loads: { full: { model: closed } }\n";

#[track_caller]
pub(crate) fn said(result: Result<impl std::fmt::Debug, LabError>, expected: &str) {
    let error = result.expect_err(expected);
    assert_eq!(format!("{error} | {}", error.remedy()), expected);
    assert!(error.is_wrong_use(), "{error:?}");
}

/// Puts `text` between two valid lines and valid loads, and checks the only error of this scenario.
#[track_caller]
pub(crate) fn check(text: &str, expected: &str) {
    said(read(&format!("{HEAD}{text}{LOADS}")), expected);
}

/// Appends `loads` to two valid lines, and checks the only error of this scenario.
#[track_caller]
pub(crate) fn check_loads(loads: &str, expected: &str) {
    said(read(&format!("{HEAD}{loads}")), expected);
}

#[track_caller]
fn check_overrides(overrides: Overrides, expected: &str) {
    said(read_with(EXAMPLE, &overrides), expected);
}

fn set(set: &str) -> Overrides {
    Overrides { set: vec![set.into()], ..Overrides::default() }
}

#[test]
fn unknown_fields_suggest_the_closest_name() {
    check("durations: 10s\n", "side.yaml:3:1: unknown field `durations` | did you mean `duration`?");
    check("topology: { path: [/a] }\n", "side.yaml:3:13: unknown field `path` | did you mean `paths`?");
    check("limits: { dta: { cpus: 1 } }\n", "side.yaml:3:11: unknown field `dta` | did you mean `data`?");
    check("objective: { p97: 20ms }\n", "side.yaml:3:14: unknown field `p97` | did you mean `p90`?");
    check(
        "thresholds: { throtled_share: 0.1 }\n",
        "side.yaml:3:15: unknown field `throtled_share` | did you mean `throttled_share`?",
    );
    check_loads(
        "loads: { full: { modle: closed } }\n",
        "side.yaml:3:18: unknown field `modle` | did you mean `model`?",
    );
}

#[test]
fn values_of_the_wrong_type_show_the_right_form() {
    check(
        "duration: 10\n",
        "side.yaml:3:11: `10` has no unit | write a time with its unit, like 100us, 20ms, 1.5s, 2m",
    );
    check(
        "origin: { body: 64 }\n",
        "side.yaml:3:17: `64` has no unit | write a size with its unit, like 64B, 64KiB, 10MB, 1GiB",
    );
    check_loads(
        "loads: { tail: { model: opne, rate: 5/s } }\n",
        "side.yaml:3:25: unknown value `opne` | did you mean `open`?",
    );
    check(
        "repeats: many\n",
        "side.yaml:3:10: `many` is not a whole number (0 or more) | write a whole number (0 or more)",
    );
}

#[test]
fn unsupported_fields_are_rejected_by_name() {
    let said = "this field is not supported yet | remove the field; it is reserved for a later version";
    check("services: [etcd]\n", &format!("side.yaml:3:11: services: {said}"));
    check("network: { delay: 1ms }\n", &format!("side.yaml:3:19: network.delay: {said}"));
    check("mixes: {}\n", &format!("side.yaml:3:8: mixes: {said}"));
    check_overrides(set("limits.services={}"), &format!("--set limits.services={{}}: {said}"));
}

#[test]
fn invalid_popularities_and_cold_starts_are_rejected() {
    check_loads(
        "loads: { x: { model: closed, popularity: zipf, mix: [{ path: / }] } }\n",
        "side.yaml:3:42: loads.x.popularity: `popularity` and `mix` cannot be combined | remove `popularity`; \
         in a mix, set the `weight` of each request",
    );
    check_loads(
        "loads: { x: { model: closed, popularity: even } }\n",
        "side.yaml:3:42: `even` is not a popularity | use uniform, zipf, or zipf with an exponent, like zipf:0.9",
    );
    said(
        read(&format!(
            "name: x\ngateways: [{{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }}]\ncold_start: \
             true\n{LOADS}"
        )),
        "side.yaml:3:13: cold_start: weir cannot start a remote gateway | remove `cold_start`",
    );
    let error = read(&format!(
        "name: x\ngateways: [{{ name: mine, driver: nginx, config: my.conf }}]\ncold_start: true\n{LOADS}"
    ));
    let error = error.unwrap_err();
    let [cold_start, no_file] = error.each() else { panic!("{error}") };
    assert_eq!(
        cold_start.to_string(),
        "side.yaml:3:13: cold_start: `mine` uses `config`, so weir cannot recognize the first response of this gateway"
    );
    assert!(no_file.to_string().contains("gateways[0].config: "), "{no_file}");
}

#[test]
fn invalid_slow_clients_are_rejected() {
    check(
        "slow: {}\n",
        "side.yaml:3:7: slow: the number of slow clients is out of range: 0 | use 1 to 100000 for `heads`, `bodies` \
         and `responses` together",
    );
    check(
        "slow: { heads: 1, piece: 0B }\n",
        "side.yaml:3:26: slow.piece: `0B` is out of range | use 1B to \
        1MiB, like 16B",
    );
    check(
        "slow: { heads: 1, every: 0s }\n",
        "side.yaml:3:26: slow.every: `0s` is out of range | use at least \
        1ms, like 1s",
    );
    check(
        "slow: { heads: 1, loads: [ful] }\n",
        "side.yaml:3:27: slow.loads[0]: unknown load `ful` | did you mean `full`?",
    );
    check(
        "slow: { heads: 1 }\ntopology: { tls: true }\n",
        "side.yaml:3:7: slow: slow clients send plain HTTP, but the gateways listen for TLS | remove `slow`, or \
         `tls` from the topology",
    );
}

#[test]
fn invalid_silent_connections_are_rejected() {
    let check_silent = |silent: &str, expected: &str| check(&format!("silent: {{ {silent} }}\n"), expected);
    check_silent(
        "connections: 0, at: 1s, hold: 1s",
        "side.yaml:3:24: silent.connections: `0` is out of range | use 1 to 100000",
    );
    check_silent(
        "connections: 100001, at: 1s, hold: 1s",
        "side.yaml:3:24: silent.connections: `100001` is out of range | use 1 to 100000",
    );
    check_silent(
        "connections: 1, at: 1s, hold: 0s",
        "side.yaml:3:41: silent.hold: the time is zero | use a longer time, like 5s",
    );
    check_silent(
        "connections: 1, at: 50s, hold: 11s",
        "side.yaml:3:42: silent.hold: the silent connections are closed at 61s, after the end of load `full`, which \
         lasts 1m | use shorter times, or a longer load",
    );
    check_silent(
        "connections: 1, at: 1s, hold: 1s, loads: [ful]",
        "side.yaml:3:53: silent.loads[0]: unknown load `ful` | did you mean `full`?",
    );
}

#[test]
fn invalid_tls_and_tokens_are_rejected() {
    check(
        "topology: { client_certificate: required }\n",
        "side.yaml:3:33: topology.client_certificate: client certificates need TLS | add `tls: true` to the \
         topology, or remove `client_certificate`",
    );
    check(
        "topology: { certificates: each }\n",
        "side.yaml:3:27: topology.certificates: certificates need TLS | add `tls: true` to the topology, or \
         remove `certificates`",
    );
    check(
        "topology: { bearer: 100001 }\n",
        "side.yaml:3:21: topology.bearer: `100001` is out of range | use at \
        most 100000",
    );
    let of_load = |topology: &str, load: &str| {
        format!("topology: {{ {topology} }}\nloads: {{ x: {{ model: closed, {load} }} }}\n")
    };
    for (field, column) in [("ca: x.pem", 41), ("insecure: true", 47), ("sni: a.test", 42)] {
        let name = field.split(':').next().unwrap();
        check_loads(
            &of_load("tls: true", &format!("tls: {{ {field} }}")),
            &format!(
                "side.yaml:4:{column}: loads.x.tls.{name}: weir creates the certificates of every cell, so a load \
                 cannot set `{name}` | remove `{name}`: a load can set only `version` and `resumption`"
            ),
        );
    }
    check_loads(
        &of_load("bearer: 2", "tokens: mine.txt"),
        "side.yaml:4:38: loads.x.tokens: `tokens` and `topology.bearer` cannot be combined: a gateway accepts \
         the tokens of the load or the tokens of the topology | remove one of the two",
    );
}

#[test]
fn unavailable_network_namespaces_are_an_error_of_the_host() {
    let said = "cannot create network namespaces: this user is not allowed to create network namespaces | \
                run weir as root, or use `network: loopback`, which needs no privileges";
    let by_set = set("network=namespaces");
    for (place, result) in [
        ("side.yaml:3:10", read(&format!("{HEAD}network: namespaces\n{LOADS}"))),
        ("--set network=namespaces", read_with(EXAMPLE, &by_set)),
        ("side.yaml:3:18", read(&format!("{HEAD}vary: {{ network: [loopback, namespaces] }}\n{LOADS}"))),
    ] {
        let error = result.unwrap_err();
        assert!(format!("{error} | {}", error.remedy()).ends_with(said), "{error}");
        assert!(error.to_string().starts_with(place), "{error}");
        assert!(!error.is_wrong_use(), "{error:?}");
    }
    check("network: namespace\n", "side.yaml:3:10: unknown value `namespace` | did you mean `namespaces`?");
}

#[test]
fn invalid_values_are_located() {
    check("duration: 0s\n", "side.yaml:3:11: duration: the duration is zero | use a longer time, like 10s");
    check("timeout: 0s\n", "side.yaml:3:10: timeout: the timeout is zero | use a longer time, like 10s");
    check(
        "repeats: 0\n",
        "side.yaml:3:10: repeats: `0` is out of range | use 1 to 1000; a headline result needs \
        at least 3 repeats",
    );
    check("retries: 101\n", "side.yaml:3:10: retries: `101` is out of range | use 0 to 100");
    check("workers: 0\n", "side.yaml:3:10: workers: `0` is out of range | use 1 to 1024");
    check(
        "topology: { paths: [ping] }\n",
        "side.yaml:3:21: topology.paths[0]: path `ping` does not start with a slash | write `/ping`",
    );
    check(
        "topology: { paths: [/a, /a] }\n",
        "side.yaml:3:25: topology.paths[1]: duplicate value `/a` | remove one of the two",
    );
    check(
        "topology: { paths: 0 }\n",
        "side.yaml:3:20: topology.paths: the topology has no paths | give the number of paths, or a list like \
         [/ping]",
    );
    check(
        "topology: { domains: 0 }\n",
        "side.yaml:3:22: topology.domains: `0` is out of range | use 1 to 100000",
    );
    check(
        "limits: { data: { cpus: 0 } }\n",
        "side.yaml:3:25: limits.data.cpus: `0` is out of range | use at least 0.01, or remove the limit",
    );
    check(
        "limits: { data: { memory: 1KiB } }\n",
        "side.yaml:3:27: limits.data.memory: the memory limit of 1KiB is too small for any process to start | \
         use at least 4MiB, or remove the limit",
    );
    check(
        "origin: { delay: 1ms }\n",
        "side.yaml:3:18: `1ms` is not a delay | write one like none, const:5ms, uniform:1ms..9ms, exp:5ms (its \
         mean), lognormal:5ms,0.5 (median and sigma) or bimodal:1ms,20ms,10% (two values, share of the second)",
    );
    check(
        "objective: {}\n",
        "side.yaml:3:12: objective: the objective has no limits | limit a latency or the errors, like { p99: \
         20ms, errors: 0.1% }, or remove the objective",
    );
    check(
        "thresholds: { error_share: 7 }\n",
        "side.yaml:3:28: thresholds.error_share: `7` is out of range | \
        use a share from 0 to 1",
    );
    check(
        "thresholds: { drift_share: -1 }\n",
        "side.yaml:3:28: thresholds.drift_share: `-1` is out of range | \
        use a share from 0 to 1",
    );
    check(
        "thresholds: { warmup_growth: 0.5 }\n",
        "side.yaml:3:30: thresholds.warmup_growth: `0.5` is out of range | use 1 to 10; with 1, the \
         warm-up does not grow",
    );
    check(
        "thresholds: { interval_share: 0 }\n",
        "side.yaml:3:31: thresholds.interval_share: `0` is out of range | use a share above 0, like 0.1, or \
         remove the threshold",
    );
    check(
        "origin: { drift: 1ms }\n",
        "side.yaml:3:18: `1ms` is not a drift | write one like 1ms/10s (adds 1 ms every 10 s)",
    );
}

#[test]
fn invalid_loads_are_located() {
    check_loads(
        "loads: {}\n",
        "side.yaml:3:8: loads: the scenario has no loads | add a load, like `loads: { full: { model: closed, \
         connections: 10 } }`",
    );
    said(
        read(HEAD),
        "side.yaml: loads: the scenario has no loads | add a load, like `loads: { full: { model: closed, \
         connections: 10 } }`",
    );
    check_loads(
        "loads: { full: { model: closed, connections: 0 } }\n",
        "side.yaml:3:46: loads.full.connections: the load has no connections | use at least 1",
    );
    check_loads(
        "workers: 4\nloads: { full: { model: closed, connections: 2 } }\n",
        "side.yaml:4:46: loads.full.connections: 2 connections cannot be shared by 4 workers | use at least 1 \
         connection per worker",
    );
    check_loads(
        "loads: { tail: { model: open } }\n",
        "side.yaml:3:16: loads.tail.rate: an open load needs a rate | add a rate, like `rate: 5000/s`, or use \
         `model: closed`",
    );
    check_loads(
        "loads: { tail: { model: open, rate: 0/s } }\n",
        "side.yaml:3:37: `0/s` is not above zero | write a rate like 5000/s, 300/m",
    );
    check_loads(
        "loads: { full: { model: closed, rate: 5/s } }\n",
        "side.yaml:3:39: loads.full.rate: a closed load cannot have a rate | remove the rate, or use `model: open`",
    );
    check_loads(
        "loads: { full: { model: closed }, full: { model: closed } }\n",
        "side.yaml:3:35: duplicate field `full` | remove one of them",
    );
}

#[test]
fn invalid_shapes_and_mixes_are_located() {
    let load = |fields: &str, expected: &str| {
        check_loads(&format!("loads: {{ x: {{ model: {fields} }} }}\n"), expected);
    };
    load(
        "closed, connections: many",
        "side.yaml:3:43: `many` is not a whole number | \
         write it like `32`, `1..60` (ramp), `1..60..5` or `1,10,60` (steps)",
    );
    load(
        "closed, connections: 1..8, requests: 5",
        "side.yaml:3:43: loads.x.connections: a request count cannot limit a ramp | use a duration",
    );
    load(
        "open, rate: 1/s..9/s, connections: '1,2'",
        "side.yaml:3:34: loads.x.rate: steps and a ramp cannot be combined | remove one of the two",
    );
    load(
        "open, rate: [1/s, 2/s, 3/s], connections: [1, 2]",
        "side.yaml:3:34: loads.x.rate: `connections` has 2 steps, but `rate` has 3 | use the same number of steps in both \
         fields, or a single value in one of them",
    );
    load(
        "open, rate: 5/s, burst: 9/s:1s/1s",
        "side.yaml:3:46: loads.x.burst: the length of a burst must be longer than zero and shorter than its \
         interval | use a burst like 5000/s:200ms/1s: its length is 200ms, its interval 1s",
    );
    load(
        "open, rate: 5/s, think: 1ms",
        "side.yaml:3:46: loads.x.think: an open load cannot have think time | remove `think`: an open load does not \
         wait for responses",
    );
    load(
        "closed, streams: 4",
        "side.yaml:3:39: loads.x.streams: HTTP/1.1 has no streams | add `protocol: http2`, or remove `streams`",
    );
    load(
        "closed, per_connection: 0",
        "side.yaml:3:46: loads.x.per_connection: `0` is out of range | use at least 1",
    );
    load(
        "closed, tls: { insecure: true }",
        "side.yaml:3:35: loads.x.tls: the gateways do not listen for TLS | add `tls: true` to the topology, or \
         remove `tls` from the load",
    );
    load(
        "closed, protocol: http2",
        "side.yaml:3:40: loads.x.protocol: the gateways listen for HTTP/1.1 only | remove `protocol`; `weir load \
         --http2` sends HTTP/2 to any server",
    );
    load(
        "closed, mix: [{ path: /a }]",
        "side.yaml:3:44: loads.x.mix[0].path: no route matches `/a` | add the path to `topology.paths`",
    );
    load(
        "closed, mix: [{ path: /, checks: { status: [2000] } }]",
        "side.yaml:3:66: `2000` is not a status code | use a code like 200 or a class like 2xx",
    );
    load(
        "closed, file: no/such",
        "side.yaml:3:36: loads.x.file: no/such: cannot read the file: No such file or directory (os error 2) | \
         correct the path",
    );
    load(
        "closed, file: a, mix: [{ path: / }]",
        "side.yaml:3:36: loads.x.file: `mix` and `file` cannot be combined | remove one of the two",
    );
    load(
        "closed, mix: [{ path: /, body: '@no/such' }]",
        "side.yaml:3:35: loads.x.mix.body: cannot read no/such: No such file or directory (os error 2) | \
         correct the path",
    );
}

#[test]
fn unknown_and_duplicate_gateways_are_rejected() {
    said(
        read(&format!("name: x\ngateways: [weir, nginy]\n{LOADS}")),
        "side.yaml:2:18: gateways[1]: unknown gateway or driver `nginy` | did you mean `nginx`?",
    );
    said(
        read(&format!("name: x\ngateways: [weir, {{ name: a, driver: traefik }}]\n{LOADS}")),
        "side.yaml:2:18: gateways[1]: unknown gateway or driver `traefik` | known drivers: contour, envoy, gorouter, \
         haproxy, kubegateway, nginx, weir",
    );
    said(
        read(&format!("name: x\ngateways: [weir, nginx, weir]\n{LOADS}")),
        "side.yaml:2:25: gateways[2]: duplicate gateway name `weir` | rename one of them, like { name: weir-2, \
         driver: weir }",
    );
    said(
        read(&format!("name: x\ngateways: []\n{LOADS}")),
        "side.yaml:2:11: gateways: the scenario has no gateways | add at least one of: contour, envoy, gorouter, haproxy, \
         kubegateway, nginx, weir",
    );
    said(
        read(&format!("name: x\ngateways: [{{ name: direct, driver: nginx }}]\n{LOADS}")),
        "side.yaml:2:12: gateways[0]: `direct` is the name of the direct baseline, which weir always measures | \
         choose another name",
    );
    said(read(&format!("name: x\n{LOADS}")), "side.yaml:2:1: missing field `gateways` | add `gateways`");
    said(
        read(&format!("name: x\ngateways: [7]\n{LOADS}")),
        "side.yaml:2:12: `7` is not a driver name or a mapping like { name: old, driver: nginx } | \
         write a driver name or a mapping like { name: old, driver: nginx }",
    );
}

#[test]
fn errors_of_axes_name_the_axis() {
    check(
        "vary: { limits.data.cpus: [] }\n",
        "side.yaml:3:27: vary.limits.data.cpus: the axis has no values | add values, or remove the axis",
    );
    check(
        "vary: { limits.origin.cpus: fitted }\n",
        "side.yaml:3:29: vary.limits.origin.cpus: `fitted` is not supported here | use a list of values; only \
         `limits.data.cpus` can be `fitted`",
    );
    check(
        "vary: { limits.data.cpus: fited }\n",
        "side.yaml:3:27: unknown value `fited` | did you mean `fitted`?",
    );
    check(
        "vary: { limits.dta.cpus: [1] }\n",
        "side.yaml:3:26: `limits.dta.cpus: 1`: unknown field `dta` | did you mean `data`?",
    );
    check(
        "vary: { loads.ful.connections: [1] }\n",
        "side.yaml:3:32: `loads.ful.connections: 1`: unknown load `ful` | did you mean `full`?",
    );
    check(
        "vary: { loads.full.connections: [1, 0] }\n",
        "side.yaml:3:33: `loads.full.connections: 0`: the load has no connections | use at least 1",
    );
    check(
        "vary: { duration: [1s, 2] }\n",
        "side.yaml:3:19: `duration: 2`: `duration`: `2` has no unit | \
         write a time with its unit, like 100us, 20ms, 1.5s, 2m",
    );
    check(
        "vary: { repeats: [1, 2] }\n",
        "side.yaml:3:18: `repeats: 1`: `repeats` applies to the whole run and cannot vary | vary a field of \
         limits, topology, origin or loads, or gateways.NAME.set.SETTING; or start two runs",
    );
    check(
        "vary: { limits.data.cpus: [1, 1] }\n",
        "side.yaml:3:7: vary: combinations 1 and 2 are the same | remove one of the equal values",
    );
    check(
        "cases: [{ limits.data.memory: 1GiB }, { limits.data.memory: 1024MiB }]\n",
        "side.yaml:3:8: cases: combinations 1 and 2 are the same | remove one of the equal values",
    );
    check("cases: [{}]\n", "side.yaml:3:9: cases[0]: the case is empty | add a value, or remove the case");
    check(
        "cases: [{ topology: { domains: 0 } }]\n",
        "side.yaml:3:8: `topology.domains: 0`: `0` is out of range | use 1 to 100000",
    );
}

#[test]
fn errors_of_overrides_name_the_argument() {
    check_overrides(
        set("limits.data.cpu=1"),
        "--set limits.data.cpu=1: unknown field `cpu` | did you mean `cpus`?",
    );
    check_overrides(
        set("duration"),
        "--set duration: the value is missing | use the form --set \
        limits.data.cpus=0.5",
    );
    check_overrides(
        set("duration=0s"),
        "--set duration=0s: the duration is zero | use a longer time, like 10s",
    );
    check_overrides(
        set("loads.tial.rate=1/s"),
        "--set loads.tial.rate=1/s: unknown load `tial` | did you mean `tail`?",
    );
    check_overrides(
        Overrides { gateways: vec!["envoi".into()], ..Overrides::default() },
        "--gateway envoi: unknown gateway or driver `envoi` | did you mean `envoy`?",
    );
    check_overrides(
        Overrides { repeats: Some(0), ..Overrides::default() },
        "--repeats 0: `0` is out of range | use 1 to 1000; a headline result needs at least 3 repeats",
    );
}

#[test]
fn missing_host_resources_are_an_environment_error() {
    let error = read_with(EXAMPLE, &set("limits.origin.cpus=64")).unwrap_err();
    assert!(!error.is_wrong_use());
    assert_eq!(
        format!("{error} | {}", error.remedy()),
        "--set limits.origin.cpus=64: the limit of 64 CPUs exceeds the 2 CPUs of this host | use at most 2, or \
         run the scenario on a larger host"
    );
}

#[test]
fn an_unknown_scenario_lists_the_known_ones() {
    said(
        Source::find("quickstrat"),
        "unknown scenario `quickstrat`: it is neither built in nor a file | did you mean `quickstart`? Built-in \
         scenarios: added-latency, capacity, change-under-load, connection-storm, failover, headroom, headroom-ramp, headroom-registered, ingress-sizing, kubernetes-api, many-domains, quickstart, side-by-side, slow-clients",
    );
    said(
        Source::find("no/such.yaml"),
        "no/such.yaml: no such file | use the path of a file, or a built-in scenario: added-latency, capacity, \
         change-under-load, connection-storm, failover, headroom, headroom-ramp, headroom-registered, ingress-sizing, kubernetes-api, many-domains, quickstart, side-by-side, slow-clients",
    );
}

#[test]
fn invalid_origins_are_located() {
    check(
        "origin: { stall: 1s }\n",
        "side.yaml:3:18: `1s` is not a stall | write one like 200ms/1s (stopped for the first 200 ms of each \
         second)",
    );
    check(
        "origin: { faults: { slow: 1% } }\n",
        "side.yaml:3:27: `1%` is not a share followed by a time | write one like 1%:2s (1 of 100 takes 2 s)",
    );
    check(
        "origin: { delay: exp:1ms, service: exp:1ms }\n",
        "side.yaml:3:36: origin.service: `delay` and `service` cannot be combined | remove one of the two: \
         `delay` is a service time without queueing",
    );
    check(
        "origin: { servers: 2 }\n",
        "side.yaml:3:20: origin.servers: `servers` needs `service` | add a service time, like `service: exp:5ms`",
    );
    check(
        "origin: { service: exp:5ms, servers: 0 }\n",
        "side.yaml:3:38: origin.servers: `0` is out of range | use 1 to 100000",
    );
    check(
        "origin: { errors: 60%, faults: { half: 41% } }\n",
        "side.yaml:3:9: origin: the shares of `errors`, `resets`, `half`, `slow` and `refuse` add up to more than 100% \
         | reduce their sum to 100% or less: a request gets at most one of these faults",
    );
    check(
        "origin: { http1_only: true, http2: { goaway: 100 } }\n",
        "side.yaml:3:36: origin.http2: `http1_only` and `http2` cannot be combined | remove one of the two",
    );
    check(
        "origin: { faults: { close_after: 0 } }\n",
        "side.yaml:3:34: origin.faults.close_after: `0` is out of range | use at least 1",
    );
    check("origin: { fault: {} }\n", "side.yaml:3:11: unknown field `fault` | did you mean `faults`?");
    check(
        "origin: { tls: {} }\n",
        "side.yaml:3:16: origin.tls: this field is not supported yet | remove the field; it is reserved for a later \
         version",
    );
}

/// Checks all errors of the complete scenario `text`, each with its location.
#[track_caller]
fn check_all(text: &str, expected: &[&str]) {
    let error = read(text).unwrap_err();
    let found: Vec<String> =
        error.each().iter().map(|error| format!("{error} | {}", error.remedy())).collect();
    assert_eq!(found, expected);
    assert!(error.is_wrong_use(), "{error:?}");
}

#[test]
fn only_the_first_error_of_a_scenario_was_reported() {
    check_all(
        "name: x\n\
         gateways: [weir, nginy]\n\
         limits: { data: { cpus: 0 } }\n\
         topology: { paths: [/a, ping] }\n\
         repeats: 0\n\
         loads:\n  full: { model: closed, rate: 5/s }\n  tail: { model: open }\n\
         vary: { limits.dta.cpus: [1, 2] }\n",
        &[
            "side.yaml:2:18: gateways[1]: unknown gateway or driver `nginy` | did you mean `nginx`?",
            "side.yaml:3:25: limits.data.cpus: `0` is out of range | use at least 0.01, or remove the limit",
            "side.yaml:4:25: topology.paths[1]: path `ping` does not start with a slash | write `/ping`",
            "side.yaml:5:10: repeats: `0` is out of range | use 1 to 1000; a headline result needs at least 3 repeats",
            "side.yaml:7:32: loads.full.rate: a closed load cannot have a rate | \
             remove the rate, or use `model: open`",
            "side.yaml:8:9: loads.tail.rate: an open load needs a rate | \
             add a rate, like `rate: 5000/s`, or use `model: closed`",
            "side.yaml:9:26: `limits.dta.cpus: 1`: unknown field `dta` | did you mean `data`?",
        ],
    );
}

#[test]
fn only_the_first_invalid_field_was_reported() {
    check_all(
        "name: x\n\
         durations: 10s\n\
         services: [etcd]\n\
         gateways: [weir]\n\
         warmup: 5\n\
         limits: { dta: { cpus: 1 } }\n\
         loads:\n  full: { modle: closed }\n  tail: { model: opne, rate: 5/s }\n\
         repeats: many\n",
        &[
            "side.yaml:2:1: unknown field `durations` | did you mean `duration`?",
            "side.yaml:3:11: services: this field is not supported yet | \
             remove the field; it is reserved for a later version",
            "side.yaml:5:9: `5` has no unit | write a time with its unit, like 100us, 20ms, 1.5s, 2m",
            "side.yaml:6:11: unknown field `dta` | did you mean `data`?",
            "side.yaml:8:11: unknown field `modle` | did you mean `model`?",
            "side.yaml:9:18: unknown value `opne` | did you mean `open`?",
            "side.yaml:10:10: `many` is not a whole number (0 or more) | write a whole number (0 or more)",
        ],
    );
}

#[test]
fn a_gateway_named_after_the_program_had_no_suggestion() {
    said(
        read(&format!("name: x\ngateways: [weir-gateway]\n{LOADS}")),
        "side.yaml:2:12: gateways[0]: unknown gateway or driver `weir-gateway` | did you mean `weir`?",
    );
    said(
        read(&format!("name: x\ngateways: [{{ name: new, driver: weir-gateway }}]\n{LOADS}")),
        "side.yaml:2:12: gateways[0]: unknown gateway or driver `weir-gateway` | did you mean `weir`?",
    );
}

#[test]
fn invalid_positive_controls_are_located() {
    let control = |control: &str| Overrides { control: Some(control.into()), ..Overrides::default() };
    check_overrides(control("0%"), "--control 0%: `0%` is out of range | use 1% to 100%, like 10%");
    check_overrides(
        control("much"),
        "--control much: `control`: `much` is not a share | write a number with its unit, like 0.1%, 50%",
    );
    check_overrides(
        control("ngimx=10%"),
        "--control ngimx=10%: the scenario has no gateway `ngimx` | did you mean `nginx`?",
    );
    check("control: { shares: 10% }\n", "side.yaml:3:12: unknown field `shares` | did you mean `share`?");
    let named = EXAMPLE
        .replace("gateways: [", "control: { share: 10% }\ngateways: [{ name: control, driver: nginx }, ");
    let error = read(&named).unwrap_err().to_string();
    assert!(error.contains("`control` is reserved for the positive control"), "{error}");
    let before = EXAMPLE.replace("gateways: [", "gateways: [{ name: control, driver: nginx }, ");
    assert!(read(&before).is_ok(), "without a positive control, the name is not reserved");
}
