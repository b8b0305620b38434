//! Directories of files, in the compact form and as manifests.

use std::net::SocketAddr;
use std::os::unix::fs::symlink;

use weir_config::RequestView;

use super::*;

const LISTENERS: &str = "listeners: [{ address: 127.0.0.1:8080 }]\n";
const SHOP: &str = "routes: [{ hosts: [shop.test], path: /, backend: shop }]\n\
                    backends: { shop: { endpoints: [127.0.0.1:9000] } }\n";
const BLOG: &str = "routes: [{ hosts: [blog.test], path: /, backend: blog }]\n\
                    backends: { blog: { endpoints: [127.0.0.1:9001] } }\n";
const GATEWAY: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: weir }
spec: { controllerName: gateway.weir.example/controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: edge }
spec:
  gatewayClassName: weir
  addresses: [{ value: 127.0.0.1 }]
  listeners: [{ name: http, port: 8081, protocol: HTTP }]
";

/// A manifest of a route, and of a backend with the same name.
fn route(name: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: {name} }}
spec:
  parentRefs: [{{ name: edge }}]
  hostnames: [{name}.test]
  rules:
    - backendRefs: [{{ group: gateway.weir.example, kind: Backend, name: {name} }}]
---
apiVersion: gateway.weir.example/v1alpha1
kind: Backend
metadata: {{ name: {name} }}
spec: {{ endpoints: [{{ address: 127.0.0.1, port: 9000 }}] }}
"
    )
}

struct Folder {
    dir: tempfile::TempDir,
    source: FileSource,
}

impl Folder {
    fn with(files: &[(&str, &str)]) -> Folder {
        let dir = tempfile::tempdir().unwrap();
        let source = FileSource::new(dir.path());
        let folder = Folder { dir, source };
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    fn load(&mut self) -> Arc<Table> {
        self.source.load().unwrap_or_else(|error| panic!("{:?}", error.lines()))
    }

    /// The error lines, without the directory.
    fn refused(&mut self) -> Vec<String> {
        let prefix = format!("{}/", self.dir.path().display());
        let lines = self.source.load().unwrap_err().lines();
        let own = |line: &String| {
            line.strip_prefix(&prefix).unwrap_or(line).replace(prefix.trim_end_matches('/'), "DIR")
        };
        lines.iter().map(own).collect()
    }
}

/// The backend of the route that matches a request for this host at the listener with this port.
fn backend(table: &Table, port: u16, host: &str) -> Option<String> {
    let scope = table.scope(SocketAddr::from(([127, 0, 0, 1], port)));
    let found = table.find(&RequestView { scope, ..RequestView::get(host, "/") })?;
    Some(table.backends()[found.target.backend].name.clone())
}

#[test]
fn combines_the_files_of_a_directory() {
    let mut folder = Folder::with(&[
        ("a.yaml", LISTENERS),
        ("shop.yml", SHOP),
        ("blog.json", "{\"routes\":[{\"hosts\":[\"blog.test\"],\"path\":\"/\",\"backend\":\"shop\"}]}"),
        ("edge.yaml", GATEWAY),
        ("more.yaml", &route("more")),
        ("notes.txt", "no configuration"),
        (".hidden.yaml", "neither: this"),
    ]);
    std::fs::create_dir(folder.dir.path().join("inner.yaml")).unwrap();
    let table = folder.load();
    assert_eq!(table.listeners.len(), 2);
    let [shop, more] = ["shop", "default/more"].map(|name| Some(name.to_owned()));
    assert_eq!(
        [backend(&table, 8080, "shop.test"), backend(&table, 8080, "blog.test")],
        [shop.clone(), shop.clone()]
    );
    assert_eq!(backend(&table, 8080, "more.test"), None, "it belongs to another listener");
    assert_eq!(backend(&table, 8081, "more.test"), more);
    assert_eq!(backend(&table, 8081, "shop.test"), shop, "the compact form applies to every listener");
    assert_eq!((folder.source.files(), folder.source.files_parsed()), (5, 5));
}

#[test]
fn parses_only_files_with_changed_content_again() {
    let mut folder = Folder::with(&[("a.yaml", LISTENERS), ("shop.yaml", SHOP), ("blog.yaml", BLOG)]);
    folder.load();
    assert_eq!(folder.source.files_parsed(), 3);
    folder.load();
    folder.write("shop.yaml", SHOP);
    folder.load();
    assert_eq!(folder.source.files_parsed(), 3, "the content is the same");
    folder.write("shop.yaml", &SHOP.replace("shop.test", "store.test"));
    let table = folder.load();
    assert_eq!(folder.source.files_parsed(), 4);
    assert_eq!(backend(&table, 8080, "store.test").as_deref(), Some("shop"));
    assert_eq!(backend(&table, 8080, "blog.test").as_deref(), Some("blog"));
    std::fs::remove_file(folder.dir.path().join("blog.yaml")).unwrap();
    let table = folder.load();
    assert_eq!((folder.source.files_parsed(), folder.source.files()), (4, 2));
    assert_eq!(backend(&table, 8080, "blog.test"), None);
}

/// Like a ConfigMap that Kubernetes mounts: every file is a link through `..data`, which a rename replaces.
#[test]
fn parses_only_changed_files_of_a_mounted_config_map() {
    let mut folder = Folder::with(&[]);
    let dir = folder.dir.path().to_owned();
    let put = |version: &str, shop: &str| {
        std::fs::create_dir(dir.join(version)).unwrap();
        for (name, text) in [("a.yaml", LISTENERS), ("shop.yaml", shop), ("blog.yaml", BLOG)] {
            std::fs::write(dir.join(version).join(name), text).unwrap();
        }
        symlink(version, dir.join("..data_tmp")).unwrap();
        std::fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    };
    put("..1", SHOP);
    for name in ["a.yaml", "shop.yaml", "blog.yaml"] {
        symlink(format!("..data/{name}"), dir.join(name)).unwrap();
    }
    folder.load();
    assert_eq!((folder.source.files(), folder.source.files_parsed()), (3, 3));
    put("..2", SHOP);
    folder.load();
    assert_eq!(folder.source.files_parsed(), 3, "every file is new, but has the same content");
    put("..3", &SHOP.replace("shop.test", "store.test"));
    assert_eq!(backend(&folder.load(), 8080, "store.test").as_deref(), Some("shop"));
    assert_eq!(folder.source.files_parsed(), 4);
}

#[test]
fn reports_an_invalid_file_and_keeps_the_others_parsed() {
    let mut folder =
        Folder::with(&[("edge.yaml", GATEWAY), ("shop.yaml", &route("shop")), ("blog.yaml", &route("blog"))]);
    folder.load();
    folder.write("shop.yaml", &route("shop").replace("hostnames", "hostname"));
    assert_eq!(
        folder.refused(),
        [
            "shop.yaml:6:3: HTTPRoute default/shop: unknown field `hostname`",
            "  help: did you mean `hostnames`?"
        ]
    );
    folder.write("shop.yaml", &route("shop").replace("Backend, name: shop", "Backend, name: shpo"));
    assert_eq!(
        folder.refused(),
        [
            "shop.yaml:8:21: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: unknown Backend default/shpo",
            "  help: did you mean `default/shop`?"
        ]
    );
    folder.write("shop.yaml", &route("shop"));
    let parsed = folder.source.files_parsed();
    let table = folder.load();
    assert_eq!(folder.source.files_parsed(), parsed + 1, "the others stayed parsed");
    assert_eq!(backend(&table, 8081, "shop.test").as_deref(), Some("default/shop"));
}

#[test]
fn reports_problems_with_their_file_and_resource() {
    let check = |files: &[(&str, &str)], expected: &[&str]| {
        let lines = Folder::with(files).refused();
        let lines: Vec<&str> =
            lines.iter().map(String::as_str).filter(|line| !line.starts_with("  help")).collect();
        assert_eq!(lines, expected);
    };
    check(
        &[("a.yaml", LISTENERS), ("shop.yaml", &SHOP.replace("backend: shop", "backend: shp"))],
        &["shop.yaml:1:50: routes[0].backend: unknown backend `shp`"],
    );
    check(
        &[("a.yaml", LISTENERS), ("b.yaml", SHOP), ("c.yaml", SHOP)],
        &["c.yaml:2:19: backends.shop: DIR/b.yaml also defines a backend with this name"],
    );
    check(
        &[("a.yaml", LISTENERS), ("b.yaml", LISTENERS)],
        &["b.yaml:1:24: listeners[0].address: 127.0.0.1:8080 is already the address of a.yaml listeners[0]"],
    );
    check(
        &[("a.yaml", &format!("{LISTENERS}workers: 2\n")), ("b.yaml", "workers: 3\n")],
        &["b.yaml: DIR/a.yaml also contains gateway-wide settings"],
    );
    check(
        &[("a.yaml", LISTENERS), ("b.yaml", "timeouts: { idle: 0s }\n")],
        &["b.yaml:1:19: timeouts.idle: 0s is out of range; allowed: 1ns to 30 days"],
    );
    check(
        &[
            ("edge.yaml", GATEWAY),
            (
                "shop.yaml",
                &route("shop")
                    .replace("- backendRefs", "- matches: [{ path: { value: /a?b } }]\n      backendRefs"),
            ),
        ],
        &[
            "shop.yaml:8:34: HTTPRoute default/shop: spec.rules[0].matches[0].path.value: `/a?b` contains a query; this \
           field matches only the path",
        ],
    );
    check(
        &[("edge.yaml", GATEWAY), ("a.yaml", &route("shop")), ("b.yaml", &route("shop"))],
        &[
            "b.yaml:3:19: HTTPRoute default/shop: metadata.name: another HTTPRoute has the same name, at DIR/a.yaml:3:19",
            "b.yaml:12:19: Backend default/shop: metadata.name: another Backend has the same name, at \
             DIR/a.yaml:12:19",
        ],
    );
    check(&[("shop.yaml", SHOP)], &["DIR: listeners: no listener is configured"]);
    check(&[("notes.txt", "")], &["DIR: the directory has no .yaml, .yml or .json file"]);
}

#[test]
fn reports_problems_of_several_files_together() {
    let mut folder = Folder::with(&[
        ("a.yaml", &LISTENERS.replace("address", "adress")),
        (
            "b.yaml",
            &format!("{}---\n{}", route("b").replace("rules", "rule"), route("c").replace("rules", "rulse")),
        ),
        ("shop.yaml", SHOP),
    ]);
    let lines = folder.refused();
    let reported: Vec<&str> =
        lines.iter().map(String::as_str).filter(|line| !line.starts_with("  help")).collect();
    assert_eq!(
        reported,
        [
            "a.yaml:1:15: unknown field `adress`",
            "b.yaml:7:3: HTTPRoute default/b: unknown field `rule`",
            "b.yaml:21:3: HTTPRoute default/c: unknown field `rulse`",
        ]
    );
    let parsed = folder.source.files_parsed();
    folder.write("a.yaml", LISTENERS);
    folder.write("b.yaml", "routes: []\n");
    folder.load();
    assert_eq!(folder.source.files_parsed(), parsed + 2, "the third stayed parsed");
}

/// Tests problems that `weir-config` finds in routes, listeners and backends: the report names the field of the
/// manifest.
#[test]
fn reports_problems_of_the_model_at_fields_of_manifests() {
    let to = "{ group: gateway.weir.example, kind: Backend, name: shop }";
    let check = |rule: &str, expected: &str| {
        let text = route("shop").replace(&format!("- backendRefs: [{to}]"), &format!("- {{ {rule} }}"));
        let lines = Folder::with(&[("edge.yaml", GATEWAY), ("shop.yaml", &text)]).refused();
        let place =
            lines[0].split(": HTTPRoute default/shop: ").nth(1).unwrap_or_else(|| panic!("{lines:?}"));
        assert_eq!(place.split(": ").next(), Some(expected), "{lines:?}");
    };
    let with = |rule: &str| format!("{rule}, backendRefs: [{to}]");
    check(&with("matches: [{}, { method: get }]"), "spec.rules[0].matches[1].method");
    check(&with("matches: [{ path: { type: Exact, value: a } }]"), "spec.rules[0].matches[0].path.value");
    check(
        &with("matches: [{ path: { type: RegularExpression, value: '(' } }]"),
        "spec.rules[0].matches[0].path.value",
    );
    check(
        &with("matches: [{ headers: [{ name: a, value: b }, { name: 'a b', value: c }] }]"),
        "spec.rules[0].matches[0].headers[1]",
    );
    check(
        &with(
            "matches: [{ queryParams: [{ name: a, value: b }, { name: c, value: '[', type: RegularExpression }] }]",
        ),
        "spec.rules[0].matches[0].queryParams[1]",
    );
    let redirect = "{ type: RequestRedirect, requestRedirect: { scheme: https } }";
    check(&with(&format!("filters: [{redirect}]")), "spec.rules[0].filters[0].requestRedirect");
    check(&with("filters: [{ type: CORS, cors: { allowOrigins: [a] } }]"), "spec.rules[0].filters[0].cors");
    check(
        &with(
            "filters: [{ type: ResponseHeaderModifier, responseHeaderModifier: { remove: [Connection] } }]",
        ),
        "spec.rules[0].filters[0].responseHeaderModifier",
    );
    check(&with("timeouts: { request: 1s, backendRequest: 2s }"), "spec.rules[0].timeouts.backendRequest");
    check(
        &format!("backendRefs: [{to}, {}]", to.replace(" }", ", weight: 1000001 }")),
        "spec.rules[0].backendRefs[1].weight",
    );
    let text = route("shop").replace("hostnames: [shop.test]", "hostnames: [shop.test, 'a b']");
    let lines = Folder::with(&[("edge.yaml", GATEWAY), ("shop.yaml", &text)]).refused();
    assert!(lines[0].contains("HTTPRoute default/shop: spec.hostnames: `a b`"), "{lines:?}");
    let text = route("shop").replace("port: 9000", "port: 0");
    let lines = Folder::with(&[("edge.yaml", GATEWAY), ("shop.yaml", &text)]).refused();
    assert!(lines[0].starts_with("shop.yaml:13:21: Backend default/shop: spec.endpoints[0]: "), "{lines:?}");
    let (_, second) = GATEWAY.split_once("---").unwrap();
    let second = second.replace("name: edge", "name: other");
    let lines = Folder::with(&[("edge.yaml", GATEWAY), ("other.yaml", &second)]).refused();
    assert!(
        lines[0].contains(
            ": Gateway default/other: spec.listeners[0].port: 127.0.0.1:8081 is already the address of "
        ),
        "{lines:?}"
    );
}

#[test]
fn reads_a_file_of_manifests_without_a_directory() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.yaml");
    std::fs::write(&file, format!("{GATEWAY}---\n{}", route("shop"))).unwrap();
    let mut source = FileSource::new(&file);
    assert_eq!(backend(&source.load().unwrap(), 8081, "shop.test").as_deref(), Some("default/shop"));
    std::fs::write(&file, format!("{GATEWAY}---\n{}", route("blog"))).unwrap();
    let table = source.load().unwrap();
    assert_eq!(backend(&table, 8081, "shop.test"), None);
    assert_eq!(backend(&table, 8081, "blog.test").as_deref(), Some("default/blog"));
}
