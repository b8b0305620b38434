//! The table of the parts of the rig: role, description, version, limits and hashes (`docs/method.md#manifest`).

use serde_json::Value;
use weir_analysis::{Summary, quantity};
use weir_results::{ArrivalModel, Cell, Part, Role, Run};

use crate::model::{Column, Entry, KEEP, Table};
use crate::sections::environment::short;
use crate::sections::tables::role_name;

/// One row for each part of each gateway, then the rows of the upstream and the load generator, which all gateways
/// share.
pub(crate) fn inventory(run: &Run, cells: &[Cell], summary: &Summary) -> Table {
    let columns = [
        "Object",
        "Role",
        "Description",
        "Version",
        "CPU limit",
        "Memory limit",
        "Limits enforced by",
        "Binary",
        "Configuration",
        "Command",
    ];
    let mut rows = Vec::new();
    for gateway in &summary.gateways {
        for part in gateway.parts.iter().filter(|part| is_own(part)) {
            // The gateway is named too, because two gateways may run the same program.
            let name = match part.name == gateway.name {
                true => part.name.clone(),
                false => format!("{}: {}", gateway.name, part.name),
            };
            let limits =
                Limits::of(cells, |cell, other| cell.key.gateway == gateway.name && other.name == part.name);
            rows.push(part_row(part, name, gateway_description(run, &gateway.name, part.role), &limits));
        }
    }
    for alike in shared(summary) {
        let Some(first) = alike.first() else { continue };
        let name = match alike.last().filter(|_| alike.len() > 1) {
            Some(last) => format!("{} to {}", first.name, last.name),
            None => first.name.clone(),
        };
        let limits = Limits::of(cells, |_, other| other.role == first.role);
        let description = match first.role {
            Role::Origin => origin_description(run, alike.len()),
            _ => generator_description(summary),
        };
        rows.push(part_row(first, name, description, &limits));
    }
    Table {
        caption: "Inventory".into(),
        columns: columns.map(|title| Column::text(title, KEEP)).to_vec(),
        rows,
    }
}

/// The different limits that a part had in the cells of the run.
struct Limits {
    cpus: Vec<Option<f64>>,
    memory_bytes: Vec<Option<u64>>,
}

impl Limits {
    fn of(cells: &[Cell], is_meant: impl Fn(&Cell, &Part) -> bool) -> Self {
        let parts = || cells.iter().flat_map(|cell| cell.parts.iter().filter(|part| is_meant(cell, part)));
        let (mut cpus, mut memory_bytes) = (Vec::new(), Vec::new());
        cpus.extend(parts().map(|part| part.limit_cpus));
        memory_bytes.extend(parts().map(|part| part.limit_memory_bytes));
        cpus.sort_by(|a: &Option<f64>, b| a.unwrap_or(f64::INFINITY).total_cmp(&b.unwrap_or(f64::INFINITY)));
        memory_bytes.sort_by_key(|bytes: &Option<u64>| bytes.unwrap_or(u64::MAX));
        Self { cpus, memory_bytes }
    }
}

/// Formats limits as a range like `0.25 to 1 cores`, or as one value if all are equal.
fn spanned<T: Copy + PartialEq>(limits: &[Option<T>], none: &str, words: impl Fn(T) -> String) -> String {
    let one = |limit: Option<T>| limit.map_or(none.into(), &words);
    match (limits.first(), limits.last()) {
        (Some(least), Some(greatest)) if least != greatest => {
            format!("{} to {}", one(*least), one(*greatest))
        }
        (least, _) => one(least.copied().flatten()),
    }
}

fn is_own(part: &Part) -> bool {
    matches!(part.role, Role::Data | Role::Control | Role::Service)
}

/// The parts of the upstream and of the load generator, grouped by role. Replicas share one row.
fn shared(summary: &Summary) -> Vec<Vec<&Part>> {
    let mut alike: Vec<Vec<&Part>> = Vec::new();
    for part in summary.gateways.iter().flat_map(|gateway| &gateway.parts).filter(|part| !is_own(part)) {
        let is_like = |known: &&mut Vec<&Part>| known.iter().all(|other| other.role == part.role);
        match alike.iter_mut().find(is_like) {
            Some(known) if known.iter().any(|other| other.name == part.name) => {}
            Some(known) => known.push(part),
            None => alike.push(vec![part]),
        }
    }
    alike
}

/// Describes how the scenario configures the gateway.
fn gateway_description(run: &Run, name: &str, role: Role) -> String {
    let mut listed = run.scenario.get("gateways").and_then(Value::as_array).into_iter().flatten();
    let written = listed.find(|gateway| gateway.get("name").and_then(Value::as_str) == Some(name));
    let field = |field: &str| written.and_then(|gateway| gateway.get(field));
    let mut said = match role {
        Role::Control => vec![format!("control plane of {name}")],
        Role::Service => vec![format!("service that {name} needs")],
        _ => vec!["gateway under test".to_owned()],
    };
    let driver = field("driver").and_then(Value::as_str).filter(|driver| *driver != name);
    said.extend(driver.map(|driver| format!("driver {driver}")));
    said.extend(field("url").and_then(Value::as_str).map(|url| format!("at {url}")));
    said.extend(field("binary").and_then(Value::as_str).map(|binary| format!("binary {binary}")));
    said.extend(run.manifest.configurations.get(name).map(|own| format!("configuration {}", own.path)));
    let settings = field("set").and_then(Value::as_object).into_iter().flatten();
    said.extend(settings.map(|(setting, value)| format!("{setting} = {value}")));
    said.join(", ")
}

fn origin_description(run: &Run, replicas: usize) -> String {
    let body = run.scenario.get("origin").and_then(|origin| origin.get("body")).and_then(Value::as_str);
    let mut said = vec!["upstream".to_owned()];
    said.extend((replicas > 1).then(|| format!("{replicas} replicas")));
    said.extend(body.map(|body| format!("a body of {body}")));
    said.join(", ")
}

/// Describes the loads that the load generator creates.
fn generator_description(summary: &Summary) -> String {
    let mut said: Vec<String> = Vec::new();
    for point in &summary.points {
        let connections = quantity::counted(point.connections.into(), "connection");
        let load = match (point.model, point.rate_per_s) {
            (ArrivalModel::Open, Some(per_s)) => format!("{}: open, {}", point.load, quantity::rate(per_s)),
            (ArrivalModel::Open, None) => format!("{}: open", point.load),
            (ArrivalModel::Closed, _) => format!("{}: closed, {connections}", point.load),
        };
        if !said.contains(&load) {
            said.push(load);
        }
    }
    format!("load generator; {}", said.join("; "))
}

fn part_row(part: &Part, name: String, description: String, limits: &Limits) -> Vec<Entry> {
    let limited = if part.limits_applied { part.limited_by.clone() } else { "not applied".into() };
    // The program and the limits of a remote gateway may be unknown.
    let none = if part.is_elsewhere() { "n/a" } else { "none" };
    let or_na = |text: String| Entry::text(if text.is_empty() { "n/a".into() } else { text });
    vec![
        Entry::text(name),
        Entry::text(role_name(part.role)),
        Entry::text(match &part.image {
            Some(image) => {
                format!("{description}, in a container of image {}, run by {}", image.name, image.engine)
            }
            None => description,
        }),
        Entry::text(part.version.clone()),
        Entry::text(spanned(&limits.cpus, none, |cpus| format!("{} cores", quantity::cores(cpus)))),
        Entry::text(spanned(&limits.memory_bytes, none, |bytes| quantity::bytes(bytes as f64))),
        Entry::text(limited),
        or_na(match part.image.as_ref().map(|image| image.digest.as_deref().unwrap_or(&image.id)) {
            Some(digest) => format!("image {}", short(digest.trim_start_matches("sha256:"))),
            None => short(&part.binary_sha256),
        }),
        Entry::text(part.config_sha256.as_deref().map_or("–".into(), short)),
        or_na(part.command.join(" ")),
    ]
}
