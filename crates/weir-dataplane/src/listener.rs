//! A listener at one worker, from its first client to its last, and the sockets that the worker accepts from.
//!
//! ```text
//! open --> closing: nobody new comes; who is on the way is let in, then the socket is closed
//!   +----> released: others accept from this socket, now or soon; it is left as it is
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
use crate::spread::{Berth, Handed, HostSeat, Spread, Way};
use crate::worker::{LAST_REQUEST_TICKS, Worker};

/// Clients beyond a limit that are told so at one time; the others are closed without a word.
const TOLD_MAX: usize = 32;

/// One worker's part of a listener.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) id: u64,
    listener: ListenerId,
    /// How its clients were spoken with last.
    transport: RefCell<Transport>,
    /// Whether its clients began with a header of the PROXY protocol last.
    wants_header: Cell<bool>,
    /// Whether its clients could end their side and still be answered last.
    half_close: Cell<bool>,
    pub(crate) counters: Arc<ListenerCounters>,
    pub(crate) told: Cell<usize>,
    spread: Arc<Spread>,
    /// Where other workers hand it their clients.
    berth: Arc<Berth>,
    retired: Cell<bool>,
    doors: RefCell<Vec<Rc<Door>>>,
}

/// A socket that a worker accepts from.
#[derive(Debug)]
pub(crate) struct Door {
    number: usize,
    /// Others keep it when this process ends.
    is_lent: bool,
    state: Cell<DoorState>,
    waker: RefCell<Option<Waker>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DoorState {
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
        (spread, berth): (Arc<Spread>, Arc<Berth>),
    ) -> Listening {
        Listening {
            id,
            listener,
            transport: RefCell::new(table.transport(listener).cloned().unwrap_or_default()),
            wants_header: Cell::new(table.requires_proxy_header(listener).unwrap_or_default()),
            half_close: Cell::new(table.allows_half_close(listener).unwrap_or_default()),
            counters,
            told: Cell::new(0),
            spread,
            berth,
            retired: Cell::new(false),
            doors: RefCell::default(),
        }
    }

    /// Another socket, which its clients come by.
    pub(crate) fn add_door(&self, number: usize, is_lent: bool) -> Rc<Door> {
        let state = Cell::new(DoorState::Open);
        let door = Rc::new(Door { number, is_lent, state, waker: RefCell::default() });
        self.doors.borrow_mut().push(Rc::clone(&door));
        door
    }

    /// Ends: takes who is on the way by the sockets that are ours, and closes them.
    pub(crate) fn retire(&self) {
        self.retired.set(true);
        self.spread.close(&self.berth);
        for door in self.doors.borrow().iter() {
            door.turn(if door.is_lent { DoorState::Released } else { DoorState::Closing });
        }
    }

    /// Accepts no more from these sockets, or from any.
    pub(crate) fn release(&self, numbers: Option<&[usize]>) {
        if numbers.is_none() {
            self.spread.close(&self.berth);
        }
        let is_chosen = |door: &&Rc<Door>| numbers.is_none_or(|numbers| numbers.contains(&door.number));
        for door in self.doors.borrow().iter().filter(is_chosen) {
            door.turn(DoorState::Released);
        }
    }

    pub(crate) fn is_retired(&self) -> bool {
        self.retired.get()
    }

    /// Whether clients may still come, by one of its sockets or from another worker.
    pub(crate) fn is_open(&self) -> bool {
        !self.doors.borrow().is_empty() || self.berth.is_open()
    }

    /// The way for a client to a worker that should have it; who ends sees to the last clients itself.
    fn way_elsewhere(&self, worker: &Worker) -> Option<Way> {
        if worker.is_ending() || self.is_retired() { None } else { self.spread.way_from(&worker.host) }
    }

    fn forget(&self, door: &Rc<Door>) {
        self.doors.borrow_mut().retain(|other| !Rc::ptr_eq(other, door));
    }

    /// The routes that its clients may have.
    #[inline]
    pub(crate) fn scope(&self, table: &Table) -> Scope {
        table.scope(self.listener)
    }

    /// How the next client is spoken with. The table has a retired listener no more, and it ends as it was.
    pub(crate) fn transport(&self, table: &Table) -> Transport {
        if let Some(transport) = table.transport(self.listener) {
            self.transport.replace(transport.clone());
        }
        self.transport.borrow().clone()
    }

    /// Whether the next client begins with a header of the PROXY protocol; a retired listener ends as it was.
    fn wants_header(&self, table: &Table) -> bool {
        if let Some(wants_header) = table.requires_proxy_header(self.listener) {
            self.wants_header.set(wants_header);
        }
        self.wants_header.get()
    }

    /// Whether clients may end their side and still be answered; a retired listener ends as it was.
    pub(crate) fn half_close(&self, table: &Table) -> bool {
        if let Some(half_close) = table.allows_half_close(self.listener) {
            self.half_close.set(half_close);
        }
        self.half_close.get()
    }
}

impl Drop for Listening {
    /// A worker that ends in whatever way is given no more clients.
    fn drop(&mut self) {
        self.spread.close(&self.berth);
    }
}

impl Door {
    /// What was released stays so.
    fn turn(&self, state: DoorState) {
        if self.state.get() != DoorState::Released {
            self.state.set(state);
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The next client; `None` once the door is open no more.
    fn poll_accept(
        &self,
        socket: &TcpListener,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<(TcpStream, SocketAddr)>>> {
        if self.state.get() != DoorState::Open {
            return Poll::Ready(None);
        }
        let accepted = socket.poll_accept(cx);
        if accepted.is_pending() {
            *self.waker.borrow_mut() = Some(cx.waker().clone());
        }
        accepted.map(Some)
    }
}

/// Accepts clients from a socket until its door is open no more.
pub(crate) async fn accept(
    worker: Rc<Worker>,
    listening: Rc<Listening>,
    door: Rc<Door>,
    socket: TcpListener,
) {
    let mut exhaustion = Exhaustion::default();
    while let Some(accepted) = poll_fn(|cx| exhaustion.poll(|| door.poll_accept(&socket, cx))).await {
        match accepted {
            Ok(client) => {
                exhaustion = Exhaustion::default();
                welcome(&worker, &listening, client);
            }
            Err(error) if is_exhausted(&error) => exhaustion.bear(&worker, &listening, &socket).await,
            // The client gave up while it was queued.
            Err(_) => {}
        }
    }
    if door.state.get() == DoorState::Closing {
        close(&worker, &listening, socket).await;
    }
    listening.forget(&door);
}

/// Closes a socket with nobody in its queue or half-way into it: to close it with clients there would reset them.
async fn close(worker: &Rc<Worker>, listening: &Rc<Listening>, socket: TcpListener) {
    // Where the kernel can't, a client that comes in the very last moment is reset.
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
    // The poll may not have told yet what is queued: only the socket knows.
    if let Ok(socket) = socket.into_std() {
        while let Ok((stream, peer)) = socket.accept() {
            let nonblocking = stream.set_nonblocking(true).and_then(|()| TcpStream::from_std(stream));
            if let Ok(stream) = nonblocking {
                admit(worker, listening, worker.host.seat(), (stream, peer));
            }
        }
    }
}

/// Admits a client here, or hands it to the worker that has fewest where this one would have over its share.
fn welcome(worker: &Rc<Worker>, listening: &Rc<Listening>, client: (TcpStream, SocketAddr)) {
    let Some(way) = listening.way_elsewhere(worker) else {
        return admit(worker, listening, worker.host.seat(), client);
    };
    let (stream, peer) = client;
    // From here on nothing of this worker's watches it.
    if let Ok(stream) = stream.into_std() {
        listening.counters.handed.add(1);
        way.send(listening.id, stream, peer);
    }
}

/// Admits a client that another worker has accepted.
pub(crate) fn take_in(worker: &Rc<Worker>, handed: Handed) {
    // As long as somebody is on the way to a listener, it is there.
    let Some(listening) = worker.listening(handed.listening) else { return };
    // It fails only where the kernel has no memory left to watch one more socket.
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
    // Answers leave in one write each; without this, the second of two small ones would wait for an acknowledgement.
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
        Err(cause) => turn_away(worker, listening, (stream, peer), cause),
    }
}

/// Admits a client behind one that ends for it. That one may have sent a request in the last moment, and stays then.
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
        Err(cause) => turn_away(&worker, &listening, client, cause),
    }
}

/// Begins to serve a client, which has its places.
fn seat(
    worker: &Rc<Worker>,
    listening: &Rc<Listening>,
    places: (HostSeat, Option<AddressSeat>),
    (stream, peer): (TcpStream, SocketAddr),
) {
    let table = &worker.snapshot().table;
    let told = table.sends_proxy_protocol.then(|| stream.local_addr().ok()).flatten();
    let addresses = told.map(|destination| Addresses { source: peer, destination });
    let seat = Seat::take(Rc::clone(worker), Rc::clone(listening), (peer, addresses), places);
    match listening.transport(table) {
        transport if listening.wants_header(table) => spawn_local(serve_proxied(seat, stream, transport)),
        Transport::Plain => spawn_local(serve(seat, stream)),
        Transport::Tls(config) => spawn_local(serve_secure(seat, stream, config)),
        Transport::ByName(by_name) => spawn_local(serve_by_name(seat, stream, by_name)),
    };
}

/// Counts a client for whom there is no place, and tells it so where that is cheap.
pub(crate) fn turn_away(
    worker: &Rc<Worker>,
    listening: &Rc<Listening>,
    (stream, peer): (TcpStream, SocketAddr),
    cause: Cause,
) {
    count_failure(worker, listening, peer, cause);
    // A handshake is dearer than an exchange: there is none only to say no.
    let is_plain = matches!(listening.transport(&worker.snapshot().table), Transport::Plain);
    if is_plain && listening.told.get() < TOLD_MAX {
        spawn_local(refuse_connection(Rc::clone(worker), Rc::clone(listening), stream, peer, cause));
    }
}

/// A place among the process's connections, and among those of the client's address where that is known and these are
/// limited.
fn place(worker: &Worker, listening: &Listening, peer: SocketAddr) -> Result<Option<AddressSeat>, Cause> {
    let table = &worker.snapshot().table;
    let of_address = match listening.wants_header(table) {
        // For whom a balancer connects is known only once it has told.
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

    /// Else a worker that is told to drain could end between accepting a client and serving it.
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
                (Arc::default(), Berth::new(&worker.host)),
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
