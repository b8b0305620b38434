//! What a listener does without file descriptors: it waits, a tick at a time, and does not spin. Where that takes long,
//! clients that wait are told so one by one, over a descriptor that is kept back.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::Poll;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use weir_config::Transport;

use crate::cause::Cause;
use crate::connection::refuse_connection;
use crate::listener::Listening;
use crate::worker::Worker;

/// Pauses in a row after which it is no passing shortage: a second.
const PATIENCE_PAUSES: u32 = 10;

/// How long a socket has gone without a client for want of descriptors.
#[derive(Debug, Default)]
pub(crate) struct Exhaustion {
    pauses: u32,
}

impl Exhaustion {
    /// Pauses, and after some pauses tells one of the clients that wait.
    pub(crate) async fn bear(
        &mut self,
        worker: &Rc<Worker>,
        listening: &Rc<Listening>,
        socket: &TcpListener,
    ) {
        self.pauses += 1;
        worker.upstreams.accept_pauses.add(1);
        if self.pauses > PATIENCE_PAUSES {
            refuse_one(worker, listening, socket).await;
        }
        pause(worker, listening).await;
    }
}

/// Whether trying again at once would spin.
pub(crate) fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Tells a client that waits, if there is one. Its connection takes the descriptor that was kept back; until it is over
/// there is none, so it is one client at a time.
async fn refuse_one(worker: &Rc<Worker>, listening: &Rc<Listening>, socket: &TcpListener) {
    if !worker.reserve.refill() || !worker.reserve.give_up() {
        return;
    }
    let Poll::Ready(Ok(client)) = poll_fn(|cx| Poll::Ready(socket.poll_accept(cx))).await else {
        worker.reserve.refill();
        return;
    };
    listening.counters.accepted.add(1);
    listening.counters.failure(Cause::OutOfSockets);
    let transport = listening.transport(&worker.snapshot().table);
    spawn_local(refuse(Rc::clone(worker), Rc::clone(listening), client, transport));
}

async fn refuse(
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    (stream, peer): (TcpStream, SocketAddr),
    transport: Transport,
) {
    match transport {
        Transport::Plain => {
            refuse_connection(Rc::clone(&worker), listening, stream, peer, Cause::OutOfSockets).await;
        }
        // There is no handshake only to say no.
        Transport::Tls(_) | Transport::ByName(_) => drop(stream),
    }
    worker.reserve.refill();
}

async fn pause(worker: &Worker, listening: &Listening) {
    let timer = worker.wheel.timer(listening.id);
    timer.arm(&worker.wheel, 1);
    poll_fn(|cx| if timer.poll_over(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    worker.wheel.forget(&timer);
}
