//! Reads runs and cells.

use std::borrow::Cow;
use std::collections::BTreeSet;

use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Row, params};
use serde::de::DeserializeOwned;

use super::document::{CellDocument, MeasurementDocument};
use super::{Store, StoreError};
use crate::{
    Cell, CellKey, CellOutcome, Histogram, Judgement, LoadRecord, LoadSecond, Measurement, Reason, Run,
    UsageSecond, Verdicts,
};

impl Store {
    /// Reads the run with this id. [`Store::find`] returns the id for a name.
    ///
    /// # Errors
    /// When there is no such run, or the database cannot be read.
    pub fn run(&self, id: &str) -> Result<Run, StoreError> {
        let plan = self.plan(id)?;
        let sql = "SELECT runs.*, manifests.manifest FROM runs JOIN manifests ON run_id = id WHERE id = ?1";
        let run = self.connection.query_row(sql, [id], |row| {
            Ok(Run {
                id: row.get(0)?,
                schema_version: row.get(1)?,
                name: row.get(2)?,
                question: row.get(3)?,
                seed: row.get::<_, String>(4)?.parse().map_err(|error| unreadable(4, error))?,
                started_unix_ms: row.get(5)?,
                ended_unix_ms: row.get(6)?,
                scenario: json(row, 7)?,
                objective: json(row, 8)?,
                thresholds: json(row, 9)?,
                manifest: json(row, 10)?,
                plan,
            })
        });
        match run {
            Err(rusqlite::Error::QueryReturnedNoRows) => {
                let latest = self.runs()?.into_iter().take(3).map(|run| run.id).collect();
                Err(StoreError::NoRun { path: self.path.clone(), wanted: id.into(), latest })
            }
            other => other.map_err(self.failed()),
        }
    }

    /// Reads the finished cells of a run, in the order of the plan.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn cells(&self, run_id: &str) -> Result<Vec<Cell>, StoreError> {
        let sql = "SELECT plan.cell, gateway, axes, repeat, started_unix_ms, ended_unix_ms, outcome, cause, \
             document FROM cells JOIN plan USING (run_id, cell) WHERE run_id = ?1 ORDER BY cell";
        let mut statement = self.connection.prepare(sql).map_err(self.failed())?;
        let cells = statement.query_map([run_id], |row| self.cell(run_id, row)).map_err(self.failed())?;
        cells.collect::<Result<_, _>>().map_err(self.failed())
    }

    /// The plan indexes of the finished cells of a run.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub fn finished(&self, run_id: &str) -> Result<BTreeSet<u32>, StoreError> {
        let sql = "SELECT cell FROM cells WHERE run_id = ?1";
        let mut statement = self.connection.prepare(sql).map_err(self.failed())?;
        let indexes = statement.query_map([run_id], |row| row.get(0)).map_err(self.failed())?;
        indexes.collect::<Result<_, _>>().map_err(self.failed())
    }

    fn plan(&self, run_id: &str) -> Result<Vec<CellKey>, StoreError> {
        let sql = "SELECT cell, gateway, axes, repeat FROM plan WHERE run_id = ?1 ORDER BY cell";
        let mut statement = self.connection.prepare(sql).map_err(self.failed())?;
        let keys = statement.query_map([run_id], key).map_err(self.failed())?;
        keys.collect::<Result<_, _>>().map_err(self.failed())
    }

    fn cell(&self, run_id: &str, row: &Row<'_>) -> rusqlite::Result<Cell> {
        let key = key(row)?;
        let document: CellDocument<'_> = json(row, 8)?;
        let text = |text: Option<Cow<'_, str>>| text.map(Cow::into_owned).unwrap_or_default();
        let outcome = if row.get::<_, String>(6)? == "measured" {
            CellOutcome::Measured { measurements: self.measurements(run_id, key.index)? }
        } else {
            CellOutcome::Failed {
                cause: row.get(7)?,
                message: text(document.message),
                remedy: text(document.remedy),
                log_tail: text(document.log_tail),
            }
        };
        Ok(Cell {
            key,
            started_unix_ms: row.get(4)?,
            ended_unix_ms: row.get(5)?,
            outcome,
            parts: document.parts.into_owned(),
            unequal: document.unequal.into_owned(),
            files: document.files.into_owned(),
            attempts: document.attempts,
            cold_start: document.cold_start.map(Cow::into_owned),
        })
    }

    fn measurements(&self, run_id: &str, cell: u32) -> rusqlite::Result<Vec<Measurement>> {
        let sql = "SELECT place, load, connections, asked_rate_per_s, cpu_us_per_request, bound_by, events, \
             document FROM measurements WHERE run_id = ?1 AND cell = ?2 ORDER BY place";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![run_id, cell], |row| {
            let place: u32 = row.get(0)?;
            let histogram = |kind| self.histogram(run_id, cell, place, kind);
            let document: MeasurementDocument<'_> = json(row, 7)?;
            let required = |kind| histogram(kind)?.ok_or(rusqlite::Error::QueryReturnedNoRows);
            Ok(Measurement {
                load: row.get(1)?,
                connections: row.get(2)?,
                rate_per_s: row.get(3)?,
                cpu_us_per_request: row.get(4)?,
                judgement: Judgement {
                    bound_by: word(row, 5)?,
                    verdicts: self.verdicts(run_id, cell, place)?,
                    bounds: document.bounds.map(Cow::into_owned),
                    delayed_share: document.delayed_share,
                    evidence: document.evidence.into_owned(),
                },
                record: LoadRecord {
                    result: document.result.into_owned(),
                    whole: document.whole,
                    whole_uncertain: document.whole_uncertain,
                    phase_start_mono_ns: document.phase_start_mono_ns,
                    phase_end_mono_ns: document.phase_end_mono_ns,
                    generator: document.generator.into_owned(),
                    latency: required("latency")?,
                    service_time: required("service_time")?,
                    lateness: histogram("lateness")?,
                    seconds: self.seconds(run_id, cell, place)?,
                    routes: document.routes.into_owned(),
                    steps: document.steps.into_owned(),
                    shards: document.shards.into_owned(),
                    distributions: None,
                },
                usage: document.usage.into_owned(),
                counters: document.counters.into_owned(),
                host: document.host,
                host_usage: document.host_usage.map(Cow::into_owned),
                series: self.samples(run_id, cell, place)?,
                route_changes: document.route_changes.into_owned(),
                faults: document.faults.into_owned(),
                slow: document.slow,
                events: json(row, 6)?,
                trial: document.trial.map(Cow::into_owned),
            })
        })?;
        rows.collect()
    }

    fn verdicts(&self, run_id: &str, cell: u32, place: u32) -> rusqlite::Result<Verdicts> {
        let sql = "SELECT metric, reason FROM verdicts WHERE run_id = ?1 AND cell = ?2 AND place = ?3 \
             ORDER BY metric, position";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut verdicts = Verdicts::default();
        let mut rows = statement.query(params![run_id, cell, place])?;
        while let Some(row) = rows.next()? {
            let reason: Reason = word(row, 1)?;
            match row.get::<_, String>(0)?.as_str() {
                "throughput" => verdicts.throughput.push(reason),
                "latency" => verdicts.latency.push(reason),
                _ => verdicts.cpu.push(reason),
            }
        }
        Ok(verdicts)
    }

    fn histogram(
        &self,
        run_id: &str,
        cell: u32,
        place: u32,
        kind: &str,
    ) -> rusqlite::Result<Option<Histogram>> {
        let sql =
            "SELECT hdr_v2 FROM histograms WHERE run_id = ?1 AND cell = ?2 AND place = ?3 AND kind = ?4";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![run_id, cell, place, kind])?;
        rows.next()?.map(|row| histogram_column(row, 0)).transpose()
    }

    fn seconds(&self, run_id: &str, cell: u32, place: u32) -> rusqlite::Result<Vec<LoadSecond>> {
        let sql = "SELECT t_s, length_s, sustained, sent, completed, unexpected, lost, latency_hdr_v2 \
             FROM seconds WHERE run_id = ?1 AND cell = ?2 AND place = ?3 ORDER BY position";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![run_id, cell, place], |row| {
            Ok(LoadSecond {
                t_s: row.get(0)?,
                length_s: row.get(1)?,
                sustained: row.get(2)?,
                sent: row.get(3)?,
                completed: row.get(4)?,
                unexpected: row.get(5)?,
                lost: row.get(6)?,
                latency: histogram_column(row, 7)?,
            })
        })?;
        rows.collect()
    }

    fn samples(&self, run_id: &str, cell: u32, place: u32) -> rusqlite::Result<Vec<UsageSecond>> {
        let sql = "SELECT t_s, cpu_cores, memory_bytes FROM samples \
             WHERE run_id = ?1 AND cell = ?2 AND place = ?3 ORDER BY position";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![run_id, cell, place], |row| {
            Ok(UsageSecond { t_s: row.get(0)?, cpu_cores: json(row, 1)?, memory_bytes: json(row, 2)? })
        })?;
        rows.collect()
    }
}

/// Reads a cell key from the first four columns: index, gateway, axes, repeat.
fn key(row: &Row<'_>) -> rusqlite::Result<CellKey> {
    Ok(CellKey { index: row.get(0)?, gateway: row.get(1)?, axes: json(row, 2)?, repeat: row.get(3)? })
}

pub(super) fn json<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text = row.get_ref(column)?.as_str().map_err(|error| wrong_type(column, error))?;
    serde_json::from_str(text).map_err(|error| unreadable(column, error))
}

/// Reads an enum variant from its JSON name.
fn word<T: DeserializeOwned>(row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_value(text.into()).map_err(|error| unreadable(column, error))
}

fn histogram_column(row: &Row<'_>, column: usize) -> rusqlite::Result<Histogram> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|error| wrong_type(column, error))?;
    Histogram::from_v2(bytes).map_err(|error| unreadable(column, error))
}

fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}

fn wrong_type(column: usize, error: FromSqlError) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Null, Box::new(error))
}
