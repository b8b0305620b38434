//! Valid synthetic load records. Each test changes one field.

use std::collections::BTreeMap;

use weir_results::{
    ArrivalModel, BoundBy, Bytes, Counters, CpuSeconds, Errors, GeneratorEvidence, Histogram, HostShare,
    LoadRecord, LoadResult, Protocol, Requests, SCHEMA_VERSION, TimesNs, Usage, Verdicts, new_histogram,
};

/// A distribution of times whose quantiles are fixed multiples of the median.
pub(crate) fn times(p50_ns: u64) -> TimesNs {
    let at = |percent: u64| Some(p50_ns * percent / 100);
    TimesNs {
        min: at(50),
        mean: Some(p50_ns as f64 * 1.1),
        stddev: Some(p50_ns as f64 * 0.3),
        p50: at(100),
        p66: at(110),
        p75: at(120),
        p80: at(130),
        p90: at(150),
        p95: at(180),
        p98: at(220),
        p99: at(250),
        p999: at(400),
        p9999: at(600),
        max: at(800),
    }
}

/// A load of ten seconds at `rate_per_s` in which every request completed.
pub(crate) fn record(model: ArrivalModel, rate_per_s: u64, p50_ns: u64) -> LoadRecord {
    let scheduled = rate_per_s * 10;
    let books = Requests { scheduled, sent: scheduled, completed: scheduled, ..Requests::default() };
    let open = model == ArrivalModel::Open;
    let latency_ns = times(p50_ns);
    let in_flight_mean = latency_ns.mean.map(|mean| rate_per_s as f64 * mean / 1e9);
    LoadRecord {
        result: LoadResult {
            schema_version: SCHEMA_VERSION,
            model,
            duration_s: 10.0,
            requests: books,
            rate_per_s: rate_per_s as f64,
            latency_ns,
            service_time_ns: latency_ns,
            lateness_ns: open.then(|| times(20_000)),
            bytes: Bytes { sent: scheduled * 60, received: scheduled * 200 },
            status: BTreeMap::from([("200".to_owned(), scheduled)]),
            errors: Errors::default(),
            said: BTreeMap::new(),
            protocol: Protocol::default(),
            tls: None,
            http2: None,
            cpu_s: CpuSeconds { user: 1.0, system: 2.0 },
            bound_by: BoundBy::Concurrency,
            verdicts: Verdicts::default(),
        },
        whole: books,
        whole_uncertain: 0,
        phase_start_mono_ns: 1_000_000_000,
        phase_end_mono_ns: 11_000_000_000,
        generator: GeneratorEvidence {
            workers: 1,
            connections: 10,
            wall_s: 10.0,
            worker_cpu_s: vec![3.0],
            worker_runqueue_s: vec![0.5],
            unsent_with_free_connection: 0,
            in_flight_mean,
            connections_missing_mean: None,
            connections_opened: 10,
            connection_wait_ns: open.then(|| times(100)),
            warm_up: None,
            left_out: None,
        },
        latency: Histogram::encode(&new_histogram()),
        service_time: Histogram::encode(&new_histogram()),
        lateness: None,
        seconds: Vec::new(),
        routes: Vec::new(),
        steps: Vec::new(),
        shards: Vec::new(),
        distributions: None,
    }
}

/// Resource use of a part with a limit of one core, during the ten seconds of [`record`].
pub(crate) fn usage(share_of_limit: f64) -> Usage {
    Usage {
        cpu_s: CpuSeconds { user: share_of_limit * 4.0, system: share_of_limit * 6.0 },
        cpu_cores: share_of_limit,
        cpu_share_of_limit: Some(share_of_limit),
        throttled_s: Some(0.0),
        periods: Some(100),
        periods_throttled: Some(0),
        memory_bytes_mean: Some(14 << 20),
        memory_bytes_peak: Some(15 << 20),
        threads_max: Some(2),
        pids_max: Some(1),
        open_files_max: Some(40),
        ..Usage::default()
    }
}

/// Request counters that all equal the number of sent requests.
pub(crate) fn agreeing(record: &LoadRecord) -> Counters {
    Counters {
        generator_sent: record.whole.sent,
        generator_uncertain: record.whole_uncertain,
        gateway_requests: Some(record.whole.sent),
        origin_requests: Some(record.whole.sent),
        origin_delay_ns_mean: None,
        origin_by_kind: BTreeMap::new(),
    }
}

/// A host without noise.
pub(crate) fn quiet() -> HostShare {
    HostShare { steal: 0.001, others: 0.004, idle: 0.3 }
}
