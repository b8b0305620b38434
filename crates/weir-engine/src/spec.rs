//! What is asked of the engine, and whether it makes sense.

use serde::{Deserialize, Serialize};

use crate::EngineError;

/// Greatest rate of arrivals per second; beyond it, walking the schedule alone would fill a core.
pub const RATE_MAX_PER_S: f64 = 10_000_000.0;
/// Most worker threads.
pub const WORKERS_MAX: u32 = 1_024;
/// Most connections over all workers.
pub const CONNECTIONS_MAX: u32 = 1_000_000;
/// Longest phase and longest time-out: what a latency histogram can hold is one hour, what a load may last a week.
const DURATION_MAX_NS: u64 = 7 * 24 * 3_600 * 1_000_000_000;
const TIMEOUT_MAX_NS: u64 = 3_600 * 1_000_000_000;
/// Most arrivals of an open phase that is given by their count: its end is found by walking the schedule.
const OPEN_COUNT_MAX: u64 = 1_000_000_000;

/// A load: what to send, how often, over how many connections, and when to stop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadSpec {
    /// `host:port`; resolved before the load starts.
    pub connect: String,
    /// What is sent; each arrival takes one of them by (seed, index), uniformly.
    pub requests: Vec<RequestSpec>,
    /// The arrival model.
    pub model: ModelSpec,
    /// Connections over all workers.
    pub connections: u32,
    /// Worker threads.
    pub workers: u32,
    /// Length of the warm-up, nanoseconds.
    pub warmup_ns: u64,
    /// Length of the sustained phase, nanoseconds; this or `request_count`.
    pub duration_ns: Option<u64>,
    /// Requests of the sustained phase; this or `duration_ns`.
    pub request_count: Option<u64>,
    /// Time-out of a request from its intended start, nanoseconds.
    pub timeout_ns: u64,
    /// Seed of arrivals and of the choice of requests.
    pub seed: u64,
}

/// The arrival model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "model", rename_all = "lowercase", deny_unknown_fields)]
pub enum ModelSpec {
    /// Each connection sends when it has been answered.
    Closed,
    /// Arrivals follow a schedule that waits for nobody.
    Open {
        /// Arrivals per second on the mean, over all workers.
        rate_per_s: f64,
        /// How they are spaced.
        spacing: Spacing,
    },
}

/// How open arrivals are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Spacing {
    /// Exponential gaps: arrivals know nothing of each other.
    Poisson,
    /// Equal gaps.
    Even,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSpec {
    /// The method, a token.
    pub method: String,
    /// Path and query, from `/` on.
    pub path: String,
    /// Fields in their order, `Host` among them; framing is added.
    pub headers: Vec<(String, String)>,
    /// The body; a Content-Length is added where it is not empty or the method wants one.
    pub body: String,
}

impl LoadSpec {
    /// Checks what can be checked without the network.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] names the first field that makes no sense.
    pub fn validate(&self) -> Result<(), EngineError> {
        self.validate_threads()?;
        self.validate_times()?;
        if let ModelSpec::Open { rate_per_s, .. } = self.model
            && !(rate_per_s > 0.0 && rate_per_s <= RATE_MAX_PER_S)
        {
            return invalid("rate", format!("must be above 0/s and at most {RATE_MAX_PER_S}/s"));
        }
        self.validate_count()?;
        if self.requests.is_empty() {
            return invalid("requests", "at least one request is needed");
        }
        self.requests.iter().try_for_each(RequestSpec::validate)
    }

    fn validate_threads(&self) -> Result<(), EngineError> {
        if self.connections == 0 {
            return invalid("connections", "at least 1 is needed");
        }
        if self.connections > CONNECTIONS_MAX {
            return invalid("connections", format!("at most {CONNECTIONS_MAX}"));
        }
        if self.workers == 0 {
            return invalid("workers", "at least 1 is needed");
        }
        if self.workers > WORKERS_MAX {
            return invalid("workers", format!("at most {WORKERS_MAX}"));
        }
        if self.connections < self.workers {
            let (connections, workers) = (self.connections, self.workers);
            return invalid(
                "workers",
                format!(
                    "{workers} workers cannot share {connections} connections; ask for at most {connections} workers"
                ),
            );
        }
        Ok(())
    }

    fn validate_count(&self) -> Result<(), EngineError> {
        let (ModelSpec::Open { rate_per_s, .. }, Some(count)) = (self.model, self.request_count) else {
            return Ok(());
        };
        if count > OPEN_COUNT_MAX {
            return invalid(
                "requests",
                format!("at most {OPEN_COUNT_MAX} with a rate; give a duration instead"),
            );
        }
        if count as f64 / rate_per_s * 1e9 > DURATION_MAX_NS as f64 {
            return invalid(
                "requests",
                format!("{count} requests at {rate_per_s}/s take longer than a week"),
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
        if self.duration_ns.unwrap_or(0).max(self.warmup_ns) > DURATION_MAX_NS {
            return invalid("duration", "warm-up and duration may last a week at most");
        }
        if self.timeout_ns == 0 || self.timeout_ns > TIMEOUT_MAX_NS {
            return invalid("timeout", "must be above 0 and at most 1h");
        }
        Ok(())
    }
}

impl RequestSpec {
    fn validate(&self) -> Result<(), EngineError> {
        if self.method.is_empty() || !self.method.bytes().all(is_token_byte) {
            return invalid(
                "method",
                format!("`{}` is not a method; letters like GET or POST are", self.method),
            );
        }
        if self.method == "CONNECT" {
            return invalid("method", "CONNECT makes a tunnel, which a load cannot measure");
        }
        if !self.path.starts_with('/') && self.path != "*" {
            return invalid("path", format!("`{}` must start with /", self.path));
        }
        if !self.path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
            return invalid("path", format!("`{}` has a byte that must be percent-encoded", self.path));
        }
        self.headers.iter().try_for_each(|(name, value)| validate_field(name, value))
    }
}

fn validate_field(name: &str, value: &str) -> Result<(), EngineError> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return invalid("header", format!("`{name}` is not a field name"));
    }
    if value.bytes().any(|byte| byte == 0x7f || (byte < b' ' && byte != b'\t')) {
        return invalid("header", format!("the value of `{name}` has a control character"));
    }
    for owned in ["content-length", "transfer-encoding"] {
        if name.eq_ignore_ascii_case(owned) {
            return invalid("header", format!("`{name}` is set from the body; leave it out"));
        }
    }
    Ok(())
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn invalid<T>(field: &'static str, message: impl Into<String>) -> Result<T, EngineError> {
    Err(EngineError::Invalid { field, message: message.into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> LoadSpec {
        let get = RequestSpec {
            method: "GET".into(),
            path: "/a?b=c".into(),
            headers: vec![("Host".into(), "example.com".into())],
            body: String::new(),
        };
        LoadSpec {
            connect: "127.0.0.1:80".into(),
            requests: vec![get],
            model: ModelSpec::Open { rate_per_s: 10.0, spacing: Spacing::Poisson },
            connections: 4,
            workers: 2,
            warmup_ns: 0,
            duration_ns: Some(1),
            request_count: None,
            timeout_ns: 1,
            seed: 0,
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
            spec.model = ModelSpec::Open { rate_per_s: rate, spacing: Spacing::Even };
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
