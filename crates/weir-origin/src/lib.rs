//! The upstream under the gateway: answers with a known size, delay and share of errors, and counts exactly.
//!
//! One thread per worker, each with its own listening socket; nothing is shared, locked or allocated on the
//! way of a request. Any path is answered, with 200 and the body. The path `/__weir/stats` gives the counts
//! of all workers as JSON ([`Stats`]) and is in none of them itself.
//!
//! ```
//! use weir_origin::{Delay, OriginSpec, start};
//!
//! let origin = start(&OriginSpec { body_bytes: 64, ..OriginSpec::at(([127, 0, 0, 1], 0).into()) })?;
//! println!("listening on {}", origin.address());
//! assert_eq!(origin.stats().requests, 0);
//! origin.stop();
//! origin.join()?;
//! # Ok::<(), weir_origin::OriginError>(())
//! ```

mod answer;
mod connection;
mod errors;
mod idle;
mod selection;
mod sleep;
mod stats;
mod worker;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::watch;
use weir_io::{JoinHandle, WorkerOptions};

pub use errors::OriginError;
pub use stats::{GivenDelays, Stats};

use selection::Selection;
use stats::Counters;

/// Connections that may wait to be accepted, for each worker.
const BACKLOG: i32 = 1024;

/// What an origin does.
#[derive(Clone, Debug)]
pub struct OriginSpec {
    /// Where it listens; port 0 takes any free one.
    pub listen: SocketAddr,
    /// Bytes of each body.
    pub body_bytes: u64,
    /// How long each answer waits.
    pub delay: Delay,
    /// The share of requests that are answered with 500, from 0 to 1. It is met exactly, over all workers: an
    /// error is made whenever the count of requests times the share passes a whole number.
    pub error_share: f64,
    /// Threads.
    pub workers: usize,
    /// CPUs that the workers are bound to, in turn; empty leaves them to the scheduler.
    pub cpus: Vec<usize>,
}

impl OriginSpec {
    /// A plain origin at an address: one worker, an empty body, no delay, no errors.
    pub fn at(listen: SocketAddr) -> Self {
        Self { listen, body_bytes: 0, delay: Delay::None, error_share: 0.0, workers: 1, cpus: Vec::new() }
    }
}

/// How long an answer waits, from the whole request to the first byte of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Delay {
    /// Not at all.
    #[default]
    None,
    /// Always as many nanoseconds.
    Const(u64),
}

/// A running origin; it ends when it is dropped.
#[derive(Debug)]
pub struct Origin {
    address: SocketAddr,
    counters: Arc<[Arc<Counters>]>,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
}

/// Starts an origin; it serves from the moment this returns.
///
/// # Errors
/// When the specification is wrong, the address cannot be listened on, or threads cannot be started.
pub fn start(spec: &OriginSpec) -> Result<Origin, OriginError> {
    if spec.workers == 0 {
        return Err(OriginError::NoWorkers);
    }
    if !(0.0..=1.0).contains(&spec.error_share) {
        return Err(OriginError::ErrorShare { share: spec.error_share });
    }
    let listen_error = |source| OriginError::listen(spec.listen, source);
    let listeners = weir_io::listen_shared(spec.listen, spec.workers, BACKLOG).map_err(listen_error)?;
    let address = listeners[0].local_addr().map_err(listen_error)?;
    let counters: Arc<[Arc<Counters>]> = (0..spec.workers).map(|_| Arc::default()).collect();
    let errors = Selection::new(spec.error_share);
    let (stop, stopped) = watch::channel(false);
    let mut workers = Vec::with_capacity(spec.workers);
    for (index, listener) in listeners.into_iter().enumerate() {
        let options = WorkerOptions {
            name: format!("origin-{index}"),
            cpu: (!spec.cpus.is_empty()).then(|| spec.cpus[index % spec.cpus.len()]),
            // A delay is a measure; without one it is a server like any other.
            is_urgent: spec.delay != Delay::None,
        };
        let (spec, counters, stopped) = (spec.clone(), Arc::clone(&counters), stopped.clone());
        let errors = errors.clone();
        let handle = weir_io::spawn_worker(options, move || {
            worker::run(spec, index, listener, counters, errors, stopped)
        })
        .map_err(OriginError::Worker)?;
        workers.push(handle);
    }
    Ok(Origin { address, counters, stop, workers })
}

impl Origin {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.counters)
    }

    /// Asks it to end: nothing more is accepted, and open connections are closed.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits for its end, which comes after [`stop`](Self::stop), or early by an error.
    ///
    /// # Errors
    /// The first worker's that did not end well.
    pub fn join(self) -> Result<(), OriginError> {
        for worker in self.workers {
            worker.join().map_err(|_| OriginError::Panicked)?;
        }
        Ok(())
    }
}
