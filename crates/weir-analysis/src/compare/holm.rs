//! Holm's correction for many comparisons. It turns one joint error level into an error level for the interval of each
//! comparison.
//!
//! Holm (Scandinavian Journal of Statistics 6, 1979) tests the lowest p-value at `alpha / m`, the next at `alpha / (m -
//! 1)` and so on, and stops at the first p-value that is too large. Each interval gets the level of its test. All
//! intervals after the first failure get the level of that failure. So an interval lies wholly beyond its margin if and
//! only if Holm's test rejects its hypothesis. Together, the intervals are the simultaneous intervals of Holm's test
//! (Strassburger and Bretz, Statistics in Medicine 27, 2008).

/// The two-sided error level of each interval, so that the joint error is at most `alpha`.
pub(crate) fn levels(p_values: &[f64], alpha: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|one, other| p_values[*one].total_cmp(&p_values[*other]));
    let mut levels = vec![alpha; p_values.len()];
    let (mut rejected, mut is_rejecting) = (0, true);
    for place in order {
        levels[place] = alpha / (p_values.len() - rejected) as f64;
        is_rejecting &= p_values[place] <= levels[place];
        rejected += usize::from(is_rejecting);
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
    fn levels_grow_with_each_rejection_until_the_first_failure() {
        check(&[], &[]);
        check(&[0.5], &[1.0]);
        check(&[0.5, 0.6, 0.7], &[3.0, 3.0, 3.0]);
        // The lowest p-value is tested at a third of the level, the next at a half, the last at the full level.
        check(&[0.009, 0.001, 0.004], &[1.0, 3.0, 2.0]);
        // After the first p-value that is too large, later p-values are not tested.
        check(&[0.001, 0.006, 0.0065], &[3.0, 2.0, 2.0]);
        check(&[1.0, 0.0, 1.0, 1.0], &[3.0, 4.0, 3.0, 3.0]);
    }
}
