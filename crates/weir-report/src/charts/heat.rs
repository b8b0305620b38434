//! Heat maps of latency over time: their scales, and how the page contains them in a compact form.

use weir_analysis::{Heat, Timeline};

use crate::model::scale::{Scale, Unit};

/// Shares of responses below this value have the lightest colour.
pub(crate) const LEAST_SHARE: f64 = 1e-4;

/// The digits of the compact form, for values from 0 to 63.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Number of decades that the compact form covers: shares from 1e-6 to 1.
const DECADES: f64 = 6.0;
/// Number of steps into which the compact form divides [`DECADES`].
const STEPS: f64 = 4094.0;

/// The heat map of one load in one cell.
#[derive(Clone, Copy)]
pub(crate) struct HeatMap<'a> {
    pub(crate) gateway: &'a str,
    pub(crate) timeline: &'a Timeline,
}

/// A heat map in the compact form.
///
/// Each column is a text of base-64 digits ([`DIGITS`]). The first digit is the index of the first row that is not
/// empty. Two digits follow for each row from there to the last row that is not empty. They encode the row's share of
/// responses as an integer: 0 for an empty row, otherwise `1 + 4094 (log10(share) + 6) / 6`, rounded. Rounding changes
/// a share by at most 0.2 %.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Packed {
    /// Start of each column, and end of the last column, in seconds.
    edges_s: Vec<f64>,
    per_decade: i32,
    first: i32,
    rows: usize,
    columns: Vec<String>,
}

/// The names of the quantiles that [`HeatMap::quantiles`] returns.
pub(crate) const QUANTILES: [&str; 4] = ["p50", "p90", "p99", "max"];

impl Packed {
    /// The heat map as attributes of an HTML element.
    pub(crate) fn attributes(&self) -> String {
        let Self { edges_s, per_decade, first, rows, columns } = self;
        let edges: Vec<String> = edges_s.iter().map(f64::to_string).collect();
        format!(
            " data-edges=\"{}\" data-per-decade=\"{per_decade}\" data-first=\"{first}\" data-rows=\"{rows}\" \
             data-columns=\"{}\"",
            edges.join(" "),
            columns.join(" ")
        )
    }
}

impl HeatMap<'_> {
    /// Start and end of the time step that `column` shows, in seconds.
    pub(crate) fn step(&self, column: usize) -> (f64, f64) {
        let starts = &self.timeline.t_s;
        let from = starts.get(column).copied().unwrap_or(0.0);
        (from, starts.get(column + 1).copied().unwrap_or(self.timeline.end_s))
    }

    /// Quantiles of the latency in each time step, in nanoseconds.
    pub(crate) fn quantiles(&self) -> impl Iterator<Item = [Option<u64>; 4]> {
        let Timeline { p50_ns, p90_ns, p99_ns, max_ns, .. } = self.timeline;
        let at =
            move |place: usize| [p50_ns, p90_ns, p99_ns, max_ns].map(|of| of.get(place).copied().flatten());
        (0..self.timeline.t_s.len()).map(at)
    }
}

/// The latency scale for all `maps`; `None` if there were no responses.
pub(crate) fn scale(maps: &[HeatMap<'_>]) -> Option<Scale> {
    let heats = || maps.iter().map(|map| &map.timeline.heat).filter(|heat| heat.rows > 0);
    let least = heats().map(|heat| heat.edge_ns(0)).reduce(f64::min)?;
    let greatest = heats().map(|heat| heat.edge_ns(heat.rows)).reduce(f64::max)?;
    Some(
        Scale {
            low: least,
            high: greatest,
            ..Scale::logarithmic("latency", Unit::Nanoseconds, least, greatest)
        }
        .within(),
    )
}

/// The time scale for all `maps`.
pub(crate) fn time(maps: &[HeatMap<'_>]) -> Scale {
    let end = maps.iter().map(|map| map.timeline.end_s).fold(0.0, f64::max);
    Scale { high: if end > 0.0 { end } else { 1.0 }, ..Scale::from_zero("time", Unit::Seconds, end) }.within()
}

/// A time in seconds, rounded to two decimals.
pub(crate) fn moment(seconds: f64) -> f64 {
    (seconds * 100.0).round() / 100.0
}

/// Converts a heat map to the compact form.
pub(crate) fn packed(map: &HeatMap<'_>) -> Packed {
    let edges = map.timeline.t_s.iter().chain([&map.timeline.end_s]);
    Packed { edges_s: edges.map(|at| moment(*at)).collect(), ..shares(&map.timeline.heat) }
}

fn shares(heat: &Heat) -> Packed {
    let column = |shares: &Vec<f64>| {
        let Some(first) = shares.iter().position(|share| *share > 0.0) else { return String::new() };
        let last = shares.iter().rposition(|share| *share > 0.0).unwrap_or(first);
        let mut column = String::from(digit(first));
        for share in &shares[first..=last] {
            let level = level(*share);
            column.push(digit(level / DIGITS.len()));
            column.push(digit(level % DIGITS.len()));
        }
        column
    };
    Packed {
        per_decade: heat.per_decade,
        first: heat.first,
        rows: heat.rows,
        columns: heat.shares.iter().map(column).collect(),
        ..Packed::default()
    }
}

fn level(share: f64) -> usize {
    if share <= 0.0 {
        return 0;
    }
    let place = ((share.log10() + DECADES) / DECADES).clamp(0.0, 1.0);
    1 + (place * STEPS).round() as usize
}

fn digit(value: usize) -> char {
    char::from(DIGITS[value.min(DIGITS.len() - 1)])
}

#[cfg(test)]
mod tests {
    use super::{shares as shares_of, *};

    /// Converts a column back from the compact form, as the page script does.
    fn unpacked(packed: &Packed, column: usize) -> Vec<f64> {
        let value = |digit: u8| DIGITS.iter().position(|known| *known == digit).unwrap();
        let text = packed.columns[column].as_bytes();
        let mut shares = vec![0.0; packed.rows];
        if let Some((first, rest)) = text.split_first() {
            for (row, pair) in rest.chunks(2).enumerate() {
                let level = value(pair[0]) * 64 + value(pair[1]);
                if level > 0 {
                    shares[value(*first) + row] = 10_f64.powf((level - 1) as f64 / STEPS * DECADES - DECADES);
                }
            }
        }
        shares
    }

    #[test]
    fn the_short_form_keeps_shares() {
        let shares = vec![0.0, 0.000_02, 0.0, 0.25, 0.749_98, 0.0];
        let heat =
            Heat { per_decade: 12, first: 60, rows: 6, shares: vec![shares.clone(), vec![], vec![1.0; 6]] };
        let packed = shares_of(&heat);
        for (share, expected) in unpacked(&packed, 0).into_iter().zip(&shares) {
            assert!((share - expected).abs() <= 0.002 * expected, "{share} is not {expected}");
        }
        assert_eq!(packed.columns[0].len(), 1 + 2 * 4);
        assert_eq!(packed.columns[1], "");
        assert_eq!(unpacked(&packed, 2), [1.0; 6]);
        assert!(unpacked(&shares_of(&Heat { rows: 1, shares: vec![vec![1e-9]], ..heat }), 0)[0] > 0.0);
    }
}
