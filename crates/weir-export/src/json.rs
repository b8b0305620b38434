//! JSON for programs: the result schema, in which each histogram also has its count and its quantiles.

use serde_json::{Value, json};
use weir_results::{Cell, CellOutcome, Histogram, HistogramError, Measurement, Run};

use crate::ExportError;
use crate::entry::{described, in_order};

/// Version of this format. The content has a separate version: the version of the result schema.
const FORMAT_VERSION: u32 = 1;

/// Renders the run as one JSON document.
pub(crate) fn draw(run: &Run, cells: &[Cell]) -> Result<String, ExportError> {
    let cells: Vec<Value> = in_order(cells).into_iter().map(described_cell).collect::<Result<_, _>>()?;
    let document = json!({
        "format": "weir-json",
        "format_version": FORMAT_VERSION,
        "run": run,
        "cells": cells,
    });
    Ok(format!("{document}\n"))
}

fn described_cell(cell: &Cell) -> Result<Value, ExportError> {
    let mut value = json!(cell);
    if let CellOutcome::Measured { measurements } = &cell.outcome {
        let full = |measurement: &Measurement| {
            let mut value = json!(measurement);
            with_quantiles(measurement, &mut value)
                .map_err(ExportError::histogram(cell, &measurement.load))?;
            Ok(value)
        };
        let measurements: Vec<Value> = measurements.iter().map(full).collect::<Result<_, ExportError>>()?;
        value["outcome"]["measurements"] = measurements.into();
    }
    Ok(value)
}

/// Replaces every histogram with an object that contains count, quantiles and histogram.
fn with_quantiles(measurement: &Measurement, value: &mut Value) -> Result<(), HistogramError> {
    let (record, place) = (&measurement.record, &mut value["record"]);
    place["latency"] = histogram(&record.latency)?;
    place["service_time"] = histogram(&record.service_time)?;
    if let Some(lateness) = &record.lateness {
        place["lateness"] = histogram(lateness)?;
    }
    for (index, second) in record.seconds.iter().enumerate() {
        place["seconds"][index]["latency"] = histogram(&second.latency)?;
    }
    for (index, step) in record.steps.iter().enumerate() {
        place["steps"][index]["latency"] = histogram(&step.latency)?;
    }
    for (index, route) in record.routes.iter().enumerate() {
        for (class, times) in &route.by_class {
            place["routes"][index]["by_class"][class]["latency"] = histogram(&times.latency)?;
        }
    }
    Ok(())
}

fn histogram(histogram: &Histogram) -> Result<Value, HistogramError> {
    let (count, quantiles_ns) = described(histogram)?;
    Ok(json!({ "count": count, "quantiles_ns": quantiles_ns, "hdr_v2_base64": histogram }))
}
