//! Closes idle connections, without reading the clock when a connection is used.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::task::AbortHandle;

/// Idle timeout in seconds: a connection is closed if it has no read or write for longer.
const IDLE_MAX_S: u32 = 75;

/// The open connections of one worker.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// Seconds since the worker started, advanced by [`Connections::second`].
    now_s: Cell<u32>,
    next_id: Cell<u64>,
    open: RefCell<HashMap<u64, (Rc<Activity>, AbortHandle)>>,
}

/// When a connection was last used. Updating this does not read the clock.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    last_s: Cell<u32>,
    /// Number of delayed responses on this connection. While there are any, the connection is not idle.
    waits: Cell<u32>,
}

/// A delayed response. The connection is not idle until this is dropped.
#[derive(Debug)]
pub(crate) struct Waiting(Rc<Activity>);

impl Activity {
    #[inline]
    pub(crate) fn touch(&self, connections: &Connections) {
        self.last_s.set(connections.now_s.get());
    }

    pub(crate) fn wait(self: &Rc<Self>) -> Waiting {
        self.waits.set(self.waits.get() + 1);
        Waiting(Rc::clone(self))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waits.set(self.0.waits.get() - 1);
    }
}

impl Connections {
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.replace(self.next_id.get() + 1)
    }

    pub(crate) fn enter(&self, id: u64, activity: Rc<Activity>, handle: AbortHandle) {
        activity.touch(self);
        self.open.borrow_mut().insert(id, (activity, handle));
    }

    pub(crate) fn leave(&self, id: u64) {
        self.open.borrow_mut().remove(&id);
    }

    /// Advances time by one second and closes idle connections.
    pub(crate) fn second(&self) {
        let now_s = self.now_s.get() + 1;
        self.now_s.set(now_s);
        let is_idle = |activity: &Activity| {
            activity.waits.get() == 0 && now_s.saturating_sub(activity.last_s.get()) > IDLE_MAX_S
        };
        // The handles are collected first, because aborting a task may remove its connection from the map
        // immediately.
        let idle: Vec<AbortHandle> = self
            .open
            .borrow()
            .values()
            .filter(|(activity, _)| is_idle(activity))
            .map(|(_, handle)| handle.clone())
            .collect();
        for handle in idle {
            handle.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs for `seconds` with three connections: an idle one, one with a delayed response, and one in use. Returns
    /// which of them are still open.
    fn open_after(seconds: u32) -> [bool; 3] {
        let worker = weir_io::spawn_worker(weir_io::WorkerOptions::default(), move || async move {
            let connections = Connections::default();
            let activities: [Rc<Activity>; 3] = Default::default();
            let tasks = activities.each_ref().map(|activity| {
                let task = tokio::task::spawn_local(std::future::pending::<()>());
                connections.enter(connections.next_id(), Rc::clone(activity), task.abort_handle());
                task
            });
            let _waiting = activities[1].wait();
            for _ in 0..seconds {
                connections.second();
                activities[2].touch(&connections);
            }
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
            tasks.each_ref().map(|task| !task.is_finished())
        });
        worker.unwrap().join().unwrap()
    }

    #[test]
    fn only_idle_connections_are_closed() {
        assert_eq!(open_after(IDLE_MAX_S), [true, true, true]);
        assert_eq!(open_after(IDLE_MAX_S + 1), [false, true, true]);
    }
}
