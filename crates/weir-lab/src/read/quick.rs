//! `--quick`: a shorter version of a scenario.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Map, Value};
use weir_document::Time;

use super::overlay;
use crate::scenario::{Axis, Scenario};

/// Divisor of phases.
const PHASE_PART: u32 = 20;
/// Divisor for the length of phases with scheduled disturbances. It is small, so that requests to a stalled server time
/// out before the server returns.
const PHASE_PART_WITH_SCHEDULE: u32 = 2;
/// If gateways register routes repeatedly, phases and registration intervals are divided by this number. It is small,
/// so that the shortened intervals still contain complete seconds.
const PHASE_PART_WITH_INTERVALS: u32 = 5;
const PHASE_MIN: Duration = Duration::from_secs(1);
const WARMUP_MIN: Duration = Duration::from_millis(250);
const REPEATS_MAX: u32 = 3;
/// Maximum number of repeats if gateways register routes repeatedly: only one, because the phases are longer.
const REPEATS_MAX_WITH_INTERVALS: u32 = 1;
const TRIALS_MAX: u32 = 24;
/// Maximum number of domains. With this number, gateways start within a second. With thousands of domains and a
/// fraction of a core, a start takes minutes.
const DOMAINS_MAX: u32 = 100;

/// Name of the gateway setting that contains the interval between registrations.
const INTERVAL: &str = "every";

/// Path of the scenario field with the number of domains.
const DOMAINS: &str = "topology.domains";

/// Shortens `scenario`. Divides the length of phases by 2 if disturbances are scheduled, else by 5 if registrations
/// repeat, else by 20. Divides registration intervals and the times of disturbances by the same number. Shortens the
/// warm-up to a tenth, reduces repeats, trials and domains, and disables retries.
pub(crate) fn quick(mut scenario: Scenario) -> Scenario {
    let shortened = |time: Time, by: u32, least: Duration| Time(time.0.min(least.max(time.0 / by)));
    let (part, repeats_max) = match (scenario.has_schedule(), intervals(&mut scenario).next()) {
        (true, _) => (PHASE_PART_WITH_SCHEDULE, REPEATS_MAX),
        (false, Some(_)) => (PHASE_PART_WITH_INTERVALS, REPEATS_MAX_WITH_INTERVALS),
        (false, None) => (PHASE_PART, REPEATS_MAX),
    };
    for (interval, time) in intervals(&mut scenario) {
        *interval = Value::String(Time(time / part).to_string());
    }
    for time in scenario.schedule_mut() {
        *time = Time(time.0 / part);
    }
    scenario.duration = shortened(scenario.duration, part, PHASE_MIN);
    for (_, load) in &mut scenario.loads.0 {
        load.duration = load.duration.map(|duration| shortened(duration, part, PHASE_MIN));
        let trial = Time(load.trial_length());
        if let Some(search) = &mut load.search {
            search.trials = Some(search.trials_max().min(TRIALS_MAX));
            load.duration = Some(shortened(trial, part, PHASE_MIN));
        }
    }
    scenario.warmup = shortened(scenario.warmup, 10, WARMUP_MIN);
    scenario.repeats = scenario.repeats.min(repeats_max);
    scenario.retries = 0;
    with_fewer_domains(scenario)
}

/// The registration intervals of the gateways.
fn intervals(scenario: &mut Scenario) -> impl Iterator<Item = (&mut Value, Duration)> {
    let settings = scenario.gateways.iter_mut().flat_map(|gateway| &mut gateway.set.0);
    settings.filter(|(name, _)| name == INTERVAL).filter_map(|(_, value)| {
        let time = Time::from_str(value.as_str()?).ok()?;
        (!time.0.is_zero()).then_some((value, time.0))
    })
}

/// Limits the number of domains to `DOMAINS_MAX`: in the topology, in the cases and in the axes.
fn with_fewer_domains(mut scenario: Scenario) -> Scenario {
    scenario.topology.domains = scenario.topology.domains.min(DOMAINS_MAX);
    for case in scenario.cases.iter_mut().filter(|case| overlay::leaves(case).iter().any(has_too_many)) {
        *case = overlay::leaves(case).into_iter().map(fewer).collect::<Map<_, _>>();
    }
    // Cases that differed only in the number of domains are equal now.
    scenario.cases.dedup();
    for (path, axis) in &mut scenario.vary.0 {
        let Axis::Values(values) = axis else { continue };
        for value in values.iter_mut() {
            *value = fewer((path.clone(), value.take())).1;
        }
        values.dedup();
    }
    scenario
}

fn has_too_many((path, value): &(String, Value)) -> bool {
    path == DOMAINS && value.as_u64().is_some_and(|domains| domains > u64::from(DOMAINS_MAX))
}

fn fewer(leaf: (String, Value)) -> (String, Value) {
    if has_too_many(&leaf) { (leaf.0, DOMAINS_MAX.into()) } else { leaf }
}
