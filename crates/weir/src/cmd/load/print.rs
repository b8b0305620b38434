//! What `weir load` prints for people: a live line, and a table at the end.

mod figures;
mod live;
mod parts;

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use weir_analysis::reason_name;
use weir_engine::{LoadSpec, ModelSpec, ProtocolSpec, Spacing, ThinkSpec};
use weir_results::{Errors, HISTOGRAM_LOW_NS, Judgement, LoadRecord, Reason, Requests, Thresholds, TimesNs};

use figures::{bytes, grouped, time};
pub(super) use live::Live;

/// The result as a table.
pub(super) fn table(urls: &[String], spec: &LoadSpec, record: &LoadRecord, judgement: &Judgement) -> String {
    let result = &record.result;
    let requests = &result.requests;
    let mut out = format!(
        "{}\n{}, {}, {} {}, {:.2} s, seed {}\n\n",
        urls.join("\n"),
        model(spec),
        connections(spec),
        spec.workers,
        if spec.workers == 1 { "worker" } else { "workers" },
        result.duration_s,
        spec.seed
    );
    let mut lines = vec![(
        "throughput",
        format!(
            "{}/s   received {}/s",
            grouped(result.rate_per_s.round() as u64),
            bytes(result.bytes.received as f64 / result.duration_s.max(1e-9))
        ),
    )];
    let mut books =
        format!("{} scheduled, {} completed", grouped(requests.scheduled), grouped(requests.completed));
    for (name, count) in [
        ("unexpected", requests.unexpected),
        ("failed", requests.failed),
        ("timed out", requests.timed_out),
        ("dropped", requests.dropped),
        ("in flight", requests.in_flight),
    ] {
        if count > 0 {
            let _ = write!(books, ", {} {name}", grouped(count));
        }
    }
    lines.push(("requests", books));
    let status = result.status.iter().map(|(code, count)| format!("{code}: {}", grouped(*count)));
    lines.push(("status", joined(status)));
    lines.push((
        "errors",
        joined(errors(&result.errors).map(|(name, count)| format!("{name} {}", grouped(count)))),
    ));
    lines.extend(parts::said(result));
    lines.extend(parts::protocol(result));
    let cpu_s = result.cpu_s.total();
    let per_request = match requests.completed {
        0 => String::new(),
        completed => format!(", {:.2} µs per request", cpu_s * 1e6 / completed as f64),
    };
    lines.push((
        "generator",
        format!("{:.2} s user, {:.2} s system{per_request}", result.cpu_s.user, result.cpu_s.system),
    ));
    for (name, text) in lines {
        let _ = writeln!(out, "  {name:<11} {text}");
    }
    let _ = writeln!(out, "\n{}\n  {}", times(spec, record), ranking(requests));
    for table in [parts::steps(spec, record), parts::routes(record)].into_iter().flatten() {
        let _ = writeln!(out, "\n{table}");
    }
    if let Some(said) = waited(spec, record) {
        let _ = writeln!(out, "  {said}");
    }
    out + "\n" + &verdicts(judgement)
}

fn times(spec: &LoadSpec, record: &LoadRecord) -> String {
    let result = &record.result;
    let unanswered = format!("> {}", time(spec.timeout_ns as f64));
    let mut table = Table::new();
    table.load_preset(NOTHING);
    table.set_header(["", "min", "p50", "p90", "p99", "p99.9", "max", "mean", "stddev"]);
    let mut row = |name: &str, times: &TimesNs| {
        let missing = if times.min.is_some() { unanswered.as_str() } else { "-" };
        let whole = |ns: Option<u64>| match ns {
            None => missing.to_owned(),
            // What lies below is not told apart.
            Some(ns) if ns < HISTOGRAM_LOW_NS => format!("< {HISTOGRAM_LOW_NS} ns"),
            Some(ns) => time(ns as f64),
        };
        let mean = |ns: Option<f64>| match ns {
            None => "-".to_owned(),
            Some(ns) if ns < HISTOGRAM_LOW_NS as f64 => format!("< {HISTOGRAM_LOW_NS} ns"),
            Some(ns) => time(ns),
        };
        table.add_row([
            format!("  {name}"),
            whole(times.min),
            whole(times.p50),
            whole(times.p90),
            whole(times.p99),
            whole(times.p999),
            whole(times.max),
            mean(times.mean),
            times.stddev.map_or("-".to_owned(), time),
        ]);
    };
    row("latency", &result.latency_ns);
    if let Some(lateness) = &result.lateness_ns {
        row("from send", &result.service_time_ns);
        row("lateness", lateness);
    }
    if let Some(wait) = &record.generator.connection_wait_ns {
        row("wait", wait);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// How the quantiles are ranked.
fn ranking(requests: &Requests) -> String {
    let scheduled = grouped(requests.scheduled);
    match requests.unanswered() {
        0 => format!("quantiles: nearest rank over {scheduled} scheduled requests"),
        unanswered => format!(
            "quantiles: nearest rank over {scheduled} scheduled requests; the {} unanswered rank last",
            grouped(unanswered)
        ),
    }
}

/// Says so where the wait for a connection is a good part of the latency: then the connections are too few for
/// the rate, or down.
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
        "requests waited for a free connection (p99 {p99}): all {} were busy or down, and the latency has that wait in it",
        grouped(u64::from(spec.connections))
    ))
}

fn verdicts(judgement: &Judgement) -> String {
    let verdicts = &judgement.verdicts;
    let said = |reasons: &[Reason]| match reasons {
        [] => "valid".to_owned(),
        reasons => reasons.iter().map(|&reason| reason_name(reason)).collect::<Vec<_>>().join(", "),
    };
    let mut out = if verdicts.all_valid() {
        "  throughput, latency and CPU: valid\n".to_owned()
    } else {
        format!(
            "  throughput: {}; latency: {}; CPU: {}\n",
            said(&verdicts.throughput),
            said(&verdicts.latency),
            said(&verdicts.cpu)
        )
    };
    for sentence in &judgement.evidence {
        let _ = writeln!(out, "  {sentence}");
    }
    out
}

fn model(spec: &LoadSpec) -> String {
    match spec.model {
        ModelSpec::Closed { think: None } => "closed loop".into(),
        ModelSpec::Closed { think: Some(ThinkSpec::Const(ns)) } => {
            format!("closed loop with pauses of {}", time(ns as f64))
        }
        ModelSpec::Closed { think: Some(ThinkSpec::Exp(ns)) } => {
            format!("closed loop with exponential pauses of {}", time(ns as f64))
        }
        ModelSpec::Open { rate_per_s, rate_to_per_s, burst, spacing } => {
            let spacing = match spacing {
                Spacing::Poisson => "Poisson",
                Spacing::Even => "evenly spaced",
            };
            let rates: Vec<f64> = spec.steps.iter().filter_map(|step| step.rate_per_s).collect();
            let rate = match (rate_to_per_s, rates.as_slice()) {
                (Some(to_per_s), _) => format!("{rate_per_s}/s to {to_per_s}/s"),
                (None, [first, .., last]) => format!("{first}/s to {last}/s in {} steps", rates.len()),
                (None, _) => format!("{rate_per_s}/s"),
            };
            let burst = burst.map_or(String::new(), |burst| {
                let (length, every) = (time(burst.length_ns as f64), time(burst.every_ns as f64));
                format!(", bursts of {}/s for {length} each {every}", burst.rate_per_s)
            });
            format!("open loop, {rate} {spacing}{burst}")
        }
    }
}

fn connections(spec: &LoadSpec) -> String {
    let levels: Vec<u32> = spec.steps.iter().filter_map(|step| step.connections).collect();
    let counted = match (spec.connections_from, levels.as_slice()) {
        (Some(from), _) => format!("{from} to {} connections", spec.connections),
        (None, [first, .., last]) => format!("{first} to {last} connections in {} steps", levels.len()),
        (None, _) if spec.connections == 1 => "1 connection".to_owned(),
        (None, _) => format!("{} connections", spec.connections),
    };
    match spec.protocol {
        ProtocolSpec::Http1 => counted,
        ProtocolSpec::Http2 { streams: 1 } => format!("{counted} of 1 stream"),
        ProtocolSpec::Http2 { streams } => format!("{counted} of {streams} streams"),
    }
}

fn errors(errors: &Errors) -> impl Iterator<Item = (&'static str, u64)> {
    let Errors {
        dns,
        connect,
        refused,
        reset,
        closed,
        tls,
        parse,
        too_large,
        http2,
        refused_stream,
        stream_reset,
        goaway,
    } = *errors;
    [
        ("dns", dns),
        ("connect", connect),
        ("refused", refused),
        ("reset", reset),
        ("closed", closed),
        ("tls", tls),
        ("parse", parse),
        ("too large", too_large),
        ("http2", http2),
        ("refused stream", refused_stream),
        ("stream reset", stream_reset),
        ("goaway", goaway),
    ]
    .into_iter()
    .filter(|&(_, count)| count > 0)
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { "none".into() } else { parts.join("  ") }
}

#[cfg(test)]
mod tests {
    use weir_engine::{BurstSpec, StepSpec};

    use super::*;

    #[test]
    fn the_unanswered_are_named_where_quantiles_are_ranked() {
        let all = Requests { scheduled: 1_500, completed: 1_500, ..Requests::default() };
        assert_eq!(ranking(&all), "quantiles: nearest rank over 1,500 scheduled requests");
        let some = Requests { completed: 1_400, timed_out: 60, dropped: 40, ..all };
        assert!(ranking(&some).ends_with("1,500 scheduled requests; the 100 unanswered rank last"));
    }

    #[test]
    fn shapes_are_told_in_words() {
        let burst = Some(BurstSpec { rate_per_s: 900.0, length_ns: 200_000_000, every_ns: 1_000_000_000 });
        let open = |rate_to_per_s, burst| ModelSpec::Open {
            rate_per_s: 100.0,
            rate_to_per_s,
            burst,
            spacing: Spacing::Poisson,
        };
        let step = |connections, rate_per_s| StepSpec { connections, rate_per_s };
        let said = |change: &dyn Fn(&mut LoadSpec)| {
            let mut spec = LoadSpec { connections: 60, ..LoadSpec::default() };
            change(&mut spec);
            format!("{}, {}", model(&spec), connections(&spec))
        };
        assert_eq!(said(&|_| {}), "closed loop, 60 connections");
        assert_eq!(said(&|spec| spec.connections_from = Some(1)), "closed loop, 1 to 60 connections");
        assert_eq!(
            said(&|spec| {
                spec.model = ModelSpec::Closed { think: Some(ThinkSpec::Exp(5_000_000)) };
                spec.steps = vec![step(Some(1), None), step(Some(60), None)];
            }),
            "closed loop with exponential pauses of 5 ms, 1 to 60 connections in 2 steps"
        );
        assert_eq!(
            said(&|spec| {
                spec.model = open(Some(500.0), burst);
                spec.protocol = ProtocolSpec::Http2 { streams: 16 };
            }),
            "open loop, 100/s to 500/s Poisson, bursts of 900/s for 200 ms each 1 s, 60 connections of 16 streams"
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
