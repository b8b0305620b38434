//! What only some loads have: what was said, the protocol, steps, routes.

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use weir_engine::LoadSpec;
use weir_results::{LoadRecord, LoadResult, Protocol, RouteResult, TimesNs, new_histogram, quantile_ns};

use super::figures::{grouped, time};

/// What failures said beyond their causes, one a line.
pub(super) fn said(result: &LoadResult) -> Vec<(&'static str, String)> {
    let line = |(said, count): (&String, &u64)| ("", format!("{}: {said}", grouped(*count)));
    result.said.iter().map(line).collect()
}

/// HTTP/2 and TLS.
pub(super) fn protocol(result: &LoadResult) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(http2) = &result.http2 {
        let mut text = format!("{} streams a connection", grouped(u64::from(http2.streams)));
        if let Some(allowed) = http2.streams_allowed_min {
            text += &format!(", {} allowed", grouped(u64::from(allowed)));
        }
        for (name, count) in [
            ("goaways", http2.goaways),
            ("sent again", http2.sent_again),
            ("streams reset", http2.streams_reset),
        ] {
            if count > 0 {
                text += &format!(", {} {name}", grouped(count));
            }
        }
        lines.push(("HTTP/2", text));
    } else if result.protocol == Protocol::Http2 {
        lines.push(("HTTP/2", "none was spoken".to_owned()));
    }
    if let Some(tls) = &result.tls {
        let mut text = format!("{} handshakes", grouped(tls.handshakes));
        for (name, count) in [("resumed", tls.resumed), ("failed", tls.failed)] {
            if count > 0 {
                text += &format!(", {} {name}", grouped(count));
            }
        }
        if let (Some(p50), Some(p99)) = (tls.handshake_ns.p50, tls.handshake_ns.p99) {
            text += &format!(", p50 {}, p99 {}", time(p50 as f64), time(p99 as f64));
        }
        lines.push(("TLS", text));
        let negotiated = |(what, count): (&String, &u64)| ("", format!("{}: {what}", grouped(*count)));
        lines.extend(tls.negotiated.iter().map(negotiated));
    }
    lines
}

/// The steps, one a row; `None` where there are none.
pub(super) fn steps(spec: &LoadSpec, record: &LoadRecord) -> Option<String> {
    if record.steps.is_empty() {
        return None;
    }
    let has_rate = record.steps.iter().any(|step| step.rate_per_s.is_some());
    let mut header = vec!["  step", "connections"];
    if has_rate {
        header.push("rate");
    }
    header.extend(["throughput", "p50", "p90", "p99", "p99.9", "CPU/request", "errors"]);
    let rows = record.steps.iter().zip(1..).map(|(step, number): (_, usize)| {
        let result = &step.result;
        let beyond = format!("> {}", time(spec.timeout_ns as f64));
        let mut row = vec![format!("  {number}"), grouped(u64::from(step.connections))];
        if has_rate {
            row.push(step.rate_per_s.map_or("-".into(), |rate_per_s| format!("{rate_per_s}/s")));
        }
        row.push(format!("{}/s", grouped(result.rate_per_s.round() as u64)));
        row.extend(quantiles(&result.latency_ns, &beyond));
        row.push(match result.requests.completed {
            0 => "-".to_owned(),
            completed => format!("{:.2} µs", result.cpu_s.total() * 1e6 / completed as f64),
        });
        let requests = &result.requests;
        row.push(grouped(requests.unexpected + requests.failed + requests.timed_out + requests.dropped));
        row
    });
    Some(drawn(header, rows))
}

/// The routes, one a row; `None` where there is only one.
pub(super) fn routes(record: &LoadRecord) -> Option<String> {
    if record.routes.len() < 2 {
        return None;
    }
    let header = vec!["  route", "requests", "rate", "p50", "p90", "p99", "p99.9", "unexpected", "lost"];
    let duration_s = record.result.duration_s.max(1e-9);
    let rows = record.routes.iter().map(|route| {
        let requests = &route.requests;
        let mut row = vec![format!("  {}", route.name), grouped(requests.scheduled)];
        row.push(format!("{}/s", grouped((requests.completed as f64 / duration_s).round() as u64)));
        row.extend(route_quantiles(route));
        row.push(grouped(requests.unexpected));
        row.push(grouped(requests.failed + requests.timed_out + requests.dropped));
        row
    });
    Some(drawn(header, rows))
}

/// Quantiles over every class of a route's answers: distributions are added, quantiles never averaged.
fn route_quantiles(route: &RouteResult) -> Vec<String> {
    let mut all = new_histogram();
    for times in route.by_class.values() {
        // What cannot be read back is weir's own fault, and then there is nothing to show.
        let Ok(histogram) = times.latency.decode() else { continue };
        let _ = all.add(&histogram);
    }
    let unanswered = route.requests.unanswered();
    let at = |quantile| match (quantile_ns(&all, unanswered, quantile), all.is_empty()) {
        (Some(ns), _) => time(ns as f64),
        (None, true) => "-".to_owned(),
        (None, false) => "> timeout".to_owned(),
    };
    [0.5, 0.9, 0.99, 0.999].map(at).into()
}

fn quantiles(times: &TimesNs, beyond: &str) -> [String; 4] {
    let missing = if times.min.is_some() { beyond } else { "-" };
    [times.p50, times.p90, times.p99, times.p999]
        .map(|ns| ns.map_or_else(|| missing.to_owned(), |ns| time(ns as f64)))
}

fn drawn(header: Vec<&str>, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(header);
    rows.for_each(|row| {
        table.add_row(row);
    });
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}
