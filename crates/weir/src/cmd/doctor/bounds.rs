//! Measures the limits of this host: how many requests per second it can send in time, and the lowest latency that
//! it can measure (`docs/method.md#generator-limit`).

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weir_engine::{LoadSpec, ModelSpec, RequestSpec, Spacing};
use weir_results::{Ceiling, HostBounds, HostShare, LoadResult, Manifest, Thresholds};

use crate::failure::Failure;

/// Warm-up of each trial, in nanoseconds.
const WARMUP_NS: u64 = 200_000_000;
/// Length of each trial, in nanoseconds.
const TRIAL_NS: u64 = 400_000_000;
/// Time-out of requests, in nanoseconds.
const TIMEOUT_NS: u64 = 1_000_000_000;
/// Maximum time between the start of the first and of the last trial. All trials together then take at most half a
/// minute.
const BEGIN_BEFORE: Duration = Duration::from_secs(24);
/// Number of connections: enough that no request waits for one.
const CONNECTIONS: u32 = 64;
/// Number of workers of the load generator, which is the default in scenarios.
const WORKERS: u32 = 1;
/// The lowest rate to try, as a share of the throughput of a closed loop.
const LEAST_SHARE: f64 = 1.0 / 64.0;
/// The highest rate to try, as a share of the throughput of a closed loop.
const MOST_SHARE: f64 = 1.25;
/// How often the range of rates is halved. The result then has an uncertainty of 3.5 %.
const HALVINGS: u32 = 7;
/// Maximum number of trials at one rate; one success is enough. A pause of the host can make a load generator late by
/// chance, but never early.
const ATTEMPTS: u32 = 4;

/// A running `weir origin`. Dropping this value stops the process.
pub(super) struct Origin {
    child: Child,
    address: String,
}

/// Measures the highest rate that this host can send in time, and the lowest latency that it can measure. The load goes
/// to an origin on the loopback interface.
pub(super) fn measure(host: &Manifest, watched: Option<HostShare>) -> Result<HostBounds, Failure> {
    let fingerprint = HostBounds::fingerprint(host).ok_or_else(|| {
        let message = "cannot read the CPU model, the cores or the memory of this host";
        Failure::environment(message, "`weir doctor --quick` skips the measurement")
    })?;
    let origin = Origin::start()?;
    let begun = Instant::now();
    let floor = origin.drive(ModelSpec::default(), 1, TRIAL_NS)?;
    let closed = origin.drive(ModelSpec::default(), CONNECTIONS, TRIAL_NS)?;
    if closed.requests.completed == 0 {
        let message = "the built-in origin sent no response on loopback";
        return Err(Failure::environment(message, "check whether a firewall blocks loopback"));
    }
    let most_per_s = closed.rate_per_s * MOST_SHARE;
    let mut failure = None;
    let ceiling = highest(closed.rate_per_s * LEAST_SHARE, most_per_s, HALVINGS, |rate_per_s| {
        for _ in 0..ATTEMPTS {
            if begun.elapsed() > BEGIN_BEFORE || failure.is_some() {
                return None;
            }
            match origin.drive(ModelSpec::open(rate_per_s, Spacing::Poisson), CONNECTIONS, TRIAL_NS) {
                Ok(result) => match kept(rate_per_s, &result) {
                    None => {}
                    found => return found,
                },
                Err(error) => failure = Some(error),
            }
        }
        None
    });
    match failure {
        Some(failure) => Err(failure),
        None => Ok(HostBounds {
            fingerprint,
            measured_unix_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            weir_version: env!("CARGO_PKG_VERSION").into(),
            ceiling,
            floor_min_ns: floor.latency_ns.min,
            floor_p50_ns: floor.latency_ns.p50,
            disturbed_share: watched.map(|share| share.taken()),
        }),
    }
}

/// Returns the rate of a trial if it sent all requests, and the p99 of their lateness is within the threshold.
fn kept(rate_per_s: f64, result: &LoadResult) -> Option<Ceiling> {
    let lateness_p99_ns = result.lateness_ns?.p99?;
    let in_time = lateness_p99_ns <= Thresholds::default().lateness_ns;
    let all_sent = result.requests.sent == result.requests.scheduled;
    (in_time && all_sent).then_some(Ceiling { rate_per_s, workers: WORKERS, lateness_p99_ns })
}

/// Searches for the highest rate between `least` and `most` for which `holds` returns a value. Each of the `halvings`
/// steps halves the range on a logarithmic scale.
fn highest<T>(least: f64, most: f64, halvings: u32, mut holds: impl FnMut(f64) -> Option<T>) -> Option<T> {
    let (mut low, mut high, mut found) = (least, most, None);
    for _ in 0..halvings {
        let middle = (low * high).sqrt();
        match holds(middle) {
            Some(there) => (low, found) = (middle, Some(there)),
            None => high = middle,
        }
    }
    found
}

impl Origin {
    /// Starts the origin as a separate process, as a run does.
    pub(super) fn start() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let message = format!("cannot start the built-in origin: {error}");
            Failure::environment(message, "`weir doctor --quick` skips the measurement")
        };
        let weir = std::env::current_exe().map_err(failed)?;
        let mut command = Command::new(weir);
        command
            .args(["origin", "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // The origin exits when this process ends, even after SIGKILL.
        weir_rig::in_own_session(&mut command);
        let mut child = command.spawn().map_err(failed)?;
        let mut line = String::new();
        let read = child.stdout.take().map_or(Ok(0), |out| BufReader::new(out).read_line(&mut line));
        let origin = Self { child, address: line.trim().rsplit(' ').next().unwrap_or_default().to_owned() };
        match read {
            Ok(_) if line.starts_with("listening on ") => Ok(origin),
            Ok(_) => Err(failed(std::io::Error::other("the process exited before it listened"))),
            Err(error) => Err(failed(error)),
        }
    }

    /// Drives a load of `duration_ns`, and returns its result.
    pub(super) fn drive(
        &self,
        model: ModelSpec,
        connections: u32,
        duration_ns: u64,
    ) -> Result<LoadResult, Failure> {
        let get =
            RequestSpec { headers: vec![("Host".into(), self.address.clone())], ..RequestSpec::default() };
        let spec = LoadSpec {
            connect: self.address.clone(),
            requests: vec![get],
            model,
            connections,
            workers: WORKERS,
            warmup_ns: WARMUP_NS,
            duration_ns: Some(duration_ns),
            timeout_ns: TIMEOUT_NS,
            ..LoadSpec::default()
        };
        weir_engine::run(&spec, &(), &AtomicBool::new(false))
            .map(|record| record.result)
            .map_err(|error| Failure::environment(error.to_string(), error.remedy()))
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        // The process may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use weir_results::{Requests, TimesNs};

    use super::*;

    #[test]
    fn the_highest_passing_rate_is_found() {
        for limit in [20.0, 100.0, 999.0, 1_200.0] {
            let mut tried = 0;
            let found = highest(1_000.0 / 64.0, 1_250.0, HALVINGS, |rate| {
                tried += 1;
                (rate <= limit).then_some(rate)
            });
            let found = found.unwrap();
            assert!(found <= limit && found > limit / 1.036, "{found} of {limit}");
            assert_eq!(tried, HALVINGS);
        }
        assert_eq!(highest(1.0, 10.0, HALVINGS, |_| None::<f64>), None);
    }

    #[test]
    fn a_rate_passes_if_every_request_is_sent_in_time() {
        let result = |p99: Option<u64>, sent| {
            let requests = Requests { scheduled: 10, sent, completed: sent, ..Requests::default() };
            let json = serde_json::json!({
                "schema_version": 1, "model": "open", "duration_s": 1.0, "requests": requests, "rate_per_s": 10.0,
                "latency_ns": TimesNs::default(), "service_time_ns": TimesNs::default(),
                "lateness_ns": TimesNs { p99, ..TimesNs::default() }, "bytes": { "sent": 1, "received": 1 },
                "status": {}, "errors": weir_results::Errors::default(), "cpu_s": { "user": 0.0, "system": 0.0 },
                "bound_by": "rate", "verdicts": weir_results::Verdicts::default(),
            });
            serde_json::from_value::<LoadResult>(json).unwrap()
        };
        let expected = Ceiling { rate_per_s: 10.0, workers: WORKERS, lateness_p99_ns: 250_000 };
        assert_eq!(kept(10.0, &result(Some(250_000), 10)), Some(expected));
        for (p99, sent) in [(Some(250_001), 10), (Some(1), 9), (None, 10)] {
            assert_eq!(kept(10.0, &result(p99, sent)), None);
        }
    }
}
