//! Tables of changes under load: how soon each is in force, and what they cost.

use weir_analysis::headroom::{ChangeCost, Headroom, InForce, Quiet, seen_after};
use weir_analysis::{at_axes, quantity};
use weir_results::Changed;

use crate::model::{Column, Entry, KEEP, Section, Table};
use crate::sections::tables::{errors_of, figure};

/// The section of a run that asks for nothing else of headroom.
pub(crate) fn section(headroom: &Headroom, tables: Vec<Table>) -> Section {
    Section {
        id: "changes".into(),
        title: "Changes under load".into(),
        intro: "weir checks with its own requests and handshakes when each change takes effect. An added \
            route returns 200, and a removed one 404. An added endpoint gets a request, and a removed one \
            gets its last. The new certificate is served. \"Near\" is the time from applying a change until \
            one second after it takes effect. If changes follow each other closely, that is the whole phase. \
            Then compare with the load without changes, at the same rate and against the same processes."
            .into(),
        conclusions: headroom.conclusions.clone(),
        tables,
    }
}

/// What changes cost, against what is quiet, and how soon they are in force; nothing without changes.
pub(crate) fn tables(all: &[ChangeCost]) -> Vec<Table> {
    [costs(all), against_quiet(all), in_force(all)].into_iter().flatten().collect()
}

fn costs(costs: &[ChangeCost]) -> Option<Table> {
    let columns = vec![
        Column::text("Gateway", KEEP),
        load_column(costs),
        Column::number("Changes", KEEP),
        Column::number("Effective after", KEEP),
        Column::number("At most", 4),
        Column::number("Errors near", KEEP),
        Column::number("Errors, rest", 5),
        Column::number("p99 near", 7),
        Column::number("p99, rest", 7),
        Column::number("Near / rest", KEEP),
    ];
    let row = |cost: &ChangeCost| {
        vec![
            Entry::gateway(&cost.gateway),
            Entry::text(at_axes(&cost.load, &cost.axes)),
            Entry::text(cost.changes.to_string()),
            figure(&cost.seen_after_ns, seen_after),
            Entry::text(seen_after(cost.seen_after_ns_max as f64)),
            errors_of(cost.errors_near, cost.sent_near),
            errors_of(cost.errors_rest, cost.sent_rest),
            figure(&cost.p99_near_ns, quantity::time_ns),
            figure(&cost.p99_rest_ns, quantity::time_ns),
            figure(&cost.p99_ratio, quantity::number),
        ]
    };
    let is_of_routes = |cost: &ChangeCost| cost.in_force.iter().all(|kind| kind.what == Changed::Routes);
    let what = if costs.iter().all(is_of_routes) { " of routes" } else { "" };
    (!costs.is_empty()).then(|| Table {
        caption: format!("Cost of changes{what}"),
        columns,
        rows: costs.iter().map(row).collect(),
    })
}

/// Loads, which a narrow terminal leaves out only where there is one of them.
fn load_column(costs: &[ChangeCost]) -> Column {
    let first = costs.first().map(|cost| &cost.load);
    let differ = costs.iter().any(|cost| Some(&cost.load) != first);
    Column::text("Load", if differ { KEEP } else { 6 })
}

/// The load with changes beside the one that is the same without.
fn against_quiet(costs: &[ChangeCost]) -> Option<Table> {
    let columns = vec![
        Column::text("Gateway", KEEP),
        load_column(costs),
        Column::text("Quiet load", 4),
        Column::number("Errors", KEEP),
        Column::number("Errors, quiet", 7),
        Column::number("p99", 7),
        Column::number("p99, quiet", 7),
        Column::number("Ratio to quiet", KEEP),
    ];
    let row = |cost: &ChangeCost, quiet: &Quiet| {
        vec![
            Entry::gateway(&cost.gateway),
            Entry::text(at_axes(&cost.load, &cost.axes)),
            Entry::text(quiet.load.clone()),
            errors_of(cost.errors_near + cost.errors_rest, cost.sent_near + cost.sent_rest),
            errors_of(quiet.errors, quiet.sent),
            figure(&cost.p99_ns, quantity::time_ns),
            figure(&quiet.p99_ns, quantity::time_ns),
            figure(&quiet.p99_ratio, quantity::number),
        ]
    };
    let rows: Vec<Vec<Entry>> =
        costs.iter().filter_map(|cost| Some(row(cost, cost.quiet.as_ref()?))).collect();
    let caption = "With and without changes".to_owned();
    (!rows.is_empty()).then_some(Table { caption, columns, rows })
}

/// Kinds of changes in rows, grouped by gateway; nothing where only routes change.
fn in_force(costs: &[ChangeCost]) -> Option<Table> {
    let columns = vec![
        Column::text("Gateway", KEEP),
        load_column(costs),
        Column::text("Change", KEEP),
        Column::number("Changes", 7),
        Column::number("Effective after", KEEP),
        Column::number("At most", KEEP),
    ];
    let group = |cost: &ChangeCost| -> Vec<Vec<Entry>> {
        let row = |kind: &InForce| {
            vec![
                Entry::gateway(&cost.gateway),
                Entry::text(at_axes(&cost.load, &cost.axes)),
                Entry::text(kind.what.to_string()),
                Entry::text(kind.changes.to_string()),
                figure(&kind.seen_after_ns, seen_after),
                Entry::text(seen_after(kind.seen_after_ns_max as f64)),
            ]
        };
        cost.in_force.iter().map(row).collect()
    };
    let has_others = costs.iter().flat_map(|cost| &cost.in_force).any(|kind| kind.what != Changed::Routes);
    has_others.then(|| Table {
        caption: "Time until changes take effect".into(),
        columns,
        rows: Table::merged(costs.iter().map(group).collect(), &[0, 1]),
    })
}
