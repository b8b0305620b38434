//! Checks that parts in network namespaces reach each other only over links, and that traffic on links is counted.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use weir_rig::{ProcessSpec, Ready, RigError, Sampler};

use crate::{Bench, eventually, mono_ns};

const BYTES: u64 = 4 << 20;
/// Tolerance of measured traffic: the payload divided by this number. It covers headers of segments and frames,
/// acknowledgements, and the error of samples.
const HEADS_SHARE: u64 = 20;

/// Length of the pauses before and after a transfer: several samples, so that no measured period starts or ends during
/// the transfer.
const QUIET: Duration = Duration::from_millis(600);

/// Opens a rig. If this user cannot create namespaces, checks the error and returns `None`.
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

/// Declares that the process of `spec` listens on `address`, and is ready once it does.
fn listening(mut spec: ProcessSpec, address: SocketAddr) -> ProcessSpec {
    spec.listens = vec![address];
    spec.ready = Ready::Tcp(address);
    spec
}

#[test]
fn traffic_on_a_link_is_counted_at_both_ends_and_requests_of_the_rig_are_not() {
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
    eventually("all bytes are received", || taker.log_tail().contains(&format!("took {BYTES}")));
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
    // A busy host delays acknowledgements, so that the kernel retransmits some segments.
    assert!(given.retransmitted_segments.unwrap() < given.sent_packets, "{given:?}");
    assert!(taken.retransmitted_segments.unwrap() < taken.sent_packets, "{taken:?}");
    // Bytes that the readiness checks received are not counted, because they went over the namespace's loopback.
    let before = samples.usage("giver", from, quiet).unwrap().network.unwrap();
    assert!(before.sent_bytes < share, "{before:?}");
    // Only the first part of a namespace reports the namespace's traffic. Parts in the host's network report none.
    assert_eq!(samples.usage("beside", from, to).unwrap().network, None);
    assert_eq!(samples.usage("outside", from, to).unwrap().network, None);
    drop((giver, taker, beside, outside));
    bench.close();
}

#[test]
fn each_namespace_has_its_own_ports() {
    let Some(bench) = bench("ports") else { return };
    let rig = bench.rig();
    let (near, far) = (rig.namespace().unwrap(), rig.namespace().unwrap());
    let [one, other] = rig.link(&near, &far).unwrap();
    let [again, _] = rig.link(&near, &far).unwrap();
    assert_ne!(one, again, "each link has its own addresses");
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
        panic!("no process of the host holds the port")
    };

    // In a namespace, the error also contains the wrong address on which the part listens.
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
fn a_namespace_has_the_tcp_settings_of_the_host() {
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
