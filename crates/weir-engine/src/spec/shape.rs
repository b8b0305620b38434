//! Validates the shape of a load: rates, ramps, bursts, steps, think times, and how connections are used.

use std::time::Duration;

use weir_document::{Burst, Pause, Rate};

use super::check::{CONNECTIONS_MAX, DURATION_MAX_NS, RATE_MAX_PER_S, TIMEOUT_MAX_NS, invalid, out_of_range};
use super::{LoadSpec, ModelSpec, ProtocolSpec, StepSpec};
use crate::EngineError;

/// Maximum number of steps of a load. Each step has its own latency distribution in memory.
pub const STEPS_MAX: usize = 1_000;
/// Maximum number of concurrent streams per connection. Servers rarely allow more than a few hundred.
pub const STREAMS_MAX: u32 = 10_000;
/// Minimum period of bursts. The schedule is computed burst by burst, which is slow for shorter periods.
const BURST_EVERY_MIN: Duration = Duration::from_millis(1);
/// Maximum `request_count` of an open load. weir computes the due times of all these requests to find the end of the
/// load.
const OPEN_COUNT_MAX: u64 = 1_000_000_000;

impl LoadSpec {
    /// Whether the load is the same during the whole sustained phase: it has no ramps, steps or bursts.
    pub fn is_steady(&self) -> bool {
        let by_rate = match self.model {
            ModelSpec::Open { rate_to_per_s, burst, .. } => rate_to_per_s.is_none() && burst.is_none(),
            ModelSpec::Closed { .. } => true,
        };
        by_rate && self.connections_from.is_none() && self.steps.is_empty()
    }

    /// Validates all fields that define how much load is sent, and when.
    pub(super) fn validate_shape(&self) -> Result<(), EngineError> {
        match self.model {
            ModelSpec::Open { rate_per_s, rate_to_per_s, burst, .. } => {
                self.validate_rates(rate_per_s, rate_to_per_s)?;
                burst.map_or(Ok(()), validate_burst)?;
                self.validate_open_count(rate_per_s)?;
            }
            ModelSpec::Closed { think } => think.map_or(Ok(()), validate_think)?,
        }
        self.validate_connections_from()?;
        self.validate_steps()?;
        self.validate_streams()?;
        if self.requests_per_connection == Some(0) {
            return out_of_range("per-connection", 0, "use at least 1");
        }
        self.tls.as_ref().map_or(Ok(()), |tls| tls.validate(&self.host))
    }

    fn validate_streams(&self) -> Result<(), EngineError> {
        match (self.protocol, self.streams) {
            (_, None) | (ProtocolSpec::Http2, Some(1..=STREAMS_MAX)) => Ok(()),
            (ProtocolSpec::Http2, Some(streams)) => {
                out_of_range("streams", streams, format!("use 1 to {STREAMS_MAX}"))
            }
            (ProtocolSpec::Http1, Some(_)) => {
                let remedy = "add `protocol: http2`, or remove `streams`";
                invalid("streams", "HTTP/1.1 has no streams", remedy)
            }
        }
    }

    fn validate_rates(&self, rate_per_s: f64, to_per_s: Option<f64>) -> Result<(), EngineError> {
        let Some(to_per_s) = to_per_s else { return validate_rate(rate_per_s) };
        if self.duration_ns.is_none() {
            return invalid("rate", "a request count cannot limit a ramp", "use a duration");
        }
        if !self.steps.is_empty() {
            return invalid("rate", "steps and a ramp cannot be combined", "remove one of the two");
        }
        // One of the two rates may be zero: then the rate rises from zero, or falls to zero.
        match rate_per_s == 0.0 && to_per_s > 0.0 {
            true => validate_rate(to_per_s),
            false if to_per_s == 0.0 => validate_rate(rate_per_s),
            false => validate_rate(rate_per_s).and_then(|()| validate_rate(to_per_s)),
        }
    }

    fn validate_open_count(&self, rate_per_s: f64) -> Result<(), EngineError> {
        let Some(count) = self.request_count else { return Ok(()) };
        if count > OPEN_COUNT_MAX {
            return invalid(
                "requests",
                format!("`{count}` is out of range for a load with a rate"),
                format!("use at most {OPEN_COUNT_MAX} requests, or a duration"),
            );
        }
        let slowest_per_s = self
            .steps
            .iter()
            .filter_map(|step| step.rate)
            .map(|Rate(per_s)| per_s)
            .fold(rate_per_s, f64::min);
        if count as f64 / slowest_per_s * 1e9 > DURATION_MAX_NS as f64 {
            return invalid(
                "requests",
                format!("{count} requests at {slowest_per_s}/s take longer than a week"),
                "use fewer requests or a higher rate",
            );
        }
        Ok(())
    }

    fn validate_connections_from(&self) -> Result<(), EngineError> {
        let Some(from) = self.connections_from else { return Ok(()) };
        if matches!(self.model, ModelSpec::Open { .. }) {
            return invalid(
                "connections",
                "an open load cannot have a ramp of connections",
                "use a ramp of the rate, or a closed load",
            );
        }
        if self.duration_ns.is_none() {
            return invalid("connections", "a request count cannot limit a ramp", "use a duration");
        }
        if !self.steps.is_empty() {
            return invalid("connections", "steps and a ramp cannot be combined", "remove one of the two");
        }
        self.validate_connections(from)
    }

    fn validate_steps(&self) -> Result<(), EngineError> {
        if self.steps.len() > STEPS_MAX {
            return invalid(
                "steps",
                format!("the load has {} steps", self.steps.len()),
                format!("use at most {STEPS_MAX}"),
            );
        }
        for StepSpec { connections, rate } in &self.steps {
            connections.map_or(Ok(()), |connections| self.validate_connections(connections))?;
            match (rate, self.model) {
                (Some(_), ModelSpec::Closed { .. }) => {
                    return invalid(
                        "steps",
                        "a closed load cannot have a rate",
                        "remove the rate, or use an open load",
                    );
                }
                (Some(Rate(rate_per_s)), ModelSpec::Open { .. }) => validate_rate(*rate_per_s)?,
                (None, _) => {}
            }
        }
        // Without a duration, each step ends after a number of requests. Then the total duration is not checked here.
        let total_ns = self.duration_ns.unwrap_or(0).saturating_mul(self.steps.len() as u64);
        if total_ns > DURATION_MAX_NS {
            return invalid("duration", "the steps last longer than a week", "use fewer or shorter steps");
        }
        Ok(())
    }

    fn validate_connections(&self, connections: u32) -> Result<(), EngineError> {
        if !(1..=CONNECTIONS_MAX).contains(&connections) {
            return out_of_range("connections", connections, format!("use 1 to {CONNECTIONS_MAX}"));
        }
        Ok(())
    }
}

fn validate_burst(burst: Burst) -> Result<(), EngineError> {
    let (length, every) = (burst.length.0, burst.every.0);
    if !(BURST_EVERY_MIN..=Duration::from_nanos(DURATION_MAX_NS)).contains(&every) {
        return invalid("burst", "the interval of the bursts is out of range", "use 1ms to a week");
    }
    if length.is_zero() || length >= every {
        return invalid(
            "burst",
            "the length of a burst must be longer than zero and shorter than its interval",
            "use a burst like 5000/s:200ms/1s: its length is 200ms, its interval 1s",
        );
    }
    match burst.rate.0 > 0.0 && burst.rate.0 <= RATE_MAX_PER_S {
        true => Ok(()),
        false => invalid(
            "burst",
            "the rate is out of range",
            format!("use more than 0/s and at most {RATE_MAX_PER_S}/s"),
        ),
    }
}

fn validate_think(think: Pause) -> Result<(), EngineError> {
    let (Pause::Const(time) | Pause::Exp(time)) = think;
    match !time.0.is_zero() && time.0 <= Duration::from_nanos(TIMEOUT_MAX_NS) {
        true => Ok(()),
        false => invalid("think", "the think time is out of range", "use more than 0 and at most 1h"),
    }
}

fn validate_rate(rate_per_s: f64) -> Result<(), EngineError> {
    match rate_per_s > 0.0 && rate_per_s <= RATE_MAX_PER_S {
        true => Ok(()),
        false => invalid(
            "rate",
            "the rate is out of range",
            format!("use more than 0/s and at most {RATE_MAX_PER_S}/s"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use weir_document::Time;

    use super::*;
    use crate::spec::{RequestSpec, Resumption, Spacing, TlsSpec};

    const S: u64 = 1_000_000_000;

    fn good() -> LoadSpec {
        LoadSpec {
            connect: "127.0.0.1:80".into(),
            requests: vec![RequestSpec::default()],
            connections: 4,
            ..LoadSpec::default()
        }
    }

    fn time(ns: u64) -> Time {
        Time(Duration::from_nanos(ns))
    }

    fn open(rate_per_s: f64, rate_to_per_s: Option<f64>, burst: Option<Burst>) -> ModelSpec {
        ModelSpec::Open { rate_per_s, rate_to_per_s, burst, spacing: Spacing::Poisson }
    }

    /// Changes a valid load, and checks that its validation error starts with `said`. If `said` is empty, the load must
    /// still be valid.
    fn check(change: impl FnOnce(&mut LoadSpec), said: &str) {
        let mut spec = good();
        change(&mut spec);
        let found = spec.validate().err().map(|error| error.to_string()).unwrap_or_default();
        assert!(found.starts_with(said) && found.is_empty() == said.is_empty(), "{found:?}, not {said:?}");
    }

    #[test]
    fn ramps_steps_and_bursts_are_not_steady() {
        let steady = |change: fn(&mut LoadSpec)| {
            let mut spec = good();
            change(&mut spec);
            assert!(spec.validate().is_ok());
            spec.is_steady()
        };
        assert!(steady(|_| {}));
        assert!(steady(|spec| spec.model = open(10.0, None, None)));
        assert!(!steady(|spec| spec.model = open(10.0, Some(20.0), None)));
        assert!(!steady(|spec| {
            let burst = "20/s:200ms/1s".parse().unwrap();
            spec.model = open(10.0, None, Some(burst));
        }));
        assert!(!steady(|spec| spec.connections_from = Some(1)));
        assert!(!steady(|spec| spec.steps = vec![StepSpec { connections: Some(2), rate: None }; 2]));
    }

    #[test]
    fn errors_of_shapes_name_the_field() {
        let burst = |rate_per_s, length_ns, every_ns| {
            Some(Burst { rate: Rate(rate_per_s), length: time(length_ns), every: time(every_ns) })
        };
        check(|_| {}, "");
        check(|spec| spec.model = open(0.0, Some(10.0), None), "");
        check(|spec| spec.model = open(10.0, Some(0.0), burst(5.0, S / 10, S)), "");
        for (from, to) in [(0.0, 0.0), (-1.0, 5.0), (5.0, f64::NAN), (5.0, 1e9), (0.0, f64::INFINITY)] {
            check(|spec| spec.model = open(from, Some(to), None), "rate: the rate is out of range");
        }
        check(
            |spec| {
                spec.model = open(1.0, Some(2.0), None);
                (spec.duration_ns, spec.request_count) = (None, Some(10));
            },
            "rate: a request count cannot limit a ramp",
        );
        check(
            |spec| {
                spec.model = open(1.0, Some(2.0), None);
                spec.steps = vec![StepSpec::default()];
            },
            "rate: steps and a ramp cannot be combined",
        );
        check(|spec| spec.model = open(1.0, None, burst(2.0, S, S)), "burst: the length of a burst");
        check(|spec| spec.model = open(1.0, None, burst(2.0, 0, S)), "burst: the length of a burst");
        check(|spec| spec.model = open(1.0, None, burst(2.0, 1, 2)), "burst: the interval of the bursts");
        check(|spec| spec.model = open(1.0, None, burst(0.0, 1, S)), "burst: the rate is out of range");
        check(|spec| spec.connections_from = Some(1), "");
        check(|spec| spec.connections_from = Some(0), "connections: `0` is out of range");
        check(
            |spec| {
                spec.connections_from = Some(1);
                spec.model = open(1.0, None, None);
            },
            "connections: an open load cannot have a ramp",
        );
        check(
            |spec| {
                spec.connections_from = Some(1);
                (spec.duration_ns, spec.request_count) = (None, Some(10));
            },
            "connections: a request count cannot limit a ramp",
        );
    }

    #[test]
    fn errors_of_steps_pauses_and_connections_name_the_field() {
        let step = |connections, rate: Option<f64>| vec![StepSpec { connections, rate: rate.map(Rate) }];
        check(|spec| spec.steps = step(Some(60), None), "");
        check(|spec| spec.steps = step(Some(0), None), "connections: `0` is out of range");
        check(|spec| spec.steps = step(None, Some(5.0)), "steps: a closed load cannot have a rate");
        check(|spec| spec.steps = vec![StepSpec::default(); STEPS_MAX + 1], "steps: the load has 1001 steps");
        check(
            |spec| {
                spec.model = open(10.0, None, None);
                spec.steps = step(None, Some(-5.0));
            },
            "rate: the rate is out of range",
        );
        check(
            |spec| {
                spec.model = open(1_000.0, None, None);
                spec.steps = step(None, Some(1e-6));
                (spec.duration_ns, spec.request_count) = (None, Some(1_000));
            },
            "requests: 1000 requests at 0.000001/s take longer",
        );
        check(
            |spec| {
                spec.duration_ns = Some(DURATION_MAX_NS);
                spec.steps = vec![StepSpec::default(); 2];
            },
            "duration: the steps last longer",
        );
        check(|spec| spec.model = ModelSpec::Closed { think: Some(Pause::Exp(time(S))) }, "");
        check(
            |spec| spec.model = ModelSpec::Closed { think: Some(Pause::Const(time(0))) },
            "think: the think time is out of range",
        );
        let http2 = |streams| {
            move |spec: &mut LoadSpec| (spec.protocol, spec.streams) = (ProtocolSpec::Http2, Some(streams))
        };
        check(http2(16), "");
        check(http2(0), "streams: `0` is out of range");
        check(http2(STREAMS_MAX + 1), "streams: `10001` is out of range");
        check(|spec| spec.streams = Some(1), "streams: HTTP/1.1 has no streams");
        check(|spec| spec.requests_per_connection = Some(0), "per-connection: `0` is out of range");
        let tls = |sni: &str, share| {
            let resumption = Some(Resumption(share));
            Some(TlsSpec { sni: Some(sni.into()), resumption, ..TlsSpec::default() })
        };
        check(|spec| spec.tls = tls("a.example", 0.5), "");
        check(|spec| spec.tls = tls("", 0.5), "sni: the server name is empty");
        check(|spec| spec.tls = tls("a.example", 1.5), "resumption: `1.5` is out of range");
        let of_host = |spec: &mut LoadSpec| spec.tls = Some(TlsSpec::default());
        check(of_host, "sni: the server name is empty");
        check(|spec| (of_host(spec), spec.host = "a.example".into()).1, "");
        let client = |cert: Option<&str>, key: Option<&str>| {
            let tls = TlsSpec { cert: cert.map(Into::into), key: key.map(Into::into), ..TlsSpec::default() };
            move |spec: &mut LoadSpec| (spec.host, spec.tls) = ("a.example".into(), Some(tls))
        };
        check(client(Some("a.pem"), None), "cert: the certificate has no key");
        check(client(None, Some("a.key")), "key: the key has no certificate");
    }
}
