//! Corrects ratios of CPU time per request for the speed of the host.
//!
//! A core is slower if its sibling thread is busy, if a neighbour uses its caches, or if its frequency is low. A slow
//! core also slows down the rig's own programs. They do the same work per request with every gateway, so their CPU time
//! shows the speed of the host.
//!
//! Each block has two ratios B / A: the ratio of the gateways' CPU time, and the ratio of the rig's CPU time. A
//! straight line is fitted to the logarithms of these ratios. The corrected ratio is the gateways' ratio on this line
//! where the rig's ratio is 1. This is the analysis of covariance for paired values (R. A. Fisher, *Statistical Methods
//! for Research Workers*, 4th edition, 1932, section 49.1).

use serde::Serialize;

use super::effect::Effect;
use crate::figures::figure::Figure;
use crate::figures::interval::CONFIDENCE;

/// Minimum number of blocks for the correction: the same as for *better* and *worse*.
const BLOCKS_MIN: usize = super::CLAIM_REPEATS;

/// The correction for the speed of the host.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct HostSpeed {
    /// The ratio B / A of the gateways as measured, without the correction.
    pub measured: f64,
    /// The ratio B / A of the CPU time per request of upstream and load generator, from geometric means.
    pub rig: f64,
    /// 95 % interval of `rig`.
    pub rig_interval: [f64; 2],
    /// Exponent of the fit: the gateways' ratio B / A is proportional to the rig's ratio B / A raised to this power. 1
    /// if gateways and rig slow down alike, 0 if their speeds are unrelated.
    pub power: f64,
}

impl HostSpeed {
    /// Whether the rig's CPU time differs significantly between A and B. If so, the rig itself may have done different
    /// work. Then a verdict of better, worse or the same must hold both with and without the correction.
    pub fn rig_differs(&self) -> bool {
        let [low, high] = self.rig_interval;
        low > 1.0 || high < 1.0
    }
}

/// A ratio corrected for the speed of the host.
pub(super) struct Corrected {
    pub(super) effect: Effect,
    pub(super) speed: HostSpeed,
}

/// Corrects the ratios B / A of `blocks` (number and ratio of each block) for the speed of the host, measured by the
/// rig's CPU time in A and B. Returns `None` if there are too few blocks, if a block has no rig value, or if the rig's
/// ratio is the same in all blocks.
pub(super) fn corrected(blocks: &[(u32, f64)], rig_a: &Figure, rig_b: &Figure) -> Option<Corrected> {
    let of_rig = rig_b.paired(rig_a, |b, a| b / a);
    let rig = |(repeat, _): &(u32, f64)| of_rig.iter().find(|of| of.repeat == *repeat)?.value().map(f64::ln);
    let x: Vec<f64> = blocks.iter().map(rig).collect::<Option<_>>()?;
    let y: Vec<f64> = blocks.iter().map(|(_, ratio)| ratio.ln()).collect();
    if x.len() < BLOCKS_MIN || !x.iter().chain(&y).all(|log| log.is_finite()) {
        return None;
    }
    let line = Line::through(&x, &y)?;
    let pairs: Vec<(f64, f64)> = x.iter().map(|log| (1.0, log.exp())).collect();
    let of_rig = Effect::paired(&pairs)?;
    let speed = HostSpeed {
        measured: mean(&y).exp(),
        rig: of_rig.log_ratio.exp(),
        rig_interval: of_rig.interval(1.0 - CONFIDENCE),
        power: line.slope,
    };
    Some(Corrected { effect: line.at_zero, speed })
}

/// A straight line fitted by least squares.
struct Line {
    slope: f64,
    at_zero: Effect,
}

impl Line {
    /// Fits the line; `None` if all `x` are equal. The formula for the standard error of the line at `x` = 0 is from N.
    /// R. Draper and H. Smith, *Applied Regression Analysis*, 3rd edition, 1998, section 1.4.
    fn through(x: &[f64], y: &[f64]) -> Option<Self> {
        let n = x.len() as f64;
        let (mean_x, mean_y) = (mean(x), mean(y));
        let sum = |of: &dyn Fn(f64, f64) -> f64| {
            x.iter().zip(y).map(|(x, y)| of(x - mean_x, y - mean_y)).sum::<f64>()
        };
        let square_x = sum(&|x, _| x * x);
        if square_x <= f64::EPSILON {
            return None;
        }
        let slope = sum(&|x, y| x * y) / square_x;
        let degrees_of_freedom = n - 2.0;
        let variance = sum(&|x, y| (y - slope * x).powi(2)) / degrees_of_freedom;
        let at_zero = Effect {
            log_ratio: mean_y - slope * mean_x,
            standard_error: (variance * (1.0 / n + mean_x * mean_x / square_x)).sqrt(),
            degrees_of_freedom,
            looks: crate::figures::looks::Looks::Once,
        };
        Some(Self { slope, at_zero })
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_matches_the_textbook() {
        // By hand: means 2 and 3, Sxx 10, Sxy 6, residuals -0.8, 0.6, 1.0, -0.6, -0.2.
        let (x, y) = ([0.0, 1.0, 2.0, 3.0, 4.0], [1.0, 3.0, 4.0, 3.0, 4.0]);
        let line = Line::through(&x, &y).unwrap();
        let near =
            |value: f64, expected: f64| assert!((value - expected).abs() < 1e-9, "{value}, {expected}");
        near(line.slope, 0.6);
        near(line.at_zero.log_ratio, 1.8);
        near(line.at_zero.standard_error, f64::sqrt(2.4 / 3.0 * (0.2 + 4.0 / 10.0)));
        near(line.at_zero.degrees_of_freedom, 3.0);
        assert!(Line::through(&[1.0; 3], &[1.0, 2.0, 3.0]).is_none());
    }

    #[test]
    fn the_influence_of_the_host_is_removed_and_that_of_the_gateway_stays() {
        let speeds = [1.0, 1.3, 0.8, 1.1, 0.9, 1.2, 1.05];
        let blocks: Vec<(u32, f64)> =
            speeds.iter().enumerate().map(|(at, speed)| (at as u32, 1.1 * f64::powf(*speed, 1.2))).collect();
        let rig = |values: &[f64]| Figure::of_valid(values.iter().copied().map(Some));
        let found = corrected(&blocks, &rig(&[20.0; 7]), &rig(&speeds.map(|speed| 20.0 * speed))).unwrap();
        assert!((found.effect.log_ratio.exp() - 1.1).abs() < 1e-9 && !found.effect.has_spread());
        assert!((found.speed.power - 1.2).abs() < 1e-9 && !found.speed.rig_differs());
        assert!((found.speed.measured / found.speed.rig.powf(1.2) - 1.1).abs() < 1e-9);
        let more = rig(&speeds.map(|speed| 20.0 * (1.5 + 0.01 * speed)));
        assert!(corrected(&blocks, &rig(&[20.0; 7]), &more).unwrap().speed.rig_differs());
        // Returns `None` in three cases: too few blocks, a block without a rig value, and the same rig ratio in all
        // blocks.
        assert!(corrected(&blocks[..5], &rig(&[20.0; 7]), &rig(&speeds)).is_none());
        assert!(corrected(&blocks, &rig(&[20.0; 6]), &rig(&speeds)).is_none());
        assert!(corrected(&blocks, &rig(&speeds), &rig(&speeds)).is_none());
    }
}
