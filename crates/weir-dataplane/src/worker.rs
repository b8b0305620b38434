//! A worker: one thread that owns everything it touches per request.

use std::cell::{Cell, OnceCell, RefCell};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;

use arc_swap::{ArcSwap, Cache};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;
use weir_config::Table;
use weir_io::{PreciseTimer, mono_ns};

use crate::buffer::Buffers;
use crate::counters::{ListenerCounters, UpstreamCounters};
use crate::listener::{Listening, accept};
use crate::respond::DateText;
use crate::snapshot::{OpenByBackend, Snapshot};
use crate::turns::Turns;
use crate::wheel::{TICK, Wheel, ticks};

/// How long an idle connection may still send a request once the gateway drains. A client that is at it gets
/// `Connection: close` with the answer; one that is not loses nothing.
const LAST_REQUEST_TICKS: u32 = 10;

/// How often kept upstream connections are looked through.
const SWEEP_TICKS: u32 = 10;

/// What all workers share. Nothing of it is written per request.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) table: ArcSwap<Table>,
    /// Client connections of the process.
    pub(crate) connections: AtomicUsize,
    pub(crate) open_by_backend: OpenByBackend,
    /// A `Phase`.
    pub(crate) phase: AtomicU8,
}

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
    /// Serve the clients of this socket.
    Listen { id: u64, address: SocketAddr, socket: TcpListener, counters: Arc<ListenerCounters> },
    /// Look which table is in force, without waiting for a request.
    Renew,
    /// Take what is queued in this listener's socket, then close it; end its connections once they are idle.
    Retire { id: u64 },
    /// Retire all, then end.
    Drain,
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
    /// In which handshakes take their steps.
    pub(crate) turns: Turns,
    pub(crate) open_connections: Cell<usize>,
    /// Copies for mirrors that are on their way.
    pub(crate) copies_in_flight: Cell<usize>,
    /// Itself, once it runs: for tasks that outlive the one that starts them.
    own: OnceCell<Weak<Worker>>,
    snapshot: RefCell<Rc<Snapshot>>,
    /// Tells by comparing a pointer whether the table has changed.
    newest: RefCell<Cache<TableOf, Arc<Table>>>,
    listenings: RefCell<Vec<Rc<Listening>>>,
    /// The tick at which it ends, whatever is open.
    drained_at: Cell<Option<u32>>,
}

impl Worker {
    pub(crate) fn new(index: usize, shared: Arc<Shared>, upstreams: Arc<UpstreamCounters>) -> Worker {
        let table = shared.table.load_full();
        upstreams.table_version.set(table.version);
        let snapshot = Rc::new(Snapshot::new(table, None, &shared.open_by_backend, index));
        Worker {
            index,
            upstreams,
            wheel: Wheel::default(),
            buffers: Buffers::default(),
            date: DateText::default(),
            turns: Turns::default(),
            open_connections: Cell::new(0),
            copies_in_flight: Cell::new(0),
            own: OnceCell::new(),
            snapshot: RefCell::new(snapshot),
            newest: RefCell::new(Cache::new(TableOf(Arc::clone(&shared)))),
            listenings: RefCell::default(),
            drained_at: Cell::new(None),
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
            let open = &self.shared.open_by_backend;
            *snapshot = Rc::new(Snapshot::new(Arc::clone(newest), Some(&snapshot), open, self.index));
            self.upstreams.table_version.set(newest.version);
        }
        Rc::clone(&snapshot)
    }

    /// Serves until it was told to drain and has.
    ///
    /// Whether it can is told to `started` first.
    pub(crate) async fn run(
        self: Rc<Self>,
        mut commands: UnboundedReceiver<Command>,
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
        let obedient = Rc::clone(&self);
        spawn_local(async move {
            while let Some(command) = commands.recv().await {
                obedient.obey(command);
            }
            // Without a gateway there is nobody left to serve for.
            obedient.drain();
        });
        let keeper = Rc::clone(&self);
        spawn_local(async move { keeper.turns.keep().await });
        let tick_ns = TICK.as_nanos() as u64;
        let mut next_ns = mono_ns() + tick_ns;
        while !self.is_finished() {
            timer.wait_until(next_ns).await;
            // After a long pause the missed ticks are skipped: nobody's time is over sooner for it.
            next_ns = mono_ns().max(next_ns) + tick_ns;
            self.tick();
        }
        self.upstreams.cut_by_drain.add(self.open_connections.get() as u64);
    }

    /// Itself, for a task that outlives the one that starts it; `None` before it runs.
    pub(crate) fn own(&self) -> Option<Rc<Worker>> {
        self.own.get().and_then(Weak::upgrade)
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.drained_at.get().is_some()
    }

    /// The least time that an idle connection of a draining listener is given.
    pub(crate) fn last_request_ticks(&self) -> u32 {
        LAST_REQUEST_TICKS
    }

    fn tick(&self) {
        self.wheel.turn();
        self.date.refresh();
        let snapshot = self.snapshot();
        if self.wheel.now().is_multiple_of(SWEEP_TICKS) {
            snapshot.sweep(self.wheel.now());
            self.listenings.borrow_mut().retain(|l| !l.is_gone());
        }
    }

    fn obey(self: &Rc<Self>, command: Command) {
        match command {
            Command::Listen { id, address, socket, counters } => {
                self.listen(id, address, socket, counters);
            }
            Command::Renew => drop(self.snapshot()),
            Command::Retire { id } => {
                for listening in self.listenings.borrow().iter().filter(|l| l.id == id) {
                    listening.retire();
                }
                self.wheel.hurry_idle(Some(id), LAST_REQUEST_TICKS);
            }
            Command::Drain => self.drain(),
        }
    }

    fn listen(
        self: &Rc<Self>,
        id: u64,
        address: SocketAddr,
        socket: TcpListener,
        counters: Arc<ListenerCounters>,
    ) {
        // It fails only where the kernel has no memory left to watch one more socket.
        let Ok(socket) = tokio::net::TcpListener::from_std(socket) else { return };
        let transport = self.snapshot().table.transport(address).cloned().unwrap_or_default();
        let listening = Rc::new(Listening::new(id, address, transport, counters));
        self.listenings.borrow_mut().push(Rc::clone(&listening));
        spawn_local(accept(Rc::clone(self), listening, socket));
    }

    fn drain(&self) {
        if self.is_draining() {
            return;
        }
        let limit = ticks(self.snapshot().table.timeouts.drain.0);
        self.drained_at.set(Some(self.wheel.now() + limit));
        for listening in self.listenings.borrow().iter() {
            listening.retire();
        }
        self.wheel.hurry_idle(None, LAST_REQUEST_TICKS);
    }

    fn is_finished(&self) -> bool {
        let Some(latest) = self.drained_at.get() else { return false };
        let listening = self.listenings.borrow().iter().any(|l| !l.is_gone());
        self.wheel.now() >= latest || (!listening && self.open_connections.get() == 0)
    }
}

impl Shared {
    pub(crate) fn new(table: Arc<Table>) -> Shared {
        Shared {
            table: ArcSwap::new(table),
            connections: AtomicUsize::new(0),
            open_by_backend: OpenByBackend::default(),
            phase: AtomicU8::new(0),
        }
    }

    /// A place among the process's connections, given back by [`Shared::leave`].
    pub(crate) fn enter(&self, most: u32) -> bool {
        let is_free = self.connections.fetch_add(1, Ordering::Relaxed) < most as usize;
        if !is_free {
            self.leave();
        }
        is_free
    }

    pub(crate) fn leave(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}
