use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::{
    ArrivalModel, BoundBy, Bounds, Cell, CellKey, CellOutcome, ColdStart, Counters, CpuSeconds, FileKind,
    GeneratorEvidence, Histogram, HostProcess, HostShare, HostUsage, Judgement, KeptFile, LoadRecord,
    LoadResult, LoadSecond, Manifest, Measurement, Objective, OwnObjective, Part, Reason, Requests, Role,
    Run, SCHEMA_VERSION, Thresholds, TimesNs, Usage, UsageSecond, Verdicts, new_histogram,
};

mod exchange;
mod refused;
mod upgrade;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn db(&self) -> PathBuf {
        self.0.path().join("weir.db")
    }
}

fn run(id: &str, started_unix_ms: u64) -> Run {
    let key = |index, gateway: &str| CellKey {
        index,
        gateway: gateway.into(),
        axes: BTreeMap::from([("limits.data.cpus".to_owned(), serde_json::json!(0.1))]),
        repeat: 0,
    };
    Run {
        schema_version: SCHEMA_VERSION,
        id: id.into(),
        name: "side-by-side".into(),
        question: "Which?".into(),
        scenario: serde_json::json!({"name": "side-by-side", "z": 1, "a": 0.1}),
        seed: u64::MAX,
        started_unix_ms,
        ended_unix_ms: None,
        plan: vec![key(0, "weir"), key(1, crate::DIRECT)],
        objective: Some(Objective {
            latency_ns: BTreeMap::from([("p99".into(), 20_000_000)]),
            errors: Some(0.001),
            findings: BTreeMap::new(),
            own: vec![OwnObjective {
                gateway: "weir".into(),
                axes: BTreeMap::new(),
                load: "tail".into(),
                latency_ns: BTreeMap::from([("mean".into(), 5_000_000)]),
                errors: None,
                findings: BTreeMap::new(),
            }],
        }),
        thresholds: Thresholds::default(),
        manifest: Manifest { weir_version: "0.1.0".into(), cpus: Some(2), ..Manifest::default() },
    }
}

fn histogram(values: &[u64]) -> hdrhistogram::Histogram<u64> {
    let mut histogram = new_histogram();
    for value in values {
        histogram.record(*value).unwrap();
    }
    histogram
}

fn measurement(load: &str, open: bool) -> Measurement {
    let latency = histogram(&[100, 20_000, 3_000_000_000]);
    let times = TimesNs::of(&latency, 1);
    let requests = Requests { scheduled: 4, sent: 4, completed: 3, timed_out: 1, ..Requests::default() };
    let result = LoadResult {
        schema_version: SCHEMA_VERSION,
        model: if open { ArrivalModel::Open } else { ArrivalModel::Closed },
        duration_s: 0.1 + 0.2,
        requests,
        rate_per_s: 1.0 / 3.0,
        latency_ns: times,
        service_time_ns: times,
        lateness_ns: open.then_some(times),
        bytes: crate::Bytes { sent: 1, received: 2 },
        status: BTreeMap::from([("200".into(), 3)]),
        errors: crate::Errors { reset: 1, ..crate::Errors::default() },
        said: BTreeMap::new(),
        protocol: crate::Protocol::Http1,
        tls: None,
        http2: None,
        cpu_s: CpuSeconds { user: 0.7, system: 0.1 },
        bound_by: BoundBy::Rate,
        verdicts: Verdicts::default(),
    };
    Measurement {
        load: load.into(),
        connections: 10,
        rate_per_s: open.then_some(5000.0),
        record: LoadRecord {
            result,
            whole: requests,
            whole_uncertain: 1,
            phase_start_mono_ns: 1_000,
            phase_end_mono_ns: 2_000,
            generator: GeneratorEvidence { workers: 1, worker_cpu_s: vec![0.3], ..Default::default() },
            latency: Histogram::encode(&latency),
            service_time: Histogram::encode(&latency),
            lateness: open.then(|| Histogram::encode(&latency)),
            seconds: vec![LoadSecond {
                t_s: 0.0,
                length_s: 1.0,
                sustained: true,
                sent: 4,
                completed: 3,
                unexpected: 0,
                lost: 1,
                latency: Histogram::encode(&latency),
            }],
            routes: Vec::new(),
            steps: Vec::new(),
            shards: Vec::new(),
            distributions: None,
        },
        usage: BTreeMap::from([("weir".into(), Usage { cpu_cores: 0.49, ..Usage::default() })]),
        counters: Counters { generator_sent: 4, origin_requests: Some(4), ..Counters::default() },
        host: HostShare { steal: 0.01, others: 0.0, idle: 0.2 },
        host_usage: open.then(|| HostUsage {
            core_busy_shares: vec![0.1 + 0.2, 1.0],
            retransmitted_segments: Some(3),
            busiest: vec![HostProcess { name: "cc1".into(), pid: 7, cores: 0.1 + 0.2 }],
        }),
        judgement: Judgement {
            bound_by: BoundBy::Gateway,
            verdicts: Verdicts {
                throughput: vec![],
                latency: vec![Reason::Throttled, Reason::HostNoise],
                cpu: vec![Reason::HostNoise],
            },
            bounds: open.then(|| {
                let p99 = Bounds {
                    low: None,
                    high: Some(0.1 + 0.2),
                    reasons: vec![Reason::HostNoise],
                    is_valid: true,
                };
                BTreeMap::from([("p99".into(), p99)])
            }),
            delayed_share: Some(0.125),
            evidence: vec!["one".into(), "two".into()],
        },
        cpu_us_per_request: Some(33.3),
        series: vec![UsageSecond {
            t_s: 0.0,
            cpu_cores: BTreeMap::from([("weir".into(), 0.5)]),
            memory_bytes: BTreeMap::from([("weir".into(), 14_000_000)]),
        }],
        route_changes: Vec::new(),
        faults: Vec::new(),
        slow: None,
        events: Vec::new(),
        trial: None,
    }
}

fn cell(run: &Run, index: u32) -> Cell {
    Cell {
        key: run.plan[index as usize].clone(),
        started_unix_ms: 5,
        ended_unix_ms: 6,
        outcome: CellOutcome::Measured {
            measurements: vec![measurement("full", false), measurement("tail", true)],
        },
        parts: vec![Part {
            name: "weir".into(),
            role: Role::Data,
            version: "0.1.0".into(),
            binary: "weir-gateway".into(),
            binary_sha256: "00".into(),
            config_sha256: Some("11".into()),
            command: vec!["weir-gateway".into(), "--config".into()],
            limit_cpus: Some(0.5),
            limit_memory_bytes: Some(128 << 20),
            limits_applied: true,
            limited_by: "cgroup-v1".into(),
            image: None,
        }],
        unequal: vec!["no buffering switch".into()],
        files: vec![KeptFile {
            name: "gateway/weir.yaml".into(),
            kind: FileKind::Configuration,
            bytes: 40_000,
            text: "listeners:\n".into(),
        }],
        attempts: 2,
        cold_start: Some(ColdStart {
            first_answer_ns: 210_000_000,
            cpu_s: Some(CpuSeconds { user: 0.1 + 0.2, system: 0.1 }),
            memory_bytes: Some(40 << 20),
            host: None,
        }),
    }
}

fn failed_cell(run: &Run, index: u32) -> Cell {
    let outcome = CellOutcome::Failed {
        cause: "died".into(),
        message: "exit 1".into(),
        remedy: "read the log".into(),
        log_tail: "boom".into(),
    };
    Cell { outcome, parts: vec![], ..cell(run, index) }
}

#[test]
fn runs_and_cells_are_read_as_written() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let cells = [cell(&run, 0), failed_cell(&run, 1)];
    {
        let mut store = Store::open(&folder.db()).unwrap();
        store.begin_run(&run).unwrap();
        // Cells can finish out of order, but are read in the order of the plan.
        store.add_cell(&run.id, &cells[1]).unwrap();
        store.add_cell(&run.id, &cells[0]).unwrap();
    }
    let store = Store::open_existing(&folder.db()).unwrap();
    assert_eq!(store.run(&run.id).unwrap(), run);
    assert_eq!(store.cells(&run.id).unwrap(), cells);
    assert_eq!(store.finished(&run.id).unwrap(), [0, 1].into());
}

#[test]
fn an_extended_run_keeps_its_cells_and_is_unfinished_again() {
    let folder = Folder::new();
    let mut run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let cells = [cell(&run, 0), failed_cell(&run, 1)];
    cells.iter().for_each(|cell| store.add_cell(&run.id, cell).unwrap());
    store.end_run(&run.id, 77).unwrap();

    let more = run.plan.iter().map(|key| CellKey { index: key.index + 2, repeat: 1, ..key.clone() });
    run.plan.extend(more.collect::<Vec<_>>());
    run.scenario["repeats"] = 2.into();
    store.extend_run(&run).unwrap();
    assert_eq!(
        store.run(&run.id).unwrap(),
        run,
        "the stored run has no end time, and its scenario has the new repeats"
    );
    assert_eq!(store.cells(&run.id).unwrap(), cells);
    let listing = store.runs().unwrap().remove(0);
    assert_eq!((listing.cells_planned, listing.cells_done, listing.state), (4, 2, RunState::Unfinished));
    store.add_cell(&run.id, &cell(&run, 3)).unwrap();
}

#[test]
fn a_failed_extension_changes_nothing() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let mut twice = run.clone();
    twice.scenario["repeats"] = 2.into();
    let key = CellKey { index: 2, ..run.plan[0].clone() };
    twice.plan.extend([key.clone(), key]);
    assert!(store.extend_run(&twice).is_err(), "two cells cannot have the same index");
    assert_eq!(store.run(&run.id).unwrap(), run);
    let mut other = run.clone();
    other.plan.swap(0, 1);
    let error = store.extend_run(&other).unwrap_err();
    assert!(matches!(error, StoreError::OtherPlan { .. }), "{error}");
    assert_eq!(store.run(&run.id).unwrap(), run);
}

#[test]
fn a_listing_shows_the_progress_of_a_run() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    store.add_cell(&run.id, &failed_cell(&run, 1)).unwrap();
    let listing = |store: &Store| store.runs().unwrap().remove(0);
    let half = listing(&store);
    assert_eq!((half.cells_planned, half.cells_done, half.cells_failed), (2, 1, 1));
    assert_eq!(half.state, RunState::Unfinished);
    store.add_cell(&run.id, &cell(&run, 0)).unwrap();
    store.end_run(&run.id, 77).unwrap();
    let whole = listing(&store);
    assert_eq!((whole.state, whole.ended_unix_ms), (RunState::Finished, Some(77)));
}

#[test]
fn a_crash_in_a_transaction_loses_only_the_running_cell() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    store.add_cell(&run.id, &cell(&run, 0)).unwrap();
    // Leave a transaction open. The copy below is then in the state that remains if a process dies within a
    // transaction.
    store.connection.execute_batch("BEGIN IMMEDIATE").unwrap();
    let insert = "INSERT INTO cells SELECT run_id, 1, 0, 0, outcome, cause, document FROM cells";
    assert_eq!(store.connection.execute(insert, []).unwrap(), 1);
    let copy = Folder::new();
    for file in std::fs::read_dir(folder.0.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.0.path().join(file.file_name())).unwrap();
    }
    let mut after = Store::open(&copy.db()).unwrap();
    assert_eq!(after.finished(&run.id).unwrap(), [0].into());
    after.add_cell(&run.id, &cell(&run, 1)).unwrap();
    assert_eq!(after.cells(&run.id).unwrap().len(), 2);
}

#[test]
fn a_failed_write_of_a_cell_changes_nothing() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let mut broken = cell(&run, 0);
    let CellOutcome::Measured { measurements } = &mut broken.outcome else { unreachable!() };
    // The second measurement cannot be stored, because SQLite's integers end at 2^63 - 1.
    measurements[1].record.seconds[0].sent = u64::MAX;
    assert!(store.add_cell(&run.id, &broken).is_err());
    assert!(store.finished(&run.id).unwrap().is_empty());
    let rows: i64 =
        store.connection.query_row("SELECT count(*) FROM measurements", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 0);
    store.add_cell(&run.id, &cell(&run, 0)).unwrap();
}

#[test]
fn a_cell_is_never_written_twice() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    store.add_cell(&run.id, &cell(&run, 0)).unwrap();
    let mut other = Store::open(&folder.db()).unwrap();
    let error = other.add_cell(&run.id, &failed_cell(&run, 0)).unwrap_err();
    assert!(matches!(error, StoreError::CellExists { index: 0, .. }), "{error}");
    assert_eq!(store.cells(&run.id).unwrap(), [cell(&run, 0)]);
}

#[test]
fn a_full_disk_is_reported_and_earlier_cells_stay() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    store.add_cell(&run.id, &failed_cell(&run, 0)).unwrap();
    let pages: i64 = store.connection.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap();
    // SQLite's limit on the file size causes the same error as a full disk.
    store.connection.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(())).unwrap();
    let error = store.add_cell(&run.id, &cell(&run, 1)).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert_eq!(error.to_string(), format!("{}: the disk is full", folder.db().display()));
    assert_eq!(store.cells(&run.id).unwrap().len(), 1);
}

#[test]
fn a_newer_database_is_rejected_unchanged() {
    let folder = Folder::new();
    let store = Store::open(&folder.db()).unwrap();
    store.connection.pragma_update(None, "user_version", 99).unwrap();
    drop(store);
    let before = std::fs::read(folder.db()).unwrap();
    let error = Store::open(&folder.db()).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "{}: the database has version 99, but this weir supports versions up to {}",
            folder.db().display(),
            schema::MIGRATIONS.len()
        )
    );
    assert_eq!(std::fs::read(folder.db()).unwrap(), before);
}

#[test]
fn a_file_that_is_not_a_database_is_rejected_unchanged() {
    let folder = Folder::new();
    let text = "not a database, but somebody's notes\n".repeat(100);
    std::fs::write(folder.db(), &text).unwrap();
    let error = Store::open(&folder.db()).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
    assert!(error.to_string().contains("the file is damaged or not a database"), "{error}");
    assert_eq!(std::fs::read_to_string(folder.db()).unwrap(), text);
}

#[test]
fn an_overwritten_database_is_reported_as_damaged() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    store.add_cell(&run.id, &cell(&run, 0)).unwrap();
    drop(store);
    let mut bytes = std::fs::read(folder.db()).unwrap();
    // Keep the header, and overwrite every page after the first.
    bytes[4096..].fill(0xff);
    std::fs::write(folder.db(), &bytes).unwrap();
    let error = Store::open(&folder.db()).and_then(|store| store.cells(&run.id)).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[test]
fn a_database_of_another_program_is_rejected_unchanged() {
    let folder = Folder::new();
    Connection::open(folder.db()).unwrap().execute_batch("CREATE TABLE theirs (a)").unwrap();
    let before = std::fs::read(folder.db()).unwrap();
    assert!(matches!(Store::open(&folder.db()), Err(StoreError::Foreign { .. })));
    assert_eq!(std::fs::read(folder.db()).unwrap(), before);
}

#[test]
fn readers_create_no_database() {
    let folder = Folder::new();
    assert!(matches!(Store::open_existing(&folder.db()), Err(StoreError::Missing { .. })));
    assert!(!folder.db().exists());
    std::fs::write(folder.db(), "").unwrap();
    let error = Store::open_existing(&folder.db()).unwrap_err();
    assert!(
        matches!(error, StoreError::Damaged { .. }) && error.to_string().contains("it is empty"),
        "{error}"
    );
    assert_eq!(std::fs::metadata(folder.db()).unwrap().len(), 0);
}

#[test]
fn a_folder_is_not_a_database() {
    let folder = Folder::new();
    std::fs::create_dir(folder.db()).unwrap();
    for opened in [Store::open(&folder.db()), Store::open_existing(&folder.db())] {
        let error = opened.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("it is a folder"), "{error}");
    }
}

#[test]
fn runs_are_found_by_id_prefix_and_last() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.db()).unwrap();
    assert!(matches!(store.find("last"), Err(StoreError::NoRun { .. })));
    for (id, started) in [("20261121-0210-aaaa", 10), ("20261121-0211-bbbb", 30), ("20261122-0210-cccc", 20)]
    {
        store.begin_run(&run(id, started)).unwrap();
    }
    let found = |name: &str| store.find(name).map_err(|error| error.to_string());
    let path = folder.db();
    let path = path.display();
    assert_eq!(found("last"), Ok("20261121-0211-bbbb".into()));
    assert_eq!(found("20261122"), Ok("20261122-0210-cccc".into()));
    assert_eq!(found("20261121-0210-aaaa"), Ok("20261121-0210-aaaa".into()));
    assert_eq!(
        found("20261121"),
        Err(format!("{path}: `20261121` matches several runs: 20261121-0211-bbbb, 20261121-0210-aaaa"))
    );
    assert_eq!(found("1999"), Err(format!("{path}: no run `1999`")));
    assert_eq!(found(""), Err(format!("{path}: no run ``")));
}
