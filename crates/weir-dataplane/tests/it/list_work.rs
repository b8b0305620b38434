//! Tests that the work for long lists in request headers is limited per byte of the headers, for every field and every
//! shape of list.

use weir_config::{Scope, State};
use weir_dataplane::explain;
use weir_http::work;

use crate::setup::compile;

/// Maximum units of work per byte. `explain` reads the headers twice, and each list at most three times per reading.
const UNITS_PER_BYTE_MAX: f64 = 40.0;

/// Uses every feature that parses a list in a header field, or looks up a header field.
const CONFIGURATION: &str = "listeners: [{ address: 127.0.0.1:0 }]\nlimits: { head: 1MiB, fields: 128 }\n\
    routes:\n  - { path: /, backend: b, compress: {}, cors: { origins: ['https://*.test'], credentials: true },\n\
    \x20     headers: { x-a: { present: true } } }\n  - { path: /plain, backend: b }\n\
    backends: { b: { endpoints: ['127.0.0.1:1'], balance: { hash: { cookie: at } } } }\n";

/// Fields that contain lists, each with the separator of its list.
const LISTS: [(&str, &str); 13] = [
    ("Connection", ","),
    ("Accept-Encoding", ","),
    ("Cookie", ";"),
    ("Transfer-Encoding", ","),
    ("TE", ","),
    ("Upgrade", ","),
    ("Vary", ","),
    ("Via", ","),
    ("If-None-Match", ","),
    ("Cache-Control", ","),
    ("Access-Control-Request-Headers", ","),
    ("Authorization", ","),
    ("X-A", ","),
];

/// Lists of about `bytes` bytes.
fn values(separator: &str, bytes: usize) -> Vec<String> {
    let distinct: Vec<String> = (0..bytes / 7).map(|number| format!("t{number}")).collect();
    let weighted: Vec<String> = (0..bytes / 14).map(|number| format!("t{number};q=0.5")).collect();
    vec![
        separator.repeat(bytes),
        format!("x-own{}", separator.repeat(bytes)),
        distinct.join(separator),
        weighted.join(separator),
        format!("a=1;q=0.001{separator} ").repeat(bytes / 13),
    ]
}

#[test]
fn work_per_byte_does_not_grow_with_the_list() {
    let table = compile(&mut State::default(), CONFIGURATION);
    let short = "a:\r\n".repeat(97);
    let mut most = 0.0f64;
    for (name, separator) in LISTS {
        let large = matches!(name, "Connection" | "Accept-Encoding" | "Cookie").then_some(1_000_000);
        for bytes in [Some(31_200), large].into_iter().flatten() {
            for value in values(separator, bytes) {
                for target in ["/", "/plain"] {
                    let upgrade = if name == "Upgrade" { "Connection: upgrade\r\n" } else { "" };
                    let head = format!(
                        "GET {target} HTTP/1.1\r\nHost: h\r\nX-A: 1\r\n{upgrade}{name}: {value}\r\n{short}\r\n"
                    );
                    let (explained, units) =
                        work::of(|| explain(&table, head.as_bytes(), Scope::default(), false));
                    assert!(explained.is_some());
                    let per_byte = units as f64 / head.len() as f64;
                    let start: String = head.chars().take(80).collect();
                    assert!(per_byte <= UNITS_PER_BYTE_MAX, "{per_byte} units per byte: {start:?}");
                    most = most.max(per_byte);
                }
            }
        }
    }
    assert!(most > 1.0, "no work was counted");
}

/// Routes that each match a different value of a query parameter or of a header.
fn conditions(routes: usize) -> String {
    let of_route = |number: usize| {
        let condition = match number % 4 {
            0 => "query: { a: 'v' }".replace('v', &number.to_string()),
            1 => format!("query: {{ 'p{number}': {{ present: true }} }}"),
            2 => format!("headers: {{ x-a: '{number}' }}"),
            _ => format!("headers: {{ x-own-{number}: {{ present: true }} }}"),
        };
        format!("  - {{ path: /, backend: b, {condition} }}\n")
    };
    format!(
        "listeners: [{{ address: 127.0.0.1:0 }}]\nlimits: {{ head: 128KiB, fields: 128 }}\nroutes:\n{}\
         \x20 - {{ path: /, backend: b }}\nbackends: {{ b: {{ endpoints: ['127.0.0.1:1'] }} }}\n",
        (0..routes).map(of_route).collect::<String>()
    )
}

#[test]
fn work_per_byte_does_not_grow_with_the_routes() {
    // This limit allows for decoding, sorting and joining. Without an index, 400 routes need a hundred times as much
    // work.
    const UNITS_PER_BYTE_MAX: f64 = 40.0;
    let parameters = |name: &str| vec![name; 7_500].join("&");
    let line = "X-A: 0123456789012345678901234567890123456789\r\n".repeat(100);
    let heads = [
        (format!("/?{}", parameters("b=1")), String::new()),
        (format!("/?{}", parameters("%61=1")), String::new()),
        (format!("/?{}", parameters("c")), String::new()),
        ("/?a=1&b=2".to_owned(), line),
        (format!("/?a={}", "%61".repeat(9_000)), format!("X-A: {}\r\n", "a".repeat(30_000))),
    ];
    let mut most = 0.0f64;
    for routes in [4, 40, 400] {
        let table = compile(&mut State::default(), &conditions(routes));
        for (target, fields) in &heads {
            let view_of = |head: &[u8]| {
                let mut slots = weir_http::FieldSlots::new();
                let limits =
                    weir_http::HeadLimits { head_bytes: 1 << 17, target_bytes: 1 << 17, fields: 128 };
                let head = weir_http::parse_request(head, &limits, &mut slots).unwrap().unwrap();
                let (path, query) = head.path_and_query.split_once('?').unwrap();
                let view = weir_config::RequestView {
                    fields: head.fields,
                    query: Some(query),
                    ..weir_config::RequestView::get("h", path)
                };
                work::of(|| table.find(&view).map(|found| found.route))
            };
            let head = format!("GET {target} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
            let (found, units) = view_of(head.as_bytes());
            assert!(found.is_some());
            // Each route looks up its own name in the index.
            let look_ups = 200 * routes;
            let per_byte = units.saturating_sub(look_ups as u64) as f64 / head.len() as f64;
            let start: String = head.chars().take(40).collect();
            assert!(
                per_byte <= UNITS_PER_BYTE_MAX,
                "{per_byte} units per byte with {routes} routes: {start:?}"
            );
            most = most.max(per_byte);
        }
    }
    assert!(most > 1.0, "no work was counted");
}
