//! A worker's view of one configuration: the table, its limits with times in ticks, and its pools.

use std::cell::{OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_config::{BackendEntry, Table};
use weir_http::HeadLimits;

use crate::backend_state::Bounds;
use crate::backend_states::BackendStates;
use crate::beside::Beside;
use crate::pool::BackendPool;
use crate::series::SeriesOfWorker;
use crate::weights::Shares;
use crate::wheel::ticks;

/// One version of the configuration, as one worker sees it. An exchange in progress keeps its snapshot to the end.
/// Snapshots share the data for parts of the table that did not change.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) table: Arc<Table>,
    pub(crate) head_limits: HeadLimits,
    pub(crate) ticks: Ticks,
    /// Whether the access log or the latency histogram needs the status and duration of requests.
    pub(crate) is_observed: bool,
    /// Whether the access log is on. It needs more values of each request than status and duration.
    pub(crate) is_logged: bool,
    pub(crate) series: SeriesOfWorker,
    /// The pool of each backend, by its position in the table; created at first use.
    pools: Beside<OnceCell<Rc<BackendPool>>>,
    /// For each route with weighted backends, the [`Shares`] that select the backend of the next request. The index is
    /// the position of the route's filters in the table. Created at first use.
    shares: Beside<OnceCell<Rc<RefCell<Shares>>>>,
}

/// The table's time limits in ticks of the wheel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    pub(crate) head: u32,
    pub(crate) body: u32,
    pub(crate) write: u32,
    pub(crate) connect: u32,
    pub(crate) response: u32,
    pub(crate) idle: u32,
    pub(crate) upstream_idle: u32,
    pub(crate) upgraded: u32,
}

impl Snapshot {
    /// The view of `table`. Pools of `former` for unchanged backends are kept.
    pub(crate) fn new(
        table: Arc<Table>,
        former: Option<&Snapshot>,
        states: &BackendStates,
        worker: usize,
    ) -> Snapshot {
        let head_bytes = table.limits.head.0 as usize;
        let head_limits =
            HeadLimits { head_bytes, target_bytes: head_bytes, fields: table.limits.fields as usize };
        let t = &table.timeouts;
        let ticks = Ticks {
            head: ticks(t.head.0),
            body: ticks(t.body.0),
            write: ticks(t.write.0),
            connect: ticks(t.connect.0),
            response: ticks(t.response.0),
            idle: ticks(t.idle.0),
            upstream_idle: ticks(t.upstream_idle.0),
            upgraded: ticks(t.upgraded.0),
        };
        let is_logged = table.access_log.is_some();
        let is_observed = is_logged || table.metrics.latency;
        let (series, pools, shares) = match former {
            None => {
                (SeriesOfWorker::new(&table), Beside::new(table.backends()), Beside::new(table.filters()))
            }
            Some(former) => (
                former.series.renewed(&former.table, &table),
                former.renewed_pools(&table, states, worker),
                former.renewed_shares(&table),
            ),
        };
        Snapshot { table, head_limits, ticks, is_observed, is_logged, series, pools, shares }
    }

    /// The pool of the backend at this position of the table. `None` if there is no such backend.
    pub(crate) fn pool(
        &self,
        backend: usize,
        states: &BackendStates,
        worker: usize,
    ) -> Option<&Rc<BackendPool>> {
        let entry = self.table.backends().get(backend)?;
        let pool = self.pools.get(backend)?;
        let of = (entry, Bounds::of(&self.table, entry));
        Some(pool.get_or_init(|| Rc::new(BackendPool::new(of, states, worker, None))))
    }

    /// Calls `of` with the [`Shares`] of one route. `filters` is the position of the route's filters.
    pub(crate) fn shares<T>(&self, filters: u32, of: impl FnOnce(&mut Shares) -> T) -> T {
        match self.shares.get(filters as usize) {
            Some(shares) => of(&mut shares.get_or_init(Rc::default).borrow_mut()),
            None => of(&mut Shares::default()),
        }
    }

    /// Drops kept connections that were closed or exceeded a time limit.
    pub(crate) fn sweep(&self, now: u32) {
        for pool in self.pools.iter().filter_map(OnceCell::get) {
            pool.sweep(now, self.ticks.upstream_idle);
        }
    }

    /// Closes idle connections of this worker if requests of any worker wait for a connection to the same backend.
    pub(crate) fn give_way(&self) {
        let pools = self.pools.iter().filter_map(OnceCell::get);
        pools.filter(|pool| pool.has_queue()).for_each(|pool| pool.give_way());
    }

    /// Closes an idle connection to any backend. Returns whether there was one.
    pub(crate) fn end_idle(&self) -> bool {
        self.pools.iter().filter_map(OnceCell::get).any(|pool| pool.end_idle())
    }

    /// Closes idle connections to this backend, one per waiting request.
    pub(crate) fn give_way_at(&self, backend: &str) {
        let position = self.table.backend_named(backend);
        if let Some(pool) = position.and_then(|position| self.pools.get(position)?.get()) {
            pool.give_way();
        }
    }

    /// The pools for `table`. Pools of unchanged backends are kept.
    fn renewed_pools(
        &self,
        table: &Arc<Table>,
        states: &BackendStates,
        worker: usize,
    ) -> Beside<OnceCell<Rc<BackendPool>>> {
        let (former, now) = (self.table.backends(), table.backends());
        // If the table is the same, only the addresses of DNS names have changed.
        let is_same_table = Arc::ptr_eq(&self.table, table);
        let is_bounded_alike = self.table.limits.upstream_connections == table.limits.upstream_connections;
        let is_other = |page| is_same_table || !is_bounded_alike || !now.shares_page(former, page);
        self.pools.renewed_where(now.page_count(), is_other, |position, pool| {
            let pool = pool.get()?;
            let is_there =
                |entry: &&BackendEntry| former.get(position).is_some_and(|former| former.name == entry.name);
            let Some(entry) = now.get(position).filter(is_there) else {
                pool.give_up(None);
                return None;
            };
            let of = (entry, Bounds::of(table, entry));
            if pool.is_of(of, states) {
                return Some(OnceCell::from(Rc::clone(pool)));
            }
            let next = Rc::new(BackendPool::new(of, states, worker, Some(pool)));
            pool.give_up(Some(&next));
            Some(OnceCell::from(next))
        })
    }

    /// The [`Shares`] for `table`. A route at the same position with the same backends and mirror keeps its `Shares`.
    fn renewed_shares(&self, table: &Table) -> Beside<OnceCell<Rc<RefCell<Shares>>>> {
        let (former, now) = (self.table.filters(), table.filters());
        self.shares.renewed((former, now), |position, shares| {
            let (was, is) = (former.get(position)?, now.get(position)?);
            let goes_on = was.key == is.key
                && was.route.backends == is.route.backends
                && was.route.mirror == is.route.mirror;
            shares.get().filter(|_| goes_on).map(|shares| OnceCell::from(Rc::clone(shares)))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use weir_config::{
        Backend, Batch, Change, Key, Listener, Policy, Resource, Route, State, WeightedBackend,
    };

    use super::*;

    const BACKENDS: u16 = 600;

    fn put(number: u16, port: u16) -> Change {
        let endpoint = SocketAddr::from(([127, 0, 0, 1], port)).into();
        let backend = Backend { endpoints: vec![endpoint], ..Backend::default() };
        Change::Put(Key::Backend(format!("b{number}")), Resource::Backend(Arc::new(backend)))
    }

    fn route(number: u16, path: &str) -> Change {
        let weigh = |backend: u16| WeightedBackend { backend: format!("b{backend}"), weight: 1 };
        let route = Route {
            path: Some(path.to_owned()),
            backends: Some(vec![weigh(number), weigh(0)]),
            ..Route::default()
        };
        Change::Put(Key::Route(format!("r{number}")), Resource::Route(Arc::new(route)))
    }

    #[test]
    fn a_change_renews_only_the_affected_pages() {
        let mut state = State::default();
        let mut apply = |changes: Vec<Change>| {
            let applied = state.apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
            applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused))
        };
        let listener = Listener::plain(SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut all = vec![Change::Put(Key::Listener("l".to_owned()), Resource::Listener(listener))];
        all.extend((0..BACKENDS).map(|number| put(number, 1)));
        all.extend((1..BACKENDS).map(|number| route(number, &format!("/{number}"))));
        let states = BackendStates::default();
        let next = |table: Arc<Table>, former: &Snapshot| Snapshot::new(table, Some(former), &states, 0);
        let first = Snapshot::new(apply(all), None, &states, 0);
        let pool = |snapshot: &Snapshot, name: &str| {
            let position = snapshot.table.backend_named(name).unwrap();
            Rc::clone(snapshot.pool(position, &states, 0).unwrap())
        };
        let (few, many) = (pool(&first, "b1"), pool(&first, "b599"));
        let turn = |snapshot: &Snapshot, route: u32| snapshot.shares(route, |shares| shares.next(&[]));
        turn(&first, 0);

        let second = next(apply(vec![route(1, "/other")]), &first);
        assert_eq!(second.pools.shared_with(&first.pools), (3, 3));
        assert_eq!(second.shares.shared_with(&first.shares), (2, 3));
        assert_eq!(second.series.shared_with(&first.series), (3, 3));
        assert!(Rc::ptr_eq(&few, &pool(&second, "b1")));
        let shares = |snapshot: &Snapshot| snapshot.shares.get(0).unwrap().get().cloned();
        assert!(Rc::ptr_eq(&shares(&first).unwrap(), &shares(&second).unwrap()), "shares were reset");

        let third = next(apply(vec![put(599, 2)]), &second);
        assert_eq!(third.pools.shared_with(&second.pools), (2, 3));
        assert_eq!(third.shares.shared_with(&second.shares), (3, 3));
        assert!(Rc::ptr_eq(&few, &pool(&third, "b1")) && !Rc::ptr_eq(&many, &pool(&third, "b599")));
        assert!(Rc::ptr_eq(&many, &pool(&second, "b599")), "the earlier snapshot keeps its pool");

        // A new entry takes over nothing from a removed entry at the same position.
        let gone =
            vec![Change::Remove(Key::Route("r1".to_owned())), Change::Remove(Key::Backend("b1".to_owned()))];
        let fourth = next(apply(gone), &third);
        let fifth = next(apply(vec![put(1_000, 1), route(1_000, "/new")]), &fourth);
        assert_eq!(fifth.table.backend_named("b1000"), first.table.backend_named("b1"));
        assert!(!Rc::ptr_eq(&few, &pool(&fifth, "b1000")));
        assert!(shares(&fifth).is_none());
    }
}
