//! The part of a load (or of one of its steps) that this machine drives, and how its workers share it.

use super::shard::share;
use super::{LoadSpec, ModelSpec, ShardSpec};

/// This machine's part of a load without steps, or of one step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part<'a> {
    /// The specification of the whole load.
    pub(crate) spec: &'a LoadSpec,
    pub(crate) shard: ShardSpec,
    /// Number of worker threads of this machine. Each has at least one connection.
    pub(crate) workers: u32,
}

impl<'a> Part<'a> {
    pub(crate) fn of(spec: &'a LoadSpec) -> Self {
        let mut part = Self { spec, shard: spec.shard.unwrap_or_default(), workers: spec.workers };
        part.workers = spec.workers.min(part.connections_most());
        part
    }

    /// Number of connections of all workers of this machine. With a ramp of connections, this is the number at the end
    /// of the ramp.
    pub(crate) fn connections(&self) -> u32 {
        self.share(self.spec.connections)
    }

    /// Maximum number of connections that all workers of this machine have at the same time.
    pub(crate) fn connections_most(&self) -> u32 {
        self.share(self.spec.connections.max(self.spec.connections_from.unwrap_or(0)))
    }

    /// Number of connections of one worker. If the number changes over time, this is the maximum.
    pub(crate) fn connections_of(&self, worker: u32) -> usize {
        share(self.connections_most().into(), worker, self.workers) as usize
    }

    /// Number of connections of one worker that are open from the start.
    pub(crate) fn connections_first_of(&self, worker: u32) -> usize {
        let first = self.share(self.spec.connections_from.unwrap_or(self.spec.connections));
        share(first.into(), worker, self.workers) as usize
    }

    /// Maximum number of in-flight requests per connection.
    pub(crate) fn streams(&self) -> u32 {
        self.spec.streams.unwrap_or(1)
    }

    /// Number of requests of the sustained phase over all workers of this machine; `None` if a duration ends the
    /// phase.
    pub(crate) fn request_count(&self) -> Option<u64> {
        self.spec.request_count.map(|count| self.shard.share(count))
    }

    /// Arrivals per second over all workers of this machine, at the start of the load; `None` in a closed loop.
    pub(crate) fn rate_per_s(&self) -> Option<f64> {
        match self.spec.model {
            ModelSpec::Open { rate_per_s, .. } => Some(rate_per_s / f64::from(self.shard.of)),
            ModelSpec::Closed { .. } => None,
        }
    }

    fn share(&self, total: u32) -> u32 {
        self.shard.share(total.into()) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(from: Option<u32>, connections: u32, workers: u32) -> LoadSpec {
        LoadSpec { connections_from: from, connections, workers, ..LoadSpec::default() }
    }

    #[test]
    fn a_ramp_opens_its_first_connections_and_later_the_rest() {
        let check = |from, to, first, most| {
            let spec = spec(from, to, 2);
            let part = Part::of(&spec);
            assert_eq!([0, 1].map(|worker| part.connections_first_of(worker)), first);
            assert_eq!([0, 1].map(|worker| part.connections_of(worker)), most);
        };
        check(Some(1), 60, [1, 0], [30, 30]);
        check(Some(7), 1, [4, 3], [4, 3]);
        check(None, 9, [5, 4], [5, 4]);
    }

    #[test]
    fn shards_split_connections_and_every_worker_has_one() {
        let check = |from, to, of, expected: &[(u32, usize, u32)]| {
            let found = (0..of).map(|index| {
                let shard = Some(ShardSpec { index, of });
                let spec = LoadSpec { shard, ..spec(from, to, 4) };
                let part = Part::of(&spec);
                let first = (0..part.workers).map(|worker| part.connections_first_of(worker)).sum();
                (part.connections_most(), first, part.workers)
            });
            assert_eq!(found.collect::<Vec<_>>(), expected);
        };
        check(None, 10, 3, &[(4, 4, 4), (3, 3, 3), (3, 3, 3)]);
        check(Some(1), 10, 3, &[(4, 1, 4), (3, 0, 3), (3, 0, 3)]);
        check(Some(30), 10, 2, &[(15, 15, 4), (15, 15, 4)]);
        check(None, 10, 1, &[(10, 10, 4)]);
    }
}
