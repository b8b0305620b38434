//! Databases of older versions, and fields that newer versions added.

use rusqlite::Connection;

use super::*;
use crate::{
    Ceiling, Changed, Event, FaultAction, FaultEvent, FaultTarget, Found, HostBounds, Objective, RouteChange,
    RouteResult, RouteTimes, ShardResult, SlowClients, SlowCounts, StepRecord, Stopped, Trial, TrialSays,
};

fn bounds(rate_per_s: f64) -> HostBounds {
    HostBounds {
        fingerprint: "A, 2 CPUs, 8192 MiB".into(),
        measured_unix_ms: 5,
        weir_version: "0.1.0".into(),
        ceiling: Some(Ceiling { rate_per_s, workers: 1, lateness_p99_ns: 90_000 }),
        floor_min_ns: Some(20_000),
        floor_p50_ns: Some(30_000),
        disturbed_share: None,
    }
}

/// The last trial of a search.
fn trial() -> Trial {
    Trial {
        number: 12,
        says: TrialSays::CannotTell,
        why: "p99 is 19.0 ms".into(),
        found: Some(Found {
            objective: Objective {
                latency_ns: [("p99".to_owned(), 20_000_000)].into(),
                errors: Some(0.001),
                ..Objective::default()
            },
            capacity_per_s: Some(1_000.0 / 3.0),
            interval_per_s: Some([0.1 + 0.2, 340.0]),
            at_least_per_s: None,
            below_per_s: None,
            limited_by: Some("p99".into()),
            trials: 12,
            invalid: 1,
            stopped: Stopped::Precise,
        }),
    }
}

/// A cell whose loads have steps and routes and are trials of a search.
pub(super) fn rich(run: &Run) -> Cell {
    let mut cell = cell(run, 0);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    for measurement in measurements {
        measurement.trial = Some(trial());
        let record = &mut measurement.record;
        let times = RouteTimes { latency_ns: record.result.latency_ns, latency: record.latency.clone() };
        record.routes = vec![RouteResult {
            name: "GET /get/:id".into(),
            requests: record.whole,
            by_class: BTreeMap::from([("2xx".into(), times)]),
        }];
        record.steps = vec![StepRecord {
            connections: 4,
            rate_per_s: Some(0.1 + 0.2),
            result: record.result.clone(),
            latency: record.latency.clone(),
            phase_start_mono_ns: 1,
            phase_end_mono_ns: u64::from(u32::MAX),
            distributions: None,
        }];
    }
    cell
}

#[test]
fn routes_steps_and_trials_are_read_as_written() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let cell = rich(&run);
    store.add_cell(&run.id, &cell).unwrap();
    assert_eq!(store.cells(&run.id).unwrap(), [cell]);
}

#[test]
fn rows_of_shards_are_read_as_written() {
    let folder = Folder::new();
    let run = run("20261126-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let mut cell = rich(&run);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    for measurement in measurements {
        let record = &mut measurement.record;
        record.shards = ["a", "b"].map(|agent| shard(agent, record)).into();
    }
    store.add_cell(&run.id, &cell).unwrap();
    assert_eq!(store.cells(&run.id).unwrap(), [cell]);
}

/// The result of the shard of `agent`, computed from `record`.
fn shard(agent: &str, record: &LoadRecord) -> ShardResult {
    ShardResult::of(agent, record, -1_500_000, 40_000)
}

#[test]
fn limits_of_a_host_are_kept_until_they_are_measured_again() {
    let folder = Folder::new();
    let mut store = Store::open(&folder.db()).unwrap();
    let of = |store: &Store| store.bounds("A, 2 CPUs, 8192 MiB").unwrap();
    assert_eq!(of(&store), None);
    for rate_per_s in [1e4, 2e4] {
        store.keep_bounds(&bounds(rate_per_s)).unwrap();
        assert_eq!(of(&store), Some(bounds(rate_per_s)));
    }
    assert_eq!(store.bounds("B, 2 CPUs, 8192 MiB").unwrap(), None);
}

/// The cells of a run that uses every field of database version 9. `tests/databases/version-9.sql` contains the same
/// run, written by that version.
fn full(run: &Run) -> [Cell; 2] {
    let mut cell = rich(run);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    let change = |t_s, routes_added| RouteChange {
        t_s,
        sustained: t_s > 1.0,
        what: Changed::Routes,
        routes_added,
        routes: 100_000,
        seen_after_ns: u64::from(u32::MAX),
    };
    // Only the second load has route changes.
    let other = RouteChange { what: Changed::Certificates, ..change(2.5, 0) };
    measurements[1].route_changes = vec![change(0.1 + 0.2, 1), change(1.5, -1), other];
    let actions = [FaultAction::Kill, FaultAction::Stall, FaultAction::Reset, FaultAction::Return];
    let target = FaultTarget::Replica(2);
    let fault = |action| FaultEvent {
        t_s: 0.1 + 0.2,
        sustained: true,
        target: target.clone(),
        action,
        took_ns: 1 << 40,
    };
    measurements[0].faults = actions.map(fault).to_vec();
    let heads = SlowCounts { connections: 7, opened: 1 << 40, ..SlowCounts::default() };
    measurements[1].slow = Some(SlowClients { heads, ..SlowClients::default() });
    [cell, failed_cell(run, 1)]
}

/// Like [`full`], but only with the fields that a database of `version` can store.
fn full_at(version: usize, run: &Run) -> [Cell; 2] {
    full(run).map(|mut cell| {
        if version < 3 {
            cell.files.clear();
        }
        if version < 5 {
            cell.attempts = 1;
        }
        if version < 7 {
            cell.cold_start = None;
        }
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { return cell };
        for measurement in measurements {
            if version < 2 {
                measurement.record.routes.clear();
                measurement.record.steps.clear();
            }
            if version < 4 {
                measurement.host_usage = None;
            }
            if version < 6 {
                measurement.route_changes.clear();
                measurement.trial = None;
            }
            if version < 8 {
                measurement.faults.clear();
            }
            if version < 9 {
                measurement.slow = None;
            }
            measurement.judgement.bounds = None;
            measurement.judgement.delayed_share = None;
        }
        cell
    })
}

/// Creates a database of `version` at `path`. It contains the rows of `tests/databases/version-9.sql`, in the tables
/// and columns that this version has.
fn database_of(version: usize, path: &std::path::Path) {
    let newest = path.with_extension("9");
    let dump = include_str!("../../../tests/databases/version-9.sql");
    // The dump creates tables in alphabetical order, so foreign keys cannot be checked.
    let open = |path| {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "foreign_keys", "off").unwrap();
        connection
    };
    open(newest.as_path()).execute_batch(dump).unwrap();
    let old = open(path);
    schema::MIGRATIONS[..version].iter().for_each(|step| old.execute_batch(step).unwrap());
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", version as i64).unwrap();
    old.execute("ATTACH ?1 AS newest", [newest.to_str().unwrap()]).unwrap();
    let mut tables = old.prepare("SELECT name FROM main.sqlite_schema WHERE type = 'table'").unwrap();
    let tables: Vec<String> = tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    for table in tables {
        let sql = format!("SELECT group_concat(name) FROM pragma_table_info('{table}', 'main')");
        let columns: String = old.query_row(&sql, [], |row| row.get(0)).unwrap();
        let copy = format!("INSERT INTO main.{table} ({columns}) SELECT {columns} FROM newest.{table}");
        old.execute_batch(&copy).unwrap();
    }
}

#[test]
fn databases_of_every_older_version_are_upgraded_with_their_content() {
    for version in 1..=9 {
        let folder = Folder::new();
        let run = run("20261121-0210-aaaa", 10);
        database_of(version, &folder.db());
        let mut store = Store::open_existing(&folder.db()).unwrap();
        assert_eq!(store.run(&run.id).unwrap(), run, "version {version}");
        assert_eq!(store.cells(&run.id).unwrap(), full_at(version, &run), "version {version}");
        let cells = full_at(version, &run);
        assert_eq!(store.import(&run, &cells).unwrap(), Imported::Present, "version {version}");
        store.keep_bounds(&bounds(1e4)).unwrap();
        let problems: i64 = store
            .connection
            .query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0))
            .unwrap();
        assert_eq!(problems, 0, "version {version}");
    }
}

#[test]
fn limits_of_findings_are_read_as_written() {
    let folder = Folder::new();
    let mut run = run("20261121-0210-aaaa", 10);
    let objective = run.objective.as_mut().unwrap();
    objective.findings.insert("recovery.time".into(), 5.0);
    objective.own[0].findings.insert("recovery.time".into(), 2.0);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    assert_eq!(store.run(&run.id).unwrap(), run);
}

#[test]
fn disturbances_are_read_in_order() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let mut cells = full(&run);
    let CellOutcome::Measured { measurements } = &mut cells[0].outcome else { unreachable!() };
    let event = |t_s, kind: &str| Event {
        t_s,
        sustained: true,
        kind: kind.into(),
        details: serde_json::json!({ "opened": u64::MAX, "share": 0.1 + 0.2 }),
    };
    measurements[0].events = vec![event(0.1 + 0.2, "one"), event(0.5, "other")];
    cells.iter().for_each(|cell| store.add_cell(&run.id, cell).unwrap());
    assert_eq!(store.cells(&run.id).unwrap(), cells);
    let sql = "SELECT json_extract(event.value, '$.kind') FROM measurements, json_each(events) AS event";
    let mut kinds = store.connection.prepare(sql).unwrap();
    let kinds: Vec<String> = kinds.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(kinds, ["one", "other"]);
}
