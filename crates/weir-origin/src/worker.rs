//! One worker: accepts connections and keeps what they share.

use std::cell::RefCell;
use std::io;
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_local;
use tokio_rustls::TlsAcceptor;
use weir_io::PreciseTimer;

use crate::OriginSpec;
use crate::answer::{Answers, kept_body};
use crate::connection;
use crate::idle::{Activity, Connections};
use crate::outcome::Outcomes;
use crate::sleep::Sleepers;
use crate::stats::Counters;
use crate::timing::Timing;

/// Bytes that one read may take. All connections of a worker read into the same buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Pause after a connection could not be accepted, which is when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// It is said once that connections cannot be accepted.
static NOT_ACCEPTED: Once = Once::new();

/// What the workers of an origin share. Without times and faults of its own, none of it is written by two.
pub(crate) struct Shared {
    pub(crate) spec: OriginSpec,
    /// One for each worker.
    pub(crate) counters: Box<[Counters]>,
    /// `None` where every answer is due at once.
    pub(crate) timing: Option<Timing>,
    /// `None` where all answers are good.
    pub(crate) outcomes: Option<Outcomes>,
    /// Whether every request's connection is reset, until somebody says otherwise.
    pub(crate) resets_all: AtomicBool,
    /// `None` is plain text.
    pub(crate) tls: Option<TlsAcceptor>,
}

/// What the connections of one worker share.
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    index: usize,
    pub(crate) answers: RefCell<Rc<Answers>>,
    /// The body of HTTP/2's good answers, or as much of it as is kept.
    pub(crate) body: Bytes,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) connections: Connections,
    pub(crate) sleepers: Sleepers,
}

impl Worker {
    /// Its own counters.
    #[inline]
    pub(crate) fn counters(&self) -> &Counters {
        &self.shared.counters[self.index]
    }
}

/// Runs a worker until it is told to stop; its connections end with its runtime.
pub(crate) async fn run(
    shared: Arc<Shared>,
    index: usize,
    listener: StdListener,
    mut stopped: watch::Receiver<bool>,
) {
    let body_bytes = shared.spec.body_bytes;
    let worker = Rc::new(Worker {
        shared,
        index,
        answers: RefCell::new(Rc::new(Answers::render(body_bytes, SystemTime::now()))),
        body: kept_body(body_bytes).into(),
        scratch: RefCell::new(vec![0; SCRATCH_BYTES].into()),
        connections: Connections::default(),
        sleepers: Sleepers::default(),
    });
    tokio::select! {
        // Either the order to stop, or whoever could give it is gone.
        _ = stopped.wait_for(|stop| *stop) => {}
        result = serve(&worker, listener) => result.expect("a new runtime registers a listener and a timer"),
    }
}

async fn serve(worker: &Rc<Worker>, listener: StdListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let spec = &worker.shared.spec;
    if spec.is_timed() || spec.faults.slow.is_some() {
        let (worker, timer) = (Rc::clone(worker), PreciseTimer::new()?);
        let spins = spec.spin;
        spawn_local(async move {
            match spins {
                true => worker.sleepers.spin().await,
                false => worker.sleepers.drive(timer).await,
            }
        });
    }
    spawn_local(every_second(Rc::clone(worker)));
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let (id, activity) = (worker.connections.next_id(), Rc::<Activity>::default());
                let task = spawn_local(connection::run(Rc::clone(worker), id, Rc::clone(&activity), stream));
                worker.connections.enter(id, activity, task.abort_handle());
            }
            Err(error) if is_of_the_peer(&error) => {}
            Err(error) => {
                // Who waits to be accepted is connected already, and looks like an answer that never comes.
                NOT_ACCEPTED.call_once(|| eprintln!("weir origin: connections wait to be accepted: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether it is the peer that broke off before it was accepted.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

async fn every_second(worker: Rc<Worker>) {
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let answers = Answers::render(worker.shared.spec.body_bytes, SystemTime::now());
        worker.answers.replace(Rc::new(answers));
        worker.connections.second();
    }
}
