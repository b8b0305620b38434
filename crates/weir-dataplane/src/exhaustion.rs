//! What a listener does without free file descriptors: it pauses for one tick at a time instead of spinning. After some
//! pauses, it rejects waiting clients one by one through a reserved descriptor.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use weir_config::Transport;
use weir_io::try_in_turn;

use crate::cause::Cause;
use crate::connection::{count_failure, send_error};
use crate::listener::Listening;
use crate::program_log::seldom;
use crate::worker::Worker;

/// Number of consecutive pauses before clients are rejected. Together they last one second.
const PATIENCE_PAUSES: u32 = 10;

/// Counts how often in a row one listening socket has paused for lack of descriptors.
#[derive(Debug, Default)]
pub(crate) struct Exhaustion {
    pauses: u32,
}

impl Exhaustion {
    /// Runs `attempt`, which accepts the next client. If the last attempt failed for lack of descriptors, only one
    /// thread at a time runs its attempt.
    pub(crate) fn poll<T>(&self, attempt: impl FnOnce() -> T) -> T {
        if self.pauses == 0 { attempt() } else { try_in_turn(attempt) }
    }

    /// Pauses. After several pauses, also rejects one waiting client.
    pub(crate) async fn bear(
        &mut self,
        worker: &Rc<Worker>,
        listening: &Rc<Listening>,
        socket: &TcpListener,
    ) {
        self.pauses += 1;
        worker.upstreams.accept_pauses.add(1);
        seldom!(
            log::Level::Warn,
            "out of file descriptors: not accepting clients for now; raise LimitNOFILE= or `ulimit -Hn`"
        );
        if self.pauses > PATIENCE_PAUSES {
            refuse_one(worker, listening, socket).await;
        }
        pause(worker, listening).await;
    }
}

/// Whether accepting failed for lack of descriptors or memory, so that an immediate retry would fail again.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Rejects a waiting client, if any. Its connection uses the reserved descriptor, so only one client is rejected at a
/// time.
async fn refuse_one(worker: &Rc<Worker>, listening: &Rc<Listening>, socket: &TcpListener) {
    let accepted = poll_fn(|cx| {
        let attempt = || match socket.poll_accept(cx) {
            Poll::Ready(Ok(client)) => Some(client),
            Poll::Ready(Err(_)) | Poll::Pending => None,
        };
        Poll::Ready(worker.reserve.spend(attempt))
    });
    let Some(client) = accepted.await else { return };
    listening.counters.accepted.add(1);
    count_failure(worker, listening, client.1, Cause::OutOfSockets);
    let transport = listening.transport(&worker.snapshot().table);
    spawn_local(refuse(Rc::clone(worker), Rc::clone(listening), client, transport));
}

async fn refuse(
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    (mut stream, peer): (TcpStream, SocketAddr),
    transport: Transport,
) {
    // With TLS, the client gets no error response, because that would need a handshake.
    if matches!(transport, Transport::Plain) {
        send_error(&worker, &listening, &mut stream, peer, Cause::OutOfSockets).await;
    }
    if let Ok(stream) = stream.into_std() {
        worker.reserve.take_back(stream.into());
    }
}

/// Waits for one tick of the timer wheel.
pub(crate) async fn pause(worker: &Worker, listening: &Listening) {
    let timer = worker.wheel.timer(listening.id);
    timer.arm(&worker.wheel, 1);
    poll_fn(|cx| if timer.poll_over(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    worker.wheel.forget(&timer);
}
