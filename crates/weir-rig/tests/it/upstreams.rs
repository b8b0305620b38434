//! Runs real servers as upstream, from their drivers. Checks that they respond to every path and method with a body of
//! the configured size, and count requests.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use weir_rig::{Drivers, Limits, OriginBinding, Rendered, Running};

use crate::{Bench, PATIENCE, eventually, free_address};

/// Sends two requests on one connection; returns the statuses and body lengths of the responses.
fn ask_twice(address: SocketAddr, method: &str, path: &str) -> Vec<(u16, usize)> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = |connection| {
        format!("{method} {path} HTTP/1.1\r\nHost: any.test\r\n{connection}Content-Length: 2\r\n\r\nhi")
    };
    let both = [request(""), request("Connection: close\r\n")].concat();
    stream.write_all(both.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut answers = Vec::new();
    let mut rest = bytes.as_slice();
    while let Some(end) = rest.windows(4).position(|window| window == b"\r\n\r\n") {
        let head = String::from_utf8_lossy(&rest[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        let length: usize = length.parse().unwrap();
        answers.push((status, length));
        rest = &rest[end + 4 + length..];
    }
    assert!(rest.is_empty(), "{} bytes are no response", rest.len());
    answers
}

struct Replica {
    binding: OriginBinding,
    rendered: Rendered,
    running: Vec<Running>,
}

impl Replica {
    fn start(bench: &Bench, driver: &str, name: &str, body_bytes: u64) -> Self {
        let drivers = Drivers::load(&[]).unwrap();
        let driver = drivers.driver(driver).unwrap();
        let binding = OriginBinding {
            name: name.into(),
            listen: free_address(),
            admin: free_address(),
            workers: 2,
            limits: Limits { cpus: Some(0.5), memory_bytes: None },
            body_bytes,
            binary: driver.locate(None).unwrap(),
        };
        let rendered = driver.render_origin(&binding, &bench.rig().work_dir().join(name)).unwrap();
        let launch =
            |process| bench.rig().launch(process).unwrap_or_else(|e| panic!("{e}\n{}", e.log_tail()));
        let running = rendered.processes.iter().map(launch).collect();
        Self { binding, rendered, running }
    }

    fn counted(&self) -> u64 {
        self.rendered.counters.read().unwrap().unwrap()
    }
}

#[test]
fn nginx_as_upstream_serves_bodies_of_any_size() {
    let bench = Bench::new("upstreams");
    for body_bytes in [0, 64, 1024, 1025, 300_000] {
        let replica = Replica::start(&bench, "nginx", "origin", body_bytes);
        let before = replica.counted();
        for (method, path) in [("GET", "/"), ("GET", "/get/17?a=b"), ("POST", "/x"), ("PUT", "/deep/er")] {
            let expected = (200, body_bytes as usize);
            let answers = ask_twice(replica.binding.listen, method, path);
            assert_eq!(answers, [expected, expected], "{method} {path} of {body_bytes} bytes");
        }
        eventually("every request is counted", || replica.counted() - before == 8);
        for running in replica.running {
            running.stop(Duration::from_secs(10));
        }
    }
    bench.close();
}

#[test]
fn replicas_of_one_server_have_their_own_names() {
    let bench = Bench::new("replicas");
    let replicas = ["origin-1", "origin-2", "origin-3"].map(|name| Replica::start(&bench, "nginx", name, 10));
    assert_eq!(ask_twice(replicas[1].binding.listen, "GET", "/"), [(200, 10), (200, 10)]);
    assert_eq!(replicas.each_ref().map(Replica::counted), [0, 2, 0]);
    for replica in replicas {
        for running in replica.running {
            let part = running.part();
            assert_eq!((part.name.as_str(), part.limit_cpus), (replica.binding.name.as_str(), Some(0.5)));
            assert!(part.config_sha256.is_some());
            running.stop(Duration::from_secs(10));
        }
    }
    bench.close();
}

#[test]
fn a_driver_that_cannot_be_the_upstream_is_rejected() {
    let drivers = Drivers::load(&[]).unwrap();
    let envoy = drivers.driver("envoy").unwrap();
    let binding = OriginBinding {
        name: "origin".into(),
        listen: free_address(),
        admin: free_address(),
        workers: 1,
        limits: Limits::default(),
        body_bytes: 1,
        binary: crate::gateways::binding().binary,
    };
    let folder = tempfile::tempdir().unwrap();
    let error = envoy.render_origin(&binding, folder.path()).unwrap_err();
    assert!(error.to_string().contains("cannot serve as the upstream"), "{error}");
    assert_eq!(drivers.origins(), ["nginx"]);
}
