//! A listening socket of one worker, from its first client to its last.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use weir_config::{Scope, Table, Transport};

use crate::cause::Cause;
use crate::connection::{Seat, refuse_connection, serve};
use crate::counters::ListenerCounters;
use crate::passthrough::serve_by_name;
use crate::secure::serve_secure;
use crate::worker::Worker;

/// Clients beyond the limit that are told so at one time; the others are closed without a word.
const TOLD_MAX: usize = 32;

/// One worker's part of a listener.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) id: u64,
    /// As it is configured, maybe with port 0.
    address: SocketAddr,
    /// How its clients were spoken with last.
    transport: RefCell<Transport>,
    pub(crate) counters: Arc<ListenerCounters>,
    pub(crate) told: Cell<usize>,
    retired: Cell<bool>,
    /// The socket is closed.
    gone: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Listening {
    pub(crate) fn new(
        id: u64,
        address: SocketAddr,
        transport: Transport,
        counters: Arc<ListenerCounters>,
    ) -> Listening {
        Listening {
            id,
            address,
            transport: RefCell::new(transport),
            counters,
            told: Cell::new(0),
            retired: Cell::new(false),
            gone: Cell::new(false),
            waker: RefCell::new(None),
        }
    }

    /// Takes what is queued, then closes.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    pub(crate) fn is_gone(&self) -> bool {
        self.gone.get()
    }

    /// The routes that its clients may have.
    #[inline]
    pub(crate) fn scope(&self, table: &Table) -> Scope {
        table.scope(self.address)
    }

    /// How the next client is spoken with. The table has a retired listener no more, and it ends as it was.
    fn transport(&self, table: &Table) -> Transport {
        if let Some(transport) = table.transport(self.address) {
            self.transport.replace(transport.clone());
        }
        self.transport.borrow().clone()
    }
}

/// Accepts clients until the listener is retired and its queue is empty.
pub(crate) async fn accept(worker: Rc<Worker>, listening: Rc<Listening>, socket: TcpListener) {
    loop {
        let accepted = poll_fn(|cx| match socket.poll_accept(cx) {
            Poll::Ready(accepted) => Poll::Ready(Some(accepted)),
            Poll::Pending if listening.is_retired() => Poll::Ready(None),
            Poll::Pending => {
                *listening.waker.borrow_mut() = Some(cx.waker().clone());
                Poll::Pending
            }
        })
        .await;
        match accepted {
            Some(Ok((stream, _))) => admit(&worker, &listening, stream),
            Some(Err(error)) if is_exhausted(&error) => {
                worker.upstreams.accept_pauses.add(1);
                pause(&worker, &listening).await;
            }
            // The client gave up while it was queued.
            Some(Err(_)) => {}
            None => break,
        }
    }
    // The poll may not have told yet what is queued: only the socket knows. To close it with clients in its queue
    // would reset them.
    if let Ok(socket) = socket.into_std() {
        while let Ok((stream, _)) = socket.accept() {
            let nonblocking = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = nonblocking {
                admit(&worker, &listening, stream);
            }
        }
    }
    listening.gone.set(true);
}

fn admit(worker: &Rc<Worker>, listening: &Rc<Listening>, stream: TcpStream) {
    listening.counters.accepted.add(1);
    // Answers leave in one write each; without this, the second of two small ones would wait for an acknowledgement.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let snapshot = worker.snapshot();
    let transport = listening.transport(&snapshot.table);
    if worker.shared.enter(snapshot.table.limits.connections) {
        let seat = Seat::take(Rc::clone(worker), Rc::clone(listening));
        match transport {
            Transport::Plain => spawn_local(serve(seat, stream)),
            Transport::Tls(config) => spawn_local(serve_secure(seat, stream, config)),
            Transport::ByName(by_name) => spawn_local(serve_by_name(seat, stream, by_name)),
        };
        return;
    }
    listening.counters.failure(Cause::ConnectionLimit);
    // A handshake is dearer than an exchange: there is none only to say no.
    if listening.told.get() < TOLD_MAX && matches!(transport, Transport::Plain) {
        spawn_local(refuse_connection(Rc::clone(worker), Rc::clone(listening), stream));
    }
}

/// Whether trying again at once would spin.
fn is_exhausted(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

async fn pause(worker: &Worker, listening: &Listening) {
    let timer = worker.wheel.timer(listening.id);
    timer.arm(&worker.wheel, 1);
    poll_fn(|cx| if timer.poll_over(cx) { Poll::Ready(()) } else { Poll::Pending }).await;
    worker.wheel.forget(&timer);
}

#[cfg(test)]
mod tests {
    use weir_config::{Batch, Change, Key, Listener, Policy, Resource, State};
    use weir_io::{WorkerOptions, spawn_worker};

    use super::*;
    use crate::worker::Shared;

    /// Else a worker that is told to drain could end between accepting a client and serving it.
    #[test]
    fn a_client_counts_before_its_task_runs() {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = Resource::Listener(Listener::plain(address));
        let changes = vec![Change::Put(Key::Listener("l".to_owned()), listener)];
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        let table = State::default().apply(batch).table.unwrap();
        let main = move || async move {
            let worker = Rc::new(Worker::new(0, Arc::new(Shared::new(table)), Arc::default()));
            let listening = Rc::new(Listening::new(0, address, Transport::Plain, Arc::default()));
            let socket = TcpListener::bind(address).await.unwrap();
            let client = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
            let (stream, _) = socket.accept().await.unwrap();
            admit(&worker, &listening, stream);
            let counted = worker.open_connections.get();
            drop(client);
            counted
        };
        let options = WorkerOptions { name: "test".to_owned(), ..WorkerOptions::default() };
        assert_eq!(spawn_worker(options, main).unwrap().join().unwrap(), 1);
    }
}
