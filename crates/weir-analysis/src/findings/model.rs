//! What a finding is: a table of typed values by gateway and axes, sentences, and which of its values are drawn.
//!
//! Every output consumes findings and knows no experiment by name: terminal, HTML, Markdown, CSV, JSON, `compare` and
//! gates. A new experiment is a finder that fills this model.

use serde::Serialize;
use weir_results::Reason;

use crate::figures::figure::{Figure, Sample};
use crate::figures::quantity;
use crate::points;
use crate::points::axes::{Axes, at_axes};
use crate::verdicts::reasons::reason_times;

/// What a run says about one question.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Its name in files and on command lines: `failover`.
    pub key: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// How it was measured and how to read it.
    pub intro: String,
    /// Sentences that the values imply.
    pub sentences: Vec<String>,
    /// Its values.
    pub tables: Vec<Table>,
    /// Load points at which errors and overload are expected: the experiment is there to cause them.
    #[serde(skip)]
    pub breaks: Vec<Place>,
    /// Whether reports draw it as a section of its own; `false` if it has one that shows more.
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

/// Values of one kind, a row for each gateway at each place.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What it is of, as heading.
    pub caption: String,
    /// What each value of a row is.
    pub columns: &'static [Column],
    /// Its rows, in the order of load points and then of gateways.
    pub rows: Vec<Row>,
}

/// What the values of a column are.
#[derive(Debug, PartialEq, Serialize)]
pub struct Column {
    /// Its name in files: `memory_per_client`.
    pub key: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// Unit of its numbers.
    pub unit: Unit,
    /// Which way is better; `None` for counts of the load itself and for text.
    pub better: Option<Better>,
    /// Importance in narrow terminals, from 1; columns of [`KEEP`] are never left out.
    #[serde(skip)]
    pub keep: u8,
    /// How `weir compare` judges it; `None` is not compared.
    #[serde(skip)]
    pub compared: Option<Compared>,
    /// Whether it is drawn as bars with intervals, one chart for each place.
    #[serde(skip)]
    pub drawn: bool,
    /// What tables show if a repeat lies beyond what was measured.
    #[serde(skip)]
    pub beyond: &'static str,
    /// What a repeat without a value says of the gateway; empty if it says nothing.
    #[serde(skip)]
    pub absent: &'static str,
    /// What tables show instead of zero; empty for the number.
    #[serde(skip)]
    pub zero: &'static str,
    /// Whether tables show its values without their intervals.
    #[serde(skip)]
    pub bare: bool,
    /// Whether it stands before the gateway, once for all rows of the same value.
    #[serde(skip)]
    pub leads: bool,
    /// Whether adjacent rows of a gateway that share the values of all such columns show them once.
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
    /// Differences up to this share count as the same.
    pub margin: f64,
    /// Values below this cannot be told apart, in the unit of the column: the sampling interval of a time.
    pub resolution: Option<f64>,
    /// Whether it gets a verdict unless other metrics are asked for.
    pub by_default: bool,
    /// Whether it is CPU time of a load, which depends on the load point and on the speed of the host.
    pub cpu_time: bool,
}

/// Which way is better.
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
    /// The load's name; empty where the values are of no load.
    pub load: String,
    /// Values of the axes, and what else tells rows of a gateway apart: the fault, the kind of client.
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
        /// The number, in the unit of the column; `None` was not measured, and `words` says why.
        number: Option<f64>,
        /// What tables show instead of the number.
        #[serde(skip_serializing_if = "Option::is_none")]
        words: Option<String>,
    },
    /// A value of one repeat, or of a fit: what is no value over repeats.
    Estimate {
        /// The value, in the unit of the column.
        sample: Sample,
        /// Its own interval, at 95 % unless the finding names another confidence; `None` without one.
        interval: Option<[f64; 2]>,
        /// Whether it is valid.
        valid: bool,
    },
    /// Some of a whole.
    Part {
        /// How many.
        part: u64,
        /// Of how many.
        of: u64,
    },
    /// A value over repeats, with its interval and validity.
    Figure {
        /// The value.
        figure: Figure,
    },
    /// The least and the greatest of many values, which is no interval.
    Extremes {
        /// The least.
        least: f64,
        /// The greatest.
        greatest: f64,
        /// Whether they are valid.
        valid: bool,
    },
    /// How many repeats are valid.
    Valid {
        /// Valid repeats.
        valid: usize,
        /// Repeats that were planned.
        planned: usize,
        /// Why the others are not; whether the reason is expected at this load.
        reasons: Vec<(String, bool)>,
    },
}

impl Finding {
    /// A finding without values yet.
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

    /// The same without axes that are columns of the table themselves, or lie below one: `limits.control.cpus` below
    /// `limits.control`.
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

    /// The same, of which lower values are better.
    pub(crate) const fn lower(self) -> Self {
        Self { better: Some(Better::Lower), ..self }
    }

    /// The same, of which higher values are better.
    pub(crate) const fn higher(self) -> Self {
        Self { better: Some(Better::Higher), ..self }
    }

    /// The same, compared as `metric` if that is asked for: differences up to `margin` count as the same.
    pub(crate) const fn compared(self, metric: &'static str, margin: f64) -> Self {
        let compared = Compared { metric, margin, resolution: None, by_default: false, cpu_time: false };
        Self { compared: Some(compared), ..self }
    }

    /// The same, compared by default.
    pub(crate) const fn judged(self, metric: &'static str, margin: f64) -> Self {
        let compared = Compared { metric, margin, resolution: None, by_default: true, cpu_time: false };
        Self { compared: Some(compared), ..self }
    }

    /// The same, which is CPU time of a load; `compared` comes first.
    pub(crate) const fn cpu_time(self) -> Self {
        let compared = match self.compared {
            Some(compared) => Some(Compared { cpu_time: true, ..compared }),
            None => None,
        };
        Self { compared, ..self }
    }

    /// The same, whose values below `resolution` cannot be told apart; `compared` comes first.
    pub(crate) const fn above(self, resolution: f64) -> Self {
        let compared = match self.compared {
            Some(compared) => Some(Compared { resolution: Some(resolution), ..compared }),
            None => None,
        };
        Self { compared, ..self }
    }

    /// The same, shown as `words` if a repeat lies beyond what was measured.
    pub(crate) const fn beyond(self, words: &'static str) -> Self {
        Self { beyond: words, ..self }
    }

    /// The same, in which a repeat without a value says `words` of the gateway.
    pub(crate) const fn absent(self, words: &'static str) -> Self {
        Self { absent: words, ..self }
    }

    /// The same, which shows zero as `words`.
    pub(crate) const fn zero(self, words: &'static str) -> Self {
        Self { zero: words, ..self }
    }

    /// The same, without intervals in tables.
    pub(crate) const fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// The same, before the gateway.
    pub(crate) const fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// The same, shown once for adjacent rows of a gateway.
    pub(crate) const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// A value of this column as people read it.
    pub fn words(&self, value: f64) -> String {
        if value.abs() < 0.5 && !self.zero.is_empty() { self.zero.to_owned() } else { self.unit.words(value) }
    }

    /// The same, drawn as bars.
    pub(crate) const fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }
}

impl Unit {
    /// A value as people read it.
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

    /// Its name at the end of a column in files: `ns`; empty for text and plain numbers.
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

    /// A value over repeats, where it was measured.
    pub(crate) fn optional(figure: Option<&Figure>) -> Self {
        figure.map_or(Self::Missing, Self::figure)
    }

    /// A valid value that is not over repeats.
    pub(crate) fn estimate(value: f64, interval: Option<[f64; 2]>) -> Self {
        Self::Estimate { sample: Sample::Value(value), interval, valid: true }
    }

    /// How many repeats of `figure` are valid.
    pub(crate) fn valid(figure: &Figure, is_expected: bool) -> Self {
        Self::valid_of(figure, figure.repeats.len(), is_expected)
    }

    /// How many of the `planned` repeats of `figure` are valid.
    pub(crate) fn valid_of(figure: &Figure, planned: usize, is_expected: bool) -> Self {
        let measured = figure.repeats.len();
        let name = |(reason, n)| (reason_times(reason, n, measured), is_expected);
        let reasons = figure.reasons().into_iter().map(name).collect();
        Self::valid_because(figure, planned, reasons)
    }

    /// How many of the `planned` repeats of `figure` are valid, and why others are not. A reason is expected or not.
    pub(crate) fn valid_because(figure: &Figure, planned: usize, mut reasons: Vec<(String, bool)>) -> Self {
        let measured = figure.repeats.len();
        if measured < planned {
            reasons.push((format!("{} missing", planned - measured), false));
        }
        Self::Valid { valid: figure.valid, planned, reasons }
    }

    /// How many repeats of `figure`, a value of `row`, are valid. Expected are a quota that throttles a closed loop, and
    /// the rig that limits the direct baseline.
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

    /// Its number: the mean of a value over repeats, the share of a part.
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
