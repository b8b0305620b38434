//! Changes routes of the real gateways while they run, as the `apply` section of their drivers describes.

use std::time::Instant;

use weir_results::Role;
use weir_rig::{Asked, Binding, Drivers, Limits, TlsBinding, status_of, tokens};

use crate::gateways::{Gateway, build_own_gateway};
use crate::{PATIENCE, eventually};

const HOST: &str = "one.test";

fn status(gateway: &Gateway, path: &str) -> Option<u16> {
    status_of(
        &gateway.rendered.credentials,
        None,
        gateway.binding.listen,
        Asked { host: HOST, path },
        PATIENCE,
    )
    .ok()
}

/// Tests changes with plain HTTP, and with TLS, client certificates and bearer tokens.
fn changes_its_routes(driver: &str) {
    changes_routes_of(Gateway::start(driver, |binding| binding.changes = true), driver);
    let secured = |binding: &mut Binding| {
        binding.changes = true;
        binding.tls = Some(TlsBinding { client_certificate: true, ..TlsBinding::default() });
        binding.tokens = tokens(1, 2);
    };
    changes_routes_of(Gateway::start(driver, secured), driver);
}

/// Adds and removes a route twice, and checks that the other routes stay.
fn changes_routes_of(mut gateway: Gateway, driver: &str) {
    let drivers = Drivers::load(&[]).unwrap();
    let driver = drivers.driver(driver).unwrap();
    let dir = gateway.bench.rig().work_dir().join("gateway");
    let paths = [gateway.binding.paths.clone(), vec!["/changed/1".into()]].concat();
    let with_more = Binding { paths, ..gateway.binding.clone() };
    let credentials = &gateway.rendered.credentials;
    let more = driver
        .prepare_change(&gateway.binding, &with_more, credentials, &dir, "more", &gateway.running)
        .unwrap();
    let fewer = driver
        .prepare_change(&with_more, &gateway.binding, credentials, &dir, "fewer", &gateway.running)
        .unwrap();
    assert_eq!(status(&gateway, "/changed/1"), Some(404), "no effect before the change is applied");
    for _ in 0..2 {
        for (change, expected) in [(&more, 200), (&fewer, 404)] {
            change.apply().unwrap();
            let mut signalled = Instant::now();
            eventually("the change takes effect", || {
                if change.again_after().is_some_and(|after| signalled.elapsed() >= after) {
                    change.signal();
                    signalled = Instant::now();
                }
                status(&gateway, "/changed/1") == Some(expected)
            });
            // While a gateway replaces its process, the old or the new one can respond.
            eventually("other routes stay", || status(&gateway, "/ping") == Some(200));
        }
    }
    for running in &mut gateway.running {
        let failure = running.failure();
        assert!(failure.is_none(), "{failure:?}");
    }
    gateway.stop();
}

#[test]
fn weir_changes_its_routes() {
    build_own_gateway();
    changes_its_routes("weir");
}

#[test]
fn nginx_changes_its_routes() {
    changes_its_routes("nginx");
}

#[test]
fn haproxy_changes_its_routes() {
    changes_its_routes("haproxy");
}

#[test]
fn envoy_changes_its_routes() {
    changes_its_routes("envoy");
}

/// Checks that the gateway starts with a hundred thousand routes within its timeout and 2 GiB, and serves the last one.
fn takes_many_routes(driver: &str) {
    const ROUTES: usize = 100_000;
    let gateway = Gateway::start(driver, |binding| {
        binding.hosts = vec![HOST.into()];
        binding.paths = (1..=ROUTES).map(|number| format!("/get/{number}")).collect();
        binding.limits = [(Role::Data, Limits { cpus: Some(1.0), memory_bytes: Some(2 << 30) })].into();
    });
    for (path, expected) in [("/get/1", 200), ("/get/100000", 200), ("/get/100001", 404)] {
        assert_eq!(status(&gateway, path), Some(expected), "{path}");
    }
    gateway.stop();
}

#[test]
fn weir_takes_a_hundred_thousand_routes() {
    build_own_gateway();
    takes_many_routes("weir");
}

#[test]
fn nginx_takes_a_hundred_thousand_routes() {
    takes_many_routes("nginx");
}

#[test]
fn haproxy_takes_a_hundred_thousand_routes() {
    takes_many_routes("haproxy");
}

#[test]
fn envoy_takes_a_hundred_thousand_routes() {
    takes_many_routes("envoy");
}

#[test]
fn drivers_without_route_changes_are_rejected_with_a_reason() {
    let check = |apply: &str, expected: &str| {
        let folder = tempfile::tempdir().unwrap();
        let driver = folder.path().join("own");
        std::fs::create_dir(&driver).unwrap();
        let text = format!(
            "about: x\nbinary: {{ name: x, version: {{ args: [], after: x }}, get: x }}\n\
             processes: [{{ name: p, role: data, command: [x] }}]\n\
             steps: [{{ render: {{ template: page, to: t }} }}, {{ start: p }}]\n{apply}"
        );
        std::fs::write(driver.join("driver.yaml"), text).unwrap();
        std::fs::write(driver.join("page"), "").unwrap();
        let loaded = Drivers::load(&[driver]);
        let refused = loaded.and_then(|drivers| drivers.driver("own").and_then(|own| own.check_apply()));
        let said = match refused {
            Ok(()) => String::new(),
            Err(error) => format!("{error} | {}", error.remedy()),
        };
        assert!(said.contains(expected) && said.is_empty() == expected.is_empty(), "{apply}: {said}");
    };
    check("apply: { files: { templates: [page], signal: HUP } }\n", "");
    check("apply: { files: { templates: [page] } }\n", "");
    check("", "the driver has no `apply`, so weir cannot change the running gateway | add `apply`");
    check("apply: { xds: {} }\n", "`apply: xds` is not supported yet");
    let kubernetes = "apply: { kubernetes: { api: { service: k8s }, template: page } }\n";
    check(kubernetes, "`apply`: `k8s` is not in `needs` | add `needs: [k8s]`");
    check(
        "apply: { files: { templates: [paeg] } }\n",
        "`apply`: no step renders `paeg` | did you mean `page`?",
    );
    check(
        "apply: { files: { templates: [page], signal: HPU } }\n",
        "unknown signal `HPU` | did you mean `HUP`?",
    );
}
