//! Loads that several engines drive together: counts are exact, the values of `{seq}` and `{uuid}` are unique, and all
//! engines start at the same time.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_document::{Pause, Rate};
use weir_engine::{EngineError, LoadSpec, ModelSpec, ShardSpec, Spacing, StepSpec, TlsSpec, run};
use weir_origin::OriginSpec;
use weir_results::{LoadRecord, ShardRecord, merge};

use crate::load::{MS, check, closed, drive, get, open};
use crate::peer::{Peer, say};
use crate::relay::Watched;

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Returns a copy of `spec` for machine `index` of `of` machines.
fn part(spec: &LoadSpec, index: u32, of: u32) -> LoadSpec {
    LoadSpec { shard: Some(ShardSpec { index, of }), ..spec.clone() }
}

/// Drives all parts of a load at the same time, each in its own thread.
fn drive_shards(spec: &LoadSpec, of: u32) -> Vec<LoadRecord> {
    std::thread::scope(|scope| {
        let driven = |index| scope.spawn(move || run(&part(spec, index, of), &(), &AtomicBool::new(false)));
        let shards: Vec<_> = (0..of).map(driven).collect();
        shards.into_iter().map(|shard| shard.join().unwrap().unwrap()).collect()
    })
}

/// Merges the records of all parts. The result must meet the same invariants as a record of one machine with the same
/// total number of workers.
fn merged(spec: &LoadSpec, records: &[LoadRecord]) -> LoadRecord {
    let shards = records.iter().zip("abcdefgh".chars()).map(|(record, name)| ShardRecord {
        agent: name.into(),
        clock_offset_ns: 0,
        clock_bound_ns: 0,
        planned_start_ns: spec.start_at_ns.unwrap_or(0),
        lengths_differ: spec.request_count.is_some(),
        machine: None,
        record: record.clone(),
    });
    let record = merge(&shards.collect::<Vec<_>>()).unwrap();
    check(&LoadSpec { workers: record.generator.workers, ..spec.clone() }, &record);
    record
}

/// Returns the path of a request head.
fn path(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

#[test]
fn names_are_unique_over_three_shards_and_counts_are_split_exactly() {
    let watched = Watched::start();
    let base = LoadSpec {
        requests: vec![get("/n/{seq}/{uuid}"), get("/m/{seq}/{uuid}")],
        tokens: vec!["t0".into(), "t1".into()],
        workers: 2,
        connections: 10,
        ..closed(watched.address, 1_000)
    };
    let mut spacings = vec![ModelSpec::default()];
    spacings.extend([Spacing::Poisson, Spacing::Even].map(|spacing| ModelSpec::open(4_000.0, spacing)));
    let mut served = 0;
    for model in spacings {
        let spec = LoadSpec { model, ..base.clone() };
        let records = drive_shards(&spec, 3);
        let of_shards = |of: fn(&LoadRecord) -> u64| records.iter().map(of).collect::<Vec<_>>();
        assert_eq!(of_shards(|record| record.result.requests.completed), [334, 333, 333]);
        assert_eq!(of_shards(|record| record.generator.connections.into()), [4, 3, 3]);
        assert_eq!(of_shards(|record| record.generator.connections_opened), [4, 3, 3]);
        let record = merged(&spec, &records);
        assert_eq!((record.whole.sent, record.result.requests.completed), (1_000, 1_000));
        served += 1_000;
        assert_eq!(watched.origin.stats().requests, served);

        let heads = watched.heads();
        let (mut numbers, mut identifiers, mut of_n) = (BTreeSet::new(), BTreeSet::new(), 0);
        for head in &heads {
            let parts: Vec<&str> = path(head).split('/').collect();
            let number: u64 = parts[2].parse().unwrap();
            numbers.insert(number);
            identifiers.insert(parts[3]);
            of_n += u64::from(parts[1] == "n");
            assert!(head.contains(&format!("Authorization: Bearer t{}\r\n", number % 2)), "{head}");
        }
        assert_eq!((heads.len(), identifiers.len()), (1_000, 1_000));
        // As with one machine, each number occurs exactly once.
        assert!(numbers.into_iter().eq(0..1_000), "{model:?}");
        // The expected count is 500. The tolerance is four standard deviations of a binomial count.
        assert!(of_n.abs_diff(500) <= 64, "{of_n}");
        let routes: Vec<_> =
            record.routes.iter().map(|route| (route.name.as_str(), route.requests.completed)).collect();
        assert_eq!(routes, [("GET /n/{seq}/{uuid}", of_n), ("GET /m/{seq}/{uuid}", 1_000 - of_n)]);
    }
}

#[test]
fn a_shard_of_one_is_the_whole_load() {
    let watched = Watched::start();
    let mix = [get("/a/{seq}/{uuid}"), get("/b/{seq}/{1..1000}")];
    let spec = LoadSpec { requests: mix.into(), connections: 5, ..open(watched.address, 2_000.0, 200 * MS) };
    let paths = |spec: &LoadSpec| {
        let record = drive(spec);
        let paths: BTreeSet<String> = watched.heads().iter().map(|head| path(head).to_owned()).collect();
        assert_eq!(paths.len() as u64, record.whole.sent);
        (paths, record)
    };
    let (alone, record) = paths(&spec);
    let (only_shard, record_of_shard) = paths(&part(&spec, 0, 1));
    assert_eq!(alone, only_shard);
    assert_eq!(record.whole.scheduled, record_of_shard.whole.scheduled);
    assert_eq!((record_of_shard.distributions, record_of_shard.shards), (None, Vec::new()));
    assert_ne!(alone, paths(&part(&spec, 0, 2)).0);
}

#[test]
fn shards_of_a_ramp_open_as_many_connections_as_one_machine() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    for (from, to) in [(1, 6), (6, 1)] {
        let spec = LoadSpec {
            connections_from: Some(from),
            connections: to,
            workers: to.min(2),
            duration_ns: Some(400 * MS),
            request_count: None,
            ..closed(peer.address, 0)
        };
        let alone = drive(&LoadSpec { workers: 1, ..spec.clone() });
        let record = merged(&spec, &drive_shards(&spec, 3));
        assert_eq!(record.generator.connections_opened, alone.generator.connections_opened);
        assert_eq!(record.generator.connections, to);
    }
}

#[test]
fn think_times_differ_and_a_warm_up_does_not_grow() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    let spec = LoadSpec {
        model: ModelSpec::Closed { think: "exp:1ms".parse::<Pause>().ok() },
        warmup_ns: 100 * MS,
        warmup_most_ns: 300 * MS,
        duration_ns: Some(200 * MS),
        request_count: None,
        ..closed(peer.address, 0)
    };
    let records = drive_shards(&spec, 2);
    assert!(records.iter().all(|record| record.generator.warm_up.is_none()));
    let record = merged(&spec, &records);
    assert_eq!(record.result.duration_s, 0.2);
    assert_eq!(record.whole.sent, peer.requests());
}

#[test]
fn steps_are_split_exactly_and_start_together() {
    let watched = Watched::start();
    let step = |connections, rate| StepSpec { connections: Some(connections), rate: Some(Rate(rate)) };
    let spec = LoadSpec {
        steps: vec![step(10, 200.0), step(4, 300.1)],
        timeout_ns: 1_500 * MS,
        warmup_ns: 100 * MS,
        start_at_ns: Some(weir_io::mono_ns() + 3_000 * MS),
        ..open(watched.address, 1.0, 200 * MS)
    };
    let records = drive_shards(&spec, 3);
    let starts = |nth: usize| {
        let starts = records.iter().map(|record| record.steps[nth].phase_start_mono_ns);
        starts.collect::<BTreeSet<u64>>().into_iter().collect::<Vec<_>>()
    };
    let start_ns = spec.start_at_ns.unwrap();
    assert_eq!(starts(0), [start_ns + 100 * MS]);
    assert_eq!(starts(1), [start_ns + 300 * MS + 2_500 * MS], "after a time-out and a second");
    let record = merged(&spec, &records);
    let asked: Vec<_> = record.steps.iter().map(|step| (step.connections, step.rate_per_s)).collect();
    assert_eq!(asked, [(10, Some(200.0)), (4, Some(300.1))]);
    assert_eq!(record.whole.sent, watched.origin.stats().requests);
    for step in &record.steps {
        let requests = &step.result.requests;
        assert_eq!(step.latency.decode().unwrap().len(), requests.completed);
        assert!(step.result.service_time_ns.p50.is_some() && step.result.lateness_ns.is_some());
    }
    assert!(record.shards.iter().all(|shard| shard.start_offset_ns == 0), "{:?}", record.shards);
}

#[test]
fn a_planned_start_is_exact_or_fails_with_its_reason() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    let now_ns = weir_io::mono_ns();
    let planned = |start_ns| LoadSpec { start_at_ns: Some(start_ns), ..closed(peer.address, 40) };
    let record = drive(&planned(now_ns + 3_000 * MS));
    assert_eq!(record.phase_start_mono_ns, now_ns + 3_000 * MS);
    let sent = peer.requests();
    let error = run(&planned(now_ns), &(), &AtomicBool::new(false)).unwrap_err();
    let EngineError::Late { late_ns } = error else { panic!("{error}") };
    assert!(late_ns >= 3_000 * MS && error.to_string().contains("ms too late"), "{error}");
    // This start is too soon: the connections cannot be open by then.
    let error = run(&planned(weir_io::mono_ns() + 50_000), &(), &AtomicBool::new(false)).unwrap_err();
    assert!(matches!(error, EngineError::Late { late_ns: 1.. }), "{error}");
    assert_eq!(peer.requests(), sent, "a load that is late sends nothing");
}

#[test]
fn a_load_that_is_stopped_before_its_planned_start_sends_nothing() {
    let peer = Peer::start(|stream, _| say(stream, OK));
    for mut spec in [open(peer.address, 1_000.0, 1_000 * MS), closed(peer.address, 10)] {
        // This start is about ten minutes away. The test stops the load before it.
        spec.start_at_ns = Some(weir_io::mono_ns() + 590_000 * MS);
        spec.workers = 2;
        let stop = AtomicBool::new(false);
        let record = std::thread::scope(|scope| {
            scope.spawn(|| {
                while peer.counts.connections.load(Ordering::Relaxed) == 0 {
                    std::thread::yield_now();
                }
                stop.store(true, Ordering::Release);
            });
            run(&spec, &(), &stop).unwrap()
        });
        check(&spec, &record);
        assert_eq!((record.whole.scheduled, peer.requests()), (0, 0));
    }
}

#[test]
fn tls_handshakes_of_all_shards_are_summarized_together() {
    let made = weir_origin::TlsSpec::Made { domains: vec!["peer.example".into()], is_expired: false };
    let spec = OriginSpec { tls: Some(made), ..OriginSpec::at(([127, 0, 0, 1], 0).into()) };
    let origin = weir_origin::start(&spec).unwrap();
    let tls = TlsSpec { sni: Some("peer.example".into()), insecure: true, ..TlsSpec::default() };
    let spec = LoadSpec { tls: Some(tls), connections: 7, ..closed(origin.address(), 200) };
    let records = drive_shards(&spec, 3);
    let record = merged(&spec, &records);
    let tls = record.result.tls.unwrap();
    assert_eq!((tls.handshakes, tls.failed, record.whole.sent), (7, 0, 200));
    assert_eq!(tls.negotiated.values().sum::<u64>(), 7);
    let before = |record: &LoadRecord| record.distributions.clone().unwrap().handshakes_before.unwrap();
    let handshakes = records.iter().map(|record| before(record).decode().unwrap().len());
    assert_eq!(handshakes.collect::<Vec<_>>(), [3, 2, 2]);
    let slowest_ns = records.iter().map(|record| before(record).decode().unwrap().max()).max();
    assert_eq!(tls.handshake_ns.max, slowest_ns);
}
