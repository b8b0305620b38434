//! Routes for specific listeners.

use crate::setup::{Client, Origin, Proxy, compile};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

fn text(routes: &str, origin: &Origin) -> String {
    format!(
        "listeners: [{{ address: 127.0.0.1:0, name: inside }}, {{ address: 127.0.0.2:0, name: outside }}]\n\
         workers: 1\nroutes: {routes}\nbackends: {{ b: {{ endpoints: ['{}'] }} }}\n",
        origin.address
    )
}

/// A client of the listener with this address.
fn client(proxy: &Proxy, ip: &str) -> Client {
    let addresses = proxy.gateway.addresses();
    let address = addresses.iter().find(|address| address.ip().to_string() == ip).unwrap();
    Client::connect(*address)
}

#[test]
fn listener_uses_its_own_and_the_common_routes() {
    let origin = Origin::answering(OK);
    let routes = "[{ listeners: [inside], path: /, backend: b },
        { listeners: [outside], path: /, redirect: { scheme: https } }, { path: /all, backend: b }]";
    let mut proxy = Proxy::with(&text(routes, &origin));
    let (mut inside, mut outside) = (client(&proxy, "127.0.0.1"), client(&proxy, "127.0.0.2"));
    let get = |path: &str| format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(inside.ask(&get("/x")).status, 200);
    let answer = outside.ask(&get("/x"));
    assert_eq!((answer.status, answer.field("location")), (302, Some("https://a.test/x")));
    assert_eq!((inside.ask(&get("/all")).status, outside.ask(&get("/all")).status), (200, 200));
    // Open connections use a new version at once.
    let table = compile(&mut proxy.state, &text("[{ listeners: [outside], path: /, backend: b }]", &origin));
    proxy.gateway.apply(table).unwrap();
    assert_eq!(inside.ask(&get("/x")).error(), (404, "no_route"));
    assert_eq!(outside.ask(&get("/x")).status, 200);
    let table = compile(&mut proxy.state, &text("[{ path: /, backend: b }]", &origin));
    proxy.gateway.apply(table).unwrap();
    assert_eq!((inside.ask(&get("/x")).status, outside.ask(&get("/x")).status), (200, 200));
}
