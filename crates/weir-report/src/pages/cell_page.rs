//! A page for each cell: its verdicts with evidence, values, charts over time, latency distribution, configuration,
//! logs and manifest.

use minijinja::{Environment, Value, context};
use serde::Serialize;
use weir_analysis::{Summary, bound_name, quantity};
use weir_results::{
    ArrivalModel, Cell, CellKey, CellOutcome, Counters, FileKind, KeptFile, Measurement, Part, Run, TimesNs,
    Usage,
};

use crate::charts::colors::color_of;
use crate::charts::series::of_cell;
use crate::charts::svg::{Layout, chart};
use crate::charts::sweep::slug;
use crate::charts::timelines::{CellTimeline, measurements};
use crate::formats::html;
use crate::model::{Chip, Column, Entry, Fact, FailedReport, KEEP, Table, Tone};
use crate::sections::cells::{cell_name, chips};
use crate::sections::environment::when;
use crate::sections::tables::{microseconds, role_name};
use crate::sections::trials;

/// The folder of the cell pages in the report folder.
pub(crate) const FOLDER: &str = "cells";

const TEMPLATE: &str = include_str!("../../assets/cell.html");

/// A page, and its path relative to the report folder.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) html: String,
}

#[derive(Serialize)]
struct CellPage {
    run_id: String,
    run_name: String,
    name: String,
    facts: Vec<Fact>,
    failed: Option<FailedReport>,
    searches: Vec<Table>,
    loads: Vec<LoadPage>,
    unequal: Vec<String>,
    parts: Vec<PartPage>,
    files: Vec<FilePage>,
}

#[derive(Serialize)]
struct LoadPage {
    id: String,
    name: String,
    setting: String,
    tone: Tone,
    chips: Vec<Chip>,
    bound_by: &'static str,
    evidence: Vec<String>,
    figures: Vec<Fact>,
    charts: Vec<ChartPage>,
    parts: Table,
}

#[derive(Serialize)]
struct ChartPage {
    title: String,
    svg: String,
}

#[derive(Serialize)]
struct PartPage {
    name: String,
    role: &'static str,
    facts: Vec<Fact>,
}

#[derive(Serialize)]
struct FilePage {
    name: String,
    note: String,
    text: String,
}

/// The path of a cell's page, relative to the report folder. Unsafe characters in the name of the gateway are
/// replaced.
pub(crate) fn path(key: &CellKey) -> String {
    // The first number alone identifies the cell. The gateway and the repeat are for readers.
    let gateway = slug(&key.gateway);
    format!("{FOLDER}/{:03}-{gateway}-{}.html", u64::from(key.index) + 1, u64::from(key.repeat) + 1)
}

/// Draws a page for each cell.
pub(crate) fn pages(
    run: &Run,
    cells: &[Cell],
    summary: &Summary,
    timelines: &[CellTimeline<'_>],
) -> Result<Vec<Page>, minijinja::Error> {
    let mut environment = Environment::new();
    html::prepare(&mut environment, "cell.html", TEMPLATE)?;
    let template = environment.get_template("cell.html")?;
    let style = html::style();
    let draw = |cell: &Cell| -> Result<Page, minijinja::Error> {
        let page = page(run, cell, summary, timelines);
        let html = template.render(context! {
            page => Value::from_serialize(page),
            colors => html::known_colors(summary),
            style => Value::from_safe_string(style.clone()),
        })?;
        Ok(Page { path: path(&cell.key), html })
    };
    cells.iter().map(draw).collect()
}

fn page(run: &Run, cell: &Cell, summary: &Summary, timelines: &[CellTimeline<'_>]) -> CellPage {
    let seconds = cell.ended_unix_ms.saturating_sub(cell.started_unix_ms) as f64 / 1e3;
    let failed = match &cell.outcome {
        CellOutcome::Measured { .. } => None,
        CellOutcome::Failed { cause, message, remedy, log_tail } => Some(FailedReport {
            cell: cell_name(&cell.key),
            cause: cause.clone(),
            message: message.clone(),
            remedy: remedy.clone(),
            log_tail: log_tail.clone(),
        }),
    };
    let load = |(place, measurement): (usize, &Measurement)| {
        let timeline = timelines.iter().find(|of| std::ptr::eq(of.measurement, measurement));
        let plots = timeline.map(|of| of_cell(of, color_of(summary, &cell.key.gateway))).unwrap_or_default();
        let charts = plots
            .iter()
            .map(|plot| ChartPage { title: plot.title.clone(), svg: chart(plot, Layout::inline()).inline() });
        load_page(place, cell, measurement, charts.collect())
    };
    CellPage {
        run_id: run.id.clone(),
        run_name: run.name.clone(),
        name: cell_name(&cell.key),
        facts: vec![
            Fact::new(
                "Cell",
                format!("{} of {}", quantity::count(u64::from(cell.key.index) + 1), run.plan.len()),
            ),
            Fact::new("Started", when(cell.started_unix_ms)),
            Fact::new("Duration", format!("{} s", quantity::number(seconds))),
        ],
        failed,
        searches: trials::trials(cell),
        loads: measurements(cell).iter().enumerate().map(load).collect(),
        unequal: cell.unequal.clone(),
        parts: cell.parts.iter().map(part_page).collect(),
        files: cell.files.iter().map(file_page).collect(),
    }
}

fn load_page(place: usize, cell: &Cell, measurement: &Measurement, charts: Vec<ChartPage>) -> LoadPage {
    let chips = chips(measurement, weir_results::is_baseline(&cell.key.gateway));
    let worst = [Tone::Bad, Tone::Plain].into_iter().find(|tone| chips.iter().any(|chip| chip.tone == *tone));
    let connections = quantity::counted(measurement.connections.into(), "connection");
    let setting = match (measurement.record.result.model, measurement.rate_per_s) {
        (ArrivalModel::Closed, _) => format!("closed, {connections}"),
        (ArrivalModel::Open, Some(per_s)) => {
            format!("open, {}, {connections}", quantity::rate(per_s))
        }
        (ArrivalModel::Open, None) => format!("open, {connections}"),
    };
    LoadPage {
        id: format!("load-{}", place + 1),
        name: trials::load_name(measurement),
        setting,
        tone: worst.unwrap_or(Tone::Good),
        chips,
        bound_by: bound_name(measurement.judgement.bound_by),
        evidence: measurement.judgement.evidence.clone(),
        figures: figures(measurement),
        charts,
        parts: parts(cell, measurement),
    }
}

fn figures(measurement: &Measurement) -> Vec<Fact> {
    let result = &measurement.record.result;
    let requests = &result.requests;
    let count = quantity::count;
    let status: Vec<String> =
        result.status.iter().map(|(code, n)| format!("{code}: {}", count(*n))).collect();
    let or_na = |text: Option<String>| text.unwrap_or_else(|| "n/a".into());
    let mut facts = vec![
        Fact::new("Throughput", quantity::rate(result.rate_per_s)),
        Fact::new("Latency", times(&result.latency_ns)),
        Fact::new("Service time", times(&result.service_time_ns)),
        Fact::new(
            "Requests",
            format!(
                "{} scheduled = {} completed + {} failed + {} timed out + {} dropped + {} in flight",
                count(requests.scheduled),
                count(requests.completed),
                count(requests.failed),
                count(requests.timed_out),
                count(requests.dropped),
                count(requests.in_flight)
            ),
        ),
        Fact::new("Errors", or_na(requests.error_share().map(quantity::percent))),
        Fact::new("Status", if status.is_empty() { "none".into() } else { status.join(", ") }),
        Fact::new("CPU time per request", or_na(measurement.cpu_us_per_request.map(microseconds))),
        Fact::new("Counted by", counters(&measurement.counters)),
        Fact::new(
            "Host",
            format!(
                "steal {}, other processes {}, idle {}",
                quantity::percent(measurement.host.steal),
                quantity::percent(measurement.host.others),
                quantity::percent(measurement.host.idle)
            ),
        ),
    ];
    if let Some(lateness) = &result.lateness_ns {
        facts.insert(3, Fact::new("Generator lateness", times(lateness)));
    }
    let said: Vec<String> = result.said.iter().map(|(words, n)| format!("{words}: {}", count(*n))).collect();
    if !said.is_empty() {
        facts.push(Fact::new("Failure details", said.join("; ")));
    }
    facts
}

fn times(times: &TimesNs) -> String {
    let named = [
        ("min", times.min),
        ("p50", times.p50),
        ("p90", times.p90),
        ("p99", times.p99),
        ("p99.9", times.p999),
        ("max", times.max),
    ];
    let mean = times.mean.map(|mean| format!("mean {}", quantity::time_ns(mean)));
    let named = named.map(|(name, ns)| {
        Some(format!("{name} {}", ns.map_or("n/a".into(), |ns| quantity::time_ns(ns as f64))))
    });
    named.into_iter().chain([mean]).flatten().collect::<Vec<_>>().join(", ")
}

fn counters(counters: &Counters) -> String {
    let or_na = |count: Option<u64>| count.map_or_else(|| "n/a".into(), quantity::count);
    format!(
        "generator {} (sent), gateway {}, upstream {}",
        quantity::count(counters.generator_sent),
        or_na(counters.gateway_requests),
        or_na(counters.origin_requests)
    )
}

/// The resources that each part used in the sustained phase.
fn parts(cell: &Cell, measurement: &Measurement) -> Table {
    let columns = [
        "CPU",
        "User",
        "System",
        "% of limit",
        "Throttled periods",
        "Memory",
        "Peak",
        "Threads",
        "Open files",
    ];
    let mut columns = columns.map(|title| Column::number(title, KEEP)).to_vec();
    columns.insert(0, Column::text("Part", KEEP));
    let rows = cell.parts.iter().filter_map(|part| {
        let usage = measurement.usage.get(&part.name)?;
        let mut row = vec![Entry::text(format!("{} ({})", part.name, role_name(part.role)))];
        row.extend(usage_entries(usage));
        Some(row)
    });
    Table {
        caption: "Resource use of all parts in the sustained phase".into(),
        columns,
        rows: rows.collect(),
    }
}

fn usage_entries(usage: &Usage) -> [Entry; 9] {
    let or_na = |text: Option<String>| Entry::text(text.unwrap_or_else(|| "n/a".into()));
    let bytes = |value: Option<u64>| or_na(value.map(|bytes| quantity::bytes(bytes as f64)));
    let count = |value: Option<u64>| or_na(value.map(quantity::count));
    let seconds = |seconds: f64| Entry::text(format!("{} s", quantity::number(seconds)));
    let throttled = usage.periods_throttled.zip(usage.periods);
    [
        Entry::text(format!("{} cores", quantity::cores(usage.cpu_cores))),
        seconds(usage.cpu_s.user),
        seconds(usage.cpu_s.system),
        or_na(usage.cpu_share_of_limit.map(quantity::percent_of_limit)),
        or_na(
            throttled.map(|(throttled, all)| {
                format!("{} of {}", quantity::count(throttled), quantity::count(all))
            }),
        ),
        bytes(usage.memory_bytes_mean),
        bytes(usage.memory_bytes_peak),
        count(usage.threads_max),
        count(usage.open_files_max),
    ]
}

fn part_page(part: &Part) -> PartPage {
    let cpus = part.limit_cpus.map_or("none".into(), |cpus| format!("{} cores", quantity::cores(cpus)));
    let memory = part.limit_memory_bytes.map_or("none".into(), |bytes| quantity::bytes(bytes as f64));
    let limited = if part.limits_applied {
        format!("enforced by {}", part.limited_by)
    } else {
        "not applied".to_owned()
    };
    let mut facts = vec![
        Fact::new("Version", part.version.clone()),
        Fact::new("Limits", format!("CPU {cpus}, memory {memory}; {limited}")),
        Fact::new("Binary", part.binary.clone()),
    ];
    match &part.image {
        None => facts.push(Fact::new("SHA-256 of the binary", part.binary_sha256.clone())),
        Some(image) => facts.extend([
            Fact::new("Container engine", image.engine.clone()),
            Fact::new("Image", image.name.clone()),
            Fact::new("Image ID", image.id.clone()),
            Fact::new(
                "Digest of the image",
                image.digest.clone().unwrap_or_else(|| "none: the image is not from a registry".into()),
            ),
        ]),
    }
    facts.extend([
        Fact::new(
            "SHA-256 of the configuration",
            part.config_sha256.clone().unwrap_or_else(|| "none".into()),
        ),
        Fact::new("Command", part.command.join(" ")),
    ]);
    PartPage { name: part.name.clone(), role: role_name(part.role), facts }
}

fn file_page(file: &KeptFile) -> FilePage {
    let whole = quantity::bytes(file.bytes as f64);
    let is_whole = file.text.len() as u64 >= file.bytes;
    let note = match file.kind {
        _ if is_whole => whole,
        FileKind::Configuration => format!("first part of the file; total size {whole}"),
        FileKind::Log => format!("last part of the file; total size {whole}"),
    };
    FilePage { name: file.name.clone(), note, text: file.text.clone() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn paths_are_plain_and_of_one_cell_each() {
        let check = |index, gateway: &str, repeat, expected: &str| {
            let key = CellKey { index, gateway: gateway.into(), axes: BTreeMap::new(), repeat };
            assert_eq!(path(&key), expected);
        };
        check(0, "nginx", 0, "cells/001-nginx-1.html");
        check(1_000, "../../etc/passwd", 2, "cells/1001-etc-passwd-3.html");
        check(u32::MAX, "Ä\0<b>", u32::MAX, "cells/4294967296-b-4294967296.html");
    }
}
