//! Cost of many routes compared with few: memory, CPU time per request, and capacity.

use serde_json::Value as Axis;

use super::model::{Column, Finding, KEEP, Row, Table, Unit, Value};
use super::{Finder, Former, Measured};
use crate::figures::figure::Figure;
use crate::figures::quantity::{bytes, count, number};
use crate::headroom::{RouteCost, ratio};
use crate::points;
use crate::points::axes::{Axes, with_axes};
use crate::points::conclusions::{join, with_interval};

pub(super) const FINDER: Finder = Finder { key: "routes", columns: &[&COLUMNS], find };

const INTRO: &str = "\
weir compares each gateway with few and with many routes. Memory and CPU time per request are from an open load: the \
one with the highest rate at which the CPU time is valid with few and with many routes. Capacity is from the search. \
Ratios are to the fewest routes, in the same repeat.";

static COLUMNS: [Column; 8] = [
    Column::of("load", "Load", Unit::Load, 8),
    Column::of("memory", "Peak memory", Unit::Bytes, KEEP).lower().compared("routes.memory", 0.10),
    Column::of("memory_ratio", "Memory, ratio", Unit::Number, 6).lower().drawn(),
    Column::of("memory_per_route", "Per added route", Unit::Bytes, 8)
        .lower()
        .compared("routes.memory_per_route", 0.10),
    Column::of("cpu", "CPU per request", Unit::Microseconds, KEEP).lower(),
    Column::of("cpu_ratio", "CPU, ratio", Unit::Number, 7).lower().compared("routes.cpu_ratio", 0.05).drawn(),
    Column::of("capacity", "Capacity", Unit::PerSecond, KEEP).higher(),
    Column::of("capacity_ratio", "Capacity, ratio", Unit::Number, 7)
        .higher()
        .compared("routes.capacity_ratio", 0.10)
        .drawn(),
];

/// Results of a gateway with a certain number of routes.
struct Place<'a> {
    axes: Axes,
    row: &'a points::Row,
    capacity: Option<&'a Figure>,
}

/// Ratios of the values with many routes to those with few; `memory_each` is in bytes per added route.
struct Cost {
    memory: Figure,
    memory_each: Figure,
    cpu: Figure,
    capacity: Option<Figure>,
}

fn find(measured: &Measured<'_>, _: &mut Former) -> Option<Finding> {
    let mut finding = Finding::new(FINDER.key, "Routes", INTRO);
    let mut rows: Vec<Row> = Vec::new();
    for shared in highest_shared(&measured.headroom.route_costs) {
        let [Some(few), Some(many)] = [shared.few, shared.many].map(|count| place(measured, shared, count))
        else {
            continue;
        };
        let cost = cost(shared, &few, &many);
        finding.sentences.push(sentence(shared, &many, &cost));
        // Several costs can have the same `few`. Its row is added only once.
        let base = row(shared, &few, None);
        if !rows.contains(&base) {
            rows.push(base);
        }
        rows.push(row(shared, &many, Some(&cost)));
    }
    let caption = "Memory, CPU time and capacity by number of routes".to_owned();
    finding.tables = vec![Table { caption, columns: &COLUMNS, rows }];
    (!finding.sentences.is_empty()).then_some(finding)
}

/// Selects one cost for each combination of gateway, axes, `path` and `many`: the one at the highest rate with a valid
/// `ratio`. If no `ratio` is valid, selects the one at the lowest rate.
fn highest_shared(costs: &[RouteCost]) -> Vec<&RouteCost> {
    let key = |of: &RouteCost| (of.gateway.clone(), of.axes.clone(), of.path.clone(), of.many);
    let rank = |of: &RouteCost| match of.ratio.is_valid() {
        true => (1, of.rate_per_s),
        false => (0, -of.rate_per_s),
    };
    let mut highest: Vec<&RouteCost> = Vec::new();
    for cost in costs {
        match highest.iter_mut().find(|known| key(known) == key(cost)) {
            Some(known) if rank(known) < rank(cost) => *known = cost,
            Some(_) => {}
            None => highest.push(cost),
        }
    }
    highest.sort_by_key(|cost| highest_place(costs, cost));
    highest
}

/// Index in `costs` of the gateway's first entry. Sorting by it makes the rows of a gateway adjacent.
fn highest_place(costs: &[RouteCost], cost: &RouteCost) -> usize {
    costs.iter().position(|other| other.gateway == cost.gateway).unwrap_or_default()
}

/// Returns the results of the gateway in `shared` with `count` routes. All other axes are the same as in `shared`. The
/// row comes from the load of `shared`, the capacity from a search.
fn place<'a>(measured: &Measured<'a>, shared: &RouteCost, count: u64) -> Option<Place<'a>> {
    let mut axes = shared.axes.clone();
    axes.insert(shared.path.clone(), Axis::from(count));
    let point = measured.points.iter().find(|point| point.load == shared.load && point.axes == axes)?;
    let row = point.rows.iter().find(|row| row.gateway == shared.gateway)?;
    let searches = measured.capacities.iter().filter(|capacity| capacity.axes == axes);
    let mut found = searches.flat_map(|capacity| &capacity.rows);
    let capacity = found.find(|row| row.gateway == shared.gateway).map(|row| &row.per_s);
    Some(Place { axes, row, capacity })
}

fn cost(shared: &RouteCost, few: &Place<'_>, many: &Place<'_>) -> Cost {
    let [base, memory] = [few, many].map(|place| &place.row.memory_bytes_peak);
    let further = (shared.many - shared.few) as f64;
    Cost {
        memory: ratio(memory, base),
        memory_each: Figure::of(memory.paired(base, |many, few| (many - few) / further)),
        cpu: shared.ratio.clone(),
        capacity: many.capacity.zip(few.capacity).map(|(many, few)| ratio(many, few)),
    }
}

fn row(shared: &RouteCost, place: &Place<'_>, cost: Option<&Cost>) -> Row {
    let of = |figure: fn(&Cost) -> Option<&Figure>| Value::optional(cost.and_then(figure));
    let values = vec![
        Value::Missing,
        Value::figure(&place.row.memory_bytes_peak),
        of(|cost| Some(&cost.memory)),
        of(|cost| Some(&cost.memory_each)),
        Value::figure(&place.row.cpu_us_per_request),
        of(|cost| Some(&cost.cpu)),
        Value::optional(place.capacity),
        of(|cost| cost.capacity.as_ref()),
    ];
    Row { gateway: shared.gateway.clone(), load: shared.load.clone(), axes: place.axes.clone(), values }
}

fn sentence(shared: &RouteCost, many: &Place<'_>, cost: &Cost) -> String {
    let times = |of: &str, figure: &Figure| format!("{of} {} times", with_interval(figure, number));
    let mut ratios = vec![times("memory is", &cost.memory), times("CPU time per request", &cost.cpu)];
    ratios.extend(cost.capacity.as_ref().map(|capacity| times("capacity", capacity)));
    let what = shared.path.rsplit('.').next().unwrap_or(&shared.path);
    let one = what.strip_suffix('s').unwrap_or(what);
    let base = if shared.few == 1 { one } else { what };
    // If memory decreases with more routes, there is no cost per route.
    let each = match cost.memory_each.mean {
        Some(_) => format!(", {} per added {one}", with_interval(&cost.memory_each, bytes)),
        None => String::new(),
    };
    format!(
        "{}, {}: with {} {}, {} the value with {} {base}. Memory is {}{each}.",
        with_axes(&shared.gateway, &shared.axes),
        shared.load,
        count(shared.many),
        what,
        join(&ratios),
        count(shared.few),
        with_interval(&many.row.memory_bytes_peak, bytes),
    )
}
