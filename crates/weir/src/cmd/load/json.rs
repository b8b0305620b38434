//! What `weir load --json` prints: the result, with its routes and steps where there are some.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_results::{LoadRecord, LoadResult, Requests, TimesNs};

/// The whole document; distributions stay out of it.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    result: &'a LoadResult,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step<'a>>,
}

#[derive(Serialize)]
struct Route<'a> {
    name: &'a str,
    requests: &'a Requests,
    /// Latency by class of status.
    latency_ns: BTreeMap<&'a str, &'a TimesNs>,
}

#[derive(Serialize)]
struct Step<'a> {
    connections: u32,
    rate_per_s: Option<f64>,
    result: &'a LoadResult,
}

impl<'a> Document<'a> {
    pub(super) fn of(record: &'a LoadRecord) -> Self {
        let routes = record.routes.iter().map(|route| Route {
            name: &route.name,
            requests: &route.requests,
            latency_ns: route
                .by_class
                .iter()
                .map(|(class, times)| (class.as_str(), &times.latency_ns))
                .collect(),
        });
        let steps = record.steps.iter().map(|step| Step {
            connections: step.connections,
            rate_per_s: step.rate_per_s,
            result: &step.result,
        });
        Self { result: &record.result, routes: routes.collect(), steps: steps.collect() }
    }
}
