//! Judges one load of a cell: what limits it, and which of its values are valid (`docs/method.md#trust`).

mod effect;

use weir_results::{AgentMachine, ArrivalModel, BoundBy, Judgement, Reason, ShardResult, Thresholds, Usage};

use crate::figures::quantity::{cores, count, counted, number, percent, rate, time_ns};
use crate::verdicts::effects::{Affected, Effect, Ranks};
use crate::verdicts::estimate::NoiseEstimate;
use crate::verdicts::evidence::Evidence;
use crate::verdicts::host_noise;
use crate::verdicts::missing;
use crate::verdicts::reasons::verdicts;
use crate::verdicts::stationary::{self, Drift};

/// Allowed factor between the sampled number of in-flight requests and the number expected from rate and mean latency.
/// It is large, because samples are few and bursts last long.
const IN_FLIGHT_FACTOR: f64 = 1.5;
/// Allowed difference between the sampled and the expected number of in-flight requests, in addition to
/// [`IN_FLIGHT_FACTOR`]. It matters if few requests are in flight.
const IN_FLIGHT_SLACK: f64 = 3.0;
/// Maximum mean latency, as a share of the phase, for the check of in-flight requests. Above it, many requests begin
/// before the phase or end after it.
const IN_FLIGHT_LATENCY_SHARE_MAX: f64 = 0.1;
/// Maximum share of unanswered requests. Above it, weir does not check in-flight requests, because the mean latency
/// does not include unanswered requests.
const IN_FLIGHT_UNANSWERED_MAX: f64 = 0.001;

/// Judges one load of a cell.
///
/// The `evidence` of the result contains these sentences in this order:
/// - one for each reason in the verdicts, in the order of the reasons;
/// - one for each reason whose effect is within the tolerance;
/// - one for a rate above the generator's ceiling, and one for a longer warm-up, if they apply;
/// - one that explains `bound_by`.
pub fn judge(evidence: &Evidence<'_>, thresholds: &Thresholds) -> Judgement {
    let case = Case { e: evidence, t: thresholds, noise: NoiseEstimate::of(evidence) };
    let disturbed = case.host_disturbed();
    let generator = case.generator_limit();
    let upstream = case.upstream_limit();
    let bound = case.bound(generator.as_deref(), upstream.as_deref(), case.is_noisy_here());
    let bound_by = bound.by;
    let overloaded = case.overloaded(bound_by);

    // A closed loop that saturates the gateway measures the gateway, even if other parts are busy.
    // In an open loop, a late generator or a saturated upstream still adds latency.
    let others_count = case.open() || bound_by != BoundBy::Gateway;
    let is_overloaded = bound_by == BoundBy::Gateway && overloaded.is_some();
    let errors = case.errors(is_overloaded);
    let are_connections_missing = errors.is_none();
    let errors = errors.or_else(|| missing::connections(evidence, thresholds, is_overloaded));
    let drift = case.drift(overloaded.is_some());
    let found = [
        (Reason::GeneratorLimited, generator.filter(|_| others_count)),
        (Reason::UpstreamLimited, upstream.filter(|_| others_count)),
        (Reason::HostNoise, disturbed),
        (Reason::Overloaded, overloaded),
        (Reason::Throttled, case.throttled()),
        (Reason::Errors, errors),
        (Reason::NotStationary, drift.as_ref().map(Drift::words)),
        (Reason::Implausible, case.implausible()),
        (Reason::LimitNotApplied, case.limit_not_applied()),
        (Reason::ClockUncertain, case.clock_uncertain()),
    ];
    let found: Vec<(Reason, String)> =
        found.into_iter().filter_map(|(reason, sentence)| Some((reason, sentence?))).collect();
    let context = Context { bound_by, drift: drift.as_ref(), are_connections_missing };
    let effects: Vec<(Reason, Effect)> =
        found.iter().map(|(reason, _)| (*reason, case.effect(*reason, &context))).collect();
    let affected = Affected { record: evidence.record, data: evidence.data, thresholds, effects: &effects };
    let bounds = affected.bounds();
    let verdicts = verdicts(&bounds);
    let (reasons, notes): (Vec<_>, Vec<_>) =
        found.into_iter().partition(|(reason, _)| verdicts.reasons().contains(reason));
    let mut sentences: Vec<String> = reasons.into_iter().chain(notes).map(|(_, sentence)| sentence).collect();
    sentences.extend(case.above_ceiling());
    sentences.extend(case.longer_warm_up());
    sentences.push(bound.sentence(&sentences));
    let delayed = effects.iter().map(|(_, effect)| effect.latency).fold(Ranks::EXACT, Ranks::and).delayed;
    Judgement {
        bound_by,
        verdicts,
        bounds: Some(bounds),
        delayed_share: (delayed > 0.0).then_some(delayed),
        evidence: sentences,
    }
}

/// Argument of [`Case::effect`]: facts about the load that change the effect of a reason.
struct Context<'a> {
    bound_by: BoundBy,
    drift: Option<&'a Drift>,
    /// Whether the reason `errors` means that connections could not be opened.
    are_connections_missing: bool,
}

/// The rules of the judgement. Each rule is a method that returns a sentence if the rule applies.
struct Case<'a> {
    e: &'a Evidence<'a>,
    t: &'a Thresholds,
    /// `None` if the host was not sampled.
    noise: Option<NoiseEstimate>,
}

/// Share of the CPU of an agent's machine that other processes took; `None` if the machine was not sampled.
fn taken(shard: &ShardResult) -> Option<f64> {
    Some(shard.machine.as_ref()?.share?.taken())
}

/// The agents that run on one machine.
struct Crowd<'a> {
    machine: &'a AgentMachine,
    agents: u32,
    first: &'a str,
    /// Cores that the threads of all these agents used or were ready to use.
    wanted: f64,
}

/// What limits a load, and why.
struct Bound {
    by: BoundBy,
    /// The bottleneck in words.
    what: &'static str,
    why: String,
}

impl Bound {
    /// Names the bottleneck. Adds `why` unless `reasons` already contains this sentence.
    fn sentence(&self, reasons: &[String]) -> String {
        let Self { what, why, .. } = self;
        if reasons.contains(why) { format!("limited by {what}") } else { format!("limited by {what}: {why}") }
    }
}

impl Case<'_> {
    fn open(&self) -> bool {
        self.e.record.result.model == ArrivalModel::Open
    }

    fn scheduled(&self) -> u64 {
        self.e.record.result.requests.scheduled
    }

    /// Number of complete responses in the phase. It is the smaller of two numbers: the responses to requests scheduled
    /// in the phase, and the responses received in the phase. Responses to a backlog after the phase do not count.
    fn completed_in_phase(&self) -> u64 {
        let in_books = self.e.record.result.requests.completed;
        let seconds = || self.e.record.seconds.iter().filter(|second| second.sustained);
        if seconds().next().is_none() {
            return in_books;
        }
        in_books.min(seconds().map(|second| second.completed).fold(0, u64::saturating_add))
    }

    fn carried_share(&self) -> f64 {
        if self.scheduled() == 0 { 1.0 } else { self.completed_in_phase() as f64 / self.scheduled() as f64 }
    }

    fn at_limit(&self, part: Option<&Usage>, name: &str) -> Option<String> {
        let usage = part?;
        let share = usage.cpu_share_of_limit?;
        (share >= self.t.bound_share).then(|| {
            format!(
                "the {name} used {} cores, {} of its CPU limit (saturation starts at {})",
                cores(usage.cpu_cores),
                percent(share),
                percent(self.t.bound_share)
            )
        })
    }

    fn upstream_limit(&self) -> Option<String> {
        self.at_limit(self.e.origin, "upstream").or_else(|| self.slow_upstream())
    }

    /// Reports an upstream whose configured delay is most of the response time. A closed loop, or an open loop that
    /// does not reach its rate, then measures this delay while the upstream's CPU is idle.
    fn slow_upstream(&self) -> Option<String> {
        let delay_ns = self.e.counters?.origin_delay_ns_mean? as f64;
        let service_ns = self.e.record.result.service_time_ns.mean.filter(|mean| *mean > 0.0)?;
        let carried = self.is_carried();
        let share = delay_ns / service_ns;
        // A threshold of 1 turns the rule off, for scenarios that measure a queue in the upstream.
        let asked = self.t.upstream_delay_share < 1.0;
        (asked && !carried && share >= self.t.upstream_delay_share).then(|| {
            format!(
                "the configured delay of the upstream (mean {}) is {} of the response time (limit {})",
                time_ns(delay_ns),
                percent(share.min(1.0)),
                percent(self.t.upstream_delay_share)
            )
        })
    }

    /// Reports a generator that limited the load. Requests that were sent late because of host noise do not count here.
    /// Noise on this host excuses all late requests, noise on an agent's machine only the requests of that agent.
    fn generator_limit(&self) -> Option<String> {
        let by_share = self.at_limit(self.e.generator, "generator");
        by_share
            .or_else(|| match self.open() {
                true => self.late_without_noise().or_else(|| self.unsent()),
                false => self.busy_worker(),
            })
            .or_else(|| self.crowded())
    }

    /// Reports several agents on one machine if they together saturated the machine's CPUs while the gateway had CPU
    /// left. Such agents limit every closed load. They limit an open load only if too few requests completed.
    fn crowded(&self) -> Option<String> {
        let is_idle =
            |usage: &Usage| usage.cpu_share_of_limit.is_none_or(|share| share < self.t.gateway_idle_share);
        if self.is_carried() || !self.e.data.is_none_or(is_idle) {
            return None;
        }
        let mut machines: Vec<Crowd<'_>> = Vec::new();
        for shard in &self.e.record.shards {
            let Some(machine) = &shard.machine else { continue };
            let at = machines
                .iter()
                .position(|known| known.machine.boot_id == machine.boot_id)
                .unwrap_or_else(|| {
                    machines.push(Crowd { machine, agents: 0, first: &shard.agent, wanted: 0.0 });
                    machines.len() - 1
                });
            let own = &shard.generator;
            let ready_s: f64 = own.worker_cpu_s.iter().chain(&own.worker_runqueue_s).sum();
            machines[at].agents += 1;
            machines[at].wanted += if own.wall_s > 0.0 { ready_s / own.wall_s } else { 0.0 };
        }
        let is_full = |crowd: &Crowd<'_>| {
            let cores = crowd.machine.cores;
            crowd.agents > 1 && cores > 0.0 && crowd.wanted >= self.t.bound_share * cores
        };
        machines.into_iter().find(is_full).map(|crowd| {
            format!(
                "{} agents on {} needed {} cores, but the machine has only {}",
                crowd.agents,
                match crowd.machine.is_here {
                    true => "this host".to_owned(),
                    false => format!("the machine of {}", crowd.first),
                },
                cores(crowd.wanted),
                number(crowd.machine.cores)
            )
        })
    }

    /// Index of the busiest worker thread, and the share of wall time in which that thread ran or waited for a CPU.
    fn busiest_worker(&self) -> Option<(usize, f64)> {
        let own = &self.e.record.generator;
        if own.wall_s <= 0.0 {
            return None;
        }
        let share = |worker: usize| {
            let waited = own.worker_runqueue_s.get(worker).copied().unwrap_or(0.0);
            // Clocks differ slightly, so the share could exceed 1. The cap lets a threshold of 1 turn the rule off.
            ((own.worker_cpu_s[worker] + waited) / own.wall_s).min(1.0)
        };
        (0..own.worker_cpu_s.len()).map(|worker| (worker, share(worker))).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// In a closed loop, reports a saturated worker thread while the gateway has CPU left.
    fn busy_worker(&self) -> Option<String> {
        let (worker, busy) = self.busiest_worker()?;
        let gateway = self.e.data.and_then(|usage| usage.cpu_share_of_limit);
        let gateway_idle = gateway.is_none_or(|share| share < self.t.gateway_idle_share);
        (busy > self.t.worker_busy_share && gateway_idle).then(|| {
            let gateway = match (self.e.data, gateway) {
                (_, Some(share)) => format!(" while the gateway used {} of its CPU limit", percent(share)),
                (Some(_), None) => ", and the gateway has no CPU limit".into(),
                (None, None) => String::new(),
            };
            format!(
                "generator worker {worker} used or waited for a CPU {} of the time (limit {}){gateway}",
                percent(busy),
                percent(self.t.worker_busy_share)
            )
        })
    }

    /// In an open loop, reports requests that were sent later than [`Self::allowed_lateness_ns`].
    fn late(&self) -> Option<String> {
        let result = &self.e.record.result;
        let late_ns = result.lateness_ns.and_then(|times| times.p99)? as f64;
        let allowed_ns = self.allowed_lateness_ns();
        if late_ns <= allowed_ns || self.waited_for_connections(late_ns, allowed_ns) {
            return self.late_shard(allowed_ns, |_| true);
        }
        let shard =
            self.late_shard(allowed_ns, |_| true).map(|shard| format!("; {shard}")).unwrap_or_default();
        Some(format!(
            "requests were sent late: p99 of the lateness is {} (limit {}: {} of the latency p99, at least {}){shard}",
            time_ns(late_ns),
            time_ns(allowed_ns),
            percent(self.t.lateness_share),
            time_ns(self.t.lateness_ns as f64)
        ))
    }

    fn late_without_noise(&self) -> Option<String> {
        if self.is_noisy_here() {
            return None;
        }
        match self.e.record.shards.iter().any(|shard| self.is_noisy(shard)) {
            false => self.late(),
            true => self.late_shard(self.allowed_lateness_ns(), |shard| !self.is_noisy(shard)),
        }
    }

    /// Whether other processes took more of this host's CPU than allowed.
    fn is_noisy_here(&self) -> bool {
        self.e.host.is_some_and(|host| host.taken() > self.t.disturbed_share)
    }

    /// Whether other processes took more CPU of an agent's machine than allowed.
    fn is_noisy(&self, shard: &ShardResult) -> bool {
        taken(shard).is_some_and(|taken| taken > self.t.disturbed_share)
    }

    /// Allowed lateness: a share of the measured latency p99, but at least the fixed threshold.
    fn allowed_lateness_ns(&self) -> f64 {
        let p99 = self.e.record.result.latency_ns.p99;
        let share_ns = p99.map_or(0.0, |p99| p99 as f64 * self.t.lateness_share);
        share_ns.max(self.t.lateness_ns as f64)
    }

    /// How far apart the shards may have started, including the uncertainty of their clocks, nanoseconds. Zero without
    /// shards.
    fn apart_ns(&self) -> u64 {
        let shards = || self.e.record.shards.iter();
        let earliest =
            shards().map(|shard| shard.start_offset_ns.saturating_sub_unsigned(shard.clock_bound_ns));
        let latest =
            shards().map(|shard| shard.start_offset_ns.saturating_add_unsigned(shard.clock_bound_ns));
        let (Some(earliest), Some(latest)) = (earliest.min(), latest.max()) else { return 0 };
        latest.abs_diff(earliest)
    }

    fn clock_uncertain(&self) -> Option<String> {
        let apart_ns = self.apart_ns();
        (apart_ns > self.t.clock_ns).then(|| {
            format!(
                "the shards started up to {} apart, including the uncertainty of their clocks (limit {})",
                time_ns(apart_ns as f64),
                time_ns(self.t.clock_ns as f64)
            )
        })
    }

    /// Of the agents that sent late, reports the one with the highest lateness. Each agent is checked, because one late
    /// agent among many does not make the whole load late.
    fn late_shard(&self, allowed_ns: f64, counts: impl Fn(&ShardResult) -> bool) -> Option<String> {
        let late_ns = |shard: &ShardResult| {
            let late_ns = shard.lateness_ns.and_then(|times| times.p99)? as f64;
            let wait_ns = shard.generator.connection_wait_ns.and_then(|times| times.p99).unwrap_or(0) as f64;
            (late_ns > allowed_ns + if wait_ns > allowed_ns { wait_ns } else { 0.0 }).then_some(late_ns)
        };
        let shards = self.e.record.shards.iter().filter(|shard| counts(shard));
        let late = shards.filter_map(|shard| Some((shard, late_ns(shard)?)));
        late.max_by(|one, other| one.1.total_cmp(&other.1)).map(|(shard, late_ns)| {
            format!(
                "agent {} sent late: p99 of its lateness is {} (limit {})",
                shard.agent,
                time_ns(late_ns),
                time_ns(allowed_ns)
            )
        })
    }

    /// Whether busy connections caused the lateness, not the generator: the wait for a connection explains it, and no
    /// worker was short of CPU.
    fn waited_for_connections(&self, late_ns: f64, allowed_ns: f64) -> bool {
        let wait_ns = self.e.record.generator.connection_wait_ns.and_then(|times| times.p99);
        let busy = self.busiest_worker().is_some_and(|(_, share)| share > self.t.worker_busy_share);
        wait_ns.is_some_and(|wait_ns| {
            let wait_ns = wait_ns as f64;
            wait_ns > allowed_ns && late_ns <= wait_ns + allowed_ns
        }) && !busy
    }

    /// In an open loop, reports requests that were not sent although a connection was free.
    fn unsent(&self) -> Option<String> {
        let unsent = self.e.record.generator.unsent_with_free_connection;
        let scheduled = self.scheduled();
        if scheduled == 0 {
            return None;
        }
        let sent_share = scheduled.saturating_sub(unsent) as f64 / scheduled as f64;
        let unsent_of = |shard: &ShardResult| shard.generator.unsent_with_free_connection;
        let worst = self.e.record.shards.iter().max_by_key(|shard| unsent_of(shard));
        let worst =
            worst.map(|shard| format!(", {} of them at agent {}", count(unsent_of(shard)), shard.agent));
        (sent_share < self.t.completed_share).then(|| {
            format!(
                "{} of {} scheduled requests were not sent although a connection was free ({} sent, required {}){}",
                count(unsent),
                count(scheduled),
                percent(sent_share),
                percent(self.t.completed_share),
                worst.unwrap_or_default()
            )
        })
    }

    fn host_disturbed(&self) -> Option<String> {
        let said: Vec<String> =
            [self.this_host_disturbed(), self.agent_disturbed()].into_iter().flatten().collect();
        (!said.is_empty()).then(|| said.join(". "))
    }

    /// Reports host noise on the noisiest of the agents' machines.
    fn agent_disturbed(&self) -> Option<String> {
        let noisy = self.e.record.shards.iter().filter(|shard| self.is_noisy(shard));
        let shard =
            noisy.max_by(|one, other| taken(one).unwrap_or(0.0).total_cmp(&taken(other).unwrap_or(0.0)))?;
        let (machine, estimate) = (shard.machine.as_ref()?, NoiseEstimate::of_agent(shard, self.open())?);
        let share = machine.share?;
        Some(format!(
            "processes outside the rig took {} of the CPU of agent {}'s machine (limit {}): {} on this machine, {} in other \
             virtual machines (steal). They may have delayed {} of its requests{}. Stop them, or use another machine",
            percent(share.taken()),
            shard.agent,
            percent(self.t.disturbed_share),
            percent(share.others),
            percent(share.steal),
            percent(estimate.delayed),
            host_noise::busiest_words(&machine.busiest)
        ))
    }

    fn this_host_disturbed(&self) -> Option<String> {
        let host = self.e.host?;
        let estimate = NoiseEstimate::of_this_host(self.e)?;
        self.is_noisy_here().then(|| {
            format!(
                "processes outside the rig took {} of the host's CPU (limit {}): {} on this host, {} in other virtual machines \
                 (steal). They may have delayed {} of the requests and changed CPU time per request by {}{}. {}",
                percent(host.taken()),
                percent(self.t.disturbed_share),
                percent(host.others),
                percent(host.steal),
                percent(estimate.delayed),
                percent(estimate.cpu),
                host_noise::busiest_words(self.e.busiest),
                host_noise::remedy(host)
            )
        })
    }

    fn bound(&self, generator: Option<&str>, upstream: Option<&str>, disturbed: bool) -> Bound {
        if let Some(why) = self.at_limit(self.e.data, "gateway") {
            return Bound { by: BoundBy::Gateway, what: "the gateway", why };
        }
        if let Some(why) = upstream {
            return Bound { by: BoundBy::Upstream, what: "the upstream", why: why.to_owned() };
        }
        if let Some(why) = generator {
            return Bound { by: BoundBy::Generator, what: "the generator", why: why.to_owned() };
        }
        let carried = self.is_carried();
        let full = self.e.host.filter(|host| disturbed || host.idle <= 1.0 - self.t.bound_share);
        if let Some(host) = full.filter(|_| !carried) {
            let why = format!(
                "{} of the host's CPU was idle, and other processes used {}; no part of the rig was saturated",
                percent(host.idle),
                percent(host.taken())
            );
            return Bound { by: BoundBy::Host, what: "the host", why };
        }
        match carried {
            true => Bound { by: BoundBy::Rate, what: "the rate", why: self.carried() },
            false => Bound { by: BoundBy::Concurrency, what: "concurrency", why: self.concurrency() },
        }
    }

    /// States that no part of the rig was saturated. If only the generator was observed, names only the generator.
    fn no_limit(&self) -> &'static str {
        let is_alone = self.e.data.is_none() && self.e.origin.is_none() && self.e.host.is_none();
        if is_alone { "the generator was not the limit" } else { "no part of the rig was saturated" }
    }

    fn carried(&self) -> String {
        let (completed, scheduled) = (count(self.completed_in_phase()), count(self.scheduled()));
        format!("{completed} of {scheduled} scheduled requests completed in the phase; {}", self.no_limit())
    }

    /// Explains the limit `concurrency`. For an open load, the reason `overloaded` states the share of requests that
    /// completed, so this text omits it.
    fn concurrency(&self) -> String {
        let connections = counted(self.e.record.generator.connections.into(), "connection");
        match self.open() {
            true => format!("{} with {connections}", self.no_limit()),
            false => {
                let per_s = rate(self.e.record.result.rate_per_s);
                format!("{connections} gave {per_s}; {}", self.no_limit())
            }
        }
    }

    /// Reports an open load that was not carried because the gateway was saturated or all connections were busy.
    fn overloaded(&self, bound_by: BoundBy) -> Option<String> {
        let why = match bound_by {
            BoundBy::Gateway => "the gateway was saturated",
            BoundBy::Concurrency if self.open() => "every connection was busy",
            _ => return None,
        };
        let share = self.carried_share();
        (share < self.t.completed_share).then(|| {
            format!(
                "{why}, and only {} of {} scheduled requests completed in the phase ({}, required {}): the latency \
                 measures the queue",
                count(self.completed_in_phase()),
                count(self.scheduled()),
                percent(share),
                percent(self.t.completed_share)
            )
        })
    }

    fn throttled(&self) -> Option<String> {
        let parts = [("gateway", self.e.data), ("upstream", self.e.origin), ("generator", self.e.generator)];
        let said: Vec<String> = parts
            .into_iter()
            .filter_map(|(name, usage)| {
                let (periods, throttled) = (usage?.periods?, usage?.periods_throttled?);
                let share = throttled as f64 / periods.max(1) as f64;
                (share > self.t.throttled_share).then(|| {
                    format!(
                        "the {name} in {} of {} periods ({}, limit {})",
                        count(throttled),
                        count(periods),
                        percent(share),
                        percent(self.t.throttled_share)
                    )
                })
            })
            .collect();
        (!said.is_empty()).then(|| format!("the CPU quota throttled {}", said.join(", ")))
    }

    /// Reports errors above the limit. If the gateway is overloaded, timed-out and dropped requests belong to the
    /// overload; only failed requests and unexpected responses count.
    fn errors(&self, overloaded: bool) -> Option<String> {
        let requests = &self.e.record.result.requests;
        let allowed = self.e.errors_max.unwrap_or(self.t.error_share);
        if requests.scheduled == 0 {
            return Some("no request was scheduled in the phase".into());
        }
        let given_up = if overloaded { 0 } else { requests.timed_out.saturating_add(requests.dropped) };
        let bad = requests.unexpected.saturating_add(requests.failed).saturating_add(given_up);
        let share = bad as f64 / requests.scheduled as f64;
        (share > allowed).then(|| {
            format!(
                "{} of {} scheduled requests are errors ({}, limit {}): {} with an unexpected status or a failed check, \
                 {} without a response, {} timed out, {} dropped",
                count(bad),
                count(requests.scheduled),
                percent(share),
                percent(allowed),
                count(requests.unexpected),
                count(requests.failed),
                count(requests.timed_out),
                count(requests.dropped)
            )
        })
    }

    /// Finds the drift of a steady load. If the gateway is overloaded, latency is not checked, because the queue grows.
    fn drift(&self, overloaded: bool) -> Option<Drift> {
        self.e.is_steady.then(|| stationary::drift(self.e.record, self.t.drift_share, !overloaded)).flatten()
    }

    fn implausible(&self) -> Option<String> {
        let said: Vec<String> = [self.books(), self.counters(), self.below_floor(), self.in_flight()]
            .into_iter()
            .flatten()
            .collect();
        (!said.is_empty()).then(|| said.join("; "))
    }

    fn books(&self) -> Option<String> {
        let record = self.e.record;
        let unbalanced = [("phase", &record.result.requests), ("whole load", &record.whole)]
            .into_iter()
            .find(|(_, books)| !books.balance());
        unbalanced.map(|(name, books)| {
            format!(
                "the request counts of the {name} do not add up: {} scheduled; {} completed, {} failed, {} timed out, {} dropped, {} in flight",
                count(books.scheduled),
                count(books.completed),
                count(books.failed),
                count(books.timed_out),
                count(books.dropped),
                count(books.in_flight)
            )
        })
    }

    fn counters(&self) -> Option<String> {
        let counters = self.e.counters?;
        let uncertain = counters.generator_uncertain.saturating_add(self.e.record.whole.in_flight);
        // The gateway may answer with an error itself; such a request never reaches the upstream.
        let own_answers =
            if counters.gateway_requests.is_some() { self.e.record.whole.unexpected } else { 0 };
        let peers = [
            ("gateway", counters.gateway_requests, uncertain),
            ("upstream", counters.origin_requests, uncertain.saturating_add(own_answers)),
        ];
        let apart = peers.into_iter().find(|(_, counted, allowed)| {
            counted.is_some_and(|counted| counted.abs_diff(counters.generator_sent) > *allowed)
        });
        apart.map(|(name, counted, allowed)| {
            format!(
                "counters disagree: the generator sent {} requests, the {name} counted {} (at most {} may differ: failed or in-flight requests)",
                count(counters.generator_sent),
                count(counted.unwrap_or_default()),
                count(allowed)
            )
        })
    }

    fn below_floor(&self) -> Option<String> {
        let (floor, least) = (self.e.loopback_floor_ns?, self.e.record.result.latency_ns.min?);
        (least < floor).then(|| {
            format!(
                "the minimum latency, {}, is below the loopback floor of this host, {}",
                time_ns(least as f64),
                time_ns(floor as f64)
            )
        })
    }

    /// Notes an offered rate above the generator's ceiling. The lateness shows whether this affected the load.
    fn above_ceiling(&self) -> Option<String> {
        let (ceiling, result) = (self.e.ceiling?, &self.e.record.result);
        let asked_per_s = self.scheduled() as f64 / result.duration_s;
        let is_above = self.open()
            && self.e.record.generator.workers <= ceiling.workers
            && asked_per_s > ceiling.rate_per_s;
        is_above.then(|| {
            format!(
                "the offered rate {} exceeds the generator's maximum of {} on this host, as measured by `weir doctor`",
                rate(asked_per_s),
                rate(ceiling.rate_per_s)
            )
        })
    }

    /// Notes a warm-up that took longer than configured. It makes no value invalid: the phase is judged as usual.
    fn longer_warm_up(&self) -> Option<String> {
        let warm_up =
            self.e.record.generator.warm_up.filter(|warm_up| warm_up.taken_ns > warm_up.asked_ns)?;
        let how =
            if warm_up.has_settled { "until latencies settled" } else { "but latencies did not settle" };
        Some(format!(
            "the warm-up was extended from {} to {}, {how} (MSER-5)",
            time_ns(warm_up.asked_ns as f64),
            time_ns(warm_up.taken_ns as f64)
        ))
    }

    /// Checks Little's law: requests in flight = rate x mean latency. In an open loop, samples may or may not include
    /// requests that wait for a connection. So all values between rate x service time and rate x latency pass.
    fn in_flight(&self) -> Option<String> {
        let result = &self.e.record.result;
        let sampled = self.e.record.generator.in_flight_mean?;
        let unanswered = result.requests.unanswered();
        if unanswered as f64 > IN_FLIGHT_UNANSWERED_MAX * result.requests.scheduled as f64 {
            return None;
        }
        let phase_ns = self.e.record.phase_end_mono_ns.saturating_sub(self.e.record.phase_start_mono_ns);
        let mean_ns = result.latency_ns.mean?;
        if mean_ns > IN_FLIGHT_LATENCY_SHARE_MAX * phase_ns as f64 {
            return None;
        }
        let expected = |mean_ns: f64| result.rate_per_s * mean_ns / 1e9;
        let by_latency = expected(mean_ns);
        let by_service = result.service_time_ns.mean.map_or(by_latency, expected);
        let least = by_latency.min(by_service) / IN_FLIGHT_FACTOR - IN_FLIGHT_SLACK;
        let most = by_latency.max(by_service) * IN_FLIGHT_FACTOR + IN_FLIGHT_SLACK;
        (!(least..=most).contains(&sampled)).then(|| {
            format!(
                "in-flight requests disagree: {} sampled, but {} expected from rate x mean latency",
                number(sampled),
                number(by_latency)
            )
        })
    }

    /// Whether enough requests of an open load completed in the phase. Then its throughput counts as the scheduled
    /// rate.
    fn is_carried(&self) -> bool {
        self.open() && self.carried_share() >= self.t.completed_share
    }

    fn limit_not_applied(&self) -> Option<String> {
        (!self.e.limits_applied)
            .then(|| "weir could not apply a CPU or memory limit of the scenario on this host".into())
    }
}
