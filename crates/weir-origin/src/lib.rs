//! The upstream under the gateway: answers with a known size, delay and share of faults, and counts exactly.
//!
//! One thread per worker, each with its own listening socket. A plain origin shares, locks and allocates nothing
//! on the way of a request; times and faults of its own are the origin's and not each worker's, so they share
//! what decides them. HTTP/1.1 and HTTP/2, plain and through TLS. Any path is answered, with 200 and the body.
//! The path `/__weir/stats` gives the counts of all workers as JSON ([`Stats`]) and is in none of them itself;
//! `/__weir/resets/on` has the connection of every further request reset, over HTTP/2 its stream, until
//! `/__weir/resets/off`; `/__weir/delay/NS` delays every further response by so many nanoseconds more.
//!
//! ```
//! use weir_origin::{OriginSpec, start};
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
mod decision;
mod errors;
mod http1;
mod http2;
mod idle;
mod outcome;
mod serve;
mod sleep;
mod spec;
mod stats;
mod stream;
mod timing;
mod tls;
mod worker;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use tokio::sync::watch;
use weir_io::{JoinHandle, WorkerOptions, mono_ns};

pub use errors::OriginError;
pub use spec::{FaultSpec, Http2Spec, OriginSpec, ServiceSpec, TlsSpec};
pub use stats::{Faults, GivenDelays, Handshakes, Stats};
pub use timing::QueueWaits;

use outcome::Outcomes;
use stats::Counters;
use timing::Timing;
use tls::Tls;
use worker::Shared;

/// Connections that may wait to be accepted, for each worker.
const BACKLOG: i32 = 1024;
/// Connections for which memory is reserved on start, 8 bytes each.
const FILES_RESERVED: u64 = 4_096;

/// A running origin; it ends when it is dropped.
pub struct Origin {
    address: SocketAddr,
    shared: Arc<Shared>,
    ca_pem: Option<String>,
    stop: watch::Sender<bool>,
    workers: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Origin").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Starts an origin; it serves from the moment this returns.
///
/// # Errors
/// When the specification is wrong, the address cannot be listened on, or threads cannot be started.
pub fn start(spec: &OriginSpec) -> Result<Origin, OriginError> {
    spec.check()?;
    let (tls, ca_pem) = Tls::of(spec)?.map_or((None, None), |tls| (Some(tls.acceptor), tls.ca_pem));
    let listen_error = |source| OriginError::listen(spec.listen, source);
    let listeners = weir_io::listen_shared(spec.listen, spec.workers, BACKLOG).map_err(listen_error)?;
    let address = listeners[0].local_addr().map_err(listen_error)?;
    let shared = Arc::new(Shared {
        spec: spec.clone(),
        counters: (0..spec.workers).map(|_| Counters::default()).collect(),
        timing: Timing::of(spec, mono_ns()),
        outcomes: Outcomes::of(&spec.faults),
        resets_all: AtomicBool::new(false),
        extra_delay_ns: AtomicU64::new(0),
        tls,
    });
    weir_io::raise_open_files();
    weir_io::reserve_files(FILES_RESERVED);
    let (stop, stopped) = watch::channel(false);
    let mut workers = Vec::with_capacity(spec.workers);
    for (index, listener) in listeners.into_iter().enumerate() {
        let options = WorkerOptions {
            name: format!("origin-{index}"),
            cpu: (!spec.cpus.is_empty()).then(|| spec.cpus[index % spec.cpus.len()]),
            // Exact delays need prompt wake-ups. A worker that spins never sleeps: as an urgent one it would keep
            // everything else from its processor.
            is_urgent: spec.is_timed() && !spec.spin,
        };
        let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
        let handle = weir_io::spawn_worker(options, move || serve::run(shared, index, listener, stopped))
            .map_err(OriginError::Worker)?;
        workers.push(handle);
    }
    Ok(Origin { address, shared, ca_pem, stop, workers })
}

impl Origin {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The counts so far.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.shared.counters, self.shared.timing.as_ref())
    }

    /// PEM of the authority whose certificate it shows, where that was made on start.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
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
