//! Whole loads: phases, workers, overload, an early end.

use std::cell::RefCell;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_engine::{EngineError, LiveSecond, LoadSpec, Progress, run};

use crate::load::{MS, check, closed, drive, open};
use crate::peer::{Behaviour, Peer, say};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

#[test]
fn phases_and_workers_add_up_to_the_peers_counts() {
    let peer = Peer::start(|s, _| say(s, OK));
    let mut spec = open(peer.address, 3_000.0, 400 * MS);
    (spec.workers, spec.connections, spec.warmup_ns) = (2, 5, 200 * MS);
    let record = drive(&spec);
    assert_eq!(peer.requests(), record.whole.sent);
    assert_eq!(record.whole.scheduled, record.whole.completed);
    assert!(record.result.requests.scheduled < record.whole.scheduled);
    assert_eq!(record.phase_end_mono_ns - record.phase_start_mono_ns, 400 * MS);
    let sustained: Vec<bool> = record.seconds.iter().map(|second| second.sustained).collect();
    assert_eq!(sustained[..2], [false, true]);
    // The same seed gives the same schedule, with any number of workers.
    (spec.workers, spec.connections) = (1, 3);
    assert_eq!(drive(&spec).whole.scheduled, record.whole.scheduled);
}

#[test]
fn a_count_is_exact_in_both_models() {
    let peer = Peer::start(|s, _| say(s, OK));
    let mut spec = closed(peer.address, 777);
    (spec.workers, spec.warmup_ns) = (3, 20 * MS);
    assert_eq!(drive(&spec).result.requests.completed, 777);
    let mut spec = open(peer.address, 5_000.0, 0);
    (spec.duration_ns, spec.request_count) = (None, Some(777));
    assert_eq!(drive(&spec).result.requests.completed, 777);
}

#[test]
fn overload_is_dropped_and_timed_out_and_counts_balance() {
    let peer = Peer::start(|s, _| {
        std::thread::sleep(Duration::from_millis(10));
        say(s, OK)
    });
    let mut spec = open(peer.address, 5_000.0, 600 * MS);
    (spec.connections, spec.timeout_ns) = (2, 100 * MS);
    let record = drive(&spec);
    let requests = record.result.requests;
    assert!(requests.dropped > 0 && requests.completed > 0, "{requests:?}");
    assert_eq!(requests.in_flight, 0);
    assert_eq!((record.result.latency_ns.p99, record.result.latency_ns.max), (None, None));
    let wait = record.generator.connection_wait_ns.unwrap();
    assert_eq!(wait.p99, None, "most never got a connection");
}

#[test]
fn unopened_connections_are_reported_as_missing() {
    let peer = Peer::start(|s, _| say(s, OK));
    let refuses = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (address, missing) in [(peer.address, 0.0), (refuses, 4.0)] {
        let record = drive(&LoadSpec { timeout_ns: 100 * MS, ..open(address, 200.0, 200 * MS) });
        assert_eq!(record.generator.connections_missing_mean, Some(missing), "{:?}", record.result.errors);
    }
}

#[test]
fn an_early_end_keeps_the_results_so_far() {
    struct StopAfterOne<'a>(&'a AtomicBool, AtomicU64);
    impl Progress for StopAfterOne<'_> {
        fn second(&self, _: &LiveSecond) {
            self.1.fetch_add(1, Ordering::Relaxed);
            self.0.store(true, Ordering::Release);
        }
    }
    let peer = Peer::start(|s, _| say(s, OK));
    let stop = AtomicBool::new(false);
    let progress = StopAfterOne(&stop, AtomicU64::new(0));
    let mut spec = open(peer.address, 1_000.0, 600_000 * MS);
    spec.workers = 2;
    let record = run(&spec, &progress, &stop).unwrap();
    check(&spec, &record);
    assert!(record.result.requests.completed > 0);
    assert_eq!(peer.requests(), record.whole.sent);
    assert!(progress.1.load(Ordering::Relaxed) >= 1);
    let bounds = record.phase_end_mono_ns - record.phase_start_mono_ns;
    assert!(record.result.duration_s > 0.0 && (record.result.duration_s - bounds as f64 / 1e9).abs() < 1e-9);
}

#[test]
fn reported_seconds_add_up_to_the_record() {
    struct Sum(RefCell<Vec<LiveSecond>>);
    impl Progress for Sum {
        fn second(&self, second: &LiveSecond) {
            self.0.borrow_mut().push(second.clone());
        }
    }
    let peer = Peer::start(|s, _| say(s, OK));
    let silent = Peer::start(|_, _| true);
    let refuses = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for address in [peer.address, silent.address, refuses] {
        let mut spec = open(address, 500.0, 1_300 * MS);
        (spec.workers, spec.counts_only, spec.timeout_ns) = (2, true, 200 * MS);
        let sum = Sum(RefCell::new(Vec::new()));
        let record = run(&spec, &sum, &AtomicBool::new(false)).unwrap();
        let reported = sum.0.into_inner();
        let total = |count: fn(&LiveSecond) -> u64| reported.iter().map(count).sum::<u64>();
        let whole = record.whole;
        assert_eq!(total(|live| live.second.sent), whole.sent);
        assert_eq!(total(|live| live.second.completed), whole.completed);
        assert_eq!(total(LiveSecond::failed), whole.failed);
        assert_eq!(total(|live| live.timed_out), whole.timed_out);
        assert_eq!(total(|live| live.dropped), whole.dropped);
        assert_eq!(total(|live| live.second.latency.decode().unwrap().len()), whole.completed);
        assert!(reported.iter().any(|live| live.offered_per_s == Some(500.0)), "{reported:?}");
    }
}

#[test]
fn invalid_loads_are_errors_that_name_the_field() {
    let peer = Peer::start(|s, _| say(s, OK));
    let said = |change: fn(&mut weir_engine::LoadSpec)| {
        let mut spec = closed(peer.address, 1);
        change(&mut spec);
        let error: EngineError = run(&spec, &(), &AtomicBool::new(false)).unwrap_err();
        assert!(!error.remedy().is_empty());
        error.to_string()
    };
    assert!(said(|spec| spec.connections = 0).starts_with("connections: "));
    assert!(
        said(|spec| spec.connect = "no-such-host.invalid:80".into()).starts_with("no-such-host.invalid:80")
    );
    assert!(said(|spec| spec.connections = 999_999).contains("999999 connections need"));
}

#[test]
fn a_load_stopped_in_its_warm_up_has_an_empty_phase() {
    let peer = Peer::start(|s, _| say(s, OK));
    for mut spec in [open(peer.address, 1_000.0, 1_000 * MS), closed(peer.address, 10)] {
        spec.warmup_ns = 600_000 * MS;
        let record = run(&spec, &(), &AtomicBool::new(true)).unwrap();
        check(&spec, &record);
        assert_eq!(record.result.requests, weir_results::Requests::default());
        assert_eq!((record.result.duration_s, record.result.rate_per_s), (0.0, 0.0));
    }
}

#[test]
fn a_load_that_keeps_only_counts_has_all_counts() {
    let peer = Peer::start(|s, _| say(s, OK));
    let mut spec = open(peer.address, 500.0, 2_200 * MS);
    spec.counts_only = true;
    let record = run(&spec, &(), &AtomicBool::new(false)).unwrap();
    assert!(record.seconds.len() > 2);
    let completed = record.seconds.iter().map(|second| second.completed).sum::<u64>();
    assert_eq!(completed, record.whole.completed);
    let (last, before) = record.seconds.split_last().unwrap();
    assert!(before.iter().all(|second| second.latency.decode().unwrap().is_empty()));
    assert_eq!(last.latency.decode().unwrap().len(), last.completed);
    assert_eq!(record.latency.decode().unwrap().len(), completed);
}

#[test]
fn an_extended_warm_up_keeps_the_phase_and_balanced_counts() {
    let slower: Behaviour = |stream, nth| {
        std::thread::sleep(Duration::from_micros(100 * nth));
        say(stream, OK)
    };
    for model in [closed, |address, _| open(address, 200.0, 0)] {
        let peer = Peer::start(slower);
        let spec = LoadSpec {
            workers: 2,
            warmup_ns: 400 * MS,
            warmup_most_ns: 900 * MS,
            request_count: None,
            duration_ns: Some(100 * MS),
            ..model(peer.address, 0)
        };
        let record = drive(&spec);
        let warm_up = record.generator.warm_up.unwrap();
        assert_eq!(warm_up.asked_ns, 400 * MS);
        assert!([400, 600, 800, 900].contains(&(warm_up.taken_ns / MS)), "{warm_up:?}");
        assert!(warm_up.has_settled || warm_up.taken_ns == 900 * MS, "{warm_up:?}");
        assert_eq!(record.phase_end_mono_ns - record.phase_start_mono_ns, 100 * MS);
        let warm: f64 =
            record.seconds.iter().take_while(|second| !second.sustained).map(|s| s.length_s).sum();
        assert!((warm - warm_up.taken_ns as f64 / 1e9).abs() < 1e-9, "{warm}");
    }
}

#[test]
fn a_warm_up_without_extension_keeps_its_length() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    let spec = LoadSpec { warmup_ns: 20 * MS, warmup_most_ns: 60 * MS, ..closed(peer.address, 50) };
    assert_eq!(drive(&spec).generator.warm_up, None, "it ends by a count");
}
