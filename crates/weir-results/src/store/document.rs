//! Documents of cells and measurements: one JSON column with all fields that no query uses.
//!
//! A new field needs no migration: give it a default, so that older documents can still be read. If older programs
//! would misread a change, increase [`DOCUMENT_VERSION`] and add a migration, so that they reject the database.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::{self, Deserializer};
use serde::{Deserialize, Serialize};

use crate::{
    Bounds, Cell, CellOutcome, ColdStart, Counters, FaultEvent, GeneratorEvidence, HostShare, HostUsage,
    KeptFile, LoadResult, Measurement, Part, Requests, RouteChange, RouteResult, ShardResult, SlowClients,
    StepRecord, Trial, Usage,
};

/// Version of cell documents and measurement documents.
pub(super) const DOCUMENT_VERSION: u32 = 1;

/// The document of a cell: its fields that have no column.
#[derive(Serialize, Deserialize)]
pub(super) struct CellDocument<'a> {
    #[serde(deserialize_with = "known_version")]
    version: u32,
    /// What failed, and where. `message`, `remedy` and `log_tail` are set only for a failed cell.
    pub(super) message: Option<Cow<'a, str>>,
    pub(super) remedy: Option<Cow<'a, str>>,
    pub(super) log_tail: Option<Cow<'a, str>>,
    pub(super) parts: Cow<'a, [Part]>,
    pub(super) unequal: Cow<'a, [String]>,
    pub(super) files: Cow<'a, [KeptFile]>,
    pub(super) attempts: u32,
    pub(super) cold_start: Option<Cow<'a, ColdStart>>,
}

/// The document of a measurement: its fields that have no column or table.
#[derive(Serialize, Deserialize)]
pub(super) struct MeasurementDocument<'a> {
    #[serde(deserialize_with = "known_version")]
    version: u32,
    pub(super) evidence: Cow<'a, [String]>,
    #[serde(default)]
    pub(super) bounds: Option<Cow<'a, BTreeMap<String, Bounds>>>,
    #[serde(default)]
    pub(super) delayed_share: Option<f64>,
    pub(super) result: Cow<'a, LoadResult>,
    pub(super) whole: Requests,
    pub(super) whole_uncertain: u64,
    pub(super) phase_start_mono_ns: u64,
    pub(super) phase_end_mono_ns: u64,
    pub(super) generator: Cow<'a, GeneratorEvidence>,
    pub(super) usage: Cow<'a, BTreeMap<String, Usage>>,
    pub(super) counters: Cow<'a, Counters>,
    pub(super) host: HostShare,
    pub(super) host_usage: Option<Cow<'a, HostUsage>>,
    pub(super) routes: Cow<'a, [RouteResult]>,
    pub(super) steps: Cow<'a, [StepRecord]>,
    #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
    pub(super) shards: Cow<'a, [ShardResult]>,
    pub(super) trial: Option<Cow<'a, Trial>>,
    pub(super) route_changes: Cow<'a, [RouteChange]>,
    pub(super) faults: Cow<'a, [FaultEvent]>,
    pub(super) slow: Option<SlowClients>,
}

impl<'a> CellDocument<'a> {
    pub(super) fn of(cell: &'a Cell) -> Self {
        let (message, remedy, log_tail) = match &cell.outcome {
            CellOutcome::Measured { .. } => (None, None, None),
            CellOutcome::Failed { message, remedy, log_tail, .. } => {
                (Some(message), Some(remedy), Some(log_tail))
            }
        };
        let text = |text: Option<&'a String>| text.map(|text| Cow::from(text.as_str()));
        Self {
            version: DOCUMENT_VERSION,
            message: text(message),
            remedy: text(remedy),
            log_tail: text(log_tail),
            parts: Cow::from(&cell.parts),
            unequal: Cow::from(&cell.unequal),
            files: Cow::from(&cell.files),
            attempts: cell.attempts,
            cold_start: cell.cold_start.as_ref().map(Cow::Borrowed),
        }
    }
}

impl<'a> MeasurementDocument<'a> {
    pub(super) fn of(m: &'a Measurement) -> Self {
        Self {
            version: DOCUMENT_VERSION,
            evidence: Cow::from(&m.judgement.evidence),
            bounds: m.judgement.bounds.as_ref().map(Cow::Borrowed),
            delayed_share: m.judgement.delayed_share,
            result: Cow::Borrowed(&m.record.result),
            whole: m.record.whole,
            whole_uncertain: m.record.whole_uncertain,
            phase_start_mono_ns: m.record.phase_start_mono_ns,
            phase_end_mono_ns: m.record.phase_end_mono_ns,
            generator: Cow::Borrowed(&m.record.generator),
            usage: Cow::Borrowed(&m.usage),
            counters: Cow::Borrowed(&m.counters),
            host: m.host,
            host_usage: m.host_usage.as_ref().map(Cow::Borrowed),
            routes: Cow::from(&m.record.routes),
            steps: Cow::from(&m.record.steps),
            shards: Cow::from(&m.record.shards),
            trial: m.trial.as_ref().map(Cow::Borrowed),
            route_changes: Cow::from(&m.route_changes),
            faults: Cow::from(&m.faults),
            slow: m.slow,
        }
    }
}

/// Rejects a document of a newer version, whose fields may have another meaning.
fn known_version<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    match u32::deserialize(deserializer)? {
        version if version <= DOCUMENT_VERSION => Ok(version),
        newer => Err(de::Error::custom(format_args!(
            "the document has version {newer}, but this weir supports versions up to {DOCUMENT_VERSION}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_documents_are_rejected() {
        let read = |version: u32| {
            let text = format!(
                r#"{{"version":{version},"parts":[],"unequal":[],"files":[],"attempts":1,"later":true}}"#
            );
            serde_json::from_str::<CellDocument<'_>>(&text).map(|document| document.attempts)
        };
        assert_eq!(read(DOCUMENT_VERSION).unwrap(), 1, "an unknown field is skipped");
        let error = read(2).unwrap_err().to_string();
        assert!(error.starts_with("the document has version 2, but this weir supports versions up to 1"));
    }
}
