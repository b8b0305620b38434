//! A background thread that follows the active table.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_io::{WorkerOptions, spawn_worker};

/// A thread that starts with the first table that needs it. Drop ends it.
#[derive(Debug, Default)]
pub(crate) struct Follower(Mutex<Option<UnboundedSender<()>>>);

impl Follower {
    /// Starts the thread unless it runs. The channel that `main` gets receives a message after each change of the
    /// table.
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

    /// Notifies the thread, if it runs, of a changed table.
    pub(crate) fn look(&self) {
        if let Some(looks) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // If the thread has ended, nothing else can do its work.
            let _ = looks.send(());
        }
    }
}
