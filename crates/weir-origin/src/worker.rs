//! What the connections of one worker share.

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

/// Bytes that one read may take. All connections of a worker share one buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// What the workers of an origin share. Without delays and faults no worker writes to it.
pub(crate) struct Shared {
    pub(crate) spec: OriginSpec,
    /// One for each worker.
    pub(crate) counters: Box<[Counters]>,
    /// `None` when every response is due at once.
    pub(crate) timing: Option<Timing>,
    /// `None` when all responses are good.
    pub(crate) outcomes: Option<Outcomes>,
    /// Whether every request's connection is reset, until switched off.
    pub(crate) resets_all: AtomicBool,
    /// Delay of every response beyond that of `timing`, nanoseconds.
    pub(crate) extra_delay_ns: AtomicU64,
    /// `None` is plain text.
    pub(crate) tls: Option<TlsAcceptor>,
}

/// What the connections of one worker share.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    index: usize,
    pub(crate) answers: RefCell<Rc<Answers>>,
    /// The body of HTTP/2's good responses, or the part of it that is kept.
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

    /// Its own counters.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters[self.index]
    }
}
