//! Valid and rejected settings of a backend.

use std::net::SocketAddr;

use weir_config::{
    Applied, Backend, Balance, Batch, Change, Configuration, Endpoint, EndpointAddress, HashKey, Policy,
    ProxyVersion, State, Sticky,
};
use weir_document::Time;

/// Reads a configuration that has a backend with these fields.
fn read(backend: &str) -> Result<Configuration, String> {
    let text = format!(
        "listeners: [{{ address: 127.0.0.1:80 }}]\nroutes: [{{ path: /, backend: b }}]\n\
         backends: {{ b: {{ {backend} }} }}\n"
    );
    weir_document::read("test.yaml", &text).map_err(|error| error.to_string())
}

fn apply(backend: &str) -> Applied {
    let resources = read(backend).unwrap().into_resources();
    let changes = resources.into_iter().map(|(key, resource)| Change::Put(key, resource)).collect();
    State::default().apply(Batch { version: 1, policy: Policy::AllOrNothing, changes })
}

/// Returns the backend from the compiled table. Also checks that serialization preserves it.
fn backend(fields: &str) -> Backend {
    let table = apply(fields).table.unwrap();
    let backend = (*table.backends()[0].backend).clone();
    let written = serde_json::to_string(&backend).unwrap();
    assert_eq!(serde_json::from_str::<Backend>(&written).unwrap(), backend, "{written}");
    backend
}

fn check_refused(fields: &str, problem: &str, remedy: &str) {
    let applied = apply(fields);
    let reported: Vec<_> = applied.refused.iter().map(|(_, p)| (p.to_string(), p.remedy.clone())).collect();
    assert_eq!(reported, [(format!("backends.b.{problem}"), remedy.to_owned())], "{fields}");
    assert!(applied.table.is_none());
}

fn check_form_refused(fields: &str, message: &str) {
    let error = read(fields).unwrap_err();
    assert!(error.contains(message), "{fields}: {error}");
}

#[test]
fn reads_endpoint_weights() {
    let endpoints = backend("endpoints: [127.0.0.1:1, { address: '[::1]:2', weight: 0 }]").endpoints;
    let second = Endpoint { address: "[::1]:2".parse().unwrap(), weight: 0 };
    assert_eq!(endpoints, [SocketAddr::from(([127, 0, 0, 1], 1)).into(), second]);
    check_refused(
        "endpoints: [{ address: 127.0.0.1:1, weight: 1000001 }]",
        "endpoints[0].weight: 1000001 is larger than 1000000",
        "use smaller weights; only their ratio matters",
    );
    for wrong in ["localhost", "'127.0.0.1'", "127.0.0.256:80", "a b:80", "'*.a:80'", "a:http", "a:+1"] {
        let message = "is not an IP address or a host name with a port";
        check_form_refused(&format!("endpoints: [{wrong}]"), message);
        check_form_refused(&format!("endpoints: [{{ address: {wrong} }}]"), message);
    }
    check_form_refused("endpoints: [{ weight: 1 }]", "missing field `address`");
    check_form_refused("endpoints: [{ address: 127.0.0.1:1, wait: 1 }]", "unknown field `wait`");
}

#[test]
fn reads_balance_as_a_word_or_a_mapping() {
    let balance = |text: &str| backend(&format!("endpoints: [], balance: {text}")).balance;
    assert_eq!(backend("endpoints: []").balance, Balance::RoundRobin);
    assert_eq!(balance("round_robin"), Balance::RoundRobin);
    assert_eq!(balance("least_requests"), Balance::LeastRequests);
    assert_eq!(balance("random"), Balance::Random);
    assert_eq!(balance("{ hash: client_address }"), Balance::Hash(HashKey::ClientAddress));
    assert_eq!(balance("{ hash: { header: X-Id } }"), Balance::Hash(HashKey::Header("X-Id".to_owned())));
    assert_eq!(balance("{ hash: { cookie: id } }"), Balance::Hash(HashKey::Cookie("id".to_owned())));
    let sticky = Sticky { cookie: "at".to_owned(), max_age: Some(Time(std::time::Duration::from_secs(60))) };
    assert_eq!(balance("{ sticky: { cookie: at, max_age: 1m } }"), Balance::Sticky(sticky));
    check_form_refused("endpoints: [], balance: ring", "unknown value `ring`");
    check_form_refused("endpoints: [], balance: { hash: { field: a } }", "unknown value `field`");
    check_form_refused("endpoints: [], balance: { sticky: { name: a } }", "unknown field `name`");
}

#[test]
fn rejects_invalid_balance() {
    let name = "use letters, digits and hyphens";
    check_refused(
        "endpoints: [], balance: { hash: { header: 'a b' } }",
        "balance.hash.header: invalid header name `a b`",
        name,
    );
    check_refused(
        "endpoints: [], balance: { hash: { cookie: '' } }",
        "balance.hash.cookie: invalid cookie name ``",
        name,
    );
    check_refused(
        "endpoints: [], balance: { sticky: { cookie: 'a=b' } }",
        "balance.sticky.cookie: invalid cookie name `a=b`",
        name,
    );
    check_refused(
        "endpoints: [], balance: { sticky: { cookie: a, max_age: 1500ms } }",
        "balance.sticky.max_age: `1500ms` is not a positive whole number of seconds",
        "write whole seconds, for example `3600s`, or remove `max_age`",
    );
    check_refused(
        "endpoints: [], balance: { hash: client_address }, slow_start: 10s",
        "slow_start: no effect with `balance: hash`: only the key selects the endpoint",
        "remove `slow_start`",
    );
    check_refused(
        "endpoints: [], slow_start: 0s",
        "slow_start: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to turn slow start off",
    );
}

#[test]
fn rebuilds_a_hash_table_only_if_its_backend_changes() {
    let mut state = State::default();
    let mut maglev = |fields: &str| {
        let resources = read(fields).unwrap().into_resources();
        let changes = resources.into_iter().map(|(key, resource)| Change::Put(key, resource)).collect();
        let applied = state.apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
        applied.table.unwrap().backends()[0].maglev.clone()
    };
    const HASHED: &str = "endpoints: [127.0.0.1:1, 127.0.0.1:2], balance: { hash: client_address }";
    let first = maglev(HASHED).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &maglev(HASHED).unwrap()));
    let changed = maglev(&HASHED.replace(":2]", ":3]")).unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first, &changed));
    assert!(maglev("endpoints: [127.0.0.1:1]").is_none());
}

#[test]
fn rejects_invalid_health_checks() {
    let health =
        *backend("endpoints: [], health: { path: '/up?x=1', host: h:1, interval: 1s }").health.unwrap();
    assert_eq!((health.path.as_deref(), health.host.as_deref()), (Some("/up?x=1"), Some("h:1")));
    assert_eq!((health.healthy, health.unhealthy), (2, 3));
    assert_eq!(backend("endpoints: [], health: {}").health.unwrap().path, None);
    let check = |health: &str, problem: &str, remedy: &str| {
        check_refused(&format!("endpoints: [], health: {health}"), &format!("health{problem}"), remedy);
    };
    check("{ path: up }", ".path: `up` does not start with `/`", "write `/up`");
    check(
        "{ path: '/a?b c' }",
        ".path: `b c` is not a valid query",
        "percent-encode the query, for example a space as %20",
    );
    let remedy = "add `path`, or remove `host`";
    check("{ host: a }", ".host: no effect without `path`", remedy);
    let remedy = "write a name like `example.com`";
    check("{ path: /, host: 'a b' }", ".host: `a b` is not a host name", remedy);
    check(
        "{ interval: 0s }",
        ".interval: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to use the default, 10s",
    );
    check(
        "{ timeout: 0s }",
        ".timeout: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to use the default, 2s",
    );
    check("{ healthy: 0 }", ".healthy: must be at least 1", "remove the field to use the default, 2");
    check("{ unhealthy: 0 }", ".unhealthy: must be at least 1", "remove the field to use the default, 3");
    check_form_refused("endpoints: [], health: { url: / }", "unknown field `url`");
}

#[test]
fn rejects_invalid_ejection() {
    assert_eq!(backend("endpoints: [], ejection: {}").ejection.unwrap().errors, 5);
    check_refused(
        "endpoints: [], ejection: { errors: 0 }",
        "ejection.errors: must be at least 1",
        "remove the field to use the default, 5",
    );
    check_refused(
        "endpoints: [], ejection: { time: 0s }",
        "ejection.time: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to use the default, 30s",
    );
    check_form_refused("endpoints: [], ejection: { most: 101% }", "more than 100%");
}

#[test]
fn reads_ejection_by_error_rate() {
    let ejection =
        |fields: &str| backend(&format!("endpoints: [], ejection: {{ {fields} }}")).ejection.unwrap();
    assert_eq!(ejection("most: 10%").share, None);
    let share = ejection("errors: 0, share: { errors: 20% }").share.unwrap();
    assert_eq!((share.errors.0, share.window.0.as_secs(), share.requests), (0.2, 10, 20));
    let check = |share: &str, problem: &str, remedy: &str| {
        let fields = format!("endpoints: [], ejection: {{ share: {share} }}");
        check_refused(&fields, &format!("ejection.share.{problem}"), remedy);
    };
    let above = "write a share above 0%, for example 50%";
    check("{ errors: 0% }", "errors: 0% would eject every endpoint", above);
    let window = "remove the field to use the default, 10s";
    check("{ errors: 1%, window: 999ms }", "window: 999ms is out of range; allowed: 1s to 1h", window);
    check("{ errors: 1%, window: 2h }", "window: 2h is out of range; allowed: 1s to 1h", window);
    check(
        "{ errors: 1%, requests: 0 }",
        "requests: must be at least 1",
        "remove the field to use the default, 20",
    );
    check_form_refused("endpoints: [], ejection: { share: 20% }", "20%");
    check_form_refused("endpoints: [], ejection: { share: {} }", "missing field `errors`");
}

#[test]
fn rejects_limits_of_zero() {
    let limits = backend("endpoints: [], limits: { requests: 7, retries: 5% }").limits;
    assert_eq!((limits.requests, limits.connections, limits.retries.0), (Some(7), None, 0.05));
    assert_eq!((limits.pending, backend("endpoints: [], limits: { pending: 0 }").limits.pending), (0, 0));
    for field in ["connections", "requests"] {
        check_refused(
            &format!("endpoints: [], limits: {{ {field}: 0 }}"),
            &format!("limits.{field}: 0 would reject every request"),
            "remove the field to set no limit for this backend",
        );
    }
    check_form_refused("endpoints: [], limits: { request: 1 }", "unknown field `request`");
}

#[test]
fn rejects_invalid_timeouts() {
    let timeouts = backend("endpoints: [], timeouts: { connect: 1s, idle: 2s }").timeouts;
    assert_eq!((timeouts.connect.map(|time| time.0.as_secs()), timeouts.response), (Some(1), None));
    let pending =
        backend("endpoints: [], limits: { pending: 5 }, timeouts: { pending: 3s }").timeouts.pending;
    assert_eq!(pending.map(|time| time.0.as_secs()), Some(3));
    check_refused(
        "endpoints: [], timeouts: { pending: 3s }",
        "timeouts.pending: no effect without `limits.pending`: no request waits in a queue",
        "set `limits.pending`, or remove this timeout",
    );
    for field in ["connect", "response", "idle", "pending"] {
        check_refused(
            &format!("endpoints: [], limits: {{ pending: 1 }}, timeouts: {{ {field}: 0s }}"),
            &format!("timeouts.{field}: 0s is out of range; allowed: 1ns to 30 days"),
            "remove the field to use the value of the gateway",
        );
    }
    check_form_refused("endpoints: [], timeouts: { head: 1s }", "unknown field `head`");
}

#[test]
fn rejects_invalid_keepalive() {
    assert_eq!(backend("endpoints: [], keepalive: { requests: 1, time: 1h }").keepalive.requests, Some(1));
    check_refused(
        "endpoints: [], keepalive: { requests: 0 }",
        "keepalive.requests: must be at least 1",
        "write 1 for one request per connection, or remove `requests`",
    );
    check_refused(
        "endpoints: [], keepalive: { time: 0s }",
        "keepalive.time: 0s is out of range; allowed: 1ns to 30 days",
        "remove the field to set no time limit",
    );
}

#[test]
fn reads_both_proxy_protocol_versions() {
    assert_eq!(backend("endpoints: [], proxy_protocol: v2").proxy_protocol, Some(ProxyVersion::V2));
    check_form_refused("endpoints: [], proxy_protocol: v3", "unknown value `v3`");
    check_form_refused("endpoints: [], proxy_protocol: true", "`true`");
}

#[test]
fn reads_unix_sockets_as_endpoints() {
    let all =
        backend("endpoints: ['unix:/run/a b.sock', { address: 'unix:/run/c', weight: 2 }, 127.0.0.1:1]");
    let reported: Vec<_> = all
        .members(|_| Vec::new())
        .iter()
        .map(|m| (m.address.to_string(), m.address.host(), m.weight))
        .collect();
    let expected = [
        ("unix:/run/a b.sock", "localhost", 1),
        ("unix:/run/c", "localhost", 2),
        ("127.0.0.1:1", "127.0.0.1:1", 1),
    ];
    assert_eq!(
        reported,
        expected.map(|(address, host, weight)| (address.to_owned(), host.to_owned(), weight))
    );
    let whole = "is not an absolute path";
    for (wrong, message) in [
        ("'unix:run/a'", whole),
        ("'unix:'", whole),
        ("'unix:80'", whole),
        ("\"unix:/run/\\ta\"", "contains a control character"),
    ] {
        check_form_refused(&format!("endpoints: [{wrong}]"), message);
        check_form_refused(&format!("endpoints: [{{ address: {wrong} }}]"), message);
    }
    let long = format!("endpoints: ['unix:/{}']", "a".repeat(107));
    check_form_refused(&long, "has a path of 108 bytes, more than the system allows (107)");
    check_refused(
        "endpoints: ['unix:/a'], tls: { ca: ca.pem }",
        "tls.sni: required: a Unix socket has no host name to check the certificate against",
        "set `sni` to the host name in the certificate of the service",
    );
}

#[test]
fn reads_host_names_as_endpoints() {
    let named = backend("endpoints: [{ address: 'Api.Internal.:80', weight: 2 }, 127.0.0.1:1]");
    let host = "api.internal".to_owned();
    assert_eq!(named.endpoints[0].address, EndpointAddress::Name { host, port: 80 });
    assert_eq!(named.names().collect::<Vec<_>>(), ["api.internal"]);
    let addresses = |name: &str| match name {
        "api.internal" => ["10.0.0.1", "::1"].map(|ip| ip.parse().unwrap()).to_vec(),
        _ => Vec::new(),
    };
    let members = named.members(addresses);
    let reported: Vec<_> = members.iter().map(|m| (m.address.to_string(), m.weight)).collect();
    let expected = [("10.0.0.1:80", 2), ("[::1]:80", 2), ("127.0.0.1:1", 1)];
    assert_eq!(reported, expected.map(|(address, weight)| (address.to_owned(), weight)));
    check_refused(
        "endpoints: [a.test:0]",
        "endpoints[0]: a.test:0 has port 0",
        "write the port that the service listens on",
    );
    check_refused(
        "endpoints: [a.test:1], tls: { ca: ca.pem }",
        "tls.sni: required: without `sni`, the certificate must be valid for the IP addresses of `a.test`",
        "set `sni` to `a.test` or to the name in the certificate",
    );
}
