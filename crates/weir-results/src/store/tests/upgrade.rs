//! Databases of older versions, and what newer ones keep beside.

use rusqlite::Connection;

use super::*;
use crate::{
    Ceiling, Changed, FaultAction, FaultEvent, Found, HostBounds, Objective, RouteChange, RouteResult,
    RouteTimes, SlowClients, SlowCounts, StepRecord, Stopped, Trial, TrialSays,
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

/// A trial of a search, the last one.
fn trial() -> Trial {
    Trial {
        number: 12,
        says: TrialSays::CannotTell,
        why: "p99 is 19.0 ms".into(),
        found: Some(Found {
            objective: Objective {
                latency_ns: [("p99".to_owned(), 20_000_000)].into(),
                errors: Some(0.001),
                own: Vec::new(),
            },
            capacity_per_s: Some(1_000.0 / 3.0),
            interval_per_s: Some([0.1 + 0.2, 340.0]),
            at_least_per_s: None,
            below_per_s: None,
            limited_by: Some("p99".into()),
            trials: 12,
            void: 1,
            stopped: Stopped::Precise,
        }),
    }
}

/// A cell whose load went in steps, had routes and was a trial.
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
        }];
    }
    cell
}

#[test]
fn routes_steps_and_trials_come_back_as_they_went_in() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let cell = rich(&run);
    store.add_cell(&run.id, &cell).unwrap();
    assert_eq!(store.cells(&run.id).unwrap(), [cell]);
}

#[test]
fn bounds_of_a_host_are_kept_until_they_are_measured_again() {
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

#[test]
fn a_database_of_version_1_is_upgraded_with_what_it_holds() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let (now, then) = (folder.0.path().join("now.db"), folder.db());
    let mut store = Store::open(&now).unwrap();
    store.begin_run(&run).unwrap();
    // Files of cells came with version 3, further attempts with version 5, starts with version 7.
    let mut cell = Cell { files: Vec::new(), attempts: 1, cold_start: None, ..cell(&run, 0) };
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    // Nobody measured it then.
    measurements.iter_mut().for_each(|measurement| measurement.host_usage = None);
    store.add_cell(&run.id, &cell).unwrap();
    drop(store);
    version_1_of(&now, &then);
    let mut store = Store::open_existing(&then).unwrap();
    assert_eq!(store.run(&run.id).unwrap(), run);
    assert_eq!(store.cells(&run.id).unwrap(), [cell]);
    store.keep_bounds(&bounds(1e4)).unwrap();
}

/// Makes a database of version 1 at `then` with the rows of the one at `now`.
fn version_1_of(now: &std::path::Path, then: &std::path::Path) {
    let old = Connection::open(then).unwrap();
    old.execute_batch(schema::MIGRATIONS[0]).unwrap();
    old.pragma_update(None, "application_id", schema::APPLICATION_ID).unwrap();
    old.pragma_update(None, "user_version", 1).unwrap();
    old.execute("ATTACH ?1 AS now", [now.to_str().unwrap()]).unwrap();
    for table in
        ["runs", "manifests", "plan", "cells", "measurements", "verdicts", "histograms", "seconds", "samples"]
    {
        let sql = format!("SELECT group_concat(name) FROM pragma_table_info('{table}', 'main')");
        let columns: String = old.query_row(&sql, [], |row| row.get(0)).unwrap();
        old.execute_batch(&format!("INSERT INTO main.{table} SELECT {columns} FROM now.{table}")).unwrap();
    }
    let sql =
        "SELECT count(*) FROM pragma_table_info('measurements', 'main') WHERE name IN ('routes', 'steps')";
    assert_eq!(old.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap(), 0, "it is of version 1");
}

#[test]
fn faults_and_changes_of_routes_come_back_in_their_order() {
    let folder = Folder::new();
    let run = run("20261121-0210-aaaa", 10);
    let mut store = Store::open(&folder.db()).unwrap();
    store.begin_run(&run).unwrap();
    let mut cell = cell(&run, 0);
    let CellOutcome::Measured { measurements } = &mut cell.outcome else { unreachable!() };
    let change = |t_s, routes_added| RouteChange {
        t_s,
        sustained: t_s > 1.0,
        what: Changed::Routes,
        routes_added,
        routes: 100_000,
        seen_after_ns: u64::from(u32::MAX),
    };
    // Of the first load none.
    let other = RouteChange { what: Changed::Certificates, ..change(2.5, 0) };
    measurements[1].route_changes = vec![change(0.1 + 0.2, 1), change(1.5, -1), other];
    let actions = [FaultAction::Kill, FaultAction::Stall, FaultAction::Reset, FaultAction::Return];
    let fault = |action| FaultEvent { t_s: 0.1 + 0.2, sustained: true, replica: 2, action, took_ns: 1 << 40 };
    measurements[0].faults = actions.map(fault).to_vec();
    let heads = SlowCounts { connections: 7, opened: 1 << 40, ..SlowCounts::default() };
    measurements[1].slow = Some(SlowClients { heads, ..SlowClients::default() });
    store.add_cell(&run.id, &cell).unwrap();
    assert_eq!(store.cells(&run.id).unwrap(), [cell]);
}
