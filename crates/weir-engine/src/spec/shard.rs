//! The part of a load that one of several machines drives.

use serde::{Deserialize, Serialize};
use weir_results::words::counted;

use super::LoadSpec;
use super::check::{invalid, out_of_range};
use crate::EngineError;

/// Maximum number of machines that can share a load.
pub const SHARDS_MAX: u32 = 1_000;
/// Maximum time until a planned start. Connections are kept open until then.
const START_AHEAD_MAX_NS: u64 = 600 * 1_000_000_000;

/// The part of a load that this machine drives. Each machine gets the specification of the whole load.
///
/// All machines together send the same load as a single machine would (`docs/method.md#many-machines`):
///
/// - *Poisson arrivals*: each machine draws its own random arrivals, at the rate divided by `of`. Together they are a
///   Poisson process, even if the machines' clocks differ. Ramps and bursts change the rate of all machines in the same
///   way.
/// - *Even spacing*: machine `index` sends every `of`-th request of the schedule, beginning with number `index`. If a
///   machine starts 2 ms late, each of its requests is 2 ms late.
/// - *Bursts* begin at times relative to the start of each machine. So if the machines start at different times, the
///   edges of a burst are blurred by the difference.
/// - *Connections* and the *number of requests* are split as evenly as possible; the first machines get the remainder.
///   If the number of connections changes over time, the machines open or close them in round robin.
/// - *Requests* are numbered over all machines: request n of this machine has the number n x `of` + `index`. Mixes,
///   `{seq}`, `{uuid}`, tokens, domains and the entries of a recorded session use this number, so the values of `{seq}`
///   and `{uuid}` are unique. If the number of tokens or domains and `of` have a common factor, each machine uses only
///   some of the tokens or domains.
/// - *Think times*, the server names of TLS sessions, and the choice of sessions to resume are random. They depend on
///   (seed, index).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardSpec {
    /// Index of this machine's part, from 0.
    pub index: u32,
    /// Number of machines that share the load. With 1, this machine drives the whole load.
    pub of: u32,
}

impl ShardSpec {
    /// The whole load, driven by one machine.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Whether this machine drives the whole load.
    pub(crate) fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Converts the index of a request or connection on this machine to its index over all machines.
    #[inline]
    pub(crate) fn number(self, local: u64) -> u64 {
        local * u64::from(self.of) + u64::from(self.index)
    }

    /// Returns this machine's share of `total`. Shares are equal, except that the first `total % of` shares are larger
    /// by 1.
    pub fn share(self, total: u64) -> u64 {
        share(total, self.index, self.of)
    }
}

impl Default for ShardSpec {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// Divides `total` among `of` workers or machines. Returns the share of number `index`, counted from 0. Shares are
/// equal, except that the first `total % of` shares are larger by 1.
pub(crate) fn share(total: u64, index: u32, of: u32) -> u64 {
    let (index, of) = (u64::from(index), u64::from(of));
    total / of + u64::from(index < total % of)
}

impl LoadSpec {
    pub(super) fn validate_shard(&self) -> Result<(), EngineError> {
        let ShardSpec { index, of } = self.shard.unwrap_or_default();
        if !(1..=SHARDS_MAX).contains(&of) {
            return out_of_range("shard", of, format!("share the load among 1 to {SHARDS_MAX} machines"));
        }
        if index >= of {
            return out_of_range("shard", index, format!("use an index from 0 to {}", of - 1));
        }
        let by_step = self.steps.iter().map(|step| step.connections.unwrap_or(self.connections));
        // A ramp may begin or end with fewer connections than machines, because the machines open and close
        // connections in round robin.
        let by_load = self.connections.max(self.connections_from.unwrap_or(0));
        let least = by_step.min().unwrap_or(by_load);
        validate_shared(of, least.into(), "connection")?;
        self.request_count.map_or(Ok(()), |count| validate_shared(of, count, "request"))
    }

    /// Checks that a planned start fits the other fields. The time itself is checked when the load runs.
    pub(super) fn validate_start(&self) -> Result<(), EngineError> {
        if self.start_at_ns.is_some() && !self.steps.is_empty() && self.request_count.is_some() {
            return invalid(
                "start",
                "steps that end after a number of requests cannot have a planned start",
                "use a duration for the steps, or remove the planned start",
            );
        }
        Ok(())
    }
}

/// Checks that `total` connections or requests are enough for all machines.
fn validate_shared(of: u32, total: u64, noun: &str) -> Result<(), EngineError> {
    if total >= u64::from(of) {
        return Ok(());
    }
    let (have, machines) = (counted(total, noun), counted(of.into(), "machine"));
    invalid(
        "shard",
        // Each of the first `total` machines gets one connection or request. So the machine with index `total` is the
        // first that gets none.
        format!("{machines} cannot share {have}: the shard with index {total} gets no {noun}"),
        format!("use at most {}, or at least {}", counted(total, "machine"), counted(of.into(), noun)),
    )
}

/// Rejects a planned start too far after `now_ns`: it is probably not a time of this machine's clock.
pub(crate) fn check_start_ahead(start_ns: u64, now_ns: u64) -> Result<(), EngineError> {
    let ahead_ns = start_ns.saturating_sub(now_ns);
    if ahead_ns <= START_AHEAD_MAX_NS {
        return Ok(());
    }
    invalid(
        "start",
        format!("the planned start is too far ahead: {} s", ahead_ns / 1_000_000_000),
        format!(
            "plan the start at most {} s ahead, and give it as a CLOCK_MONOTONIC time of the machine that sends the load",
            START_AHEAD_MAX_NS / 1_000_000_000
        ),
    )
}

#[cfg(test)]
mod tests {
    use weir_document::Rate;

    use super::*;
    use crate::spec::{ModelSpec, RequestSpec, Spacing, StepSpec};

    /// Applies `change` to a load with 4 connections, validates the load, and checks the error. An empty `expected`
    /// means that the load is valid.
    fn check(change: impl FnOnce(&mut LoadSpec), expected: &str) {
        let mut spec = LoadSpec {
            connect: "127.0.0.1:80".into(),
            requests: vec![RequestSpec::default()],
            connections: 4,
            ..LoadSpec::default()
        };
        change(&mut spec);
        let found = spec.validate().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(found.starts_with(expected) && found.is_empty() == expected.is_empty(), "{found:?}");
    }

    fn shard(index: u32, of: u32) -> Option<ShardSpec> {
        Some(ShardSpec { index, of })
    }

    #[test]
    fn a_load_is_split_exactly() {
        for (total, of, expected) in [(10, 3, vec![4, 3, 3]), (12, 4, vec![3; 4]), (1, 3, vec![1, 0, 0])] {
            let shares: Vec<u64> = (0..of).map(|index| ShardSpec { index, of }.share(total)).collect();
            assert_eq!(shares, expected);
        }
        for of in 1..20 {
            let all = (0..of).map(|index| ShardSpec { index, of });
            assert_eq!(all.clone().map(|shard| shard.share(1_000_003)).sum::<u64>(), 1_000_003);
            let numbers = all.flat_map(|shard| (0..shard.share(100)).map(move |nth| shard.number(nth)));
            assert!(
                numbers.collect::<std::collections::BTreeSet<u64>>().into_iter().eq(0..100),
                "{of} shards"
            );
        }
        assert_eq!((ShardSpec::WHOLE.share(7), ShardSpec::WHOLE.number(7)), (7, 7));
    }

    #[test]
    fn invalid_shards_are_rejected() {
        check(|spec| spec.shard = shard(3, 4), "");
        check(|spec| spec.shard = shard(0, 0), "shard: `0` is out of range");
        check(|spec| spec.shard = shard(0, SHARDS_MAX + 1), "shard: `1001` is out of range");
        check(|spec| spec.shard = shard(4, 4), "shard: `4` is out of range");
    }

    #[test]
    fn a_shard_without_connections_or_requests_is_rejected_on_every_machine() {
        for index in [0, 4] {
            let expected =
                "shard: 5 machines cannot share 4 connections: the shard with index 4 gets no connection";
            check(|spec| spec.shard = shard(index, 5), expected);
        }
        check(
            |spec| {
                let steps =
                    [8, 2, 4].map(|connections| StepSpec { connections: Some(connections), rate: None });
                (spec.shard, spec.steps) = (shard(1, 3), steps.into());
            },
            "shard: 3 machines cannot share 2 connections: the shard with index 2 gets no connection",
        );
        check(
            |spec| {
                spec.model = ModelSpec::open(10.0, Spacing::Even);
                let step = StepSpec { connections: Some(1), rate: Some(Rate(20.0)) };
                (spec.shard, spec.steps) = (shard(0, 2), vec![step]);
            },
            "shard: 2 machines cannot share 1 connection: the shard with index 1 gets no connection",
        );
        check(|spec| (spec.shard, spec.connections_from) = (shard(2, 3), Some(1)), "");
        check(
            |spec| {
                (spec.duration_ns, spec.request_count) = (None, Some(2));
                spec.shard = shard(0, 3);
            },
            "shard: 3 machines cannot share 2 requests: the shard with index 2 gets no request",
        );
    }

    #[test]
    fn a_shard_never_extends_its_warm_up() {
        let may = |shard| LoadSpec { shard, ..LoadSpec::default() }.may_warm_up_longer();
        assert_eq!([may(None), may(shard(0, 1)), may(shard(0, 2))], [true, true, false]);
    }

    #[test]
    fn planned_starts_must_be_near_and_steps_must_have_a_duration() {
        check(|spec| spec.start_at_ns = Some(5), "");
        check(
            |spec| {
                (spec.duration_ns, spec.request_count) = (None, Some(10));
                (spec.start_at_ns, spec.steps) = (Some(5), vec![StepSpec::default()]);
            },
            "start: steps that end after a number of requests",
        );
        assert!(check_start_ahead(3_600_000_000_000, 3_000_000_000_000).is_ok());
        let error = check_start_ahead(3_601_000_000_000, 3_000_000_000_000).unwrap_err().to_string();
        assert_eq!(error, "start: the planned start is too far ahead: 601 s");
    }
}
