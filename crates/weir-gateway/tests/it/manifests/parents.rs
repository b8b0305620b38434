//! Which Gateways and listeners a route attaches to, and what it may reference.

use std::net::{SocketAddr, TcpStream};

use super::served::{Served, ask, backend, echo, free_port, gateway, route, who, whole, write};

fn get(address: SocketAddr) -> String {
    ask(address, "GET /\r\nHost: h\r\n")
}

/// The address at which the gateway listens on `port`.
fn at(served: &Served, port: u16) -> SocketAddr {
    let addresses = served.gateway.addresses();
    addresses.into_iter().find(|address| address.port() == port).expect("it listens")
}

#[test]
fn a_parent_is_selected_by_port() {
    let ip = "127.7.13.1";
    let ports = [free_port(ip), free_port(ip)];
    let listeners = format!(
        "    - {{ name: one, port: {}, protocol: HTTP }}\n    - {{ name: other, port: {}, protocol: HTTP }}",
        ports[0], ports[1]
    );
    let by_port = |name: &str, port: u16| {
        route(name, "", &whole(name)).replace("name: edge", &format!("name: edge, port: {port}"))
    };
    let all = [
        gateway(ip, &listeners),
        backend("a", echo("a")),
        backend("b", echo("b")),
        by_port("a", ports[0]),
        by_port("b", ports[1]),
    ];
    let mut served = Served::start(&[("all.yaml", &all.concat())]);
    assert_eq!(who(&get(at(&served, ports[0]))), "a");
    assert_eq!(who(&get(at(&served, ports[1]))), "b");
    let nowhere = all.concat().replace(&format!("name: edge, port: {}", ports[1]), "name: edge, port: 1");
    write(served.dir.path(), "all.yaml", &nowhere);
    let lines = served.reload();
    let expected = "Gateway default/edge has no listener on port 1";
    assert!(lines[0].contains(expected), "{lines:#?}");
}

#[test]
fn a_listener_restricts_the_namespaces_of_routes() {
    let ip = "127.7.13.2";
    let port = free_port(ip);
    let labelled = |team: &str| {
        format!(
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {{ name: far, labels: {{ team: {team} }} }}\n"
        )
    };
    let selector = "from: Selector, selector: { matchLabels: { team: shop } }";
    let by_name = "from: Selector, selector: { matchLabels: { kubernetes.io/metadata.name: far } }";
    let of = |allowed: &str, namespace: &str, more: &str| {
        let listener = format!(
            "    - {{ name: http, port: {port}, protocol: HTTP, allowedRoutes: {{ namespaces: {{ {allowed} }} }} }}"
        );
        // The backend is in the route's namespace, so that only the listener can reject the route.
        let place = format!(", namespace: {namespace}");
        let backend = backend("a", echo("a")).replace("name: a }", &format!("name: a{place} }}"));
        let route = route("r", &place, &whole("a"));
        let route = route.replace("[{ name: edge }]", "[{ name: edge, namespace: default }]");
        [gateway(ip, &listener), backend, route, more.to_owned()].concat()
    };
    let good = of("from: Same", "default", "");
    let mut served = Served::start(&[("all.yaml", &good)]);
    assert_eq!(who(&get(at(&served, port))), "a");
    for (allowed, more, is_allowed) in [
        ("from: Same", "", false),
        ("from: None", "", false),
        ("from: All", "", true),
        (selector, "", false),
        (selector, &labelled("blog"), false),
        (selector, &labelled("shop"), true),
        (by_name, "", true),
    ] {
        write(served.dir.path(), "all.yaml", &of(allowed, "far", more));
        let lines = served.reload();
        match is_allowed {
            true => assert_eq!(lines, [""; 0], "{allowed}"),
            false => {
                let line = "HTTPRoute far/r: spec.parentRefs[0]: no matching listener of Gateway default/edge allows a \
                            HTTPRoute from namespace `far`";
                assert!(lines[0].ends_with(line), "{allowed} {more}: {lines:#?}");
            }
        }
        assert_eq!(who(&get(at(&served, port))), "a", "the route or the previous configuration serves");
    }
}

#[test]
fn a_backend_of_another_namespace_needs_a_reference_grant() {
    let far = backend("b", echo("b")).replace("name: b }", "name: b, namespace: far }");
    let grant = |kind: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1beta1\nkind: ReferenceGrant\n\
             metadata: {{ name: g, namespace: far }}\nspec:\n  \
             from: [{{ group: gateway.networking.k8s.io, kind: {kind}, namespace: default }}]\n  \
             to: [{{ group: gateway.weir.example, kind: Backend, name: b }}]\n"
        )
    };
    let (mut served, address) =
        Served::at("127.7.13.3", &[backend("a", echo("a")), route("r", "", &whole("a")), far]);
    assert_eq!(who(&get(address)), "a");
    let text = std::fs::read_to_string(served.dir.path().join("all.yaml")).expect("a file");
    let to_far = text.replace("kind: Backend, name: a }", "kind: Backend, name: b, namespace: far }");
    for refused in [to_far.clone(), to_far.clone() + &grant("TLSRoute")] {
        write(served.dir.path(), "all.yaml", &refused);
        let lines = served.reload();
        let line = "no ReferenceGrant allows a HTTPRoute in namespace `default` to reference Backend far/b";
        assert!(lines[0].ends_with(line), "{lines:#?}");
        assert_eq!(who(&get(address)), "a");
    }
    write(served.dir.path(), "all.yaml", &(to_far + &grant("HTTPRoute")));
    assert_eq!(served.reload(), [""; 0]);
    assert_eq!(who(&get(address)), "b");
}

#[test]
fn a_gateway_of_another_controller_is_ignored() {
    let (ip, foreign) = ("127.7.13.4", "127.7.13.5");
    let port = free_port(foreign);
    let listener = format!("    - {{ name: http, port: {port}, protocol: HTTP }}");
    let other = gateway(foreign, &listener)
        .replace("gateway.weir.example/controller", "example.org/other")
        .replace("name: weir", "name: other")
        .replace("gatewayClassName: weir", "gatewayClassName: other")
        .replace("name: edge", "name: far");
    let to_other = route("far", "", &whole("b")).replace("name: edge", "name: far");
    let own = [backend("a", echo("a")), backend("b", echo("b")), route("near", "", &whole("a"))];
    let documents = [own.to_vec(), vec![format!("---\n{other}"), to_other]].concat();
    let (served, address) = Served::at(ip, &documents);
    assert_eq!(served.gateway.addresses(), [address]);
    assert_eq!(who(&get(address)), "a");
    assert!(TcpStream::connect((foreign, port)).is_err());
}

#[test]
fn a_gateway_listens_on_each_of_its_addresses() {
    let ips = ["127.7.13.6", "127.7.13.7"];
    let port = free_port(ips[0]);
    let listener = format!("    - {{ name: http, port: {port}, protocol: HTTP }}");
    let two = gateway(ips[0], &listener).replace(
        &format!("[{{ value: {} }}]", ips[0]),
        &format!("[{{ value: {} }}, {{ type: IPAddress, value: {} }}]", ips[0], ips[1]),
    );
    let all = [two, backend("a", echo("a")), route("r", "", &whole("a"))].concat();
    let served = Served::start(&[("all.yaml", &all)]);
    assert_eq!(served.gateway.addresses().len(), 2);
    for ip in ips {
        assert_eq!(who(&get((ip.parse::<std::net::IpAddr>().expect("an address"), port).into())), "a");
    }
}

#[test]
fn a_list_contains_manifests() {
    let ip = "127.7.13.8";
    let listener = format!("    - {{ name: http, port: {}, protocol: HTTP }}", free_port(ip));
    let all = [gateway(ip, &listener), backend("a", echo("a")), route("r", "", &whole("a"))].concat();
    let indented = |document: &str| {
        let lines = document.trim().lines().enumerate();
        lines.map(|(at, line)| format!("{} {line}\n", if at == 0 { "-" } else { " " })).collect::<String>()
    };
    let items: String = all.split("---\n").map(indented).collect();
    let list = format!("apiVersion: v1\nkind: List\nitems:\n{items}");
    let served = Served::start(&[("list.yaml", &list)]);
    assert_eq!(who(&get(served.gateway.addresses()[0])), "a");
}
