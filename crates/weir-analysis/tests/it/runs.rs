//! Synthetic runs, cell by cell.

use std::collections::BTreeMap;

use weir_analysis::{Evidence, data_usage, judge};
use weir_results::{
    ArrivalModel::{self, Closed, Open},
    Cell, CellKey, CellOutcome, HostShare, Judgement, LoadRecord, Manifest, Measurement, Objective, Part,
    Reason, Role, Run, SCHEMA_VERSION, Thresholds, Usage, Verdicts, is_baseline,
};

use crate::records::{agreeing, quiet, record, usage};

/// A run of `gateways` with an empty plan; [`plan`] fills in the plan.
pub(crate) fn run(gateways: &[&str], objective: Option<Objective>) -> Run {
    Run {
        schema_version: SCHEMA_VERSION,
        id: "20261121-0210-k3fz".into(),
        name: "side-by-side".into(),
        question: "Which proxy carries more on one core?".into(),
        scenario: serde_json::json!({ "gateways": gateways }),
        seed: 7,
        started_unix_ms: 1_795_227_000_000,
        ended_unix_ms: Some(1_795_227_600_000),
        plan: Vec::new(),
        objective,
        thresholds: Thresholds::default(),
        manifest: Manifest::default(),
    }
}

/// Sets the plan of `run` to the keys of `cells`.
pub(crate) fn plan(mut run: Run, cells: &[Cell]) -> Run {
    run.plan = cells.iter().map(|cell| cell.key.clone()).collect();
    run
}

pub(crate) fn key(gateway: &str, repeat: u32) -> CellKey {
    CellKey { index: repeat, gateway: gateway.into(), axes: BTreeMap::new(), repeat }
}

/// The data of one measurement: the record of a load, the resource use of the gateway, and the CPU time of the host.
pub(crate) struct Load {
    pub(crate) name: &'static str,
    pub(crate) record: LoadRecord,
    pub(crate) data: Usage,
    pub(crate) host: HostShare,
}

/// A closed load that saturates the gateway.
pub(crate) fn full(rate_per_s: u64) -> Load {
    let record = record(Closed, rate_per_s, 10_000_000_000 / rate_per_s);
    Load { name: "full", record, data: usage(0.99), host: quiet() }
}

/// An open load below saturation.
pub(crate) fn tail(p50_ns: u64) -> Load {
    Load { name: "tail", record: record(Open, 5_000, p50_ns), data: usage(0.5), host: quiet() }
}

/// A measured cell whose loads are judged.
pub(crate) fn cell(gateway: &str, repeat: u32, loads: Vec<Load>) -> Cell {
    let direct = is_baseline(gateway);
    let parts = if direct { Vec::new() } else { vec![part(gateway)] };
    let measurements = loads.into_iter().map(|load| measurement(gateway, load, &parts)).collect();
    Cell {
        key: key(gateway, repeat),
        started_unix_ms: 1_795_227_000_000,
        ended_unix_ms: 1_795_227_020_000,
        outcome: CellOutcome::Measured { measurements },
        parts,
        unequal: Vec::new(),
        files: Vec::new(),
        attempts: 1,
        cold_start: None,
    }
}

/// A failed cell.
pub(crate) fn failed(gateway: &str, repeat: u32) -> Cell {
    Cell {
        outcome: CellOutcome::Failed {
            cause: "never-ready".into(),
            message: "127.0.0.1:8080 did not answer within 10 s".into(),
            remedy: "see the log of weir".into(),
            log_tail: "starting".into(),
        },
        ..cell(gateway, repeat, Vec::new())
    }
}

fn measurement(gateway: &str, load: Load, parts: &[Part]) -> Measurement {
    let Load { name, record, data, host } = load;
    let mut counters = agreeing(&record);
    let mut parts_usage = BTreeMap::new();
    if is_baseline(gateway) {
        counters.gateway_requests = None;
    } else {
        parts_usage.insert(gateway.to_owned(), data);
    }
    let data = data_usage(parts, &parts_usage);
    let mut judgement = judge(
        &Evidence {
            record: &record,
            data: data.as_ref(),
            origin: None,
            generator: None,
            counters: Some(&counters),
            host: Some(&host),
            host_cores: 2,
            busiest: &[],
            limits_applied: true,
            loopback_floor_ns: None,
            ceiling: None,
            is_steady: true,
            errors_max: None,
        },
        &Thresholds::default(),
    );
    if host.taken() > Thresholds::default().disturbed_share {
        excluded_as_before_0_2(&mut judgement, Reason::HostNoise);
    }
    let open = record.result.model == ArrivalModel::Open;
    Measurement {
        load: name.into(),
        connections: 10,
        rate_per_s: open.then_some(5_000.0),
        cpu_us_per_request: data.map(|data| data.cpu_cores * 1e6 / record.result.rate_per_s),
        usage: parts_usage,
        counters,
        host,
        host_usage: None,
        judgement,
        series: Vec::new(),
        route_changes: Vec::new(),
        faults: Vec::new(),
        slow: None,
        events: Vec::new(),
        trial: None,
        record,
    }
}

/// Makes all values of the judgement invalid with the reason `reason`, and removes the bounds. Versions before 0.2
/// stored judgements in this form.
pub(crate) fn excluded_as_before_0_2(judgement: &mut Judgement, reason: Reason) {
    judgement.bounds = None;
    let Verdicts { throughput, latency, cpu } = &mut judgement.verdicts;
    for reasons in [throughput, latency, cpu] {
        reasons.push(reason);
        reasons.sort();
        reasons.dedup();
    }
}

fn part(name: &str) -> Part {
    Part {
        name: name.into(),
        role: Role::Data,
        version: "1.0".into(),
        binary: name.into(),
        binary_sha256: "ab".repeat(32),
        config_sha256: Some("cd".repeat(32)),
        command: vec![name.into()],
        limit_cpus: Some(1.0),
        limit_memory_bytes: Some(128 << 20),
        limits_applied: true,
        limited_by: "cgroup-v1".into(),
        image: None,
    }
}
