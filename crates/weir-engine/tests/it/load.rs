//! Specifications of loads for the tests, and the invariants that every record must meet.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use weir_engine::{LoadSpec, ModelSpec, RequestSpec, Spacing, run};
use weir_results::{ArrivalModel, LoadRecord, Requests};

pub(crate) const MS: u64 = 1_000_000;

/// A closed loop of `count` requests over 4 connections.
pub(crate) fn closed(address: SocketAddr, count: u64) -> LoadSpec {
    LoadSpec {
        connect: address.to_string(),
        requests: vec![get("/")],
        connections: 4,
        duration_ns: None,
        request_count: Some(count),
        timeout_ns: 5_000 * MS,
        ..LoadSpec::default()
    }
}

/// An open loop that ends after `duration_ns`.
pub(crate) fn open(address: SocketAddr, rate_per_s: f64, duration_ns: u64) -> LoadSpec {
    LoadSpec {
        model: ModelSpec::open(rate_per_s, Spacing::Poisson),
        duration_ns: Some(duration_ns),
        request_count: None,
        ..closed(address, 0)
    }
}

pub(crate) fn get(path: &str) -> RequestSpec {
    RequestSpec {
        path: path.into(),
        headers: vec![("Host".into(), "peer.example".into())],
        ..RequestSpec::default()
    }
}

/// Drives a load, and checks the invariants of its record.
pub(crate) fn drive(spec: &LoadSpec) -> LoadRecord {
    let record = run(spec, &(), &AtomicBool::new(false)).unwrap();
    check(spec, &record);
    record
}

pub(crate) fn check(spec: &LoadSpec, record: &LoadRecord) {
    let result = &record.result;
    for requests in [&result.requests, &record.whole] {
        assert!(requests.balance(), "{requests:?}");
        assert!(requests.sent <= requests.scheduled && requests.completed <= requests.sent, "{requests:?}");
        assert!(requests.unexpected <= requests.completed, "{requests:?}");
    }
    assert!(record.whole_uncertain <= record.whole.sent);
    let of_seconds = |of: fn(&weir_results::LoadSecond) -> u64| record.seconds.iter().map(of).sum::<u64>();
    let Requests { sent, completed, unexpected, failed, timed_out, dropped, .. } = record.whole;
    assert_eq!(of_seconds(|second| second.sent), sent);
    assert_eq!(of_seconds(|second| second.completed), completed);
    assert_eq!(of_seconds(|second| second.unexpected), unexpected);
    assert_eq!(of_seconds(|second| second.lost), failed + timed_out + dropped);
    let in_histograms: u64 = record.seconds.iter().map(|s| s.latency.decode().unwrap().len()).sum();
    assert_eq!(in_histograms, completed);
    assert_eq!(record.latency.decode().unwrap().len(), result.requests.completed);
    assert_eq!(record.service_time.decode().unwrap().len(), result.requests.completed);
    assert_eq!(result.status.values().sum::<u64>(), result.requests.completed);
    assert_eq!(result.lateness_ns.is_some(), result.model == ArrivalModel::Open);
    assert_eq!(record.generator.worker_cpu_s.len(), spec.workers as usize);
    assert!(record.phase_end_mono_ns >= record.phase_start_mono_ns);
}
