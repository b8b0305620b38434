//! Writes runs: first the run with its plan, then one transaction per cell.

use rusqlite::{Transaction, TransactionBehavior, params};
use serde::Serialize;

use super::document::{CellDocument, MeasurementDocument};
use super::{Store, StoreError};
use crate::{Cell, CellKey, CellOutcome, Histogram, Measurement, Reason, Run};

impl Store {
    /// Writes a run with its plan and manifest, before its first cell.
    ///
    /// # Errors
    /// When the database cannot be written. Then it contains no part of the run.
    pub fn begin_run(&mut self, run: &Run) -> Result<(), StoreError> {
        self.commit(|t| insert_run(t, run))
    }

    /// Adds the new cells of `run` to its plan, and updates its scenario and manifest. The run then counts as
    /// unfinished.
    ///
    /// # Errors
    /// When the database cannot be written, or the stored plan is not a prefix of the run's plan. Then nothing changes.
    pub fn extend_run(&mut self, run: &Run) -> Result<(), StoreError> {
        let kept = self.run(&run.id)?.plan;
        if !run.plan.starts_with(&kept) {
            return Err(StoreError::OtherPlan { path: self.path.clone(), run: run.id.clone() });
        }
        self.commit(|t| {
            t.execute(
                "UPDATE runs SET scenario = ?2, ended_unix_ms = NULL WHERE id = ?1",
                params![run.id, json(&run.scenario)?],
            )?;
            t.execute(
                "UPDATE manifests SET manifest = ?2 WHERE run_id = ?1",
                params![run.id, json(&run.manifest)?],
            )?;
            insert_plan(t, &run.id, &run.plan[kept.len()..])
        })
    }

    /// Writes a finished cell of the run `run_id`, in one transaction.
    ///
    /// # Errors
    /// When the database cannot be written, or already contains the cell.
    pub fn add_cell(&mut self, run_id: &str, cell: &Cell) -> Result<(), StoreError> {
        let exists: bool = self
            .connection
            .query_row(
                "SELECT EXISTS (SELECT 1 FROM cells WHERE run_id = ?1 AND cell = ?2)",
                params![run_id, cell.key.index],
                |row| row.get(0),
            )
            .map_err(self.failed())?;
        if exists {
            let (path, run, index) = (self.path.clone(), run_id.to_owned(), cell.key.index);
            return Err(StoreError::CellExists { path, run, index });
        }
        self.commit(|t| insert_cell(t, run_id, cell))
    }

    /// Marks the run as finished, after all its cells have been written.
    ///
    /// # Errors
    /// When the database cannot be written.
    pub fn end_run(&mut self, run_id: &str, ended_unix_ms: u64) -> Result<(), StoreError> {
        self.commit(|t| {
            t.execute("UPDATE runs SET ended_unix_ms = ?2 WHERE id = ?1", params![run_id, ended_unix_ms])?;
            Ok(())
        })
    }

    pub(super) fn commit(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        let path = self.path.clone();
        let failed = |error| StoreError::from_sqlite(&path, error);
        let transaction = self.connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = transaction.map_err(failed)?;
        work(&transaction).map_err(failed)?;
        transaction.commit().map_err(failed)
    }
}

pub(super) fn insert_run(t: &Transaction<'_>, run: &Run) -> rusqlite::Result<()> {
    t.execute(
        "INSERT INTO runs VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            run.id,
            run.schema_version,
            run.name,
            run.question,
            run.seed.to_string(),
            run.started_unix_ms,
            run.ended_unix_ms,
            json(&run.scenario)?,
            json(&run.objective)?,
            json(&run.thresholds)?
        ],
    )?;
    t.execute("INSERT INTO manifests VALUES (?1, ?2)", params![run.id, json(&run.manifest)?])?;
    insert_plan(t, &run.id, &run.plan)
}

fn insert_plan(t: &Transaction<'_>, run_id: &str, cells: &[CellKey]) -> rusqlite::Result<()> {
    let mut plan = t.prepare("INSERT INTO plan VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for key in cells {
        plan.execute(params![run_id, key.index, key.gateway, json(&key.axes)?, key.repeat])?;
    }
    Ok(())
}

pub(super) fn insert_cell(t: &Transaction<'_>, run_id: &str, cell: &Cell) -> rusqlite::Result<()> {
    let (outcome, cause) = match &cell.outcome {
        CellOutcome::Measured { .. } => ("measured", None),
        CellOutcome::Failed { cause, .. } => ("failed", Some(cause)),
    };
    t.execute(
        "INSERT INTO cells (run_id, cell, started_unix_ms, ended_unix_ms, outcome, cause, document) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            run_id,
            cell.key.index,
            cell.started_unix_ms,
            cell.ended_unix_ms,
            outcome,
            cause,
            json(&CellDocument::of(cell))?
        ],
    )?;
    if let CellOutcome::Measured { measurements } = &cell.outcome {
        for (place, measurement) in measurements.iter().enumerate() {
            insert_measurement(t, At { run_id, cell: cell.key.index, place }, measurement)?;
        }
    }
    Ok(())
}

/// Identifies a measurement: its run, its cell, and its position in the cell.
#[derive(Clone, Copy)]
struct At<'a> {
    run_id: &'a str,
    cell: u32,
    place: usize,
}

fn insert_measurement(t: &Transaction<'_>, at: At<'_>, m: &Measurement) -> rusqlite::Result<()> {
    let (record, judgement) = (&m.record, &m.judgement);
    t.execute(
        "INSERT INTO measurements (run_id, cell, place, load, model, connections, asked_rate_per_s, rate_per_s, \
         latency_p50_ns, latency_p99_ns, cpu_us_per_request, bound_by, events, document) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
        params![
            at.run_id,
            at.cell,
            at.place,
            m.load,
            word(&record.result.model)?,
            m.connections,
            m.rate_per_s,
            record.result.rate_per_s,
            record.result.latency_ns.p50,
            record.result.latency_ns.p99,
            m.cpu_us_per_request,
            word(&judgement.bound_by)?,
            json(&m.events)?,
            json(&MeasurementDocument::of(m))?
        ],
    )?;
    let verdicts = &judgement.verdicts;
    insert_verdicts(t, at, "throughput", &verdicts.throughput)?;
    insert_verdicts(t, at, "latency", &verdicts.latency)?;
    insert_verdicts(t, at, "cpu", &verdicts.cpu)?;
    insert_histogram(t, at, "latency", &record.latency)?;
    insert_histogram(t, at, "service_time", &record.service_time)?;
    if let Some(lateness) = &record.lateness {
        insert_histogram(t, at, "lateness", lateness)?;
    }
    insert_series(t, at, m)
}

fn insert_verdicts(
    t: &Transaction<'_>,
    at: At<'_>,
    metric: &str,
    reasons: &[Reason],
) -> rusqlite::Result<()> {
    let mut statement = t.prepare_cached("INSERT INTO verdicts VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?;
    for (position, reason) in reasons.iter().enumerate() {
        statement.execute(params![at.run_id, at.cell, at.place, metric, position, word(reason)?])?;
    }
    Ok(())
}

fn insert_histogram(
    t: &Transaction<'_>,
    at: At<'_>,
    kind: &str,
    histogram: &Histogram,
) -> rusqlite::Result<()> {
    let mut statement = t.prepare_cached("INSERT INTO histograms VALUES (?1, ?2, ?3, ?4, ?5)")?;
    statement.execute(params![at.run_id, at.cell, at.place, kind, bytes(histogram)?])?;
    Ok(())
}

fn insert_series(t: &Transaction<'_>, at: At<'_>, m: &Measurement) -> rusqlite::Result<()> {
    let mut seconds =
        t.prepare_cached("INSERT INTO seconds VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")?;
    for (position, second) in m.record.seconds.iter().enumerate() {
        seconds.execute(params![
            at.run_id,
            at.cell,
            at.place,
            position,
            second.t_s,
            second.length_s,
            second.sustained,
            second.sent,
            second.completed,
            second.unexpected,
            second.lost,
            bytes(&second.latency)?
        ])?;
    }
    let mut samples = t.prepare_cached("INSERT INTO samples VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")?;
    for (position, sample) in m.series.iter().enumerate() {
        let (cpu, memory) = (json(&sample.cpu_cores)?, json(&sample.memory_bytes)?);
        samples.execute(params![at.run_id, at.cell, at.place, position, sample.t_s, cpu, memory])?;
    }
    Ok(())
}

fn json(value: &impl Serialize) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

/// Returns the JSON name of an enum variant.
fn word(value: &impl Serialize) -> rusqlite::Result<String> {
    Ok(json(value)?.trim_matches('"').to_owned())
}

fn bytes(histogram: &Histogram) -> rusqlite::Result<Vec<u8>> {
    histogram.to_v2().map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}
