//! Exact sums of load results from several steps or machines.

use std::collections::BTreeMap;

use crate::{HistogramError, Http2Result, RouteResult, TimesNs};

/// Adds the counts of `other` by name.
pub fn add_counts(sum: &mut BTreeMap<String, u64>, other: &BTreeMap<String, u64>) {
    for (name, count) in other {
        *sum.entry(name.clone()).or_default() += count;
    }
}

/// Adds the results of `routes` by name. New routes are added at the end.
///
/// # Errors
/// When a histogram cannot be decoded.
pub fn add_routes(sum: &mut Vec<RouteResult>, routes: &[RouteResult]) -> Result<(), HistogramError> {
    for route in routes {
        match sum.iter_mut().find(|known| known.name == route.name) {
            Some(known) => add_route(known, route)?,
            None => sum.push(route.clone()),
        }
    }
    Ok(())
}

fn add_route(sum: &mut RouteResult, route: &RouteResult) -> Result<(), HistogramError> {
    sum.requests.add(&route.requests);
    for (class, times) in &route.by_class {
        match sum.by_class.get_mut(class) {
            Some(known) => {
                known.latency.add(&times.latency)?;
                known.latency_ns = TimesNs::of(&known.latency.decode()?, 0);
            }
            None => {
                sum.by_class.insert(class.clone(), times.clone());
            }
        }
    }
    Ok(())
}

impl Http2Result {
    /// Adds the counts of `other`. Both loads must have requested the same number of `streams`.
    pub fn add(&mut self, other: &Self) {
        let Self { streams: _, streams_allowed_min, goaways, sent_again, streams_reset } = *other;
        self.streams_allowed_min = self.streams_allowed_min.into_iter().chain(streams_allowed_min).min();
        self.goaways += goaways;
        self.sent_again += sent_again;
        self.streams_reset += streams_reset;
    }
}
