//! Think times: how long a slot pauses between a response and its next request. They depend only on seed, slot and
//! response number.

use weir_document::Pause;

use crate::pacing::schedule::{exponential, hash};

/// Separates the random numbers of think times from those of arrivals and templates of the same seed.
const STREAM: u64 = 0x7468_696e_6b20_7469;

/// The configured think times of a closed loop, and the seed for drawing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Think {
    pause: Pause,
    seed: u64,
}

impl Think {
    /// The think times of a load: `pause` is fixed or exponential, and `seed` is the load's seed.
    pub fn new(seed: u64, pause: Pause) -> Self {
        Self { pause, seed: hash(seed ^ STREAM, 0) }
    }

    /// The think time after the `number`th response of `slot`. Slots are numbered over all workers and machines.
    pub fn draw_ns(&self, slot: u64, number: u64) -> u64 {
        match self.pause {
            Pause::Const(time) => time.as_ns(),
            Pause::Exp(mean) => (mean.as_ns() as f64 * exponential(hash(self.seed, slot), number)) as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_depend_only_on_seed_slot_and_number() {
        let of = |seed, slot, number| Think::new(seed, "exp:1ms".parse().unwrap()).draw_ns(slot, number);
        assert_eq!(of(1, 2, 3), of(1, 2, 3));
        let drawn = [of(1, 2, 3), of(2, 2, 3), of(1, 3, 3), of(1, 2, 4), of(1, 3, 2)];
        let apart: std::collections::BTreeSet<u64> = drawn.into();
        assert_eq!(apart.len(), drawn.len());
        assert_eq!(Think::new(1, "7ns".parse().unwrap()).draw_ns(5, 6), 7);
    }

    #[test]
    fn exponential_pauses_have_the_expected_mean_and_spread() {
        let think = Think::new(9, "exp:1ms".parse().unwrap());
        let drawn: Vec<f64> =
            (0..400).flat_map(|slot| (0..500).map(move |n| think.draw_ns(slot, n) as f64 / 1e6)).collect();
        let n = drawn.len() as f64;
        let mean = drawn.iter().sum::<f64>() / n;
        let variance = drawn.iter().map(|pause| (pause - mean).powi(2)).sum::<f64>() / n;
        // The tolerance is five standard errors of each estimate. The seed is fixed, so the test cannot fail by chance.
        assert!((mean - 1.0).abs() < 5.0 / n.sqrt(), "mean {mean}");
        assert!((variance - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "variance {variance}");
    }
}
