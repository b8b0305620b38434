//! Validates load specifications.

use std::fmt::Display;

use weir_document::Problem;
use weir_results::words::counted;

use super::LoadSpec;
use crate::EngineError;

/// Maximum arrival rate per second. Above it, computing the due times alone would use a whole core.
pub const RATE_MAX_PER_S: f64 = 10_000_000.0;
/// Maximum number of worker threads.
pub const WORKERS_MAX: u32 = 1_024;
/// Maximum number of connections of all workers together.
pub const CONNECTIONS_MAX: u32 = 1_000_000;
/// Maximum duration of a phase: a week.
pub(super) const DURATION_MAX_NS: u64 = 7 * 24 * 3_600 * 1_000_000_000;
/// Maximum time-out of a request: an hour, the longest time that a latency histogram can hold.
pub(super) const TIMEOUT_MAX_NS: u64 = 3_600 * 1_000_000_000;

impl LoadSpec {
    /// Validates everything that can be checked without the network and without files.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] for the first invalid field.
    pub fn validate(&self) -> Result<(), EngineError> {
        self.validate_threads()?;
        self.validate_times()?;
        self.validate_shape()?;
        self.validate_shard()?;
        self.validate_start()?;
        self.validate_requests()
    }

    /// Whether the warm-up may be extended. The load after the warm-up must be constant, and must not end after a
    /// number of requests. No other machine may drive a part of the load, because all machines must start the phase at
    /// the same time.
    pub fn may_warm_up_longer(&self) -> bool {
        self.is_steady() && self.request_count.is_none() && self.shard.unwrap_or_default().is_whole()
    }

    /// The longest duration that the warm-up can have, in nanoseconds.
    pub(crate) fn longest_warmup_ns(&self) -> u64 {
        if self.may_warm_up_longer() { self.warmup_ns.max(self.warmup_most_ns) } else { self.warmup_ns }
    }

    fn validate_threads(&self) -> Result<(), EngineError> {
        if !(1..=CONNECTIONS_MAX).contains(&self.connections) {
            return out_of_range("connections", self.connections, format!("use 1 to {CONNECTIONS_MAX}"));
        }
        if !(1..=WORKERS_MAX).contains(&self.workers) {
            return out_of_range("workers", self.workers, format!("use 1 to {WORKERS_MAX}"));
        }
        if self.connections < self.workers {
            let (connections, workers) = (self.connections, self.workers);
            return invalid(
                "workers",
                format!(
                    "{} cannot share {}",
                    counted(workers.into(), "worker"),
                    counted(connections.into(), "connection")
                ),
                format!("use at most {}, or more connections", counted(connections.into(), "worker")),
            );
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), EngineError> {
        match (self.duration_ns, self.request_count) {
            (Some(_), Some(_)) => {
                return invalid(
                    "duration",
                    "a duration and a number of requests cannot be combined",
                    "remove one of the two",
                );
            }
            (None, None) => {
                return invalid("duration", "the load has no end", "add a duration or a number of requests");
            }
            (Some(0), None) => {
                return invalid("duration", "the duration is zero", "use a longer time, like 10s");
            }
            (None, Some(0)) => return out_of_range("requests", 0, "use at least 1"),
            _ => {}
        }
        if self.duration_ns.unwrap_or(0).max(self.warmup_ns).max(self.warmup_most_ns) > DURATION_MAX_NS {
            return invalid(
                "duration",
                "the load lasts longer than a week",
                "use a shorter warm-up or duration",
            );
        }
        if self.timeout_ns == 0 || self.timeout_ns > TIMEOUT_MAX_NS {
            return invalid("timeout", "the timeout is out of range", "use more than 0 and at most 1h");
        }
        Ok(())
    }
}

pub(crate) fn invalid<T>(
    field: &'static str,
    message: impl Into<String>,
    remedy: impl Into<String>,
) -> Result<T, EngineError> {
    Err(EngineError::Invalid(Problem::new(message, remedy).at(field)))
}

/// Returns the error for a number outside of its range.
pub(crate) fn out_of_range<T>(
    field: &'static str,
    value: impl Display,
    remedy: impl Into<String>,
) -> Result<T, EngineError> {
    invalid(field, format!("`{value}` is out of range"), remedy)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{ModelSpec, RequestSpec, Spacing};

    fn good() -> LoadSpec {
        let get = RequestSpec {
            path: "/a?b=c".into(),
            headers: vec![("Host".into(), "example.com".into())],
            ..RequestSpec::default()
        };
        LoadSpec {
            connect: "127.0.0.1:80".into(),
            requests: vec![get],
            model: ModelSpec::open(10.0, Spacing::Poisson),
            connections: 4,
            workers: 2,
            duration_ns: Some(1),
            timeout_ns: 1,
            ..LoadSpec::default()
        }
    }

    #[test]
    fn errors_of_specifications_name_the_field() {
        let wrong = |field: &str, change: fn(&mut LoadSpec)| {
            let mut spec = good();
            spec.validate().unwrap();
            change(&mut spec);
            let said = spec.validate().unwrap_err().to_string();
            assert!(said.starts_with(&format!("{field}: ")), "{said}");
        };
        wrong("connections", |spec| spec.connections = 0);
        wrong("connections", |spec| spec.connections = CONNECTIONS_MAX + 1);
        wrong("workers", |spec| spec.workers = 0);
        wrong("workers", |spec| spec.workers = WORKERS_MAX + 1);
        wrong("workers", |spec| spec.workers = 5);
        wrong("duration", |spec| spec.request_count = Some(1));
        wrong("duration", |spec| spec.duration_ns = None);
        wrong("duration", |spec| spec.duration_ns = Some(0));
        wrong("duration", |spec| spec.warmup_ns = u64::MAX);
        wrong("requests", |spec| (spec.duration_ns, spec.request_count) = (None, Some(0)));
        wrong("requests", |spec| spec.requests.clear());
        wrong("requests", |spec| (spec.duration_ns, spec.request_count) = (None, Some(u64::MAX)));
        wrong("requests", |spec| (spec.duration_ns, spec.request_count) = (None, Some(10_000_000)));
        wrong("timeout", |spec| spec.timeout_ns = 0);
        for rate in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e9] {
            let mut spec = good();
            spec.model = ModelSpec::open(rate, Spacing::Even);
            assert!(spec.validate().unwrap_err().to_string().starts_with("rate: "));
        }
        wrong("method", |spec| spec.requests[0].method = "GE T".into());
        wrong("method", |spec| spec.requests[0].method = String::new());
        wrong("method", |spec| spec.requests[0].method = "CONNECT".into());
        wrong("path", |spec| spec.requests[0].path = "a".into());
        wrong("path", |spec| spec.requests[0].path = "/a b".into());
        wrong("header", |spec| spec.requests[0].headers.push(("a b".into(), String::new())));
        wrong("header", |spec| spec.requests[0].headers.push(("a".into(), "x\r\ny: z".into())));
        wrong("header", |spec| spec.requests[0].headers.push(("Content-Length".into(), "5".into())));
    }

    #[test]
    fn the_serialized_form_reads_back_and_rejects_unknown_fields() {
        let text = serde_json::to_string(&good()).unwrap();
        assert_eq!(serde_json::from_str::<LoadSpec>(&text).unwrap(), good());
        assert!(serde_json::from_str::<LoadSpec>(&text.replace("\"seed\"", "\"sead\"")).is_err());
    }
}
