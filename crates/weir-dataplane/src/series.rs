//! What is counted of requests by listener, group and backend.
//!
//! Each worker has a set of counters for each series that it has met at a listener. It finds them by the position of the
//! series in the table; names are looked at only when a worker meets a series for the first time under a configuration.

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

/// Groups with a name of their own, and backends as well. Those that are met later are counted together as [`OTHER`]:
/// whoever scrapes holds a series for each for as long as the process lives.
pub(crate) const NAMES_MAX: usize = 1_000;
/// The name of all groups, and all backends, beyond those.
pub(crate) const OTHER: &str = OTHER_GROUPS;

/// How often room is made for new names at most. All series are looked through then.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// The upper ends of the buckets of latency, in microseconds.
pub(crate) const BUCKETS_US: [u64; 20] = [
    500, 1_000, 2_000, 3_000, 5_000, 7_500, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000,
    250_000, 500_000, 1_000_000, 2_500_000, 5_000_000, 10_000_000,
];

/// What one worker counts of one series at one listener.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct SeriesCounters {
    /// Final responses by the first digit of their status; the first is 101.
    by_class: [Counter; 5],
    /// Exchanges by the bucket that they fall into; the last is beyond all.
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

    /// Counts how long a request took.
    pub(crate) fn latency(&self, ns: u64) {
        let us = ns.div_ceil(1_000);
        self.by_latency[BUCKETS_US.partition_point(|&end| end < us)].add(1);
        self.latency_ns_sum.add(ns);
    }
}

/// The counters of one worker under one configuration, by the position of the series; made at first use.
#[derive(Debug)]
pub(crate) struct SeriesOfWorker(Beside<RefCell<Vec<OfListener>>>);

/// The counters of a series at a listener, which its id tells.
type OfListener = (u64, Arc<SeriesCounters>);

impl SeriesOfWorker {
    pub(crate) fn new(table: &Table) -> SeriesOfWorker {
        SeriesOfWorker(Beside::new(table.series()))
    }

    /// The same under `table`, where this is what there was under `former`: series that stay have their counters.
    pub(crate) fn renewed(&self, former: &Table, table: &Table) -> SeriesOfWorker {
        if !Arc::ptr_eq(&former.listeners, &table.listeners) {
            // Those of listeners that are gone are let go of.
            return SeriesOfWorker::new(table);
        }
        let (former, now) = (former.series(), table.series());
        SeriesOfWorker(self.0.renewed((former, now), |position, known| {
            let stays = former.get(position)? == now.get(position)?;
            stays.then(|| RefCell::clone(known))
        }))
    }

    /// Does something with the counters of the series at this position of `table`. There are few listeners, so they are
    /// looked through.
    #[inline]
    pub(crate) fn with(
        &self,
        position: u32,
        (worker, listening, table): (&Worker, &Listening, &Table),
        count: impl FnOnce(&SeriesCounters),
    ) {
        // A request has a position of the table that it was routed by.
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
    /// How many pages are one with those of `other`, and how many there are.
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
    /// A set for each worker.
    series: BTreeMap<Labels, Vec<Arc<SeriesCounters>>>,
    /// When room was made for new names.
    forgot: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Labels {
    listener: Box<str>,
    group: Box<str>,
    backend: Box<str>,
}

impl SeriesBook {
    /// Counters that only the caller writes, until it lets go of them.
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

    /// All of them, summed over the workers.
    pub(crate) fn stats(&self) -> Vec<RouteStats> {
        let pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.series.iter().map(|(labels, workers)| sum(labels, workers)).collect()
    }
}

impl Pages {
    /// Whether the group and the backend of `series` have, or get, names of their own.
    fn has_room(&self, series: &Series) -> bool {
        let has = |names: &BTreeSet<Box<str>>, name: &str| names.len() < NAMES_MAX || names.contains(name);
        has(&self.groups, &series.group) && has(&self.backends, &series.backend)
    }

    /// Forgets series that no worker counts under any more, and the names that only these have: routes come and go, and
    /// those that are here now are worth a name. They begin at 0 when they come back.
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

/// `name`, if it is among the first ones.
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
    fn a_latency_falls_into_the_bucket_that_it_does_not_pass() {
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
    fn groups_beyond_the_first_are_counted_together() {
        let book = SeriesBook::default();
        // Those that are in use make no room for others.
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
    fn groups_that_are_gone_make_room_for_new_ones() {
        let book = SeriesBook::default();
        let kept = book.counters("l", &series("kept", "b"));
        for number in 1..NAMES_MAX {
            book.counters("l", &series(&format!("g{number}"), "b"));
        }
        let groups = || book.stats().into_iter().map(|route| route.group).collect::<Vec<_>>();
        assert_eq!(groups().len(), NAMES_MAX);
        book.counters("l", &series("new", "b")).response(200);
        assert_eq!(groups(), ["kept", "new"]);
        // Room is made once in a while alone.
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
    fn counters_have_one_writer_and_go_on_behind_the_last() {
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
