//! Reading manifests as users write them, and as a cluster prints them.

use weir_config::{Backend, Resource};
use weir_manifests::{has_manifests, read};

use crate::setup::{GATEWAY, backend, found, manifests, route, table, to, translated};

fn titles(text: &str) -> Vec<String> {
    read("all.yaml", text).unwrap().iter().map(|read| read.manifest.title()).collect()
}

#[track_caller]
fn check_refused(text: &str, expected: &str) {
    let errors = read("all.yaml", text).unwrap_err();
    let [error] = &errors[..] else { panic!("{errors:#?}") };
    assert_eq!(format!("{error} ({})", error.remedy), expected);
}

#[test]
fn a_text_may_contain_several_manifests_and_lists() {
    let list = "apiVersion: v1\nkind: List\nmetadata: { resourceVersion: '' }\nitems:\n\
                - { apiVersion: v1, kind: Namespace, metadata: { name: a } }\n\
                - { apiVersion: v1, kind: Secret, metadata: { name: s, namespace: a }, data: { x: eA== } }\n";
    let text = format!("# first\n---\n{}---\n{list}", backend("b"));
    assert_eq!(titles(&text), ["Backend default/b", "Namespace a", "Secret a/s"]);
    let read = read("all.yaml", &text).unwrap();
    assert_eq!(read[0].place("all.yaml", &text, "spec.endpoints[0].port"), Some((6, 49)));
    assert_eq!(read[2].place("all.yaml", &text, "metadata.name"), Some((13, 53)));
    assert_eq!(read[2].place("all.yaml", &text, "spec.nothing"), Some((13, 3)));
}

#[test]
fn fields_that_a_cluster_adds_are_ignored() {
    let printed = "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  annotations:
    kubectl.kubernetes.io/last-applied-configuration: |
      {\"apiVersion\":\"gateway.networking.k8s.io/v1\"}
  creationTimestamp: \"2025-03-01T10:00:00Z\"
  generation: 1
  managedFields:
  - { manager: kubectl, operation: Apply, fieldsV1: { 'f:spec': {} } }
  name: shop
  namespace: default
  resourceVersion: \"1234\"
  uid: 0a1b
spec:
  hostnames: [shop.test]
  parentRefs:
  - group: gateway.networking.k8s.io
    kind: Gateway
    name: edge
  rules:
  - backendRefs:
    - { group: gateway.weir.example, kind: Backend, name: b, weight: 1 }
    matches:
    - path: { type: PathPrefix, value: / }
status:
  parents:
  - conditions: [{ type: Accepted, status: 'True' }]
";
    let table = table(&[GATEWAY, &backend("b"), printed]);
    assert_eq!(found(&table, 80, "shop.test/x"), "HTTPRoute default/shop rules[0].matches[0]");
}

#[test]
fn fields_may_come_in_any_order() {
    let table = table(&[
        GATEWAY,
        "spec: { endpoints: [] }\nmetadata: { name: b }\nkind: Backend\napiVersion: gateway.weir.example/v1alpha1",
        &format!(
            "spec:\n  rules: [{{ backendRefs: [{}] }}]\n  parentRefs: [{{ name: edge }}]\nmetadata: {{ name: r }}\n\
             apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute",
            to("b")
        ),
    ]);
    assert_eq!(found(&table, 80, "any/"), "HTTPRoute default/r rules[0]");
    let secret = "apiVersion: v1\ndata: { tls.crt: eA== }\nkind: Secret\nmetadata: { name: s }\ntype: kubernetes.io/tls\n";
    assert_eq!(manifests(&[secret])[0].manifest.title(), "Secret default/s");
    let json = "{\"kind\":\"Namespace\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"finalizers\":[]}}";
    assert_eq!(read("a.json", json).unwrap()[0].manifest.title(), "Namespace a");
}

#[test]
fn documents_of_unknown_kinds_are_rejected() {
    let known =
        "GatewayClass, Gateway, HTTPRoute, TLSRoute, ReferenceGrant, Backend, Secret, Namespace, List";
    check_refused(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: i }\n",
        &format!("all.yaml:2:7: Ingress i: unsupported kind `Ingress` (supported kinds: {known})"),
    );
    check_refused(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HttpRoute\nmetadata: { name: i }\n",
        &format!(
            "all.yaml:2:7: HttpRoute i: unsupported kind `HttpRoute` (did you mean HTTPRoute? supported kinds: {known})"
        ),
    );
    check_refused(
        "apiVersion: v1\nkind: Backend\nmetadata: { name: i }\nspec: { endpoints: [] }\n",
        "all.yaml:1:1: Backend default/i: unsupported apiVersion `v1` for Backend (write gateway.weir.example/v1alpha1)",
    );
}

#[test]
fn unknown_fields_are_reported_with_their_resource() {
    let good = route("r", ", namespace: shop", "  rules: [{ filters: [{ type: URLRewrite }] }]");
    check_refused(
        &format!("# note\n---\n{}", good.replace("rules", "rule")),
        "all.yaml:8:3: HTTPRoute shop/r: unknown field `rule` (did you mean `rules`?)",
    );
    check_refused(
        &good.replace("URLRewrite", "ExtensionRef"),
        "all.yaml:6:31: HTTPRoute shop/r: unknown value `ExtensionRef` (valid names here: `RequestHeaderModifier`, \
         `ResponseHeaderModifier`, `RequestMirror`, `RequestRedirect`, `URLRewrite`, `CORS`)",
    );
    check_refused(
        &good.replace("spec:", "stats: 1\nspec:"),
        "all.yaml:4:1: HTTPRoute shop/r: unknown field `stats` (did you mean `status`?)",
    );
    check_refused(
        &good.replace("filters: [{ type: URLRewrite }]", "timeouts: { request: 10 s }"),
        "all.yaml:6:34: HTTPRoute shop/r: `10 s` is not a duration (write it in whole numbers with units, like 10s, 500ms \
         or 1h30m)",
    );
    check_refused(
        &good.replace("name: r,", "name: R,"),
        "all.yaml:3:19: HTTPRoute shop/R: `R` is not a valid name (use lowercase letters, digits, `-` and `.`)",
    );
    check_refused(
        &good.replace("name: r,", "creationTimestamp: yesterday, name: r,"),
        "all.yaml:3:32: HTTPRoute shop/r: `yesterday` is not a time (write it like 2026-01-31T12:00:00Z, or remove the field)",
    );
}

#[test]
fn a_backend_has_the_fields_of_the_compact_form() {
    let of = |spec: &str| {
        format!(
            "apiVersion: gateway.weir.example/v1alpha1\nkind: Backend\nmetadata: {{ name: b }}\nspec: {{ {spec} }}\n"
        )
    };
    let text = of("endpoints: [{ address: '::1', port: 9000 }], tls: { ca: ca.pem, sni: b.test }");
    let translation = translated(&[&text]).unwrap();
    let [(_, Resource::Backend(made))] = &translation.resources[..] else { panic!("{translation:?}") };
    let compact = "endpoints: ['[::1]:9000']\ntls: { ca: ca.pem, sni: b.test }\n";
    assert_eq!(**made, weir_document::read::<Backend>("b.yaml", compact).unwrap());
    assert_eq!(translation.files.get("ca.pem").map(String::as_str), Some("backends.default/b.tls.ca"));
    assert!(translation.tls_files.contains("ca.pem"));
    check_refused(
        &of("endpoints: [{ address: b.internal, port: 9000 }]"),
        "all.yaml:4:32: Backend default/b: `b.internal` is not an IP address (write it like 10.0.0.7 or fd00::7; host \
         names are not allowed here)",
    );
    check_refused(
        &of("endpoints: [{ address: 127.0.0.1, prot: 9000 }]"),
        "all.yaml:4:43: Backend default/b: missing field `port` (add `port`)",
    );
    check_refused(
        &of("endpoints: [], lts: {}"),
        "all.yaml:4:24: Backend default/b: unknown field `lts` (did you mean `tls`?)",
    );
}

#[test]
fn the_compact_form_is_distinguished_from_manifests() {
    let check =
        |name: &str, text: &str, expected: bool| assert_eq!(has_manifests(name, text), expected, "{text}");
    check("a.yaml", GATEWAY, true);
    check("a.yaml", "# apiVersion: none\nlisteners: []\n", false);
    check("a.yaml", "routes: [{ path: /apiVersion, backend: kind }]\n", false);
    check("a.yaml", "kind: Gateway\n", true);
    check("a.json", "{ \"apiVersion\": \"v1\" }", true);
    check("a.yaml", "apiVersion: [", false);
}

#[test]
fn errors_of_every_document_are_reported() {
    let (good, wrong) = (backend("b"), backend("b").replace("endpoints", "endpoint"));
    let text = [&*wrong, &*good, &*wrong].join("---\n");
    let errors = read("all.yaml", &text).unwrap_err();
    let lines: Vec<u64> = errors.iter().map(|error| error.place.line).collect();
    assert_eq!(lines, [4, 14]);
}
