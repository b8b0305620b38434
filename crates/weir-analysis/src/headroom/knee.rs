//! The knee of a curve by Kneedle (Satopaa, Albrecht, Irwin, Raghavan 2011, "Finding a 'Kneedle' in a Haystack:
//! Detecting Knee Points in System Behavior").

/// Minimum number of points for a knee.
const POINTS_MIN: usize = 5;
/// S in the paper. A knee is confirmed if `difference` then falls by more than S times the mean distance between
/// points.
const SENSITIVITY: f64 = 1.0;

/// Index of the knee of a convex rising curve; `points` by ascending x. `None` without a knee, or for fewer than five
/// points.
///
/// The paper's algorithm finds the knee of a concave rising curve, so the points are turned by 180°, which makes a
/// convex curve concave. They are means of repeats, so they are not smoothed again.
pub fn knee(points: &[(f64, f64)]) -> Option<usize> {
    let (first, last) = (points.first()?, points.last()?);
    let lowest = points.iter().map(|(_, y)| *y).fold(f64::INFINITY, f64::min);
    let highest = points.iter().map(|(_, y)| *y).fold(f64::NEG_INFINITY, f64::max);
    let (width, height) = (last.0 - first.0, highest - lowest);
    let is_ascending = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if points.len() < POINTS_MIN || !is_ascending || !(width > 0.0 && height > 0.0) {
        return None;
    }
    // After normalization to the unit square, the algorithm uses `y - x` of the turned points. This equals `x - y` of
    // the points before the turn, in reverse order.
    let difference: Vec<f64> =
        points.iter().rev().map(|(x, y)| (x - first.0) / width - (y - lowest) / height).collect();
    let fall = SENSITIVITY / (points.len() - 1) as f64;
    // The candidate for the knee: the index of a maximum of `difference`, and a threshold. The candidate is confirmed
    // if `difference` falls below the threshold, and dropped if `difference` rises again before that.
    let mut candidate: Option<(usize, f64)> = None;
    for place in 1..difference.len() {
        if let Some((knee, threshold)) = candidate
            && difference[place] < threshold
        {
            return Some(points.len() - 1 - knee);
        }
        let Some(next) = difference.get(place + 1) else { break };
        let (before, here) = (difference[place - 1], difference[place]);
        if here >= before && here > *next {
            candidate = Some((place, here - fall));
        } else if here <= before && here < *next {
            candidate = None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The curve of the paper's figure 2, y = 5 - 1 / (x + 0.1), turned by 180°. The paper finds its knee at x = 0.22.
    #[test]
    fn the_knee_of_the_papers_figure_is_found() {
        let ascending = (0..10).map(|place| f64::from(place) / 9.0);
        let turned: Vec<(f64, f64)> = ascending.map(|x| (x, -(5.0 - 1.0 / (1.0 - x + 0.1)))).collect();
        let found = turned[knee(&turned).unwrap()];
        assert!((1.0 - found.0 - 2.0 / 9.0).abs() < 1e-12, "{found:?}");
        assert!((-found.1 - 1.896_551_724).abs() < 1e-9, "{found:?}");
    }

    #[test]
    fn a_queue_bends_before_its_limit() {
        let rates = [50.0, 150.0, 250.0, 350.0, 450.0, 550.0, 650.0, 750.0, 850.0, 950.0];
        let points: Vec<(f64, f64)> = rates.iter().map(|rate| (*rate, 1e9 / (1_000.0 - rate))).collect();
        // By hand: the normalized x - y has its maximum, 0.622, at 750/s. At 550/s it is 0.494. The difference is more
        // than 1/9, so the knee is confirmed.
        assert_eq!(knee(&points), Some(7));
    }

    #[test]
    fn a_straight_line_a_flat_one_and_a_few_points_have_no_knee() {
        let of = |y: fn(f64) -> f64| {
            let points: Vec<(f64, f64)> = (0..9).map(f64::from).map(|x| (x, y(x))).collect();
            knee(&points)
        };
        assert_eq!(of(|x| 2.0 * x + 1.0), None);
        assert_eq!(of(|_| 3.0), None);
        // `knee` finds knees only in convex curves, but this curve is concave.
        assert_eq!(of(f64::sqrt), None);
        assert_eq!(knee(&[(1.0, 1.0), (2.0, 1.1), (3.0, 1.2), (4.0, 9.0)]), None);
        assert_eq!(knee(&[]), None);
        assert_eq!(knee(&[(1.0, 1.0); 6]), None);
    }
}
