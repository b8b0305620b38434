//! Metrics by listener, group and backend.

use serde::Serialize;

use crate::exposition::{Exposition, seconds};
use crate::series::BUCKETS_US;
use crate::stats::{ByStatus, Stats};

/// Requests of one listener to one backend through routes of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RouteStats {
    /// The listener's name.
    pub listener: String,
    /// The `metrics_group` of the routes, or their backend if they have none; `other` after the first 1000 groups.
    pub group: String,
    /// The backend; empty if the route itself responds, `other` after the first 1000 backends.
    pub backend: String,
    /// Final responses by status class. The class 1xx contains only 101, because all other 1xx responses are interim.
    pub by_status: ByStatus,
    /// The durations of requests.
    pub latency: LatencyStats,
}

/// Durations of requests, from complete request headers to the end of the response. All are 0 if `metrics.latency` is
/// off.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LatencyStats {
    /// The sum of all durations in nanoseconds.
    pub ns_sum: u64,
    /// Requests by bucket of their duration; the last bucket has no upper limit.
    pub by_bucket: Vec<u64>,
}

impl Stats {
    pub(crate) fn append_routes(&self, text: &mut Exposition) {
        const RESPONSES: &str = "weir_route_responses_total";
        let help = "Final responses to requests that match a route. The group is metrics_group of the route, or its \
                    backend; the backend is empty if the route itself responds. The first 1000 groups and the first \
                    1000 backends with requests are counted separately, all others together as other.";
        text.family(RESPONSES, "counter", help);
        for route in &self.routes {
            for (class, count) in route.by_status.classes() {
                let [listener, group, backend] = route.labels();
                text.sample(RESPONSES, &[listener, group, backend, ("status", class)], count);
            }
        }
        const DURATION: &str = "weir_request_duration_seconds";
        let help = "Time from complete request headers to the end of the response, in 20 buckets from 0.5 ms to 10 s, \
                    without tunnels. Missing if metrics.latency is false.";
        text.family(DURATION, "histogram", help);
        for route in self.routes.iter().filter(|route| route.latency.by_bucket.iter().any(|&n| n > 0)) {
            route.append_latency(DURATION, text);
        }
    }
}

impl RouteStats {
    fn labels(&self) -> [(&str, &str); 3] {
        [("listener", &self.listener), ("group", &self.group), ("backend", &self.backend)]
    }

    fn append_latency(&self, name: &str, text: &mut Exposition) {
        let [listener, group, backend] = self.labels();
        let mut below = 0;
        let ends = BUCKETS_US.iter().map(|&us| seconds(us * 1_000)).chain(["+Inf".to_owned()]);
        for (count, end) in self.latency.by_bucket.iter().zip(ends) {
            below += count;
            text.sample(&format!("{name}_bucket"), &[listener, group, backend, ("le", &end)], below);
        }
        text.sample(&format!("{name}_sum"), &[listener, group, backend], seconds(self.latency.ns_sum));
        text.sample(&format!("{name}_count"), &[listener, group, backend], below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_cumulative() {
        let mut by_bucket = vec![0; BUCKETS_US.len() + 1];
        (by_bucket[0], by_bucket[3], by_bucket[20]) = (2, 1, 4);
        let latency = LatencyStats { ns_sum: 1_500_000_000, by_bucket };
        let route = RouteStats { listener: "l".to_owned(), latency, ..RouteStats::default() };
        let mut text = Exposition::default();
        route.append_latency("x", &mut text);
        let text = text.into_text();
        for line in [
            "x_bucket{listener=\"l\",group=\"\",backend=\"\",le=\"0.0005\"} 2\n",
            "x_bucket{listener=\"l\",group=\"\",backend=\"\",le=\"0.002\"} 2\n",
            "x_bucket{listener=\"l\",group=\"\",backend=\"\",le=\"10\"} 3\n",
            "x_bucket{listener=\"l\",group=\"\",backend=\"\",le=\"+Inf\"} 7\n",
            "x_sum{listener=\"l\",group=\"\",backend=\"\"} 1.5\n",
            "x_count{listener=\"l\",group=\"\",backend=\"\"} 7\n",
        ] {
            assert!(text.contains(line), "{line} is missing in {text}");
        }
    }
}
