//! Nonlinear least squares for a few parameters, by the Levenberg–Marquardt method (Marquardt 1963, "An algorithm for
//! least-squares estimation of nonlinear parameters").

/// Maximum number of steps.
const STEPS_MAX: usize = 500;
/// Relative improvement below which the solution has converged.
const SETTLED: f64 = 1e-15;
/// Damping at which the search for an improving step stops.
const DAMPING_MAX: f64 = 1e14;

/// The parameters at a local minimum of the sum of squares, found from the initial parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solution<const N: usize> {
    pub(super) parameters: [f64; N],
    /// Sum of the squared residuals.
    pub(super) squares: f64,
    /// The diagonal of the inverse of J'J, where J is the Jacobian of the residuals: the variance of each parameter
    /// divided by the variance of a residual. `None` if the points do not determine the parameters.
    pub(super) variances: Option<[f64; N]>,
}

/// Minimizes the sum of squares of `residual` over all `points`, beginning at the parameters `start`. `None` if the sum
/// is not finite at `start`.
pub(super) fn solve<const N: usize>(
    points: &[(f64, f64)],
    start: [f64; N],
    residual: impl Fn(&[f64; N], (f64, f64)) -> f64,
) -> Option<Solution<N>> {
    let residuals = |at: &[f64; N]| points.iter().map(|point| residual(at, *point)).collect::<Vec<f64>>();
    let squares = |residuals: &[f64]| residuals.iter().map(|residual| residual * residual).sum::<f64>();
    let mut at = start;
    let mut left = residuals(&at);
    let mut least = squares(&left);
    if !least.is_finite() {
        return None;
    }
    let mut damping = 1e-3;
    for _ in 0..STEPS_MAX {
        let jacobian = jacobian(&at, residuals);
        let (normal, gradient) = normal_equations(&jacobian, &left);
        let mut improved = None;
        while improved.is_none() && damping <= DAMPING_MAX {
            let mut damped = normal;
            for place in 0..N {
                damped[place][place] += damping * normal[place][place].max(1e-12);
            }
            let step = inverse(damped, 0.0).map(|inverse| times(&inverse, &gradient));
            let next = step.map(|step| std::array::from_fn(|place| at[place] - step[place]));
            improved = next.and_then(|next: [f64; N]| {
                let left = residuals(&next);
                let sum = squares(&left);
                (sum.is_finite() && sum <= least).then_some((next, left, sum))
            });
            damping *= if improved.is_some() { 0.3 } else { 4.0 };
        }
        let Some((next, next_left, next_least)) = improved else { break };
        let gain = least - next_least;
        (at, left, least) = (next, next_left, next_least);
        if gain <= SETTLED * least {
            break;
        }
    }
    let (normal, _) = normal_equations(&jacobian(&at, residuals), &left);
    let variances = variances(&normal);
    Some(Solution { parameters: at, squares: least, variances })
}

/// The derivatives of every residual, by central differences.
fn jacobian<const N: usize>(at: &[f64; N], residuals: impl Fn(&[f64; N]) -> Vec<f64>) -> Vec<[f64; N]> {
    let columns: [Vec<f64>; N] = std::array::from_fn(|place| {
        // The cube root of epsilon balances truncation and rounding errors.
        let stride = f64::EPSILON.cbrt() * at[place].abs().max(1e-2);
        let moved = |by: f64| {
            let mut moved = *at;
            moved[place] += by;
            residuals(&moved)
        };
        let (above, below) = (moved(stride), moved(-stride));
        above.iter().zip(&below).map(|(above, below)| (above - below) / (2.0 * stride)).collect()
    });
    (0..columns[0].len()).map(|row| std::array::from_fn(|place| columns[place][row])).collect()
}

/// J'J and J'r of the normal equations, from the Jacobian J and the residuals r.
fn normal_equations<const N: usize>(jacobian: &[[f64; N]], residuals: &[f64]) -> ([[f64; N]; N], [f64; N]) {
    let sum = |of: &dyn Fn(&[f64; N], f64) -> f64| {
        jacobian.iter().zip(residuals).map(|(row, residual)| of(row, *residual)).sum::<f64>()
    };
    let normal = std::array::from_fn(|row| std::array::from_fn(|column| sum(&|of, _| of[row] * of[column])));
    (normal, std::array::from_fn(|row| sum(&|of, residual| of[row] * residual)))
}

/// The diagonal of the inverse of `normal`; `None` for a singular matrix. `normal` is first scaled to correlations, so
/// that the check for singularity does not depend on the sizes of the parameters.
fn variances<const N: usize>(normal: &[[f64; N]; N]) -> Option<[f64; N]> {
    const LEAST_PIVOT: f64 = 1e-8;
    // A parameter without influence is decoupled from the others; its variance has no meaning.
    let is_idle = |place: usize| normal[place][place] == 0.0;
    let sizes: [f64; N] =
        std::array::from_fn(|place| if is_idle(place) { 1.0 } else { normal[place][place].sqrt() });
    let correlation = |row: usize, column: usize| match row == column {
        true => 1.0,
        false => normal[row][column] / (sizes[row] * sizes[column]),
    };
    let correlations: [[f64; N]; N] =
        std::array::from_fn(|row| std::array::from_fn(|column| correlation(row, column)));
    let inverse = inverse(correlations, LEAST_PIVOT)?;
    Some(std::array::from_fn(|place| inverse[place][place] / (sizes[place] * sizes[place])))
}

/// The inverse by Gauss–Jordan elimination; `None` if a pivot does not exceed `least_pivot`.
fn inverse<const N: usize>(mut matrix: [[f64; N]; N], least_pivot: f64) -> Option<[[f64; N]; N]> {
    let mut inverse: [[f64; N]; N] =
        std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))));
    for column in 0..N {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..N).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        matrix.swap(column, pivot);
        inverse.swap(column, pivot);
        let divisor = matrix[column][column];
        if !divisor.is_normal() || divisor.abs() <= least_pivot {
            return None;
        }
        for place in 0..N {
            matrix[column][place] /= divisor;
            inverse[column][place] /= divisor;
        }
        for row in (0..N).filter(|row| *row != column) {
            let factor = matrix[row][column];
            for place in 0..N {
                matrix[row][place] -= factor * matrix[column][place];
                inverse[row][place] -= factor * inverse[column][place];
            }
        }
    }
    Some(inverse)
}

fn times<const N: usize>(matrix: &[[f64; N]; N], vector: &[f64; N]) -> [f64; N] {
    std::array::from_fn(|row| (0..N).map(|column| matrix[row][column] * vector[column]).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-8 * expected.abs().max(1.0), "{value} is not {expected}");
    }

    #[test]
    fn a_straight_line_has_the_textbook_variances() {
        // y = 1 + 2 x with residuals 1, -2, 1: their sum and slope are zero, so the fitted line is still y = 1 + 2 x.
        let points = [(-1.0, -1.0 + 1.0), (0.0, 1.0 - 2.0), (1.0, 3.0 + 1.0)];
        let solution = solve(&points, [0.0, 0.0], |[a, b], (x, y)| a + b * x - y).unwrap();
        near(solution.parameters[0], 1.0);
        near(solution.parameters[1], 2.0);
        near(solution.squares, 6.0);
        let [a, b] = solution.variances.unwrap();
        near(a, 1.0 / 3.0);
        near(b, 1.0 / 2.0);
    }

    #[test]
    fn a_curve_is_found_from_afar() {
        let points: Vec<(f64, f64)> =
            (0..12).map(f64::from).map(|x| (x, 3.0 + 5.0 * (-0.7 * x).exp())).collect();
        let solution =
            solve(&points, [1.0, 1.0, -0.1], |[a, b, c], (x, y)| a + b * (c * x).exp() - y).unwrap();
        for (parameter, expected) in solution.parameters.into_iter().zip([3.0, 5.0, -0.7]) {
            near(parameter, expected);
        }
    }

    #[test]
    fn undetermined_parameters_have_no_variances() {
        let points = [(1.0, 1.0), (1.0, 1.0)];
        let solution = solve(&points, [0.0, 0.0], |[a, b], (x, y)| a + b * x - y).unwrap();
        assert!(solution.squares < 1e-12 && solution.variances.is_none(), "{solution:?}");
        assert!(solve(&points, [0.0], |[a], (_, y)| (a - y) / 0.0).is_none());
    }
}
