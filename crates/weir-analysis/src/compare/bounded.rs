//! Computes the ratio of B to A from values that have only bounds. A claim must hold for all values within the bounds.

use super::effect::{Effect, Reading};
use crate::figures::figure::{Figure, Range};

/// An effect that is computed from bounds, and the number of repeats used.
pub(super) struct Bounded {
    pub(super) effect: Reading,
    /// Number of valid or bounded repeats of A and of B. If paired, number of blocks in which both have such a repeat.
    pub(super) counts: [usize; 2],
}

/// The lowest and the highest possible ratio B / A; `None` if both are unknown.
///
/// Without the lowest ratio, it is impossible to claim that B is greater. Without the highest, it is impossible to
/// claim that B is less.
pub(super) fn between(a: &Figure, b: &Figure, is_paired: bool) -> Option<Bounded> {
    let (of_a, of_b) = (known(a), known(b));
    let lowest = effect(&of_a, &of_b, is_paired, |range| range.high, |range| range.low);
    let highest = effect(&of_a, &of_b, is_paired, |range| range.low, |range| range.high);
    let unknown = [lowest.is_none(), highest.is_none()];
    let (first, second) = match (lowest, highest) {
        (Some(lowest), highest) => (lowest, highest),
        (None, Some(highest)) => (highest, None),
        (None, None) => return None,
    };
    let counts = match is_paired {
        true => [of_b.iter().filter(|(repeat, _)| of_a.iter().any(|(other, _)| other == repeat)).count(); 2],
        false => [of_a.len(), of_b.len()],
    };
    Some(Bounded { effect: Reading { first, second, unknown }, counts })
}

/// Repeat number and known range of each valid or bounded repeat.
fn known(figure: &Figure) -> Vec<(u32, Range)> {
    let is_known = |range: &Range| !range.is_empty();
    let repeats = figure.repeats.iter().map(|repeated| (repeated.repeat, repeated.known()));
    repeats.filter(|(_, range)| is_known(range)).collect()
}

fn effect(
    a: &[(u32, Range)],
    b: &[(u32, Range)],
    is_paired: bool,
    end_of_a: fn(&Range) -> Option<f64>,
    end_of_b: fn(&Range) -> Option<f64>,
) -> Option<Effect> {
    let ends = |of: &[(u32, Range)], end: fn(&Range) -> Option<f64>| -> Vec<(u32, f64)> {
        of.iter().filter_map(|(repeat, range)| Some((*repeat, end(range)?))).collect()
    };
    let (of_a, of_b) = (ends(a, end_of_a), ends(b, end_of_b));
    if is_paired {
        let pair = |(repeat, b): &(u32, f64)| Some((of_a.iter().find(|(other, _)| other == repeat)?.1, *b));
        return Effect::paired(&of_b.iter().filter_map(pair).collect::<Vec<_>>());
    }
    let values = |of: &[(u32, f64)]| of.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    Effect::unpaired(&values(&of_a), &values(&of_b))
}

#[cfg(test)]
mod tests {
    use weir_results::Reason;

    use super::*;
    use crate::figures::figure::{Repeated, Sample};

    const LEVEL: f64 = 0.01;
    const MARGIN: f64 = 0.05;

    /// Six repeats near `value`. The bounds of a repeat are `low` and `high` times its value. Without bounds, all
    /// repeats are valid.
    fn figure(value: f64, low: Option<f64>, high: Option<f64>) -> Figure {
        let repeated = |repeat: u32| {
            let value = value * (1.0 + 0.01 * (f64::from(repeat) - 2.5));
            let range = Range { low: low.map(|low| low * value), high: high.map(|high| high * value) };
            let reasons = if range.is_empty() { Vec::new() } else { vec![Reason::HostNoise] };
            Repeated { repeat, sample: Sample::Value(value), reasons, range }
        };
        Figure::of((0..6).map(repeated).collect())
    }

    fn p_value(a: &Figure, b: &Figure, is_paired: bool) -> f64 {
        between(a, b, is_paired).expect("an effect").effect.p_value_beyond(MARGIN)
    }

    #[test]
    fn a_bound_supports_claims_only_on_its_known_side() {
        let exact = figure(10.0, None, None);
        let at_most = |value| figure(value, None, Some(1.0));
        let at_least = |value| figure(value, Some(1.0), None);
        for is_paired in [true, false] {
            // A value of at most 5 is less than 10. A value of at least 5 may be less or more than 10.
            assert!(p_value(&exact, &at_most(5.0), is_paired) < LEVEL);
            assert_eq!(p_value(&exact, &at_least(5.0), is_paired), 1.0);
            assert!(p_value(&exact, &at_least(20.0), is_paired) < LEVEL);
            assert_eq!(p_value(&exact, &at_most(20.0), is_paired), 1.0);
            let [low, high] = between(&exact, &at_most(5.0), is_paired).unwrap().effect.interval(LEVEL);
            assert!(low <= f64::MIN_POSITIVE && (0.5..0.6).contains(&high), "{low} {high}");
        }
    }

    #[test]
    fn both_sides_bound_the_ratio_on_both() {
        let (a, b) = (figure(10.0, None, None), figure(10.0, Some(0.9), Some(1.2)));
        let [low, high] = between(&a, &b, true).unwrap().effect.interval(LEVEL);
        assert!((0.89..0.91).contains(&low) && (1.19..1.21).contains(&high), "{low} {high}");
        assert_eq!(p_value(&a, &b, true), 1.0, "it may be more or less");
        assert!(p_value(&a, &figure(20.0, Some(0.9), Some(1.2)), true) < LEVEL);
    }

    #[test]
    fn opposite_bounds_have_no_effect() {
        let at_least = figure(10.0, Some(1.0), None);
        assert!(between(&at_least, &at_least, true).is_none());
        let invalid =
            Figure::of(vec![Repeated { reasons: vec![Reason::Implausible], ..Repeated::default() }]);
        assert!(between(&invalid, &at_least, false).is_none());
    }
}
