//! A queue with several servers that serves requests in the order of their arrival, in virtual time (G/G/N).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::num::NonZeroUsize;

/// When each server becomes free. The service time of a request is known when it arrives, so no other state is
/// needed.
#[derive(Clone, Debug)]
pub(crate) struct Queue {
    /// The server that becomes free first is on top.
    free_ns: BinaryHeap<Reverse<u64>>,
    entered: u64,
    wait_sum_ns: u128,
    wait_max_ns: u64,
}

/// When a request is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Service {
    pub(crate) start_ns: u64,
    pub(crate) end_ns: u64,
}

/// How long requests waited for a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct QueueWaits {
    /// Requests that entered the queue.
    pub entered: u64,
    /// Mean wait for a free server in nanoseconds, without the service time.
    pub wait_mean_ns: u64,
    /// Maximum wait, nanoseconds.
    pub wait_max_ns: u64,
}

impl Queue {
    pub(crate) fn new(servers: NonZeroUsize) -> Self {
        let free_ns = std::iter::repeat_n(Reverse(0), servers.get()).collect();
        Self { free_ns, entered: 0, wait_sum_ns: 0, wait_max_ns: 0 }
    }

    /// Adds a request that arrived at `arrived_ns` and takes `service_ns`. Requests are served in the order in
    /// which they are added.
    pub(crate) fn enter(&mut self, arrived_ns: u64, service_ns: u64) -> Service {
        let Some(mut earliest) = self.free_ns.peek_mut() else { unreachable!("a queue has a server") };
        let start_ns = arrived_ns.max(earliest.0);
        let end_ns = start_ns.saturating_add(service_ns);
        earliest.0 = end_ns;
        drop(earliest);
        let wait_ns = start_ns - arrived_ns;
        self.entered += 1;
        self.wait_sum_ns += u128::from(wait_ns);
        self.wait_max_ns = self.wait_max_ns.max(wait_ns);
        Service { start_ns, end_ns }
    }

    pub(crate) fn waits(&self) -> QueueWaits {
        let wait_mean_ns = self.wait_sum_ns / u128::from(self.entered.max(1));
        QueueWaits {
            entered: self.entered,
            wait_mean_ns: u64::try_from(wait_mean_ns).unwrap_or(u64::MAX),
            wait_max_ns: self.wait_max_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::draw::Draws;

    fn queue(servers: usize) -> Queue {
        Queue::new(NonZeroUsize::new(servers).unwrap())
    }

    /// Adds requests with (arrival, service time), and checks the resulting (start, end) of each.
    #[track_caller]
    fn check(servers: usize, work: &[(u64, u64)], expected: &[(u64, u64)]) {
        let mut queue = queue(servers);
        let served: Vec<(u64, u64)> = work
            .iter()
            .map(|(arrived_ns, service_ns)| queue.enter(*arrived_ns, *service_ns))
            .map(|service| (service.start_ns, service.end_ns))
            .collect();
        assert_eq!(served, expected);
    }

    #[test]
    fn requests_are_served_in_order_of_arrival() {
        check(1, &[(10, 5), (11, 5), (12, 1), (30, 2)], &[(10, 15), (15, 20), (20, 21), (30, 32)]);
        check(2, &[(0, 10), (0, 4), (1, 3), (2, 1), (20, 1)], &[(0, 10), (0, 4), (4, 7), (7, 8), (20, 21)]);
        // The third request is short, but still waits until the second has started.
        check(2, &[(0, 100), (0, 100), (0, 1), (0, 1)], &[(0, 100), (0, 100), (100, 101), (100, 101)]);
        // The second request is added after the first one, but has an earlier arrival time, from the clock of another
        // worker. It is still served second.
        check(1, &[(10, 5), (9, 5)], &[(10, 15), (15, 20)]);
        check(1, &[(5, u64::MAX), (6, 1)], &[(5, u64::MAX), (u64::MAX, u64::MAX)]);
    }

    #[test]
    fn waits_for_one_server_match_lindley() {
        let (gaps, services) =
            (Draws::new("exp:10ms".parse().unwrap(), 1), Draws::new("exp:9ms".parse().unwrap(), 2));
        let mut queue = queue(1);
        let (mut arrived_ns, mut wait_ns, mut wait_sum_ns, mut wait_max_ns) = (0, 0_u64, 0, 0);
        for number in 0..100_000 {
            let service = queue.enter(arrived_ns, services.ns(number));
            assert_eq!(service.start_ns - arrived_ns, wait_ns, "request {number}");
            assert_eq!(service.end_ns, arrived_ns + wait_ns + services.ns(number));
            wait_sum_ns += wait_ns;
            wait_max_ns = wait_max_ns.max(wait_ns);
            // Lindley's recursion: the next wait is max(0, wait + service time - gap).
            wait_ns = (wait_ns + services.ns(number)).saturating_sub(gaps.ns(number));
            arrived_ns += gaps.ns(number);
        }
        let wait_mean_ns = wait_sum_ns / 100_000;
        assert_eq!(queue.waits(), QueueWaits { entered: 100_000, wait_mean_ns, wait_max_ns });
    }

    #[test]
    fn mean_waits_match_erlang() {
        // Expected mean wait, divided by the mean service time:
        // - M/M/1 at 50 % load: rho / (1 - rho), with rho = 0.5.
        // - M/M/4 at 80 % load: C / (4 - 3.2), with C = 0.5964, the Erlang C probability of a wait.
        for (servers, gap, theory_ns) in [(1, "exp:20ms", 10e6), (4, "exp:3125us", 0.5964 / 0.8 * 10e6)] {
            let (gaps, services) =
                (Draws::new(gap.parse().unwrap(), 3), Draws::new("exp:10ms".parse().unwrap(), 4));
            let mut queue = queue(servers);
            let mut arrived_ns = 0;
            for number in 0..1_000_000 {
                queue.enter(arrived_ns, services.ns(number));
                arrived_ns += gaps.ns(number);
            }
            let mean_ns = queue.waits().wait_mean_ns as f64;
            assert!(
                (mean_ns / theory_ns - 1.0).abs() < 0.02,
                "{servers} servers: {mean_ns}, not {theory_ns}"
            );
        }
    }
}
