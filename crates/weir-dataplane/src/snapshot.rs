//! What a worker routes by: one version of the table, its limits in the worker's units, its pools.

use std::cell::{OnceCell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use weir_config::{Filters, Table};
use weir_http::HeadLimits;

use crate::backend_state::BackendStates;
use crate::pool::BackendPool;
use crate::series::SeriesOfWorker;
use crate::weights::Shares;
use crate::wheel::ticks;

/// One version of the configuration, as one worker sees it. Exchanges in progress keep theirs to the end.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) table: Arc<Table>,
    pub(crate) head_limits: HeadLimits,
    pub(crate) ticks: Ticks,
    /// The access log or latencies want to know of requests.
    pub(crate) is_observed: bool,
    pub(crate) series: SeriesOfWorker,
    /// By the position in the table; made at first use.
    pools: Vec<OnceCell<Rc<BackendPool>>>,
    /// By the position of the route's filters in the table; made at first use.
    shares: RefCell<HashMap<u32, Shares>>,
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
    /// The view of `table`; pools go on where `former` has the same backend.
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
        let pools = table.backends().iter().map(|_| OnceCell::new()).collect();
        let is_observed = table.access_log.is_some() || table.metrics.latency;
        let series = SeriesOfWorker::new(&table);
        let shares = RefCell::default();
        let snapshot = Snapshot { table, head_limits, ticks, is_observed, series, pools, shares };
        if let Some(former) = former {
            snapshot.take_over(former, states, worker);
        }
        snapshot
    }

    /// The pool of the backend at this position of the table.
    pub(crate) fn pool(
        &self,
        backend: usize,
        states: &BackendStates,
        worker: usize,
    ) -> Option<&Rc<BackendPool>> {
        let entry = self.table.backends().get(backend)?;
        let pool = self.pools[backend].get_or_init(|| Rc::new(BackendPool::new(entry, states, worker, None)));
        Some(pool)
    }

    /// What `of` makes of the shares of the route with the filters at this position.
    pub(crate) fn shares<T>(&self, filters: u32, of: impl FnOnce(&mut Shares) -> T) -> T {
        of(self.shares.borrow_mut().entry(filters).or_default())
    }

    /// Drops kept connections that have ended or aged.
    pub(crate) fn sweep(&self, now: u32) {
        for pool in self.pools.iter().filter_map(OnceCell::get) {
            pool.sweep(now, self.ticks.upstream_idle);
        }
    }

    fn take_over(&self, former: &Snapshot, states: &BackendStates, worker: usize) {
        for (position, pool) in former.pools.iter().enumerate() {
            let Some(pool) = pool.get() else { continue };
            let name = &former.table.backends()[position].name;
            let Ok(position) = self.table.backends().binary_search_by(|b| b.name.cmp(name)) else { continue };
            let entry = &self.table.backends()[position];
            let pool = if pool.is_of(entry, states) {
                Rc::clone(pool)
            } else {
                Rc::new(BackendPool::new(entry, states, worker, Some(pool)))
            };
            // The cell is new, so nothing can be there yet.
            let _ = self.pools[position].set(pool);
        }
        for (position, shares) in former.shares.take() {
            if let Some(position) = self.same_shares(&former.table.filters()[position as usize]) {
                self.shares.borrow_mut().insert(position, shares);
            }
        }
    }

    /// The position of the filters of the same route, if it goes on where it was: it shares its requests as before.
    fn same_shares(&self, former: &Filters) -> Option<u32> {
        let filters = self.table.filters();
        let position = filters.binary_search_by(|f| f.key.cmp(&former.key)).ok()?;
        let now = &filters[position].route;
        (now.backends == former.route.backends && now.mirror == former.route.mirror)
            .then_some(position as u32)
    }
}
