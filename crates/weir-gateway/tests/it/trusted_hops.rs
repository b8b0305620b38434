//! Client addresses behind trusted proxies: real nginx and HAProxy, with clients that send forged headers.

mod chain;

use self::chain::{Chain, Front};

/// Header values from clients that try to forge or hide their address, or to make the gateway use another element of
/// the list. Each entry is a list of values, one per header line (possibly none). They are sent as `X-Forwarded-For`,
/// as `Forwarded` and as `X-Real-IP`.
const LIES: [&[&[u8]]; 22] = [
    &[],
    &[b"6.6.6.6"],
    &[b"6.6.6.6, \"x"],
    &[b"\"6.6.6.6"],
    &[b"for=6.6.6.6;host=\"x"],
    &[b"for=\"6.6.6.6, for=7.7.7.7"],
    &[b"x, for=\"1.1.1.1"],
    &[b"for=6.6.6.6;x=\"\\"],
    &[b"6.6.6.6, \\"],
    &[b"6.6.6.6\\\""],
    &[b"\xff"],
    &[b"6.6.6.6, \xe2\x82, \xff\""],
    &[b"6.6.6.6,,,"],
    &[b",", b",,"],
    &[b""],
    &[b"6.6.6.6", b"7.7.7.7, \"", b"\xff", b"8.8.8.8"],
    &[b"unknown"],
    &[b"_hidden", b"unknown, for=_x"],
    &[b"6.6.6.6:80, 7.7.7.7:99999999"],
    &[b"[2001:db8::6]:4711, 2001:db8::7, [2001:db8::8]"],
    &[b"for=\"[2001:db8::6]:4711\", for=\"[2001:db8::7"],
    &[b"6.6.6.6, 7.7.7.7, 8.8.8.8, 9.9.9.9, 1.1.1.1, 2.2.2.2, 3.3.3.3, 4.4.4.4, 5.5.5.5"],
];

/// Sends each forged header, and checks the upstream request and the access log.
fn check(fronts: &[Front], settings: &str) {
    let chain = Chain::start(fronts, settings);
    let want = chain.expected_fields();
    for (number, lines) in LIES.iter().enumerate() {
        let fields: Vec<Vec<u8>> = lines
            .iter()
            .flat_map(|line| {
                [&b"X-Forwarded-For: "[..], b"Forwarded: ", b"X-Real-IP: "].map(|name| [name, line].concat())
            })
            .collect();
        let head = chain.ask(&format!("/{number}"), &fields);
        let of = |name: &str| {
            let lines = head.lines().filter_map(|line| line.split_once(": "));
            let named = lines.filter(|(other, _)| other.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.to_owned()).collect::<Vec<_>>()
        };
        let shown = fields.iter().map(|line| line.escape_ascii().to_string()).collect::<Vec<_>>();
        assert_eq!(of("x-forwarded-for"), [want.x_forwarded_for.as_str()], "{fronts:?} {shown:?}");
        assert_eq!(of("forwarded"), [want.forwarded.as_str()], "{fronts:?} {shown:?}");
        assert!(of("x-real-ip").iter().all(|client| *client == want.client), "{fronts:?} {shown:?} {head}");
    }
    let expected: Vec<String> = (0..LIES.len()).map(|number| format!("{} /{number}", want.client)).collect();
    assert_eq!(chain.logged(LIES.len()), expected, "{fronts:?}");
}

const BOTH: &str = "x_forwarded: true, forwarded: true";

#[test]
fn no_client_of_one_nginx_forges_or_hides_its_address() {
    check(&[Front::Nginx], BOTH);
    check(&[Front::NginxWithPorts], BOTH);
}

#[test]
fn no_client_of_one_haproxy_forges_or_hides_its_address() {
    check(&[Front::Haproxy], BOTH);
}

#[test]
fn no_client_of_two_proxies_forges_or_hides_its_address() {
    check(&[Front::Nginx, Front::Nginx], BOTH);
    check(&[Front::Haproxy, Front::Haproxy], BOTH);
    check(&[Front::Nginx, Front::Haproxy], BOTH);
    check(&[Front::Haproxy, Front::Nginx], BOTH);
}

#[test]
fn no_client_forges_or_hides_its_address_in_forwarded() {
    let by_forwarded = format!("{BOTH}, trusted_header: forwarded");
    check(&[Front::NginxForwarded], &by_forwarded);
    check(&[Front::HaproxyForwarded], &by_forwarded);
    check(&[Front::NginxForwarded, Front::HaproxyForwarded], &by_forwarded);
    check(&[Front::HaproxyForwarded, Front::HaproxyForwarded], &by_forwarded);
    // HAProxy in front of nginx is not tested: HAProxy adds a second `Forwarded` line, but before nginx 1.23,
    // `$http_forwarded` contains only the first line.
    check(&[Front::NginxForwarded, Front::NginxForwarded], &by_forwarded);
}

/// nginx and HAProxy pass on a host with percent-escapes, which the gateway rejects with 400. The log line must have
/// the client's address, not the proxy's, so that nobody blocks the proxy.
#[test]
fn a_rejected_request_is_logged_with_the_client_behind_the_proxy() {
    for front in [Front::Nginx, Front::Haproxy] {
        let chain = Chain::start(&[front], BOTH);
        let (_, _, answer) = chain.answer("%61dmin.test", "/a", &[b"X-Forwarded-For: 6.6.6.6".to_vec()]);
        assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("malformed_request"), "{answer}");
        assert_eq!(chain.logged(1), [format!("{} /a", chain.expected_fields().client)], "{front:?}");
    }
}

#[test]
fn a_proxy_that_hides_its_client_does_not_make_another_one_the_client() {
    check(&[Front::NginxHiding], BOTH);
    check(&[Front::NginxHiding, Front::Haproxy], BOTH);
}
