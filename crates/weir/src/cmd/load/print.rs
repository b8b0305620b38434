//! What `weir load` prints for people: a live line, and a table at the end.

use std::fmt::Write;
use std::io::Write as _;

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use weir_analysis::reason_name;
use weir_engine::{LoadSpec, ModelSpec, Progress, Spacing};
use weir_results::{
    Errors, HISTOGRAM_LOW_NS, Judgement, LoadRecord, LoadSecond, Reason, Requests, Thresholds, TimesNs,
    quantile_ns,
};

/// Where standard error is no terminal, a line is printed each so many seconds.
const PLAIN_EVERY_S: u64 = 10;

/// The line that lives while the load runs.
pub(super) struct Live {
    mode: Mode,
    warmup_s: f64,
    total_s: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// One line that is overwritten.
    Overwrite,
    /// A line now and then.
    Plain,
    /// Nothing.
    Silent,
}

impl Live {
    pub(super) fn new(spec: &LoadSpec, is_json: bool, is_terminal: bool) -> Self {
        let mode = match (is_json, is_terminal) {
            (true, _) => Mode::Silent,
            (false, true) => Mode::Overwrite,
            (false, false) => Mode::Plain,
        };
        let total_s = spec.duration_ns.map(|duration_ns| (spec.warmup_ns + duration_ns) as f64 / 1e9);
        Self { mode, warmup_s: spec.warmup_ns as f64 / 1e9, total_s }
    }

    /// Takes the line away.
    pub(super) fn clear(&self) {
        if self.mode == Mode::Overwrite {
            write_stderr("\r\x1b[K");
        }
    }

    fn line(&self, second: &LoadSecond) -> String {
        let at_s = second.t_s + second.length_s;
        let of = self.total_s.map_or(String::new(), |total_s| format!(" of {total_s:.0} s"));
        let phase = match second.sustained {
            true => "",
            false if second.t_s < self.warmup_s => "  warming up",
            false => "  draining",
        };
        let mut line = format!("{at_s:>5.0} s{of}{phase}  {}/s", grouped(per_s(second.completed, second)));
        if let Ok(histogram) = second.latency.decode() {
            let at = |quantile| quantile_ns(&histogram, 0, quantile).map_or("-".into(), |ns| time(ns as f64));
            // Writing to a string cannot fail.
            let _ = write!(line, "  p50 {}  p99 {}", at(0.5), at(0.99));
        }
        for (name, count) in [("unexpected", second.unexpected), ("lost", second.lost)] {
            if count > 0 {
                let _ = write!(line, "  {name} {}", grouped(count));
            }
        }
        line
    }
}

impl Progress for Live {
    fn second(&self, second: &LoadSecond) {
        match self.mode {
            Mode::Overwrite => write_stderr(&format!("\r\x1b[K{}", self.line(second))),
            Mode::Plain if ((second.t_s + second.length_s) as u64).is_multiple_of(PLAIN_EVERY_S) => {
                write_stderr(&format!("{}\n", self.line(second)));
            }
            Mode::Plain | Mode::Silent => {}
        }
    }
}

/// The result as a table.
pub(super) fn table(url: &str, spec: &LoadSpec, record: &LoadRecord, judgement: &Judgement) -> String {
    let result = &record.result;
    let requests = &result.requests;
    let mut out = format!(
        "{url}\n{}, {} connections, {} {}, {:.2} s, seed {}\n\n",
        model(spec),
        spec.connections,
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
        ModelSpec::Closed { .. } => "closed loop".into(),
        ModelSpec::Open { rate_per_s, spacing, .. } => {
            let spacing = match spacing {
                Spacing::Poisson => "Poisson",
                Spacing::Even => "evenly spaced",
            };
            format!("open loop, {rate_per_s}/s {spacing}")
        }
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

fn per_s(count: u64, second: &LoadSecond) -> u64 {
    if second.length_s > 0.0 { (count as f64 / second.length_s).round() as u64 } else { 0 }
}

/// A time with three digits and its unit.
fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    match value {
        value if value >= 100.0 || unit == "ns" || value.fract() == 0.0 => format!("{value:.0} {unit}"),
        value if value >= 10.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.2} {unit}"),
    }
}

fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        count if count >= 1024.0 * 1024.0 * 1024.0 => (count / (1024.0 * 1024.0 * 1024.0), "GiB"),
        count if count >= 1024.0 * 1024.0 => (count / (1024.0 * 1024.0), "MiB"),
        count if count >= 1024.0 => (count / 1024.0, "KiB"),
        count => (count, "B"),
    };
    format!("{value:.1} {unit}")
}

/// A count with commas between thousands.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn write_stderr(text: &str) {
    // Where standard error is closed, nobody looks at progress.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unanswered_are_named_where_quantiles_are_ranked() {
        let all = Requests { scheduled: 1_500, completed: 1_500, ..Requests::default() };
        assert_eq!(ranking(&all), "quantiles: nearest rank over 1,500 scheduled requests");
        let some = Requests { completed: 1_400, timed_out: 60, dropped: 40, ..all };
        assert!(ranking(&some).ends_with("1,500 scheduled requests; the 100 unanswered rank last"));
    }

    #[test]
    fn the_live_line_names_the_phase() {
        let live = Live { mode: Mode::Plain, warmup_s: 2.0, total_s: Some(10.0) };
        let line = |t_s: f64, sustained| {
            let latency = weir_results::Histogram::encode(&weir_results::new_histogram());
            let (sent, completed, unexpected, lost) = (5, 5, 0, 0);
            live.line(&LoadSecond {
                t_s,
                length_s: 1.0,
                sustained,
                sent,
                completed,
                unexpected,
                lost,
                latency,
            })
        };
        assert!(line(1.0, false).contains("warming up"));
        assert!(!line(3.0, true).contains("  draining"));
        // Ended early by Ctrl-C: what comes after is the drain.
        assert!(line(5.0, false).contains("draining"));
    }

    #[test]
    fn figures_are_short_and_carry_their_unit() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let times = [5.0, 1_500.0, 25_000.0, 123_456.0, 9.876e6, 10e9];
        assert_eq!(times.map(time), ["5 ns", "1.50 µs", "25 µs", "123 µs", "9.88 ms", "10 s"]);
        assert_eq!([12.0, 2_048.0, 3.5e6].map(bytes), ["12.0 B", "2.0 KiB", "3.3 MiB"]);
    }
}
