//! The model of a finding: tables of typed values by gateway and axes, sentences, and charted columns.
//!
//! Outputs show all findings in the same way: terminal, HTML, Markdown, CSV, JSON, `compare` and gates. A new
//! experiment needs only a finder that fills this model.

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
    /// Name of the finding in files and on command lines: `failover`.
    pub key: &'static str,
    /// Heading of the finding.
    pub title: &'static str,
    /// How the values were measured, and how to read them.
    pub intro: String,
    /// Conclusions, one sentence each.
    pub sentences: Vec<String>,
    /// Tables with the values.
    pub tables: Vec<Table>,
    /// Load points at which the experiment causes errors and overload on purpose.
    #[serde(skip)]
    pub breaks: Vec<Place>,
    /// Whether reports print the finding as its own section; `false` if another section shows these values and more.
    #[serde(skip)]
    pub has_section: bool,
}

/// A load with one value of each axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// Values of the axes.
    pub axes: Axes,
    /// The load's name.
    pub load: String,
}

/// A table with one row per combination of gateway, load and axis values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// Heading of the table.
    pub caption: String,
    /// The columns, one per value of a row.
    pub columns: &'static [Column],
    /// The rows, in the order of load points and then of gateways.
    pub rows: Vec<Row>,
}

/// A column of a finding's table.
#[derive(Debug, PartialEq, Serialize)]
pub struct Column {
    /// Name of the column in files: `memory_per_client`.
    pub key: &'static str,
    /// Heading of the column.
    pub title: &'static str,
    /// Unit of the column's numbers.
    pub unit: Unit,
    /// Whether lower or higher values are better; `None` if neither is, as for text.
    pub better: Option<Better>,
    /// Importance in narrow terminals, from 1. The least important columns are left out first. Columns with [`KEEP`]
    /// are never left out.
    #[serde(skip)]
    pub keep: u8,
    /// How `weir compare` judges the column; `None` if it is not compared.
    #[serde(skip)]
    pub compared: Option<Compared>,
    /// Whether reports draw the column as bars with intervals, one chart for each load and its axes.
    #[serde(skip)]
    pub drawn: bool,
    /// Text in tables for a value beyond the measured range: `> timeout`.
    #[serde(skip)]
    pub beyond: &'static str,
    /// What a missing value in a repeat shows about the gateway, as text: `no capacity found`. Empty if it shows
    /// nothing.
    #[serde(skip)]
    pub absent: &'static str,
    /// Text in tables instead of zero; empty to print the number.
    #[serde(skip)]
    pub zero: &'static str,
    /// Whether tables show the column's values without their intervals.
    #[serde(skip)]
    pub bare: bool,
    /// Whether the column comes before the gateway column. Tables print its value only once for adjacent rows that are
    /// equal in all such columns.
    #[serde(skip)]
    pub leads: bool,
    /// Whether the column helps to group rows. Adjacent rows of a gateway form a group if they are equal in every
    /// `once` column. Tables print these equal values only once per group.
    #[serde(skip)]
    pub once: bool,
}

/// The importance ([`Column::keep`]) of columns that even narrow terminals show.
pub const KEEP: u8 = 9;

/// How `weir compare` judges a column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Compared {
    /// Name of the metric on command lines: `failover.p99`.
    pub metric: &'static str,
    /// Margin, as a share: smaller differences count as equal.
    pub margin: f64,
    /// Resolution in the unit of the column: values below it count as equal.
    pub resolution: Option<f64>,
    /// Whether the metric gets a verdict by default.
    pub by_default: bool,
    /// Whether the metric is CPU time of a load, which depends on load point and host speed.
    pub cpu_time: bool,
}

/// Which values of a column are better.
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
    /// Short text.
    Text,
    /// Whole sentences.
    Prose,
    /// The load and its axes, as text.
    Load,
    /// A count.
    Count,
    /// A number without unit.
    Number,
    /// A number without unit that may be very small; printed with an exponent.
    Coefficient,
    /// Events per second, for example requests.
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
    /// A share; 1 means 100 %.
    Share,
    /// Cores.
    Cores,
}

/// One gateway's values at one load, for one set of axis values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The gateway's name.
    pub gateway: String,
    /// The load's name; empty for values without a load.
    pub load: String,
    /// Values of the axes, and further keys of the row: the fault, the kind of client.
    pub axes: Axes,
    /// One value for each column of the table.
    pub values: Vec<Value>,
}

/// One value of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Value {
    /// The column does not apply to this row.
    Missing,
    /// A text value.
    Text {
        /// The text to show.
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
    /// A value from a single repeat or from a fit, not a mean of repeats.
    Estimate {
        /// The value, in the unit of the column.
        sample: Sample,
        /// Interval of the value, 95 % unless the finding names another confidence; `None` if it has no interval.
        interval: Option<[f64; 2]>,
        /// Whether the value is valid.
        valid: bool,
    },
    /// A count as part of a total, for example failed requests of all sent requests.
    Part {
        /// The count, for example of failed requests.
        part: u64,
        /// The total count.
        of: u64,
    },
    /// A value computed from several repeats, with its interval and validity.
    Figure {
        /// The metric with all its repeats.
        figure: Figure,
    },
    /// Minimum and maximum of many values; not an interval.
    Extremes {
        /// The minimum of the values.
        least: f64,
        /// The maximum of the values.
        greatest: f64,
        /// Whether the values are valid.
        valid: bool,
    },
    /// The number of valid repeats.
    Valid {
        /// Number of valid repeats.
        valid: usize,
        /// Number of planned repeats.
        planned: usize,
        /// Reasons why planned repeats are invalid or missing, each with `true` if the reason is expected at this load.
        reasons: Vec<(String, bool)>,
    },
}

impl Finding {
    /// A finding without sentences and tables.
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

    /// The load and its axes in words. Axes that have their own column in the table are left out. A column for
    /// `limits.control` also covers `limits.control.cpus`.
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

    /// Marks lower values of this column as better.
    pub(crate) const fn lower(self) -> Self {
        Self { better: Some(Better::Lower), ..self }
    }

    /// Marks higher values of this column as better.
    pub(crate) const fn higher(self) -> Self {
        Self { better: Some(Better::Higher), ..self }
    }

    /// Makes this column the metric `metric` of `weir compare`, which compares it only on request. Differences up to
    /// `margin` count as the same.
    pub(crate) const fn compared(self, metric: &'static str, margin: f64) -> Self {
        let compared = Compared { metric, margin, resolution: None, by_default: false, cpu_time: false };
        Self { compared: Some(compared), ..self }
    }

    /// Like [`Self::compared`], but `weir compare` compares this column by default.
    pub(crate) const fn judged(self, metric: &'static str, margin: f64) -> Self {
        let compared = Compared { metric, margin, resolution: None, by_default: true, cpu_time: false };
        Self { compared: Some(compared), ..self }
    }

    /// Marks the compared metric as CPU time of a load; call `compared` first.
    pub(crate) const fn cpu_time(self) -> Self {
        let compared = match self.compared {
            Some(compared) => Some(Compared { cpu_time: true, ..compared }),
            None => None,
        };
        Self { compared, ..self }
    }

    /// Sets the resolution of the compared metric; call `compared` first.
    pub(crate) const fn above(self, resolution: f64) -> Self {
        let compared = match self.compared {
            Some(compared) => Some(Compared { resolution: Some(resolution), ..compared }),
            None => None,
        };
        Self { compared, ..self }
    }

    /// Sets the text for a value beyond the measured range, such as `not recovered`.
    pub(crate) const fn beyond(self, words: &'static str) -> Self {
        Self { beyond: words, ..self }
    }

    /// Sets the words for a repeat without a value.
    pub(crate) const fn absent(self, words: &'static str) -> Self {
        Self { absent: words, ..self }
    }

    /// Sets the words that tables show instead of zero.
    pub(crate) const fn zero(self, words: &'static str) -> Self {
        Self { zero: words, ..self }
    }

    /// Leaves out the intervals of this column in tables.
    pub(crate) const fn bare(self) -> Self {
        Self { bare: true, ..self }
    }

    /// Places this column before the gateway column.
    pub(crate) const fn leading(self) -> Self {
        Self { leads: true, ..self }
    }

    /// Shows equal values of adjacent rows of a gateway only once.
    pub(crate) const fn once(self) -> Self {
        Self { once: true, ..self }
    }

    /// Formats a value of this column with its unit.
    pub fn words(&self, value: f64) -> String {
        if value.abs() < 0.5 && !self.zero.is_empty() { self.zero.to_owned() } else { self.unit.words(value) }
    }

    /// Lets reports draw this column as bars.
    pub(crate) const fn drawn(self) -> Self {
        Self { drawn: true, ..self }
    }
}

impl Unit {
    /// Formats a value with its unit.
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

    /// The suffix of column names in files: `ns`. Empty for text and plain numbers.
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
    /// A value that is text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// A value that is an exact number.
    pub(crate) fn number(number: f64) -> Self {
        Self::Number { number: Some(number), words: None }
    }

    pub(crate) fn count(count: u64) -> Self {
        Self::number(count as f64)
    }

    /// A value computed from repeats.
    pub(crate) fn figure(figure: &Figure) -> Self {
        Self::Figure { figure: figure.clone() }
    }

    /// A value computed from repeats; missing if `None`.
    pub(crate) fn optional(figure: Option<&Figure>) -> Self {
        figure.map_or(Self::Missing, Self::figure)
    }

    /// A valid value from a single repeat or from a fit.
    pub(crate) fn estimate(value: f64, interval: Option<[f64; 2]>) -> Self {
        Self::Estimate { sample: Sample::Value(value), interval, valid: true }
    }

    /// The number of valid repeats of `figure`. `is_expected` states whether the reasons of invalid repeats are
    /// expected.
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

    /// The number of valid repeats of `figure`, out of `planned`. `reasons` holds the reasons of the other repeats,
    /// each with `true` if it is expected.
    pub(crate) fn valid_because(figure: &Figure, planned: usize, mut reasons: Vec<(String, bool)>) -> Self {
        let measured = figure.repeats.len();
        if measured < planned {
            reasons.push((format!("{} missing", planned - measured), false));
        }
        Self::Valid { valid: figure.valid, planned, reasons }
    }

    /// Returns the number of valid repeats of `figure` and the reasons of the invalid repeats. `figure` is a value of
    /// `row`. A reason is marked as expected if it is throttling in a closed loop, or a limit of the rig in a direct
    /// baseline.
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

    /// The value as a number: the mean of repeats, or the part divided by its total. `None` if it is not a number.
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
