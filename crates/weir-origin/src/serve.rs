//! The main loop of a worker: accepts connections, and closes idle ones every second.

use std::io;
use std::net::TcpListener as StdListener;
use std::rc::Rc;
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::spawn_local;
use weir_io::PreciseTimer;

use crate::answer::Answers;
use crate::connection;
use crate::idle::Activity;
use crate::worker::{Shared, Worker};

/// Pause after a failed accept, which happens when file descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);
/// Makes sure that the warning about failed accepts is printed only once.
static NOT_ACCEPTED: Once = Once::new();

/// Runs a worker until it is stopped. Dropping its runtime closes its connections.
pub(crate) async fn run(
    shared: Arc<Shared>,
    index: usize,
    listener: StdListener,
    mut stopped: watch::Receiver<bool>,
) {
    let worker = Rc::new(Worker::new(shared, index));
    tokio::select! {
        // The origin was stopped, or its `Origin` was dropped.
        _ = stopped.wait_for(|stop| *stop) => {}
        result = serve(&worker, listener) => result.expect("a new runtime registers a listener and a timer"),
    }
}

async fn serve(worker: &Rc<Worker>, listener: StdListener) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let spec = &worker.shared.spec;
    let spins = spec.spin && (spec.is_timed() || spec.faults.slow.is_some());
    let (sleeping, timer) = (Rc::clone(worker), PreciseTimer::new()?);
    spawn_local(async move {
        match spins {
            true => sleeping.sleepers.spin().await,
            false => sleeping.sleepers.drive(timer).await,
        }
    });
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
                // Clients in the accept queue are connected already, and wait for a response.
                NOT_ACCEPTED.call_once(|| eprintln!("weir origin: cannot accept connections now: {error}"));
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Whether the error means that the peer closed the connection before it was accepted.
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
