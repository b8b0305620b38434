//! The output of `weir load` for people: a live line while the load runs, and tables at the end.

mod errors;
mod figures;
mod live;
mod parts;
mod times;

use std::fmt::Write;

use weir_analysis::{Range, bounds_words, quantity, reason_name};
use weir_document::{Pause, Rate};
use weir_engine::{LoadSpec, ModelSpec, ProtocolSpec, Spacing};
use weir_results::{Judgement, LoadRecord, Reason, Thresholds};

use figures::{bytes, counted, grouped, time};
pub(super) use live::Live;

/// The result as tables.
pub(super) fn table(urls: &[String], spec: &LoadSpec, record: &LoadRecord, judgement: &Judgement) -> String {
    let result = &record.result;
    let requests = &result.requests;
    let mut out = format!(
        "{}\n{}, {}, {}, {:.2} s, seed {}\n\n",
        urls.join("\n"),
        model(spec),
        connections(spec),
        counted(spec.workers.into(), "worker"),
        result.duration_s,
        spec.seed
    );
    let mut lines = vec![(
        "throughput",
        format!(
            "{}/s, {}/s received",
            grouped(result.rate_per_s.round() as u64),
            bytes(result.bytes.received as f64 / result.duration_s.max(1e-9))
        ),
    )];
    let mut books =
        format!("{} scheduled, {} completed", grouped(requests.scheduled), grouped(requests.completed));
    if requests.in_flight > 0 {
        let _ = write!(books, ", {} in flight at the end", grouped(requests.in_flight));
    }
    lines.push(("requests", books));
    lines.extend(record.generator.left_out.iter().map(|left_out| ("file", left_out.to_string())));
    lines.extend(errors::rows(spec, result));
    let status = result.status.iter().map(|(code, count)| format!("{code}: {}", grouped(*count)));
    lines.push(("status", joined(status)));
    lines.extend(parts::protocol(result));
    let per_request = match requests.completed {
        0 => String::new(),
        completed => format!(", {:.2} µs per request", result.cpu_s.total() * 1e6 / completed as f64),
    };
    lines.push((
        "generator",
        format!("CPU time {:.2} s user, {:.2} s system{per_request}", result.cpu_s.user, result.cpu_s.system),
    ));
    for (name, text) in lines {
        let _ = writeln!(out, "  {name:<11} {text}");
    }
    if requests.completed > 0 {
        let _ = writeln!(out, "\n{}", times::table(spec, record));
    }
    let tables = [parts::steps(spec, record), parts::routes(record), parts::shards(record)];
    for table in tables.into_iter().flatten() {
        let _ = writeln!(out, "\n{table}");
    }
    out += "\n";
    out += &verdicts(spec, record, judgement);
    for help in errors::help(spec, result) {
        let _ = writeln!(out, "  help: {help}");
    }
    out
}

/// A note if requests spend a large part of their latency waiting for a connection: there are too few connections for
/// the rate, or the server closes them.
fn waited(spec: &LoadSpec, record: &LoadRecord) -> Option<String> {
    let thresholds = Thresholds::default();
    let wait_ns = record.generator.connection_wait_ns.as_ref().filter(|wait| wait.min.is_some())?.p99;
    let latency_ns = record.result.latency_ns.p99.unwrap_or(spec.timeout_ns) as f64;
    if wait_ns
        .is_some_and(|ns| ns as f64 <= latency_ns * thresholds.lateness_share || ns <= thresholds.lateness_ns)
    {
        return None;
    }
    let p99 = wait_ns.map_or_else(|| format!("> {}", time(spec.timeout_ns as f64)), |ns| time(ns as f64));
    Some(format!(
        "requests waited for a free connection (p99 {p99}): {} in use or not open; the latency includes this wait",
        match spec.connections {
            1 => "the only connection was".to_owned(),
            several => format!("all {} were", counted(several.into(), "connection")),
        }
    ))
}

/// The verdicts about throughput and latency. The CPU use of the server is not measured.
fn verdicts(spec: &LoadSpec, record: &LoadRecord, judgement: &Judgement) -> String {
    if record.result.requests.completed == 0 {
        return "  verdict     none: no request got a response\n".to_owned();
    }
    let mut out = format!(
        "  verdict     throughput: {}; latency: {}; server CPU: not measured\n",
        state(judgement, "throughput", quantity::rate),
        latency_state(record.result.requests.scheduled, judgement)
    );
    // The evidence begins with one sentence per reason, in the same order.
    let reasons = judgement.verdicts.reasons();
    let reasons = reasons.iter().map(Some).chain(std::iter::repeat(None));
    let sentences = judgement.evidence.iter().zip(reasons);
    // Errors are already in the table of errors.
    let sentences = sentences.filter(|(_, reason)| *reason != Some(&Reason::Errors));
    for sentence in sentences.map(|(sentence, _)| sentence.clone()).chain(waited(spec, record)) {
        let _ = writeln!(out, "              {sentence}");
    }
    out
}

/// The verdict about a metric, like `valid`, `≥ 23,000/s (generator-limited)` or `invalid (implausible)`.
fn state(judgement: &Judgement, name: &str, format: fn(f64) -> String) -> String {
    let bounds = judgement.bounds.as_ref().and_then(|bounds| bounds.get(name));
    let Some(bounds) = bounds.filter(|bounds| !bounds.is_valid) else { return "valid".to_owned() };
    let reasons: Vec<&str> = bounds.reasons.iter().map(|reason| reason_name(*reason)).collect();
    let known = match bounds_words(&Range { low: bounds.low, high: bounds.high }, format) {
        words if words.is_empty() => "invalid".to_owned(),
        words => words,
    };
    format!("{known} ({})", reasons.join(", "))
}

/// The verdict about latency. If the verdicts for p50 and p99 differ, both are shown:
/// `p50 valid, p99 ≤ 2.10 ms (generator-limited)`.
fn latency_state(requests: u64, judgement: &Judgement) -> String {
    let [p50, p99] = ["p50", "p99"].map(|name| state(judgement, name, quantity::time_ns));
    match p50 == p99 {
        true if p50 == "valid" => p50 + &times::supported(requests),
        true => p50,
        false => format!("p50 {p50}, p99 {p99}"),
    }
}

fn model(spec: &LoadSpec) -> String {
    match spec.model {
        ModelSpec::Closed { think: None } => "closed loop".into(),
        ModelSpec::Closed { think: Some(Pause::Const(pause)) } => {
            format!("closed loop with pauses of {}", time(pause.as_ns() as f64))
        }
        ModelSpec::Closed { think: Some(Pause::Exp(mean)) } => {
            format!("closed loop with exponentially distributed pauses, mean {}", time(mean.as_ns() as f64))
        }
        ModelSpec::Open { rate_per_s, rate_to_per_s, burst, spacing } => {
            let spacing = match spacing {
                Spacing::Poisson => "Poisson",
                Spacing::Even => "evenly spaced",
            };
            let rates: Vec<f64> =
                spec.steps.iter().filter_map(|step| step.rate).map(|Rate(per_s)| per_s).collect();
            let rate = match (rate_to_per_s, rates.as_slice()) {
                (Some(to_per_s), _) => format!("{rate_per_s}/s to {to_per_s}/s"),
                (None, [first, .., last]) => format!("{first}/s to {last}/s in {} steps", rates.len()),
                (None, _) => format!("{rate_per_s}/s"),
            };
            let burst = burst.map_or(String::new(), |burst| {
                let (length, every) = (time(burst.length.as_ns() as f64), time(burst.every.as_ns() as f64));
                format!(", bursts of {} for {length} every {every}", burst.rate)
            });
            format!("open loop, {rate} {spacing}{burst}")
        }
    }
}

fn connections(spec: &LoadSpec) -> String {
    let levels: Vec<u32> = spec.steps.iter().filter_map(|step| step.connections).collect();
    let all = match (spec.connections_from, levels.as_slice()) {
        (Some(from), _) => format!("{from} to {}", counted(spec.connections.into(), "connection")),
        (None, [first, .., last]) => {
            format!("{first} to {} in {} steps", counted((*last).into(), "connection"), levels.len())
        }
        (None, _) => counted(spec.connections.into(), "connection"),
    };
    match spec.protocol {
        ProtocolSpec::Http1 => all,
        ProtocolSpec::Http2 => {
            format!("{all} of {}", counted(spec.streams.unwrap_or(1).into(), "stream"))
        }
    }
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "none".into() } else { parts.join("  ") }
}

#[cfg(test)]
mod tests {
    use weir_engine::StepSpec;

    use super::*;

    #[test]
    fn shapes_are_printed_in_words() {
        let burst = Some("900/s:200ms/1s".parse().unwrap());
        let open = |rate_to_per_s, burst| ModelSpec::Open {
            rate_per_s: 100.0,
            rate_to_per_s,
            burst,
            spacing: Spacing::Poisson,
        };
        let step = |connections, rate: Option<f64>| StepSpec { connections, rate: rate.map(Rate) };
        let said = |change: &dyn Fn(&mut LoadSpec)| {
            let mut spec = LoadSpec { connections: 60, ..LoadSpec::default() };
            change(&mut spec);
            format!("{}, {}", model(&spec), connections(&spec))
        };
        assert_eq!(said(&|_| {}), "closed loop, 60 connections");
        assert_eq!(said(&|spec| spec.connections_from = Some(1)), "closed loop, 1 to 60 connections");
        assert_eq!(
            said(&|spec| {
                spec.model = ModelSpec::Closed { think: "exp:5ms".parse().ok() };
                spec.steps = vec![step(Some(1), None), step(Some(60), None)];
            }),
            "closed loop with exponentially distributed pauses, mean 5 ms, 1 to 60 connections in 2 steps"
        );
        assert_eq!(
            said(&|spec| {
                spec.model = open(Some(500.0), burst);
                (spec.protocol, spec.streams) = (ProtocolSpec::Http2, Some(16));
            }),
            "open loop, 100/s to 500/s Poisson, bursts of 900/s for 200 ms every 1 s, 60 connections of 16 streams"
        );
        assert_eq!(
            said(&|spec| {
                spec.model = open(None, None);
                spec.steps = vec![step(None, Some(100.0)), step(None, Some(300.0))];
            }),
            "open loop, 100/s to 300/s in 2 steps Poisson, 60 connections"
        );
    }
}
