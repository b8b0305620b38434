//! Cold start of a gateway: time and CPU time from the launch of its first process to its first response with status
//! 200, and its memory after that, before any load.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use weir_analysis::data_usage;
use weir_results::{ColdStart, Part, Usage};
use weir_rig::{Asked, Rendered, Running, Sampler, Samples, mono_ns, status_of};

use super::error::{CellError, failed};
use super::network::Listener;
use crate::plan::{COLD_START_SAMPLE, COLD_START_SETTLE};
use crate::scenario::Scenario;

/// Time-out for the first response with status 200, once the gateway listens.
const ANSWERS_WITHIN: Duration = Duration::from_secs(60);
/// Time-out of one request.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two requests is the elapsed time divided by this number, so the measured time is at most 2 % too
/// long.
const LOOK_SHARE: u32 = 50;
/// Minimum pause between two requests.
const LOOK_MIN: Duration = Duration::from_millis(1);

/// Samples the host and the processes of a gateway. Sampling starts before the launch of the gateway.
pub(crate) struct ColdStartSampler {
    sampler: Sampler,
    began_ns: u64,
}

impl ColdStartSampler {
    /// Starts sampling the host and the processes `upstream`, so that the upstream does not count as host noise.
    pub(crate) fn begin(upstream: &[Running]) -> Self {
        let sampler = Sampler::start(&upstream.iter().collect::<Vec<_>>());
        Self { sampler, began_ns: mono_ns() }
    }

    /// Sends requests to the gateway until it responds with status 200. Then samples the memory of `running`, the
    /// processes of the gateway, and returns the results of the start.
    pub(crate) fn end(
        self,
        scenario: &Scenario,
        rendered: &Rendered,
        listener: &Listener,
        running: &[Running],
        stop: &AtomicBool,
    ) -> Result<ColdStart, CellError> {
        await_last_route(scenario, rendered, listener, stop)?;
        let answered_ns = mono_ns();
        running.iter().for_each(|part| self.sampler.join(part));
        thread::sleep(COLD_START_SETTLE);
        let settled_ns = mono_ns();
        thread::sleep(COLD_START_SAMPLE);
        let ended_ns = mono_ns();
        let samples = self.sampler.finish();
        let parts: Vec<Part> = running.iter().map(Running::part).collect();
        let launched_ns = running.iter().map(Running::launched_ns).min().unwrap_or(answered_ns);
        let memory = usage(&samples, &parts, settled_ns, ended_ns);
        Ok(ColdStart {
            first_answer_ns: answered_ns.saturating_sub(launched_ns),
            // The gateway uses no CPU time before its launch, so the span can begin before the launch.
            cpu_s: usage(&samples, &parts, self.began_ns, answered_ns).map(|usage| usage.cpu_s),
            memory_bytes: memory.and_then(|usage| usage.memory_bytes_mean),
            host: samples.host(self.began_ns, answered_ns),
        })
    }
}

/// Usage of the data plane between `from_ns` and `to_ns` of the monotonic clock.
fn usage(samples: &Samples, parts: &[Part], from_ns: u64, to_ns: u64) -> Option<Usage> {
    let used =
        parts.iter().filter_map(|part| Some((part.name.clone(), samples.usage(&part.name, from_ns, to_ns)?)));
    data_usage(parts, &used.collect::<BTreeMap<_, _>>())
}

/// Requests the last path of the last domain until the status is 200. A gateway that serves this path has loaded all
/// routes, from its configuration or from messages.
pub(super) fn await_last_route(
    scenario: &Scenario,
    rendered: &Rendered,
    listener: &Listener,
    stop: &AtomicBool,
) -> Result<(), CellError> {
    let (hosts, paths) = (scenario.topology.hosts(), scenario.topology.paths());
    let (Some(host), Some(path)) = (hosts.last(), paths.last()) else { return Ok(()) };
    let (address, network) = (listener.connect, listener.namespace.as_ref());
    let began = Instant::now();
    loop {
        let answer = status_of(&rendered.credentials, network, address, Asked { host, path }, LOOK_TIMEOUT);
        if answer == Ok(200) {
            return Ok(());
        }
        if stop.load(Ordering::Relaxed) {
            return Err(CellError::Stopped);
        }
        if began.elapsed() > ANSWERS_WITHIN {
            let said = answer.map_or_else(|error| error, |status| format!("status {status}"));
            let message = format!(
                "the gateway listens, but after {} s {address}{path} (Host: {host}) still fails: {said}, expected \
                 status 200",
                ANSWERS_WITHIN.as_secs()
            );
            let remedy = match scenario.cold_start {
                true => "make this host and path return 200, or remove `cold_start`",
                false => "check the log of the gateway: this host and path must return 200",
            };
            return Err(failed("never-ready", &message, remedy, ""));
        }
        thread::sleep((began.elapsed() / LOOK_SHARE).max(LOOK_MIN));
    }
}
