//! Request fields that the gateway drops: names that CGI reads as other headers, and `Proxy`.

use weir_config::{Scope, State};
use weir_dataplane::{Outcome, explain};

use crate::setup::{Origin, Proxy, compile};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// The fields after `Host` that the upstream gets, and the number of dropped fields.
fn passed(settings: &str, route: &str, fields: &str) -> (Vec<String>, u64) {
    let origin = Origin::answering(OK);
    let proxy = Proxy::with(&format!(
        "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 1\nroutes: [{{ path: /, backend: b{route} }}]\n\
         backends: {{ b: {{ endpoints: ['{}'] }} }}\n{settings}\n",
        origin.address
    ));
    assert_eq!(proxy.ask(&format!("GET / HTTP/1.1\r\nHost: h\r\n{fields}\r\n")).body, "ok");
    let lines = origin.requests()[0].trim_end().split("\r\n").skip(2).map(str::to_owned).collect();
    (lines, proxy.gateway.stats().listeners["main"].fields_dropped)
}

#[test]
fn drops_fields_with_underscores_or_dots() {
    let spellings =
        "X_Forwarded_For: 6.6.6.6\r\nX.Forwarded.For: 6.6.6.6\r\nx-tier_: 1\r\nX-Tier: 2\r\nA: 1\r\n";
    assert_eq!(passed("", "", spellings), (vec!["X-Tier: 2".to_owned(), "A: 1".to_owned()], 3));
    let changes = ", request_headers: { remove: [X-Tier] }";
    let own = ["A: 1", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Proto: http", "X-Forwarded-Host: h"];
    let forwarding = "forwarding: { x_forwarded: true }";
    assert_eq!(passed(forwarding, changes, spellings), (own.map(str::to_owned).to_vec(), 3));
    let all: Vec<String> = spellings.trim_end().split("\r\n").map(str::to_owned).collect();
    assert_eq!(passed("underscores_in_headers: true", "", spellings), (all, 0));
}

#[test]
fn drops_the_field_proxy() {
    for settings in ["", "underscores_in_headers: true"] {
        let fields = "proxy: http://evil.example\r\nPROXY: x\r\nProxy-X: 1\r\nProxies: 2\r\n";
        assert_eq!(passed(settings, "", fields), (vec!["Proxy-X: 1".to_owned(), "Proxies: 2".to_owned()], 2));
    }
}

#[test]
fn routes_do_not_match_dropped_fields() {
    let origin = Origin::answering(OK);
    let config = |setting: &str| {
        format!(
            "listeners: [{{ address: 127.0.0.1:0 }}]\nworkers: 1\n\
             routes: [{{ path: /, headers: {{ x_user: me }}, backend: b }}]\n\
             backends: {{ b: {{ endpoints: ['{}'] }} }}\n{setting}\n",
            origin.address
        )
    };
    let request = "GET / HTTP/1.1\r\nHost: h\r\nX_User: me\r\n\r\n";
    assert_eq!(Proxy::with(&config("")).ask(request).error(), (404, "no_route"));
    assert_eq!(Proxy::with(&config("underscores_in_headers: true")).ask(request).status, 200);
    // `explain` agrees, and reports the reason.
    let table = compile(&mut State::default(), &config(""));
    let reported = explain(&table, request.as_bytes(), Scope::default(), false).unwrap();
    assert_eq!((reported.dropped.as_slice(), reported.route.as_ref()), (&["X_User".to_owned()][..], None));
    assert!(
        reported.to_string().contains("\ndropped   X_User: its name contains characters other than letters"),
        "{reported}"
    );
    let table = compile(&mut State::default(), &config("underscores_in_headers: true"));
    let reported = explain(&table, request.as_bytes(), Scope::default(), false).unwrap();
    assert!(reported.dropped.is_empty());
    let Outcome::Sent { head, .. } = reported.outcome else { panic!("{reported}") };
    assert!(head.contains("X_User: me\r\n"), "{head}");
}
