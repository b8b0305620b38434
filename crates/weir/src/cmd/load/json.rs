//! The document that `weir load --json` prints: the result, and the routes and steps if there are any.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_results::{Bounds, LeftOut, LoadRecord, LoadResult, Requests, TimesNs, quantile_needs};

/// The document. It contains no histograms.
#[derive(Serialize)]
pub(super) struct Document<'a> {
    #[serde(flatten)]
    result: &'a LoadResult,
    /// The metrics for which only a bound is known, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    bounds: &'a BTreeMap<String, Bounds>,
    /// The names of quantile fields for which there were too few requests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unsupported_quantiles: Vec<&'static str>,
    /// The entries of a recorded session that were not sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<&'a LeftOut>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<Route<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<Step<'a>>,
    /// The shard of each agent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shards: Vec<Shard<'a>>,
}

#[derive(Serialize)]
struct Route<'a> {
    name: &'a str,
    requests: &'a Requests,
    /// Latency for each class of status codes.
    latency_ns: BTreeMap<&'a str, &'a TimesNs>,
}

#[derive(Serialize)]
struct Shard<'a> {
    agent: &'a str,
    start_offset_ns: i64,
    requests: &'a Requests,
    rate_per_s: f64,
    latency_ns: &'a TimesNs,
    lateness_ns: Option<&'a TimesNs>,
}

#[derive(Serialize)]
struct Step<'a> {
    connections: u32,
    rate_per_s: Option<f64>,
    result: &'a LoadResult,
}

impl<'a> Document<'a> {
    pub(super) fn of(record: &'a LoadRecord, bounds: &'a BTreeMap<String, Bounds>) -> Self {
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
        let shards = record.shards.iter().map(|shard| Shard {
            agent: &shard.agent,
            start_offset_ns: shard.start_offset_ns,
            requests: &shard.requests,
            rate_per_s: shard.rate_per_s,
            latency_ns: &shard.latency_ns,
            lateness_ns: shard.lateness_ns.as_ref(),
        });
        let result = &record.result;
        let quantiles = result.latency_ns.quantiles().into_iter();
        let unsupported =
            quantiles.filter(|(_, quantile, _)| result.requests.scheduled < quantile_needs(*quantile));
        Self {
            result,
            bounds,
            unsupported_quantiles: unsupported.map(|(name, _, _)| name).collect(),
            left_out: record.generator.left_out.as_ref(),
            routes: routes.collect(),
            steps: steps.collect(),
            shards: shards.collect(),
        }
    }
}
