use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;

use super::*;
use crate::{
    ArrivalModel, BoundBy, Bytes, CpuSeconds, Distributions, Errors, GeneratorEvidence, Http2Result,
    LoadResult, LoadSecond, Protocol, Reason, RouteTimes, SCHEMA_VERSION, TimesNs, TlsResult, Verdicts,
    WarmUp, new_histogram,
};

const S: u64 = 1_000_000_000;
/// The planned start of every load in these tests, on the coordinator's clock. After it comes a warm-up of one second.
const PLANNED_NS: u64 = 1_000 * S;

fn histogram_of(values_ns: impl IntoIterator<Item = u64>) -> Hdr<u64> {
    let mut histogram = new_histogram();
    values_ns.into_iter().for_each(|ns| histogram.record(ns).unwrap());
    histogram
}

fn encoded(values_ns: &[u64]) -> Histogram {
    Histogram::encode(&histogram_of(values_ns.iter().copied()))
}

/// A hundred latencies of very different magnitudes. The values differ between shards.
fn latencies_ns(shard: u64) -> Vec<u64> {
    (1..=100).map(|n| 1_000 + n * n * n * (7 + 13 * shard) * 100 + shard * 900_000_000 * (n / 100)).collect()
}

/// A second in which requests with these latencies completed.
fn second(t_s: f64, length_s: f64, sustained: bool, latencies_ns: &[u64]) -> LoadSecond {
    let completed = latencies_ns.len() as u64;
    let latency = encoded(latencies_ns);
    LoadSecond { t_s, length_s, sustained, sent: completed + 1, completed, unexpected: 2, lost: 1, latency }
}

fn result(latencies_ns: &[u64], duration_s: f64) -> LoadResult {
    let completed = latencies_ns.len() as u64;
    let requests = Requests {
        scheduled: completed + 4,
        sent: completed + 3,
        completed,
        unexpected: 5,
        failed: 1,
        timed_out: 2,
        dropped: 1,
        in_flight: 0,
    };
    LoadResult {
        schema_version: SCHEMA_VERSION,
        model: ArrivalModel::Open,
        duration_s,
        requests,
        rate_per_s: completed as f64 / duration_s,
        latency_ns: TimesNs::of(&histogram_of(latencies_ns.iter().copied()), 4),
        service_time_ns: TimesNs::of(&histogram_of(latencies_ns.iter().map(|ns| ns / 2)), 4),
        lateness_ns: Some(TimesNs::of(&histogram_of(latencies_ns.iter().map(|ns| ns / 3)), 1)),
        bytes: Bytes { sent: 10 * completed, received: 1_000 },
        status: BTreeMap::from([("200".into(), completed - 5), ("503".into(), 5)]),
        errors: Errors { reset: 1, ..Errors::default() },
        said: BTreeMap::from([("connect: no response".into(), 2)]),
        protocol: Protocol::Http1,
        tls: None,
        http2: None,
        cpu_s: CpuSeconds { user: 0.5, system: 0.25 },
        bound_by: BoundBy::Rate,
        verdicts: Verdicts::default(),
    }
}

/// The record of a shard with a warm-up of one second, a sustained phase of two seconds, and a drain.
fn shard(shard: u64) -> ShardRecord {
    let all = latencies_ns(shard);
    let [service, late] = [2, 3].map(|by| all.iter().map(|ns| ns / by).collect::<Vec<u64>>());
    let result = result(&all, 2.0);
    let (first, second_half) = all.split_at(40);
    let route = |name: &str, times: &[u64]| RouteResult {
        name: name.into(),
        requests: Requests { scheduled: 7, completed: 7, sent: 7, ..Requests::default() },
        by_class: BTreeMap::from([(
            "2xx".into(),
            RouteTimes {
                latency_ns: TimesNs::of(&histogram_of(times.iter().copied()), 0),
                latency: encoded(times),
            },
        )]),
    };
    // The clocks of the machines have unrelated values.
    let start_ns = 50 * S + shard * 7 * S;
    let clock_offset_ns = (PLANNED_NS - start_ns) as i64 + 1_000_000 * shard as i64;
    let mut whole = result.requests;
    whole.add(&Requests { scheduled: 9, sent: 9, completed: 9, ..Requests::default() });
    ShardRecord {
        agent: format!("agent-{shard}"),
        clock_offset_ns,
        clock_bound_ns: 20_000,
        planned_start_ns: PLANNED_NS,
        lengths_differ: false,
        machine: None,
        record: LoadRecord {
            whole,
            whole_uncertain: 2,
            phase_start_mono_ns: start_ns + S,
            phase_end_mono_ns: start_ns + 3 * S,
            generator: GeneratorEvidence {
                workers: 2,
                connections: 3,
                wall_s: 2.0,
                worker_cpu_s: vec![0.1 * shard as f64, 0.3],
                worker_runqueue_s: vec![0.01, 0.02],
                unsent_with_free_connection: 1,
                in_flight_mean: Some(1.5),
                connections_missing_mean: Some(0.5),
                connections_opened: 4,
                connection_wait_ns: Some(TimesNs::of(&histogram_of(first.iter().copied()), 1)),
                warm_up: None,
                left_out: None,
            },
            latency: encoded(&all),
            service_time: encoded(&service),
            lateness: Some(encoded(&late)),
            seconds: vec![
                second(0.0, 1.0, false, &[1_000; 9]),
                second(1.0, 1.0, true, first),
                second(2.0, 1.0, true, second_half),
                second(3.0, 0.1 * (shard + 1) as f64, false, &[]),
            ],
            routes: vec![route("GET /a", first), route(&format!("GET /{shard}"), second_half)],
            steps: Vec::new(),
            shards: Vec::new(),
            distributions: Some(Distributions {
                connection_wait: Some(encoded(first)),
                ..Distributions::default()
            }),
            result,
        },
    }
}

fn shards(of: u64) -> Vec<ShardRecord> {
    (0..of).map(shard).collect()
}

fn all_latencies_ns(of: u64) -> Vec<u64> {
    (0..of).flat_map(latencies_ns).collect()
}

/// Changes the last of three shards with `change`, and checks the error of the merge.
#[track_caller]
fn check_refused(change: impl FnOnce(&mut ShardRecord), expected: &str) {
    let mut shards = shards(3);
    change(&mut shards[2]);
    let error = merge(&shards).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert!(!error.remedy().is_empty());
}

#[test]
fn merged_histograms_equal_those_of_all_samples() {
    for of in [1, 2, 5] {
        let (record, all) = (merge(&shards(of)).unwrap(), all_latencies_ns(of));
        assert_eq!(record.latency, encoded(&all));
        let parts = |by| all.iter().map(|ns| ns / by).collect::<Vec<u64>>();
        assert_eq!(record.service_time, encoded(&parts(2)));
        assert_eq!(record.lateness, Some(encoded(&parts(3))));
        let of_second = |range: std::ops::Range<usize>| {
            encoded(
                &(0..of).flat_map(|shard| latencies_ns(shard)[range.clone()].to_vec()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(record.seconds[1].latency, of_second(0..40));
        assert_eq!(record.seconds[2].latency, of_second(40..100));
        let common = &record.routes[0];
        assert_eq!((common.name.as_str(), common.requests.completed), ("GET /a", 7 * of));
        assert_eq!(common.by_class["2xx"].latency, of_second(0..40));
        assert_eq!(record.routes.len() as u64, of + 1);

        let result = &record.result;
        assert_eq!(result.latency_ns, TimesNs::of(&histogram_of(all.iter().copied()), 4 * of));
        assert_eq!(result.service_time_ns, TimesNs::of(&histogram_of(parts(2)), 4 * of));
        assert_eq!(result.lateness_ns, Some(TimesNs::of(&histogram_of(parts(3)), of)));
        let waits = (0..of).flat_map(|shard| latencies_ns(shard)[..40].to_vec());
        assert_eq!(record.generator.connection_wait_ns, Some(TimesNs::of(&histogram_of(waits), of)));
    }
}

#[test]
fn merged_percentiles_are_not_averages() {
    let mut shards = shards(2);
    for (shard, latency_ns) in shards.iter_mut().zip([1_000_000, 100_000_000]) {
        shard.record.latency = encoded(&[latency_ns; 100]);
    }
    // Of 208 requests, 100 took 1 ms, 100 took 100 ms, and 8 got no response.
    let latency_ns = merge(&shards).unwrap().result.latency_ns;
    let ms = |ns: Option<u64>| ns.map(|ns| (ns as f64 / 1e6).round());
    assert_eq!(
        (ms(latency_ns.p50), ms(latency_ns.p95), ms(latency_ns.p98)),
        (Some(100.0), Some(100.0), None)
    );
}

#[test]
fn counts_rates_and_evidence_are_added() {
    let record = merge(&shards(3)).unwrap();
    let requests = record.result.requests;
    assert!(requests.balance() && record.whole.balance());
    assert_eq!((requests.scheduled, requests.completed, record.whole.completed), (312, 300, 327));
    assert_eq!((record.whole_uncertain, record.result.errors.reset), (6, 3));
    // 300 responses completed in the two seconds that all shards have in common.
    assert_eq!((record.result.duration_s, record.result.rate_per_s), (2.0, 150.0));
    assert_eq!(record.result.bytes, Bytes { sent: 3_000, received: 3_000 });
    assert_eq!(record.result.status, BTreeMap::from([("200".into(), 285), ("503".into(), 15)]));
    assert_eq!(record.result.said, BTreeMap::from([("connect: no response".into(), 6)]));
    assert_eq!(record.result.cpu_s, CpuSeconds { user: 1.5, system: 0.75 });
    let generator = &record.generator;
    assert_eq!((generator.workers, generator.connections, generator.connections_opened), (6, 9, 12));
    assert_eq!(generator.worker_cpu_s, [0.0, 0.3, 0.1, 0.3, 0.2, 0.3]);
    assert_eq!(generator.worker_runqueue_s.len(), 6);
    assert_eq!((generator.in_flight_mean, generator.connections_missing_mean), (Some(4.5), Some(1.5)));
    assert_eq!(generator.unsent_with_free_connection, 3);
    let sum = |of: fn(&LoadSecond) -> u64| record.seconds.iter().map(of).sum::<u64>();
    assert_eq!(sum(|second| second.completed), record.whole.completed);
    assert_eq!((sum(|second| second.lost), sum(|second| second.unexpected)), (12, 24));
}

#[test]
fn each_shard_has_a_row() {
    let (parts, record) = (shards(3), merge(&shards(3)).unwrap());
    assert_eq!(record.distributions, None);
    for (row, part) in record.shards.iter().zip(&parts) {
        let result = &part.record.result;
        assert_eq!(
            (&row.agent, row.requests, row.latency_ns),
            (&part.agent, result.requests, result.latency_ns)
        );
        assert_eq!((row.rate_per_s, &row.generator), (50.0, &part.record.generator));
    }
    let offsets: Vec<i64> = record.shards.iter().map(|row| row.start_offset_ns).collect();
    assert_eq!(offsets, [0, 1_000_000, 2_000_000]);
    assert_eq!(merge(&shards(1)).unwrap().shards.len(), 1);
}

#[test]
fn a_single_shard_is_unchanged() {
    let mut shards = shards(1);
    let warm_up = Some(WarmUp { asked_ns: S, taken_ns: S, has_settled: true });
    shards[0].record.generator.warm_up = warm_up;
    let merged = merge(&shards).unwrap();
    let ShardRecord { record, clock_offset_ns, .. } = &shards[0];
    let expected = LoadRecord {
        phase_start_mono_ns: record.phase_start_mono_ns.saturating_add_signed(*clock_offset_ns),
        phase_end_mono_ns: record.phase_end_mono_ns.saturating_add_signed(*clock_offset_ns),
        shards: merged.shards.clone(),
        distributions: None,
        ..record.clone()
    };
    assert_eq!(merged, expected);
}

#[test]
fn the_phase_is_the_common_time_on_the_coordinators_clock() {
    let record = merge(&shards(3)).unwrap();
    // The last shard starts 2 ms late, and the first one ends on time.
    let [start_ns, end_ns] = [PLANNED_NS + S + 2_000_000, PLANNED_NS + 3 * S];
    assert_eq!((record.phase_start_mono_ns, record.phase_end_mono_ns), (start_ns, end_ns));
    let mut shards = shards(3);
    shards[1].clock_offset_ns += 3 * S as i64;
    let error = merge(&shards).unwrap_err().to_string();
    assert_eq!(error, "shard `agent-0` ended before shard `agent-1` started");
}

#[test]
fn a_load_with_different_lengths_lasts_until_its_last_shard() {
    let mut shards = shards(2);
    for (shard, cut_s) in shards.iter_mut().zip([0.5, 0.0]) {
        shard.lengths_differ = true;
        let record = &mut shard.record;
        record.result.duration_s -= cut_s;
        record.result.rate_per_s = 100.0 / record.result.duration_s;
        record.phase_end_mono_ns -= (cut_s * 1e9) as u64;
        if cut_s > 0.0 {
            record.seconds[2].length_s -= cut_s;
            record.seconds[3].t_s -= cut_s;
        }
    }
    shards[0].record.seconds[3].completed = 11;
    let record = merge(&shards).unwrap();
    assert_eq!((record.result.duration_s, record.result.rate_per_s), (2.0, 100.0));
    assert_eq!(
        (record.phase_start_mono_ns, record.phase_end_mono_ns),
        (PLANNED_NS + S, PLANNED_NS + 3 * S + 1_000_000)
    );
    // The drain of the first shard overlaps the sustained phase of the second.
    let seen: Vec<_> = record.seconds.iter().map(|s| (s.t_s, s.length_s, s.completed)).collect();
    assert_eq!(seen, [(0.0, 1.0, 18), (1.0, 1.0, 80), (2.0, 1.0, 131), (3.0, 0.2, 0)]);
}

#[test]
fn handshakes_under_load_are_merged_over_all_shards() {
    let mut shards = shards(2);
    let kept = |shard: &mut ShardRecord, before: &[u64], under_load: Option<&[u64]>| {
        let (handshakes, negotiated) = (10, BTreeMap::from([("TLS 1.3".to_owned(), 10)]));
        shard.record.result.tls = Some(TlsResult { handshakes, negotiated, ..TlsResult::default() });
        let distributions = shard.record.distributions.as_mut().unwrap();
        distributions.handshakes_before = Some(encoded(before));
        distributions.handshakes_under_load = under_load.map(encoded);
    };
    kept(&mut shards[0], &[5_000, 6_000], None);
    kept(&mut shards[1], &[7_000], None);
    let tls = |shards: &[ShardRecord]| merge(shards).unwrap().result.tls.unwrap();
    assert_eq!(tls(&shards).handshake_ns, TimesNs::of(&histogram_of([5_000, 6_000, 7_000]), 0));
    kept(&mut shards[1], &[7_000], Some(&[9_000]));
    let merged = tls(&shards);
    assert_eq!(merged.handshake_ns, TimesNs::of(&histogram_of([9_000]), 0));
    assert_eq!((merged.handshakes, merged.negotiated["TLS 1.3"]), (20, 20));
    // If a shard has no distributions, the merged handshake times and connection waits have no values.
    shards[0].record.distributions = None;
    let record = merge(&shards).unwrap();
    assert_eq!(record.result.tls.unwrap().handshake_ns, TimesNs::default());
    assert_eq!(record.generator.connection_wait_ns, None);
}

#[test]
fn steps_are_merged_one_by_one() {
    let mut shards = shards(3);
    for (nth, shard) in (0..).zip(&mut shards) {
        let record = &mut shard.record;
        record.steps = (0..2)
            .map(|step| {
                let all = latencies_ns(nth + step);
                let start_ns = record.phase_start_mono_ns + step * S;
                StepRecord {
                    connections: 4 - u32::from(nth > 0),
                    rate_per_s: Some(0.1 / 3.0),
                    result: result(&all, 1.0),
                    latency: encoded(&all),
                    phase_start_mono_ns: start_ns,
                    phase_end_mono_ns: start_ns + S,
                    distributions: Some(Distributions {
                        service_time: Some(encoded(&all)),
                        lateness: Some(encoded(&all)),
                        ..Distributions::default()
                    }),
                }
            })
            .collect();
    }
    let record = merge(&shards).unwrap();
    assert_eq!(record.steps.len(), 2);
    for (step, first) in record.steps.iter().zip(0..) {
        assert_eq!((step.connections, step.rate_per_s), (10, Some(0.1)));
        let all: Vec<u64> = (first..first + 3).flat_map(latencies_ns).collect();
        assert_eq!(step.latency, encoded(&all));
        let times = |unanswered| TimesNs::of(&histogram_of(all.iter().copied()), unanswered);
        assert_eq!((step.result.latency_ns, step.result.service_time_ns), (times(12), times(12)));
        assert_eq!(step.result.lateness_ns, Some(times(3)));
        assert_eq!((step.result.rate_per_s, &step.distributions), (300.0, &None));
        assert_eq!(step.phase_start_mono_ns, PLANNED_NS + S + first * S + 2_000_000);
    }
    assert_eq!(record.result.duration_s, 2.0);
    shards[1].record.steps.pop();
    let error = merge(&shards).unwrap_err().to_string();
    assert_eq!(error, "shard `agent-1`: the number of steps is 1, but 2 on shard `agent-0`");
}

#[test]
fn messages_of_failures_are_limited() {
    let mut shards = shards(2);
    for (nth, shard) in shards.iter_mut().enumerate() {
        let said = (0..12).map(|saying| (format!("saying {}", nth * 12 + saying), 1));
        shard.record.result.said = said.collect();
    }
    let said = merge(&shards).unwrap().result.said;
    assert_eq!((said.len(), said.values().sum::<u64>(), said["other"]), (16, 24, 9));
}

#[test]
fn reasons_and_http2_are_merged() {
    let mut shards = shards(2);
    for (shard, allowed) in shards.iter_mut().zip([Some(100), Some(8)]) {
        let result = &mut shard.record.result;
        result.protocol = Protocol::Http2;
        result.http2 = Some(Http2Result {
            streams: 4,
            streams_allowed_min: allowed,
            goaways: 1,
            ..Http2Result::default()
        });
        result.verdicts.latency = vec![Reason::GeneratorLimited];
    }
    let result = merge(&shards).unwrap().result;
    let http2 = result.http2.unwrap();
    assert_eq!((http2.streams, http2.streams_allowed_min, http2.goaways), (4, Some(8), 2));
    assert_eq!(result.verdicts.latency, [Reason::GeneratorLimited]);
}

#[test]
fn records_of_different_loads_are_rejected_by_name() {
    assert_eq!(merge(&[]).unwrap_err().to_string(), "no shard results to merge");
    check_refused(|shard| shard.agent = "agent-1".into(), "shard `agent-1`: another shard has the same name");
    check_refused(
        |shard| shard.record.result.duration_s = 1.75,
        "shard `agent-2`: the duration is 1.750 s, but 2.000 s on shard `agent-0`",
    );
    check_refused(
        |shard| shard.record.result.model = ArrivalModel::Closed,
        "shard `agent-2`: the arrival model is closed, but open on shard `agent-0`",
    );
    check_refused(
        |shard| shard.record.result.tls = Some(TlsResult::default()),
        "shard `agent-2`: the TLS result is present, but missing on shard `agent-0`",
    );
    check_refused(
        |shard| shard.record.seconds[1].t_s = 1.5,
        "shard `agent-2`: the warm-up is 1.500 s, but 1.000 s on shard `agent-0`",
    );
    check_refused(
        |shard| shard.record.result.schema_version = 2,
        "shard `agent-2`: the schema version is 2, but 1 on shard `agent-0`",
    );
    check_refused(
        |shard| shard.record.lateness = None,
        "shard `agent-2`: the lateness histogram is missing, but present on shard `agent-0`",
    );
    check_refused(
        |shard| shard.record.whole.completed += 1,
        "shard `agent-2`: the request counts do not add up; this is a bug in weir",
    );
    let coarse = Hdr::<u64>::new_with_bounds(100, 3_600_000_000_000, 2).unwrap();
    check_refused(
        |shard| shard.record.seconds[1].latency = Histogram::encode(&coarse),
        "shard `agent-2`: a per-second latency histogram does not have the \
         value range and precision of this weir version",
    );
    let short = Hdr::<u64>::new_with_bounds(100, 1_000_000_000, 3).unwrap();
    check_refused(
        |shard| shard.record.latency = Histogram::encode(&short),
        "shard `agent-2`: the latency histogram does not have the value range and precision of this weir version",
    );
    check_refused(
        |shard| {
            shard.record.distributions.as_mut().unwrap().connection_wait = Some(Histogram::encode(&coarse));
        },
        "shard `agent-2`: the histogram of waits for a connection does not have the value \
         range and precision of this weir version",
    );
    check_refused(
        |shard| shard.record.service_time = serde_json::from_str("\"!\"").unwrap(),
        "shard `agent-2`: cannot read the service time histogram: the histogram is not base64: \
         Invalid symbol 33, offset 0.",
    );
}
