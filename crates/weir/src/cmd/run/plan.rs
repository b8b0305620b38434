//! `weir run --plan`: prints the cells in their order, and how long each takes.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ColumnConstraint, Table};
use weir_lab::plan::{Plan, cell_time, point_of, time};
use weir_lab::{Prepared, TimeEstimate};
use weir_results::CellKey;

use super::super::output::print;
use super::progress::{axes_words, cells, range};

/// Prints the plan as a table or as JSON.
pub(super) fn tell(prepared: &Prepared, plan: &Plan, seed_is_given: bool, json: bool) {
    let checked = &prepared.checked;
    let pilot = weir_lab::pilot_time(checked);
    let total = time(checked, &plan.cells) + pilot;
    let takes = |key: &CellKey| {
        point_of(checked, key).map_or(TimeEstimate::default(), |point| cell_time(&point.scenario))
    };
    if json {
        let keys: Vec<_> = plan
            .cells
            .iter()
            .map(|key| {
                let TimeEstimate { min, max } = takes(key);
                serde_json::json!({
                    "key": key,
                    "duration_s": min.as_secs_f64(),
                    "duration_max_s": max.as_secs_f64(),
                })
            })
            .collect();
        let document = serde_json::json!({
            "name": checked.scenario.name,
            "seed": plan.seed,
            "cells": keys,
            "pilot_s": pilot.min.as_secs_f64(),
            "pilot_max_s": pilot.max.as_secs_f64(),
            "duration_s": total.min.as_secs_f64(),
            "duration_max_s": total.max.as_secs_f64(),
            "notes": prepared.notes,
        });
        print(serde_json::to_string_pretty(&document).expect("a plan can always be written as JSON"));
        return;
    }
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["cell", "gateway", "axes", "repeat", "seconds"]);
    for key in &plan.cells {
        table.add_row([
            (key.index + 1).to_string(),
            key.gateway.clone(),
            axes_words(key),
            (key.repeat + 1).to_string(),
            seconds(takes(key)),
        ]);
    }
    if plan.cells.iter().all(|key| key.axes.is_empty())
        && let Some(axes) = table.column_mut(2)
    {
        axes.set_constraint(ColumnConstraint::Hidden);
    }
    for place in [0, 3, 4] {
        if let Some(column) = table.column_mut(place) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    print(table.trim_fmt());
    let before = match pilot == TimeEstimate::default() {
        true => String::new(),
        false => format!(" (pilot: {})", range(pilot)),
    };
    print(format_args!("\n{}, {}{before}", cells(plan.cells.len()), range(total)));
    if total.max > total.min {
        print("the longer time applies if host noise makes weir re-measure loads or extend warm-ups");
    }
    if !seed_is_given {
        print(format_args!("the order is random; to run in this order, add `--seed {}`", plan.seed));
    }
    for note in &prepared.notes {
        print(format_args!("note: {note}"));
    }
}

/// Formats a duration in seconds: `4.3`, or `4.3–12.6` if it can take longer because of noise.
fn seconds(takes: TimeEstimate) -> String {
    let [min, max] = [takes.min, takes.max].map(|time| format!("{:.1}", time.as_secs_f64()));
    if min == max { min } else { format!("{min}–{max}") }
}
