//! The scales of charts: their range, unit and tick marks.

use weir_analysis::findings::Unit as Measured;
use weir_analysis::quantity;

use crate::sections::tables::microseconds;

/// The unit of a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Plain,
    PerSecond,
    Microseconds,
    Nanoseconds,
    Bytes,
    Share,
    Cores,
    Seconds,
    /// Position of a quantile on the horizontal scale of a latency curve, from
    /// [`place_of`](crate::charts::series::place_of).
    Quantile,
}

/// A scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    pub(crate) title: String,
    pub(crate) unit: Unit,
    pub(crate) log: bool,
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) ticks: Vec<Tick>,
}

/// A tick mark on a scale.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
}

/// Approximate number of tick marks on a scale that begins at zero.
const TICKS: f64 = 4.0;
/// The upper end of a scale is the largest value to show, times this factor.
const ROOM: f64 = 1.08;
/// A scale for times is logarithmic if the largest value is at least this many times the smallest.
const LOG_FROM: f64 = 8.0;
/// A scale for the values of an axis is logarithmic if the largest value is at least this many times the smallest.
const LOG_VALUES_FROM: f64 = 20.0;

impl From<Measured> for Unit {
    fn from(of: Measured) -> Self {
        match of {
            Measured::Text
            | Measured::Prose
            | Measured::Load
            | Measured::Count
            | Measured::Number
            | Measured::Coefficient
            | Measured::PerDay => Self::Plain,
            Measured::PerSecond => Self::PerSecond,
            Measured::Nanoseconds => Self::Nanoseconds,
            Measured::Microseconds => Self::Microseconds,
            Measured::Seconds => Self::Seconds,
            Measured::Bytes | Measured::BytesPerSecond => Self::Bytes,
            Measured::Share => Self::Share,
            Measured::Cores => Self::Cores,
        }
    }
}

impl Unit {
    /// Formats a value with its unit.
    pub(crate) fn words(self, value: f64) -> String {
        match self {
            Self::Plain | Self::Cores => quantity::number(value),
            Self::PerSecond => quantity::rate(value),
            Self::Microseconds => microseconds(value),
            Self::Nanoseconds => quantity::time_ns(value),
            Self::Bytes => quantity::bytes(value),
            Self::Share => quantity::percent(value),
            // The middle of a step of one second needs a decimal.
            Self::Seconds if (100.0..1e3).contains(&value) => format!("{} s", short(&format!("{value:.1}"))),
            Self::Seconds => format!("{} s", short(&quantity::number(value))),
            Self::Quantile => {
                // Each additional nine of the quantile needs one more digit.
                let digits = value.max(1.0) as usize;
                let percent = format!("{:.digits$}", (1.0 - 10_f64.powf(-value)) * 100.0);
                format!("p{}", percent.trim_end_matches('0').trim_end_matches('.'))
            }
        }
    }

    /// Formats a value without its unit, for a column whose heading names the unit (see [`Unit::heading`]).
    pub(crate) fn in_column(self, value: f64) -> String {
        match self {
            Self::Quantile => self.words(value),
            _ => rounded(value / self.column().1).to_string(),
        }
    }

    /// The heading of a column of numbers: `title` and the unit.
    pub(crate) fn heading(self, title: &str) -> String {
        match self.column().0 {
            "" => title.to_owned(),
            symbol => format!("{title}, {symbol}"),
        }
    }

    /// The unit of a column of numbers, and the divisor for its values.
    fn column(self) -> (&'static str, f64) {
        match self {
            Self::Plain | Self::Quantile => ("", 1.0),
            Self::Cores => ("cores", 1.0),
            Self::PerSecond => ("1/s", 1.0),
            Self::Microseconds => ("µs", 1.0),
            Self::Nanoseconds => ("µs", 1e3),
            Self::Bytes => ("MiB", 1_048_576.0),
            Self::Share => ("%", 0.01),
            Self::Seconds => ("s", 1.0),
        }
    }

    /// The short label of a tick mark.
    fn label(self, value: f64) -> String {
        if value == 0.0 {
            return "0".into();
        }
        short(self.words(value).trim_end_matches("/s"))
    }

    /// Returns a value of which all tick marks are multiples. For bytes, it is a binary unit that fits the largest
    /// value.
    fn base(self, greatest: f64) -> f64 {
        match self {
            Self::Bytes => [30, 20, 10]
                .map(|power| 2_f64.powi(power))
                .into_iter()
                .find(|unit| greatest >= *unit)
                .unwrap_or(1.0),
            Self::Share => 0.01,
            _ => 1.0,
        }
    }
}

impl Scale {
    /// A scale from zero to slightly above `greatest`.
    pub(crate) fn from_zero(title: &str, unit: Unit, greatest: f64) -> Self {
        let greatest = if greatest.is_finite() && greatest > 0.0 { greatest } else { 1.0 };
        let high = greatest * ROOM;
        let step = nice_step(greatest, unit.base(greatest));
        let ticks = (0..=(high / step) as u32).map(|n| f64::from(n) * step);
        let ticks = ticks.map(|at| Tick { at, label: unit.label(at) }).collect();
        Self { title: title.to_owned(), unit, log: false, low: 0.0, high, ticks }
    }

    /// A logarithmic scale from slightly below `least` to slightly above `greatest`. Both must be positive.
    pub(crate) fn logarithmic(title: &str, unit: Unit, least: f64, greatest: f64) -> Self {
        let (from, to) = (least.log10(), greatest.log10());
        let room = 0.06 * (to - from + 0.1);
        let (from, to) = (from - room, to + room);
        let factors: &[f64] = match to - from {
            decades if decades < 2.2 => &[1.0, 2.0, 5.0],
            decades if decades < 4.0 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let powers = from.floor() as i32..=to.ceil() as i32;
        let marks = powers.flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
        let (low, high) = (10_f64.powf(from), 10_f64.powf(to));
        let ticks = marks.filter(|at| (low..=high).contains(at));
        let ticks = ticks.map(|at| Tick { at, label: unit.label(at) }).collect();
        Self { title: title.to_owned(), unit, log: true, low, high, ticks }
    }

    /// A scale for measured values. It is logarithmic for times that differ widely; otherwise, it begins at zero.
    pub(crate) fn of_figures(title: &str, unit: Unit, figures: impl Iterator<Item = f64>) -> Self {
        let figures: Vec<f64> = figures.filter(|value| value.is_finite() && *value > 0.0).collect();
        let greatest = figures.iter().copied().fold(0.0, f64::max);
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        if unit == Unit::Nanoseconds && greatest >= least * LOG_FROM {
            Self::logarithmic(title, unit, least, greatest)
        } else {
            Self::from_zero(title, unit, greatest)
        }
    }

    /// A scale for differences, which may be negative. It begins at zero, or slightly below the smallest difference if
    /// that is negative.
    pub(crate) fn of_differences(title: &str, unit: Unit, differences: impl Iterator<Item = f64>) -> Self {
        let differences: Vec<f64> = differences.filter(|value| value.is_finite()).collect();
        let least = differences.iter().copied().fold(0.0, f64::min);
        let greatest = differences.iter().copied().fold(0.0, f64::max).max(-least);
        let scale = Self::from_zero(title, unit, greatest);
        Self { low: least * ROOM, ..scale }
    }

    /// A scale with a tick mark at each of the ascending `values`, and a little room at both ends.
    pub(crate) fn of_values(title: &str, unit: Unit, values: &[(f64, String)]) -> Self {
        let least = values.iter().map(|(at, _)| *at).fold(f64::INFINITY, f64::min);
        let greatest = values.iter().map(|(at, _)| *at).fold(f64::NEG_INFINITY, f64::max);
        // On a linear scale of cores, growth in proportion to cores is a straight line.
        let log = unit != Unit::Cores && least > 0.0 && greatest >= least * LOG_VALUES_FROM;
        let (low, high) = if log {
            let room = (greatest / least).powf(0.08);
            (least / room, greatest * room)
        } else {
            let room = if greatest > least { (greatest - least) * 0.08 } else { 0.5 };
            (least - room, greatest + room)
        };
        let ticks = values.iter().map(|(at, label)| Tick { at: *at, label: label.clone() }).collect();
        let mut scale = Self { title: title.to_owned(), unit, log, low, high, ticks };
        scale.thin(0.075);
        scale
    }

    /// Removes the tick marks that are outside of the scale.
    pub(crate) fn within(mut self) -> Self {
        let (low, high) = (self.low, self.high);
        self.ticks.retain(|tick| (low..=high).contains(&tick.at));
        self
    }

    /// Returns the position of a value on the scale, from 0 to 1. A value outside of the scale gets the position of
    /// the nearer end.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).log10() / (self.high / self.low).log10()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Removes each tick mark that is too close to the previous one. `least` is the minimum distance, as a share of the
    /// scale.
    fn thin(&mut self, least: f64) {
        let mut kept: Vec<Tick> = Vec::new();
        for tick in std::mem::take(&mut self.ticks) {
            let room = kept.last().is_none_or(|last| self.place(tick.at) - self.place(last.at) >= least);
            kept.extend(Some(tick).filter(|_| room));
        }
        self.ticks = kept;
    }
}

/// Returns the distance between tick marks: `base` times a power of ten, times 1, 2 or 5. It gives about [`TICKS`] tick
/// marks up to `greatest`.
fn nice_step(greatest: f64, base: f64) -> f64 {
    let raw = greatest / base / TICKS;
    let power = 10_f64.powf(raw.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= raw * 0.75);
    factor.unwrap_or(10.0) * power * base
}

/// Rounds to five significant digits, which is more than a chart shows.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powi(4 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

/// Removes trailing zeros of a number that is followed by its unit.
fn short(words: &str) -> String {
    let end = words.rfind(|c: char| c.is_ascii_digit()).map_or(0, |place| place + 1);
    let (number, unit) = words.split_at(end);
    if !number.contains('.') {
        return words.to_owned();
    }
    format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn labels(scale: &Scale, expected: &[&str]) {
        let labels: Vec<&str> = scale.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, expected);
    }

    #[test]
    fn columns_keep_five_digits() {
        let check = |value: f64, expected: f64| assert_eq!(rounded(value), expected);
        check(26_123.456_789, 26_123.0);
        check(0.497_123_456, 0.497_12);
        check(12.000_000_000_01, 12.0);
        check(-123_456.7, -123_460.0);
        check(0.0, 0.0);
        check(1e-320, 1e-320);
        assert_eq!(Unit::Nanoseconds.heading("p99"), "p99, µs");
        assert_eq!(Unit::Nanoseconds.in_column(148_123.4), "148.12");
        assert_eq!(Unit::Quantile.in_column(2.0), "p99");
        assert_eq!([2.5, 100.5, 120.0].map(|at| Unit::Seconds.words(at)), ["2.5 s", "100.5 s", "120 s"]);
        let words = [0.0, 1.0, 1.5, 4.0, 5.5].map(|place| Unit::Quantile.words(place));
        assert_eq!(words, ["p0", "p90", "p96.8", "p99.99", "p99.99968"]);
    }

    #[test]
    fn marks_are_round_in_the_unit_of_the_scale() {
        labels(
            &Scale::from_zero("", Unit::PerSecond, 26_100.0),
            &["0", "5,000", "10,000", "15,000", "20,000", "25,000"],
        );
        labels(
            &Scale::from_zero("", Unit::Bytes, 46.0 * 1024.0 * 1024.0),
            &["0", "10 MiB", "20 MiB", "30 MiB", "40 MiB"],
        );
        labels(&Scale::from_zero("", Unit::Share, 1.0), &["0", "20 %", "40 %", "60 %", "80 %", "100 %"]);
        labels(&Scale::from_zero("", Unit::Nanoseconds, 1_900.0), &["0", "500 ns", "1 µs", "1.5 µs", "2 µs"]);
        labels(&Scale::from_zero("", Unit::Plain, f64::NAN), &["0", "0.2", "0.4", "0.6", "0.8", "1"]);
    }

    #[test]
    fn times_far_apart_have_a_logarithmic_scale() {
        let near = Scale::of_figures("", Unit::Nanoseconds, [1e6, 4e6].into_iter());
        assert!(!near.log && near.low == 0.0);
        let far = Scale::of_figures("", Unit::Nanoseconds, [1e5, 1e9].into_iter());
        assert!(far.log && far.low < 1e5 && far.high > 1e9);
        labels(&far, &["100 µs", "1 ms", "10 ms", "100 ms", "1 s"]);
        assert!(!Scale::of_figures("", Unit::PerSecond, [1.0, 1e9].into_iter()).log);
        assert!(!Scale::of_figures("", Unit::Nanoseconds, std::iter::empty()).log);
    }

    #[test]
    fn an_axis_is_marked_at_its_values() {
        let values = |values: &[f64]| values.iter().map(|at| (*at, at.to_string())).collect::<Vec<_>>();
        let cpus = Scale::of_values("", Unit::Cores, &values(&[0.25, 0.5, 1.0]));
        labels(&cpus, &["0.25", "0.5", "1"]);
        assert!(!Scale::of_values("", Unit::Cores, &values(&[0.25, 8.0])).log);
        assert!(!cpus.log && cpus.place(0.25) > 0.0 && cpus.place(1.0) < 1.0);
        let connections = Scale::of_values("", Unit::Plain, &values(&[1.0, 10.0, 100.0]));
        assert!(connections.log && (connections.place(10.0) - 0.5).abs() < 1e-9);
        labels(&Scale::of_values("", Unit::Plain, &values(&[1.0, 1.1, 2.0, 9.0])), &["1", "2", "9"]);
        assert!(Scale::of_values("", Unit::Plain, &values(&[7.0])).place(7.0) == 0.5);
    }
}
