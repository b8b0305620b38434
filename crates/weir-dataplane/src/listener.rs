//! The lifetime of a listener in one worker, from the first client to the last, and the states of the sockets that the
//! worker accepts from.
//!
//! ```text
//! open --> closing: the kernel sends no new clients to the socket; queued clients are accepted, then it is closed
//!   +----> released: other workers or processes accept from this socket; it stays open
//! ```

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use weir_config::{ListenerId, Scope, Table, Transport};
use weir_io::pass_over_newcomers;

use crate::addresses::AddressSeat;
use crate::cause::Cause;
use crate::connection::{Seat, count_failure, refuse_connection, serve};
use crate::counters::ListenerCounters;
use crate::exhaustion::{Exhaustion, is_exhausted, pause};
use crate::passthrough::serve_by_name;
use crate::program_log::seldom;
use crate::proxied::serve_proxied;
use crate::proxy_header::Addresses;
use crate::secure::serve_secure;
use crate::spread::{Handed, Handoff, HandoffTarget, HostSeat, Spread};
use crate::worker::{LAST_REQUEST_TICKS, Worker};

/// At most this many rejected clients receive an error response at one time. Others are closed without a response.
const REJECTING_MAX: usize = 32;

/// One worker's state of a listener.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) id: u64,
    listener: ListenerId,
    /// The transport of the most recent client. A retired listener keeps using it, because the table no longer contains
    /// the listener.
    transport: RefCell<Transport>,
    /// Whether the most recent client had to start with a PROXY protocol header.
    wants_header: Cell<bool>,
    /// Whether the most recent client could close its side and still get a response.
    half_close: Cell<bool>,
    pub(crate) counters: Arc<ListenerCounters>,
    pub(crate) rejecting: Cell<usize>,
    spread: Arc<Spread>,
    /// Where other workers hand over clients for this listener.
    target: Arc<HandoffTarget>,
    retired: Cell<bool>,
    sockets: RefCell<Vec<Rc<AcceptingSocket>>>,
}

/// A socket that a worker accepts from.
#[derive(Debug)]
pub(crate) struct AcceptingSocket {
    number: usize,
    /// Whether another process also holds the socket, which keeps it open when this process exits.
    is_lent: bool,
    state: Cell<AcceptState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AcceptState {
    Open,
    Closing,
    Released,
}

impl Listening {
    pub(crate) fn new(
        id: u64,
        listener: ListenerId,
        table: &Table,
        counters: Arc<ListenerCounters>,
        (spread, target): (Arc<Spread>, Arc<HandoffTarget>),
    ) -> Listening {
        Listening {
            id,
            listener,
            transport: RefCell::new(table.transport(listener).cloned().unwrap_or_default()),
            wants_header: Cell::new(table.requires_proxy_header(listener).unwrap_or_default()),
            half_close: Cell::new(table.allows_half_close(listener).unwrap_or_default()),
            counters,
            rejecting: Cell::new(0),
            spread,
            target,
            retired: Cell::new(false),
            sockets: RefCell::default(),
        }
    }

    /// Adds a socket to accept clients from.
    pub(crate) fn add_socket(&self, number: usize, is_lent: bool) -> Rc<AcceptingSocket> {
        let state = Cell::new(AcceptState::Open);
        let socket = Rc::new(AcceptingSocket { number, is_lent, state, waker: RefCell::default() });
        self.sockets.borrow_mut().push(Rc::clone(&socket));
        socket
    }

    /// Closes the listener. This process's own sockets are closed once their queued clients are accepted. Sockets that
    /// another process also holds are released at once.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        self.spread.close(&self.target);
        for socket in self.sockets.borrow().iter() {
            socket.turn(if socket.is_lent { AcceptState::Released } else { AcceptState::Closing });
        }
    }

    /// Stops accepting from the sockets with these numbers, or from all sockets for `None`.
    pub(crate) fn release(&self, numbers: Option<&[usize]>) {
        if numbers.is_none() {
            self.spread.close(&self.target);
        }
        let is_chosen =
            |socket: &&Rc<AcceptingSocket>| numbers.is_none_or(|numbers| numbers.contains(&socket.number));
        for socket in self.sockets.borrow().iter().filter(is_chosen) {
            socket.turn(AcceptState::Released);
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    /// Whether clients may still arrive, through one of the listener's sockets or from another worker.
    pub(crate) fn is_open(&self) -> bool {
        !self.sockets.borrow().is_empty() || self.target.is_open()
    }

    /// Reserves a slot at another worker if that worker should serve the next client. `None` if this worker serves the
    /// client itself. Always `None` while this worker or the listener is closing.
    fn handoff(&self, worker: &Worker) -> Option<Handoff> {
        if worker.is_ending() || self.is_retired() {
            None
        } else {
            self.spread.reserve_elsewhere(&worker.host)
        }
    }

    fn forget(&self, socket: &Rc<AcceptingSocket>) {
        self.sockets.borrow_mut().retain(|other| !Rc::ptr_eq(other, socket));
    }

    /// The routes that clients of this listener can match.
    #[inline]
    pub(crate) fn scope(&self, table: &Table) -> Scope {
        table.scope(self.listener)
    }

    /// The transport for the next client. A retired listener keeps its last transport, because the table no longer
    /// contains the listener.
    pub(crate) fn transport(&self, table: &Table) -> Transport {
        if let Some(transport) = table.transport(self.listener) {
            self.transport.replace(transport.clone());
        }
        self.transport.borrow().clone()
    }

    /// Whether the next client starts with a PROXY protocol header. A retired listener keeps its last value.
    fn wants_header(&self, table: &Table) -> bool {
        if let Some(wants_header) = table.requires_proxy_header(self.listener) {
            self.wants_header.set(wants_header);
        }
        self.wants_header.get()
    }

    /// Whether clients may close their side and still get a response. A retired listener keeps its last value.
    pub(crate) fn half_close(&self, table: &Table) -> bool {
        if let Some(half_close) = table.allows_half_close(self.listener) {
            self.half_close.set(half_close);
        }
        self.half_close.get()
    }
}

impl Drop for Listening {
    /// Stops handovers of clients from other workers to this one, no matter how this worker ends.
    fn drop(&mut self) {
        self.spread.close(&self.target);
    }
}

impl AcceptingSocket {
    /// Changes the state, unless the socket is released: a released socket stays released.
    fn turn(&self, state: AcceptState) {
        if self.state.get() != AcceptState::Released {
            self.state.set(state);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Accepts the next client. `None` once the socket is closing or released.
    fn poll_accept(
        &self,
        socket: &TcpListener,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<(TcpStream, SocketAddr)>>> {
        if self.state.get() != AcceptState::Open {
            return Poll::Ready(None);
        }
        let accepted = socket.poll_accept(cx);
        if accepted.is_pending() {
            *self.waker.borrow_mut() = Some(cx.waker().clone());
        }
        accepted.map(Some)
    }
}

/// Accepts clients from `socket` until `accepting` is closed or released.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    accepting: Rc<AcceptingSocket>,
    socket: TcpListener,
) {
    let mut exhaustion = Exhaustion::default();
    while let Some(accepted) = poll_fn(|cx| exhaustion.poll(|| accepting.poll_accept(&socket, cx))).await {
        match accepted {
            Ok(client) => {
                exhaustion = Exhaustion::default();
                welcome(&worker, &listening, client);
            }
            Err(error) if is_exhausted(&error) => exhaustion.bear(&worker, &listening, &socket).await,
            // The client disconnected while it was queued.
            Err(_) => {}
        }
    }
    if accepting.state.get() == AcceptState::Closing {
        close(&worker, &listening, socket).await;
    }
    listening.forget(&accepting);
}

/// Closes a socket once no client is queued or still connecting. Closing earlier would reset those clients.
async fn close(worker: &Rc<Worker>, listening: &Rc<Listening>, socket: TcpListener) {
    // If the kernel rejects the filter, a client that connects at the last moment is reset.
    let _ = pass_over_newcomers(&socket);
    let timer = worker.wheel.timer(listening.id);
    timer.arm(&worker.wheel, LAST_REQUEST_TICKS);
    let mut exhaustion = Exhaustion::default();
    loop {
        let accepted = poll_fn(|cx| match socket.poll_accept(cx) {
            Poll::Pending if timer.poll_over(cx) => Poll::Ready(None),
            accepted => accepted.map(Some),
        })
        .await;
        match accepted {
            Some(Ok(client)) => admit(worker, listening, worker.host.seat(), client),
            Some(Err(error)) if is_exhausted(&error) => exhaustion.bear(worker, listening, &socket).await,
            Some(Err(_)) => {}
            None => break,
        }
    }
    worker.wheel.forget(&timer);
    // The poll may not have reported all queued clients yet, so accept them without the poll.
    if let Ok(socket) = socket.into_std() {
        while let Ok((stream, peer)) = socket.accept() {
            let nonblocking = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = nonblocking {
                admit(worker, listening, worker.host.seat(), (stream, peer));
            }
        }
    }
}

/// Admits a client at this worker. If the worker would then have too many clients compared with the others, hands the
/// client to the worker with the fewest clients.
fn welcome(worker: &Rc<Worker>, listening: &Rc<Listening>, client: (TcpStream, SocketAddr)) {
    let Some(handoff) = listening.handoff(worker) else {
        return admit(worker, listening, worker.host.seat(), client);
    };
    let (stream, peer) = client;
    // From here on this worker's poll no longer watches the socket.
    if let Ok(stream) = stream.into_std() {
        listening.counters.handed.add(1);
        handoff.send(listening.id, stream, peer);
    }
}

/// Admits a client that another worker has accepted.
pub(crate) fn take_in(worker: &Rc<Worker>, handed: Handed) {
    // The worker keeps the listener until all clients that other workers handed over have arrived.
    let Some(listening) = worker.listening(handed.listening) else { return };
    // This fails only if the kernel has no memory to watch one more socket.
    if let Ok(stream) = TcpStream::from_std(handed.stream) {
        admit(worker, &listening, handed.seat, (stream, handed.peer));
    }
}

fn admit(
    worker: &Rc<Worker>,
    listening: &Rc<Listening>,
    of_worker: HostSeat,
    (stream, peer): (TcpStream, SocketAddr),
) {
    listening.counters.accepted.add(1);
    // Without this, the second of two small responses would wait for an acknowledgement.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let snapshot = worker.snapshot();
    match place(worker, listening, peer) {
        Ok(of_address) => seat(worker, listening, (of_worker, of_address), (stream, peer)),
        Err(Cause::ConnectionLimit) if worker.wheel.end_idle(LAST_REQUEST_TICKS, snapshot.ticks.idle) => {
            seldom!(
                log::Level::Warn,
                "`limits.connections` reached: closing idle client connections to accept new ones"
            );
            let (worker, listening) = (Rc::clone(worker), Rc::clone(listening));
            spawn_local(admit_behind(worker, listening, of_worker, (stream, peer)));
        }
        Err(cause) => reject(worker, listening, (stream, peer), cause),
    }
}

/// Waits for the selected idle connection to close, then admits the client. Rejects the client if that connection stays
/// open because a request has just arrived on it.
async fn admit_behind(
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    of_worker: HostSeat,
    client: (TcpStream, SocketAddr),
) {
    let find_place = || place(&worker, &listening, client.1);
    tokio::task::yield_now().await;
    let mut found = find_place();
    if found.is_err() {
        pause(&worker, &listening).await;
        found = find_place();
    }
    match found {
        Ok(of_address) => seat(&worker, &listening, (of_worker, of_address), client),
        Err(cause) => reject(&worker, &listening, client, cause),
    }
}

/// Starts to serve an admitted client.
fn seat(
    worker: &Rc<Worker>,
    listening: &Rc<Listening>,
    places: (HostSeat, Option<AddressSeat>),
    (stream, peer): (TcpStream, SocketAddr),
) {
    let table = &worker.snapshot().table;
    let destination = table.sends_proxy_protocol.then(|| stream.local_addr().ok()).flatten();
    let addresses = destination.map(|destination| Addresses { source: peer, destination });
    let seat = Seat::take(Rc::clone(worker), Rc::clone(listening), (peer, addresses), places);
    match listening.transport(table) {
        transport if listening.wants_header(table) => spawn_local(serve_proxied(seat, stream, transport)),
        Transport::Plain => spawn_local(serve(seat, stream)),
        Transport::Tls(config) => spawn_local(serve_secure(seat, stream, config)),
        Transport::ByName(by_name) => spawn_local(serve_by_name(seat, stream, by_name)),
    };
}

/// Counts a rejected client, and sends it a response if that is cheap.
pub(crate) fn reject(
    worker: &Rc<Worker>,
    listening: &Rc<Listening>,
    (stream, peer): (TcpStream, SocketAddr),
    cause: Cause,
) {
    count_failure(worker, listening, peer, cause);
    // A response to a TLS client needs a handshake, which costs more than serving a request. So rejected TLS clients
    // get no response.
    let is_plain = matches!(listening.transport(&worker.snapshot().table), Transport::Plain);
    if is_plain && listening.rejecting.get() < REJECTING_MAX {
        spawn_local(refuse_connection(Rc::clone(worker), Rc::clone(listening), stream, peer, cause));
    }
}

/// Counts a new connection toward `limits.connections`. If the client address is known and limited, also counts it
/// toward the limit of that address. The error names the limit that is reached.
fn place(worker: &Worker, listening: &Listening, peer: SocketAddr) -> Result<Option<AddressSeat>, Cause> {
    let table = &worker.snapshot().table;
    let of_address = match listening.wants_header(table) {
        // The client's address is known only after the PROXY protocol header.
        true => None,
        false => AddressSeat::take_any(&worker.shared, peer, table.limits.connections_per_address)?,
    };
    if worker.shared.enter(table.limits.connections) { Ok(of_address) } else { Err(Cause::ConnectionLimit) }
}

#[cfg(test)]
mod tests {
    use weir_config::{Batch, Change, Key, Listener, Policy, Resource, State};
    use weir_io::{WorkerOptions, spawn_worker};

    use super::*;
    use crate::spread::Host;
    use crate::worker::Shared;

    /// A client must be counted before its task runs. Otherwise the worker could drain and end before it serves the
    /// client.
    #[test]
    fn a_client_counts_before_its_task_runs() {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let listener = Resource::Listener(Listener::plain(address));
        let changes = vec![Change::Put(Key::Listener("l".to_owned()), listener)];
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        let table = State::default().apply(batch).table.unwrap();
        let main = move || async move {
            let (host, _handed) = Host::new();
            let worker =
                Rc::new(Worker::new(0, Arc::new(Shared::new(Arc::clone(&table))), Arc::default(), host));
            let listening = Rc::new(Listening::new(
                0,
                address.into(),
                &table,
                Arc::new(ListenerCounters::of("l")),
                (Arc::default(), HandoffTarget::new(&worker.host)),
            ));
            let socket = TcpListener::bind(address).await.unwrap();
            let client = TcpStream::connect(socket.local_addr().unwrap()).await.unwrap();
            let accepted = socket.accept().await.unwrap();
            welcome(&worker, &listening, accepted);
            let counted = worker.host.connections();
            drop(client);
            counted
        };
        let options = WorkerOptions { name: "test".to_owned(), ..WorkerOptions::default() };
        assert_eq!(spawn_worker(options, main).unwrap().join().unwrap(), 1);
    }
}
