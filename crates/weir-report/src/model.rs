//! The model of a report: the content that each format (HTML, Markdown, terminal) draws.

pub(crate) mod plot;
pub(crate) mod scale;

use serde::Serialize;

use crate::sections::unequal::Unequal;

/// A whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// Name of the scenario.
    pub(crate) title: String,
    /// The question that the scenario asks.
    pub(crate) question: String,
    /// ID of the run.
    pub(crate) run_id: String,
    /// Start, duration, gateways, repeats, cells and host.
    pub(crate) facts: Vec<Fact>,
    /// How many main results are valid, and which problems the run had.
    pub(crate) verdict: Banner,
    /// The problems of the verdict, grouped by cause, if there are many. The HTML page folds them.
    pub(crate) causes: Vec<Cause>,
    /// The headline values of all gateways, with one table for each combination of values of the axes.
    pub(crate) glances: Vec<Table>,
    /// Findings that compare several load points.
    pub(crate) sections: Vec<Section>,
    /// The results of each load point: one load at one combination of values of the axes.
    pub(crate) points: Vec<PointReport>,
    /// Whether each gateway met the objective at each load point; `None` without an objective.
    pub(crate) objective: Option<Table>,
    /// All loads of all cells, each with its verdict.
    pub(crate) cells: Table,
    /// Cells without measurements because something failed.
    pub(crate) failed: Vec<FailedReport>,
    /// Differences between gateways that weir could not remove.
    pub(crate) unequal: Unequal,
    /// The parts of the rig, each with its version and hash.
    pub(crate) inventory: Table,
    /// The environment of the run: host, kernel, software versions.
    pub(crate) manifest: Vec<Fact>,
    /// Explanations of the terms that the report uses.
    pub(crate) reading: Vec<Fact>,
}

/// A named text in a report, such as a kernel version or the explanation of a term.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Fact {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// The verdict at the top of the report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Banner {
    pub(crate) tone: Tone,
    pub(crate) headline: String,
    pub(crate) details: Vec<String>,
}

/// Problems that have the same cause. If the name is empty, the list mixes several causes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cause {
    pub(crate) name: String,
    pub(crate) details: Vec<String>,
}

/// The tone of a text: good, bad or neutral. It decides the colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    Good,
    Bad,
    Plain,
}

/// The results of one load point.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PointReport {
    /// ID of the load point's element in the page, such as `point-0`; for links and charts.
    pub(crate) id: String,
    /// Name of the load, like `full`.
    pub(crate) load: String,
    /// The load and the values of the axes, like `closed loop, 10 connections; limits.data.cpus = 0.5`.
    pub(crate) setting: String,
    /// Explains which values of this load may be quoted.
    pub(crate) purpose: String,
    /// Whether the load is an open loop.
    pub(crate) open: bool,
    pub(crate) conclusions: Vec<String>,
    pub(crate) tables: Vec<Table>,
    /// Tables that the HTML page folds.
    pub(crate) folded: Vec<Table>,
}

/// Tables that compare several load points, and what follows from them.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Section {
    /// ID of the section's element in the page, for links.
    pub(crate) id: String,
    pub(crate) title: String,
    /// Explains how to read the tables.
    pub(crate) intro: String,
    pub(crate) conclusions: Vec<String>,
    pub(crate) tables: Vec<Table>,
}

/// A failed cell, which has no measurements.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FailedReport {
    pub(crate) cell: String,
    pub(crate) cause: String,
    pub(crate) message: String,
    pub(crate) remedy: String,
    pub(crate) log_tail: String,
}

/// A table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Entry>>,
}

/// A column of a table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) numeric: bool,
    /// Whether the entries are sentences, which a terminal prints below the table.
    pub(crate) prose: bool,
    /// Importance of the column, from 0 to [`KEEP`]. A narrow terminal drops the least important columns first. It
    /// never drops columns with [`KEEP`].
    #[serde(skip)]
    pub(crate) keep: u8,
}

/// Importance of a column that is never dropped.
pub(crate) const KEEP: u8 = 9;

/// The content of one cell of a table.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Entry {
    pub(crate) text: String,
    /// The confidence interval, drawn below the text in a smaller font.
    pub(crate) under: Option<String>,
    /// Whether the value is a headline, which is drawn in bold.
    pub(crate) headline: bool,
    /// Whether the value is invalid and excluded.
    pub(crate) invalid: bool,
    /// Whether fewer repeats are valid than a headline needs.
    pub(crate) few: bool,
    /// Whether formats without bold text mark this value, because it is `few`. Set by [`Report::mark_few`].
    pub(crate) marked: bool,
    pub(crate) chips: Vec<Chip>,
    /// The file that the text links to, relative to the report folder.
    pub(crate) link: Option<String>,
    /// The gateway whose colour marks the row of the table.
    pub(crate) gateway: Option<String>,
    /// The load point and the metric to which the text applies, for formats that print the text outside of its table
    /// row.
    pub(crate) of: Option<Fact>,
    /// Sentences that the HTML page folds.
    pub(crate) details: Vec<String>,
    /// Number of further rows that the entry covers, below its own row.
    pub(crate) spans: usize,
    /// Whether an entry above covers this one. Covered entries are not drawn.
    pub(crate) covered: bool,
}

/// A verdict of one or two words with a tone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Chip {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Report {
    /// Marks values with too few valid repeats for a headline, for formats without bold text.
    pub(crate) fn mark_few(&mut self) {
        let of_sections = self.sections.iter_mut().flat_map(|section| &mut section.tables);
        let of_points =
            self.points.iter_mut().flat_map(|point| point.tables.iter_mut().chain(&mut point.folded));
        let tables = self.glances.iter_mut().chain(of_sections).chain(of_points);
        for entry in tables.flat_map(|table| &mut table.rows).flatten() {
            entry.marked = entry.few && !entry.invalid;
        }
    }

    /// Whether a table with results, or the table of all loads, has such an entry.
    pub(crate) fn has(&self, is: impl Fn(&Entry) -> bool) -> bool {
        self.tables().chain([&self.cells]).flat_map(|table| &table.rows).flatten().any(is)
    }

    /// The tables with results over repeats: glances, sections, and load points with their folded tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = &Table> {
        let of_sections = self.sections.iter().flat_map(|section| &section.tables);
        let of_points = self.points.iter().flat_map(|point| point.tables.iter().chain(&point.folded));
        self.glances.iter().chain(of_sections).chain(of_points)
    }
}

/// The legend of a plain format: those of its sentences on intervals, invalid values and values from few repeats that
/// apply to the entries `drawn`.
pub(crate) fn legend<'a>(
    drawn: impl Iterator<Item = &'a Entry>,
    [intervals, invalid, few]: [&str; 3],
) -> String {
    let entries: Vec<&Entry> = drawn.collect();
    let has = |is: fn(&Entry) -> bool| entries.iter().any(|entry| is(entry));
    let marks = [
        (has(|entry| entry.under.is_some()), intervals),
        (has(|entry| entry.invalid), invalid),
        (has(|entry| entry.marked), few),
    ];
    marks.into_iter().filter(|(is_drawn, _)| *is_drawn).map(|(_, words)| words).collect::<Vec<_>>().join(" ")
}

impl Fact {
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into() }
    }
}

impl Column {
    pub(crate) fn text(title: &str, keep: u8) -> Self {
        Self { title: title.to_owned(), numeric: false, prose: false, keep }
    }

    pub(crate) fn prose(title: &str) -> Self {
        Self { title: title.to_owned(), numeric: false, prose: true, keep: KEEP }
    }

    pub(crate) fn number(title: &str, keep: u8) -> Self {
        Self { title: title.to_owned(), numeric: true, prose: false, keep }
    }
}

impl Table {
    /// Joins groups of rows into one list. In the columns `merged`, the first entry of a group covers all rows of the
    /// group.
    pub(crate) fn merged(groups: Vec<Vec<Vec<Entry>>>, merged: &[usize]) -> Vec<Vec<Entry>> {
        let mut rows = Vec::new();
        for mut group in groups {
            let below = group.len().saturating_sub(1);
            for (place, row) in group.iter_mut().enumerate() {
                for column in merged {
                    match place {
                        0 => row[*column].spans = below,
                        _ => row[*column] = Entry { covered: true, ..Entry::default() },
                    }
                }
            }
            rows.extend(group);
        }
        rows
    }
}

impl Entry {
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    pub(crate) fn gateway(name: &str) -> Self {
        Self { text: name.to_owned(), gateway: Some(name.to_owned()), ..Self::default() }
    }

    pub(crate) fn chips(text: impl Into<String>, chips: Vec<Chip>) -> Self {
        Self { text: text.into(), chips, ..Self::default() }
    }

    /// The text for plain formats: excluded values in parentheses, and values from few repeats with an asterisk.
    pub(crate) fn plain(&self) -> String {
        match (self.invalid, self.marked) {
            (true, _) => format!("({})", self.text),
            (false, true) => format!("{}*", self.text),
            (false, false) => self.text.clone(),
        }
    }

    /// The texts of all chips, separated by commas, for plain formats such as Markdown.
    pub(crate) fn plain_chips(&self) -> String {
        self.chips.iter().map(|chip| chip.text.as_str()).collect::<Vec<_>>().join(", ")
    }
}
