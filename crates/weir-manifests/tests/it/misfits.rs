//! Errors of manifests name the resource, the field and the remedy.

use crate::setup::{GATEWAY, backend, route, to, translated};

#[track_caller]
fn check(documents: &[&str], expected: &[(&str, &str)]) {
    let misfits = translated(documents).err().unwrap_or_default();
    let misfits: Vec<(&str, &str)> =
        misfits.iter().map(|(message, remedy)| (message.as_str(), remedy.as_str())).collect();
    assert_eq!(misfits, expected);
}

fn plain(rule: &str) -> String {
    route("r", "", &format!("  rules:\n  - {rule}"))
}

#[test]
fn unknown_names_are_rejected() {
    let (b, good) = (backend("b"), plain(&format!("{{ backendRefs: [{}] }}", to("b"))));
    check(
        &[GATEWAY, &b, &good.replace("name: edge", "name: egde")],
        &[(
            "HTTPRoute default/r: spec.parentRefs[0]: unknown Gateway default/egde",
            "did you mean `default/edge`?",
        )],
    );
    check(
        &[GATEWAY, &b, &good.replace("name: edge", "name: edge, sectionName: htpt")],
        &[(
            "HTTPRoute default/r: spec.parentRefs[0].sectionName: Gateway default/edge has no listener `htpt`",
            "did you mean `http`?",
        )],
    );
    check(
        &[GATEWAY, &b, &good.replace("name: edge", "name: edge, port: 81")],
        &[(
            "HTTPRoute default/r: spec.parentRefs[0].port: Gateway default/edge has no listener on port 81",
            "remove `port`, or use the port of a listener",
        )],
    );
    check(
        &[&GATEWAY.replace("gatewayClassName: weir", "gatewayClassName: wier"), &b],
        &[("Gateway default/edge: spec.gatewayClassName: unknown GatewayClass wier", "did you mean `weir`?")],
    );
    let (_, alone) = GATEWAY.split_once("---").unwrap();
    check(
        &[alone],
        &[(
            "Gateway default/edge: spec.gatewayClassName: unknown GatewayClass weir, so no controller implements Gateway default/edge",
            "add a GatewayClass weir with `controllerName: gateway.weir.example/controller`",
        )],
    );
    check(
        &[GATEWAY, &good.replace("parentRefs: [{ name: edge }]", "parentRefs: []"), &b],
        &[(
            "HTTPRoute default/r: spec.parentRefs: the route has no parent Gateway",
            "add its Gateway: `parentRefs: [{ name: .. }]`",
        )],
    );
}

#[test]
fn invalid_backends_are_rejected() {
    let b = backend("b");
    check(
        &[GATEWAY, &b, &plain("{ backendRefs: [{ name: b, port: 80 }] }")],
        &[(
            "HTTPRoute default/r: spec.rules[0].backendRefs[0]: the addresses of Service `b` are unknown: the gateway does not query a Kubernetes API server",
            "reference a Backend: `group: gateway.weir.example, kind: Backend`",
        )],
    );
    check(
        &[GATEWAY, &b, &plain(&format!("{{ backendRefs: [{}] }}", to("b").replace(" }", ", port: 80 }")))],
        &[(
            "HTTPRoute default/r: spec.rules[0].backendRefs[0].port: the Backend already sets a port for each address",
            "remove `port`",
        )],
    );
    check(
        &[
            GATEWAY,
            &b.replace("name: b", "name: b, namespace: far"),
            &plain(&format!("{{ backendRefs: [{}] }}", to("b").replace(" }", ", namespace: far }"))),
        ],
        &[(
            "HTTPRoute default/r: spec.rules[0].backendRefs[0]: no ReferenceGrant allows a HTTPRoute in namespace \
             `default` to reference Backend far/b",
            "add a ReferenceGrant to namespace `far`, from HTTPRoute in `default` to Backend",
        )],
    );
}

#[test]
fn filters_of_the_wrong_type_are_rejected() {
    let b = backend("b");
    let rule = |filters: &str| plain(&format!("{{ filters: [{filters}], backendRefs: [{}] }}", to("b")));
    check(
        &[GATEWAY, &b, &rule("{ type: URLRewrite, requestRedirect: { scheme: https } }")],
        &[(
            "HTTPRoute default/r: spec.rules[0].filters[0]: a filter of type URLRewrite requires `urlRewrite` and allows no other field",
            "write only `urlRewrite`, or change `type`",
        )],
    );
    let cors = "{ type: CORS, cors: { allowOrigins: ['*'] } }";
    check(
        &[GATEWAY, &b, &rule(&format!("{cors}, {cors}"))],
        &[(
            "HTTPRoute default/r: spec.rules[0].filters[1]: the rule already has a filter of type CORS",
            "merge the two filters, or remove one",
        )],
    );
    check(
        &[
            GATEWAY,
            &b,
            &rule(&format!(
                "{{ type: RequestMirror, requestMirror: {{ backendRef: {}, percent: 101 }} }}",
                to("b")
            )),
        ],
        &[(
            "HTTPRoute default/r: spec.rules[0].filters[0].requestMirror: the share of mirrored requests is out of \
             range; allowed: 0 to 1",
            "write a `percent` of 0 to 100, or a `fraction` of at most 1",
        )],
    );
    let prefix = "urlRewrite: { path: { type: ReplacePrefixMatch, replacePrefixMatch: /x } }";
    check(
        &[
            GATEWAY,
            &b,
            &plain(&format!(
                "{{ matches: [{{ path: {{ type: Exact, value: /a }} }}], filters: [{{ type: URLRewrite, {prefix} }}], backendRefs: [{}] }}",
                to("b")
            )),
        ],
        &[(
            "HTTPRoute default/r: spec.rules[0].filters[0].urlRewrite.path: ReplacePrefixMatch requires `type: PathPrefix` in every match of the rule",
            "use `type: PathPrefix`, or move the other matches to another rule",
        )],
    );
}

#[test]
fn invalid_listeners_are_rejected() {
    let listeners =
        |listeners: &str| GATEWAY.replace("[{ name: http, port: 80, protocol: HTTP }]", listeners);
    for (text, message) in [
        (
            "[{ name: a, port: 80, protocol: HTTP }, { name: a, port: 81, protocol: HTTP }]",
            "[1].name: another listener has the name `a`",
        ),
        (
            "[{ name: a, port: 80, protocol: HTTP }, { name: b, port: 80, protocol: HTTP }]",
            "[1].hostname: listener `a` has the same port and hostname",
        ),
        (
            "[{ name: a, port: 80, protocol: HTTP }, { name: b, port: 80, protocol: TLS, tls: { mode: Passthrough } }]",
            "[1].protocol: the protocol differs from that of listener `a`, which has the same port, 80",
        ),
        ("[{ name: a, port: 443, protocol: HTTPS }]", "[0].tls: `protocol: HTTPS` requires a certificate"),
        (
            "[{ name: a, port: 443, protocol: TLS }]",
            "[0].tls: `protocol: TLS` with `mode: Terminate` is not supported",
        ),
        ("[{ name: a, port: 0, protocol: HTTP }]", "[0].port: port 0 is not valid"),
    ] {
        let misfits = translated(&[&listeners(text)]).err().unwrap_or_default();
        let [(only, _)] = &misfits[..] else { panic!("{text}: {misfits:?}") };
        assert_eq!(*only, format!("Gateway default/edge: spec.listeners{message}"), "{text}");
    }
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\n";
    let https =
        listeners("[{ name: a, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: s }] } }]");
    check(
        &[&https],
        &[(
            "Gateway default/edge: spec.listeners[0].tls.certificateRefs[0]: unknown Secret default/s",
            "add the Secret to the configuration files",
        )],
    );
    check(
        &[&https, secret],
        &[(
            "Secret default/s: type: a Gateway requires a Secret of type `kubernetes.io/tls`, but this one has type `Opaque`",
            "write `type: kubernetes.io/tls`",
        )],
    );
    let of_type = format!("{secret}type: kubernetes.io/tls\n");
    check(
        &[&https, &format!("{of_type}stringData: {{ tls.crt: x }}\n")],
        &[("Secret default/s: data: the Secret has no `tls.key`", "add `tls.crt` and `tls.key`")],
    );
    check(
        &[&https, &format!("{of_type}data: {{ tls.crt: '%', tls.key: eA== }}\n")],
        &[(
            "Secret default/s: data: `tls.crt` is not base64",
            "encode the value (`base64 -w0 FILE`), or write the plain text under `stringData`",
        )],
    );
}

#[test]
fn hosts_without_intersection_are_rejected() {
    let b = backend("b");
    let gateway = GATEWAY.replace("protocol: HTTP }", "protocol: HTTP, hostname: '*.shop.test' }");
    let route = plain(&format!("{{ backendRefs: [{}] }}", to("b")))
        .replace("  rules", "  hostnames: [blog.test]\n  rules");
    check(
        &[&gateway, &b, &route],
        &[(
            "HTTPRoute default/r: spec.hostnames: no hostname of the route matches a hostname of the listener",
            "known names: *.shop.test",
        )],
    );
    check(
        &[
            GATEWAY,
            &b,
            &route
                .replace("name: r", "name: r, namespace: far")
                .replace("name: edge", "name: edge, namespace: default")
                .replace("name: b }", "name: b, namespace: far }"),
            &b.replace("name: b", "name: b, namespace: far"),
        ],
        &[(
            "HTTPRoute far/r: spec.parentRefs[0]: no matching listener of Gateway default/edge allows a HTTPRoute from \
             namespace `far`",
            "check the listener's `protocol` (HTTPRoutes need HTTP or HTTPS, TLSRoutes need TLS) and its `allowedRoutes` \
             (by default, only routes of the Gateway's namespace)",
        )],
    );
}

#[test]
fn hosts_with_passthrough_and_termination_conflict() {
    let b = backend("b");
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: s }\ntype: kubernetes.io/tls\n\
                  stringData: { tls.crt: x, tls.key: y }\n";
    let gateway = GATEWAY.replace(
        "[{ name: http, port: 80, protocol: HTTP }]",
        "[{ name: tls, port: 443, protocol: TLS, hostname: '*.test', tls: { mode: Passthrough } },
          { name: https, port: 443, protocol: HTTPS, hostname: shop.test, tls: { certificateRefs: [{ name: s }] } }]",
    );
    let sealed = |hostnames: &str| {
        plain(&format!("{{ backendRefs: [{}] }}", to("b")))
            .replace("HTTPRoute", "TLSRoute")
            .replace("  rules", &format!("  hostnames: [{hostnames}]\n  rules"))
    };
    // The HTTPS listener terminates TLS for its own host, even if routes of the passthrough listener also match this
    // host.
    check(&[&gateway, &b, secret, &sealed("'*.test'")], &[]);
    check(&[&gateway, &b, secret, &sealed("shop.test, bank.test")], &[]);
    let two = sealed("bank.test").replace("backendRefs: [", &format!("backendRefs: [{}, ", to("b")));
    check(
        &[&gateway, &b, secret, &two],
        &[(
            "TLSRoute default/r: spec.rules: TLS passthrough requires exactly one backend",
            "write one rule with one entry in `backendRefs`",
        )],
    );
}

#[test]
fn secrets_of_other_namespaces_need_a_grant() {
    let gateway = GATEWAY.replace(
        "[{ name: http, port: 80, protocol: HTTP }]",
        "[{ name: a, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: s, namespace: far }] } }]",
    );
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: { name: s, namespace: far }\ntype: kubernetes.io/tls\n\
                  stringData: { tls.crt: x, tls.key: y }\n";
    let grant = |from: &str, to: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {{ name: g, namespace: far }}\n\
             spec:\n  from: [{{ group: gateway.networking.k8s.io, kind: Gateway, namespace: {from} }}]\n  \
             to: [{{ group: '', kind: Secret{to} }}]\n"
        )
    };
    let refused = [(
        "Gateway default/edge: spec.listeners[0].tls.certificateRefs[0]: no ReferenceGrant allows a Gateway in namespace \
         `default` to reference Secret far/s",
        "add a ReferenceGrant to namespace `far`, from Gateway in `default` to Secret",
    )];
    check(&[&gateway, secret], &refused);
    check(&[&gateway, secret, &grant("other", "")], &refused);
    check(&[&gateway, secret, &grant("default", ", name: t")], &refused);
    check(&[&gateway, secret, &grant("default", ", name: s")], &[]);
    check(&[&gateway, secret, &grant("default", "")], &[]);
}

/// Removes, repeats or replaces single words of a manifest: the result is accepted or rejected, without a panic.
#[test]
fn no_input_makes_the_translation_panic() {
    let guide = include_str!("../../../../docs/manifests.md");
    let example = guide.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata: { name: example }\ntype: kubernetes.io/tls\n\
                  data: { tls.crt: eA==, tls.key: eA== }\n";
    let example = format!("{example}{secret}");
    let words: Vec<&str> = example.split_inclusive([' ', '\n']).collect();
    let (mut taken, mut refused) = (0, 0);
    for at in 0..words.len() {
        for with in [vec![], vec![words[at], words[at]], vec![words[(at * 7 + 3) % words.len()]]] {
            let text = [words[..at].concat(), with.concat(), words[at + 1..].concat()].concat();
            let Ok(read) = weir_manifests::read("all.yaml", &text) else {
                refused += 1;
                continue;
            };
            let all: Vec<_> = read.iter().map(|read| &read.manifest).collect();
            match weir_manifests::translate(&all) {
                Ok(translation) => {
                    for (key, _) in &translation.resources {
                        for field in [
                            "",
                            ".path",
                            ".backends[9].weight",
                            ".tls.certificates[9].key",
                            ".headers.x.regex",
                        ] {
                            let _ = translation.locate(&all, &format!("{}{field}", key.name()));
                        }
                    }
                    taken += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(taken > 50 && refused > 200, "{taken} {refused}");
}
