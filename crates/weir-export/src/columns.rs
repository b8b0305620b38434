//! The columns of the table, in their order; `docs/export.md` describes each.

mod part;

use weir_analysis::{bound_name, reason_name};
use weir_results::{
    ArrivalModel, Bounds, CellOutcome, Errors, GeneratorEvidence, LoadResult, Protocol, Reason, Requests,
    TimesNs, Verdicts,
};

use crate::entry::{Entry, Set, sum};
use crate::table::{Kind, Value};

/// A column: its name, its kind, and its value in a row.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) value: Box<dyn Fn(&Entry<'_>) -> Value>,
}

/// A name, and what it names in a `T`.
type Named<T, V> = (&'static str, fn(&T) -> V);

impl Column {
    pub(crate) fn integer(name: impl Into<String>, of: impl Fn(&Entry<'_>) -> Option<u64> + 'static) -> Self {
        Self { name: name.into(), kind: Kind::Integer, value: Box::new(move |entry| of(entry).into()) }
    }

    pub(crate) fn float(name: impl Into<String>, of: impl Fn(&Entry<'_>) -> Option<f64> + 'static) -> Self {
        Self { name: name.into(), kind: Kind::Float, value: Box::new(move |entry| of(entry).into()) }
    }

    pub(crate) fn text(name: impl Into<String>, of: impl Fn(&Entry<'_>) -> Option<String> + 'static) -> Self {
        Self { name: name.into(), kind: Kind::Text, value: Box::new(move |entry| of(entry).into()) }
    }
}

/// Every column but those of the axes, which stand behind `repeat`.
pub(crate) fn columns() -> Vec<Column> {
    let mut columns = identity();
    columns.extend(load());
    columns.extend(books("requests", |entry| entry.requests().copied()));
    columns.push(Column::float("error_share", |entry| entry.requests()?.error_share()));
    columns.push(of_result("rate_per_s", |result| result.rate_per_s));
    columns.extend(times("latency_ns", |entry| entry.latency()));
    columns.extend(times("service_time_ns", |entry| Some(entry.result()?.service_time_ns)));
    columns.extend(times("lateness_ns", |entry| entry.result()?.lateness_ns));
    columns.extend(answers());
    columns.extend(verdicts());
    columns.extend(bounds());
    columns.push(Column::float("cpu_us_per_request", |entry| entry.whole()?.cpu_us_per_request));
    columns.extend(part::columns());
    columns.extend(host());
    columns.extend(books("whole", |entry| Some(entry.whole()?.record.whole)));
    columns.push(Column::integer("whole_uncertain", |entry| Some(entry.whole()?.record.whole_uncertain)));
    columns.extend(counters());
    columns.extend(generator());
    columns
}

/// Which row it is.
fn identity() -> Vec<Column> {
    vec![
        Column::text("run", |entry| Some(entry.run.id.clone())),
        Column::text("scenario", |entry| Some(entry.run.name.clone())),
        Column::integer("cell", |entry| Some(entry.cell.key.index.into())),
        Column::text("gateway", |entry| Some(entry.cell.key.gateway.clone())),
        Column::integer("repeat", |entry| Some(entry.cell.key.repeat.into())),
        Column::integer("started_unix_ms", |entry| Some(entry.cell.started_unix_ms)),
        Column::integer("ended_unix_ms", |entry| Some(entry.cell.ended_unix_ms)),
        Column::text("outcome", |entry| {
            Some(if failure(entry).is_some() { "failed" } else { "measured" }.into())
        }),
        Column::text("failure_cause", |entry| Some(failure(entry)?[0].clone())),
        Column::text("failure_message", |entry| Some(failure(entry)?[1].clone())),
        Column::text("failure_remedy", |entry| Some(failure(entry)?[2].clone())),
    ]
}

/// Cause, message and remedy of a cell that failed.
fn failure<'a>(entry: &Entry<'a>) -> Option<[&'a String; 3]> {
    match &entry.cell.outcome {
        CellOutcome::Failed { cause, message, remedy, .. } => Some([cause, message, remedy]),
        CellOutcome::Measured { .. } => None,
    }
}

/// Which load, and what of it.
fn load() -> Vec<Column> {
    vec![
        Column::text("load", |entry| Some(entry.measurement()?.load.clone())),
        Column::integer("trial", |entry| Some(entry.measurement()?.trial.as_ref()?.number.into())),
        Column::text("set", |entry| {
            let set = match entry.set()? {
                Set::Load => "load",
                Set::Step(..) => "step",
                Set::Route(_) => "route",
            };
            Some(set.into())
        }),
        Column::integer("step", |entry| match entry.set()? {
            Set::Step(index, _) => Some(index as u64),
            _ => None,
        }),
        Column::text("route", |entry| match entry.set()? {
            Set::Route(route) => Some(route.name.clone()),
            _ => None,
        }),
        Column::text("model", |entry| {
            let model = match entry.measurement()?.record.result.model {
                ArrivalModel::Closed => "closed",
                ArrivalModel::Open => "open",
            };
            Some(model.into())
        }),
        Column::text("protocol", |entry| {
            let protocol = match entry.measurement()?.record.result.protocol {
                Protocol::Http1 => "HTTP/1.1",
                Protocol::Http2 => "HTTP/2",
            };
            Some(protocol.into())
        }),
        Column::integer("connections", |entry| match entry.set()? {
            Set::Load => Some(entry.measurement()?.connections.into()),
            Set::Step(_, step) => Some(step.connections.into()),
            Set::Route(_) => None,
        }),
        Column::float("asked_rate_per_s", |entry| match entry.set()? {
            Set::Load => entry.measurement()?.rate_per_s,
            Set::Step(_, step) => step.rate_per_s,
            Set::Route(_) => None,
        }),
        of_result("duration_s", |result| result.duration_s),
    ]
}

/// A column of figures that loads and steps have.
fn of_result(name: &str, of: fn(&LoadResult) -> f64) -> Column {
    Column::float(name, move |entry| entry.result().map(of))
}

/// A column for each line of the books.
fn books(prefix: &str, requests: fn(&Entry<'_>) -> Option<Requests>) -> Vec<Column> {
    const LINES: [Named<Requests, u64>; 8] = [
        ("scheduled", |books| books.scheduled),
        ("sent", |books| books.sent),
        ("completed", |books| books.completed),
        ("unexpected", |books| books.unexpected),
        ("failed", |books| books.failed),
        ("timed_out", |books| books.timed_out),
        ("dropped", |books| books.dropped),
        ("in_flight", |books| books.in_flight),
    ];
    let column = |(name, of): Named<Requests, u64>| {
        Column::integer(format!("{prefix}_{name}"), move |entry| requests(entry).as_ref().map(of))
    };
    LINES.into_iter().map(column).collect()
}

/// A column for each quantile, and the moments.
fn times(prefix: &str, times: fn(&Entry<'_>) -> Option<TimesNs>) -> Vec<Column> {
    const QUANTILES: [Named<TimesNs, Option<u64>>; 12] = [
        ("min", |times| times.min),
        ("p50", |times| times.p50),
        ("p66", |times| times.p66),
        ("p75", |times| times.p75),
        ("p80", |times| times.p80),
        ("p90", |times| times.p90),
        ("p95", |times| times.p95),
        ("p98", |times| times.p98),
        ("p99", |times| times.p99),
        ("p999", |times| times.p999),
        ("p9999", |times| times.p9999),
        ("max", |times| times.max),
    ];
    let moments = [
        Column::float(format!("{prefix}_mean"), move |entry| times(entry)?.mean),
        Column::float(format!("{prefix}_stddev"), move |entry| times(entry)?.stddev),
    ];
    let quantile = |(name, of): Named<TimesNs, Option<u64>>| {
        Column::integer(format!("{prefix}_{name}"), move |entry| times(entry).as_ref().and_then(of))
    };
    moments.into_iter().chain(QUANTILES.into_iter().map(quantile)).collect()
}

/// Bytes, statuses, errors, TLS and HTTP/2.
fn answers() -> Vec<Column> {
    let mut columns = vec![
        Column::integer("bytes_sent", |entry| Some(entry.result()?.bytes.sent)),
        Column::integer("bytes_received", |entry| Some(entry.result()?.bytes.received)),
    ];
    columns.extend((1..=5).map(|class| {
        Column::integer(format!("status_{class}xx"), move |entry| Some(responses(entry.result()?, class)))
    }));
    columns.extend(Errors::default().by_cause().into_iter().enumerate().map(|(at, (name, _))| {
        Column::integer(format!("errors_{name}"), move |entry| Some(entry.result()?.errors.by_cause()[at].1))
    }));
    columns.extend([
        Column::integer("tls_handshakes", |entry| Some(entry.result()?.tls.as_ref()?.handshakes)),
        Column::integer("tls_resumed", |entry| Some(entry.result()?.tls.as_ref()?.resumed)),
        Column::integer("tls_failed", |entry| Some(entry.result()?.tls.as_ref()?.failed)),
        Column::integer("tls_handshake_ns_p50", |entry| entry.result()?.tls.as_ref()?.handshake_ns.p50),
        Column::integer("tls_handshake_ns_p99", |entry| entry.result()?.tls.as_ref()?.handshake_ns.p99),
        Column::integer("http2_goaways", |entry| Some(entry.result()?.http2?.goaways)),
        Column::integer("http2_sent_again", |entry| Some(entry.result()?.http2?.sent_again)),
        Column::integer("http2_streams_reset", |entry| Some(entry.result()?.http2?.streams_reset)),
    ]);
    columns
}

/// Completed responses whose status begins with that digit.
fn responses(result: &LoadResult, class: u8) -> u64 {
    let of_class = |status: &str| status.len() == 3 && status.as_bytes().first() == Some(&(b'0' + class));
    sum(result.status.iter().filter(|(status, _)| of_class(status)).map(|(_, count)| *count))
}

/// Values whose bounds have columns: the column, and the name of the value among the bounds.
const BOUNDED: [(&str, &str); 5] = [
    ("rate_per_s", "throughput"),
    ("cpu_us_per_request", "cpu"),
    ("latency_ns_p50", "p50"),
    ("latency_ns_p99", "p99"),
    ("latency_ns_p999", "p999"),
];

/// Both sides of the values that a disturbance can have moved; empty where a side is unknown, or the value exact.
fn bounds() -> Vec<Column> {
    let sides: [Named<Bounds, Option<f64>>; 2] = [("low", |of| of.low), ("high", |of| of.high)];
    let column = |(column, name): (&str, &'static str), (side, of): Named<Bounds, Option<f64>>| {
        Column::float(format!("{column}_{side}"), move |entry| {
            of(entry.whole()?.judgement.bounds.as_ref()?.get(name)?)
        })
    };
    BOUNDED.into_iter().flat_map(|of| sides.map(|side| column(of, side))).collect()
}

/// What bounds the load and which of its figures count; the same in the rows of its steps and routes.
fn verdicts() -> Vec<Column> {
    const METRICS: [Named<Verdicts, Vec<Reason>>; 3] = [
        ("verdict_throughput", |verdicts| verdicts.throughput.clone()),
        ("verdict_latency", |verdicts| verdicts.latency.clone()),
        ("verdict_cpu", |verdicts| verdicts.cpu.clone()),
    ];
    let verdict = |(name, of): Named<Verdicts, Vec<Reason>>| {
        Column::text(name, move |entry| {
            let reasons = of(&entry.measurement()?.judgement.verdicts);
            let names: Vec<&str> = reasons.iter().map(|reason| reason_name(*reason)).collect();
            Some(if names.is_empty() { "valid".into() } else { names.join(";") })
        })
    };
    let mut columns = vec![Column::text("bound_by", |entry| {
        Some(bound_name(entry.measurement()?.judgement.bound_by).into())
    })];
    columns.extend(METRICS.into_iter().map(verdict));
    columns.push(Column::text("evidence", |entry| {
        let sentences = &entry.whole()?.judgement.evidence;
        (!sentences.is_empty()).then(|| sentences.join(" | "))
    }));
    columns
}

fn host() -> Vec<Column> {
    vec![
        Column::float("host_steal_share", |entry| Some(entry.whole()?.host.steal)),
        Column::float("host_others_share", |entry| Some(entry.whole()?.host.others)),
        Column::float("host_idle_share", |entry| Some(entry.whole()?.host.idle)),
        Column::float("host_busiest_core_share", |entry| {
            let shares = &entry.whole()?.host_usage.as_ref()?.core_busy_shares;
            shares.iter().copied().reduce(f64::max)
        }),
        Column::integer("host_retransmitted_segments", |entry| {
            entry.whole()?.host_usage.as_ref()?.retransmitted_segments
        }),
    ]
}

/// Requests as each side counted them.
fn counters() -> Vec<Column> {
    vec![
        Column::integer("counted_generator_sent", |entry| Some(entry.whole()?.counters.generator_sent)),
        Column::integer("counted_generator_uncertain", |entry| {
            Some(entry.whole()?.counters.generator_uncertain)
        }),
        Column::integer("counted_gateway", |entry| entry.whole()?.counters.gateway_requests),
        Column::integer("counted_origin", |entry| entry.whole()?.counters.origin_requests),
        Column::integer("origin_delay_ns_mean", |entry| entry.whole()?.counters.origin_delay_ns_mean),
    ]
}

/// What the generator knows about itself.
fn generator() -> Vec<Column> {
    let evidence = |of: fn(&GeneratorEvidence) -> u64| {
        move |entry: &Entry<'_>| Some(of(&entry.whole()?.record.generator))
    };
    vec![
        Column::integer("generator_workers", evidence(|evidence| evidence.workers.into())),
        Column::integer("generator_connections_opened", evidence(|evidence| evidence.connections_opened)),
        Column::integer(
            "generator_unsent_with_free_connection",
            evidence(|evidence| evidence.unsent_with_free_connection),
        ),
        Column::float("generator_in_flight_mean", |entry| entry.whole()?.record.generator.in_flight_mean),
        Column::integer("generator_connection_wait_ns_p50", |entry| {
            entry.whole()?.record.generator.connection_wait_ns?.p50
        }),
        Column::integer("generator_connection_wait_ns_p99", |entry| {
            entry.whole()?.record.generator.connection_wait_ns?.p99
        }),
    ]
}
