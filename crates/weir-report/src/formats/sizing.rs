//! The output of `weir size`: a table with the number of instances that a demand needs, and notes. In the HTML
//! page, `assets/sizing.js` draws the same.

use weir_analysis::quantity::{count, money, percent, range, rate, time_ns};
use weir_analysis::sizing::{
    Basis, Bound, Count, HOURS_PER_MONTH, Offer, Outcome, Price, PriceOf, Sized, Sizing, Span,
};
use weir_results::Run;

use crate::formats::terminal;
use crate::model::{Chip, Column, Entry, KEEP, Table, Tone};
use crate::sections::tables::latency_title;

/// Draws the result of a sizing for a terminal that is `width` columns wide.
pub(crate) fn draw(run: &Run, sizing: &Sizing, width: usize, color: bool) -> String {
    let mut out = vec![
        terminal::wrap(&format!("{} for {}", asked(sizing), run.name), width, ""),
        String::new(),
        terminal::draw_table(&table(sizing), width, color),
        String::new(),
    ];
    if let Some(table) = later_and_costs(sizing) {
        out.extend([terminal::draw_table(&table, width, color), String::new()]);
    }
    out.extend(
        sizing
            .offers
            .iter()
            .flat_map(|offer| sentences(sizing, offer))
            .map(|line| terminal::bullet(&line, width)),
    );
    out.push(String::new());
    out.push(terminal::wrap(&legend(sizing), width, ""));
    out.push(String::new());
    out.join("\n")
}

/// The demand in words, like `10,000/s, p99 at most 20.0 ms, CPU at most 65.0 % of the limit`.
fn asked(sizing: &Sizing) -> String {
    let demand = &sizing.demand;
    let mut asked = vec![rate(demand.rate_per_s)];
    match shared_bounds(sizing) {
        Some(bounds) => asked.extend(bounds.iter().map(bound)),
        None => asked.push("each gateway with its own objective".to_owned()),
    }
    asked.extend(demand.cpu_share_max.map(|share| format!("CPU at most {} of the limit", percent(share))));
    asked.extend((demand.spare > 0).then(|| {
        let instances = if demand.spare == 1 { "instance" } else { "instances" };
        format!("{} spare {instances}", demand.spare)
    }));
    asked.extend(demand.growth_per_year.map(|growth| format!("growth {} per year", percent(growth))));
    asked.join(", ")
}

/// The limits of the objective if they are the same for all instance types, otherwise `None`.
fn shared_bounds(sizing: &Sizing) -> Option<&[Bound]> {
    let first = sizing.offers.first().map(|offer| offer.bounds.as_slice()).unwrap_or_default();
    sizing.offers.iter().all(|offer| offer.bounds == first).then_some(first)
}

fn bound(bound: &Bound) -> String {
    match bound.name.as_str() {
        "errors" => format!("errors at most {}", percent(bound.limit)),
        name => format!("{} at most {}", latency_title(name).to_lowercase(), time_ns(bound.limit)),
    }
}

fn table(sizing: &Sizing) -> Table {
    let (mut columns, has_setting) = names(sizing);
    let share_kept = if sizing.demand.cpu_share_max.is_some() { KEEP } else { 5 };
    columns.extend([
        Column::number("Rate per instance", KEEP),
        Column::number("CPU % of limit", share_kept),
        Column::number("Instances", KEEP),
        Column::text("Basis", KEEP),
    ]);
    let width = columns.len();
    let rows = sizing.offers.iter().map(|offer| {
        let mut row = named(offer, has_setting);
        match &offer.outcome {
            Outcome::Sized(sized) => row.extend(entries(sized)),
            Outcome::Refused(_) => {
                row.resize(width - 1, Entry::text("–"));
                row.push(chip("no answer", Tone::Bad));
            }
        }
        row
    });
    Table { caption: "Instances".into(), columns, rows: rows.collect() }
}

/// The table of growth and costs. It is separate from the main table, so that both fit on a narrow terminal.
fn later_and_costs(sizing: &Sizing) -> Option<Table> {
    let (mut columns, has_setting) = names(sizing);
    let (has_growth, has_price) = (sizing.demand.growth_per_year.is_some(), sizing.demand.price.is_some());
    if has_growth {
        columns.extend([Column::number("In 12 months", KEEP), Column::number("In 24 months", KEEP)]);
    }
    if has_price {
        columns.extend([Column::number("Cost per month", KEEP), Column::number("Cost per million", KEEP)]);
    }
    let row = |offer: &Offer| {
        let Outcome::Sized(sized) = &offer.outcome else { return None };
        let mut row = named(offer, has_setting);
        if has_growth {
            row.extend(sized.later.iter().map(|later| instances(later.instances)));
        }
        if has_price {
            let costs =
                sized.cost.map(|cost| [cost.per_month, cost.per_million].map(|cost| span(cost, money)));
            row.extend(costs.unwrap_or_else(|| [Entry::text("n/a"), Entry::text("n/a")]));
        }
        Some(row)
    };
    let rows: Vec<_> = sizing.offers.iter().filter_map(row).collect();
    let caption = "Growth and costs".into();
    ((has_growth || has_price) && !rows.is_empty()).then_some(Table { caption, columns, rows })
}

/// The columns that identify an instance type. The flag is true if one of them is `Instance type`; otherwise, the only
/// column is `Gateway`.
fn names(sizing: &Sizing) -> (Vec<Column>, bool) {
    let has_setting = sizing.offers.iter().any(|offer| !offer.setting.is_empty());
    let mut columns = vec![Column::text("Gateway", KEEP)];
    columns.extend(has_setting.then(|| Column::text("Instance type", KEEP)));
    (columns, has_setting)
}

fn named(offer: &Offer, has_setting: bool) -> Vec<Entry> {
    let mut row = vec![Entry::gateway(&offer.gateway)];
    row.extend(has_setting.then(|| Entry::text(offer.setting.clone())));
    row
}

fn entries(sized: &Sized) -> [Entry; 4] {
    let is_ceiling = sized.basis == Basis::AtLeast;
    [
        if is_ceiling {
            one_side(format!("≥ {}", rate(sized.rate_per_s.low)))
        } else {
            span(sized.rate_per_s, rate)
        },
        Entry::text(sized.cpu_share.map_or_else(|| "n/a".to_owned(), percent)),
        if is_ceiling {
            one_side(format!("≤ {}", count(sized.instances.high)))
        } else {
            instances(sized.instances)
        },
        match sized.basis {
            Basis::Measured => Entry::text("measured"),
            Basis::AtLeast => Entry::text("measured, at least"),
            Basis::Searched => Entry::text("searched"),
            Basis::Extrapolated => chip("extrapolated", Tone::Bad),
        },
    ]
}

/// A number for which only one bound is known.
fn one_side(text: String) -> Entry {
    Entry { text, headline: true, ..Entry::default() }
}

fn chip(text: &str, tone: Tone) -> Entry {
    Entry::chips("", vec![Chip { text: text.into(), tone }])
}

fn span(of: Span, format: fn(f64) -> String) -> Entry {
    let text = format(of.value);
    let under = range(&text, &format(of.low), &format(of.high));
    Entry { text, under: Some(under), headline: true, ..Entry::default() }
}

fn instances(of: Count) -> Entry {
    let under = format!("{} .. {}", count(of.low), count(of.high));
    Entry { text: count(of.value), under: Some(under), headline: true, ..Entry::default() }
}

/// The notes about an instance type, each beginning with its name.
fn sentences(sizing: &Sizing, offer: &Offer) -> Vec<String> {
    let mut name = offer.gateway.clone();
    if !offer.setting.is_empty() {
        name = format!("{name} ({})", offer.setting);
    }
    if shared_bounds(sizing).is_none() {
        name = format!("{name}, {}", offer.bounds.iter().map(bound).collect::<Vec<_>>().join(", "));
    }
    match &offer.outcome {
        Outcome::Sized(sized) => sized.notes.iter().map(|note| format!("{name}: {note}.")).collect(),
        Outcome::Refused(refused) => vec![format!("{name}: {}: {}.", refused.words, refused.remedy)],
    }
}

fn legend(sizing: &Sizing) -> String {
    let cost = match sizing.demand.price {
        Some(Price { of, .. }) => format!(
            " Costs assume {HOURS_PER_MONTH} hours per month and the requested rate all month. The price is \
            per {}.",
            match of {
                PriceOf::Instance => "instance",
                PriceOf::Core => "core of the CPU limit",
            }
        ),
        None => String::new(),
    };
    format!(
        "The second line in a cell is the range that follows from the 95 % interval of the rate per instance.{cost}"
    )
}
