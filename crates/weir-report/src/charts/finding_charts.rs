//! Bar charts of findings. Each drawn column of a finding has a chart per load point, with a bar per gateway.

use weir_analysis::Summary;
use weir_analysis::findings::{Column, Finding, Row, Table, Value};

use crate::charts::colors::color_of;
use crate::charts::svg::Bar;
use crate::charts::sweep::slug;
use crate::model::scale::Unit;

/// The bars of one column of a finding at one load point.
pub(crate) struct BarChart<'a> {
    /// The key of the finding; empty for charts of load points.
    pub(crate) finding: &'static str,
    pub(crate) id: String,
    pub(crate) title: String,
    /// The load and the values of the axes.
    pub(crate) setting: String,
    pub(crate) unit: Unit,
    pub(crate) bars: Vec<Bar<'a>>,
}

/// The bar charts of all findings that have a section.
pub(crate) fn charts(summary: &Summary) -> Vec<BarChart<'_>> {
    let of_table = |finding, table| of_table(summary, finding, table);
    let findings = summary.findings.iter().filter(|finding| finding.has_section);
    findings.flat_map(|of| of.tables.iter().flat_map(move |table| of_table(of, table))).collect()
}

fn of_table<'a>(summary: &Summary, finding: &Finding, table: &'a Table) -> Vec<BarChart<'a>> {
    let mut places: Vec<String> = Vec::new();
    for place in table.rows.iter().map(Row::place) {
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let drawn = table.columns.iter().enumerate().filter(|(_, column)| column.drawn);
    let chart = |(at, column): (usize, &'static Column), place: &String| {
        let rows = table.rows.iter().filter(|row| row.place() == *place);
        let bar = |row: &'a Row| match &row.values[at] {
            Value::Figure { figure } if figure.mean.is_some() || figure.beyond_timeout => {
                Some(Bar { name: &row.gateway, color: color_of(summary, &row.gateway), figure })
            }
            _ => None,
        };
        BarChart {
            finding: finding.key,
            id: format!("{}-{}-{}", finding.key, column.key.replace('_', "-"), slug(place)),
            title: column.title.to_owned(),
            setting: place.clone(),
            unit: Unit::from(column.unit),
            bars: rows.filter_map(bar).collect(),
        }
    };
    let charts = drawn.flat_map(|drawn| places.iter().map(move |place| chart(drawn, place)));
    charts.filter(|chart| !chart.bars.is_empty()).collect()
}
