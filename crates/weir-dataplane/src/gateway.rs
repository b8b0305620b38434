//! The gateway as a whole: starts workers, brings new configurations into force, drains.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use weir_config::{Listener, Table};
use weir_io::{JoinHandle, WorkerOptions, available_cpus, listen_shared, reserve_files, spawn_worker};

use crate::counters::{ListenerCounters, UpstreamCounters};
use crate::retire::Retired;
use crate::stats::{ReloadStats, Stats};
use crate::worker::{Command, Shared, Worker};

/// Connections that room is made for before the first one comes, 8 bytes each.
const FILES_RESERVED: u64 = 4_096;

/// Connections that may wait to be accepted, for each socket.
const BACKLOG: i32 = 4096;

/// Why a gateway can't start, or a configuration can't come into force.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The environment's fault: somebody else has the address, or it is not ours.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The environment's fault.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    /// The configuration's fault.
    #[error("`workers` can't change from {running} to {wanted} while the gateway runs; restart it")]
    WorkersChanged {
        /// Threads there are.
        running: usize,
        /// Threads asked for.
        wanted: usize,
    },
}

/// How far a gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Clients are served.
    Serving = 0,
    /// Exchanges are brought to their end, and nothing new begins.
    Draining = 1,
}

/// A running gateway. Dropping it drains it too, without waiting.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    workers: Vec<(UnboundedSender<Command>, Arc<UpstreamCounters>)>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    listeners: Mutex<Listeners>,
    retired: Retired,
    reloads_applied: AtomicU64,
    reloads_refused: AtomicU64,
}

#[derive(Debug, Default)]
struct Listeners {
    next_id: u64,
    /// By the address in the configuration, which may have port 0.
    open: BTreeMap<SocketAddr, OpenListener>,
    /// Counters by name, also of listeners that are gone; one set a worker.
    counters: BTreeMap<String, Vec<Arc<ListenerCounters>>>,
}

#[derive(Debug)]
struct OpenListener {
    id: u64,
    bound: SocketAddr,
}

impl Gateway {
    /// Starts workers and opens listeners for `table`.
    ///
    /// # Errors
    /// [`GatewayError::Listen`] when an address can't be had, [`GatewayError::Worker`] when a thread can't.
    pub fn start(table: Arc<Table>) -> Result<Gateway, GatewayError> {
        let cpus = available_cpus();
        let count = worker_count(&table, cpus.len());
        let sockets = open_sockets(&table.listeners, count)?;
        reserve_files(FILES_RESERVED);
        let shared = Arc::new(Shared::new(table));
        let mut gateway = Gateway {
            shared,
            workers: Vec::new(),
            threads: Mutex::default(),
            listeners: Mutex::default(),
            retired: Retired::default(),
            reloads_applied: AtomicU64::default(),
            reloads_refused: AtomicU64::default(),
        };
        for index in 0..count {
            // With a worker for each CPU they would only chase each other; with fewer the scheduler knows better.
            let cpu = (count == cpus.len()).then(|| cpus[index]);
            gateway.start_worker(index, cpu).map_err(GatewayError::Worker)?;
        }
        gateway.listen(sockets);
        Ok(gateway)
    }

    /// Brings a new version into force. No connection and no request is lost by it; listeners that are gone end once
    /// their clients are idle. Clients that connect from then on meet the new certificates.
    ///
    /// # Errors
    /// When it can't be; then nothing has changed.
    pub fn apply(&self, table: Arc<Table>) -> Result<(), GatewayError> {
        let wanted = worker_count(&table, available_cpus().len());
        let running = self.workers.len();
        if wanted != running {
            return Err(GatewayError::WorkersChanged { running, wanted });
        }
        let (new, gone) = {
            let listeners = self.listeners();
            let is_new = |l: &&Listener| !listeners.open.contains_key(&l.address);
            let new: Vec<Listener> = table.listeners.iter().filter(is_new).cloned().collect();
            let is_gone = |a: &&SocketAddr| !table.listeners.iter().any(|l| l.address == **a);
            let gone: Vec<SocketAddr> = listeners.open.keys().filter(is_gone).copied().collect();
            (new, gone)
        };
        let sockets = open_sockets(&new, running)?;
        self.retired.add(self.shared.table.swap(table));
        self.reloads_applied.fetch_add(1, Ordering::Relaxed);
        // A worker with nothing to do would hold the former table until its clock turns.
        self.tell(|_| Command::Renew);
        self.listen(sockets);
        for address in gone {
            if let Some(listener) = self.listeners().open.remove(&address) {
                self.tell(|_| Command::Retire { id: listener.id });
            }
        }
        Ok(())
    }

    /// Counts a configuration or a file that its source refused.
    pub fn count_refused_reload(&self) {
        self.reloads_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The addresses that clients can connect to, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listeners().open.values().map(|l| l.bound).collect()
    }

    /// The version in force.
    pub fn table(&self) -> Arc<Table> {
        self.shared.table.load_full()
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match self.shared.phase.load(Ordering::Relaxed) {
            0 => Phase::Serving,
            _ => Phase::Draining,
        }
    }

    /// Whether no worker has ended but to drain. One that has is not started again.
    pub fn is_healthy(&self) -> bool {
        self.phase() == Phase::Draining || !self.workers.iter().any(|(commands, _)| commands.is_closed())
    }

    /// Begins to drain: takes what is queued, ends every connection after the exchange in progress.
    pub fn drain(&self) {
        self.shared.phase.store(Phase::Draining as u8, Ordering::Relaxed);
        self.tell(|_| Command::Drain);
    }

    /// Waits until all workers have ended, which they do only when drained; false when one of them panicked.
    pub fn join(&self) -> bool {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        // Each is joined, whatever became of the others.
        let panicked = threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        panicked == 0
    }

    /// Client connections that were still open when the time to drain was over, known once [`Gateway::join`] returns.
    pub fn cut_by_drain(&self) -> u64 {
        self.workers.iter().map(|(_, counters)| counters.cut_by_drain.value()).sum()
    }

    /// All counters, summed over the workers.
    pub fn stats(&self) -> Stats {
        let listeners = self.listeners();
        let upstreams = self.workers.iter().map(|(_, counters)| &**counters);
        let open = self.shared.open_by_backend.lock().unwrap_or_else(PoisonError::into_inner);
        let reloads = ReloadStats {
            applied: self.reloads_applied.load(Ordering::Relaxed),
            refused: self.reloads_refused.load(Ordering::Relaxed),
        };
        Stats { reloads, ..Stats::sum(&listeners.counters, upstreams, &open) }
    }

    fn start_worker(&mut self, index: usize, cpu: Option<usize>) -> io::Result<()> {
        let (commands, received) = unbounded_channel();
        let counters = Arc::new(UpstreamCounters::default());
        let (report, started) = sync_channel(1);
        let options = WorkerOptions { name: format!("weir-{index}"), cpu, is_urgent: false };
        let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&counters));
        let thread = spawn_worker(options, move || async move {
            std::rc::Rc::new(Worker::new(index, shared, own)).run(received, report).await;
        })?;
        started.recv().map_err(|_| io::Error::other("the worker ended as it started"))??;
        self.workers.push((commands, counters));
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    fn listen(&self, sockets: Vec<(Listener, Vec<std::net::TcpListener>)>) {
        for (listener, mut sockets) in sockets {
            let Some(bound) = sockets.first().and_then(|s| s.local_addr().ok()) else { continue };
            let name = listener.name.unwrap_or_else(|| bound.to_string());
            let mut listeners = self.listeners();
            let id = listeners.next_id;
            listeners.next_id += 1;
            listeners.open.insert(listener.address, OpenListener { id, bound });
            let each = || Arc::new(ListenerCounters::default());
            let fresh = || sockets.iter().map(|_| each()).collect();
            let counters = listeners.counters.entry(name).or_insert_with(fresh).clone();
            self.tell(|worker| {
                let socket = sockets.remove(0);
                let address = listener.address;
                Command::Listen { id, address, socket, counters: Arc::clone(&counters[worker]) }
            });
        }
    }

    fn tell(&self, mut command: impl FnMut(usize) -> Command) {
        for (index, (worker, _)) in self.workers.iter().enumerate() {
            // A worker that has ended needs to be told nothing.
            let _ = worker.send(command(index));
        }
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn worker_count(table: &Table, cpus: usize) -> usize {
    table.workers.map_or(cpus.max(1), |workers| workers as usize)
}

/// A socket a worker for each listener; all or none.
fn open_sockets(
    listeners: &[Listener],
    workers: usize,
) -> Result<Vec<(Listener, Vec<std::net::TcpListener>)>, GatewayError> {
    let open = |listener: &Listener| {
        let sockets = listen_shared(listener.address, workers, BACKLOG)
            .map_err(|error| GatewayError::Listen { address: listener.address, error })?;
        Ok((listener.clone(), sockets))
    };
    listeners.iter().map(open).collect()
}

#[cfg(test)]
mod tests {
    use weir_config::{Batch, Change, Key, Policy, Resource, State};

    use super::*;

    #[test]
    fn a_worker_that_ends_by_itself_is_told() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = weir_config::Settings { workers: Some(2), ..Default::default() };
        let changes = vec![
            Change::Put(Key::Settings, Resource::Settings(settings)),
            Change::Put(Key::Listener("l".to_owned()), Resource::Listener(Listener::plain(address))),
        ];
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        let gateway = Gateway::start(State::default().apply(batch).table.unwrap()).unwrap();
        assert!(gateway.is_healthy());
        gateway.workers[1].0.send(Command::Drain).unwrap();
        while !gateway.workers[1].0.is_closed() {
            std::thread::yield_now();
        }
        assert!(!gateway.is_healthy());
        gateway.drain();
        assert!(gateway.is_healthy(), "to drain is no illness");
        assert!(gateway.join());
    }
}
