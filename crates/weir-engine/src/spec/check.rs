//! Whether what is asked of the engine makes sense.

use super::{LoadSpec, ModelSpec};
use crate::EngineError;
use weir_results::words::counted;

/// Greatest rate of arrivals per second; beyond it, walking the schedule alone would fill a core.
pub const RATE_MAX_PER_S: f64 = 10_000_000.0;
/// Most worker threads.
pub const WORKERS_MAX: u32 = 1_024;
/// Most connections over all workers.
pub const CONNECTIONS_MAX: u32 = 1_000_000;
/// Longest phase and longest time-out: what a latency histogram can hold is one hour, what a load may last a week.
pub(super) const DURATION_MAX_NS: u64 = 7 * 24 * 3_600 * 1_000_000_000;
pub(super) const TIMEOUT_MAX_NS: u64 = 3_600 * 1_000_000_000;

impl LoadSpec {
    /// Checks what can be checked without the network.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] names the first field that makes no sense.
    pub fn validate(&self) -> Result<(), EngineError> {
        self.validate_threads()?;
        self.validate_times()?;
        self.validate_shape()?;
        self.validate_requests()
    }

    /// Length to which the warm-up may grow, nanoseconds: what comes after it must not hang on when it ends.
    pub(crate) fn longest_warmup_ns(&self) -> u64 {
        let is_even = match self.model {
            ModelSpec::Closed { .. } => self.connections_from.is_none(),
            ModelSpec::Open { rate_to_per_s, burst, .. } => rate_to_per_s.is_none() && burst.is_none(),
        };
        let may_grow = is_even && self.request_count.is_none() && self.steps.is_empty();
        if may_grow { self.warmup_ns.max(self.warmup_most_ns) } else { self.warmup_ns }
    }

    fn validate_threads(&self) -> Result<(), EngineError> {
        if self.connections == 0 {
            return invalid("connections", "must be at least 1");
        }
        if self.connections > CONNECTIONS_MAX {
            return invalid("connections", format!("at most {CONNECTIONS_MAX}"));
        }
        if self.workers == 0 {
            return invalid("workers", "must be at least 1");
        }
        if self.workers > WORKERS_MAX {
            return invalid("workers", format!("at most {WORKERS_MAX}"));
        }
        if self.connections < self.workers {
            let (connections, workers) = (self.connections, self.workers);
            return invalid(
                "workers",
                format!(
                    "{} cannot share {}; ask for at most {}",
                    counted(workers.into(), "worker"),
                    counted(connections.into(), "connection"),
                    counted(connections.into(), "worker")
                ),
            );
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), EngineError> {
        match (self.duration_ns, self.request_count) {
            (Some(_), Some(_)) => {
                return invalid(
                    "duration",
                    "a load ends by its duration or by its count of requests, not by both",
                );
            }
            (None, None) => return invalid("duration", "a load needs a duration or a count of requests"),
            (Some(0), None) => return invalid("duration", "must be above 0"),
            (None, Some(0)) => return invalid("requests", "must be above 0"),
            _ => {}
        }
        if self.duration_ns.unwrap_or(0).max(self.warmup_ns).max(self.warmup_most_ns) > DURATION_MAX_NS {
            return invalid("duration", "warm-up and duration may last a week at most");
        }
        if self.timeout_ns == 0 || self.timeout_ns > TIMEOUT_MAX_NS {
            return invalid("timeout", "must be above 0 and at most 1h");
        }
        Ok(())
    }
}

pub(crate) fn invalid<T>(field: &'static str, message: impl Into<String>) -> Result<T, EngineError> {
    Err(EngineError::Invalid { field, message: message.into() })
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
    fn wrong_specifications_name_their_field() {
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
    fn the_file_form_reads_back_and_refuses_unknown_fields() {
        let text = serde_json::to_string(&good()).unwrap();
        assert_eq!(serde_json::from_str::<LoadSpec>(&text).unwrap(), good());
        assert!(serde_json::from_str::<LoadSpec>(&text.replace("\"seed\"", "\"sead\"")).is_err());
    }
}
