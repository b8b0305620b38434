//! Which route of the manifests matches a request.

use weir_config::{Key, Resource, Route};

use crate::setup::{GATEWAY, backend, found, listeners, route, table, to, translated};

/// A gateway with these listeners instead of its HTTP listener.
fn gateway(listeners: &str) -> String {
    GATEWAY.replace("[{ name: http, port: 80, protocol: HTTP }]", listeners)
}

/// A route with one rule that matches every request.
fn plain(name: &str, metadata: &str, hostnames: &str) -> String {
    route(name, metadata, &format!("  hostnames: [{hostnames}]\n  rules: [{{ backendRefs: [{}] }}]", to("b")))
}

/// The routes of the gateway model into which a rule is translated.
fn routes(rule: &str) -> Vec<Route> {
    let (a, b) = (backend("a"), backend("b"));
    let documents = [GATEWAY, &a, &b, &route("r", "", &format!("  rules:\n  - {rule}"))];
    let translation = translated(&documents).unwrap_or_else(|misfits| panic!("{misfits:#?}"));
    let of_route = translation.resources.iter().filter_map(|(_, resource)| match resource {
        Resource::Route(route) => Some(Route { precedence: None, ..Route::clone(route) }),
        _ => None,
    });
    of_route.collect()
}

/// Checks that the rule is translated to the same routes as `compact`, apart from listeners and hosts.
#[track_caller]
fn check(rule: &str, compact: &[&str]) {
    let expected: Vec<Route> = compact
        .iter()
        .map(|text| {
            let route: Route = weir_document::read("route.yaml", text).unwrap();
            Route { listeners: vec!["default/edge:80".to_owned()], ..route }
        })
        .collect();
    assert_eq!(routes(rule), expected);
}

#[test]
fn matches_become_routes() {
    let to_b = format!("backendRefs: [{}]", to("b"));
    check(&format!("{{ {to_b} }}"), &["{ path: /, backend: default/b }"]);
    check(
        &format!(
            "{{ name: reading, matches: [{{ path: {{ type: Exact, value: /a }} }}, {{ path: {{ value: /b }}, method: GET }},
               {{ path: {{ type: RegularExpression, value: '/c+' }} }}], {to_b} }}"
        ),
        &[
            "{ name: reading, exact: /a, backend: default/b }",
            "{ name: reading, path: /b, methods: [GET], backend: default/b }",
            "{ name: reading, regex: '/c+', backend: default/b }",
        ],
    );
    check(
        &format!(
            "{{ matches: [{{ headers: [{{ name: X-A, value: '1' }}, {{ name: x-a, value: '2' }},
               {{ type: RegularExpression, name: X-B, value: 'b+' }}], queryParams: [{{ name: q, value: c }}] }}], {to_b} }}"
        ),
        &["{ path: /, headers: { X-A: '1', X-B: { regex: 'b+' } }, query: { q: c }, backend: default/b }"],
    );
}

#[test]
fn filters_become_fields_of_routes() {
    let to_b = format!("backendRefs: [{}]", to("b"));
    let filters = |filters: &str| format!("{{ filters: [{filters}], {to_b} }}");
    check(
        &filters(
            "{ type: RequestHeaderModifier, requestHeaderModifier: { set: [{ name: A, value: '1' }], remove: [B] } },
             { type: ResponseHeaderModifier, responseHeaderModifier: { add: [{ name: C, value: '2' }] } }",
        ),
        &["{ path: /, backend: default/b, request_headers: { set: { A: '1' }, remove: [B] },
             response_headers: { add: { C: '2' } } }"],
    );
    check(
        &filters(
            "{ type: URLRewrite, urlRewrite: { path: { type: ReplacePrefixMatch, replacePrefixMatch: /v2 } } }",
        ),
        &["{ path: /, backend: default/b, rewrite: /v2 }"],
    );
    check(
        &filters(
            "{ type: URLRewrite, urlRewrite: { hostname: up.test, path: { type: ReplaceFullPath, replaceFullPath: '' } } }",
        ),
        &["{ path: /, backend: default/b, rewrite: { host: up.test, path: / } }"],
    );
    for (part, share) in
        [("", "100%"), (", percent: 10", "10%"), (", fraction: { numerator: 1, denominator: 4 }", "25%")]
    {
        check(
            &filters(&format!(
                "{{ type: RequestMirror, requestMirror: {{ backendRef: {}{part} }} }}",
                to("a")
            )),
            &[&format!(
                "{{ path: /, backend: default/b, mirror: {{ backend: default/a, share: {share} }} }}"
            )],
        );
    }
    check(
        &filters(
            "{ type: CORS, cors: { allowOrigins: ['https://a.test'], allowCredentials: true, allowMethods: [PUT],
               allowHeaders: [X-A], exposeHeaders: [X-B] } }",
        ),
        &["{ path: /, backend: default/b, cors: { origins: ['https://a.test'], credentials: true, methods: [PUT],
             headers: [X-A], expose: [X-B], max_age: 5s } }"],
    );
    check(
        "{ filters: [{ type: RequestRedirect, requestRedirect: { scheme: https, hostname: a.test, port: 8443,
             path: { type: ReplacePrefixMatch, replacePrefixMatch: /x }, statusCode: 301 } }] }",
        &["{ path: /, redirect: { scheme: https, host: a.test, port: 8443, prefix: /x, status: 301 } }"],
    );
}

#[test]
fn the_first_entry_of_a_name_wins_and_empty_filters_do_nothing() {
    let to_b = format!("backendRefs: [{}]", to("b"));
    let filters = |filters: &str| format!("{{ filters: [{filters}], {to_b} }}");
    check(
        &filters(
            "{ type: RequestHeaderModifier, requestHeaderModifier: {
                 set: [{ name: X-A, value: '1' }, { name: x-a, value: '2' }, { name: B, value: '3' }],
                 add: [{ name: x-a, value: '4' }, { name: X-A, value: '5' }], remove: [X-A, C, c] } }",
        ),
        &["{ path: /, backend: default/b,
             request_headers: { set: { X-A: '1', B: '3' }, add: { x-a: '4' }, remove: [X-A, C] } }"],
    );
    check(
        &filters(
            "{ type: RequestHeaderModifier, requestHeaderModifier: {} },
             { type: ResponseHeaderModifier, responseHeaderModifier: {} }, { type: URLRewrite, urlRewrite: {} }",
        ),
        &["{ path: /, backend: default/b }"],
    );
}

#[test]
fn a_redirect_ignores_settings_for_backends() {
    let rule = format!(
        "{{ timeouts: {{ request: 1s }}, filters: [
             {{ type: RequestRedirect, requestRedirect: {{ scheme: https }} }},
             {{ type: RequestHeaderModifier, requestHeaderModifier: {{ remove: [A] }} }},
             {{ type: RequestMirror, requestMirror: {{ backendRef: {} }} }},
             {{ type: ResponseHeaderModifier, responseHeaderModifier: {{ remove: [B] }} }}] }}",
        to("a")
    );
    check(&rule, &["{ path: /, redirect: { scheme: https }, response_headers: { remove: [B] } }"]);
}

#[test]
fn a_redirect_without_scheme_and_port_keeps_the_listeners_port() {
    let redirect = |fields: &str| {
        format!("  rules: [{{ filters: [{{ type: RequestRedirect, requestRedirect: {{ {fields} }} }}] }}]")
    };
    let gateway = gateway(
        "[{ name: a, port: 80, protocol: HTTP }, { name: b, port: 8080, protocol: HTTP },
          { name: c, port: 8080, protocol: HTTP, hostname: c.test }]",
    );
    let ports = |fields: &str| -> Vec<(String, Option<u16>)> {
        let translation = translated(&[&gateway, &route("r", "", &redirect(fields))]).unwrap();
        let routes = translation.resources.iter().filter_map(|(key, resource)| match (key, resource) {
            (Key::Route(key), Resource::Route(route)) => Some((key, route.redirect.as_ref()?)),
            _ => None,
        });
        routes.map(|(key, redirect)| (key.clone(), redirect.port)).collect()
    };
    let key = |further: &str| format!("HTTPRoute default/r rules[0]{further}");
    for fields in ["", "statusCode: 301", "hostname: other.test"] {
        let expected = [
            (key(""), Some(80)),
            (key(" at default/edge:8080"), Some(8080)),
            (key(" at default/edge:8080 for c.test"), Some(8080)),
        ];
        assert_eq!(ports(fields), expected, "{fields}");
    }
    let alike = |port: Option<u16>| [(key(""), port), (key(" at default/edge:8080 for c.test"), port)];
    assert_eq!(ports("scheme: https"), alike(None), "it is the scheme's own");
    assert_eq!(ports("port: 8443"), alike(Some(8443)));
}

#[test]
fn paths_are_normalized() {
    let to_b = format!("backendRefs: [{}]", to("b"));
    check(
        &format!(
            "{{ matches: [{{ path: {{ type: Exact, value: '/caf%c3%a9' }} }}, {{ path: {{ value: '/%7euser/' }} }},
               {{ path: {{ type: RegularExpression, value: '/%7e.*' }} }}], {to_b} }}"
        ),
        &[
            "{ exact: /caf%C3%A9, backend: default/b }",
            "{ path: /~user/, backend: default/b }",
            "{ regex: '/%7e.*', backend: default/b }",
        ],
    );
    let path = "path: { type: ReplaceFullPath, replaceFullPath: '/%7e%2f' }";
    check(
        &format!("{{ filters: [{{ type: URLRewrite, urlRewrite: {{ {path} }} }}], {to_b} }}"),
        &["{ path: /, backend: default/b, rewrite: { path: /~%2F } }"],
    );
}

/// Checks that everything Gateway API allows takes effect, even if the compact form rejects it as a likely mistake.
#[test]
fn everything_that_gateway_api_allows_takes_effect() {
    let (a, b) = (backend("a"), backend("b"));
    let cors = |fields: &str| format!("filters: [{{ type: CORS, cors: {{ {fields} }} }}]");
    for fields in [
        cors(""),
        cors("allowOrigins: ['https://*', 'http://*:8080']"),
        cors("allowOrigins: ['*'], allowCredentials: true, exposeHeaders: ['*', X-A], allowHeaders: ['*']"),
        cors("allowOrigins: ['https://*'], allowCredentials: true, exposeHeaders: ['*']"),
        format!("filters: [{{ type: RequestMirror, requestMirror: {{ backendRef: {} }} }}]", to("b")),
        "filters: [{ type: ResponseHeaderModifier, responseHeaderModifier: {
             set: [{ name: A, value: '1' }], add: [{ name: a, value: '2' }], remove: [A] } }]"
            .to_owned(),
        "timeouts: { request: 99999h }".to_owned(),
        "timeouts: { request: 0s, backendRequest: 1h }".to_owned(),
    ] {
        let rule = format!("  rules: [{{ {fields}, backendRefs: [{}] }}]", to("b"));
        let table = table(&[GATEWAY, &a, &b, &route("r", "", &rule)]);
        assert_eq!(found(&table, 80, "h/x"), "HTTPRoute default/r rules[0]", "{fields}");
    }
}

#[test]
fn backends_share_requests_by_weight_and_timeouts_apply() {
    let (a, b) = (to("a"), to("b"));
    check(
        &format!("{{ backendRefs: [{a}, {}] }}", b.replace(" }", ", weight: 3 }")),
        &["{ path: /, backends: [{ backend: default/a }, { backend: default/b, weight: 3 }] }"],
    );
    check(
        &format!("{{ backendRefs: [{}] }}", b.replace(" }", ", weight: 0 }")),
        &["{ path: /, backends: [{ backend: default/b, weight: 0 }] }"],
    );
    check("{}", &["{ path: /, backends: [] }"]);
    check(
        &format!("{{ timeouts: {{ request: 1m30s, backendRequest: 500ms }}, backendRefs: [{b}] }}"),
        &["{ path: /, backend: default/b,
             timeouts: { request: 90s, backend: 500ms, response: 90s, body: 90s } }"],
    );
    // `timeouts.response` and `timeouts.body` are set to the longer of `request` and `backendRequest`, so that they do
    // not end a request early. `0s` counts as the maximum.
    for (timeouts, becomes) in [
        ("backendRequest: 2m", "{ backend: 2m, response: 2m, body: 2m }"),
        ("request: 0s", "{ response: 720h, body: 720h }"),
        ("request: 0s, backendRequest: 2m", "{ backend: 2m, response: 720h, body: 720h }"),
        ("request: 2m, backendRequest: 0s", "{ request: 2m, response: 720h, body: 720h }"),
        ("request: 99999h", "{ request: 720h, response: 720h, body: 720h }"),
    ] {
        check(
            &format!("{{ timeouts: {{ {timeouts} }}, backendRefs: [{b}] }}"),
            &[&format!("{{ path: /, backend: default/b, timeouts: {becomes} }}")],
        );
    }
    check(&format!("{{ timeouts: {{}}, backendRefs: [{b}] }}"), &["{ path: /, backend: default/b }"]);
}

#[test]
fn routes_are_ordered_by_age_then_name_then_rule() {
    let (old, young) =
        (", creationTimestamp: '2024-01-01T00:00:00Z'", ", creationTimestamp: '2024-01-01T00:00:01Z'");
    let check = |routes: &[String], expected: &str| {
        let b = backend("b");
        let documents: Vec<&str> =
            [GATEWAY, &b].into_iter().chain(routes.iter().map(String::as_str)).collect();
        assert_eq!(found(&table(&documents), 80, "a.test/x"), format!("HTTPRoute {expected}"));
    };
    let route = |name: &str, metadata: &str| plain(name, metadata, "a.test");
    check(&[route("a", young), route("z", old)], "default/z rules[0]");
    check(&[route("b", old), route("a", old)], "default/a rules[0]");
    check(&[route("b", ""), route("a", "")], "default/a rules[0]");
    check(&[route("a", ""), route("z", young)], "default/z rules[0]");
    let twice = |name: &str| {
        let rule = format!("{{ matches: [{{}}, {{}}], backendRefs: [{}] }}", to("b"));
        crate::setup::route(name, "", &format!("  rules: [{rule}, {rule}]"))
    };
    check(&[twice("a")], "default/a rules[0].matches[0]");
    // A more specific route has precedence, whatever its age.
    check(&[plain("a", old, "'*.test'"), route("z", young)], "default/z rules[0]");
}

#[test]
fn names_are_ordered_with_their_namespaces() {
    let b = backend("b");
    let open =
        gateway("[{ name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }]");
    let of = |namespace: &str, name: &str| {
        plain(name, &format!(", namespace: {namespace}"), "a.test")
            .replace("{ name: edge }", "{ name: edge, namespace: default }")
            .replace("kind: Backend, name: b", "kind: Backend, name: b, namespace: default")
    };
    let grant = |namespace: &str| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\nmetadata: {{ name: {namespace} }}\nspec:\n  \
             from: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: {namespace} }}]\n  \
             to: [{{ group: gateway.weir.example, kind: Backend }}]\n"
        )
    };
    let documents = [&open, &b, &of("x", "a"), &of("x-y", "a"), &grant("x"), &grant("x-y")];
    let documents: Vec<&str> = documents.into_iter().map(String::as_str).collect();
    // `namespace/name` is compared as one string, in which `-` sorts before `/`.
    assert_eq!(found(&table(&documents), 80, "a.test/"), "HTTPRoute x-y/a rules[0]");
    // TLSRoutes are ordered in the same way, so the route in namespace `x-y` wins.
    let open = open.replace("protocol: HTTP,", "protocol: TLS, tls: { mode: Passthrough },");
    let sealed = |text: String| text.replace("HTTPRoute", "TLSRoute");
    let to_other = sealed(of("x-y", "a")).replace("name: b,", "name: c,");
    let other = backend("c");
    let grants = [sealed(grant("x")), sealed(grant("x-y"))];
    let translation =
        translated(&[&open, &b, &other, &sealed(of("x", "a")), &to_other, &grants[0], &grants[1]]).unwrap();
    let [listener] = listeners(&translation)[..] else { panic!("{translation:?}") };
    let backends: Vec<_> = listener.passthrough.iter().map(|entry| entry.backend.as_deref()).collect();
    assert_eq!(backends, [Some("default/c"), None], "who asks for another name is closed");
}

#[test]
fn a_request_belongs_to_the_listener_with_the_most_specific_hostname() {
    let b = backend("b");
    let gateway = gateway(
        "[{ name: all, port: 80, protocol: HTTP }, { name: wide, port: 80, protocol: HTTP, hostname: '*.test' },
          { name: shop, port: 80, protocol: HTTP, hostname: Shop.test }, { name: other, port: 81, protocol: HTTP }]",
    );
    let at = |name: &str, section: &str, hostnames: &str, path: &str| {
        let rule = format!("{{ matches: [{{ path: {{ value: {path} }} }}], backendRefs: [{}] }}", to("b"));
        let spec = format!("  hostnames: [{hostnames}]\n  rules: [{rule}]");
        route(name, "", &spec).replace("{ name: edge }", &format!("{{ name: edge, sectionName: {section} }}"))
    };
    let documents = [
        &gateway,
        &b,
        &at("all", "all", "", "/"),
        &at("lost", "all", "shop.test", "/lost"),
        &at("wide", "wide", "", "/wide"),
        &at("below", "wide", "a.b.test", "/"),
        &at("shop", "shop", "'*.test'", "/shop"),
        &at("other", "other", "", "/"),
    ];
    let documents: Vec<&str> = documents.into_iter().map(String::as_str).collect();
    let table = table(&documents);
    for (url, name) in [
        ("any.org/shop", "HTTPRoute default/all rules[0].matches[0]"),
        ("x.test/wide", "HTTPRoute default/wide rules[0].matches[0]"),
        ("a.b.test/wide", "HTTPRoute default/below rules[0].matches[0]"),
        ("x.test/all", "Gateway default/edge listener wide"),
        ("shop.test/shop", "HTTPRoute default/shop rules[0].matches[0]"),
        ("shop.test/wide", "Gateway default/edge listener shop"),
        ("shop.test/lost", "Gateway default/edge listener shop"),
    ] {
        assert_eq!(found(&table, 80, url), name, "{url}");
    }
    assert_eq!(found(&table, 81, "shop.test/lost"), "HTTPRoute default/other rules[0].matches[0]");
}

#[test]
fn parents_are_selected_by_section_and_port() {
    let b = backend("b");
    let gateway = gateway("[{ name: a, port: 80, protocol: HTTP }, { name: b, port: 81, protocol: HTTP }]");
    let by =
        |parent: &str| plain("r", "", "").replace("{ name: edge }", &format!("{{ name: edge{parent} }}"));
    for (parent, ports) in
        [("", [true, true]), (", sectionName: b", [false, true]), (", port: 80", [true, false])]
    {
        let table = table(&[&gateway, &b, &by(parent)]);
        let is_found = [80, 81].map(|port| found(&table, port, "h/") != "none");
        assert_eq!(is_found, ports, "{parent}");
    }
}

#[test]
fn gateways_of_other_controllers_are_ignored() {
    let b = backend("b");
    let other = GATEWAY
        .replace("gateway.weir.example/controller", "example.com/other")
        .replace("name: weir", "name: far");
    let other =
        other.replace("gatewayClassName: weir", "gatewayClassName: far").replace("name: edge", "name: far");
    let far = plain("far", "", "").replace("name: edge", "name: far");
    let documents = [GATEWAY, &other, &b, &plain("near", "", ""), &far];
    let translation = translated(&documents).unwrap();
    assert_eq!(listeners(&translation).len(), 1);
    assert_eq!(found(&table(&documents), 80, "h/"), "HTTPRoute default/near rules[0]");
}

#[test]
fn namespaces_are_allowed_by_labels() {
    let b = backend("b");
    let gateway = gateway(
        "[{ name: http, port: 80, protocol: HTTP,
            allowedRoutes: { namespaces: { from: Selector, selector: { matchLabels: { team: shop } } } } }]",
    );
    let namespace = |team: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{ name: default, labels: {{ team: {team} }} }}\n"
        )
    };
    let route = plain("r", "", "");
    assert_eq!(
        found(&table(&[&gateway, &b, &namespace("shop"), &route]), 80, "h/"),
        "HTTPRoute default/r rules[0]"
    );
    assert!(translated(&[&gateway, &b, &namespace("blog"), &route]).is_err());
}

#[test]
fn tls_passthrough_selects_routes_by_server_name() {
    let b = backend("b");
    let gateway =
        gateway("[{ name: tls, port: 443, protocol: TLS, hostname: '*.test', tls: { mode: Passthrough } }]");
    let route = |name: &str, hostnames: &str| {
        plain(name, "", hostnames).replace("HTTPRoute", "TLSRoute").replace("io/v1\n", "io/v1alpha2\n")
    };
    let translation =
        translated(&[&gateway, &b, &route("z", "a.test, b.test"), &route("a", "b.test, '*.c.test'")])
            .unwrap();
    let [listener] = listeners(&translation)[..] else { panic!("{translation:?}") };
    let reported: Vec<_> = listener.passthrough.iter().map(|entry| entry.hosts.join(" ")).collect();
    assert_eq!(reported, ["*.c.test b.test", "a.test", "*.test"], "the first by name has what both want");
    let backends: Vec<_> = listener.passthrough.iter().map(|entry| entry.backend.as_deref()).collect();
    assert_eq!(backends, [Some("default/b"), Some("default/b"), None], "what no route names is closed");
    assert!(listener.tls.is_none());
    table(&[&gateway, &b, &route("a", "a.test")]);
}

#[test]
fn certificates_follow_the_listener_order_after_those_for_every_host() {
    let secret = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{ name: {name} }}\ntype: kubernetes.io/tls\n\
             stringData: {{ tls.crt: '{name}', tls.key: k }}\n"
        )
    };
    let tls = |name: &str, hostname: &str, secrets: &str| {
        format!(
            "{{ name: {name}, port: 443, protocol: HTTPS{hostname}, tls: {{ certificateRefs: [{secrets}] }} }}"
        )
    };
    let check = |listeners_text: String, expected: &str, is_strict: bool| {
        let (a, b, c) = (secret("a"), secret("b"), secret("c"));
        let translation = translated(&[&gateway(&format!("[{listeners_text}]")), &a, &b, &c]).unwrap();
        let [listener] = listeners(&translation)[..] else { panic!("{translation:?}") };
        let tls = listener.tls.as_deref().unwrap();
        let further = tls.certificates.iter().map(|more| more.certificate.as_str());
        let files: Vec<&str> = std::iter::once(tls.certificate.as_str()).chain(further).collect();
        assert_eq!(files.join(", "), expected);
        assert_eq!(tls.strict_sni, is_strict);
        for file in files {
            let key = Key::File(file.to_owned());
            let count = translation.resources.iter().filter(|(there, _)| *there == key).count();
            assert_eq!(count, 1, "{file}");
        }
    };
    let (a, all) = (
        tls("a", ", hostname: a.test", "{ name: a }, { name: b }"),
        tls("all", "", "{ name: c }, { name: a }"),
    );
    check(a.clone(), "Secret default/a tls.crt, Secret default/b tls.crt", true);
    // Two listeners share one certificate entry, unless this would change the order of the second listener's
    // certificates.
    let all_c = tls("all", "", "{ name: c }");
    let b = |secrets: &str| format!("{all_c}, {}", tls("b", ", hostname: b.test", secrets));
    let of_c_first = "Secret default/c tls.crt, Secret default/b tls.crt";
    check(b("{ name: c }, { name: b }, { name: c }"), of_c_first, false);
    check(b("{ name: b }, { name: c }"), &format!("{of_c_first}, Secret default/c tls.crt"), false);
    check(
        format!("{a}, {all}"),
        "Secret default/c tls.crt, Secret default/a tls.crt, Secret default/b tls.crt",
        false,
    );
}
