//! Books and latencies per route, over the sustained phase.

use std::collections::BTreeMap;

use hdrhistogram::Histogram as Hdr;
use weir_results::{Histogram, Requests, RouteResult, RouteTimes, TimesNs};

use crate::books::add_requests;
use crate::recorder::add_histogram;
use crate::request::RequestSource;

/// Classes of status codes, from 1xx to 5xx, with 0 for codes that are none.
const CLASSES: usize = 6;

/// One worker's routes.
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
    /// Empty books for the routes of a source; `None` where there is only one, whose books are the load's.
    pub(crate) fn new(source: &RequestSource) -> Option<Self> {
        let routes = source.routes().len();
        (routes > 1).then(|| Self { source: source.clone(), books: vec![RouteBooks::default(); routes] })
    }

    /// The books of the route that arrival `index` belongs to.
    #[inline]
    pub(crate) fn requests(&mut self, index: u64) -> &mut Requests {
        &mut self.of(index).requests
    }

    /// A response came in time.
    #[inline]
    pub(crate) fn completed(&mut self, index: u64, status: u16, latency_ns: u64) {
        let class = usize::from(status / 100);
        let class = if class < CLASSES { class } else { 0 };
        let times = self.of(index).classes[class].get_or_insert_with(|| Box::new(small_histogram()));
        times.saturating_record(latency_ns);
    }

    /// Adds the books of another worker.
    pub(crate) fn add(&mut self, other: &Self) {
        for (sum, other) in self.books.iter_mut().zip(&other.books) {
            add_requests(&mut sum.requests, &other.requests);
            for (sum, other) in sum.classes.iter_mut().zip(&other.classes) {
                let Some(other) = other else { continue };
                add_histogram(sum.get_or_insert_with(|| Box::new(small_histogram())), other);
            }
        }
    }

    /// The routes that were asked for at least once.
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
    fn of(&mut self, index: u64) -> &mut RouteBooks {
        let route = self.source.route_of(self.source.choose(index));
        &mut self.books[usize::from(route)]
    }
}

impl RouteBooks {
    fn by_class(&self) -> BTreeMap<String, RouteTimes> {
        let seen =
            self.classes.iter().enumerate().filter_map(|(class, times)| Some((class, times.as_ref()?)));
        seen.map(|(class, times)| {
            let times = RouteTimes { latency_ns: TimesNs::of(times, 0), latency: Histogram::encode(times) };
            (format!("{class}xx"), times)
        })
        .collect()
    }
}

/// A histogram that grows with what it records: most routes never see an hour.
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
