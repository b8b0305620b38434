//! Other spellings of a path that a rule rejects, sent through the gateway to a real nginx. None of them may reach that
//! path in nginx or in a servlet container.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::site::{Answer, Nginx, Ports};
use crate::process::Gateway;

/// Prefixes for the protected name `admin`. After each, at least one parser still sees `admin` as the first path
/// segment.
const BEFORE: [&str; 36] = [
    "/",
    "//",
    "///",
    "/./",
    "/.//",
    "/x/../",
    "/x/..//",
    "/x//../",
    "/../",
    "/%2f",
    "/%2F",
    "/%2f/",
    "//%2f",
    "/.%2f",
    "/%2e/",
    "/%2e%2e/",
    "/x/%2e%2E/",
    "/x/.%2e/",
    "/x/..%2f",
    "/x%2f../",
    "/%5c",
    "/%5C/",
    "/\\",
    "/x/..\\",
    "/x\\../",
    "/;/",
    "/;a/",
    "/.;/",
    "/x/..;/",
    "/x/..;a=b/",
    "/x/..%3b/",
    "/%3b/",
    "/x;y/../",
    "/x/..;/../",
    "/%c0%af",
    "/x/..%c0%af",
];

/// Spellings of the protected name `admin`, with suffixes.
const NAMES: [&str; 20] = [
    "admin",
    "%61dmin",
    "adm%69n",
    "admin;x",
    "admin;x=1,2;y",
    "admin%3bx",
    "admin%3B",
    "admin;",
    "admin;x/y",
    "admin;x/..;/admin",
    "admin/",
    "admin//",
    "admin/.",
    "admin/x/..",
    "admin/./x;y/",
    "x/../admin",
    "x/..;/admin",
    "admin%2f",
    "admin%2fx",
    "admin%5c",
];

/// Targets that are always rejected with 400.
const REFUSED: [&str; 4] = ["/admin%00", "/%00/admin", "/%zz/../admin", "/admin%"];

const NGINX: &str = "location = /admin { return 200 'admin'; }\nlocation /admin/ { return 200 'admin'; }\n\
    location / { return 200 'other $request_uri'; }";

fn ask(address: SocketAddr, target: &str) -> Answer {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let request = format!("GET {target} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("it answers");
    Answer::of(&answer)
}

fn gateway(rules: &str, backend: SocketAddr) -> Gateway {
    Gateway::start(&format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\npaths: {{ {rules} }}\n\
         routes: [{{ path: /admin, respond: {{ status: 403 }} }}, {{ path: /, backend: nginx }}]\n\
         backends: {{ nginx: {{ endpoints: ['{backend}'] }} }}\n"
    ))
}

/// The path as a servlet container reads it: without parameters, decoded once, with `/` for `\`, without dot segments.
fn read_by_a_container(target: &str) -> String {
    let bare: Vec<&str> =
        target.split('/').map(|segment| segment.split(';').next().unwrap_or_default()).collect();
    let bare = bare.join("/");
    let (mut decoded, mut rest) = (String::new(), bare.as_str());
    while let Some(c) = rest.chars().next() {
        let escaped = rest.strip_prefix('%').and_then(|hex| u8::from_str_radix(hex.get(..2)?, 16).ok());
        decoded.push(escaped.map_or(c, char::from));
        rest = &rest[if escaped.is_some() { 3 } else { c.len_utf8() }..];
    }
    let mut segments: Vec<&str> = Vec::new();
    for segment in decoded.split(['/', '\\']) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            name => segments.push(name),
        }
    }
    format!("/{}", segments.join("/"))
}

fn is_admin(path: &str) -> bool {
    path == "/admin" || path.starts_with("/admin/")
}

/// Whether the gateway rejected the request, or forwarded a path that a servlet container does not read as `/admin`.
fn is_blocked(answer: &Answer) -> bool {
    let sent = answer.body.strip_prefix("other ");
    matches!(answer.status, 400 | 403) || sent.is_some_and(|sent| !is_admin(&read_by_a_container(sent)))
}

#[test]
fn no_other_spelling_reaches_a_rejected_prefix() {
    let at = Ports::free("127.7.11.1").plain;
    let _nginx = Nginx::serving(NGINX, at);
    assert_eq!(ask(at, "/admin").body, "admin");
    let safe = gateway("", at);
    for before in BEFORE {
        for name in NAMES {
            let target = format!("{before}{name}");
            let answer = ask(safe.address, &target);
            assert!(is_blocked(&answer), "{target}: {answer:?}");
        }
    }
    for target in REFUSED {
        assert_eq!(ask(safe.address, target).status, 400, "{target}");
    }
    // Paths that are not spellings of `/admin` pass unchanged, with their parameters.
    for other in ["/", "/administrator", "/x/admin", "/a;b/c;d?e", "/;jsessionid=1", "/a%252Fb", "/admin%20"]
    {
        assert_eq!(ask(safe.address, other).body, format!("other {other}"));
    }
}

#[test]
fn with_lenient_rules_other_spellings_reach_it() {
    let at = Ports::free("127.7.11.2").plain;
    let _nginx = Nginx::serving(NGINX, at);
    let as_sent = gateway("merge_slashes: false, escaped_slashes: keep, path_parameters: keep", at);
    for target in ["//admin", "/.//admin", "/%2fadmin", "/x/..;/admin", "/;/admin", "/admin;x"] {
        assert!(!is_blocked(&ask(as_sent.address, target)), "{target}");
    }
    assert_eq!(ask(as_sent.address, "//admin").body, "admin");
    assert_eq!(ask(as_sent.address, "/%2fadmin").body, "admin");
}
