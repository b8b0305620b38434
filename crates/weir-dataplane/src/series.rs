//! Request counters by listener, group and backend.
//!
//! Each worker has counters for each series that it has seen at a listener. It finds them by the position of the series
//! in the table. Names are used only when a worker sees a series for the first time under a configuration.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_config::{OTHER_GROUPS, Series, Table};

use crate::beside::Beside;
use crate::counters::Counter;
use crate::crew::unused;
use crate::listener::Listening;
use crate::route_stats::{LatencyStats, RouteStats};
use crate::stats::ByStatus;
use crate::worker::Worker;

/// Maximum number of groups with their own counters; the same limit applies to backends. Later ones are counted
/// together as [`OTHER`], because a scraper keeps a series for each name as long as the process lives.
pub(crate) const NAMES_MAX: usize = 1_000;
/// The common name of all groups and backends beyond [`NAMES_MAX`].
pub(crate) const OTHER: &str = OTHER_GROUPS;

/// Minimum time between two searches for unused group and backend names. Each search checks all series.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Upper limits of the latency buckets, in microseconds.
pub(crate) const BUCKETS_US: [u64; 20] = [
    500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000,
    250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// One worker's counters of one series at one listener.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SeriesCounters {
    /// Final responses by status class, from 1xx to 5xx. Only 101 counts as 1xx.
    by_class: [Counter; 5],
    /// Exchanges by latency bucket; the last bucket has no upper limit.
    by_latency: [Counter; BUCKETS_US.len() + 1],
    latency_ns_sum: Counter,
}

impl SeriesCounters {
    /// Counts a final response.
    #[inline]
    pub(crate) fn response(&self, status: u16) {
        let class = usize::from(status / 100).clamp(1, 5);
        self.by_class[class - 1].add(1);
    }

    /// Adds a request's duration to the counters.
    pub(crate) fn latency(&self, ns: u64) {
        let us = ns.div_ceil(1_000);
        self.by_latency[BUCKETS_US.partition_point(|&end| end < us)].add(1);
        self.latency_ns_sum.add(ns);
    }
}

/// One worker's counters under one configuration, by the position of the series in the table. Created at first use.
#[derive(Debug)]
pub(crate) struct SeriesOfWorker(Beside<RefCell<Vec<OfListener>>>);

/// The ID of a listener, and the counters of one series for this listener.
type OfListener = (u64, Arc<SeriesCounters>);

impl SeriesOfWorker {
    pub(crate) fn new(table: &Table) -> SeriesOfWorker {
        SeriesOfWorker(Beside::new(table.series()))
    }

    /// Converts the counters for `former` into counters for `table`. Unchanged series keep their counters.
    pub(crate) fn renewed(&self, former: &Table, table: &Table) -> SeriesOfWorker {
        if !Arc::ptr_eq(&former.listeners, &table.listeners) {
            // Start empty, so that the counters of removed listeners are released.
            return SeriesOfWorker::new(table);
        }
        let (former, now) = (former.series(), table.series());
        SeriesOfWorker(self.0.renewed((former, now), |position, known| {
            let stays = former.get(position)? == now.get(position)?;
            stays.then(|| RefCell::clone(known))
        }))
    }

    /// Calls `count` with the counters of the series at this position of `table`. A linear search is enough, because
    /// there are few listeners.
    #[inline]
    pub(crate) fn with(
        &self,
        position: u32,
        (worker, listening, table): (&Worker, &Listening, &Table),
        count: impl FnOnce(&SeriesCounters),
    ) {
        // The position comes from the table that routed the request, so it is valid.
        let Some(known) = self.0.get(position as usize) else { return };
        let mut known = known.borrow_mut();
        if let Some((_, counters)) = known.iter().find(|(id, _)| *id == listening.id) {
            return count(counters);
        }
        let series = &table.series()[position as usize];
        let counters = worker.shared.series.counters(&listening.counters.name, series);
        count(&counters);
        known.push((listening.id, counters));
    }
}

#[cfg(test)]
impl SeriesOfWorker {
    /// The number of pages shared with `other`, and the number of all pages.
    pub(crate) fn shared_with(&self, other: &SeriesOfWorker) -> (usize, usize) {
        self.0.shared_with(&other.0)
    }
}

/// The counters of all workers, for the life of the process.
#[derive(Debug, Default)]
pub(crate) struct SeriesBook(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    groups: BTreeSet<Box<str>>,
    backends: BTreeSet<Box<str>>,
    /// The counters of each worker, by the labels of the series.
    series: BTreeMap<Labels, Vec<Arc<SeriesCounters>>>,
    /// When unused names were last removed.
    forgot: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    listener: Box<str>,
    group: Box<str>,
    backend: Box<str>,
}

impl SeriesBook {
    /// Counters that only the caller writes, until it drops them.
    fn counters(&self, listener: &str, series: &Series) -> Arc<SeriesCounters> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !pages.has_room(series) {
            pages.forget_unused(Instant::now());
        }
        let Pages { groups, backends, series: all, .. } = &mut *pages;
        let labels = Labels {
            listener: listener.into(),
            group: named(groups, &series.group),
            backend: named(backends, &series.backend),
        };
        unused(all.entry(labels).or_default(), SeriesCounters::default)
    }

    /// All series, summed over the workers.
    pub(crate) fn stats(&self) -> Vec<RouteStats> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.series.iter().map(|(labels, workers)| sum(labels, workers)).collect()
    }
}

impl Pages {
    /// Whether the group and the backend of `series` can be counted under their own names instead of [`OTHER`].
    fn has_room(&self, series: &Series) -> bool {
        let has = |names: &BTreeSet<Box<str>>, name: &str| names.len() < NAMES_MAX || names.contains(name);
        has(&self.groups, &series.group) && has(&self.backends, &series.backend)
    }

    /// Removes series that no worker uses any more, and names that occur only in these series. This makes room for new
    /// names, which would otherwise be counted as [`OTHER`]. If a removed series is used again, it starts at 0.
    #[cold]
    fn forget_unused(&mut self, now: Instant) {
        if self.forgot.is_some_and(|last| now.duration_since(last) < FORGET_EVERY) {
            return;
        }
        self.forgot = Some(now);
        self.series.retain(|_, workers| workers.iter().any(|counters| Arc::strong_count(counters) > 1));
        let names = |of: fn(&Labels) -> &str| {
            let named = self.series.keys().map(of).filter(|&name| name != OTHER);
            named.map(Box::from).collect()
        };
        self.groups = names(|labels| &labels.group);
        self.backends = names(|labels| &labels.backend);
    }
}

/// `name`, or [`OTHER`] if the limit of names is reached.
fn named(names: &mut BTreeSet<Box<str>>, name: &str) -> Box<str> {
    if names.contains(name) {
        return name.into();
    }
    if names.len() >= NAMES_MAX {
        return OTHER.into();
    }
    names.insert(name.into());
    name.into()
}

fn sum(labels: &Labels, workers: &[Arc<SeriesCounters>]) -> RouteStats {
    let total = |of: &dyn Fn(&SeriesCounters) -> &Counter| workers.iter().map(|w| of(w).value()).sum::<u64>();
    let class = |class: usize| total(&|w| &w.by_class[class - 1]);
    RouteStats {
        listener: labels.listener.to_string(),
        group: labels.group.to_string(),
        backend: labels.backend.to_string(),
        by_status: ByStatus {
            informational: class(1),
            success: class(2),
            redirection: class(3),
            client_error: class(4),
            server_error: class(5),
        },
        latency: LatencyStats {
            ns_sum: total(&|w| &w.latency_ns_sum),
            by_bucket: (0..=BUCKETS_US.len()).map(|bucket| total(&|w| &w.by_latency[bucket])).collect(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(group: &str, backend: &str) -> Series {
        Series { group: group.into(), backend: backend.into() }
    }

    #[test]
    fn a_latency_at_a_limit_belongs_to_the_lower_bucket() {
        let counters = SeriesCounters::default();
        for us in [0, 500, 501, 10_000_000, 10_000_001] {
            counters.latency(us * 1_000);
        }
        counters.latency(500_001);
        let found: Vec<u64> = counters.by_latency.iter().map(Counter::value).collect();
        assert_eq!((found[0], found[1], found[19], found[20]), (2, 2, 1, 1));
        assert!(BUCKETS_US.is_sorted());
    }

    #[test]
    fn groups_beyond_the_limit_are_counted_together() {
        let book = SeriesBook::default();
        // Names in use are not removed.
        let of = |number| book.counters("l", &series(&format!("g{number}"), "b"));
        let used: Vec<_> = (0..NAMES_MAX + 5).map(of).collect();
        used.iter().for_each(|counters| counters.response(200));
        book.counters("l", &series("g0", "b")).response(503);
        book.counters("l", &series("late", "b")).response(200);
        let stats = book.stats();
        assert_eq!(stats.len(), NAMES_MAX + 1);
        let of = |group: &str| stats.iter().find(|s| s.group == group).unwrap().by_status;
        assert_eq!((of("g0").success, of("g0").server_error, of(OTHER).success), (1, 1, 6));
    }

    #[test]
    fn removed_groups_make_room_for_new_ones() {
        let book = SeriesBook::default();
        let kept = book.counters("l", &series("kept", "b"));
        for number in 1..NAMES_MAX {
            book.counters("l", &series(&format!("g{number}"), "b"));
        }
        let groups = || book.stats().into_iter().map(|route| route.group).collect::<Vec<_>>();
        assert_eq!(groups().len(), NAMES_MAX);
        book.counters("l", &series("new", "b")).response(200);
        assert_eq!(groups(), ["kept", "new"]);
        // Unused names are removed only once per interval.
        for number in 2..=NAMES_MAX {
            book.counters("l", &series(&format!("h{number}"), "b"));
        }
        assert_eq!((groups().len(), groups().contains(&OTHER.to_owned())), (NAMES_MAX + 1, true));
        let mut pages = book.0.lock().unwrap();
        let later = pages.forgot.unwrap() + FORGET_EVERY;
        pages.forget_unused(later);
        drop(pages);
        assert_eq!(groups(), ["kept"]);
        kept.response(200);
        assert_eq!(book.stats()[0].by_status.success, 1);
    }

    #[test]
    fn counters_have_one_writer_and_are_reused() {
        let book = SeriesBook::default();
        let first = book.counters("l", &series("g", "b"));
        let second = book.counters("l", &series("g", "b"));
        assert!(!Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &book.counters("m", &series("g", "b"))));
        first.response(200);
        let address = Arc::as_ptr(&first);
        drop(first);
        let third = book.counters("l", &series("g", "b"));
        assert_eq!(Arc::as_ptr(&third), address);
        third.response(200);
        let stats = book.stats();
        assert_eq!(stats.iter().map(|route| route.by_status.success).collect::<Vec<_>>(), [2, 0]);
    }
}
