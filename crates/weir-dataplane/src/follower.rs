//! A thread beside the workers that goes by the table in force.

use std::io;
use std::sync::{Mutex, PoisonError};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use weir_io::{WorkerOptions, spawn_worker};

/// A thread that begins with the first table that has a use for it, and ends when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct Follower(Mutex<Option<UnboundedSender<()>>>);

impl Follower {
    /// Begins the thread unless it runs; it is told by its argument when to look at the table anew.
    ///
    /// # Errors
    /// When it can't start.
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

    /// Has the thread, where it runs, look at the table in force.
    pub(crate) fn look(&self) {
        if let Some(looks) = &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            // A thread that has ended does nothing more, and there is nobody else who could.
            let _ = looks.send(());
        }
    }
}
