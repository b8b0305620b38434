//! Counts and latencies per route in the sustained phase. A route is a name under which requests are reported.

use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;
use weir_results::{HISTOGRAM_HIGH_NS, Histogram, Requests, RouteResult, RouteTimes, TimesNs};

use crate::recording::recorder::add_histogram;
use crate::request::RequestSource;
use crate::spec::status_class;

/// Number of classes of status codes: 1xx to 5xx.
const CLASSES: usize = 5;

/// The counts and latencies of one worker, by route.
#[derive(Clone, Debug)]
pub(crate) struct Routes {
    source: RequestSource,
    books: Vec<RouteBooks>,
}

#[derive(Clone, Debug, Default)]
struct RouteBooks {
    requests: Requests,
    classes: [Option<Box<Hdr<u64>>>; CLASSES],
}

impl Routes {
    /// Empty counts for all routes of a source. Returns `None` if there is only one route, because its counts equal the
    /// counts of the load.
    pub(crate) fn new(source: &RequestSource) -> Option<Self> {
        let routes = source.routes().len();
        (routes > 1).then(|| Self { source: source.clone(), books: vec![RouteBooks::default(); routes] })
    }

    /// `pick` selects a request. Returns the counts of its route.
    #[inline]
    pub(crate) fn requests(&mut self, pick: u64) -> &mut Requests {
        &mut self.of(pick).requests
    }

    /// Counts a response that arrived in time.
    #[inline]
    pub(crate) fn completed(&mut self, pick: u64, status: u16, latency_ns: u64) {
        let times = self.of(pick).classes[usize::from(status_class(status)) - 1]
            .get_or_insert_with(|| Box::new(small_histogram()));
        // With the value limited to the maximum, recording cannot fail.
        times
            .record(latency_ns.min(HISTOGRAM_HIGH_NS))
            .expect("the histogram accepts values up to its maximum");
    }

    /// Adds the counts of another worker to these.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.books.iter_mut().zip(&other.books) {
            sum.requests.add(&other.requests);
            for (sum, other) in sum.classes.iter_mut().zip(&other.classes) {
                let Some(other) = other else { continue };
                add_histogram(sum.get_or_insert_with(|| Box::new(small_histogram())), other);
            }
        }
    }

    /// Returns the results of the routes with at least one request.
    pub(crate) fn results(&self) -> Vec<RouteResult> {
        let asked =
            self.source.routes().iter().zip(&self.books).filter(|(_, books)| books.requests.scheduled > 0);
        asked
            .map(|(name, books)| RouteResult {
                name: name.clone(),
                requests: books.requests,
                by_class: books.by_class(),
            })
            .collect()
    }

    #[inline]
    fn of(&mut self, pick: u64) -> &mut RouteBooks {
        let route = self.source.route_of(self.source.choose(pick));
        &mut self.books[usize::from(route)]
    }
}

impl RouteBooks {
    fn by_class(&self) -> BTreeMap<String, RouteTimes> {
        let seen =
            self.classes.iter().enumerate().filter_map(|(class, times)| Some((class, times.as_ref()?)));
        seen.map(|(class, times)| {
            let times = RouteTimes { latency_ns: TimesNs::of(times, 0), latency: Histogram::encode(times) };
            (format!("{}xx", class + 1), times)
        })
        .collect()
    }
}

/// A histogram that grows as needed: most routes never have a latency near the maximum of an hour.
fn small_histogram() -> Hdr<u64> {
    let mut histogram = Hdr::new_with_bounds(
        weir_results::HISTOGRAM_LOW_NS,
        weir_results::HISTOGRAM_LOW_NS * 1_000_000,
        weir_results::HISTOGRAM_DIGITS,
    )
    .expect("constant bounds are valid");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{LoadSpec, RequestSpec};

    #[test]
    fn latencies_of_a_route_are_recorded_up_to_an_hour() {
        let requests = ["/a", "/b"].map(|path| RequestSpec {
            path: path.into(),
            headers: vec![("Host".into(), "a".into())],
            ..RequestSpec::default()
        });
        let spec = LoadSpec { requests: requests.into(), ..LoadSpec::default() };
        let mut routes = Routes::new(&RequestSource::new(&spec).unwrap()).unwrap();
        let mut other = routes.clone();
        let latencies_ns = [90, 50_000_000, 300_000_000, 9_000_000_000, HISTOGRAM_HIGH_NS, u64::MAX];
        for (routes, shift) in [(&mut routes, 0), (&mut other, 1)] {
            for index in 0..100 {
                routes.requests(index).scheduled += 1;
                routes.completed(index, 999, latencies_ns[(index as usize + shift) % latencies_ns.len()]);
            }
        }
        routes.add(&other);
        let results = routes.results();
        assert_eq!(results.len(), 2);
        for route in results {
            let times = &route.by_class["5xx"];
            let kept = times.latency.decode().unwrap();
            for ns in [50_000_000, 300_000_000, 9_000_000_000, HISTOGRAM_HIGH_NS] {
                assert!(kept.count_at(ns) > 0, "{ns} ns: {:?}", times.latency_ns);
            }
            assert!(times.latency_ns.max >= Some(HISTOGRAM_HIGH_NS / 1_000 * 999));
        }
    }
}
