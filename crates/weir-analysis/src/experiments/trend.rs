//! Trend of throughput with the number of connections, judged by the intervals.

use crate::figures::figure::Figure;

use super::connections;

/// How throughput changes with the number of connections (the level). The confidence intervals of three levels decide:
/// the first, the best and the last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Trend {
    /// The interval of the best level overlaps with the intervals of the first and the last level.
    Flat,
    /// The interval of the best level is above the first level's interval, and overlaps with the last level's interval.
    Rising,
    /// Throughput falls: the interval of the best level overlaps with the first level's interval, but is above the last
    /// level's interval.
    Falling,
    /// The interval of the best level is above the intervals of the first and the last level.
    Peaked,
}

/// A number of connections, and the throughput with that many connections.
pub(super) type Level<'a> = (u32, &'a Figure);

/// The level with the highest mean.
pub(super) fn best<'a>(levels: &[Level<'a>]) -> Option<Level<'a>> {
    let mean = |level: &&Level<'_>| level.1.mean.unwrap_or(f64::NEG_INFINITY);
    levels.iter().max_by(|a, b| mean(a).total_cmp(&mean(b))).copied()
}

/// The trend of `levels`, which are sorted by connections; `None` for fewer than two levels.
pub(super) fn trend(levels: &[Level<'_>]) -> Option<Trend> {
    let [first, .., last] = levels else { return None };
    let best = best(levels)?;
    let is_apart = |from: &Level<'_>| from.0 != best.0 && from.1.overlaps(best.1) == Some(false);
    Some(match (is_apart(first), is_apart(last)) {
        (false, false) => Trend::Flat,
        (true, false) => Trend::Rising,
        (false, true) => Trend::Falling,
        (true, true) => Trend::Peaked,
    })
}

/// The trend in words; `None` for fewer than two levels.
pub(super) fn words(levels: &[Level<'_>]) -> Option<String> {
    let [first, .., last] = levels else { return None };
    let best = best(levels)?;
    let over = |from: &Level<'_>, to: &Level<'_>| {
        let change = to.1.mean.zip(from.1.mean).map_or(0.0, |(to, from)| to / from - 1.0);
        format!("{:+.1} % from {} to {}", change * 100.0, from.0, connections(to.0))
    };
    Some(match trend(levels)? {
        Trend::Flat => {
            format!("more connections give the same throughput ({}; intervals overlap)", over(first, last))
        }
        Trend::Rising => format!("more connections give more throughput ({})", over(first, &best)),
        Trend::Falling => format!("more connections give less throughput ({})", over(&best, last)),
        Trend::Peaked => {
            format!("throughput rises ({}) and then falls ({})", over(first, &best), over(&best, last))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(mean: f64) -> Figure {
        Figure { mean: Some(mean), interval: Some([mean * 0.98, mean * 1.02]), ..Figure::default() }
    }

    #[track_caller]
    fn check(means: &[f64], expected: Option<(Trend, &str)>) {
        let figures: Vec<Figure> = means.iter().map(|mean| figure(*mean)).collect();
        let levels: Vec<Level<'_>> = (1..).map(|step| step * 4).zip(&figures).collect();
        assert_eq!(trend(&levels), expected.map(|(trend, _)| trend));
        assert_eq!(words(&levels).as_deref(), expected.map(|(_, words)| words));
    }

    #[test]
    fn the_trend_follows_from_first_best_and_last() {
        check(&[], None);
        check(&[100.0], None);
        let flat =
            "more connections give the same throughput (-1.0 % from 4 to 8 connections; intervals overlap)";
        check(&[100.0, 99.0], Some((Trend::Flat, flat)));
        let rising = "more connections give more throughput (+50.0 % from 4 to 12 connections)";
        check(&[100.0, 120.0, 150.0], Some((Trend::Rising, rising)));
        // The second level is the best. Its interval and the last level's interval overlap, so the trend is rising and
        // not peaked.
        let rising = "more connections give more throughput (+50.0 % from 4 to 8 connections)";
        check(&[100.0, 150.0, 148.0], Some((Trend::Rising, rising)));
        let falling = "more connections give less throughput (-20.0 % from 4 to 12 connections)";
        check(&[100.0, 99.0, 80.0], Some((Trend::Falling, falling)));
        let peaked = "throughput rises (+50.0 % from 4 to 8 connections) and then falls (-20.0 % from 8 to 12 \
            connections)";
        check(&[100.0, 150.0, 120.0], Some((Trend::Peaked, peaked)));
    }

    #[test]
    fn without_intervals_the_trend_is_flat() {
        let figures = [100.0, 200.0].map(|mean| Figure { interval: None, ..figure(mean) });
        assert_eq!(trend(&[(4, &figures[0]), (8, &figures[1])]), Some(Trend::Flat));
    }
}
