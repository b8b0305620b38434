//! A background thread that follows the active table.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_io::{WorkerOptions, spawn_worker};

/// A background thread. It starts with the first table that requires it. Drop ends the thread.
#[derive(Debug, Default)]
pub(crate) struct Follower(Mutex<Option<UnboundedSender<()>>>);

impl Follower {
    /// Starts the thread unless it was already started. `main` gets a channel, which receives a message after each
    /// change of the table.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub(crate) fn start<F, Fut>(&self, name: &str, main: F) -> io::Result<()>
    where
        F: FnOnce(UnboundedReceiver<()>) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let mut looks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if looks.is_none() {
            let (sender, received) = unbounded_channel();
            let options = WorkerOptions { name: name.to_owned(), ..WorkerOptions::default() };
            spawn_worker(options, move || main(received))?;
            *looks = Some(sender);
        }
        Ok(())
    }

    /// If the thread runs, notifies it of a changed table.
    pub(crate) fn look(&self) {
        if let Some(looks) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // Sending fails only if the thread has ended. The thread is not restarted, so the error is ignored.
            let _ = looks.send(());
        }
    }
}
