//! The model of a finding: tables of typed values by gateway and axes, sentences, and charted columns.
//!
//! All outputs use findings without knowing the experiment: terminal, HTML, Markdown, CSV, JSON, `compare` and gates. A
//! new experiment is a finder that fills this model.

use serde::Serialize;
use weir_results::Reason;

use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity;
use crate::points;
use crate::points::axes::{Axes, at_axes};
use crate::verdicts::reasons::reason_times;

/// The results of a run for one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its name in files and on command lines: `failover`.
    pub key: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How it was measured and how to read it.
    pub intro: String,
    /// Conclusions, one sentence each.
    pub sentences: Vec<String>,
    /// Its values.
    pub tables: Vec<Table>,
    /// Load points at which the experiment causes errors and overload on purpose.
    #[serde(skip)]
    pub breaks: Vec<Place>,
    /// Whether reports print it as its own section; `false` if another section shows more.
    #[serde(skip)]
    pub has_section: bool,
}

/// A load at one point of the axes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Values of the axes.
    pub axes: Axes,
    /// The load's name.
    pub load: String,
}

/// A table with a row for each gateway at each place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Its heading.
    pub caption: String,
    /// Its columns, one per value of a row.
    pub columns: &'static [Column],
    /// Its rows, in the order of load points and then of gateways.
    pub rows: Vec<Row>,
}

/// A column.
#[derive(Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name in files: `memory_per_client`.
    pub key: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Unit of its numbers.
    pub unit: Unit,
    /// Whether lower or higher is better; `None` for text and for counts of the load itself.
    pub better: Option<Better>,
    /// Importance in narrow terminals, from 1; columns of [`KEEP`] are never left out.
    #[serde(skip)]
    pub keep: u8,
    /// How `weir compare` judges it; `None` if not compared.
    #[serde(skip)]
    pub compared: Option<Compared>,
    /// Whether it is drawn as bars with intervals, one chart for each place.
    #[serde(skip)]
    pub drawn: bool,
    /// Text in tables if a repeat lies beyond the measured range.
    #[serde(skip)]
    pub beyond: &'static str,
    /// Meaning of a repeat without a value, for the gateway; empty if it has none.
    #[serde(skip)]
    pub absent: &'static str,
    /// Text in tables instead of zero; empty to print the number.
    #[serde(skip)]
    pub zero: &'static str,
    /// Whether tables show its values without their intervals.
    #[serde(skip)]
    pub bare: bool,
    /// Whether it precedes the gateway column, printed once for adjacent rows with the same value.
    #[serde(skip)]
    pub leads: bool,
    /// Whether adjacent rows of a gateway with the same values in all such columns print them once.
    #[serde(skip)]
    pub once: bool,
}

/// The importance of columns that stay in every terminal.
pub const KEEP: u8 = 9;

/// How `weir compare` judges a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Its name on command lines: `failover.p99`.
    pub metric: &'static str,
    /// Margin, as share: smaller differences count as the same.
    pub margin: f64,
    /// Resolution in the unit of the column: values below it count as equal.
    pub resolution: Option<f64>,
    /// Whether it gets a verdict by default.
    pub by_default: bool,
    /// Whether it is CPU time of a load, which depends on load point and host speed.
    pub cpu_time: bool,
}

/// The better direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Lower values are better.
    Lower,
    /// Higher values are better.
    Higher,
}

/// The unit of a column's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Text.
    Text,
    /// Whole sentences.
    Prose,
    /// The load and its axes, as text.
    Load,
    /// A count.
    Count,
    /// A number without unit.
    Number,
    /// A number without unit, however small.
    Coefficient,
    /// Events per second.
    PerSecond,
    /// Requests per day.
    PerDay,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A share, 1 is all.
    Share,
    /// Cores.
    Cores,
}

/// A gateway's values at one place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The gateway's name.
    pub gateway: String,
    /// The load's name; empty for values without a load.
    pub load: String,
    /// Values of the axes, and further keys of the row: the fault, the kind of client.
    pub axes: Axes,
    /// One for each column.
    pub values: Vec<Value>,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Value {
    /// It does not apply to this row.
    Missing,
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An exact number, without interval.
    Number {
        /// The number, in the unit of the column; `None` if not measured, with the reason in `words`.
        number: Option<f64>,
        /// Text in tables instead of the number.
        #[serde(skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// A value of one repeat or of a fit, not over repeats.
    Estimate {
        /// The value, in the unit of the column.
        sample: Sample,
        /// Its own interval, at 95 % unless the finding names another confidence; `None` without one.
        interval: Option<[f64; 2]>,
        /// Whether it is valid.
        valid: bool,
    },
    /// A part of a total.
    Part {
        /// The part.
        part: u64,
        /// The total.
        of: u64,
    },
    /// A value over repeats, with its interval and validity.
    Figure {
        /// The value.
        figure: Figure,
    },
    /// Minimum and maximum of many values; not an interval.
    Extremes {
        /// The minimum.
        least: f64,
        /// The maximum.
        greatest: f64,
        /// Whether they are valid.
        valid: bool,
    },
    /// The number of valid repeats.
    Valid {
        /// Valid repeats.
        valid: usize,
        /// Repeats that were planned.
        planned: usize,
        /// Why the others are invalid, and whether the reason is expected at this load.
        reasons: Vec<(String, bool)>,
    },
}

impl Finding {
    /// An empty finding.
    pub(crate) fn new(key: &'static str, title: &'static str, intro: impl Into<String>) -> Self {
        let (sentences, tables, breaks) = (Vec::new(), Vec::new(), Vec::new());
        Self { key, title, intro: intro.into(), sentences, tables, breaks, has_section: true }
    }
}

impl Place {
    /// The load and its axes in words: `tail; limits.data.cpus = 0.5`.
    pub fn words(&self) -> String {
        at_axes(&self.load, &self.axes)
    }
}

impl Row {
    /// The load and its axes in words.
    pub fn place(&self) -> String {
        at_axes(&self.load, &self.axes)
    }

    /// The same without axes that have a column in the table, or a column for their parent: `limits.control` for
    /// `limits.control.cpus`.
    pub fn place_beside(&self, columns: &[Column]) -> String {
        let is_below =
            |path: &str, key: &str| path.strip_prefix(key).is_some_and(|rest| rest.starts_with('.'));
        let is_shown =
            |path: &String| columns.iter().any(|column| column.key == *path || is_below(path, column.key));
        let axes = self.axes.iter().filter(|(path, _)| !is_shown(path));
        at_axes(&self.load, &axes.map(|(path, value)| (path.clone(), value.clone())).collect())
    }
}

impl Column {
    /// A column that is neither compared nor drawn.
    pub(crate) const fn of(key: &'static str, title: &'static str, unit: Unit, keep: u8) -> Self {
        Self {
            key,
            title,
            unit,
            better: None,
            keep,
            compared: None,
            drawn: false,
            beyond: "> timeout",
            absent: "",
            zero: "",
            bare: false,
            leads: false,
            once: false,
        }
    }

    /// The same, with lower values better.
    pub(crate) const fn lower(self) -> Self {
        Self { better: Some(Better::Lower), ..self }
    }

    /// The same, with higher values better.
    pub(crate) const fn higher(self) -> Self {
        Self { better: Some(Better::Higher), ..self }
    }

    /// The same, compared as `metric` on request; differences up to `margin` count as the same.
    pub(crate) const fn compared(self, metric: &'static str, margin: f64) -> Self {
        let compared = Compared { metric, margin, resolution: None, by_default: false, cpu_time: false };
        Self { compared: Some(compared), ..self }
    }

    /// The same, compared by default.
    pub(crate) const fn judged(self, metric: &'static str, margin: f64) -> Self {
        let compared = Compared { metric, margin, resolution: None, by_default: true, cpu_time: false };
        Self { compared: Some(compared), ..self }
    }

    /// The same, as CPU time of a load; call `compared` first.
    pub(crate) const fn cpu_time(self) -> Self {
        let compared = match self.compared {
            Some(compared) => Some(Compared { cpu_time: true, ..compared }),
            None => None,
        };
        Self { compared, ..self }
    }

    /// The same, with this resolution; call `compared` first.
    pub(crate) const fn above(self, resolution: f64) -> Self {
        let compared = match self.compared {
            Some(compared) => Some(Compared { resolution: Some(resolution), ..compared }),
            None => None,
        };
        Self { compared, ..self }
    }

    /// The same, with `words` for a repeat beyond the measured range.
    pub(crate) const fn beyond(self, words: &'static str) -> Self {
        Self { beyond: words, ..self }
    }

    /// The same, with `words` for a repeat without a value.
    pub(crate) const fn absent(self, words: &'static str) -> Self {
        Self { absent: words, ..self }
    }

    /// The same, with `words` for zero.
    pub(crate) const fn zero(self, words: &'static str) -> Self {
        Self { zero: words, ..self }
    }

    /// The same, without intervals in tables.
    pub(crate) const fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// The same, before the gateway column.
    pub(crate) const fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// The same, shown once for adjacent rows of a gateway.
    pub(crate) const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// A value of this column in words.
    pub fn words(&self, value: f64) -> String {
        if value.abs() < 0.5 && !self.zero.is_empty() { self.zero.to_owned() } else { self.unit.words(value) }
    }

    /// The same, drawn as bars.
    pub(crate) const fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }
}

impl Unit {
    /// A value with its unit, in words.
    pub fn words(self, value: f64) -> String {
        match self {
            Self::Text | Self::Prose | Self::Load | Self::Number => quantity::number(value),
            Self::Coefficient if value == 0.0 => "0".into(),
            Self::Coefficient => format!("{value:.2e}"),
            Self::Count => quantity::count(value as u64),
            Self::PerSecond => quantity::rate(value),
            Self::PerDay => format!("{} million", quantity::number(value / 1e6)),
            Self::Nanoseconds => quantity::time_ns(value),
            Self::Microseconds => quantity::time_ns(value * 1e3),
            Self::Seconds => quantity::time_ns(value * 1e9),
            Self::Bytes => quantity::bytes(value),
            Self::BytesPerSecond => format!("{} MB/s", quantity::number(value / 1e6)),
            Self::Share => quantity::percent(value),
            Self::Cores => quantity::cores(value),
        }
    }

    /// Its suffix of column names in files: `ns`; empty for text and plain numbers.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Text | Self::Prose | Self::Load | Self::Count | Self::Number | Self::Coefficient => "",
            Self::PerSecond => "per_s",
            Self::PerDay => "per_day",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::BytesPerSecond => "bytes_per_s",
            Self::Share => "share",
            Self::Cores => "cores",
        }
    }
}

impl Value {
    /// Text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An exact number.
    pub(crate) fn number(number: f64) -> Self {
        Self::Number { number: Some(number), words: None }
    }

    /// A count.
    pub(crate) fn count(count: u64) -> Self {
        Self::number(count as f64)
    }

    /// A value over repeats.
    pub(crate) fn figure(figure: &Figure) -> Self {
        Self::Figure { figure: figure.clone() }
    }

    /// A value over repeats, or missing.
    pub(crate) fn optional(figure: Option<&Figure>) -> Self {
        figure.map_or(Self::Missing, Self::figure)
    }

    /// A valid value that is not over repeats.
    pub(crate) fn estimate(value: f64, interval: Option<[f64; 2]>) -> Self {
        Self::Estimate { sample: Sample::Value(value), interval, valid: true }
    }

    /// The number of valid repeats of `figure`.
    pub(crate) fn valid(figure: &Figure, is_expected: bool) -> Self {
        Self::valid_of(figure, figure.repeats.len(), is_expected)
    }

    /// The number of valid repeats of `figure`, out of `planned`.
    pub(crate) fn valid_of(figure: &Figure, planned: usize, is_expected: bool) -> Self {
        let measured = figure.repeats.len();
        let name = |(reason, n)| (reason_times(reason, n, measured), is_expected);
        let reasons = figure.reasons().into_iter().map(name).collect();
        Self::valid_because(figure, planned, reasons)
    }

    /// The number of valid repeats of `figure`, out of `planned`, with the reasons of the others and whether each is
    /// expected.
    pub(crate) fn valid_because(figure: &Figure, planned: usize, mut reasons: Vec<(String, bool)>) -> Self {
        let measured = figure.repeats.len();
        if measured < planned {
            reasons.push((format!("{} missing", planned - measured), false));
        }
        Self::Valid { valid: figure.valid, planned, reasons }
    }

    /// The number of valid repeats of `figure`, a value of `row`. Expected reasons are throttling of a closed loop, and
    /// a direct baseline limited by the rig.
    pub fn valid_of_row(row: &points::Row, figure: &Figure, is_closed: bool) -> Self {
        let measured = figure.repeats.len();
        let name = |(reason, n): (Reason, usize)| {
            let by_the_rig = matches!(reason, Reason::GeneratorLimited | Reason::UpstreamLimited);
            let is_expected = (row.is_direct() && by_the_rig) || (is_closed && reason == Reason::Throttled);
            (reason_times(reason, n, measured), is_expected)
        };
        let reasons = figure.reasons().into_iter().map(name).collect();
        Self::valid_because(figure, row.planned, reasons)
    }

    /// Its number: the mean over repeats, or the share of a part.
    pub fn as_number(&self) -> Option<f64> {
        match self {
            Self::Missing | Self::Text { .. } | Self::Extremes { .. } | Self::Valid { .. } => None,
            Self::Number { number, .. } => *number,
            Self::Part { part, of } => (*of > 0).then(|| *part as f64 / *of as f64),
            Self::Estimate { sample, .. } => match sample {
                Sample::Value(value) => Some(*value),
                Sample::BeyondTimeout | Sample::Missing => None,
            },
            Self::Figure { figure } => figure.mean,
        }
    }
}
