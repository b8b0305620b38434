//! Holm's correction as levels of intervals: many comparisons, and one error of all of them together.
//!
//! Holm (Scandinavian Journal of Statistics 6, 1979) takes the least p-value at `alpha / m`, the next at
//! `alpha / (m - 1)` and so on, and stops at the first that is too great. The interval of a comparison is drawn at the
//! level at which it was taken; from the first that was not rejected on, all are drawn at that one's level. So an interval
//! lies wholly beyond its margin exactly where Holm rejects, and those that are not rejected are the simultaneous
//! intervals which Strassburger and Bretz (Statistics in Medicine 27, 2008) show to belong to Holm's test.

/// The two-sided level of error of each comparison's interval, so that the error of all together is at most `alpha`.
pub(crate) fn levels(p_values: &[f64], alpha: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut levels = vec![alpha; p_values.len()];
    let (mut rejected, mut is_going_on) = (0, true);
    for place in order {
        levels[place] = alpha / (p_values.len() - rejected) as f64;
        is_going_on &= p_values[place] <= levels[place];
        rejected += usize::from(is_going_on);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(p_values: &[f64], shares_of_alpha: &[f64]) {
        let expected: Vec<f64> = shares_of_alpha.iter().map(|share| 0.01 / share).collect();
        assert_eq!(levels(p_values, 0.01), expected);
    }

    #[test]
    fn levels_grow_with_each_rejection_and_stay_after_the_first_that_is_none() {
        check(&[], &[]);
        check(&[0.5], &[1.0]);
        check(&[0.5, 0.6, 0.7], &[3.0, 3.0, 3.0]);
        // The least is rejected at a third, the next at a half, the last has all that is left.
        check(&[0.009, 0.001, 0.004], &[1.0, 3.0, 2.0]);
        // What would pass later is not asked any more.
        check(&[0.001, 0.006, 0.0065], &[3.0, 2.0, 2.0]);
        check(&[1.0, 0.0, 1.0, 1.0], &[3.0, 4.0, 3.0, 3.0]);
    }
}
