//! A synthetic run, built from formulas: four gateways and direct, a closed and an open load.

use std::collections::BTreeMap;

use weir_analysis::{Evidence, data_usage, judge};
use weir_results::{
    ArrivalModel, BoundBy, Bytes, Cell, CellKey, CellOutcome, Counters, CpuSeconds, DIRECT, Errors, FileKind,
    GeneratorEvidence, Histogram, HostProcess, HostShare, HostUsage, KeptFile, LoadRecord, LoadResult,
    LoadSecond, Manifest, Measurement, Objective, Part, Protocol, Requests, Role, Run, SCHEMA_VERSION,
    Thresholds, TimesNs, Usage, UsageSecond, Verdicts, new_histogram,
};

/// What goes wrong in the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scene {
    /// Nothing goes wrong.
    Good,
    /// One cell fails, one cell has host noise, and one gateway is overloaded by the open load.
    Mixed,
    /// There is only one repeat.
    Single,
}

const WARMUP_S: u64 = 2;
const DURATION_S: u64 = 10;
const STARTED_UNIX_MS: u64 = 1_795_227_000_000;
const TAIL_RATE_PER_S: u64 = 5_000;

/// Per gateway: name, throughput per second at full load, median latency of the open load in nanoseconds, memory in
/// MiB.
const GATEWAYS: [(&str, u64, u64, u64); 4] = [
    ("weir", 26_100, 148_000, 9),
    ("envoy", 8_150, 388_000, 46),
    ("nginx", 21_700, 176_000, 14),
    ("haproxy", 24_300, 161_000, 22),
];

/// A run and its cells. The gateways are measured with each CPU limit in `cpus`.
pub(crate) fn run(scene: Scene, cpus: &[f64]) -> (Run, Vec<Cell>) {
    run_with_users(scene, cpus, &[])
}

/// Like [`run`], but instead of the full load there is a closed load for each number of users.
pub(crate) fn run_with_users(scene: Scene, cpus: &[f64], users: &[u32]) -> (Run, Vec<Cell>) {
    let repeats = if scene == Scene::Single { 1 } else { 3 };
    let mut cells = Vec::new();
    for limit in cpus {
        for repeat in 0..repeats {
            let names = GATEWAYS.iter().map(|gateway| gateway.0).chain([DIRECT]);
            for name in names {
                let index = cells.len() as u32;
                let axes = if cpus.len() > 1 {
                    BTreeMap::from([("limits.data.cpus".to_owned(), serde_json::json!(limit))])
                } else {
                    BTreeMap::new()
                };
                let key = CellKey { index, gateway: name.into(), axes, repeat };
                cells.push(cell(scene, key, *limit, users));
            }
        }
    }
    let plan = cells.iter().map(|cell| cell.key.clone()).collect();
    (described(plan, &cells), cells)
}

/// Like [`run`], but with two axes: each CPU limit is combined with each number of connections of the closed load.
pub(crate) fn run_over(cpus: &[f64], connections: &[u32]) -> (Run, Vec<Cell>) {
    let (mut run, base) = run(Scene::Good, cpus);
    let mut cells: Vec<Cell> = Vec::new();
    for connections in connections {
        for cell in &base {
            let mut cell = cell.clone();
            cell.key.index = cells.len() as u32;
            cell.key.axes.insert("loads.full.connections".into(), (*connections).into());
            if let CellOutcome::Measured { measurements } = &mut cell.outcome {
                measurements[0].connections = *connections;
            }
            cells.push(cell);
        }
    }
    run.scenario["vary"] =
        serde_json::json!({ "loads.full.connections": connections, "limits.data.cpus": cpus });
    run.plan = cells.iter().map(|cell| cell.key.clone()).collect();
    (run, cells)
}

/// Makes every load last `seconds`, by repeating its sustained phase.
pub(crate) fn lengthen(cells: &mut [Cell], seconds: usize) {
    fn extend<T: Clone>(series: &mut Vec<T>, seconds: usize, at: fn(&mut T) -> &mut f64) {
        let (warmup, phase) = (WARMUP_S as usize, series.len() - WARMUP_S as usize);
        for second in series.len()..seconds {
            let mut next = series[warmup + (second - warmup) % phase].clone();
            *at(&mut next) = second as f64;
            series.push(next);
        }
    }
    for cell in cells {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { continue };
        for measurement in measurements {
            extend(&mut measurement.record.seconds, seconds, |second| &mut second.t_s);
            extend(&mut measurement.series, seconds, |second| &mut second.t_s);
        }
    }
}

/// The configuration and log files of a gateway.
fn files(gateway: &str) -> Vec<KeptFile> {
    let configuration = format!("# {gateway}\nworkers 1\nlisten 127.0.0.1:41873\n");
    let log = format!("{gateway} starts\n{gateway}: <ready> & listening\n");
    vec![
        KeptFile {
            name: format!("gateway/{gateway}.conf"),
            kind: FileKind::Configuration,
            bytes: configuration.len() as u64,
            text: configuration,
        },
        KeptFile { name: format!("gateway/{gateway}.log"), kind: FileKind::Log, bytes: 9_000, text: log },
    ]
}

fn described(plan: Vec<CellKey>, cells: &[Cell]) -> Run {
    Run {
        schema_version: SCHEMA_VERSION,
        id: "20261121-0210-k3fz".into(),
        name: "side-by-side".into(),
        question: "Which proxy carries more on one core, at what tail latency and memory?".into(),
        scenario: serde_json::json!({
            "name": "side-by-side",
            "gateways": ["weir", "envoy", "nginx", "haproxy"],
            "limits": { "data": { "cpus": 0.5, "memory": "128MiB" }, "origin": { "cpus": 1 } },
            "loads": {
                "full": { "model": "closed", "connections": 10 },
                "tail": { "model": "open", "rate": "5000/s" },
            },
            "repeats": 3,
        }),
        seed: 42,
        started_unix_ms: STARTED_UNIX_MS,
        ended_unix_ms: cells.last().map(|cell| cell.ended_unix_ms),
        plan,
        objective: Some(Objective {
            latency_ns: BTreeMap::from([("p99".to_owned(), 20_000_000)]),
            errors: Some(0.001),
            ..Objective::default()
        }),
        thresholds: Thresholds::default(),
        manifest: Manifest {
            weir_version: "0.1.0".into(),
            command_line: ["weir", "run", "side-by-side"].map(str::to_owned).to_vec(),
            repeats_were_added: false,
            kernel: Some("Linux 6.18.2 x86_64".into()),
            os: Some("Debian GNU/Linux 12 (bookworm)".into()),
            cpu_model: Some("Example CPU @ 2.60GHz".into()),
            cpus: Some(2),
            cpu_governor: None,
            memory_bytes: Some(8 << 30),
            mitigations: BTreeMap::from([
                ("spectre_v2".to_owned(), "Mitigation: Enhanced IBRS".to_owned()),
                ("meltdown".to_owned(), "Not affected".to_owned()),
            ]),
            clock_source: Some("tsc".into()),
            virtualized: Some(true),
            cgroup: Some("v1".into()),
            open_files_max: Some(20_000),
            network: "loopback".into(),
            tls: None,
            configurations: BTreeMap::new(),
            pilot: None,
        },
    }
}

fn cell(scene: Scene, key: CellKey, limit_cpus: f64, users: &[u32]) -> Cell {
    let gateway = GATEWAYS.iter().find(|gateway| gateway.0 == key.gateway);
    let started_unix_ms = STARTED_UNIX_MS + u64::from(key.index) * 30_000;
    let mut parts = vec![part("origin", Role::Origin, Some(1.0)), part("generator", Role::Generator, None)];
    let mut unequal = Vec::new();
    if let Some((name, ..)) = gateway {
        parts.insert(0, part(name, Role::Data, Some(limit_cpus)));
        if *name == "envoy" {
            unequal.push("buffers whole heads of up to 60 KiB; the others up to 16 KiB".to_owned());
        }
        if *name == "haproxy" {
            unequal.push("adds no Via header".to_owned());
        }
    }
    let files = if key.gateway == DIRECT { Vec::new() } else { files(&key.gateway) };
    let failed = scene == Scene::Mixed && key.gateway == "haproxy" && key.repeat == 2;
    let outcome = if failed {
        CellOutcome::Failed {
            cause: "never-ready".into(),
            message: "haproxy did not answer on 127.0.0.1:41873 within 10 s".into(),
            remedy: "read the end of its log below; `weir render side-by-side --gateway haproxy --out DIR` writes what was run".into(),
            log_tail: "[ALERT] (311) : config : parsing [haproxy.cfg:12] : unknown keyword '<maxconnn>'\n[ALERT] (311) : config : fatal errors found".into(),
        }
    } else {
        CellOutcome::Measured { measurements: measurements(scene, &key, limit_cpus, &parts, users) }
    };
    let attempts = 1 + u32::from(matches!(scene, Scene::Mixed) && key.index < 2);
    let ended_unix_ms = started_unix_ms + 28_000;
    Cell { key, started_unix_ms, ended_unix_ms, outcome, parts, unequal, files, attempts, cold_start: None }
}

fn part(name: &str, role: Role, limit_cpus: Option<f64>) -> Part {
    let version = match name {
        "envoy" => "1.40.0",
        "nginx" => "1.22.1",
        "haproxy" => "2.6.12",
        _ => "0.1.0",
    };
    Part {
        name: name.into(),
        role,
        version: version.into(),
        binary: format!("bin/{name}"),
        binary_sha256: format!("{:064x}", name.bytes().fold(7_u128, |sum, byte| sum * 31 + u128::from(byte))),
        config_sha256: (role == Role::Data).then(|| "5e".repeat(32)),
        command: vec![name.into(), "--config".into(), format!("{name}.conf")],
        limit_cpus,
        limit_memory_bytes: (role == Role::Data).then_some(128 << 20),
        limits_applied: true,
        limited_by: if limit_cpus.is_some() { "cgroup-v1" } else { "none" }.into(),
        image: None,
    }
}

fn measurements(
    scene: Scene,
    key: &CellKey,
    limit_cpus: f64,
    parts: &[Part],
    users: &[u32],
) -> Vec<Measurement> {
    let known = GATEWAYS.iter().find(|gateway| gateway.0 == key.gateway);
    // The values of repeats differ by a fixed pattern, so that confidence intervals have a width.
    let wobble = 1.0 + 0.012 * (f64::from((key.repeat * 7 + key.index * 3) % 5) - 2.0);
    let scale = limit_cpus / 0.5;
    let full_rate = known.map_or(61_000.0, |gateway| gateway.1 as f64 * scale) * wobble;
    let overloaded = scene == Scene::Mixed && key.gateway == "envoy";
    let tail_rate = if overloaded { 4_180.0 } else { TAIL_RATE_PER_S as f64 };
    let tail_p50 = known.map_or(83_000, |gateway| gateway.2) as f64 * wobble;
    let tail_p50 = if overloaded { 6.1e9 } else { tail_p50 };
    let disturbed = scene == Scene::Mixed && key.gateway == "nginx" && key.repeat == 1;
    let quiet = HostShare { steal: 0.0012, others: 0.0061, idle: 0.27 };
    let full = Shape {
        load: "full".into(),
        connections: 10,
        rate_per_s: full_rate,
        scheduled_per_s: full_rate,
        p50_ns: 10.0 / full_rate * 0.82e9,
        sigma: 0.45,
        cores: limit_cpus * 0.991,
        throttled: 0.97,
        host: quiet,
    };
    let tail = Shape {
        load: "tail".into(),
        connections: 64,
        rate_per_s: tail_rate,
        scheduled_per_s: TAIL_RATE_PER_S as f64,
        p50_ns: tail_p50,
        sigma: if overloaded { 0.3 } else { 0.55 },
        cores: if overloaded { limit_cpus * 0.993 } else { tail_rate / full_rate * limit_cpus * 1.18 },
        throttled: if overloaded { 0.98 } else { 0.0 },
        host: if disturbed { HostShare { steal: 0.004, others: 0.081, idle: 0.2 } } else { quiet },
    };
    let mut shapes: Vec<Shape> = users.iter().map(|users| full.with_users(*users, limit_cpus)).collect();
    if shapes.is_empty() {
        shapes.push(full);
    }
    shapes.push(tail);
    shapes
        .into_iter()
        .map(|shape| measurement(key, known.map_or(0, |gateway| gateway.3), parts, &shape))
        .collect()
}

/// The values from which a measurement of a load is built.
#[derive(Clone)]
struct Shape {
    load: String,
    connections: u32,
    rate_per_s: f64,
    scheduled_per_s: f64,
    p50_ns: f64,
    sigma: f64,
    cores: f64,
    throttled: f64,
    host: HostShare,
}

impl Shape {
    /// The values of a closed load with this number of users, derived from the full load `self`.
    fn with_users(&self, users: u32, limit_cpus: f64) -> Self {
        let share = (f64::from(users) * 0.11).min(0.991);
        let rate_per_s = self.rate_per_s * share / 0.991 * (1.0 - f64::from(users) * 0.001);
        Self {
            load: format!("users-{users}"),
            connections: users,
            rate_per_s,
            scheduled_per_s: rate_per_s,
            p50_ns: f64::from(users) / rate_per_s * 0.82e9,
            cores: limit_cpus * share,
            throttled: if share < 0.95 { 0.0 } else { self.throttled },
            ..self.clone()
        }
    }
}

fn measurement(key: &CellKey, memory_mib: u64, parts: &[Part], shape: &Shape) -> Measurement {
    let open = shape.load == "tail";
    let mut record = record(shape, open);
    if key.gateway == DIRECT && !open {
        record.generator.worker_cpu_s = vec![9.3];
    }
    let direct = key.gateway == DIRECT;
    let memory_bytes = memory_mib * (1 << 20) + u64::from(key.repeat) * 90_000;
    let mut usage = BTreeMap::new();
    for part in parts {
        let (cores, memory_bytes, throttled) = match part.role {
            Role::Data => (shape.cores, memory_bytes, shape.throttled),
            Role::Origin => (shape.rate_per_s * 9.1e-6, 7 << 20, 0.0),
            Role::Control | Role::Generator | Role::Service => (shape.rate_per_s * 7.4e-6, 12 << 20, 0.0),
        };
        usage.insert(part.name.clone(), used(cores, part.limit_cpus, memory_bytes, throttled));
    }
    let counters = Counters {
        generator_sent: record.whole.sent,
        generator_uncertain: record.whole_uncertain,
        gateway_requests: (!direct).then_some(record.whole.sent),
        origin_requests: Some(record.whole.sent - record.whole_uncertain),
        origin_delay_ns_mean: None,
        origin_by_kind: Default::default(),
    };
    let data = data_usage(parts, &usage);
    let busiest = match shape.host.others > 0.02 {
        true => vec![HostProcess { name: "rustc".into(), pid: 4_242 + key.index, cores: 0.31 }],
        false => Vec::new(),
    };
    let evidence = Evidence {
        record: &record,
        data: data.as_ref(),
        origin: usage.get("origin"),
        generator: usage.get("generator"),
        counters: Some(&counters),
        host: Some(&shape.host),
        host_cores: 2,
        busiest: &busiest,
        limits_applied: true,
        loopback_floor_ns: Some(20_000),
        ceiling: None,
        is_steady: true,
        errors_max: Some(0.001),
    };
    let judgement = judge(&evidence, &Thresholds::default());
    Measurement {
        load: shape.load.clone(),
        connections: shape.connections,
        rate_per_s: open.then_some(shape.scheduled_per_s),
        cpu_us_per_request: data.map(|usage| usage.cpu_cores * 1e6 / shape.rate_per_s),
        series: series(parts, &usage),
        route_changes: Vec::new(),
        faults: Vec::new(),
        slow: None,
        events: Vec::new(),
        usage,
        counters,
        host: shape.host,
        host_usage: Some(HostUsage { busiest, ..HostUsage::default() }),
        trial: None,
        judgement,
        record,
    }
}

fn used(cores: f64, limit_cpus: Option<f64>, memory_bytes: u64, throttled: f64) -> Usage {
    let periods = DURATION_S * 10;
    Usage {
        cpu_s: CpuSeconds { user: cores * DURATION_S as f64 * 0.3, system: cores * DURATION_S as f64 * 0.7 },
        cpu_cores: cores,
        cpu_share_of_limit: limit_cpus.map(|limit| cores / limit),
        throttled_s: limit_cpus.map(|_| throttled * DURATION_S as f64 * 0.5),
        periods: limit_cpus.map(|_| periods),
        periods_throttled: limit_cpus.map(|_| (throttled * periods as f64) as u64),
        memory_bytes_mean: Some(memory_bytes),
        memory_bytes_peak: Some(memory_bytes + memory_bytes / 16),
        threads_max: Some(3),
        pids_max: Some(1),
        open_files_max: Some(64),
        ..Usage::default()
    }
}

fn record(shape: &Shape, open: bool) -> LoadRecord {
    let scheduled = (shape.scheduled_per_s * DURATION_S as f64) as u64;
    let completed = (shape.rate_per_s * DURATION_S as f64) as u64;
    let timed_out = scheduled.saturating_sub(completed);
    let books = Requests { scheduled, sent: scheduled, completed, timed_out, ..Requests::default() };
    let histogram = lognormal(shape.p50_ns, shape.sigma, completed);
    let latency_ns = TimesNs::of(&histogram, timed_out);
    let late = lognormal(11_000.0, 0.5, scheduled);
    let mean_ns = latency_ns.mean.unwrap_or_default();
    LoadRecord {
        result: LoadResult {
            schema_version: SCHEMA_VERSION,
            model: if open { ArrivalModel::Open } else { ArrivalModel::Closed },
            duration_s: DURATION_S as f64,
            requests: books,
            rate_per_s: shape.rate_per_s,
            latency_ns,
            service_time_ns: latency_ns,
            lateness_ns: open.then(|| TimesNs::of(&late, 0)),
            bytes: Bytes { sent: scheduled * 58, received: completed * 189 },
            status: BTreeMap::from([("200".to_owned(), completed)]),
            errors: Errors::default(),
            said: BTreeMap::new(),
            protocol: Protocol::default(),
            tls: None,
            http2: None,
            cpu_s: CpuSeconds { user: 1.1, system: 2.3 },
            bound_by: BoundBy::Concurrency,
            verdicts: Verdicts::default(),
        },
        whole: books,
        whole_uncertain: timed_out,
        phase_start_mono_ns: 0,
        phase_end_mono_ns: DURATION_S * 1_000_000_000,
        generator: GeneratorEvidence {
            workers: 1,
            connections: shape.connections,
            wall_s: DURATION_S as f64,
            worker_cpu_s: vec![3.4],
            worker_runqueue_s: vec![0.2],
            unsent_with_free_connection: 0,
            in_flight_mean: Some(shape.rate_per_s * mean_ns / 1e9),
            connections_missing_mean: None,
            connections_opened: 10,
            connection_wait_ns: open.then(|| TimesNs::of(&lognormal(300.0, 0.2, scheduled), 0)),
            warm_up: None,
            left_out: None,
        },
        latency: Histogram::encode(&histogram),
        service_time: Histogram::encode(&histogram),
        lateness: open.then(|| Histogram::encode(&late)),
        seconds: seconds(shape),
        routes: Vec::new(),
        steps: Vec::new(),
        shards: Vec::new(),
        distributions: None,
    }
}

fn seconds(shape: &Shape) -> Vec<LoadSecond> {
    (0..WARMUP_S + DURATION_S)
        .map(|second| {
            let wave = 1.0 + 0.02 * (second as f64 * 1.7).sin();
            let completed = (shape.rate_per_s * if second >= WARMUP_S { 1.0 } else { wave }) as u64;
            LoadSecond {
                t_s: second as f64,
                length_s: 1.0,
                sustained: second >= WARMUP_S,
                sent: completed,
                completed,
                unexpected: 0,
                lost: 0,
                latency: Histogram::encode(&lognormal(shape.p50_ns * wave, shape.sigma, completed)),
            }
        })
        .collect()
}

fn series(parts: &[Part], usage: &BTreeMap<String, Usage>) -> Vec<UsageSecond> {
    (0..WARMUP_S + DURATION_S)
        .map(|second| {
            let wave = 1.0 - 0.015 * (second as f64 * 2.3).cos().abs();
            let of = |name: &str| usage.get(name).map_or(0.0, |usage| usage.cpu_cores * wave);
            let memory =
                |name: &str| usage.get(name).and_then(|usage| usage.memory_bytes_mean).unwrap_or_default();
            UsageSecond {
                t_s: second as f64,
                cpu_cores: parts.iter().map(|part| (part.name.clone(), of(&part.name))).collect(),
                memory_bytes: parts.iter().map(|part| (part.name.clone(), memory(&part.name))).collect(),
            }
        })
        .collect()
}

/// A histogram of `total` durations. The distribution is lognormal with the median `p50_ns`, but the slowest 1 % are
/// even slower.
fn lognormal(p50_ns: f64, sigma: f64, total: u64) -> hdrhistogram::Histogram<u64> {
    const STEPS: u64 = 1_000;
    let mut histogram = new_histogram();
    let mut given = 0;
    for step in 0..STEPS {
        let upto = total * (step + 1) / STEPS;
        let share = (step as f64 + 0.5) / STEPS as f64;
        let z = normal_quantile(share);
        let tail = if share > 0.99 { 1.0 + (share - 0.99) * 90.0 } else { 1.0 };
        let value = (p50_ns * (sigma * z).exp() * tail) as u64;
        histogram
            .record_n(value.max((p50_ns * 0.45) as u64).max(100), upto - given)
            .expect("within the histogram's bounds");
        given = upto;
    }
    histogram
}

/// A quantile of the standard normal distribution, approximated by the logistic distribution.
fn normal_quantile(share: f64) -> f64 {
    let logit = (share / (1.0 - share)).ln();
    logit / 1.702
}
