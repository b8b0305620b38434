//! Commands from one worker to all others. A worker cannot change the state of another, so it sends a command.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};

use crate::worker::Command;

/// The workers' command channels, as weak references, so that they keep no worker alive.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<Vec<WeakUnboundedSender<Command>>>);

impl Peers {
    /// Adds a worker's command channel.
    pub(crate) fn join(&self, worker: &UnboundedSender<Command>) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(worker.downgrade());
    }

    /// Sends a command to all workers, including the sender. There is no reply.
    #[cold]
    pub(crate) fn ask(&self, command: impl Fn() -> Command) {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.iter().filter_map(WeakUnboundedSender::upgrade) {
            // A worker that has ended needs no command.
            let _ = worker.send(command());
        }
    }
}
