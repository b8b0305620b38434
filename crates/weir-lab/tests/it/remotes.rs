//! Remote gateways: valid and invalid fields.

use weir_lab::scenario::Scenario;
use weir_lab::{Checked, LabError, Overrides, plan};
use weir_results::DIRECT;

use crate::{known, read, read_with, run_of};

const LOADS: &str = "loads: { full: { model: closed } }\n";

/// A scenario with `gateways` on line 2, and `more` from line 3 on.
fn text(gateways: &str, more: &str) -> String {
    format!("name: x\ngateways: [{gateways}]\n{more}{LOADS}")
}

const PROD: &str = "{ name: prod, driver: remote, url: 'https://gw.example', direct: 'http://10.0.0.7:8080', \
                    limits: { cpus: 16, memory: 64GiB }, tls: { insecure: true }, \
                    prometheus: { url: 'http://prom:9090', selector: 'pod=~\"gw-.*\"' } }";

#[test]
fn a_remote_gateway_has_its_own_address_limits_and_prometheus() {
    let checked = read(&text(PROD, "")).unwrap();
    let remote = &checked.scenario.gateways[0].remote;
    assert_eq!(remote.url.as_ref().unwrap().connect(), "gw.example:443");
    assert_eq!(remote.direct.as_ref().unwrap().to_string(), "http://10.0.0.7:8080");
    // The limit may exceed the cores of this host, because the gateway runs on another.
    assert_eq!(remote.limits.unwrap().cpus, Some(16.0));
    assert!(checked.scenario.is_elsewhere() && checked.scenario.has_direct());
    // Reading the stored scenario of a run gives the same scenario.
    assert_eq!(weir_lab::read_again(&run_of(&checked, 1), None, &known()).unwrap(), checked);
    let written = serde_json::to_value(&checked.scenario).unwrap();
    assert_eq!(written["gateways"][0]["prometheus"]["selector"], "pod=~\"gw-.*\"");
    let local: Scenario = read(&text("weir", "")).unwrap().scenario;
    let written = serde_json::to_value(&local).unwrap();
    assert!(written["gateways"][0].get("url").is_none(), "{written}");
}

fn planned(checked: &Checked) -> Vec<String> {
    plan::plan(checked, 1).cells.into_iter().map(|cell| cell.gateway).collect()
}

#[test]
fn there_is_a_direct_baseline_if_the_upstream_is_known() {
    let mut both = planned(&read(&text(PROD, "repeats: 1\n")).unwrap());
    both.sort();
    assert_eq!(both, [DIRECT, "prod"]);
    let alone = text("{ name: prod, driver: remote, url: 'http://gw.example' }", "repeats: 2\n");
    assert_eq!(planned(&read(&alone).unwrap()), ["prod", "prod"]);
}

#[test]
fn loads_of_remote_gateways_can_use_http2() {
    let loads = "loads: { full: { model: closed, protocol: http2, streams: 8 } }\n";
    let text =
        format!("name: x\ngateways: [{{ name: prod, driver: remote, url: 'https://gw.example' }}]\n{loads}");
    assert!(read(&text).is_ok());
}

#[test]
fn the_command_line_can_set_the_prometheus() {
    let text = text("{ name: prod, driver: remote, url: 'http://gw.example' }", "");
    let overrides = Overrides {
        prometheus: Some("http://prom:9090".into()),
        selector: Some("pod=\"gw\"".into()),
        ..Overrides::default()
    };
    let checked = read_with(&text, &overrides).unwrap();
    let source = checked.scenario.gateways[0].remote.prometheus.as_ref().unwrap();
    assert_eq!(
        (source.url.to_string().as_str(), source.selector.as_deref()),
        ("http://prom:9090", Some("pod=\"gw\""))
    );
    let said = |text: &str, overrides: &Overrides| {
        let error = read_with(text, overrides).unwrap_err();
        format!("{error} | {}", error.remedy())
    };
    assert_eq!(
        said(&super::remotes::text("weir", ""), &overrides),
        "--prometheus http://prom:9090: the scenario has no remote gateway | add a gateway like { name: prod, \
         driver: remote, url: https://gw.example }"
    );
    let no_selector = Overrides { selector: None, ..overrides };
    let error = said(&text, &no_selector);
    assert!(error.starts_with("--prometheus http://prom:9090: `selector` is missing or empty"), "{error}");
    assert!(error.contains("add a `selector` like namespace="), "{error}");
}

#[track_caller]
fn check(gateways: &str, more: &str, place: &str, words: &str) {
    let error: LabError = read(&text(gateways, more)).expect_err(words);
    let reported = format!("{error} | {}", error.remedy());
    assert!(reported.starts_with(&format!("side.yaml:{place}:")) && reported.contains(words), "{reported}");
    assert!(error.is_wrong_use() && !error.remedy().is_empty(), "{reported}");
}

#[test]
fn invalid_remote_gateways_are_located() {
    let remote = |more: &str| format!("{{ name: prod, driver: remote, url: 'http://gw.example'{more} }}");
    check(
        "remote",
        "",
        "2:12",
        "gateways[0]: the remote gateway `remote` has no `url` | add a URL, like `url: \
        https://gw.example`",
    );
    check("{ name: a, driver: remote, url: gw.example }", "", "2:44", "no scheme | write it as https://HOST");
    check(
        "{ name: nginx, url: 'http://a' }",
        "",
        "2:32",
        "gateways[0].url: `nginx` is not remote: weir starts it | remove `url`, or use `driver: remote`",
    );
    check(
        &remote(", binary: /x"),
        "",
        "2",
        "gateways[0].binary: `prod` is remote: weir does not start it | \
        remove `binary`",
    );
    check(
        &remote(", direct: 'http://a/x'"),
        "",
        "2",
        "gateways[0].direct: `http://a/x` contains a path | move the path to `topology.paths`",
    );
    check(
        &remote(", tls: {}"),
        "",
        "2",
        "gateways[0].tls: http://gw.example does not use TLS | use https://, \
        or remove `tls`",
    );
    check(&remote(", tls: { ca: absent.pem }, direct: 'https://a'"), "", "2", "absent.pem: No such file");
    check(
        &remote(", limits: { cpus: 0 }"),
        "",
        "2",
        "gateways[0].limits.cpus: `0` is out of range | write the CPU \
        limit that the gateway has on its own host, in cores and above 0, like 2; or remove `cpus`",
    );
    check(
        &remote(", host: 'a b'"),
        "",
        "2",
        "gateways[0].host: `a b` is not a valid value of the Host header | \
        use a name like shop.example, or remove `host`",
    );
    let prometheus = |fields: &str| remote(&format!(", prometheus: {{ url: 'http://prom', {fields} }}"));
    check(
        &prometheus("metrics: process"),
        "",
        "2",
        "gateways[0].prometheus: `selector` is missing or empty, so weir cannot select the series \
        of the gateway | add a `selector` like namespace=\"shop\",pod=~\"gw-.*\", or your own query as \
            `queries: { cpu: .. }`",
    );
    check(
        &prometheus("selector: '{}'"),
        "",
        "2",
        "gateways[0].prometheus: `selector` is missing or empty, so weir cannot select the series of \
        the gateway | add a `selector` like namespace=\"shop\",pod=~\"gw-.*\", or your own query as `queries: { \
            cpu: .. }`",
    );
    check(&prometheus("metrics: proces, selector: 'a=\"b\"'"), "", "2", "did you mean `process`");
    check(&prometheus("selector: 'a=\"b\"', user: me"), "", "2", "add `password_file`");
    check(&prometheus("selector: 'a=\"b\"', token_file: absent"), "", "2", "absent: No such file");
    check(&prometheus("selector: 'a=\"b\"', querys: {}"), "", "2", "did you mean `queries`");
    check(
        &format!("weir, {}", remote("")),
        "",
        "2:12",
        "gateways[0]: `weir` is not remote, but other gateways of this scenario are remote | make two runs: \
         gateways with different upstreams cannot share a direct baseline",
    );
    let other = "{ name: other, driver: remote, url: 'http://b', direct: 'http://c' }";
    check(
        &format!("{}, {other}", remote("")),
        "",
        "2",
        "gateways[1]: `prod` and `other` have different \
        `direct` URLs | use the same URL for both, or make two runs: the gateways of a run share one \
        direct baseline",
    );
    check(&remote("").replace("prod", "generator"), "", "2", "choose another name");
    check(
        &remote(""),
        "origin: { body: 64KiB }\n",
        "3",
        "origin: remote gateways do not use the origin of the \
        scenario | remove `origin`; for a direct baseline, set `direct` of each gateway to the URL of its upstream",
    );
    check(
        &remote(""),
        "limits: { data: { cpus: 1 } }\n",
        "3",
        "limits.data: this limit has no effect: weir starts \
        neither a remote gateway nor its upstream | remove this limit; to state the limits of a remote gateway, \
        set `limits` of that gateway",
    );
    for (topology, said) in [
        (
            "tls: true",
            "topology.tls: weir cannot configure this on a remote gateway | remove `tls`; for TLS, write https:// \
            in the `url` of the gateway",
        ),
        (
            "tls: true, client_certificate: required",
            "topology.client_certificate: weir cannot configure this on a remote gateway",
        ),
        (
            "bearer: 3",
            "topology.bearer: weir cannot configure this on a remote gateway | remove `bearer`, and set \
            `tokens` of the loads to a file of bearer tokens",
        ),
    ] {
        check(&remote(""), &format!("topology: {{ {topology} }}\n"), "3", said);
    }
    let loads = "loads: { full: { model: closed, tls: {} } }\n";
    let error = read(&format!("name: x\ngateways: [{}]\n{loads}", remote(""))).unwrap_err();
    let remedy = error.remedy();
    assert!(remedy.starts_with("move these settings to `tls` of the gateway"), "{error} | {remedy}");
}
