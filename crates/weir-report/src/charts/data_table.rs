//! The values of a chart as a table, for screen readers and for the download as CSV.

use std::fmt::Write as _;

use crate::charts::heat::{HeatMap, QUANTILES, moment};
use crate::charts::svg::{Bar, escape};
use crate::model::plot::{Line, Marks, Panel, Plot, Spot};
use crate::model::scale::{Scale, Unit};

/// A table of numbers. The headings of its columns contain the units.
#[derive(Debug, Default)]
pub(crate) struct DataTable {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl DataTable {
    /// A table with one row per bar.
    pub(crate) fn of_bars(title: &str, unit: Unit, bars: &[Bar<'_>]) -> Self {
        let row = |bar: &Bar<'_>| {
            let (mean, ends) = (bar.figure.mean, bar.figure.ends());
            let ends = ends.map(|[low, high]| [unit.in_column(low), unit.in_column(high)]);
            let mean = mean.map_or_else(|| "> timeout".into(), |mean| unit.in_column(mean));
            let [low, high] = ends.unwrap_or_default();
            vec![bar.name.to_owned(), mean, low, high, yes(bar.figure.is_valid())]
        };
        let columns = ["gateway", &unit.heading(title), "low", "high", "valid"].map(str::to_owned).to_vec();
        Self { columns, rows: bars.iter().map(row).collect() }
    }

    /// A table of the values of a chart. Charts of lines have one row per position, with the values of all lines.
    /// Other charts have one row per value.
    pub(crate) fn of_plot(plot: &Plot) -> Self {
        let mut table = match plot.marks {
            Marks::Lines => steps(plot),
            Marks::Dots | Marks::Bars => values(plot),
        };
        if plot.panels.len() < 2 {
            // A column with the name of the panel is only needed if there are several panels.
            table.columns.remove(0);
            table.rows.iter_mut().for_each(|row| drop(row.remove(0)));
        }
        table
    }

    /// A table with the quantiles of each time step of each heat map.
    pub(crate) fn of_heat(maps: &[HeatMap<'_>]) -> Self {
        let ns = Unit::Nanoseconds;
        let rows = maps.iter().flat_map(|map| {
            map.quantiles().enumerate().map(|(column, quantiles)| {
                let (from, to) = map.step(column);
                let times = [from, to].map(|at| moment(at).to_string());
                let quantiles = quantiles.map(|of| of.map(|of| ns.in_column(of as f64)).unwrap_or_default());
                std::iter::once(map.gateway.to_owned()).chain(times).chain(quantiles).collect()
            })
        });
        let heads = ["gateway", "from, s", "to, s"].map(str::to_owned).into_iter();
        let columns = heads.chain(QUANTILES.map(|name| ns.heading(name))).collect();
        Self { columns, rows: rows.collect() }
    }

    /// The table as an HTML element. Optional end tags and the `scope` attributes of row headings are left out, because
    /// a large run has 100,000 table cells.
    pub(crate) fn html(&self) -> String {
        let mut out = String::from("<table><thead><tr>");
        for column in &self.columns {
            let _ = write!(out, "<th scope=\"col\">{}</th>", escape(column));
        }
        out.push_str("</tr></thead><tbody>");
        for row in &self.rows {
            for (place, cell) in row.iter().enumerate() {
                out.push_str(if place == 0 { "<tr>\n<th>" } else { "<td>" });
                out.push_str(&escape(cell));
            }
        }
        out.push_str("</tbody></table>");
        out
    }
}

fn steps(plot: &Plot) -> DataTable {
    let known: Vec<&Line> = plot.legend();
    let lines: Vec<&Line> = known.iter().copied().filter(|line| line.marked).collect();
    let has_events = known.len() > lines.len();
    let mut columns = vec!["panel".to_owned(), plot.x.unit.heading(&plot.x.title)];
    columns.extend(lines.iter().map(|line| plot.y.unit.heading(&line.name)));
    columns.extend(has_events.then(|| "events".to_owned()));
    let mut rows = Vec::new();
    for panel in &plot.panels {
        let steps = panel.steps();
        for (place, step) in steps.iter().enumerate() {
            let here: Vec<(&str, &Spot)> = panel
                .marked()
                .zip(&step.spots)
                .filter_map(|(line, spot)| Some((line.name.as_str(), (*spot)?)))
                .collect();
            let value = |line: &&Line| {
                let (_, spot) = here.iter().find(|(name, _)| *name == line.name)?;
                Some(plot.y.unit.in_column(spot.y?))
            };
            let mut row = vec![panel.title.clone(), plot.x.unit.in_column(step.at)];
            row.extend(lines.iter().map(|line| value(line).unwrap_or_default()));
            // Steps reach to the middle between neighbours.
            let before = place.checked_sub(1).map_or(f64::NEG_INFINITY, |before| steps[before].at);
            let next = steps.get(place + 1).map_or(f64::INFINITY, |next| next.at);
            let (from, to) = (before.midpoint(step.at), step.at.midpoint(next));
            row.extend(has_events.then(|| events(panel, &plot.x, from, to)));
            rows.push(row);
        }
    }
    DataTable { columns, rows }
}

/// The names and times of the events between `from` and `to`: the vertical lines of the panel.
fn events(panel: &Panel, x: &Scale, from: f64, to: f64) -> String {
    let mut names: Vec<String> = Vec::new();
    for line in panel.lines.iter().filter(|line| !line.marked) {
        let mut places: Vec<f64> = line.spots.iter().map(|spot| spot.x).collect();
        places.dedup();
        places.retain(|at| (from..to).contains(at));
        names.extend(places.iter().map(|at| format!("{} at {}", line.name, x.unit.words(*at))));
    }
    names.join("; ")
}

fn values(plot: &Plot) -> DataTable {
    let heads = ["panel".into(), "series".into(), plot.x.unit.heading(&plot.x.title)];
    let more = [plot.y.unit.heading(&plot.y.title), "low".into(), "high".into(), "valid".into()];
    let columns = heads.into_iter().chain(more).chain(["details".into()]).collect();
    let row = |panel: &Panel, line: &Line, spot: &Spot| {
        let [low, high] =
            spot.interval.map(|ends| ends.map(|end| plot.y.unit.in_column(end))).unwrap_or_default();
        let beyond = if spot.beyond_timeout { "> timeout" } else { "" };
        let y = spot.y.map_or_else(|| beyond.to_owned(), |y| plot.y.unit.in_column(y));
        let valid = if line.marked { yes(spot.counts) } else { String::new() };
        let x = place(&plot.x, spot.x);
        vec![panel.title.clone(), line.name.clone(), x, y, low, high, valid, spot.words.clone()]
    };
    let rows = plot.panels.iter().flat_map(|panel| {
        panel.lines.iter().flat_map(move |line| {
            let spots = line.spots.iter().filter(|spot| spot.y.is_some() || spot.beyond_timeout);
            spots.map(move |spot| row(panel, line, spot))
        })
    });
    DataTable { columns, rows: rows.collect() }
}

/// Formats a position on a scale: as its label if the tick marks are names, otherwise as its value.
fn place(x: &Scale, at: f64) -> String {
    let label = x.ticks.iter().find(|tick| tick.at == at && x.unit == Unit::Plain);
    label.map_or_else(|| x.unit.in_column(at), |tick| tick.label.clone())
}

fn yes(is_valid: bool) -> String {
    if is_valid { "yes" } else { "no" }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, spots: &[(f64, f64)]) -> Line {
        Line {
            name: name.into(),
            color: "blue",
            dashed: false,
            marked: true,
            spots: spots.iter().map(|(x, y)| Spot::at(*x, Some(*y))).collect(),
        }
    }

    fn plot(lines: Vec<Line>) -> Plot {
        Plot {
            section: "",
            note: "",
            id: String::new(),
            title: String::new(),
            setting: String::new(),
            x: Scale::from_zero("time", Unit::Seconds, 3.0),
            y: Scale::from_zero("rate", Unit::PerSecond, 10.0),
            marks: Marks::Lines,
            shade_to: None,
            panels: vec![Panel { title: String::new(), lines }],
        }
    }

    #[test]
    fn clocks_that_differ_a_little_share_a_row() {
        let lines = vec![
            line("a", &[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]),
            line("<b>", &[(0.02, 4.0), (1.03, 5.0), (2.01, 6.0)]),
            Line { marked: false, ..line("change", &[(1.7, 0.0), (1.7, 10.0)]) },
        ];
        let table = DataTable::of_plot(&plot(lines));
        assert_eq!(table.columns, ["time, s", "a, 1/s", "<b>, 1/s", "events"]);
        let expected = [["0", "1", "4", ""], ["1", "2", "5", ""], ["2", "3", "6", "change at 1.7 s"]];
        assert_eq!(table.rows, expected.map(|row| row.map(str::to_owned).to_vec()));
        let html = table.html();
        assert!(html.contains("&lt;b&gt;, 1/s</th>") && html.contains("<tr>\n<th>1<td>2<td>5"));
    }

    #[test]
    fn a_value_has_its_interval_and_its_details() {
        let interval =
            Spot { interval: Some([1.0, 3.0]), words: "a at 1".into(), ..Spot::at(1.0, Some(2.0)) };
        let beyond = Spot { beyond_timeout: true, ..Spot::at(2.0, None) };
        let mut plot = plot(vec![Line { spots: vec![interval, beyond], ..line("a", &[]) }]);
        plot.marks = Marks::Dots;
        plot.panels.push(Panel { title: "more".into(), lines: vec![line("a", &[(1.0, 9.0)])] });
        let table = DataTable::of_plot(&plot);
        assert_eq!(table.columns[..3], ["panel", "series", "time, s"]);
        assert_eq!(table.rows[0], ["", "a", "1", "2", "1", "3", "yes", "a at 1"]);
        assert_eq!(table.rows[1][3], "> timeout");
        assert_eq!(table.rows[2][..4], ["more", "a", "1", "9"]);
    }
}
