//! Advice that follows from the examination of a host.

use weir_analysis::busiest_words;
use weir_results::Thresholds;
use weir_results::words::counted;

use super::examination::Examination;

/// Maximum share of the host's CPUs for the gateway. The other 75 % are for the load generator and the origin. Together
/// they use about as much CPU per request as a fast gateway, so they stay well below their limit when the gateway
/// reaches its CPU limit.
const DATA_SHARE: f64 = 0.25;
/// A CPU limit below this number of CPUs is a quota, which makes the kernel pause the gateway.
const WHOLE_CPU: f64 = 1.0;
/// Maximum number of other processes that the advice names.
const NAMED: usize = 3;

/// The largest CPU limit with which the gateway is saturated before the load generator is. This is a whole number of
/// CPUs, unless it would be below 1.
pub(super) fn data_cpus_max(cpus: u32) -> f64 {
    let share = f64::from(cpus) * DATA_SHARE;
    if share >= WHOLE_CPU { share.floor() } else { share }
}

/// The advice as sentences for the user.
pub(super) fn sentences(examination: &Examination, thresholds: &Thresholds) -> Vec<String> {
    let mut sentences = Vec::new();
    let cpus = examination.host.cpus.unwrap_or(1);
    let data = examination.data_cpus_max;
    sentences.push(format!(
        "With {}, set limits.data.cpus to at most {data}, so that the gateway reaches its limit before the generator or \
         the origin.",
        counted(cpus.into(), "core")
    ));
    if data < WHOLE_CPU {
        sentences.push(
            "A limit below 1 CPU is a quota: the kernel pauses a gateway that reaches the limit in each period. Take \
             tail latency from open loads below the limit, and throughput and CPU per request from closed loads."
                .into(),
        );
    }
    if let Some(why) = &examination.limits.why_not {
        sentences.push(format!("weir cannot limit CPU shares and memory on this host: {why}."));
    }
    if let Some(share) = examination.disturbance {
        let disturbed = share.taken();
        let limit = thresholds.disturbed_share;
        let used = format!("Other processes used {:.1} % of this host in the last second", disturbed * 100.0);
        sentences.push(match disturbed > limit {
            true => format!(
                "{used}, above {:.0} %, so weir reports some values only as bounds{}. Stop these processes, or pin \
                 them to CPUs that weir does not use (`taskset`).",
                limit * 100.0,
                busiest_words(&examination.busiest[..examination.busiest.len().min(NAMED)])
            ),
            false => format!("{used}, which is low enough."),
        });
    }
    if let Some(ceiling) = examination.bounds.as_ref().and_then(|bounds| bounds.ceiling) {
        sentences.push(format!(
            "Use at most {1:.0}/s in an open loop with {0}: above that rate, latencies include the lateness of the generator.",
            counted(ceiling.workers.into(), "worker"),
            ceiling.rate_per_s
        ));
    }
    if examination.host.cpu_governor.as_deref().is_some_and(|governor| governor != "performance") {
        sentences.push("The CPU governor is not `performance`, so clock speeds vary with the load. Set it with `cpupower frequency-set -g performance`.".into());
    }
    let missing: Vec<&str> =
        examination.gateways.iter().filter(|g| g.binary.is_none()).map(|g| g.name.as_str()).collect();
    if !missing.is_empty() {
        sentences.push(format!("Missing gateways: {}.", missing.join(", ")));
    }
    let taken = examination.disturbance.map_or(0.0, |share| share.taken());
    sentences.extend(examination.precision.map(|precision| precision.words(taken)));
    sentences
}

#[cfg(test)]
mod tests {
    use super::data_cpus_max;

    #[test]
    fn the_gateway_gets_a_quarter_of_the_host() {
        for (cpus, expected) in [(1, 0.25), (2, 0.5), (4, 1.0), (6, 1.0), (8, 2.0), (64, 16.0)] {
            assert_eq!(data_cpus_max(cpus), expected, "{cpus} cores");
        }
    }
}
