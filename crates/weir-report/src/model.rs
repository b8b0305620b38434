//! The report model: the content that all formats draw.

pub(crate) mod plot;
pub(crate) mod scale;

use serde::Serialize;

use crate::sections::unequal::Unequal;

/// A whole report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    /// The scenario's name.
    pub(crate) title: String,
    /// The scenario's question.
    pub(crate) question: String,
    /// The run's id.
    pub(crate) run_id: String,
    /// Start, duration, gateways, repeats, cells and host.
    pub(crate) facts: Vec<Fact>,
    /// How many headline results are valid, and the problems.
    pub(crate) verdict: Banner,
    /// The details of the verdict by cause, if there are many. The page folds them.
    pub(crate) causes: Vec<Cause>,
    /// The headline values of all gateways, one table per point of the axes.
    pub(crate) glances: Vec<Table>,
    /// Findings over several load points.
    pub(crate) sections: Vec<Section>,
    /// Load points.
    pub(crate) points: Vec<PointReport>,
    /// The objective, per load point and gateway.
    pub(crate) objective: Option<Table>,
    /// Every load of every cell, with its verdict.
    pub(crate) cells: Table,
    /// Cells that could not be measured.
    pub(crate) failed: Vec<FailedReport>,
    /// Differences between gateways that weir could not remove.
    pub(crate) unequal: Unequal,
    /// Parts of the rig, with version and hash.
    pub(crate) inventory: Table,
    /// The environment.
    pub(crate) manifest: Vec<Fact>,
    /// Explains the terms of the report.
    pub(crate) reading: Vec<Fact>,
}

/// A name and its text.
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

/// Details of a verdict that share one cause. Without a name, the details have different causes.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Cause {
    pub(crate) name: String,
    pub(crate) details: Vec<String>,
}

/// Good, bad, or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    Good,
    Bad,
    Plain,
}

/// A load point.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PointReport {
    /// `point-0`, for links and charts.
    pub(crate) id: String,
    /// `full`
    pub(crate) load: String,
    /// `closed loop, 10 connections; limits.data.cpus = 0.5`
    pub(crate) setting: String,
    /// Which values to quote from this load.
    pub(crate) purpose: String,
    /// Whether it is an open load.
    pub(crate) open: bool,
    pub(crate) conclusions: Vec<String>,
    pub(crate) tables: Vec<Table>,
    /// Tables that the page folds.
    pub(crate) folded: Vec<Table>,
}

/// Tables over several load points, with their conclusions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Section {
    /// `users-0`, for links.
    pub(crate) id: String,
    pub(crate) title: String,
    /// How to read the tables.
    pub(crate) intro: String,
    pub(crate) conclusions: Vec<String>,
    pub(crate) tables: Vec<Table>,
}

/// A cell that could not be measured.
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

/// A column.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Column {
    pub(crate) title: String,
    pub(crate) numeric: bool,
    /// Whether the entries are sentences, which a terminal prints below the table.
    pub(crate) prose: bool,
    /// A narrow terminal drops the columns with the lowest number first, and never those with [`KEEP`].
    #[serde(skip)]
    pub(crate) keep: u8,
}

/// Never dropped.
pub(crate) const KEEP: u8 = 9;

/// The content of one table cell.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Entry {
    pub(crate) text: String,
    /// A second, smaller line: the interval.
    pub(crate) under: Option<String>,
    /// Whether the value is a headline.
    pub(crate) headline: bool,
    /// Whether the value is excluded.
    pub(crate) void: bool,
    /// Whether fewer repeats are valid than a headline needs.
    pub(crate) few: bool,
    /// Whether plain formats mark `few`, see [`Report::mark_few`].
    pub(crate) marked: bool,
    pub(crate) chips: Vec<Chip>,
    /// A linked file, relative to the report folder.
    pub(crate) link: Option<String>,
    /// The gateway whose colour marks the row.
    pub(crate) gateway: Option<String>,
    /// The load point and the value that a sentence is about, if it is printed outside its row.
    pub(crate) of: Option<Fact>,
    /// Folded sentences.
    pub(crate) details: Vec<String>,
    /// Further rows below that it spans.
    pub(crate) spans: usize,
    /// Whether an entry above spans this row.
    pub(crate) covered: bool,
}

/// A verdict of a word or two, with a tone.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Chip {
    pub(crate) text: String,
    pub(crate) tone: Tone,
}

impl Report {
    /// Marks values with fewer valid repeats than a headline needs, for formats without bold text.
    pub(crate) fn mark_few(&mut self) {
        let of_sections = self.sections.iter_mut().flat_map(|section| &mut section.tables);
        let of_points =
            self.points.iter_mut().flat_map(|point| point.tables.iter_mut().chain(&mut point.folded));
        let tables = self.glances.iter_mut().chain(of_sections).chain(of_points);
        for entry in tables.flat_map(|table| &mut table.rows).flatten() {
            entry.marked = entry.few && !entry.void;
        }
    }

    /// Whether any value is printed with its interval.
    pub(crate) fn has_intervals(&self) -> bool {
        let of_sections = self.sections.iter().flat_map(|section| &section.tables);
        let of_points = self.points.iter().flat_map(|point| &point.tables);
        let tables = self.glances.iter().chain(of_sections).chain(of_points);
        tables.flat_map(|table| &table.rows).flatten().any(|entry| entry.under.is_some())
    }

    /// Explains how plain formats mark values; `mark` is the mark as they write it.
    pub(crate) fn legend(&self, mark: &str) -> String {
        let of_sections = self.sections.iter().flat_map(|section| &section.tables);
        let of_points = self.points.iter().flat_map(|point| point.tables.iter().chain(&point.folded));
        let mut entries =
            self.glances.iter().chain(of_sections).chain(of_points).flat_map(|table| &table.rows).flatten();
        let few = match entries.any(|entry| entry.marked) {
            true => format!(" {mark}: fewer than three valid repeats, so no headline."),
            false => String::new(),
        };
        format!("In parentheses: excluded, with the reason in the table of all loads.{few}")
    }
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
    /// Joins groups of rows. In the columns `merged`, the entry of a group's first row spans the group.
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

    /// The text as plain formats print it: excluded values in parentheses, values from few repeats with a mark.
    pub(crate) fn plain(&self) -> String {
        match (self.void, self.marked) {
            (true, _) => format!("({})", self.text),
            (false, true) => format!("{}*", self.text),
            (false, false) => self.text.clone(),
        }
    }

    /// The chips as plain formats print them.
    pub(crate) fn plain_chips(&self) -> String {
        self.chips.iter().map(|chip| chip.text.as_str()).collect::<Vec<_>>().join(", ")
    }
}
