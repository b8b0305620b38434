//! A test upstream for the gateway. It answers with a known size, delay and share of faults, and counts exactly.
//!
//! Each worker is one thread with its own listening socket. Without delays and faults, requests share no state, take no
//! lock and allocate no memory. Delays and faults apply to the whole origin, so the workers share their state.
//!
//! The origin serves HTTP/1.1 and HTTP/2, in plain text and over TLS. It answers every path with 200 and the body,
//! except for its own paths, which are not counted:
//! - `/__weir/stats` returns the counts of all workers as JSON ([`Stats`]).
//! - `/__weir/resets/on` resets the connection (over HTTP/2: only the stream) of every later request.
//!   `/__weir/resets/off` ends this.
//! - `/__weir/delay/NANOSECONDS` delays every later response by that much.
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

/// Length of the accept queue, per worker.
const BACKLOG: i32 = 1024;
/// Number of connections for which space in the file table is reserved at the start; 8 bytes each.
const FILES_RESERVED: u64 = 4_096;

/// A running origin. It stops when dropped.
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

/// Starts an origin. It serves requests as soon as this returns.
///
/// # Errors
/// If the specification is invalid, the address cannot be used, or threads cannot be started.
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
            // Exact delays need fast wake-ups, and so a high priority. A worker that spins never sleeps: at a high
            // priority, it would take all CPU time from other threads on its CPU.
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
    /// Returns the address that the origin listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the counts so far.
    pub fn stats(&self) -> Stats {
        Stats::of(&self.shared.counters, self.shared.timing.as_ref())
    }

    /// Returns the certificate of the generated certificate authority as PEM; `None` if none was generated.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// Stops the origin: it accepts no more connections and closes open ones.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }

    /// Waits until the origin has stopped, by [`stop`](Self::stop) or by an error.
    ///
    /// # Errors
    /// The error of the first worker that failed.
    pub fn join(self) -> Result<(), OriginError> {
        for worker in self.workers {
            worker.join().map_err(|_| OriginError::Panicked)?;
        }
        Ok(())
    }
}
