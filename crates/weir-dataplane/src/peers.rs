//! What workers ask of each other, which share nothing that one could take from the other.

use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedSender, WeakUnboundedSender};

use crate::worker::Command;

/// The workers that can be asked. It keeps none of them going.
#[derive(Debug, Default)]
pub(crate) struct Peers(Mutex<Vec<WeakUnboundedSender<Command>>>);

impl Peers {
    /// One more, which obeys these commands.
    pub(crate) fn join(&self, worker: &UnboundedSender<Command>) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|worker| worker.strong_count() > 0);
        workers.push(worker.downgrade());
    }

    /// Asks all of them, the one that asks too. What comes of it shows elsewhere.
    #[cold]
    pub(crate) fn ask(&self, command: impl Fn() -> Command) {
        let workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in workers.iter().filter_map(WeakUnboundedSender::upgrade) {
            // One that has ended has nothing to give.
            let _ = worker.send(command());
        }
    }
}
