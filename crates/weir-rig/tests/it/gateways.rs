//! Runs the real gateways from their drivers: render, limit, launch, route, count, stop. `make peers` installs them; a
//! missing gateway fails its test.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::Duration;

use weir_results::Role;
use weir_rig::{Binary, Binding, Drivers, Limits, Rendered, Running, Sampler};

use crate::origin::Origin;
use crate::{Bench, PATIENCE, eventually, free_address, mono_ns};

const MIB: u64 = 1 << 20;

/// A binding with free addresses, and without a real binary.
pub(crate) fn binding() -> Binding {
    Binding {
        listen: free_address(),
        admin: free_address(),
        origins: vec![free_address()],
        hosts: vec!["one.test".into(), "two.test".into()],
        paths: vec!["/ping".into(), "/get/1".into()],
        rewrite: None,
        tls: None,
        certificates: None,
        tokens: Vec::new(),
        workers: 1,
        limits: BTreeMap::new(),
        set: BTreeMap::new(),
        binary: Binary { path: "/nowhere".into(), ..Binary::default() },
        config: None,
        changes: false,
        pods: None,
        services: BTreeMap::new(),
        addresses: BTreeMap::new(),
        secure_origin: None,
        token_cache: std::time::Duration::ZERO,
    }
}

/// Sends a request on a new connection; returns the status and the last line of the body.
fn ask(address: SocketAddr, host: &str, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status =
        answer.split(' ').nth(1).unwrap_or_default().parse().unwrap_or_else(|_| panic!("{answer:?}"));
    (status, answer.lines().last().unwrap_or_default().to_owned())
}

/// A running gateway, its rig, and its upstream.
pub(crate) struct Gateway {
    pub(crate) bench: Bench,
    pub(crate) binding: Binding,
    pub(crate) rendered: Rendered,
    pub(crate) running: Vec<Running>,
    pub(crate) origin: Origin,
}

impl Gateway {
    pub(crate) fn start(driver: &str, change: impl FnOnce(&mut Binding)) -> Self {
        let bench = Bench::new(driver);
        let drivers = Drivers::load(&[]).unwrap();
        let driver = drivers.driver(driver).unwrap();
        let origin = Origin::start();
        let mut binding = Binding {
            origins: vec![origin.address],
            limits: BTreeMap::from([(Role::Data, Limits { cpus: Some(0.5), memory_bytes: Some(512 * MIB) })]),
            binary: driver.locate(None).unwrap(),
            ..binding()
        };
        change(&mut binding);
        let rendered = driver.render(&binding, &bench.rig().work_dir().join("gateway")).unwrap();
        let launch =
            |process| bench.rig().launch(process).unwrap_or_else(|e| panic!("{e}\n{}", e.log_tail()));
        let running = rendered.processes.iter().map(launch).collect();
        Self { bench, binding, rendered, running, origin }
    }

    fn ask(&self, host: &str, path: &str) -> (u16, String) {
        ask(self.binding.listen, host, path)
    }

    pub(crate) fn counted(&self) -> u64 {
        self.rendered.counters.read().unwrap().unwrap()
    }

    /// The folder with the gateway's files.
    pub(crate) fn dir(&self) -> PathBuf {
        self.bench.rig().work_dir().join("gateway")
    }

    pub(crate) fn stop(self) {
        for running in self.running {
            running.stop(Duration::from_secs(10));
        }
        for address in [self.binding.listen, self.binding.admin] {
            eventually("the address is closed", || TcpStream::connect(address).is_err());
        }
        self.bench.close();
    }
}

/// Runs a gateway with default settings. Checks routes, counters, the manifest entry and samples.
fn keeps_its_promises(driver: &str) {
    let mut gateway = Gateway::start(driver, |_| ());
    let sampler = Sampler::start(&gateway.running.iter().collect::<Vec<_>>());
    let from = mono_ns();
    let before = gateway.counted();
    assert_eq!(before, gateway.counted(), "reading the counters does not change them");

    let routed = ["/ping", "/get/1"];
    for host in ["one.test", "two.test", "ONE.test", "one.test:8080"] {
        for path in routed {
            assert_eq!(gateway.ask(host, path), (200, path.to_owned()), "{host}{path}");
        }
        assert_eq!(gateway.ask(host, "/ping?a=b"), (200, "/ping?a=b".into()), "{host}");
    }
    assert_eq!(gateway.origin.asked().len(), 12);
    for (host, path) in
        [("one.test", "/other"), ("one.test", "/ping/x"), ("one.test", "/"), ("three.test", "/ping")]
    {
        assert_eq!(gateway.ask(host, path).0, 404, "{host}{path}");
    }
    assert_eq!(gateway.origin.asked().len(), 12, "the gateway itself returns 404");
    let host_line = |head: &String| head.lines().any(|line| line.eq_ignore_ascii_case("host: two.test"));
    assert_eq!(
        gateway.origin.asked().iter().filter(|head| host_line(head)).count(),
        3,
        "the Host header is forwarded"
    );
    eventually("the counters count every request", || gateway.counted() - before == 16);
    assert_eq!(gateway.counted() - before, 16);

    thread::sleep(Duration::from_millis(250));
    let to = mono_ns();
    let samples = sampler.finish();
    for running in &mut gateway.running {
        let part = running.part();
        assert_eq!(part.limits_applied, gateway.bench.rig().cgroups().is_ok() && part.limited_by != "none");
        assert!(!part.version.is_empty() && part.binary_sha256.len() == 64, "{part:?}");
        let usage = samples.usage(running.name(), from, to);
        let usage = usage.unwrap_or_else(|| panic!("no samples of {}", running.name()));
        assert!(usage.memory_bytes_mean.unwrap() > MIB / 2, "{usage:?}");
        assert!(usage.open_files_max.unwrap() > 3, "{usage:?}");
        let failure = running.failure();
        assert!(failure.is_none(), "{failure:?}");
    }
    gateway.stop();
}

/// Checks with several workers that a rewrite replaces the path and keeps the query, and that every host matches.
fn rewrites_for_every_host(driver: &str) {
    let gateway = Gateway::start(driver, |binding| {
        binding.hosts.clear();
        binding.rewrite = Some("/base".into());
        binding.workers = 2;
    });
    assert_eq!(gateway.ask("any.test", "/get/1"), (200, "/base".into()));
    assert_eq!(gateway.ask("10.0.0.1", "/ping?a=b"), (200, "/base?a=b".into()));
    assert_eq!(gateway.ask("any.test", "/base").0, 404);
    gateway.stop();
}

/// Builds weir's own gateway, so that the test runs the current sources.
pub(crate) fn build_own_gateway() {
    let built =
        Command::new(env!("CARGO")).args(["build", "--quiet", "-p", "weir-gateway"]).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
}

#[test]
fn weir_keeps_its_drivers_promises() {
    build_own_gateway();
    keeps_its_promises("weir");
}

#[test]
fn weir_rewrites_for_every_host() {
    build_own_gateway();
    rewrites_for_every_host("weir");
}

#[test]
fn nginx_keeps_its_drivers_promises() {
    keeps_its_promises("nginx");
}

#[test]
fn haproxy_keeps_its_drivers_promises() {
    keeps_its_promises("haproxy");
}

#[test]
fn envoy_keeps_its_drivers_promises() {
    keeps_its_promises("envoy");
}

#[test]
fn nginx_rewrites_for_every_host() {
    rewrites_for_every_host("nginx");
}

#[test]
fn haproxy_rewrites_for_every_host() {
    rewrites_for_every_host("haproxy");
}

#[test]
fn envoy_rewrites_for_every_host() {
    rewrites_for_every_host("envoy");
}

#[test]
fn a_gateway_with_an_invalid_configuration_exits_with_its_error() {
    let bench = Bench::new("wrongconfig");
    let drivers = Drivers::load(&[]).unwrap();
    let driver = drivers.driver("nginx").unwrap();
    let binding = Binding { binary: driver.locate(None).unwrap(), ..binding() };
    let rendered = driver.render(&binding, &bench.rig().work_dir().join("gateway")).unwrap();
    std::fs::write(&rendered.files[0], "daemon off; nonsense;\n").unwrap();
    let error = bench.rig().launch(&rendered.processes[0]).unwrap_err();
    assert_eq!(error.cause(), "died");
    assert!(error.log_tail().contains("nonsense"), "{}", error.log_tail());
    bench.close();
}
