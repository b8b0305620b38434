//! Wrong scenarios and overrides: each gives one clear error with its place and a way out.

use weir_lab::{LabError, Overrides, Source};

use crate::{EXAMPLE, read, read_with};

const HEAD: &str = "name: x\ngateways: [weir]\n";
const LOADS: &str = "loads: { full: { model: closed } }\n";

#[track_caller]
fn said(result: Result<impl std::fmt::Debug, LabError>, expected: &str) {
    let error = result.expect_err(expected);
    assert_eq!(format!("{error} | {}", error.remedy()), expected);
    assert!(error.is_wrong_use(), "{error:?}");
}

/// `text` after a head that is in order and takes two lines, and loads after it.
#[track_caller]
fn check(text: &str, expected: &str) {
    said(read(&format!("{HEAD}{text}{LOADS}")), expected);
}

/// `loads` alone after the head.
#[track_caller]
fn check_loads(loads: &str, expected: &str) {
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
fn unknown_fields_have_the_nearest_name() {
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
fn values_of_the_wrong_kind_have_the_right_form() {
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
        "side.yaml:3:10: `many` is not a whole number of at least 0 | write a whole number of at least 0",
    );
}

#[test]
fn what_is_not_served_yet_is_refused_by_name() {
    let remedy = "leave it out; a later version serves it";
    check("services: [etcd]\n", &format!("side.yaml:3:11: `services` is not yet served | {remedy}"));
    check(
        "network: { delay: 1ms }\n",
        &format!("side.yaml:3:19: `network.delay` is not yet served | {remedy}"),
    );
    check("mixes: {}\n", &format!("side.yaml:3:8: `mixes` is not yet served | {remedy}"));
    check_overrides(
        set("limits.services={}"),
        &format!("--set limits.services={{}}: `limits.services` is not yet served | {remedy}"),
    );
}

#[test]
fn popularity_and_starts_that_cannot_be_are_refused() {
    check_loads(
        "loads: { x: { model: closed, popularity: zipf, mix: [{ path: / }] } }\n",
        "side.yaml:3:42: the load `x` has a `mix` of requests, and a popularity of the topology's | \
         leave it out: requests of a mix have their `weight`",
    );
    check_loads(
        "loads: { x: { model: closed, popularity: even } }\n",
        "side.yaml:3:42: `even` is no popularity | write uniform, zipf or, with an exponent, zipf:0.9",
    );
    said(
        read(&format!(
            "name: x\ngateways: [{{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }}]\ncold_start: true\n{LOADS}"
        )),
        "side.yaml:3:13: the start of a gateway that runs elsewhere | leave it out: weir does not start it",
    );
    said(
        read(&format!(
            "name: x\ngateways: [{{ name: mine, driver: nginx, config: my.conf }}]\ncold_start: true\n{LOADS}"
        )),
        "side.yaml:3:13: the start of a gateway with a configuration of its own | \
         leave it out, or the gateway's `config`: what it answers with 200 is not known",
    );
}

#[test]
fn faults_that_cannot_be_are_refused() {
    const REPLICAS: &str = "origin: { replicas: 2 }\n";
    // After the head there are the origin's line and that of the faults.
    let check_faults =
        |faults: &str, expected: &str| check(&format!("{REPLICAS}faults: [{faults}]\n"), expected);
    check(
        "faults: [{ at: 1s, replica: 2, do: kill }]\n",
        "side.yaml:3:29: the upstream has no replica 2 | give the origin `replicas`, or leave `replica` out",
    );
    check_faults(
        "{ at: 1s, replica: 3, do: kill }",
        "side.yaml:4:29: the upstream has no replica 3 | give 1 to 2",
    );
    check_faults(
        "{ at: 1s, replica: 0, do: kill }",
        "side.yaml:4:29: the upstream has no replica 0 | give 1 to 2",
    );
    check_faults("{ at: 1s, do: klil }", "side.yaml:4:24: unknown value `klil` | did you mean `kill`?");
    check_faults(
        "{ at: 1s, do: return }",
        "side.yaml:4:24: replica 1 returns, and was not away | \
         leave it out, or put what it returns from before it",
    );
    check_faults(
        "{ at: 1s, do: kill }, { at: 2s, do: stall }",
        "side.yaml:4:46: replica 1 is away already (`kill`) | \
         let it `return` before",
    );
    check_faults(
        "{ at: 2s, do: kill }, { at: 1s, do: return }",
        "side.yaml:4:38: a fault at 1s after one at 2s | \
         put them in the order of time",
    );
    check_faults(
        "{ at: 60s, do: kill }",
        "side.yaml:4:16: a fault at 1m, and the sustained phase of `full` has 1m | \
         give less, or make the load longer",
    );
    check(
        "origin: { driver: nginx }\nfaults: [{ at: 1s, do: reset }]\n",
        "side.yaml:4:24: an upstream of the driver `nginx` cannot be told to reset connections | \
         leave out the origin's `driver`: weir's own can",
    );
    check_loads(
        "loads: { x: { model: closed, requests: 100 } }\nfaults: [{ at: 1s, do: kill }]\n",
        "side.yaml:3:40: the load `x` ends by its count, and nobody knows whether before a fault | \
         give it a `duration`",
    );
    check(
        "origin: { replicas: 2 }\nchanges: { every: 1s, of: [endpoints] }\nfaults: [{ at: 1s, do: kill }]\n",
        "side.yaml:4:28: endpoints that leave and return, of an upstream that has faults | \
         leave out the `faults`, or `endpoints` here",
    );
    said(
        read(&format!(
            "name: x\ngateways: [{{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }}]\n\
             faults: [{{ at: 1s, do: kill }}]\n{LOADS}"
        )),
        "side.yaml:3:9: faults of the upstream of a gateway that runs elsewhere | \
         leave them out: weir stops only what it has started",
    );
}

#[test]
fn slow_clients_that_cannot_be_are_refused() {
    check(
        "slow: {}\n",
        "side.yaml:3:7: 0 slow clients | give 1 to 100000 as `heads`, `bodies` and `responses` together",
    );
    check("slow: { heads: 1, piece: 0B }\n", "side.yaml:3:26: a piece of 0B | give 1B to 1MiB, like 16B");
    check("slow: { heads: 1, every: 0s }\n", "side.yaml:3:26: a piece every 0s | give 1ms or more, like 1s");
    check(
        "slow: { heads: 1, loads: [ful] }\n",
        "side.yaml:3:27: there is no load `ful` | did you mean `full`?",
    );
    check(
        "slow: { heads: 1 }\ntopology: { tls: true }\n",
        "side.yaml:3:7: slow clients of gateways that listen for TLS | \
         leave them out, or `tls` out of the topology: they speak plain text",
    );
}

#[test]
fn tls_and_tokens_that_cannot_be_are_refused() {
    check(
        "topology: { client_certificate: required }\n",
        "side.yaml:3:33: client certificates without TLS | add `tls: true`, or leave it out",
    );
    check(
        "topology: { certificates: each }\n",
        "side.yaml:3:27: a certificate for each domain without TLS | add `tls: true`, or leave it out",
    );
    check("topology: { bearer: 100001 }\n", "side.yaml:3:21: 100001 bearer tokens | give at most 100000");
    let of_load = |topology: &str, load: &str| {
        format!("topology: {{ {topology} }}\nloads: {{ x: {{ model: closed, {load} }} }}\n")
    };
    for (field, column) in [("ca: x.pem", 41), ("insecure: true", 47), ("sni: a.test", 42)] {
        let name = field.split(':').next().unwrap();
        check_loads(
            &of_load("tls: true", &format!("tls: {{ {field} }}")),
            &format!(
                "side.yaml:4:{column}: the load `x` has `{name}`, and the rig makes the certificates of every cell | \
                 leave it out; `version` and `resumption` may be given"
            ),
        );
    }
    check_loads(
        &of_load("bearer: 2", "tokens: mine.txt"),
        "side.yaml:4:38: the load `x` has tokens of its own, and the gateways know those that the rig makes \
         (`topology.bearer`) | keep one of the two",
    );
}

#[test]
fn networks_that_this_host_cannot_make_are_its_fault() {
    let said = "no network namespaces can be made: this user may not make network namespaces | \
                run weir as root, or leave it out: `network: loopback` needs no rights";
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
fn what_cannot_be_has_its_place() {
    check("duration: 0s\n", "side.yaml:3:11: a duration of zero | give more, like 10s");
    check("timeout: 0s\n", "side.yaml:3:10: a timeout of zero | give more, like 10s");
    check("repeats: 0\n", "side.yaml:3:10: 0 repeats | give 1 to 1000; a headline needs 3");
    check("retries: 101\n", "side.yaml:3:10: 101 retries | give 0 to 100");
    check("workers: 0\n", "side.yaml:3:10: a load generator with 0 workers | give 1 to 1024");
    check(
        "topology: { paths: [ping] }\n",
        "side.yaml:3:21: the path `ping` has no slash at its beginning | write `/ping`",
    );
    check(
        "topology: { paths: [/a, /a] }\n",
        "side.yaml:3:25: the path `/a` is given twice | keep one of the two",
    );
    check(
        "topology: { paths: 0 }\n",
        "side.yaml:3:20: no paths | give a number of them, or a list like [/ping]",
    );
    check("topology: { domains: 0 }\n", "side.yaml:3:22: 0 domains | give 1 to 100000");
    check(
        "limits: { data: { cpus: 0 } }\n",
        "side.yaml:3:25: a limit of 0 CPUs | give 0.01 or more, or leave it out",
    );
    check(
        "limits: { data: { memory: 1KiB } }\n",
        "side.yaml:3:27: a memory limit of 1KiB lets no process start | give 4MiB or more, or leave it out",
    );
    check(
        "origin: { delay: 1ms }\n",
        "side.yaml:3:18: `1ms` is not a delay | write one like none, const:5ms, uniform:1ms..9ms, exp:5ms (its \
         mean), lognormal:5ms,0.5 (median and sigma) or bimodal:1ms,20ms,10% (two values, share of the second)",
    );
    check(
        "objective: {}\n",
        "side.yaml:3:12: an objective that asks for nothing | \
         name a latency or the errors, like { p99: 20ms, errors: 0.1% }, or leave it out",
    );
    check("thresholds: { error_share: 7 }\n", "side.yaml:3:28: a share of 7 | give a number from 0 to 1");
    check("thresholds: { drift_share: -1 }\n", "side.yaml:3:28: a share of -1 | give a number from 0 to 1");
    check(
        "thresholds: { warmup_growth: 0.5 }\n",
        "side.yaml:3:30: a warm-up of 0.5 times its length | give a number from 1, which keeps it as it is, to 10",
    );
    check(
        "thresholds: { interval_share: 0 }\n",
        "side.yaml:3:31: a share of 0 | give more than 0, like 0.1, or leave it out",
    );
    check(
        "origin: { drift: 1ms }\n",
        "side.yaml:3:18: `1ms` is not a drift | write one like 1ms/10s (a millisecond longer with every 10 s)",
    );
}

#[test]
fn impossible_loads_have_their_place() {
    check_loads(
        "loads: {}\n",
        "side.yaml:3:8: no loads | add one, like `loads: { full: { model: closed, connections: 10 } }`",
    );
    said(
        read(HEAD),
        "side.yaml: no loads | add one, like `loads: { full: { model: closed, connections: 10 } }`",
    );
    check_loads(
        "loads: { full: { model: closed, connections: 0 } }\n",
        "side.yaml:3:46: a load without connections | give 1 or more",
    );
    check_loads(
        "workers: 4\nloads: { full: { model: closed, connections: 2 } }\n",
        "side.yaml:4:46: 2 connections for 4 workers | give each worker one at least",
    );
    check_loads(
        "loads: { tail: { model: open } }\n",
        "side.yaml:3:16: the open load `tail` has no rate | \
         add one, like `rate: 5000/s`, or make it a closed load",
    );
    check_loads(
        "loads: { tail: { model: open, rate: 0/s } }\n",
        "side.yaml:3:37: `0/s` is not above zero | write a rate like 5000/s, 300/m",
    );
    check_loads(
        "loads: { full: { model: closed, rate: 5/s } }\n",
        "side.yaml:3:39: the closed load `full` has a rate | \
         leave the rate out, or make it an open load: `model: open`",
    );
    check_loads(
        "loads: { full: { model: closed }, full: { model: closed } }\n",
        "side.yaml:3:35: duplicate field `full` | remove one of them",
    );
}

#[test]
fn shapes_and_mixes_that_cannot_be_have_their_place() {
    let load = |fields: &str, expected: &str| {
        check_loads(&format!("loads: {{ x: {{ model: {fields} }} }}\n"), expected);
    };
    let correct = "correct the value";
    load(
        "closed, connections: many",
        "side.yaml:3:43: `many` is not a whole number | \
         write it like 32, 1..60 (ramp), 1..60..5 or 1,10,60 (steps)",
    );
    load(
        "closed, connections: 1..8, requests: 5",
        &format!(
            "side.yaml:3:43: the load `x`: a ramp needs a duration, not a count of requests | {correct}"
        ),
    );
    load(
        "open, rate: 1/s..9/s, connections: '1,2'",
        &format!("side.yaml:3:34: the load `x`: a load goes in steps or in a ramp, not in both | {correct}"),
    );
    load(
        "open, rate: [1/s, 2/s, 3/s], connections: [1, 2]",
        "side.yaml:3:34: the load `x`: 2 steps of connections and 3 of rate | \
         give as many of both, or one level of either",
    );
    load(
        "open, rate: 5/s, burst: 9/s:1s/1s",
        &format!(
            "side.yaml:3:46: the load `x`: a burst must be longer than nothing and end before the next one starts \
             | {correct}"
        ),
    );
    load(
        "open, rate: 5/s, think: 1ms",
        "side.yaml:3:46: the load `x`: an open load with a pause after answers | \
         leave it out: an open load waits for nobody",
    );
    load(
        "closed, streams: 4",
        "side.yaml:3:39: the load `x`: HTTP/1.1 has no streams | add `protocol: http2`, or leave them out",
    );
    load(
        "closed, per_connection: 0",
        &format!("side.yaml:3:46: the load `x`: at least 1 request is sent on a connection | {correct}"),
    );
    load(
        "closed, tls: { insecure: true }",
        "side.yaml:3:35: the load `x` speaks TLS, and no gateway listens for it (`topology.tls`) | \
         add `tls: true` to the topology, or leave it out",
    );
    load(
        "closed, protocol: http2",
        "side.yaml:3:40: the load `x` speaks HTTP/2, and the gateways listen for HTTP/1.1 | \
         leave it out; `weir load` speaks it to a server that does",
    );
    load(
        "closed, mix: [{ path: /a }]",
        "side.yaml:3:44: no gateway has a route for `/a` | add it to `topology.paths`",
    );
    load(
        "closed, mix: [{ path: /, checks: { status: [2000] } }]",
        "side.yaml:3:66: `2000` is no status | write a code like 200 or a class like 2xx",
    );
    load(
        "closed, file: no/such",
        "side.yaml:3:36: the load `x`: no/such: cannot be read: No such file or directory (os error 2) | \
         name a readable file",
    );
    load(
        "closed, file: a, mix: [{ path: / }]",
        "side.yaml:3:36: the load `x`: both a mix and a file of requests | keep one of the two",
    );
    load(
        "closed, mix: [{ path: /, body: '@no/such' }]",
        "side.yaml:3:35: the load `x`: no/such: No such file or directory (os error 2) | \
         name a file that can be read",
    );
}

#[test]
fn gateways_are_known_and_told_apart() {
    said(
        read(&format!("name: x\ngateways: [weir, nginy]\n{LOADS}")),
        "side.yaml:2:18: there is no gateway or driver `nginy` | did you mean `nginx`?",
    );
    said(
        read(&format!("name: x\ngateways: [weir, {{ name: a, driver: traefik }}]\n{LOADS}")),
        "side.yaml:2:18: there is no gateway or driver `traefik` | the drivers are: envoy, haproxy, nginx, weir",
    );
    said(
        read(&format!("name: x\ngateways: [weir, nginx, weir]\n{LOADS}")),
        "side.yaml:2:25: two gateways are named `weir` | \
         give one of them another name: { name: weir-2, driver: weir }",
    );
    said(
        read(&format!("name: x\ngateways: []\n{LOADS}")),
        "side.yaml:2:11: no gateways | name some of: envoy, haproxy, nginx, weir",
    );
    said(
        read(&format!("name: x\ngateways: [{{ name: direct, driver: nginx }}]\n{LOADS}")),
        "side.yaml:2:12: a gateway named `direct` | \
         choose another name: this is the baseline's, which is always measured",
    );
    said(read(&format!("name: x\n{LOADS}")), "side.yaml:2:1: missing field `gateways` | add `gateways`");
    said(
        read(&format!("name: x\ngateways: [7]\n{LOADS}")),
        "side.yaml:2:12: `7` is not a gateway's name or a map like { name: old, driver: nginx } | \
         write a gateway's name or a map like { name: old, driver: nginx }",
    );
}

#[test]
fn axes_are_told_by_name() {
    check(
        "vary: { limits.data.cpus: [] }\n",
        "side.yaml:3:27: the axis `limits.data.cpus` has no values | give some, or take it out",
    );
    check(
        "vary: { limits.origin.cpus: fitted }\n",
        "side.yaml:3:29: the axis `limits.origin.cpus` cannot be fitted | \
         give a list of values; limits that fit the host are for `limits.data.cpus`",
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
        "side.yaml:3:32: `loads.ful.connections: 1`: there is no load `ful` | did you mean `full`?",
    );
    check(
        "vary: { loads.full.connections: [1, 0] }\n",
        "side.yaml:3:33: `loads.full.connections: 0`: a load without connections | give 1 or more",
    );
    check(
        "vary: { duration: [1s, 2] }\n",
        "side.yaml:3:19: `duration: 2`: `duration`: `2` has no unit | \
         write a time with its unit, like 100us, 20ms, 1.5s, 2m",
    );
    check(
        "vary: { repeats: [1, 2] }\n",
        "side.yaml:3:18: `repeats: 1`: `repeats` holds for the whole run and cannot vary within it | \
         vary a field of limits, topology, origin or loads, or a setting (gateways.NAME.set), or make two runs",
    );
    check(
        "vary: { limits.data.cpus: [1, 1] }\n",
        "side.yaml:3:7: points 1 and 2 of the axes are the same | keep one of the equal values",
    );
    check(
        "cases: [{ limits.data.memory: 1GiB }, { limits.data.memory: 1024MiB }]\n",
        "side.yaml:3:8: points 1 and 2 of the axes are the same | keep one of the equal values",
    );
    check("cases: [{}]\n", "side.yaml:3:9: an empty case | give it a value, or take it out");
    check(
        "cases: [{ topology: { domains: 0 } }]\n",
        "side.yaml:3:8: `topology.domains: 0`: 0 domains | give 1 to 100000",
    );
}

#[test]
fn overrides_are_told_by_their_argument() {
    check_overrides(
        set("limits.data.cpu=1"),
        "--set limits.data.cpu=1: unknown field `cpu` | did you mean `cpus`?",
    );
    check_overrides(set("duration"), "--set duration: no value | write it as --set limits.data.cpus=0.5");
    check_overrides(set("duration=0s"), "--set duration=0s: a duration of zero | give more, like 10s");
    check_overrides(
        set("loads.tial.rate=1/s"),
        "--set loads.tial.rate=1/s: there is no load `tial` | did you mean `tail`?",
    );
    check_overrides(
        Overrides { gateways: vec!["envoi".into()], ..Overrides::default() },
        "--gateway envoi: there is no gateway or driver `envoi` | did you mean `envoy`?",
    );
    check_overrides(
        Overrides { repeats: Some(0), ..Overrides::default() },
        "--repeats 0: 0 repeats | give 1 to 1000; a headline needs 3",
    );
}

#[test]
fn what_the_host_lacks_is_the_environments_fault() {
    let error = read_with(EXAMPLE, &set("limits.origin.cpus=64")).unwrap_err();
    assert!(!error.is_wrong_use());
    assert_eq!(
        format!("{error} | {}", error.remedy()),
        "--set limits.origin.cpus=64: a limit of 64 CPUs, and this host has 2 | \
         give at most 2, or run it on a larger host"
    );
}

#[test]
fn a_scenario_that_is_not_there_comes_with_those_that_are() {
    said(
        Source::find("quickstrat"),
        "no scenario `quickstrat`, built in or as a file | \
         did you mean `quickstart`? Built in are: added-latency, change-under-load, connection-storm, failover, headroom, headroom-ramp, ingress-sizing, many-domains, quickstart, side-by-side, slow-clients",
    );
    said(
        Source::find("no/such.yaml"),
        "no/such.yaml: there is no such file | \
         built in are: added-latency, change-under-load, connection-storm, failover, headroom, headroom-ramp, ingress-sizing, many-domains, quickstart, side-by-side, slow-clients; or give the path of a file",
    );
}

#[test]
fn origins_that_cannot_be_have_their_place() {
    check(
        "origin: { stall: 1s }\n",
        "side.yaml:3:18: `1s` is not a stall | write one like 200ms/1s (stopped for the first 200 ms of each \
         second)",
    );
    check(
        "origin: { faults: { slow: 1% } }\n",
        "side.yaml:3:27: `1%` is not a share and its time | write one like 1%:2s (one in a hundred, over two \
         seconds)",
    );
    check(
        "origin: { delay: exp:1ms, service: exp:1ms }\n",
        "side.yaml:3:36: an origin with both a delay and a service | leave one of them out: a delay is a service \
         with servers without end",
    );
    check(
        "origin: { servers: 2 }\n",
        "side.yaml:3:20: servers without a service | add how long each serves, like `service: exp:5ms`",
    );
    check(
        "origin: { service: exp:5ms, servers: 0 }\n",
        "side.yaml:3:38: an impossible number of servers | give 1 to 100000",
    );
    check(
        "origin: { errors: 60%, faults: { half: 41% } }\n",
        "side.yaml:3:9: errors, resets, half, slow and refuse are together more than all requests | make them 100% \
         or less together: no request gets two of them",
    );
    check(
        "origin: { http1_only: true, http2: { goaway: 100 } }\n",
        "side.yaml:3:36: HTTP/2 of an origin that speaks only HTTP/1.1 | leave out either `http1_only` or `http2`",
    );
    check(
        "origin: { faults: { close_after: 0 } }\n",
        "side.yaml:3:34: an impossible number of responses | give 1 or more",
    );
    check("origin: { fault: {} }\n", "side.yaml:3:11: unknown field `fault` | did you mean `faults`?");
    check(
        "origin: { tls: {} }\n",
        "side.yaml:3:16: `origin.tls` is not yet served | leave it out; a later version serves it",
    );
}
