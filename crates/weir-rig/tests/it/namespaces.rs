//! Network namespaces: parts in them reach each other over links and nobody else, and what crosses is counted.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use weir_rig::{ProcessSpec, Ready, RigError, Sampler};

use crate::{Bench, eventually, mono_ns};

const BYTES: u64 = 4 << 20;
/// Heads of segments and of Ethernet frames, acknowledgements, and what a sample is off by.
const HEADS_SHARE: u64 = 20;

/// Long enough for some samples in which nothing moves, so that no border of a span lies in the middle of something.
const QUIET: Duration = Duration::from_millis(600);

/// A rig of a user who may make namespaces; others are told that they may not.
fn bench(run_id: &str) -> Option<Bench> {
    let bench = Bench::new(run_id);
    match bench.rig().namespace() {
        Ok(_) => Some(bench),
        Err(error) => {
            assert!(!rustix::process::geteuid().is_root(), "{error}");
            assert_eq!(error.cause(), "launch");
            assert!(error.remedy().contains("as root"), "{}", error.remedy());
            bench.close();
            None
        }
    }
}

/// The probe listening at `address`, which is in its namespace.
fn listening(mut spec: ProcessSpec, address: SocketAddr) -> ProcessSpec {
    spec.listens = vec![address];
    spec.ready = Ready::Tcp(address);
    spec
}

#[test]
fn what_crosses_a_link_is_counted_at_both_ends_and_what_the_rig_asks_at_none() {
    let Some(bench) = bench("crossing") else { return };
    let rig = bench.rig();
    let (near, far) = (rig.namespace().unwrap(), rig.namespace().unwrap());
    let [_, address] = rig.link(&near, &far).unwrap();
    let address = SocketAddr::from((address, 8080));
    let giver = bench.probe("giver", &["give", &address.to_string(), &BYTES.to_string()]);
    let giver = rig.launch(&ProcessSpec { namespace: Some(far), ..listening(giver, address) }).unwrap();
    let taker = bench.probe("taker", &["take", &address.to_string()]);
    let taker = rig.launch(&ProcessSpec { namespace: Some(near.clone()), ..taker }).unwrap();
    let beside = bench.probe("beside", &["wait"]);
    let beside = rig.launch(&ProcessSpec { namespace: Some(near), ..beside }).unwrap();
    let outside = rig.launch(&bench.probe("outside", &["wait"])).unwrap();

    let sampler = Sampler::start(&[&giver, &taker, &beside, &outside]);
    let from = mono_ns();
    thread::sleep(QUIET);
    let quiet = mono_ns();
    thread::sleep(QUIET);
    fs::write(rig.work_dir().join("go"), "").unwrap();
    eventually("it has taken all", || taker.log_tail().contains(&format!("took {BYTES}")));
    thread::sleep(QUIET);
    let to = mono_ns();
    let samples = sampler.finish();

    let given = samples.usage("giver", from, to).unwrap().network.unwrap();
    let taken = samples.usage("taker", from, to).unwrap().network.unwrap();
    let share = BYTES / HEADS_SHARE;
    assert!((BYTES - share..BYTES + share).contains(&given.sent_bytes), "{given:?}");
    assert!(given.sent_bytes.abs_diff(taken.received_bytes) < share, "{given:?} {taken:?}");
    assert!(given.received_bytes.abs_diff(taken.sent_bytes) < share, "{given:?} {taken:?}");
    assert!(given.sent_packets > 0 && taken.sent_packets > 0, "{given:?} {taken:?}");
    // A busy host delays acknowledgements, so that the kernel sends some segments again.
    assert!(given.retransmitted_segments < given.sent_packets, "{given:?}");
    assert!(taken.retransmitted_segments < taken.sent_packets, "{taken:?}");
    // The rig connected to the giver until it was ready, and was sent bytes: over the namespace's own loopback.
    let before = samples.usage("giver", from, quiet).unwrap().network.unwrap();
    assert!(before.sent_bytes < share, "{before:?}");
    // One namespace is counted once, and the host's network is nobody's.
    assert_eq!(samples.usage("beside", from, to).unwrap().network, None);
    assert_eq!(samples.usage("outside", from, to).unwrap().network, None);
    drop((giver, taker, beside, outside));
    bench.close();
}

#[test]
fn ports_are_a_namespaces_own() {
    let Some(bench) = bench("ports") else { return };
    let rig = bench.rig();
    let (near, far) = (rig.namespace().unwrap(), rig.namespace().unwrap());
    let [one, other] = rig.link(&near, &far).unwrap();
    let [again, _] = rig.link(&near, &far).unwrap();
    assert_ne!(one, again, "each link has addresses of its own");
    let host = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = host.local_addr().unwrap().port();
    let mut running = Vec::new();
    for (name, namespace, ip) in [("near", &near, one), ("far", &far, other)] {
        let address = SocketAddr::from((ip, port));
        let spec = listening(bench.probe(name, &["listen", &address.to_string()]), address);
        running.push(rig.launch(&ProcessSpec { namespace: Some(namespace.clone()), ..spec }).unwrap());
    }
    let address = SocketAddr::from((one, port));
    let spec = listening(bench.probe("second", &["listen", &address.to_string()]), address);
    let error = rig.launch(&ProcessSpec { namespace: Some(near.clone()), ..spec }).unwrap_err();
    assert_eq!(error.cause(), "port-taken", "{error}");
    let RigError::PortTaken { holder: None, .. } = error else {
        panic!("who holds it is none of the host's")
    };

    // Where a part in a namespace listens instead is told, too.
    let elsewhere = SocketAddr::from((again, port));
    let spec = bench.probe("astray", &["listen", &elsewhere.to_string()]);
    let spec = ProcessSpec { ready_timeout: Duration::from_millis(200), ..spec };
    let asked = SocketAddr::from((again, port + 1));
    let error = rig.launch(&ProcessSpec { namespace: Some(near), ..listening(spec, asked) }).unwrap_err();
    assert_eq!(error.cause(), "never-ready", "{error}");
    assert!(error.to_string().contains(&format!("it listens on {elsewhere}")), "{error}");
    drop(running);
    bench.close();
}

#[test]
fn a_namespace_has_the_hosts_settings_of_tcp() {
    let Some(bench) = bench("settings") else { return };
    let rig = bench.rig();
    let names =
        ["core/somaxconn", "ipv4/ip_local_port_range", "ipv4/tcp_congestion_control", "ipv4/tcp_rmem"];
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/net/{name}")).unwrap();
    let host: String = names.map(read).concat();
    let mut spec = bench.probe("settings", &[]);
    spec.command =
        ["cat".to_owned()].into_iter().chain(names.map(|name| format!("/proc/sys/net/{name}"))).collect();
    spec.namespace = Some(rig.namespace().unwrap());
    let mut running = rig.launch(&spec).unwrap();
    assert!(running.wait(crate::PATIENCE).unwrap().unwrap().success());
    assert_eq!(running.log_tail(), host.trim_end());
    drop(running);
    bench.close();
}
