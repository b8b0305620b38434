//! One worker: accepts connections and keeps what they share.

use std::cell::RefCell;
use std::io;
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_local;
use weir_io::PreciseTimer;

use crate::answer::Answers;
use crate::connection;
use crate::idle::{Activity, Connections};
use crate::selection::Selection;
use crate::sleep::Sleepers;
use crate::stats::Counters;
use crate::{Delay, OriginSpec};

/// Bytes that one read may take. All connections of a worker read into the same buffer.
const SCRATCH_BYTES: usize = 64 * 1024;

/// Pause after a connection could not be accepted, which is when descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// What the connections of one worker share.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) body_bytes: u64,
    /// `None` is no delay at all.
    pub(crate) delay_ns: Option<u64>,
    pub(crate) answers: RefCell<Rc<Answers>>,
    pub(crate) errors: Selection,
    pub(crate) counters: Arc<Counters>,
    /// Those of all workers, for the statistics.
    pub(crate) all_counters: Arc<[Arc<Counters>]>,
    pub(crate) scratch: RefCell<Box<[u8]>>,
    pub(crate) connections: Connections,
    pub(crate) sleepers: Sleepers,
}

/// Runs a worker until it is told to stop; its connections end with its runtime.
pub(crate) async fn run(
    spec: OriginSpec,
    index: usize,
    listener: StdListener,
    counters: Arc<[Arc<Counters>]>,
    errors: Selection,
    mut stopped: watch::Receiver<bool>,
) {
    let worker = Rc::new(Worker {
        body_bytes: spec.body_bytes,
        delay_ns: match spec.delay {
            Delay::None | Delay::Const(0) => None,
            Delay::Const(ns) => Some(ns),
        },
        answers: RefCell::new(Rc::new(Answers::render(spec.body_bytes, SystemTime::now()))),
        errors,
        counters: Arc::clone(&counters[index]),
        all_counters: counters,
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
    if worker.delay_ns.is_some() {
        let (worker, timer) = (Rc::clone(worker), PreciseTimer::new()?);
        spawn_local(async move { worker.sleepers.drive(timer).await });
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
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
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
        worker.answers.replace(Rc::new(Answers::render(worker.body_bytes, SystemTime::now())));
        worker.connections.second();
    }
}
