//! The columns of the table, in order. Each has a description for the reference.

mod part;

use weir_analysis::{bound_name, reason_name};
use weir_results::{
    ArrivalModel, Bounds, CellOutcome, Errors, GeneratorEvidence, LoadResult, Protocol, Reason, Requests,
    TimesNs, Verdicts,
};

use crate::entry::{Entry, Set, sum};
use crate::table::{Kind, Value};

/// A column of the table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    /// The meaning of the values in one sentence, for the reference.
    pub(crate) meaning: String,
    /// Returns the value of the column for the row of an entry.
    pub(crate) value: Box<dyn Fn(&Entry<'_>) -> Value>,
}

/// The name of a value, and a function that returns this value of a `T`.
type Named<T, V> = (&'static str, fn(&T) -> V);

impl Column {
    pub(crate) fn integer(
        name: impl Into<String>,
        meaning: impl Into<String>,
        of: impl Fn(&Entry<'_>) -> Option<u64> + 'static,
    ) -> Self {
        Self::new(name.into(), Kind::Integer, meaning.into(), move |entry| of(entry).into())
    }

    pub(crate) fn float(
        name: impl Into<String>,
        meaning: impl Into<String>,
        of: impl Fn(&Entry<'_>) -> Option<f64> + 'static,
    ) -> Self {
        Self::new(name.into(), Kind::Float, meaning.into(), move |entry| of(entry).into())
    }

    pub(crate) fn text(
        name: impl Into<String>,
        meaning: impl Into<String>,
        of: impl Fn(&Entry<'_>) -> Option<String> + 'static,
    ) -> Self {
        Self::new(name.into(), Kind::Text, meaning.into(), move |entry| of(entry).into())
    }

    fn new(name: String, kind: Kind, meaning: String, value: impl Fn(&Entry<'_>) -> Value + 'static) -> Self {
        Self { name, kind, meaning, value: Box::new(value) }
    }
}

/// All columns except those of the axes, which are inserted after `repeat`.
pub(crate) fn columns() -> Vec<Column> {
    let mut columns = identity();
    columns.extend(load());
    columns.extend(books("requests", "sustained phase", |entry| entry.requests().copied()));
    columns.push(Column::float(
        "error_share",
        "(unexpected + failed + timed_out + dropped) / scheduled.",
        |entry| entry.requests()?.error_share(),
    ));
    columns.push(of_result(
        "rate_per_s",
        "Complete responses within the sustained phase, per second; missing for routes.",
        |result| result.rate_per_s,
    ));
    columns.extend(times("latency_ns", "latency", |entry| entry.latency()));
    columns.extend(times("service_time_ns", "service time", |entry| Some(entry.result()?.service_time_ns)));
    columns.extend(times("lateness_ns", "lateness", |entry| entry.result()?.lateness_ns));
    columns.extend(answers());
    columns.extend(verdicts());
    columns.extend(bounds());
    columns.push(Column::float(
        "cpu_us_per_request",
        "CPU time of the data plane per completed request, microseconds; missing for `direct`.",
        |entry| entry.whole()?.cpu_us_per_request,
    ));
    columns.extend(part::columns());
    columns.extend(host());
    columns.extend(books("whole", "whole load, with warm-up and drain", |entry| {
        Some(entry.whole()?.record.whole)
    }));
    columns.push(Column::integer(
        "whole_uncertain",
        "Requests of the whole load that were sent, but perhaps did not arrive: their connection broke, or they \
        timed out.",
        |entry| Some(entry.whole()?.record.whole_uncertain),
    ));
    columns.extend(counters());
    columns.extend(generator());
    columns
}

/// The columns that identify the row, except those of the load.
fn identity() -> Vec<Column> {
    vec![
        Column::text("run", "ID of the run.", |entry| Some(entry.run.id.clone())),
        Column::text("scenario", "Name of the scenario.", |entry| Some(entry.run.name.clone())),
        Column::integer(
            "cell",
            "Index of the cell in the plan, from 0; `--cell` and the report count from 1.",
            |entry| Some(entry.cell.key.index.into()),
        ),
        Column::text(
            "gateway",
            "Name of the gateway in the scenario, `direct` (baseline without a gateway) or `control` (positive control).",
            |entry| Some(entry.cell.key.gateway.clone()),
        ),
        Column::integer("repeat", "Repeat, from 0.", |entry| Some(entry.cell.key.repeat.into())),
        Column::integer("started_unix_ms", "Start of the cell, milliseconds since 1970.", |entry| {
            Some(entry.cell.started_unix_ms)
        }),
        Column::integer("ended_unix_ms", "End of the cell, milliseconds since 1970.", |entry| {
            Some(entry.cell.ended_unix_ms)
        }),
        Column::text("outcome", "`measured` or `failed`.", |entry| {
            Some(if failure(entry).is_some() { "failed" } else { "measured" }.into())
        }),
        Column::text("failure_cause", "Why the cell failed, as a word.", |entry| {
            Some(failure(entry)?[0].clone())
        }),
        Column::text("failure_message", "Why the cell failed, as a sentence.", |entry| {
            Some(failure(entry)?[1].clone())
        }),
        Column::text("failure_remedy", "What to do about the failure.", |entry| {
            Some(failure(entry)?[2].clone())
        }),
    ]
}

/// Cause, message and remedy of a failed cell; `None` for a measured one.
fn failure<'a>(entry: &Entry<'a>) -> Option<[&'a String; 3]> {
    match &entry.cell.outcome {
        CellOutcome::Failed { cause, message, remedy, .. } => Some([cause, message, remedy]),
        CellOutcome::Measured { .. } => None,
    }
}

/// The columns that identify the load, and the step or route within it.
fn load() -> Vec<Column> {
    vec![
        Column::text("load", "Name of the load in the scenario.", |entry| {
            Some(entry.measurement()?.load.clone())
        }),
        Column::integer(
            "trial",
            "Number of the trial, from 1, if the load is a search for the capacity.",
            |entry| Some(entry.measurement()?.trial.as_ref()?.number.into()),
        ),
        Column::text(
            "set",
            "What the row is about: `load`, `step` or `route`; missing for a failed cell.",
            |entry| {
                let set = match entry.set()? {
                    Set::Load => "load",
                    Set::Step(..) => "step",
                    Set::Route(_) => "route",
                };
                Some(set.into())
            },
        ),
        Column::integer("step", "Step of the load, from 0.", |entry| match entry.set()? {
            Set::Step(index, _) => Some(index as u64),
            _ => None,
        }),
        Column::text("route", "Route of the load.", |entry| match entry.set()? {
            Set::Route(route) => Some(route.name.clone()),
            _ => None,
        }),
        Column::text("model", "`closed` or `open` loop.", |entry| {
            let model = match entry.measurement()?.record.result.model {
                ArrivalModel::Closed => "closed",
                ArrivalModel::Open => "open",
            };
            Some(model.into())
        }),
        Column::text("protocol", "`HTTP/1.1` or `HTTP/2`.", |entry| {
            let protocol = match entry.measurement()?.record.result.protocol {
                Protocol::Http1 => "HTTP/1.1",
                Protocol::Http2 => "HTTP/2",
            };
            Some(protocol.into())
        }),
        Column::integer("connections", "Connections of the load or step.", |entry| match entry.set()? {
            Set::Load => Some(entry.measurement()?.connections.into()),
            Set::Step(_, step) => Some(step.connections.into()),
            Set::Route(_) => None,
        }),
        Column::float(
            "asked_rate_per_s",
            "Arrival rate that the scenario sets, requests per second; missing in closed loop.",
            |entry| match entry.set()? {
                Set::Load => entry.measurement()?.rate_per_s,
                Set::Step(_, step) => step.rate_per_s,
                Set::Route(_) => None,
            },
        ),
        of_result("duration_s", "Length of the sustained phase, seconds.", |result| result.duration_s),
    ]
}

/// A column that has values only in rows of loads and steps.
fn of_result(name: &str, meaning: &str, of: fn(&LoadResult) -> f64) -> Column {
    Column::float(name, meaning, move |entry| entry.result().map(of))
}

/// Returns one of the request counts.
type CountOf = fn(&Requests) -> u64;

/// Returns one column for each count of requests, such as `sent`. `phase` names the phase in the columns' descriptions.
fn books(prefix: &str, phase: &str, requests: fn(&Entry<'_>) -> Option<Requests>) -> Vec<Column> {
    const LINES: [(&str, &str, CountOf); 8] = [
        ("scheduled", "Requests due: completed + failed + timed_out + dropped + in_flight", |books| {
            books.scheduled
        }),
        ("sent", "Requests sent", |books| books.sent),
        ("completed", "Complete responses, with any status", |books| books.completed),
        ("unexpected", "Complete responses with status 400 or above, or with a failed check", |books| {
            books.unexpected
        }),
        (
            "failed",
            "Requests without a complete response: the connection broke, or the response was malformed",
            |books| books.failed,
        ),
        ("timed_out", "Requests that were sent, but got no complete response before the timeout", |books| {
            books.timed_out
        }),
        ("dropped", "Requests that could not be sent before the timeout", |books| books.dropped),
        ("in_flight", "Requests that still waited for a response when the drain ended", |books| {
            books.in_flight
        }),
    ];
    let column = |(name, meaning, of): (&str, &str, fn(&Requests) -> u64)| {
        let meaning = format!("{meaning}; {phase}.");
        Column::integer(format!("{prefix}_{name}"), meaning, move |entry| requests(entry).as_ref().map(of))
    };
    LINES.into_iter().map(column).collect()
}

/// Columns for the mean, the standard deviation and each quantile of `what`.
fn times(prefix: &str, what: &str, times: fn(&Entry<'_>) -> Option<TimesNs>) -> Vec<Column> {
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
        Column::float(format!("{prefix}_mean"), format!("Mean {what}, nanoseconds."), move |entry| {
            times(entry)?.mean
        }),
        Column::float(
            format!("{prefix}_stddev"),
            format!("Standard deviation of the {what}, nanoseconds."),
            move |entry| times(entry)?.stddev,
        ),
    ];
    let quantile = |(name, of): Named<TimesNs, Option<u64>>| {
        let meaning = format!("{} {what}, nanoseconds.", quantile_in_words(name));
        Column::integer(format!("{prefix}_{name}"), meaning, move |entry| times(entry).as_ref().and_then(of))
    };
    moments.into_iter().chain(QUANTILES.into_iter().map(quantile)).collect()
}

/// The text for a quantile: `99.9th percentile of the` for `p999`.
fn quantile_in_words(name: &str) -> String {
    match (name, name.trim_start_matches('p').split_at_checked(2)) {
        ("min", _) => "Minimum".to_owned(),
        ("max", _) => "Maximum".to_owned(),
        ("p50", _) => "Median".to_owned(),
        (_, Some((whole, ""))) => format!("{whole}th percentile of the"),
        (_, Some((whole, tenths))) => format!("{whole}.{tenths}th percentile of the"),
        (name, None) => name.to_owned(),
    }
}

/// Columns for bytes, statuses, errors, TLS and HTTP/2.
fn answers() -> Vec<Column> {
    let mut columns = vec![
        Column::integer(
            "bytes_sent",
            "Bytes sent in the sustained phase; with TLS, the plaintext.",
            |entry| Some(entry.result()?.bytes.sent),
        ),
        Column::integer(
            "bytes_received",
            "Bytes received in the sustained phase; with TLS, the plaintext.",
            |entry| Some(entry.result()?.bytes.received),
        ),
    ];
    columns.extend((1..=5).map(|class| {
        let meaning = format!("Completed responses with status {class}00 to {class}99.");
        Column::integer(format!("status_{class}xx"), meaning, move |entry| {
            Some(responses(entry.result()?, class))
        })
    }));
    columns.extend(Errors::default().by_cause().into_iter().enumerate().map(|(at, (name, _))| {
        let meaning = format!("Failed requests and failed connections with the cause `{name}`.");
        Column::integer(format!("errors_{name}"), meaning, move |entry| {
            Some(entry.result()?.errors.by_cause()[at].1)
        })
    }));
    columns.extend([
        Column::integer("tls_handshakes", "TLS handshakes of the whole load; missing without TLS.", |entry| Some(entry.result()?.tls.as_ref()?.handshakes)),
        Column::integer("tls_resumed", "TLS handshakes of the whole load that resumed a session.", |entry| Some(entry.result()?.tls.as_ref()?.resumed)),
        Column::integer("tls_failed", "Failed TLS handshakes of the whole load.", |entry| Some(entry.result()?.tls.as_ref()?.failed)),
        Column::integer("tls_handshake_ns_p50", "Median time from the established TCP connection to the finished \
        handshake, nanoseconds. It covers connections opened under load; if there are none, connections opened \
        before the load.", |entry| entry.result()?.tls.as_ref()?.handshake_ns.p50),
        Column::integer("tls_handshake_ns_p99", "99th percentile of the same time as in `tls_handshake_ns_p50`, nanoseconds.", |entry| entry.result()?.tls.as_ref()?.handshake_ns.p99),
        Column::integer("http2_goaways", "GOAWAY frames received in the whole load; missing over HTTP/1.1.", |entry| Some(entry.result()?.http2?.goaways)),
        Column::integer("http2_sent_again", "Requests of the whole load that the generator retried because a GOAWAY left them unprocessed; missing over HTTP/1.1.", |entry| Some(entry.result()?.http2?.sent_again)),
        Column::integer("http2_streams_reset", "Streams that the peer reset or refused in the whole load; missing over HTTP/1.1.", |entry| Some(entry.result()?.http2?.streams_reset)),
    ]);
    columns
}

/// Number of completed responses in a status class.
fn responses(result: &LoadResult, class: u8) -> u64 {
    let of_class = |status: &str| status.len() == 3 && status.as_bytes().first() == Some(&(b'0' + class));
    sum(result.status.iter().filter(|(status, _)| of_class(status)).map(|(_, count)| *count))
}

/// The values that have columns for their bounds. Each entry is a pair: the name of the value's column, and the value's
/// key in [`weir_results::Judgement::bounds`].
const BOUNDED: [(&str, &str); 5] = [
    ("rate_per_s", "throughput"),
    ("cpu_us_per_request", "cpu"),
    ("latency_ns_p50", "p50"),
    ("latency_ns_p99", "p99"),
    ("latency_ns_p999", "p999"),
];

/// Columns for the bounds of values that interference may have changed. They are empty if the bound is unknown, or if
/// nothing interfered.
fn bounds() -> Vec<Column> {
    let sides: [Named<Bounds, Option<f64>>; 2] = [("Lower", |of| of.low), ("Upper", |of| of.high)];
    let column = |(column, name): (&str, &'static str), (side, of): Named<Bounds, Option<f64>>| {
        let meaning = format!(
            "{side} bound of `{column}`; missing if it is unknown, or if interference did not change the value."
        );
        let column = format!("{column}_{}", if side == "Lower" { "low" } else { "high" });
        Column::float(column, meaning, move |entry| {
            of(entry.whole()?.judgement.bounds.as_ref()?.get(name)?)
        })
    };
    BOUNDED.into_iter().flat_map(|of| sides.map(|side| column(of, side))).collect()
}

/// Columns for the bottleneck and the verdicts of a load. The rows of the load's steps and routes have the same values,
/// but no `evidence`.
fn verdicts() -> Vec<Column> {
    const METRICS: [Named<Verdicts, Vec<Reason>>; 3] = [
        ("verdict_throughput", |verdicts| verdicts.throughput.clone()),
        ("verdict_latency", |verdicts| verdicts.latency.clone()),
        ("verdict_cpu", |verdicts| verdicts.cpu.clone()),
    ];
    let verdict = |(name, of): Named<Verdicts, Vec<Reason>>| {
        let meaning =
            "`valid`, or the reasons why some or all values of the metric are not valid, joined by `;`.";
        Column::text(name, meaning, move |entry| {
            let reasons = of(&entry.measurement()?.judgement.verdicts);
            let names: Vec<&str> = reasons.iter().map(|reason| reason_name(*reason)).collect();
            Some(if names.is_empty() { "valid".into() } else { names.join(";") })
        })
    };
    let mut columns = vec![Column::text(
        "bound_by",
        "What limits the load: `gateway`, `upstream`, `generator`, `host`, `concurrency` or `rate`.",
        |entry| Some(bound_name(entry.measurement()?.judgement.bound_by).into()),
    )];
    columns.extend(METRICS.into_iter().map(verdict));
    columns.push(Column::text(
        "evidence",
        "A sentence for `bound_by` and for each reason, joined by ` | `.",
        |entry| {
            let sentences = &entry.whole()?.judgement.evidence;
            (!sentences.is_empty()).then(|| sentences.join(" | "))
        },
    ));
    columns
}

fn host() -> Vec<Column> {
    vec![
        Column::float(
            "host_steal_share",
            "Share of the host's CPU time that the hypervisor stole.",
            |entry| Some(entry.whole()?.host.steal),
        ),
        Column::float(
            "host_others_share",
            "Share of the host's CPU time that processes outside of the rig used.",
            |entry| Some(entry.whole()?.host.others),
        ),
        Column::float("host_idle_share", "Share of the host's CPU time that was idle.", |entry| {
            Some(entry.whole()?.host.idle)
        }),
        Column::float(
            "host_busiest_core_share",
            "Share of the time in which the busiest core was neither idle nor stolen; the JSON contains the share of \
            each core.",
            |entry| {
                let shares = &entry.whole()?.host_usage.as_ref()?.core_busy_shares;
                shares.iter().copied().reduce(f64::max)
            },
        ),
        Column::integer(
            "host_retransmitted_segments",
            "TCP segments retransmitted in the host's network namespace.",
            |entry| entry.whole()?.host_usage.as_ref()?.retransmitted_segments,
        ),
    ]
}

/// Columns for the request counts of generator, gateway and upstream.
fn counters() -> Vec<Column> {
    vec![
        Column::integer(
            "counted_generator_sent",
            "Sent requests of the whole load, counted by the generator.",
            |entry| Some(entry.whole()?.counters.generator_sent),
        ),
        Column::integer(
            "counted_generator_uncertain",
            "Requests of the whole load that were sent, but perhaps did not arrive: their connection broke, or they \
            timed out.",
            |entry| Some(entry.whole()?.counters.generator_uncertain),
        ),
        Column::integer("counted_gateway", "Requests of the whole load, counted by the gateway.", |entry| {
            entry.whole()?.counters.gateway_requests
        }),
        Column::integer("counted_origin", "Requests of the whole load, counted by the upstream.", |entry| {
            entry.whole()?.counters.origin_requests
        }),
        Column::integer(
            "origin_delay_ns_mean",
            "Mean delay that the upstream reports, nanoseconds; missing without a configured delay.",
            |entry| entry.whole()?.counters.origin_delay_ns_mean,
        ),
    ]
}

/// Columns for the measurements about the load generator itself.
fn generator() -> Vec<Column> {
    let evidence = |of: fn(&GeneratorEvidence) -> u64| {
        move |entry: &Entry<'_>| Some(of(&entry.whole()?.record.generator))
    };
    vec![
        Column::integer(
            "generator_workers",
            "Worker threads of the generator.",
            evidence(|evidence| evidence.workers.into()),
        ),
        Column::integer(
            "generator_connections_opened",
            "Connections that the generator opened in the whole load.",
            evidence(|evidence| evidence.connections_opened),
        ),
        Column::integer(
            "generator_unsent_with_free_connection",
            "Requests of the sustained phase that were due and had a free connection, but were not sent; open loop only.",
            evidence(|evidence| evidence.unsent_with_free_connection),
        ),
        Column::float(
            "generator_in_flight_mean",
            "Mean number of requests in flight, sampled independently of the request counts.",
            |entry| entry.whole()?.record.generator.in_flight_mean,
        ),
        Column::integer(
            "generator_connection_wait_ns_p50",
            "Median time from the intended send time until a connection was free, nanoseconds; open loop only.",
            |entry| entry.whole()?.record.generator.connection_wait_ns?.p50,
        ),
        Column::integer(
            "generator_connection_wait_ns_p99",
            "99th percentile of the time from the intended send time until a connection was free, nanoseconds; open loop only.",
            |entry| entry.whole()?.record.generator.connection_wait_ns?.p99,
        ),
    ]
}
