//! A worker: one thread that owns all data that a request uses.

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
use crate::forwarding::IdSource;
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
use crate::spread::{Handed, HandoffTarget, Host, Spread};
use crate::turns::Turns;
use crate::wheel::{NEVER, TICK, Wheel, ticks};

/// For this many ticks after a listener begins to close, its sockets still accept clients, and its idle connections
/// still accept requests. A request that arrives in time gets a response with `Connection: close`.
pub(crate) const LAST_REQUEST_TICKS: u32 = 10;

/// Maximum number of ticks from the drain timeout until the worker ends. In this time, the remaining connections fail,
/// and their tasks log and count the failures.
const CUT_TICKS: u32 = 10;

/// Ticks between two checks of kept upstream connections.
const SWEEP_TICKS: u32 = 10;

/// State that all workers share. No request writes to it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) table: ArcSwap<Table>,
    pub(crate) backends: BackendStates,
    /// The gateway's [`Phase`], as a number.
    pub(crate) phase: AtomicU8,
    /// The number of client connections of the process.
    connections: Connections,
    /// The number of client connections per client address, if these are limited.
    pub(crate) addresses: Addresses,
    pub(crate) series: SeriesBook,
    pub(crate) log: LogWriter,
    pub(crate) overload: OverloadState,
    pub(crate) offload: Offload,
    pub(crate) peers: Peers,
}

/// A counter on cache lines of its own. Each connection writes to it. On shared cache lines, these writes would slow
/// down requests, which read the neighbouring fields.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Connections(AtomicUsize);

/// Lets the table cache of each worker read the table in [`Shared`].
#[derive(Debug)]
struct TableOf(Arc<Shared>);

impl std::ops::Deref for TableOf {
    type Target = ArcSwap<Table>;

    fn deref(&self) -> &ArcSwap<Table> {
        &self.0.table
    }
}

/// A command of the gateway to a worker.
#[derive(Debug)]
pub(crate) enum Command {
    /// Accept clients from these sockets, in addition to others.
    Listen {
        id: u64,
        listener: ListenerId,
        counters: Arc<ListenerCounters>,
        spread: (Arc<Spread>, Arc<HandoffTarget>),
        sockets: Vec<DealtSocket>,
    },
    /// Load the active configuration without waiting for a request.
    Renew,
    /// Close idle connections to this backend while requests of this or another worker wait for a connection.
    GiveWay { backend: String },
    /// Stop accepting from the sockets with these numbers, or from all sockets of the listener for `None`. Other
    /// workers or processes still accept from them.
    Release { id: u64, numbers: Option<Vec<usize>> },
    /// Accept the queued clients of this listener, then close its sockets. End its connections once they are idle.
    Retire { id: u64 },
    /// Hand the collected access log lines to the writer. Then drop this sender to report completion.
    HandLogOver(Sender<()>),
    /// Run on these CPUs.
    Bind { cpus: Vec<usize> },
    /// Release all sockets, then end after the last client has disconnected.
    Leave,
    /// Retire all listeners after this delay, then end.
    Drain { delay: Duration },
}

/// The state of one worker.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) index: usize,
    pub(crate) shared: Arc<Shared>,
    pub(crate) upstreams: Arc<UpstreamCounters>,
    pub(crate) wheel: Wheel,
    pub(crate) buffers: Buffers,
    pub(crate) date: DateText,
    pub(crate) log: WorkerLog,
    pub(crate) ids: IdSource,
    /// The time of the monotonic clock at the last tick, for uses that need no more precision.
    pub(crate) now_ns: Cell<u64>,
    /// Whether new requests are rejected because of overload.
    pub(crate) pressure: Pressure,
    /// Limits handshake steps per turn.
    pub(crate) turns: Turns,
    /// Counts this worker's connections, and receives clients that other workers hand over.
    pub(crate) host: Host,
    /// Mirrored requests in flight.
    pub(crate) copies_in_flight: Cell<usize>,
    /// A descriptor kept for error responses when no other descriptor is left.
    pub(crate) reserve: Reserve,
    /// A weak reference to this worker, set once it runs, for tasks that outlive their creator.
    own: OnceCell<Weak<Worker>>,
    snapshot: RefCell<Rc<Snapshot>>,
    /// The version of the resolved DNS names from which the pools were built.
    names_seen: Cell<u64>,
    /// The newest table. A new one is detected by comparing pointers.
    newest: RefCell<Cache<TableOf, Arc<Table>>>,
    listenings: RefCell<Vec<Rc<Listening>>>,
    /// Whether responses close their connections.
    ends: Cell<bool>,
    /// The tick at which the drain delay ends and the listeners close. [`NEVER`] if no delay runs.
    closes_at: Cell<u32>,
    is_closed: Cell<bool>,
    /// The tick at which the drain timeout passes and open connections are cut. [`NEVER`] unless the gateway drains.
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
            ids: IdSource::default(),
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

    /// The active configuration with this worker's pools. Loads a newer table first, if there is one.
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

    /// Serves clients until a drain has completed, or until the last client of a leaving worker has disconnected.
    ///
    /// First reports to `started` whether the worker can run.
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
        // If the crew no longer waits for the outcome, it also drops the command channel, which ends this worker.
        let _ = started.send(outcome);
        let Some(timer) = timer else { return };
        spawn_local(Rc::clone(&self).listen_to(commands, handed));
        let keeper = Rc::clone(&self);
        spawn_local(async move { keeper.turns.keep().await });
        let tick_ns = TICK.as_nanos() as u64;
        let mut next_ns = mono_ns() + tick_ns;
        while !self.is_finished() {
            timer.wait_until(next_ns).await;
            // After a long pause, missed ticks are skipped, so no deadline fires early because of the pause.
            let now_ns = mono_ns();
            self.now_ns.set(now_ns);
            let late_ns = now_ns.saturating_sub(next_ns);
            next_ns = now_ns.max(next_ns) + tick_ns;
            self.tick(late_ns);
        }
        self.pressure.end(&self.shared.overload);
        self.log.hand_over(&self.upstreams);
    }

    /// Executes commands, and admits clients that other workers have accepted.
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
                    // The gateway sent the `Listen` command for the listener before this client arrived, so execute
                    // pending commands first.
                    while let Ok(command) = commands.try_recv() {
                        self.obey(command);
                    }
                    take_in(&self, client);
                }
            }
        }
        // The gateway has been dropped. Serve only clients that other workers have already handed over.
        self.drain(Duration::ZERO);
        while let Some(client) = handed.recv().await {
            take_in(&self, client);
        }
    }

    /// A reference to this worker, for tasks that outlive their creator. `None` before the worker runs.
    pub(crate) fn own(&self) -> Option<Rc<Worker>> {
        self.own.get().and_then(Weak::upgrade)
    }

    /// Whether responses should close their connections. All workers see the phase of the gateway as soon as it drains,
    /// even before they receive the command.
    #[inline]
    pub(crate) fn is_ending(&self) -> bool {
        self.ends.get() || self.shared.phase.load(Ordering::Relaxed) != Phase::Serving as u8
    }

    /// Whether the worker has stopped admitting clients.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.get()
    }

    /// The cause to report for a failure. After the drain timeout, all waits end as timeouts, so timeouts are reported
    /// as `Drained`.
    pub(crate) fn reported_cause(&self, cause: Cause) -> Cause {
        if cause.is_timeout() && self.wheel.is_over() { Cause::Drained } else { cause }
    }

    /// Does the work of a tick that comes `late_ns` late.
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

    /// Rebuilds the pools if the addresses of DNS names have changed.
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
                // If this fails, the thread keeps its CPUs.
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
        spread: (Arc<Spread>, Arc<HandoffTarget>),
        sockets: Vec<DealtSocket>,
    ) {
        let listening = self.listening(id).unwrap_or_else(|| {
            let table = &self.snapshot().table;
            let listening = Rc::new(Listening::new(id, listener, table, counters, spread));
            self.listenings.borrow_mut().push(Rc::clone(&listening));
            listening
        });
        for DealtSocket { number, socket, is_lent } in sockets {
            // This fails only if the kernel has no memory to watch one more socket.
            let Ok(socket) = tokio::net::TcpListener::from_std(socket) else { continue };
            let accepting = listening.add_socket(number, is_lent);
            spawn_local(accept(Rc::clone(self), Rc::clone(&listening), accepting, socket));
        }
    }

    /// Releases all sockets, because the gateway needs fewer workers. Each connection closes after its next response.
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
        // A second drain may shorten the delay, but never extends it.
        if delay.is_zero() {
            self.close();
        } else {
            self.closes_at.set(self.closes_at.get().min(now + ticks(delay)));
        }
    }

    /// Retires all listeners: accepts the clients that are already queued, then admits no more.
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

    /// Ends all waits because the drain timeout has passed. The waiting tasks fail and report the drain timeout.
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

    /// Counts a client connection of the process. Returns false at the limit. [`Shared::leave`] subtracts the
    /// connection again.
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
