//! Parts of the output that only some loads have: HTTP/2 and TLS, steps, routes, agents.

use comfy_table::{CellAlignment, Table, presets::NOTHING};
use weir_analysis::quantity;
use weir_engine::LoadSpec;
use weir_results::{LoadRecord, LoadResult, Protocol, RouteResult, TimesNs, new_histogram, quantile_needs};

use super::figures::{counted, grouped, time};
use super::times::{NOTHING_THERE, QUANTILES, cells};

/// Lines about HTTP/2 and TLS.
pub(super) fn protocol(result: &LoadResult) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    if let Some(http2) = &result.http2 {
        let mut text = format!("{} per connection", counted(http2.streams.into(), "stream"));
        if let Some(allowed) = http2.streams_allowed_min {
            text += &format!(", {} allowed by the server", grouped(u64::from(allowed)));
        }
        if http2.goaways > 0 {
            text += &format!(", {} from the server", counted(http2.goaways, "GOAWAY"));
        }
        if http2.sent_again > 0 {
            text += &format!(", {} retried after GOAWAY", counted(http2.sent_again, "request"));
        }
        if http2.streams_reset > 0 {
            text += &format!(", {} reset", counted(http2.streams_reset, "stream"));
        }
        lines.push(("HTTP/2", text));
    } else if result.protocol == Protocol::Http2 {
        lines.push(("HTTP/2", "not negotiated on any connection".to_owned()));
    }
    if let Some(tls) = &result.tls {
        let mut text = counted(tls.handshakes, "handshake");
        for (name, count) in [("resumed", tls.resumed), ("failed", tls.failed)] {
            if count > 0 {
                text += &format!(", {} {name}", grouped(count));
            }
        }
        let times = [
            ("p50", tls.handshake_ns.p50.filter(|_| tls.handshakes >= quantile_needs(0.5))),
            ("p99", tls.handshake_ns.p99.filter(|_| tls.handshakes >= quantile_needs(0.99))),
            ("max", tls.handshake_ns.max),
        ];
        for (name, ns) in times {
            if let Some(ns) = ns {
                text += &format!(", {name} {}", time(ns as f64));
            }
        }
        lines.push(("TLS", text));
        let negotiated = |(what, count): (&String, &u64)| ("", format!("{}: {what}", grouped(*count)));
        lines.extend(tls.negotiated.iter().map(negotiated));
    }
    lines
}

/// The table of the steps; `None` if the load has none.
pub(super) fn steps(spec: &LoadSpec, record: &LoadRecord) -> Option<String> {
    if record.steps.is_empty() {
        return None;
    }
    let has_rate = record.steps.iter().any(|step| step.rate_per_s.is_some());
    let mut header = vec!["  step", "connections"];
    if has_rate {
        header.push("rate");
    }
    header.push("throughput");
    header.extend(QUANTILES.map(|(title, _)| title));
    header.extend(["generator CPU/request", "errors"]);
    let rows = record.steps.iter().zip(1..).map(|(step, number): (_, usize)| {
        let result = &step.result;
        let beyond = format!("> {}", time(spec.timeout_ns as f64));
        let mut row = vec![format!("  {number}"), grouped(u64::from(step.connections))];
        if has_rate {
            row.push(step.rate_per_s.map_or(NOTHING_THERE.into(), |rate_per_s| format!("{rate_per_s}/s")));
        }
        row.push(format!("{}/s", grouped(result.rate_per_s.round() as u64)));
        row.extend(cells(&result.latency_ns, result.requests.scheduled, &beyond));
        row.push(match result.requests.completed {
            0 => NOTHING_THERE.to_owned(),
            completed => format!("{:.2} µs", result.cpu_s.total() * 1e6 / completed as f64),
        });
        let requests = &result.requests;
        row.push(grouped(requests.unexpected + requests.failed + requests.timed_out + requests.dropped));
        row
    });
    Some(drawn(header, rows))
}

/// The table of the routes; `None` if there is only one.
pub(super) fn routes(record: &LoadRecord) -> Option<String> {
    if record.routes.len() < 2 {
        return None;
    }
    let mut header = vec!["  route", "requests", "completed"];
    header.extend(QUANTILES.map(|(title, _)| title));
    // `no response` counts requests that failed, timed out or were dropped.
    header.extend(["unexpected", "no response"]);
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

/// The table of the agents. It shows whether one agent differs from the others. `None` if there were no agents.
pub(super) fn shards(record: &LoadRecord) -> Option<String> {
    let mut header = vec!["  agent", "start", "sent", "throughput"];
    header.extend(QUANTILES.map(|(title, _)| title));
    let rows = record.shards.iter().map(|shard| {
        let mut row = vec![
            format!("  {}", shard.agent),
            quantity::time_ns(shard.start_offset_ns as f64),
            grouped(shard.requests.sent),
            format!("{}/s", grouped(shard.rate_per_s.round() as u64)),
        ];
        row.extend(cells(&shard.latency_ns, shard.requests.scheduled, "> timeout"));
        row
    });
    (!record.shards.is_empty()).then(|| drawn(header, rows))
}

/// The quantiles of a route for all status classes together. The histograms are added, because quantiles cannot be
/// averaged.
fn route_quantiles(route: &RouteResult) -> Vec<String> {
    let mut all = new_histogram();
    for times in route.by_class.values() {
        // A histogram that cannot be read is a bug in weir. It is left out.
        let Ok(histogram) = times.latency.decode() else { continue };
        let _ = all.add(&histogram);
    }
    let unanswered = route.requests.unanswered();
    cells(&TimesNs::of(&all, unanswered), route.requests.scheduled, "> timeout")
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

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use weir_results::{Histogram, Http2Result, Requests, RouteTimes, TlsResult};

    use super::*;

    pub(in super::super) fn result() -> LoadResult {
        let json = serde_json::json!({
            "schema_version": 1, "model": "closed", "duration_s": 2.0, "requests": Requests::default(),
            "rate_per_s": 10.0, "latency_ns": TimesNs::default(), "service_time_ns": TimesNs::default(),
            "lateness_ns": null, "bytes": { "sent": 1, "received": 1 }, "status": {},
            "errors": weir_results::Errors::default(), "cpu_s": { "user": 0.0, "system": 0.0 },
            "bound_by": "concurrency", "verdicts": weir_results::Verdicts::default(),
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn protocols_are_printed_with_their_errors() {
        assert_eq!(protocol(&result()), []);
        let http2 =
            Http2Result { streams: 16, streams_allowed_min: Some(4), goaways: 2, ..Http2Result::default() };
        let negotiated = BTreeMap::from([("TLS 1.3 X h2".to_owned(), 2)]);
        let handshake_ns = TimesNs {
            p50: Some(1_500_000),
            p99: Some(2_000_000),
            max: Some(3_000_000),
            ..TimesNs::default()
        };
        let tls = TlsResult { handshakes: 2, resumed: 1, failed: 0, handshake_ns, negotiated };
        let lines = protocol(&LoadResult { http2: Some(http2), tls: Some(tls), ..result() });
        let lines: Vec<String> = lines.iter().map(|(name, text)| format!("{name}|{text}")).collect();
        assert_eq!(
            lines,
            [
                "HTTP/2|16 streams per connection, 4 allowed by the server, 2 GOAWAYs from the server",
                "TLS|2 handshakes, 1 resumed, max 3 ms",
                "|2: TLS 1.3 X h2",
            ]
        );
    }

    #[test]
    fn route_quantiles_cover_all_responses_and_unanswered_requests_rank_last() {
        let times = |ns: u64| {
            let mut histogram = new_histogram();
            histogram.record_n(ns, 450).unwrap();
            RouteTimes { latency_ns: TimesNs::default(), latency: Histogram::encode(&histogram) }
        };
        let route = RouteResult {
            name: "GET /".into(),
            requests: Requests { scheduled: 1_000, completed: 900, timed_out: 100, ..Requests::default() },
            by_class: BTreeMap::from([("2xx".into(), times(1_000_000)), ("5xx".into(), times(100_000_000))]),
        };
        assert_eq!(route_quantiles(&route), ["100 ms", "100 ms", "> timeout", "> timeout", "–"]);
        let half =
            RouteResult { requests: Requests { scheduled: 900, completed: 900, ..route.requests }, ..route };
        assert_eq!(route_quantiles(&half)[0], "1.00 ms");
    }
}
