//! Work that takes as long as dozens of exchanges, on a few threads beside the workers: signatures by RSA.
//!
//! A worker that did it itself would hold up all its other connections for that time. What waits is bounded: beyond
//! that it is turned away at once, rather than served when nobody waits for it any more.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;
use weir_io::{WorkerOptions, available_cpus, spawn_thread};

/// Threads, where there are as many CPUs. They compete with the workers, so more would help nobody.
const THREADS_MAX: usize = 4;

/// Pieces of work that wait: a second of signatures with 2048 bits for one thread, which clients still wait for.
const WAITING_MAX: usize = 4096;

type Work = Box<dyn FnOnce() + Send>;

/// The threads, from the first configuration on that has a use for them. They end with the gateway.
#[derive(Debug, Default)]
pub(crate) struct Offload(OnceLock<SyncSender<Work>>);

/// As much waits as may.
#[derive(Debug, thiserror::Error)]
#[error("too many tasks wait for a thread")]
pub(crate) struct Overflow;

impl Offload {
    /// Starts the threads unless they run. They may run where the thread may that calls this.
    ///
    /// # Errors
    /// When none can be had.
    pub(crate) fn start(&self) -> io::Result<()> {
        self.start_with(available_cpus().len().clamp(1, THREADS_MAX), WAITING_MAX)
    }

    fn start_with(&self, threads: usize, waiting: usize) -> io::Result<()> {
        if self.is_running() {
            return Ok(());
        }
        let (sender, received) = sync_channel(waiting);
        let received = Arc::new(Mutex::new(received));
        for number in 0..threads {
            let received = Arc::clone(&received);
            let options =
                WorkerOptions { name: format!("weir-offload-{number}"), ..WorkerOptions::default() };
            spawn_thread(options, move || keep(&received))?;
        }
        // Whoever was faster has started as many, and these end.
        let _ = self.0.set(sender);
        Ok(())
    }

    /// Whether somebody has had a use for it.
    pub(crate) fn is_running(&self) -> bool {
        self.0.get().is_some()
    }

    /// What `work` comes to, done on one of the threads. It is left out if nobody waits any more when its turn comes.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Overflow> {
        let (sender, outcome) = oneshot::channel();
        let work = move || {
            if !sender.is_closed() {
                // Who went away meanwhile has no use for it.
                let _ = sender.send(work());
            }
        };
        let queue = self.0.get().ok_or(Overflow)?;
        queue.try_send(Box::new(work)).map_err(|_| Overflow)?;
        outcome.await.map_err(|_| Overflow)
    }
}

fn keep(received: &Mutex<Receiver<Work>>) {
    loop {
        // One thread at a time waits for work, the others for their turn to do so.
        let work = received.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(work) = work else { return };
        work();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Sets this on its way.
    fn begin<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    #[test]
    fn what_finds_no_room_is_turned_away_and_what_nobody_waits_for_left_out() {
        let offload = Offload::default();
        assert!(begin(pin!(offload.run(|| ()))).is_some_and(|outcome| outcome.is_err()), "it does not run");
        offload.start_with(1, 2).unwrap();
        let (begun, waits) = sync_channel(0);
        let (go, may_go) = sync_channel::<()>(0);
        let mut first = pin!(offload.run(move || {
            begun.send(()).unwrap();
            may_go.recv().unwrap();
            1
        }));
        assert!(begin(first.as_mut()).is_none());
        waits.recv().unwrap();
        let mut second = pin!(offload.run(|| 2));
        assert!(begin(second.as_mut()).is_none());
        {
            let mut left = pin!(offload.run(|| -> u8 { panic!("nobody waits for it") }));
            assert!(begin(left.as_mut()).is_none());
            let over = begin(pin!(offload.run(|| 4)));
            assert!(matches!(over, Some(Err(Overflow))));
        }
        go.send(()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(first).unwrap(), 1);
        assert_eq!(runtime.block_on(second).unwrap(), 2);
        assert_eq!(runtime.block_on(offload.run(|| 5)).unwrap(), 5, "the thread is still there");
    }
}
