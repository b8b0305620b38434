//! A worker: one thread that owns everything it touches per request.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::time::Duration;

use arc_swap::{ArcSwap, Cache};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver};
use tokio::task::spawn_local;
use weir_config::{ListenerId, Table};
use weir_io::{PreciseTimer, Reserve, bind_thread, mono_ns};

use crate::addresses::Addresses;
use crate::backend_states::BackendStates;
use crate::buffer::Buffers;
use crate::cause::Cause;
use crate::counters::{ListenerCounters, UpstreamCounters};
use crate::forwarding::Names;
use crate::gateway::Phase;
use crate::listener::{Listening, accept, take_in};
use crate::log::{LogWriter, WorkerLog};
use crate::offload::Offload;
use crate::overload::{OverloadState, Pressure};
use crate::peers::Peers;
use crate::respond::DateText;
use crate::series::SeriesBook;
use crate::snapshot::Snapshot;
use crate::sockets::DealtSocket;
use crate::spread::{Berth, Handed, Host, Spread};
use crate::turns::Turns;
use crate::wheel::{NEVER, TICK, Wheel, ticks};

/// How long an idle connection may still send a request once its listener closes, and a client may still be on the way
/// to a socket that closes. One that is at it gets `Connection: close` with the answer; one that is not loses nothing.
pub(crate) const LAST_REQUEST_TICKS: u32 = 10;

/// How long tasks have to tell of what is cut when the time to drain is over. They wait for nothing any more.
const CUT_TICKS: u32 = 10;

/// How often kept upstream connections are looked through.
const SWEEP_TICKS: u32 = 10;

/// What all workers share. Nothing of it is written per request.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) table: ArcSwap<Table>,
    pub(crate) backends: BackendStates,
    /// A `Phase`.
    pub(crate) phase: AtomicU8,
    /// Client connections of the process.
    connections: Connections,
    /// The same by the clients' addresses, where these are limited.
    pub(crate) addresses: Addresses,
    pub(crate) series: SeriesBook,
    pub(crate) log: LogWriter,
    pub(crate) overload: OverloadState,
    pub(crate) offload: Offload,
    pub(crate) peers: Peers,
}

/// On cache lines of its own: it is written for each connection, and its neighbours are read for each request.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Connections(AtomicUsize);

/// Where the cache of the table looks.
#[derive(Debug)]
struct TableOf(Arc<Shared>);

impl std::ops::Deref for TableOf {
    type Target = ArcSwap<Table>;

    fn deref(&self) -> &ArcSwap<Table> {
        &self.0.table
    }
}

/// What the gateway tells a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serve the clients who come by these sockets, too.
    Listen {
        id: u64,
        listener: ListenerId,
        counters: Arc<ListenerCounters>,
        spread: (Arc<Spread>, Arc<Berth>),
        sockets: Vec<DealtSocket>,
    },
    /// Look which table is in force, without waiting for a request.
    Renew,
    /// End idle connections to this backend, as many as requests wait for.
    GiveWay { backend: String },
    /// Accept no more from these sockets of the listener, or from any; others do.
    Release { id: u64, numbers: Option<Vec<usize>> },
    /// Take who is on the way to this listener, then close its sockets; end its connections once they are idle.
    Retire { id: u64 },
    /// Hand the lines of the access log over that there are, then drop this.
    HandLogOver(Sender<()>),
    /// Run on these CPUs.
    Bind { cpus: Vec<usize> },
    /// Release all sockets, then end once the last client has gone by itself.
    Leave,
    /// Retire all listeners after this time, then end.
    Drain { delay: Duration },
}

/// What one worker has.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) upstreams: Arc<UpstreamCounters>,
    pub(crate) wheel: Wheel,
    pub(crate) buffers: Buffers,
    pub(crate) date: DateText,
    pub(crate) log: WorkerLog,
    pub(crate) names: Names,
    /// The monotonic clock as it was at the last tick, for what need not be exact.
    pub(crate) now_ns: Cell<u64>,
    /// Whether new requests are turned away.
    pub(crate) pressure: Pressure,
    /// In which handshakes take their steps.
    pub(crate) turns: Turns,
    /// Counts its connections, and takes those that other workers hand over.
    pub(crate) host: Host,
    /// Copies for mirrors that are on their way.
    pub(crate) copies_in_flight: Cell<usize>,
    /// For clients that are told that no descriptor is left.
    pub(crate) reserve: Reserve,
    /// Itself, once it runs: for tasks that outlive the one that starts them.
    own: OnceCell<Weak<Worker>>,
    snapshot: RefCell<Rc<Snapshot>>,
    /// The version of the names that the pools were made of.
    names_seen: Cell<u64>,
    /// Tells by comparing a pointer whether the table has changed.
    newest: RefCell<Cache<TableOf, Arc<Table>>>,
    listenings: RefCell<Vec<Rc<Listening>>>,
    /// Answers end their connections.
    ends: Cell<bool>,
    /// The tick from which on no client is let in.
    closes_at: Cell<u32>,
    is_closed: Cell<bool>,
    /// The tick at which it cuts what is open; none for one that leaves.
    drained_at: Cell<u32>,
}

impl Worker {
    pub(crate) fn new(
        index: usize,
        shared: Arc<Shared>,
        upstreams: Arc<UpstreamCounters>,
        host: Host,
    ) -> Worker {
        let table = shared.table.load_full();
        upstreams.table_version.set(table.version);
        let snapshot = Rc::new(Snapshot::new(table, None, &shared.backends, index));
        Worker {
            index,
            upstreams,
            wheel: Wheel::default(),
            buffers: Buffers::default(),
            date: DateText::default(),
            log: shared.log.of_worker(),
            names: Names::default(),
            now_ns: Cell::new(mono_ns()),
            pressure: Pressure::default(),
            turns: Turns::default(),
            host,
            copies_in_flight: Cell::new(0),
            reserve: Reserve::new(),
            own: OnceCell::new(),
            snapshot: RefCell::new(snapshot),
            names_seen: Cell::new(0),
            newest: RefCell::new(Cache::new(TableOf(Arc::clone(&shared)))),
            listenings: RefCell::default(),
            ends: Cell::new(false),
            closes_at: Cell::new(NEVER),
            is_closed: Cell::new(false),
            drained_at: Cell::new(NEVER),
            shared,
        }
    }

    /// The configuration in force.
    #[inline]
    pub(crate) fn snapshot(&self) -> Rc<Snapshot> {
        let mut newest = self.newest.borrow_mut();
        let newest = newest.load();
        let mut snapshot = self.snapshot.borrow_mut();
        if !Arc::ptr_eq(newest, &snapshot.table) {
            let states = &self.shared.backends;
            *snapshot = Rc::new(Snapshot::new(Arc::clone(newest), Some(&snapshot), states, self.index));
            self.upstreams.table_version.set(newest.version);
        }
        Rc::clone(&snapshot)
    }

    /// Serves until it was told to drain and has.
    ///
    /// Whether it can is told to `started` first.
    pub(crate) async fn run(
        self: Rc<Self>,
        commands: UnboundedReceiver<Command>,
        handed: Receiver<Handed>,
        started: SyncSender<io::Result<()>>,
    ) {
        let _ = self.own.set(Rc::downgrade(&self));
        self.date.refresh();
        let (outcome, timer) = match PreciseTimer::new() {
            Ok(timer) => (Ok(()), Some(timer)),
            Err(error) => (Err(error), None),
        };
        // Who started it waits for this, or has gone and drops the commands, which ends it too.
        let _ = started.send(outcome);
        let Some(timer) = timer else { return };
        spawn_local(Rc::clone(&self).listen_to(commands, handed));
        let keeper = Rc::clone(&self);
        spawn_local(async move { keeper.turns.keep().await });
        let tick_ns = TICK.as_nanos() as u64;
        let mut next_ns = mono_ns() + tick_ns;
        while !self.is_finished() {
            timer.wait_until(next_ns).await;
            // After a long pause the missed ticks are skipped: nobody's time is over sooner for it.
            let now_ns = mono_ns();
            self.now_ns.set(now_ns);
            let late_ns = now_ns.saturating_sub(next_ns);
            next_ns = now_ns.max(next_ns) + tick_ns;
            self.tick(late_ns);
        }
        self.pressure.end(&self.shared.overload);
        self.log.hand_over(&self.upstreams);
    }

    /// Does what it is told, and takes in clients that other workers have accepted.
    async fn listen_to(
        self: Rc<Self>,
        mut commands: UnboundedReceiver<Command>,
        mut handed: Receiver<Handed>,
    ) {
        loop {
            tokio::select! {
                biased;
                command = commands.recv() => match command {
                    Some(command) => self.obey(command),
                    None => break,
                },
                Some(client) = handed.recv() => {
                    // It was told of the client's listener before anybody could hand it over.
                    while let Ok(command) = commands.try_recv() {
                        self.obey(command);
                    }
                    take_in(&self, client);
                }
            }
        }
        // Without a gateway there is nobody left to serve for, but those on the way.
        self.drain(Duration::ZERO);
        while let Some(client) = handed.recv().await {
            take_in(&self, client);
        }
    }

    /// Itself, for a task that outlives the one that starts it; `None` before it runs.
    pub(crate) fn own(&self) -> Option<Rc<Worker>> {
        self.own.get().and_then(Weak::upgrade)
    }

    /// Whether answers should end their connections. All workers see it from the moment on in which the gateway says
    /// that it drains, each before it is told.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.ends.get() || self.shared.phase.load(Ordering::Relaxed) != Phase::Serving as u8
    }

    /// Whether no client is let in any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// The cause that is told of what failed: when the time to drain is over all time limits are, and none of them is why.
    pub(crate) fn cause_told(&self, cause: Cause) -> Cause {
        if cause.is_timeout() && self.wheel.is_over() { Cause::Drained } else { cause }
    }

    /// Does what is due, `late_ns` behind its time.
    fn tick(&self, late_ns: u64) {
        self.wheel.turn();
        self.date.refresh();
        self.see_names();
        if self.wheel.now() >= self.closes_at.get() {
            self.close();
        }
        if self.wheel.now() >= self.drained_at.get() && !self.wheel.is_over() {
            self.cut();
        }
        self.log.hand_over(&self.upstreams);
        let snapshot = self.snapshot();
        snapshot.give_way();
        self.upstreams.lag_ns.set(late_ns);
        self.pressure.look(snapshot.table.overload.as_ref(), late_ns, &self.shared.overload, self.index);
        self.host.set_late(self.pressure.is_late());
        if self.wheel.now().is_multiple_of(SWEEP_TICKS) {
            snapshot.sweep(self.wheel.now());
            self.listenings.borrow_mut().retain(|l| l.is_open() || !l.is_retired());
        }
    }

    /// Makes the pools anew where names stand for other addresses than before.
    fn see_names(&self) {
        let version = self.shared.backends.names.version();
        if self.names_seen.replace(version) != version {
            let mut snapshot = self.snapshot.borrow_mut();
            let (table, states) = (Arc::clone(&snapshot.table), &self.shared.backends);
            *snapshot = Rc::new(Snapshot::new(table, Some(&snapshot), states, self.index));
        }
    }

    fn obey(self: &Rc<Self>, command: Command) {
        match command {
            Command::Listen { id, listener, counters, spread, sockets } => {
                self.listen(id, listener, counters, spread, sockets);
            }
            Command::Release { id, numbers } => {
                if let Some(listening) = self.listening(id) {
                    listening.release(numbers.as_deref());
                }
            }
            Command::Renew => drop(self.snapshot()),
            Command::GiveWay { backend } => self.snapshot().give_way_at(&backend),
            Command::Retire { id } => {
                if let Some(listening) = self.listening(id) {
                    listening.retire();
                }
                self.wheel.hurry_idle(Some(id), LAST_REQUEST_TICKS);
            }
            Command::HandLogOver(_done) => self.log.hand_over(&self.upstreams),
            Command::Bind { cpus } => {
                // Where it can't be, it runs where it did.
                let _ = bind_thread(&cpus);
            }
            Command::Leave => self.leave(),
            Command::Drain { delay } => self.drain(delay),
        }
    }

    pub(crate) fn listening(&self, id: u64) -> Option<Rc<Listening>> {
        self.listenings.borrow().iter().find(|listening| listening.id == id).cloned()
    }

    fn listen(
        self: &Rc<Self>,
        id: u64,
        listener: ListenerId,
        counters: Arc<ListenerCounters>,
        spread: (Arc<Spread>, Arc<Berth>),
        sockets: Vec<DealtSocket>,
    ) {
        let listening = self.listening(id).unwrap_or_else(|| {
            let table = &self.snapshot().table;
            let listening = Rc::new(Listening::new(id, listener, table, counters, spread));
            self.listenings.borrow_mut().push(Rc::clone(&listening));
            listening
        });
        for DealtSocket { number, socket, is_lent } in sockets {
            // It fails only where the kernel has no memory left to watch one more socket.
            let Ok(socket) = tokio::net::TcpListener::from_std(socket) else { continue };
            let door = listening.add_door(number, is_lent);
            spawn_local(accept(Rc::clone(self), Rc::clone(&listening), door, socket));
        }
    }

    /// Its clients go on to the end of their connections: nothing but the number of workers has changed.
    fn leave(&self) {
        self.ends.set(true);
        for listening in self.listenings.borrow().iter() {
            listening.release(None);
        }
    }

    fn drain(&self, delay: Duration) {
        self.ends.set(true);
        let now = self.wheel.now();
        if self.drained_at.get() == NEVER {
            self.drained_at.set(now + ticks(self.snapshot().table.drain.timeout.0));
        }
        // Whoever drains again does so without the delay, or with the same.
        if delay.is_zero() {
            self.close();
        } else {
            self.closes_at.set(self.closes_at.get().min(now + ticks(delay)));
        }
    }

    /// Lets no client in any more, but for those on the way.
    fn close(&self) {
        self.closes_at.set(NEVER);
        if self.is_closed.replace(true) {
            return;
        }
        for listening in self.listenings.borrow().iter() {
            listening.retire();
        }
        self.wheel.hurry_idle(None, LAST_REQUEST_TICKS);
    }

    /// The time to drain is over: whoever waits for something fails by that, and tells so.
    fn cut(&self) {
        self.upstreams.cut_by_drain.add(self.host.connections() as u64);
        self.wheel.end();
        self.close();
    }

    fn is_finished(&self) -> bool {
        if self.wheel.now() >= self.drained_at.get().saturating_add(CUT_TICKS) {
            return true;
        }
        let is_open = || self.listenings.borrow().iter().any(|l| l.is_open());
        let may_end = self.wheel.is_over() || self.ends.get() && !is_open();
        may_end && self.host.connections() == 0
    }
}

impl Shared {
    pub(crate) fn new(table: Arc<Table>) -> Shared {
        Shared {
            table: ArcSwap::new(table),
            phase: AtomicU8::new(Phase::Serving as u8),
            connections: Connections::default(),
            addresses: Addresses::default(),
            backends: BackendStates::default(),
            series: SeriesBook::default(),
            log: LogWriter::default(),
            overload: OverloadState::default(),
            offload: Offload::default(),
            peers: Peers::default(),
        }
    }

    /// A place among the process's connections, given back by [`Shared::leave`].
    pub(crate) fn enter(&self, most: u32) -> bool {
        let is_free = self.connections.0.fetch_add(1, Ordering::Relaxed) < most as usize;
        if !is_free {
            self.leave();
        }
        is_free
    }

    pub(crate) fn leave(&self) {
        self.connections.0.fetch_sub(1, Ordering::Relaxed);
    }
}
