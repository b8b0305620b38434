//! Growth of throughput with the CPU limit of a gateway.

use crate::figures::figure::Figure;
use crate::points::Row;

/// A gateway at one CPU limit, relative to its lowest limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Scaled {
    /// The limit, cores.
    pub cpus: f64,
    /// Throughput per core, relative to throughput per core at the lowest limit in the same repeat; 1 is linear growth.
    pub efficiency: Figure,
}

/// Returns the efficiency of a gateway at each CPU limit, ascending. Each of its `rows` is paired with its limit in
/// cores.
///
/// Empty if no limit is above zero.
pub fn scaling(rows: &[(f64, &Row)]) -> Vec<Scaled> {
    let mut rows: Vec<(f64, &Row)> =
        rows.iter().copied().filter(|(cpus, _)| *cpus > 0.0 && cpus.is_finite()).collect();
    rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some((least, base)) = rows.first().copied() else { return Vec::new() };
    let scaled = |(cpus, row): (f64, &Row)| {
        let share = |value: f64, base: f64| value / base * (least / cpus);
        Scaled { cpus, efficiency: Figure::of(row.throughput_per_s.paired(&base.throughput_per_s, share)) }
    };
    rows.into_iter().map(scaled).collect()
}

#[cfg(test)]
mod tests {
    use weir_results::Reason;

    use super::*;
    use crate::figures::figure::{Repeated, Sample};

    fn figure(repeats: &[(f64, &[Reason])]) -> Figure {
        let repeated = |(repeat, (value, reasons)): (usize, &(f64, &[Reason]))| Repeated {
            repeat: repeat as u32,
            sample: Sample::Value(*value),
            reasons: reasons.to_vec(),
            ..Repeated::default()
        };
        Figure::of(repeats.iter().enumerate().map(repeated).collect())
    }

    fn row(repeats: &[(f64, &[Reason])]) -> Row {
        Row { throughput_per_s: figure(repeats), ..Row::default() }
    }

    #[test]
    fn efficiency_is_relative_to_the_least_limit_in_the_same_repeat() {
        let (one, four) = (row(&[(1_000.0, &[]), (2_000.0, &[])]), row(&[(3_000.0, &[]), (6_000.0, &[])]));
        let scaled = scaling(&[(4.0, &four), (1.0, &one)]);
        assert_eq!(scaled.iter().map(|at| at.cpus).collect::<Vec<_>>(), [1.0, 4.0]);
        assert!((scaled[0].efficiency.mean.unwrap() - 1.0).abs() < 1e-12);
        // The host was twice as fast in the second repeat, which does not change the efficiency.
        assert!((scaled[1].efficiency.mean.unwrap() - 0.75).abs() < 1e-12);
        let [low, high] = scaled[1].efficiency.interval.unwrap();
        assert!((low - 0.75).abs() < 1e-9 && (high - 0.75).abs() < 1e-9);
    }

    #[test]
    fn efficiency_is_invalid_if_either_limit_is_invalid() {
        let disturbed: &[Reason] = &[Reason::HostNoise];
        let (one, two) = (row(&[(1_000.0, disturbed)]), row(&[(2_000.0, &[])]));
        let scaled = scaling(&[(1.0, &one), (2.0, &two)]);
        assert!(!scaled[1].efficiency.is_valid());
        assert!(scaling(&[]).is_empty() && scaling(&[(0.0, &one)]).is_empty());
    }
}
