//! Manifests, and directories of them, tested through sockets.

mod filters;
mod matching;
mod parents;
mod redirects;
mod served;
mod timeouts;
mod tls;

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use self::served::{Served, ask, backend, echo, free_port, gateway, route, whole, write};
use self::tls::{ask_secure, certificates};

const GUIDE: &str = include_str!("../../../../docs/manifests.md");

#[test]
fn manifests_and_the_compact_format_respond_alike() {
    let (a, b) = (echo("a"), echo("b"));
    let ip = "127.7.1.1";
    let ports = [free_port(ip), free_port(ip)];
    let listener = |port: u16| format!("    - {{ name: http, port: {port}, protocol: HTTP }}");
    let to = |name: &str| format!("{{ group: gateway.weir.example, kind: Backend, name: {name} }}");
    let rules = format!(
        "  hostnames: [shop.test, '*.shop.test']
  rules:
    - matches: [{{ path: {{ type: Exact, value: /cart }}, method: GET }}, {{ path: {{ value: /basket }} }}]
      filters:
        - {{ type: URLRewrite, urlRewrite: {{ hostname: up.test, path: {{ type: ReplaceFullPath, replaceFullPath: /v2 }} }} }}
        - {{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{{ name: X-Tier, value: gold }}], remove: [X-Debug] }} }}
      backendRefs: [{a}]
    - matches: [{{ path: {{ type: RegularExpression, value: '/items/[0-9]+' }}, headers: [{{ name: X-Version, value: '2' }}] }}]
      filters: [{{ type: ResponseHeaderModifier, responseHeaderModifier: {{ add: [{{ name: X-Seen, value: 'yes' }}] }} }}]
      timeouts: {{ request: 10s }}
      backendRefs: [{b}]
    - matches: [{{ path: {{ value: /old }}, queryParams: [{{ name: page, value: '1' }}] }}]
      filters: [{{ type: RequestRedirect, requestRedirect: {{ scheme: https, statusCode: 301, path: {{ type: ReplacePrefixMatch, replacePrefixMatch: /new }} }} }}]
    - matches: [{{ path: {{ value: /api }} }}]
      filters: [{{ type: CORS, cors: {{ allowOrigins: ['https://app.test'], allowMethods: [PUT], maxAge: 600 }} }}]
      backendRefs: [{{ group: gateway.weir.example, kind: Backend, name: a, weight: 3 }}, {b}]
    - matches: [{{ path: {{ value: /empty }} }}]
",
        a = to("a"),
        b = to("b")
    );
    let manifests = [
        gateway(ip, &listener(ports[0])),
        backend("a", a),
        backend("b", b),
        route("shop", "", &rules),
        route("rest", "", &whole("b")),
    ];
    let compact = format!(
        "listeners: [{{ address: '{ip}:{}' }}]
backends: {{ a: {{ endpoints: ['{a}'] }}, b: {{ endpoints: ['{b}'] }} }}
routes:
  - {{ hosts: &shop [shop.test, '*.shop.test'], exact: /cart, methods: [GET], backend: a, rewrite: &to {{ host: up.test, path: /v2 }},
      request_headers: &gold {{ set: {{ X-Tier: gold }}, remove: [X-Debug] }} }}
  - {{ hosts: *shop, path: /basket, backend: a, rewrite: *to, request_headers: *gold }}
  - {{ hosts: *shop, regex: '/items/[0-9]+', headers: {{ X-Version: '2' }}, backend: b, timeouts: {{ request: 10s }},
      response_headers: {{ add: {{ X-Seen: 'yes' }} }} }}
  - {{ hosts: *shop, path: /old, query: {{ page: '1' }}, redirect: {{ scheme: https, status: 301, prefix: /new }} }}
  - {{ hosts: *shop, path: /api, backends: [{{ backend: a, weight: 3 }}, {{ backend: b }}],
      cors: {{ origins: ['https://app.test'], methods: [PUT], max_age: 600s }} }}
  - {{ hosts: *shop, path: /empty, backends: [] }}
  - {{ path: /, backend: b }}
",
        ports[1]
    );
    // Each worker balances by weight on its own, so one worker makes the order predictable.
    let one_worker = ("settings.yaml", "workers: 1\n");
    let by_manifests = Served::start(&[("all.yaml", &manifests.concat()), one_worker]);
    let by_compact = Served::start(&[("all.yaml", &compact), one_worker]);
    let [of_manifests, of_compact] = [&by_manifests, &by_compact].map(|served| served.gateway.addresses()[0]);
    let mut seen = std::collections::BTreeSet::new();
    for request in [
        "GET /cart?x=1\r\nHost: shop.test\r\nX-Debug: 1\r\nX-Tier: tin\r\n",
        "PUT /cart\r\nHost: shop.test\r\n",
        "GET /cart/2\r\nHost: a.b.shop.test\r\n",
        "GET /basket/2?y\r\nHost: SHOP.test:80\r\n",
        "GET /items/7\r\nHost: shop.test\r\nX-Version: 2\r\n",
        "GET /items/7\r\nHost: shop.test\r\nX-Version: 3\r\n",
        "GET /items/x\r\nHost: shop.test\r\nX-Version: 2\r\n",
        "GET /old/a?page=1\r\nHost: shop.test\r\n",
        "GET /old/a?page=2\r\nHost: shop.test\r\n",
        "OPTIONS /api\r\nHost: shop.test\r\nOrigin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n",
        "GET /api/1\r\nHost: shop.test\r\nOrigin: https://app.test\r\n",
        "GET /api/2\r\nHost: shop.test\r\n",
        "GET /api/3\r\nHost: shop.test\r\n",
        "GET /api/4\r\nHost: shop.test\r\n",
        "GET /empty\r\nHost: shop.test\r\n",
        "GET /x/../%63art\r\nHost: shop.test\r\n",
        "GET /\r\nHost: other.test\r\n",
        "GET /a%2F..\r\nHost: other.test\r\n",
    ] {
        let answer = ask(of_manifests, request);
        assert_eq!(answer, ask(of_compact, request), "{request}");
        assert!(answer.starts_with("HTTP/1.1 "), "{request}: {answer}");
        seen.insert(answer.lines().next().unwrap_or_default().to_owned());
    }
    let statuses: Vec<&str> = seen.iter().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_eq!(statuses, ["200", "204", "301", "400", "500"]);
}

#[test]
fn a_new_route_in_the_directory_is_the_only_file_that_is_parsed() {
    let ip = "127.7.4.1";
    let port = free_port(ip);
    let listener = format!("    - {{ name: http, port: {port}, protocol: HTTP }}");
    let mut served = Served::start(&[
        ("gateway.yaml", &gateway(ip, &listener)),
        ("backends.yaml", &[backend("a", echo("a")), backend("b", echo("b"))].concat()),
        ("shop.yaml", &route("shop", "", &format!("  hostnames: [shop.test]\n{}", whole("a")))),
    ]);
    let address = served.gateway.addresses()[0];
    let who = |host: &str| {
        let answer = ask(address, &format!("GET /\r\nHost: {host}\r\n"));
        let body = answer.rsplit("\n\n").find(|part| part.contains(": GET")).unwrap_or(&answer).to_owned();
        body.split(':').next().unwrap_or_default().to_owned()
    };
    assert_eq!((who("shop.test").as_str(), served.source.files_parsed()), ("a", 3));
    let blog = route("blog", "", &format!("  hostnames: [blog.test]\n{}", whole("b")));
    write(served.dir.path(), "blog.yaml", &blog);
    assert_eq!(served.reload(), [""; 0]);
    assert_eq!((who("blog.test").as_str(), served.source.files_parsed()), ("b", 4));
    // The error names the invalid file, and the active configuration stays.
    write(served.dir.path(), "blog.yaml", &blog.replace("name: b }", "name: c }"));
    let lines = served.reload();
    let expected =
        "/blog.yaml:8:27: HTTPRoute default/blog: spec.rules[0].backendRefs[0]: unknown Backend default/c";
    assert!(lines[0].ends_with(expected), "{lines:#?}");
    assert_eq!((who("blog.test").as_str(), who("shop.test").as_str()), ("b", "a"));
    std::fs::remove_file(served.dir.path().join("blog.yaml")).expect("it is there");
    assert_eq!(served.reload(), [""; 0]);
    assert!(ask(address, "GET /\r\nHost: blog.test\r\n").starts_with("HTTP/1.1 404 "));
    assert_eq!(served.source.files_parsed(), 5);
}

#[test]
fn the_older_of_two_equal_routes_wins() {
    let ip = "127.7.5.1";
    let port = free_port(ip);
    let listener = format!("    - {{ name: http, port: {port}, protocol: HTTP }}");
    let of = |name: &str, created: &str| {
        let created =
            if created.is_empty() { String::new() } else { format!(", creationTimestamp: '{created}'") };
        route(name, &created, &whole(name))
    };
    let mut served = Served::start(&[
        ("gateway.yaml", &gateway(ip, &listener)),
        ("backends.yaml", &[backend("a", echo("a")), backend("b", echo("b"))].concat()),
        ("routes.yaml", &[of("a", ""), of("b", "")].concat()),
    ]);
    let address = served.gateway.addresses()[0];
    let who = || {
        let answer = ask(address, "GET /\r\nHost: h\r\n");
        ["a", "b"].into_iter().find(|name| answer.contains(&format!("\n{name}: GET"))).unwrap_or("nobody")
    };
    assert_eq!(who(), "a");
    for (a, b, expected) in [
        ("2024-05-01T00:00:01Z", "2024-05-01T00:00:00Z", "b"),
        ("2024-05-01T00:00:00Z", "2024-05-01T00:00:00Z", "a"),
        ("", "2024-05-01T00:00:00Z", "b"),
    ] {
        write(served.dir.path(), "routes.yaml", &[of("a", a), of("b", b)].concat());
        assert_eq!(served.reload(), [""; 0]);
        assert_eq!(who(), expected, "{a} {b}");
    }
}

#[test]
fn a_request_falls_back_to_no_other_listener() {
    let ip = "127.7.8.1";
    let port = free_port(ip);
    let listeners = format!(
        "    - {{ name: wide, port: {port}, protocol: HTTP, hostname: '*.test' }}
    - {{ name: shop, port: {port}, protocol: HTTP, hostname: shop.test }}"
    );
    let rule = "  rules: [{ matches: [{ path: { value: /cart } }], backendRefs: [{ group: gateway.weir.example, kind: Backend, name: a }] }]";
    let shop = route("shop", "", rule).replace("name: edge", "name: edge, sectionName: shop");
    let wide = route("wide", "", &whole("a")).replace("name: edge", "name: edge, sectionName: wide");
    let served = Served::start(&[(
        "all.yaml",
        &[gateway(ip, &listeners), backend("a", echo("a")), shop, wide].concat(),
    )]);
    let address = served.gateway.addresses()[0];
    let answer = |host: &str, path: &str| ask(address, &format!("GET {path}\r\nHost: {host}\r\n"));
    assert!(answer("shop.test", "/cart").contains("\na: GET /cart HTTP/1.1\n"));
    assert!(answer("blog.test", "/blog").contains("\na: GET /blog HTTP/1.1\n"));
    let refused = answer("shop.test", "/blog");
    // No listener has this host, so the gateway itself responds.
    let unknown = answer("example.org", "/blog");
    let sorted = |answer: &str| {
        let mut lines: Vec<String> = answer.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&refused), sorted(&unknown));
    assert!(
        refused.starts_with("HTTP/1.1 404 ") && refused.contains("\nX-Weir-Error: no_route\n"),
        "{refused}"
    );
}

/// Starts the program with a directory. Returns it, and the lines that it prints after `ready`.
fn start_program(dir: &Path, more: &[&str]) -> (Child, impl Iterator<Item = String> + use<>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    let command = command.arg("--config").arg(dir).args(more).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines().map_while(Result::ok);
    assert!(lines.by_ref().any(|line| line == "ready"));
    (child, lines)
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_raw(child.id().cast_signed()).expect("a pid"), signal).expect("it runs");
}

/// A compact configuration that responds with this status for one host.
fn answering(status: u16) -> String {
    format!("routes: [{{ hosts: [shop.test], path: /, respond: {{ status: {status} }} }}]\n")
}

const ONE_LISTENER: &str = "listeners: [{ address: 127.0.0.1:0 }]\nworkers: 1\ndrain: { delay: 0s }\n";

#[test]
fn the_program_reads_a_directory_and_reports_parsed_files() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), "a.yaml", ONE_LISTENER);
    write(dir.path(), "shop.yaml", &answering(201));
    let (mut child, mut lines) = start_program(dir.path(), &[]);
    write(dir.path(), "shop.yaml", &answering(202));
    signal(&child, Signal::HUP);
    let expected = format!("reloaded {}, version 2, 1 of 2 files parsed", dir.path().display());
    assert_eq!(lines.next(), Some(expected));
    signal(&child, Signal::TERM);
    assert!(child.wait().expect("it ends").success());
    let mut explain = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    let explained = explain.arg("explain").arg(dir.path()).args(["GET", "http://shop.test/x"]).output();
    let output = String::from_utf8(explained.expect("it starts").stdout).expect("text");
    assert!(
        output.starts_with("path      /x\nroute     shop.yaml routes[0]\nresponse  from the route:\n"),
        "{output}"
    );
    assert!(output.contains("HTTP/1.1 202 Accepted\n"), "{output}");
}

/// Kubernetes mounts a ConfigMap in this way: every file is a link through `..data`, and a rename replaces `..data`.
#[test]
fn a_changed_config_map_takes_effect_with_watch() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| dir.path().join(name);
    let put = |version: &str, status: u16| {
        std::fs::create_dir(at(version)).expect("a folder");
        write(&at(version), "a.yaml", ONE_LISTENER);
        write(&at(version), "shop.yaml", &answering(status));
        symlink(version, at("..data_tmp")).expect("a link");
        std::fs::rename(at("..data_tmp"), at("..data")).expect("a link");
    };
    put("..1", 201);
    for name in ["a.yaml", "shop.yaml"] {
        symlink(format!("..data/{name}"), at(name)).expect("a link");
    }
    let (mut child, mut lines) = start_program(dir.path(), &["--watch"]);
    for (version, status) in [(2, 202), (3, 203)] {
        put(&format!("..{version}"), status);
        std::fs::remove_dir_all(at(&format!("..{}", version - 1))).expect("it is there");
        let expected = format!("reloaded {}, version {version}, 1 of 2 files parsed", dir.path().display());
        assert_eq!(lines.next(), Some(expected));
    }
    signal(&child, Signal::TERM);
    assert!(child.wait().expect("it ends").success());
}

/// The code blocks of the guide that begin with `start`, without that start.
fn blocks(start: &str) -> Vec<&'static str> {
    let blocks = GUIDE.split(start).skip(1);
    blocks.map(|block| block.split("```").next().unwrap_or_default()).collect()
}

/// The Secret that the guide's command writes for this certificate and key. The command runs unchanged in a shell.
fn secret_of_guide((certificate, key): &(String, String)) -> String {
    let dir = tempfile::tempdir().expect("a temporary folder");
    write(dir.path(), "tls.crt", certificate);
    write(dir.path(), "tls.key", key);
    std::fs::create_dir(dir.path().join("conf.d")).expect("a folder");
    let command = blocks("```sh\n").into_iter().find(|block| block.contains("kind: Secret"));
    let command = command.expect("the guide has the command");
    let done = Command::new("sh").arg("-ec").arg(command).current_dir(dir.path()).status();
    assert!(done.expect("a shell").success());
    std::fs::read_to_string(dir.path().join("conf.d/secret.yaml")).expect("the command wrote it")
}

#[test]
fn the_guide_shows_actual_responses() {
    let ip = "127.7.6.1";
    let (port, secure) = (free_port(ip), free_port(ip));
    let (trust, pairs) = certificates(&["shop.example.org"]);
    let (shop, search) = (echo("shop"), echo("search"));
    let secret = secret_of_guide(&pairs[0]);
    let manifests = blocks("```yaml\n")[0]
        .replace("value: 127.0.0.1", &format!("value: {ip}"))
        .replace("port: 8080", &format!("port: {port}"))
        .replace("port: 8443", &format!("port: {secure}"))
        .replace("port: 9000", &format!("port: {}", shop.port()))
        .replace("port: 9001", &format!("port: {}", search.port()));
    let served = Served::start(&[("secret.yaml", &secret), ("shop.yaml", &manifests)]);
    let addresses = served.gateway.addresses();
    let at = |port: u16| *addresses.iter().find(|address| address.port() == port).expect("it listens");
    let mut steps = 0;
    for step in blocks("```text\n")[0].split("> ").skip(1) {
        let (sent, received) = step.split_once('\n').expect("a response");
        let (method, url) = sent.split_once(' ').expect("a method");
        let (scheme, rest) = url.split_once("://").expect("a scheme");
        let (host, path) = rest.split_at(rest.find('/').expect("a path"));
        let request = format!("{method} {path}\r\nHost: {host}\r\n");
        let answer = match scheme {
            "https" => ask_secure(at(secure), &trust, host, &request).expect("TLS"),
            _ => ask(at(port), &request),
        };
        for line in received.lines() {
            let expected = line.strip_prefix("< ").or_else(|| line.strip_prefix("| ")).expect("a side");
            assert!(answer.lines().any(|line| line == expected), "{sent}: {expected} is not in\n{answer}");
        }
        steps += 1;
    }
    assert!(steps >= 5);
    let (_, rest) = GUIDE.split_once("`weir-gateway explain conf.d ").expect("a command");
    let mut parts = rest.split('`');
    let (request, route) = (parts.next().expect("its end"), parts.nth(1).expect("the route"));
    let mut explain = Command::new(env!("CARGO_BIN_EXE_weir-gateway"));
    let output = explain.arg("explain").arg(served.dir.path()).args(request.split(' ')).output();
    let output = String::from_utf8(output.expect("it starts").stdout).expect("text");
    assert!(output.contains(&format!("route     {route}\n")), "{output}");
}
