//! Counters per listener, group and backend.

use weir_dataplane::RouteStats;

use crate::setup::{Origin, Proxy, compile, recompile_with};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// A request for this path on its own connection.
fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
}

/// Group, backend and counts from 1xx to 5xx of each series with a count above 0.
fn counted(proxy: &Proxy) -> Vec<(String, String, [u64; 5])> {
    let row = |route: &RouteStats| {
        let by = route.by_status;
        let counts = [by.informational, by.success, by.redirection, by.client_error, by.server_error];
        (route.group.clone(), route.backend.clone(), counts)
    };
    let rows = proxy.gateway.stats().routes.iter().map(row).collect::<Vec<_>>();
    rows.into_iter().filter(|(.., counts)| counts.iter().sum::<u64>() > 0).collect()
}

fn check(proxy: &Proxy, expected: &[(&str, &str, [u64; 5])]) {
    let expected =
        expected.iter().map(|(group, backend, counts)| ((*group).to_owned(), (*backend).to_owned(), *counts));
    assert_eq!(counted(proxy), expected.collect::<Vec<_>>());
}

fn configuration(origin: &Origin, more: &str) -> String {
    let dead = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 2\nroutes:\n\
         - {{ path: /a, backend: a }}\n\
         - {{ path: /b, backend: a, metrics_group: shop }}\n\
         - {{ path: /c, backend: dead, metrics_group: shop }}\n\
         - {{ path: /d, backends: [{{ backend: a, weight: 1 }}, {{ backend: dead, weight: 1 }}] }}\n\
         - {{ path: /e, backends: [{{ backend: a, weight: 0 }}], metrics_group: shop }}\n\
         - {{ path: /f, redirect: {{ path: /a }}, metrics_group: moved }}\n\
         - {{ path: /g, respond: {{ status: 200, body: hi }} }}\n\
         backends: {{ a: {{ endpoints: ['{}'] }}, dead: {{ endpoints: ['{dead}'] }} }}\n{more}",
        origin.address
    )
}

#[test]
fn removed_backends_leave_no_series() {
    let origin = Origin::answering(OK);
    let text = |number: usize| {
        format!(
            "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 2\n\
             routes: [{{ path: /, backend: b{number}, metrics_group: all }}]\n\
             backends: {{ b{number}: {{ endpoints: ['{}'] }} }}",
            origin.address
        )
    };
    let mut proxy = Proxy::with(&text(0));
    for number in 1..=100 {
        assert_eq!(proxy.ask(&get("/")).status, 200);
        let table = compile(&mut proxy.state, &text(number));
        proxy.gateway.apply(table).unwrap();
    }
    assert_eq!(proxy.ask(&get("/")).status, 200);
    proxy.wait_for("one remaining backend", |stats| stats.upstream.backends.len() == 1);
    let stats = proxy.gateway.stats();
    let text = stats.prometheus();
    for family in ["weir_upstream_endpoints", "weir_upstream_connections_open", "weir_upstream_waits_total"] {
        assert_eq!(text.matches(&format!("\n{family}{{")).count(), 1, "{family}");
    }
    assert_eq!(stats.upstream.connects + stats.upstream.reused, 101, "totals include removed backends");
}

#[test]
fn counts_responses_by_group_backend_and_class() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&configuration(&origin, ""));
    for (path, times) in [("/a", 3), ("/b", 2), ("/c", 1), ("/e", 1), ("/f", 2), ("/g", 1), ("/none", 4)] {
        for _ in 0..times {
            proxy.ask(&get(path));
        }
    }
    let expected = [
        ("", "", [0, 1, 0, 0, 0]),
        ("a", "a", [0, 3, 0, 0, 0]),
        ("moved", "", [0, 0, 2, 0, 0]),
        ("shop", "", [0, 0, 0, 0, 1]),
        ("shop", "a", [0, 2, 0, 0, 0]),
        ("shop", "dead", [0, 0, 0, 0, 1]),
    ];
    check(&proxy, &expected);
    let stats = proxy.gateway.stats();
    assert_eq!(stats.by_status.client_error, 4, "requests without a route count only for the listener");
    assert!(stats.routes.iter().all(|route| route.listener == "main"));
    let text = stats.prometheus();
    let line =
        "\nweir_route_responses_total{listener=\"main\",group=\"shop\",backend=\"dead\",status=\"5xx\"} 1\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn counts_weighted_backends_separately() {
    let origin = Origin::answering(OK);
    // One worker, because each worker has its own rotation over the weighted backends.
    let proxy = Proxy::with(&configuration(&origin, "").replace("workers: 2", "workers: 1"));
    for _ in 0..6 {
        proxy.ask(&get("/d"));
    }
    check(&proxy, &[("a", "a", [0, 3, 0, 0, 0]), ("dead", "dead", [0, 0, 0, 0, 3])]);
}

#[test]
fn counters_survive_a_reload() {
    let origin = Origin::answering(OK);
    let text = configuration(&origin, "");
    let mut proxy = Proxy::with(&text);
    proxy.ask(&get("/a"));
    let changed =
        text.replace("- { path: /a, backend: a }", "- { path: /a, backend: a, metrics_group: shop }");
    let table = recompile_with(&mut proxy.state, &changed, &[]);
    proxy.gateway.apply(table).unwrap();
    proxy.ask(&get("/a"));
    let table = recompile_with(&mut proxy.state, &text, &[]);
    proxy.gateway.apply(table).unwrap();
    proxy.ask(&get("/a"));
    check(&proxy, &[("a", "a", [0, 2, 0, 0, 0]), ("shop", "a", [0, 1, 0, 0, 0])]);
}

#[test]
fn records_latency_by_default() {
    let origin = Origin::start(|served| {
        while let Some(request) = served.request() {
            if request.starts_with("GET /a/slow ") {
                std::thread::sleep(std::time::Duration::from_millis(60));
            }
            served.send(OK);
        }
    });
    let proxy = Proxy::with(&configuration(&origin, ""));
    for path in ["/a", "/a", "/a/slow", "/f", "/none"] {
        proxy.ask(&get(path));
    }
    // The client can get the response before the gateway records its latency.
    let count = |route: &RouteStats| route.latency.by_bucket.iter().sum::<u64>();
    proxy.wait_for("the last latency", |stats| stats.routes.iter().map(count).sum::<u64>() == 4);
    let routes = proxy.gateway.stats().routes;
    let of = |group: &str| routes.iter().find(|route| route.group == group).unwrap();
    assert_eq!((count(of("a")), count(of("moved"))), (3, 1));
    assert!(of("a").latency.ns_sum >= 60_000_000);
    // The first eleven buckets end below 60 ms.
    let slow: u64 = of("a").latency.by_bucket[11..].iter().sum();
    assert!(slow >= 1, "{:?}", of("a").latency);
    let text = proxy.gateway.stats().prometheus();
    let end = "_bucket{listener=\"main\",group=\"a\",backend=\"a\",le=\"+Inf\"} 3\n";
    assert!(text.contains(&format!("\nweir_request_duration_seconds{end}")), "{text}");
}

#[test]
fn does_not_record_latency_if_turned_off() {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&configuration(&origin, "metrics: { latency: false }"));
    for path in ["/a", "/a", "/f"] {
        proxy.ask(&get(path));
    }
    proxy.wait_for("the last response", |stats| stats.responses == 3);
    let stats = proxy.gateway.stats();
    assert!(stats.routes.iter().all(|route| route.latency.ns_sum == 0), "{:?}", stats.routes);
    assert!(!stats.prometheus().contains("\nweir_request_duration_seconds"));
}
