//! Computes from samples which resources were used in a span of time.

use std::collections::BTreeMap;

use weir_results::{CpuSeconds, HostProcess, HostShare, HostUsage, NetworkUsage, Role, Usage, UsageSecond};

use super::neighbours::Neighbours;
use super::{HostSample, PartReading, PartSample};

const SECOND_NS: u64 = 1_000_000_000;
/// Maximum number of processes outside the rig that [`HostUsage`] lists.
const NAMED: usize = 3;

/// The properties of a sampled part.
#[derive(Clone, Debug)]
pub(crate) struct PartSeries {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) limit_cpus: Option<f64>,
}

/// A sample of every part and of the host, taken at the same time. `parts` is in the order of [`Samples::parts`].
#[derive(Clone, Debug)]
pub(crate) struct Tick {
    pub(crate) at_ns: u64,
    pub(crate) parts: Vec<PartSample>,
    pub(crate) host: Option<HostSample>,
}

/// All samples of a cell. Times are `CLOCK_MONOTONIC` in nanoseconds.
#[derive(Clone, Debug)]
pub struct Samples {
    parts: Vec<PartSeries>,
    ticks: Vec<Tick>,
    pub(super) neighbours: Neighbours,
}

impl Samples {
    pub(crate) fn new(parts: Vec<PartSeries>) -> Self {
        Self { parts, ticks: Vec::new(), neighbours: Neighbours::default() }
    }

    pub(crate) fn push(&mut self, tick: Tick) {
        self.ticks.push(tick);
    }

    /// The newest sample of each part.
    pub(super) fn latest(&self) -> Vec<PartReading> {
        let Some(tick) = self.ticks.last() else { return Vec::new() };
        let reading = |(part, sample): (&PartSeries, &PartSample)| PartReading {
            name: part.name.clone(),
            role: part.role,
            at_ns: tick.at_ns,
            cpu_ns: sample.cpu_ns,
            memory_bytes: sample.memory_bytes,
        };
        self.parts.iter().zip(&tick.parts).map(reading).collect()
    }

    /// The index of the part with this name in [`Tick::parts`].
    pub(super) fn place(&self, part: &str) -> Option<usize> {
        self.parts.iter().position(|known| known.name == part)
    }

    /// Adds a part that was launched at `launched_ns`. Its counters are zero in all earlier samples.
    pub(crate) fn join(&mut self, part: PartSeries, launched_ns: u64) {
        let unlaunched = PartSample::unlaunched(part.limit_cpus.is_some());
        let place = self.parts.len();
        self.parts.push(part);
        for tick in &mut self.ticks {
            tick.parts.resize(place, PartSample::default());
            tick.parts.push(if tick.at_ns <= launched_ns { unlaunched } else { PartSample::default() });
        }
    }

    /// The resources that `part` used between two times; `None` if the samples do not cover the span.
    pub fn usage(&self, part: &str, from_ns: u64, to_ns: u64) -> Option<Usage> {
        let index = self.place(part)?;
        let grown = |field: fn(&PartSample) -> Option<u64>| {
            self.grown(from_ns, to_ns, |tick| field(tick.parts.get(index)?))
        };
        let wall_s = to_ns.checked_sub(from_ns).filter(|span| *span > 0)? as f64 / SECOND_NS as f64;
        let cpu_s = grown(|sample| sample.cpu_ns)? / SECOND_NS as f64;
        let user = grown(|sample| sample.user_ns).unwrap_or(0.0);
        let system = grown(|sample| sample.system_ns).unwrap_or(0.0);
        let user_share = if user + system > 0.0 { user / (user + system) } else { 0.0 };
        let within = self.within(index, from_ns, to_ns);
        let greatest = |field: fn(&PartSample) -> Option<u64>| within.iter().copied().filter_map(field).max();
        let counted = |field: fn(&PartSample) -> Option<u64>| grown(field).map(|count| count.round() as u64);
        let cpu_cores = cpu_s / wall_s;
        Some(Usage {
            cpu_s: CpuSeconds { user: cpu_s * user_share, system: cpu_s * (1.0 - user_share) },
            cpu_is_unsplit: false,
            cpu_cores,
            cpu_share_of_limit: self.parts[index].limit_cpus.map(|limit| cpu_cores / limit),
            throttled_s: grown(|sample| sample.throttled_ns).map(|ns| ns / SECOND_NS as f64),
            periods: counted(|sample| sample.periods),
            periods_throttled: counted(|sample| sample.periods_throttled),
            memory_bytes_mean: mean(within.iter().filter_map(|sample| sample.memory_bytes)),
            memory_bytes_peak: greatest(|sample| sample.memory_bytes),
            threads_max: greatest(|sample| sample.threads),
            pids_max: greatest(|sample| sample.pids),
            open_files_max: greatest(|sample| sample.open_files),
            sockets_max: greatest(|sample| sample.sockets),
            network: self.network(index, from_ns, to_ns),
            block_read_bytes: counted(|sample| sample.block_read_bytes),
            block_written_bytes: counted(|sample| sample.block_written_bytes),
            switches_voluntary: counted(|sample| sample.switches_voluntary),
            switches_involuntary: counted(|sample| sample.switches_involuntary),
            runqueue_s: grown(|sample| sample.waited_ns).map(|ns| ns / SECOND_NS as f64),
        })
    }

    /// Traffic of the part at `index`; `None` if the part has no network namespace, or if an earlier part is in the
    /// same namespace.
    fn network(&self, index: usize, from_ns: u64, to_ns: u64) -> Option<NetworkUsage> {
        let grown = |of: fn(&NetworkUsage) -> Option<u64>| {
            let grown = self.grown(from_ns, to_ns, |tick| of(tick.parts.get(index)?.network.as_ref()?));
            grown.map(|crossed| crossed.round() as u64)
        };
        Some(NetworkUsage {
            received_bytes: grown(|network| Some(network.received_bytes))?,
            sent_bytes: grown(|network| Some(network.sent_bytes))?,
            received_packets: grown(|network| Some(network.received_packets))?,
            sent_packets: grown(|network| Some(network.sent_packets))?,
            retransmitted_segments: grown(|network| network.retransmitted_segments),
        })
    }

    /// The shares of CPU time of all cores between two times: stolen by the hypervisor, used by processes outside the
    /// rig, and idle. `None` if the samples do not cover the span.
    pub fn host(&self, from_ns: u64, to_ns: u64) -> Option<HostShare> {
        let grown =
            |field: fn(&HostSample) -> u64| self.grown(from_ns, to_ns, |tick| tick.host.as_ref().map(field));
        let cores = self.cores()?;
        let total = to_ns.checked_sub(from_ns).filter(|span| *span > 0)? as f64 * cores as f64;
        let mut rig = grown(|host| host.lab_ns)?;
        for index in 0..self.parts.len() {
            rig += self.grown(from_ns, to_ns, |tick| tick.parts.get(index)?.cpu_ns)?;
        }
        let share = |ns: f64| (ns / total).clamp(0.0, 1.0);
        Some(HostShare {
            steal: share(grown(|host| host.steal_ns)?),
            others: share(grown(|host| host.busy_ns)? - rig),
            idle: share(grown(|host| host.idle_ns)?),
        })
    }

    /// How busy each core was between two times, with TCP retransmissions and the busiest processes outside the rig.
    /// `None` if the samples do not cover the span.
    pub fn host_usage(&self, from_ns: u64, to_ns: u64) -> Option<HostUsage> {
        let wall_ns = to_ns.checked_sub(from_ns).filter(|span| *span > 0)? as f64;
        let rest_ns = |core: usize| {
            self.grown(from_ns, to_ns, |tick| tick.host.as_ref()?.core_rest_ns.get(core).copied())
        };
        // Idle time is counted in ticks, so it can exceed the elapsed time slightly.
        let busy = |core| Some((1.0 - rest_ns(core)? / wall_ns).clamp(0.0, 1.0));
        let sent_again = self.grown(from_ns, to_ns, |tick| tick.host.as_ref()?.retransmitted_segments);
        Some(HostUsage {
            core_busy_shares: (0..self.cores()?).map(busy).collect::<Option<_>>()?,
            retransmitted_segments: sent_again.map(|segments| segments.round() as u64),
            busiest: self.neighbours(from_ns, to_ns).into_iter().take(NAMED).collect(),
        })
    }

    /// Processes outside the rig that used CPU time from `from_ns` to `to_ns`, the busiest first. Values are means
    /// between two snapshots: the last before `from_ns`, and the first after `to_ns`. So they can include warm-up and
    /// the end of the load.
    pub fn neighbours(&self, from_ns: u64, to_ns: u64) -> Vec<HostProcess> {
        self.neighbours.busiest(from_ns, to_ns)
    }

    /// CPU and memory of each part in every second from `start_ns` (t = 0) to `to_ns`; the last second can be shorter.
    /// Parts whose samples do not cover the second are missing from the maps.
    pub fn seconds(&self, start_ns: u64, to_ns: u64) -> Vec<UsageSecond> {
        let mut seconds = Vec::new();
        let mut from = start_ns;
        while from < to_ns {
            let to = (from + SECOND_NS).min(to_ns);
            let mut second = UsageSecond {
                t_s: (from - start_ns) as f64 / SECOND_NS as f64,
                cpu_cores: BTreeMap::new(),
                memory_bytes: BTreeMap::new(),
            };
            for part in &self.parts {
                let Some(usage) = self.usage(&part.name, from, to) else { continue };
                second.cpu_cores.insert(part.name.clone(), usage.cpu_cores);
                if let Some(bytes) = usage.memory_bytes_mean {
                    second.memory_bytes.insert(part.name.clone(), bytes);
                }
            }
            seconds.push(second);
            from = to;
        }
        seconds
    }

    fn cores(&self) -> Option<usize> {
        self.ticks.iter().find_map(|tick| tick.host.as_ref()).map(|host| host.core_rest_ns.len())
    }

    fn within(&self, index: usize, from_ns: u64, to_ns: u64) -> Vec<&PartSample> {
        self.ticks
            .iter()
            .filter(|tick| (from_ns..=to_ns).contains(&tick.at_ns))
            .filter_map(|tick| tick.parts.get(index))
            .collect()
    }

    /// How much `counter` grew between two times; `None` if the samples do not cover the span.
    fn grown(&self, from_ns: u64, to_ns: u64, counter: impl Fn(&Tick) -> Option<u64>) -> Option<f64> {
        let from = self.at(from_ns, &counter)?;
        Some((self.at(to_ns, &counter)? - from).max(0.0))
    }

    /// The value of `counter` at `moment_ns`, interpolated between the samples before and after.
    fn at(&self, moment_ns: u64, counter: impl Fn(&Tick) -> Option<u64>) -> Option<f64> {
        let split = self.ticks.partition_point(|tick| tick.at_ns <= moment_ns);
        let known = |tick: &Tick| counter(tick).map(|value| (tick.at_ns, value as f64));
        let (before_ns, before) = self.ticks[..split].iter().rev().find_map(known)?;
        if before_ns == moment_ns {
            return Some(before);
        }
        let (after_ns, after) = self.ticks[split..].iter().find_map(known)?;
        let way = (moment_ns - before_ns) as f64 / (after_ns - before_ns) as f64;
        Some(before + way * (after - before))
    }
}

fn mean(values: impl Iterator<Item = u64>) -> Option<u64> {
    let (sum, count) =
        values.fold((0u128, 0u128), |(sum, count), value| (sum + u128::from(value), count + 1));
    (count > 0).then(|| (sum / count) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A part that uses half a core, a third of it in user mode, on a host of two cores.
    fn half_a_core(missing: Option<usize>) -> Samples {
        let part = PartSeries { name: "gateway".into(), role: Role::Data, limit_cpus: Some(0.5) };
        let mut samples = Samples::new(vec![part]);
        for step in 0..=30u64 {
            let at_ns = 1_000_000_000 + step * 100_000_000;
            let used = step * 50_000_000;
            let sample = PartSample {
                cpu_ns: Some(used),
                user_ns: Some(used / 3),
                system_ns: Some(used - used / 3),
                throttled_ns: Some(step * 1_000_000),
                periods: Some(step),
                periods_throttled: Some(step / 2),
                memory_bytes: Some(1_000 + step),
                threads: Some(2),
                pids: Some(1),
                open_files: Some(step),
                sockets: (step % 10 == 0).then_some(step / 10),
                block_read_bytes: Some(0),
                block_written_bytes: Some(step * 4_096),
                switches_voluntary: (step % 10 == 0).then_some(step * 7),
                switches_involuntary: Some(step),
                waited_ns: (step % 10 == 0).then_some(step * 20_000_000),
                network: Some(NetworkUsage {
                    received_bytes: step * 1_000,
                    sent_bytes: step * 3_000,
                    received_packets: step * 10,
                    sent_packets: step * 20,
                    retransmitted_segments: Some(step),
                }),
            };
            let host = HostSample {
                busy_ns: step * 60_000_000,
                idle_ns: step * 136_000_000,
                steal_ns: step * 4_000_000,
                lab_ns: step * 2_000_000,
                core_rest_ns: vec![step * 100_000_000, step * 40_000_000],
                retransmitted_segments: Some(step * 3),
            };
            let parts = if missing == Some(step as usize) { PartSample::default() } else { sample };
            samples.push(Tick { at_ns, parts: vec![parts], host: Some(host) });
        }
        samples
    }

    fn near(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-6, "{value} is not {expected}");
    }

    #[test]
    fn the_latest_reading_comes_from_the_last_sample() {
        let latest = half_a_core(None).latest();
        let [part] = &latest[..] else { panic!("{latest:?}") };
        assert_eq!((part.name.as_str(), part.role, part.at_ns), ("gateway", Role::Data, 4_000_000_000));
        assert_eq!((part.cpu_ns, part.memory_bytes), (Some(1_500_000_000), Some(1_030)));
        assert!(Samples::new(Vec::new()).latest().is_empty());
    }

    #[test]
    fn usage_is_interpolated_at_both_borders() {
        for missing in [None, Some(10)] {
            let usage = half_a_core(missing).usage("gateway", 1_250_000_000, 2_750_000_000).unwrap();
            near(usage.cpu_cores, 0.5);
            near(usage.cpu_s.total(), 0.75);
            assert!((usage.cpu_s.user - 0.25).abs() < 1e-3, "{usage:?}");
            near(usage.cpu_share_of_limit.unwrap(), 1.0);
            near(usage.throttled_s.unwrap(), 0.015);
            assert_eq!(usage.periods, Some(15));
            assert_eq!(usage.memory_bytes_peak, Some(1_017));
            assert_eq!(usage.open_files_max, Some(17));
            assert_eq!((usage.threads_max, usage.pids_max), (Some(2), Some(1)));
            assert_eq!((usage.block_read_bytes, usage.block_written_bytes), (Some(0), Some(15 * 4_096)));
            assert_eq!(usage.switches_involuntary, Some(15));
            let network = usage.network.unwrap();
            assert_eq!((network.received_bytes, network.sent_bytes), (15_000, 45_000));
            assert_eq!((network.received_packets, network.sent_packets), (150, 300));
            assert_eq!(network.retransmitted_segments, Some(15));
        }
    }

    #[test]
    fn rare_samples_are_interpolated() {
        let usage = half_a_core(None).usage("gateway", 1_250_000_000, 3_750_000_000).unwrap();
        assert_eq!((usage.switches_voluntary, usage.sockets_max), (Some(25 * 7), Some(2)));
        assert_eq!(usage.runqueue_s.map(|s| (s * 1e3).round()), Some(500.0), "a fifth of a core, over 2.5 s");
        let between = half_a_core(None).usage("gateway", 1_250_000_000, 1_750_000_000).unwrap();
        assert_eq!((between.switches_voluntary, between.sockets_max), (Some(5 * 7), None));
    }

    #[test]
    fn unsampled_values_are_none_and_not_zero() {
        let samples = half_a_core(None);
        assert_eq!(samples.usage("gateway", 900_000_000, 2_000_000_000), None);
        assert_eq!(samples.usage("gateway", 2_000_000_000, 4_000_000_001), None);
        assert_eq!(samples.usage("gateway", 2_000_000_000, 2_000_000_000), None);
        assert_eq!(samples.usage("other", 1_500_000_000, 2_000_000_000), None);
        assert_eq!(samples.host(900_000_000, 2_000_000_000), None);
        assert_eq!(samples.host_usage(900_000_000, 2_000_000_000), None);
        let nothing =
            Samples::new(vec![PartSeries { name: "gateway".into(), role: Role::Data, limit_cpus: None }]);
        assert_eq!(nothing.usage("gateway", 1, 2), None);
    }

    #[test]
    fn a_part_that_joins_later_is_sampled_from_its_launch_on() {
        let mut samples = half_a_core(None);
        let ticks = samples.ticks.split_off(11);
        // The part is launched between the samples at 2.0 s and 2.1 s, and has its first sample at 2.2 s.
        samples.join(
            PartSeries { name: "generator".into(), role: Role::Generator, limit_cpus: None },
            2_050_000_000,
        );
        for (step, mut tick) in ticks.into_iter().enumerate() {
            let used = |cpu_ns| PartSample { cpu_ns: Some(cpu_ns), ..PartSample::default() };
            tick.parts.push(match step {
                0 => PartSample::default(),
                _ => used(step as u64 * 20_000_000),
            });
            samples.push(tick);
        }
        near(samples.usage("generator", 2_000_000_000, 2_200_000_000).unwrap().cpu_s.total(), 0.02);
        near(samples.usage("generator", 2_060_000_000, 4_000_000_000).unwrap().cpu_s.total(), 0.38 - 0.006);
        // Before the very first sample at 1.0 s, nothing is known about any part.
        assert_eq!(samples.usage("generator", 900_000_000, 2_200_000_000), None);
        near(samples.usage("gateway", 1_000_000_000, 4_000_000_000).unwrap().cpu_s.total(), 1.5);
        // The CPU time of the new part does not count toward `others`. In each step, gateway (50 ms), lab (2 ms) and
        // generator (20 ms) together use more than the 60 ms for which the host is busy, so `others` is 0.
        near(samples.host(2_200_000_000, 3_900_000_000).unwrap().others, 0.0);
        assert!(samples.host(2_010_000_000, 2_300_000_000).is_some());
    }

    #[test]
    fn host_time_is_split_into_rig_others_steal_and_idle() {
        let share = half_a_core(None).host(1_050_000_000, 3_950_000_000).unwrap();
        near(share.steal, 0.02);
        near(share.idle, 0.68);
        // In each step, the host is busy for 60 of 200 ms. The part used 50 ms and the lab 2 ms, so others used 8 ms.
        near(share.others, 0.04);
        let usage = half_a_core(None).host_usage(1_050_000_000, 3_950_000_000).unwrap();
        near(usage.core_busy_shares[0], 0.0);
        near(usage.core_busy_shares[1], 0.6);
        assert_eq!(usage.core_busy_shares.len(), 2);
        assert_eq!(usage.retransmitted_segments, Some(87));
    }

    #[test]
    fn seconds_start_with_the_load_and_the_last_can_be_shorter() {
        let seconds = half_a_core(None).seconds(1_100_000_000, 3_600_000_000);
        let times: Vec<f64> = seconds.iter().map(|second| second.t_s).collect();
        assert_eq!(times, [0.0, 1.0, 2.0]);
        for second in &seconds {
            near(second.cpu_cores["gateway"], 0.5);
        }
        assert_eq!(seconds[0].memory_bytes["gateway"], 1_006);
    }
}
