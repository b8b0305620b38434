//! Frees former tables on a separate thread, not on a worker. A table that shares little with its successor takes
//! milliseconds to free. A table that shares most of its data has thousands of reference counts to decrement.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use weir_config::Table;

/// How often to check whether exchanges still use a table.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Tables that exchanges in progress may still use.
#[derive(Debug, Default)]
pub(crate) struct Retired(Arc<Mutex<Vec<Arc<Table>>>>);

impl Retired {
    /// Frees `table` once all other owners have dropped it.
    pub(crate) fn add(&self, table: Arc<Table>) {
        let mut tables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tables.push(table);
        if tables.len() > 1 {
            // A thread is already running. It ends once the last table is freed.
            return;
        }
        let shared = Arc::clone(&self.0);
        let thread = std::thread::Builder::new().name("weir-retire".to_owned());
        if thread.spawn(move || free(&shared)).is_err() {
            // Without a thread, the last user frees the table.
            tables.clear();
        }
    }
}

fn free(tables: &Mutex<Vec<Arc<Table>>>) {
    loop {
        std::thread::sleep(LOOK_EVERY);
        let mut tables = tables.lock().unwrap_or_else(PoisonError::into_inner);
        let unused: Vec<Arc<Table>> = tables.extract_if(.., |t| Arc::strong_count(t) == 1).collect();
        let is_last = tables.is_empty();
        // Freeing unused tables needs no lock, so release the lock first.
        std::mem::drop(tables);
        std::mem::drop(unused);
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_config::{Batch, Change, Key, Listener, Policy, Resource, State};

    use super::*;

    #[test]
    fn a_table_is_freed_after_its_last_use() {
        let listener = Listener::plain("127.0.0.1:1".parse().unwrap());
        let change = Change::Put(Key::Listener("l".to_owned()), Resource::Listener(listener));
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes: vec![change] };
        let table = State::default().apply(batch).table.unwrap();
        let (retired, weak) = (Retired::default(), Arc::downgrade(&table));
        retired.add(Arc::clone(&table));
        std::thread::sleep(LOOK_EVERY * 2);
        assert!(weak.upgrade().is_some(), "the table is still in use");
        drop(table);
        while weak.upgrade().is_some() {
            std::thread::yield_now();
        }
    }
}
