//! k6's end-of-test summary (`k6 run --summary-export`), one line of JSON per load.

use serde_json::{Map, Value, json};
use weir_results::{Cell, LoadResult, Measurement, Run, TimesNs};

use crate::entry::{loads, sum};

/// The ID of k6's root group, which contains everything in a test.
const ROOT_GROUP_ID: &str = "d41d8cd98f00b204e9800998ecf8427e";

/// Renders the summaries of all loads.
pub(crate) fn draw(run: &Run, cells: &[Cell]) -> String {
    loads(cells).map(|(cell, measurement)| format!("{}\n", summary(run, cell, measurement))).collect()
}

fn summary(run: &Run, cell: &Cell, measurement: &Measurement) -> Value {
    let judgement = &measurement.judgement;
    let mut summary = json!({
        "root_group": { "name": "", "path": "", "id": ROOT_GROUP_ID, "groups": {}, "checks": {} },
        "metrics": metrics(measurement),
        "weir": {
            "run": run.id,
            "scenario": run.name,
            "cell": cell.key.index,
            "gateway": cell.key.gateway,
            "axes": cell.key.axes,
            "repeat": cell.key.repeat,
            "load": measurement.load,
            "model": measurement.record.result.model,
            "asked_rate_per_s": measurement.rate_per_s,
            "bound_by": judgement.bound_by,
            "verdicts": judgement.verdicts,
        },
    });
    if let Some(trial) = &measurement.trial {
        summary["weir"]["trial"] = trial.number.into();
    }
    summary
}

fn metrics(measurement: &Measurement) -> Value {
    let result = &measurement.record.result;
    let books = &result.requests;
    let requests = sum([books.completed, books.failed, books.timed_out]);
    let bad = sum([books.unexpected, books.failed, books.timed_out]).min(requests);
    let counter = |count: u64| json!({ "count": count, "rate": per_second(count, result) });
    let connections = measurement.connections;
    let gauge = json!({ "value": connections, "min": connections, "max": connections });
    let mut metrics = Map::new();
    let mut put = |name: &str, value: Value| metrics.insert(name.to_owned(), value);
    put("data_received", counter(result.bytes.received));
    put("data_sent", counter(result.bytes.sent));
    put("dropped_iterations", counter(books.dropped));
    if let Some(wait) = &measurement.record.generator.connection_wait_ns {
        put("http_req_blocked", trend(wait));
    }
    put("http_req_duration", trend(&result.service_time_ns));
    let failed = (requests > 0).then(|| bad as f64 / requests as f64);
    put("http_req_failed", json!({ "passes": bad, "fails": requests - bad, "value": failed }));
    // The rate includes only responses within the sustained phase; the counts also include responses during the drain.
    put("http_reqs", json!({ "count": requests, "rate": result.rate_per_s }));
    put("iteration_duration", trend(&result.latency_ns));
    put("iterations", json!({ "count": books.completed, "rate": result.rate_per_s }));
    put("vus", gauge.clone());
    put("vus_max", gauge);
    metrics.into()
}

fn per_second(count: u64, result: &LoadResult) -> Option<f64> {
    (result.duration_s > 0.0).then(|| count as f64 / result.duration_s)
}

/// The values that k6 shows for a distribution by default, and two more quantiles, in milliseconds.
fn trend(times: &TimesNs) -> Value {
    let ms = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e6);
    json!({
        "avg": times.mean.map(|ns| ns / 1e6),
        "min": ms(times.min),
        "med": ms(times.p50),
        "max": ms(times.max),
        "p(90)": ms(times.p90),
        "p(95)": ms(times.p95),
        "p(99)": ms(times.p99),
        "p(99.9)": ms(times.p999),
    })
}
