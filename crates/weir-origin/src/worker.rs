//! State shared by the connections of a worker.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::SystemTime;

use bytes::Bytes;
use tokio_rustls::TlsAcceptor;

use crate::OriginSpec;
use crate::answer::{Answers, kept_body};
use crate::idle::Connections;
use crate::outcome::Outcomes;
use crate::sleep::Sleepers;
use crate::stats::Counters;
use crate::timing::Timing;

/// Maximum number of bytes per read. All connections of a worker use the same buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// State that all workers of an origin share. Without delays and faults, no worker writes to it.
pub(crate) struct Shared {
    pub(crate) spec: OriginSpec,
    /// The counters of each worker.
    pub(crate) counters: Box<[Counters]>,
    /// When responses are due; `None` if all of them are due immediately.
    pub(crate) timing: Option<Timing>,
    /// Decides which requests get a fault; `None` if all responses are successful.
    pub(crate) outcomes: Option<Outcomes>,
    /// Whether the connections of all requests are reset.
    pub(crate) resets_all: AtomicBool,
    /// Extra delay of all responses, in nanoseconds. It is added to the delay of `timing`.
    pub(crate) extra_delay_ns: AtomicU64,
    /// Accepts TLS connections; `None` for plain text.
    pub(crate) tls: Option<TlsAcceptor>,
}

/// State shared by the connections of one worker.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    index: usize,
    pub(crate) answers: RefCell<Rc<Answers>>,
    /// The body of successful HTTP/2 responses. If the body is long, only the part that is kept in memory.
    pub(crate) body: Bytes,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) connections: Connections,
    pub(crate) sleepers: Sleepers,
}

impl Worker {
    pub(crate) fn new(shared: Arc<Shared>, index: usize) -> Self {
        let body_bytes = shared.spec.body_bytes;
        Self {
            shared,
            index,
            answers: RefCell::new(Rc::new(Answers::render(body_bytes, SystemTime::now()))),
            body: kept_body(body_bytes).into(),
            scratch: RefCell::new(vec![0; SCRATCH_BYTES].into()),
            connections: Connections::default(),
            sleepers: Sleepers::default(),
        }
    }

    /// The counters of this worker.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters[self.index]
    }
}
