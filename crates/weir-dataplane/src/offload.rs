//! Computes RSA signatures on a few separate threads. A signature takes as long as dozens of exchanges.
//!
//! A worker that computed a signature itself would delay all its other connections. The queue is limited: a signature
//! beyond the limit fails at once, because its client would no longer wait for the result.

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::oneshot;
use weir_io::{WorkerOptions, available_cpus, spawn_thread};

/// Maximum number of threads; fewer if there are fewer CPUs. They compete with the workers, so more would not help.
const THREADS_MAX: usize = 4;

/// Maximum number of queued signatures. One thread computes a full queue of 2048-bit signatures in about a second.
/// Clients do not time out before that.
const WAITING_MAX: usize = 4096;

type Work = Box<dyn FnOnce() + Send>;

/// The threads. They start with the first configuration that needs them, and end with the gateway.
#[derive(Debug, Default)]
pub(crate) struct Offload(OnceLock<SyncSender<Work>>);

/// The queue is full.
#[derive(Debug, thiserror::Error)]
#[error("too many tasks wait for a thread")]
pub(crate) struct Overflow;

impl Offload {
    /// Starts the threads unless they already run. They may use the same CPUs as the calling thread.
    ///
    /// # Errors
    /// If a thread can't start.
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
        // If another caller was faster, its threads stay, and these end.
        let _ = self.0.set(sender);
        Ok(())
    }

    /// Whether the threads were started.
    pub(crate) fn is_running(&self) -> bool {
        self.0.get().is_some()
    }

    /// Runs `work` on one of the threads and returns its result. If the caller no longer waits, `work` is skipped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Overflow> {
        let (sender, outcome) = oneshot::channel();
        let work = move || {
            if !sender.is_closed() {
                // The caller may have stopped waiting in the meantime.
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
        // One thread at a time waits for work; the others wait for the lock.
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

    /// Polls a future once.
    fn begin<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
        match future.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => Some(outcome),
            Poll::Pending => None,
        }
    }

    #[test]
    fn work_beyond_the_queue_fails_and_abandoned_work_is_skipped() {
        let offload = Offload::default();
        assert!(begin(pin!(offload.run(|| ()))).is_some_and(|outcome| outcome.is_err()), "not started");
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
            let mut left = pin!(offload.run(|| -> u8 { panic!("abandoned work ran") }));
            assert!(begin(left.as_mut()).is_none());
            let over = begin(pin!(offload.run(|| 4)));
            assert!(matches!(over, Some(Err(Overflow))));
        }
        go.send(()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert_eq!(runtime.block_on(first).unwrap(), 1);
        assert_eq!(runtime.block_on(second).unwrap(), 2);
        assert_eq!(runtime.block_on(offload.run(|| 5)).unwrap(), 5, "the thread still runs");
    }
}
