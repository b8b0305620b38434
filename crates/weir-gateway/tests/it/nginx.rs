//! The guide for nginx users: its two configurations, compared.

mod site;
mod spellings;

use std::collections::BTreeSet;
use std::path::Path;

use self::site::{Answer, OF_NGINX, OF_WEIR, Site};
use crate::operations::program;

const GUIDE: &str = include_str!("../../../../docs/nginx-to-weir-gateway.md");

/// For each request: the client's server name (empty for plain HTTP), the request, and the expected status.
const REQUESTS: [(&str, &str, u16); 31] = [
    // Plain HTTP is redirected to HTTPS.
    ("", "GET /a?b=c\r\nHost: shop.example", 301),
    ("", "GET /healthz\r\nHost: shop.example", 301),
    ("", "GET /api/users\r\nHost: shop.example", 301),
    ("", "HEAD /\r\nHost: a.b.blog.example", 301),
    ("", "GET /\r\nHost: other.example", 404),
    // Requests to the shop (`shop.example`), served and rejected.
    (
        "shop.example",
        "GET /\r\nHost: shop.example\r\nUser-Agent: tester \"1\"\r\nReferer: https://a.example/",
        200,
    ),
    ("shop.example", "HEAD /cart?x\r\nHost: shop.example", 200),
    ("shop.example", "POST /cart\r\nHost: shop.example\r\nContent-Length: 3\r\n\r\na=1", 200),
    ("shop.example", "GET /\r\nHost: SHOP.example", 200),
    (
        "shop.example",
        "GET /a\r\nHost: shop.example\r\nX-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Proto: ftp",
        200,
    ),
    ("shop.example", "GET /\r\nHost: other.example", 404),
    ("shop.example", "GET /apix\r\nHost: shop.example", 200),
    ("shop.example", "GET /a%00\r\nHost: shop.example", 400),
    ("shop.example", "GET /%zz\r\nHost: shop.example", 400),
    ("shop.example", "PUT /cart\r\nHost: shop.example\r\nContent-Length: 11000000", 413),
    // Paths to which the gateway responds without a backend, other spellings of these paths, and a longer path.
    ("shop.example", "GET /healthz\r\nHost: shop.example", 200),
    ("shop.example", "GET /x/../healthz?a\r\nHost: shop.example", 200),
    ("shop.example", "GET //%68ealthz\r\nHost: shop.example", 200),
    ("shop.example", "GET /healthz/\r\nHost: shop.example", 200),
    ("shop.example", "GET /favicon.ico\r\nHost: shop.example", 204),
    ("shop.example", "GET /old/a/b?c=d\r\nHost: shop.example", 301),
    // The API below its prefix: a response, a failure, a timeout.
    ("shop.example", "GET /api/users?page=2\r\nHost: shop.example", 200),
    ("shop.example", "GET /api/\r\nHost: shop.example", 200),
    ("shop.example", "GET /api/broken\r\nHost: shop.example", 502),
    ("shop.example", "GET /api/slow\r\nHost: shop.example", 504),
    // A 503 is retried if another endpoint may succeed. If no endpoint succeeds, the client gets the 503.
    ("shop.example", "GET /flaky\r\nHost: shop.example", 200),
    ("shop.example", "GET /unavailable\r\nHost: shop.example", 503),
    // A path pattern: one path that matches, and one that does not.
    ("shop.example", "GET /items/7?a\r\nHost: shop.example\r\nX-User: alice", 200),
    ("shop.example", "GET /items/x\r\nHost: shop.example", 200),
    // The blog, with an endpoint that refuses connections.
    ("a.blog.example", "GET /1?x=y\r\nHost: a.blog.example", 200),
    ("blog.example", "GET /drafts/2?x=y\r\nHost: a.b.blog.example", 200),
];

/// The parts of a response that the guide promises.
fn promised(answer: &Answer) -> Vec<String> {
    let names = ["x-backend", "location", "x-frame-options", "x-powered-by"];
    let mut made = vec![answer.status.to_string()];
    made.extend(names.map(|name| format!("{name}: {}", answer.field(name))));
    // Bodies of error pages are not compared, because they differ per gateway. A response from an origin is always
    // compared: its body echoes the request that the origin received.
    if answer.status < 300 || !answer.field("x-backend").is_empty() {
        made.push(format!("{}: {}", answer.field("content-type"), answer.body));
    }
    made
}

/// Access log lines without times and sizes. Sorted, because workers write independently.
fn logged(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| {
            let parts: Vec<&str> = line.split('"').collect();
            let [from, request, status, referer, _, agent, _] = parts[..] else { panic!("{line}") };
            let first = |part: &str| part.split_whitespace().next().unwrap_or_default().to_owned();
            [first(from).as_str(), request, first(status).as_str(), referer, agent].join(" | ")
        })
        .collect();
    lines.sort();
    lines
}

/// Sends bytes both ways over an upgraded connection.
fn echoed(site: &Site, ports: site::Ports) -> String {
    let mut stream = site.connect(ports, "shop.example");
    let request = b"GET /live HTTP/1.1\r\nHost: shop.example\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n";
    stream.write_all(request).expect("it reads");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a head");
        head.extend(byte);
    }
    stream.write_all(b"ping").expect("it reads");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("an echo");
    let head = String::from_utf8_lossy(&head).into_owned();
    let status = head.split(' ').nth(1).unwrap_or_default();
    format!("{status} {}", String::from_utf8_lossy(&answer))
}

#[test]
fn the_guide_quotes_the_example() {
    for (language, example) in [("nginx", OF_NGINX), ("yaml", OF_WEIR)] {
        let (_, rest) = GUIDE.split_once(&format!("\n```{language}\n")).expect("a block");
        let (quoted, _) = rest.split_once("```").expect("its end");
        let mut lines = example.lines();
        for line in quoted.lines() {
            assert!(
                lines.any(|of_example| of_example == line),
                "{line:?} is missing from the example, or in another place"
            );
        }
        assert!(quoted.lines().count() > 3, "{quoted}");
    }
}

#[test]
fn the_example_of_the_guide_responds_like_nginx() {
    let site = Site::start("127.7.9");
    let file = site.weir.dir.path().join("gateway.yaml");
    let check = program().args(["check", "--strict"]).arg(file).output().expect("it starts");
    assert!(check.status.success(), "{}", String::from_utf8_lossy(&check.stderr));
    for (name, request, status) in REQUESTS {
        let [theirs, ours] = site.ask(name, request);
        assert_eq!(promised(&ours), promised(&theirs), "{name} {request}");
        assert_eq!(ours.status, status, "{name} {request}");
    }
    let backends: BTreeSet<String> = REQUESTS
        .iter()
        .filter(|(_, _, status)| *status == 200)
        .map(|(name, request, _)| site.ask_one(site.weir_ports, name, request).field("x-backend").to_owned())
        .collect();
    assert_eq!(backends.into_iter().collect::<Vec<_>>(), ["", "api", "blog", "items", "shop"]);
    for ports in [site.nginx_ports, site.weir_ports] {
        assert_eq!(echoed(&site, ports), "101 ping");
        // Requests with the same key go to the same endpoint, whichever that is.
        for user in ["alice", "bob", "carol"] {
            let request = format!("GET /items/1\r\nHost: shop.example\r\nX-User: {user}");
            let endpoints: BTreeSet<String> = (0..4)
                .map(|_| site.ask_one(ports, "shop.example", &request).field("x-endpoint").to_owned())
                .collect();
            assert_eq!(endpoints.len(), 1, "{user}: {endpoints:?}");
        }
    }
}

#[test]
fn the_example_of_the_guide_logs_like_nginx() {
    let site = Site::start("127.7.10");
    let requests = REQUESTS.iter().filter(|(_, _, status)| *status != 504);
    for (name, request, _) in requests.clone() {
        site.ask(name, request);
    }
    let wanted = requests.count();
    let read = |dir: &Path| std::fs::read_to_string(dir.join("access.log")).unwrap_or_default();
    let [theirs, ours] = [site.nginx.dir.path(), site.weir.dir.path()];
    site.weir.wait_for("all lines", |_| [theirs, ours].iter().all(|dir| read(dir).lines().count() >= wanted));
    assert_eq!(logged(&read(ours)), logged(&read(theirs)));
    assert_eq!(logged(&read(ours)).len(), wanted);
}

#[test]
fn documented_differences_exist() {
    let site = Site::start("127.7.11");
    let ask = |request: &str| site.ask("shop.example", &format!("{request}\r\nHost: shop.example"));
    let begins = |answers: &[Answer; 2]| {
        [0, 1].map(|which| answers[which].body.lines().next().unwrap_or_default().to_owned())
    };
    assert_eq!(ask("GET /api").map(|answer| answer.status), [301, 200]);
    assert_eq!(begins(&ask("GET /x/../cart?a=/..")), ["GET /x/../cart?a=/..", "GET /cart?a=/.."]);
    assert_eq!(begins(&ask("GET /%7Eme")), ["GET /%7Eme", "GET /~me"]);
    let [theirs, ours] = ask("GET /\r\nX_User: me");
    assert!(theirs.field("server").starts_with("nginx/") && theirs.body.contains("x_user []"), "{theirs:?}");
    assert!(ours.field("server") == "origin" && ours.body.contains("x_user []"), "{ours:?}");
    let [theirs, ours] = site.ask("", "GET /\r\nHost: other.example");
    assert_eq!([theirs.field("content-type"), ours.field("x-weir-error")], ["text/html", "no_route"]);
    let fat = format!("GET /\r\nX-Fat: {}", "x".repeat(40_000));
    assert_eq!(ask(&fat).map(|answer| answer.status), [400, 431]);
    // Both gateways use weighted round robin, so at least one of four requests goes first to the endpoint that responds
    // with 503.
    let posts = [site.nginx_ports, site.weir_ports].map(|ports| {
        let post = "POST /flaky\r\nHost: shop.example\r\nContent-Length: 1\r\n\r\nx";
        let statuses = (0..4).map(|_| site.ask_one(ports, "shop.example", post).status);
        statuses.collect::<BTreeSet<u16>>()
    });
    assert!(posts.iter().all(|statuses| statuses.contains(&503)), "a POST is sent once by both: {posts:?}");
}
