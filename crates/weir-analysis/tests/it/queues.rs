//! Simulated queues: Poisson arrivals, one queue, N servers.

use crate::fuzzed::Random;

/// A queue for several servers with exponential service times.
pub(crate) struct Queue {
    service_s: f64,
    servers: usize,
}

impl Queue {
    pub(crate) fn exponential(service_s: f64, servers: usize) -> Self {
        Self { service_s, servers }
    }

    /// Response times of requests that arrive after the warm-up. The queue is empty at the start. In the middle, all
    /// servers stop for `pause_s`.
    pub(crate) fn responses_s(
        &self,
        random: &mut Random,
        rate_per_s: f64,
        warmup_s: f64,
        length_s: f64,
        pause_s: f64,
    ) -> Vec<f64> {
        let pause = warmup_s + length_s / 2.0;
        let mut free_s = vec![0.0_f64; self.servers];
        let (mut now_s, mut times_s) = (0.0, Vec::new());
        loop {
            now_s += exponential(random, 1.0 / rate_per_s);
            if now_s > warmup_s + length_s {
                return times_s;
            }
            let Some(first) = free_s.iter_mut().min_by(|a, b| a.total_cmp(b)) else { return times_s };
            let mut start_s = first.max(now_s);
            if start_s >= pause && start_s < pause + pause_s {
                start_s = pause + pause_s;
            }
            *first = start_s + exponential(random, self.service_s);
            if now_s >= warmup_s {
                times_s.push(*first - now_s);
            }
        }
    }
}

/// An exponentially distributed time.
fn exponential(random: &mut Random, mean_s: f64) -> f64 {
    -mean_s * random.unit().ln()
}
