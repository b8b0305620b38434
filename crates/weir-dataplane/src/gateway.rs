//! The gateway as a whole: starts workers, applies new configurations, drains.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_config::{Listener, ListenerId, Table};
use weir_io::{JoinHandle, reserve_files};

use crate::backend_states::BackendStates;
use crate::certificates;
use crate::crew::{Crew, Member};
use crate::health::HealthChecks;
use crate::log::{AccessLogStats, LogLevel};
use crate::names::NameLookups;
use crate::overload::MemoryWatch;
use crate::process_stats::ProcessStats;
use crate::retire::Retired;
use crate::sockets::{DealtSocket, OpenListener, Passed, SocketPlan};
use crate::stats::{ReloadStats, Stats};
use crate::worker::{Command, Shared};

/// The file descriptor table is sized for this many descriptors before threads start. Each entry takes 8 bytes.
const FILES_RESERVED: u64 = 4_096;

/// A removed listener may occupy its address for this long, because its sockets stay open until their queued clients
/// are accepted.
const SOCKETS_LAST: Duration = Duration::from_secs(5);

/// Pause between two attempts to listen on an address that a removed listener still occupies.
const LISTEN_EVERY: Duration = Duration::from_millis(20);

/// Pause between two attempts to lock the running workers while another thread holds the lock.
const LOCK_EVERY: Duration = Duration::from_millis(2);

/// Why a gateway can't start, or a configuration can't take effect.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// Environment error: another process uses the address, or this host does not allow the gateway to use it.
    #[error("cannot listen on {address}: {error}{}", listen_remedy(*address, error))]
    Listen {
        /// The address of the listener.
        address: SocketAddr,
        /// The system's error.
        error: io::Error,
    },
    /// Environment error: the folder does not exist, or the gateway may not write to it.
    #[error("cannot write the access log to {target}: {error}")]
    AccessLog {
        /// The target of the access log: a file, or standard output.
        target: String,
        /// The system's error.
        error: io::Error,
    },
    /// Environment error: the system cannot start a worker or a background thread.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    /// The caller applied a configuration to a draining gateway.
    #[error("cannot reload: the gateway is shutting down")]
    Ending,
}

/// The remedy for a listen error on `address`, as text that starts with a semicolon. Empty if the error has no known
/// remedy.
pub fn listen_remedy(address: SocketAddr, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "; run `ss -ltnp 'sport = :{}'` to see the process that uses the port (it can be this gateway itself)",
            address.port()
        ),
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 require CAP_NET_BIND_SERVICE or a lower net.ipv4.ip_unprivileged_port_start"
                .to_owned()
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no network interface has this address (run `ip address` to see the addresses of this host)"
                .to_owned()
        }
        _ => String::new(),
    }
}

/// The gateway's phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Clients are served.
    Serving = 0,
    /// Connections end after their current or next exchange.
    Draining = 1,
    /// Like `Draining`, while another process serves new clients at the same addresses.
    HandedOver = 2,
}

/// What [`Gateway::reopen_access_log`] has reopened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reopened {
    /// The log file. New lines go to the newly opened file.
    File,
    /// No file: the log goes to standard output.
    StandardOutput,
    /// Nothing: the configuration has no access log.
    Nothing,
}

/// A running gateway. Dropping it starts a drain, and does not wait until the drain completes.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    /// Held while a version is applied, so that versions are applied one after the other.
    turn: Mutex<()>,
    running: Mutex<Running>,
    retired: Retired,
    checks: Arc<HealthChecks>,
    lookups: NameLookups,
    memory: MemoryWatch,
    reloads_applied: AtomicU64,
    reloads_refused: AtomicU64,
}

#[derive(Debug)]
struct Running {
    crew: Crew,
    next_id: u64,
    open: BTreeMap<ListenerId, OpenListener>,
    /// Addresses of recently ended listeners, and when they ended.
    ended: Vec<(SocketAddr, Instant)>,
}

/// A new listener, with the sockets for each worker.
type Opened = (ListenerId, OpenListener, Vec<Vec<DealtSocket>>);

/// The steps to a new configuration, prepared before anything changes.
struct Change {
    workers: usize,
    recruits: Vec<Member>,
    opened: Vec<Opened>,
    plans: Vec<(ListenerId, SocketPlan)>,
    gone: Vec<ListenerId>,
}

impl Gateway {
    /// Starts workers and opens listeners for `table`.
    ///
    /// # Errors
    /// [`GatewayError::Listen`] if an address is not available, [`GatewayError::Worker`] if a thread can't start.
    pub fn start(table: Arc<Table>) -> Result<Gateway, GatewayError> {
        Gateway::start_with(table, Vec::new())
    }

    /// Like [`Gateway::start`], but takes over the listening sockets in `passed` instead of opening new ones for their
    /// listeners. Sockets without a listener in `table` are closed in this process.
    ///
    /// # Errors
    /// The errors of [`Gateway::start`].
    pub fn start_with(table: Arc<Table>, passed: Vec<Passed>) -> Result<Gateway, GatewayError> {
        reserve_files(FILES_RESERVED);
        let shared = Arc::new(Shared::new(Arc::clone(&table)));
        open_log(&shared, &table)?;
        let crew = Crew::new(Arc::clone(&shared));
        let mut running = Running { crew, next_id: 0, open: BTreeMap::new(), ended: Vec::new() };
        let change = running.prepare(&table, passed)?;
        let (checks, lookups, memory) = (Arc::default(), NameLookups::default(), MemoryWatch::default());
        prepare(&table, &shared, (&checks, &lookups, &memory))?;
        running.commit(change);
        let gateway = Gateway {
            shared,
            turn: Mutex::default(),
            running: Mutex::new(running),
            retired: Retired::default(),
            checks,
            lookups,
            memory,
            reloads_applied: AtomicU64::default(),
            reloads_refused: AtomicU64::default(),
        };
        gateway.look();
        Ok(gateway)
    }

    /// Activates a new version without losing a connection or a request. Removed listeners end once their clients are
    /// idle. Surplus workers end once their clients have disconnected. New TLS handshakes use the new certificates.
    ///
    /// # Errors
    /// If the version can't be applied; then nothing has changed.
    pub fn apply(&self, table: Arc<Table>) -> Result<(), GatewayError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut running, change) = self.prepared(&table)?;
        let file = |table: &Table| table.access_log.as_ref().map(|(log, _)| log.file.clone());
        if file(&table) != file(&self.table()) {
            open_log(&self.shared, &table)?;
        }
        prepare(&table, &self.shared, (&self.checks, &self.lookups, &self.memory))?;
        let former = self.shared.table.swap(Arc::clone(&table));
        // Most changes affect routes only.
        if !former.backends().shares_all(table.backends()) {
            self.shared.backends.follow(&table);
        }
        drop(table);
        self.retired.add(former);
        self.look();
        self.reloads_applied.fetch_add(1, Ordering::Relaxed);
        running.commit(change);
        // An idle worker would hold the former table until its next tick.
        running.crew.send_all(|| Command::Renew);
        Ok(())
    }

    /// Prepares the change to `table`. While a recently removed listener occupies an address of `table`, tries again
    /// until the address is free or `SOCKETS_LAST` has passed. Does not hold the lock of `running` between attempts.
    fn prepared(&self, table: &Table) -> Result<(MutexGuard<'_, Running>, Change), GatewayError> {
        loop {
            let mut running = self.running();
            if self.phase() != Phase::Serving {
                return Err(GatewayError::Ending);
            }
            match running.prepare(table, Vec::new()) {
                Err(GatewayError::Listen { address, error })
                    if error.kind() == io::ErrorKind::AddrInUse && running.has_ended_at(address) => {}
                outcome => return Ok((running, outcome?)),
            }
            drop(running);
            std::thread::sleep(LISTEN_EVERY);
        }
    }

    /// Reopens the access log file after it was renamed. No line is lost or written twice.
    ///
    /// # Errors
    /// If the file can't be opened. Lines then still go to the previous file.
    pub fn reopen_access_log(&self) -> Result<Reopened, GatewayError> {
        let table = self.table();
        match &table.access_log {
            None => Ok(Reopened::Nothing),
            Some((log, _)) if log.file.is_none() => Ok(Reopened::StandardOutput),
            Some(_) => open_log(&self.shared, &table).map(|()| Reopened::File),
        }
    }

    /// Writes the access log lines that workers still hold. Waits for at most `patience`. Meant for an exit that does
    /// not wait for [`Gateway::join`]. Any thread may call it.
    pub fn flush_access_log(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let (handing, all_handed) = channel();
        // A reload may hold the lock for a while.
        while !left().is_zero() {
            if let Ok(running) = self.running.try_lock() {
                running.crew.send_all(|| Command::HandLogOver(handing.clone()));
                break;
            }
            std::thread::sleep(LOCK_EVERY);
        }
        drop(handing);
        // The channel reports an error once the last worker has dropped its sender.
        let _ = all_handed.recv_timeout(left());
        self.shared.log.flush(left());
    }

    /// The access log level.
    pub fn log_level(&self) -> LogLevel {
        self.shared.log.level.get()
    }

    /// Sets the access log level until the next call. Format and target of the log stay as configured.
    pub fn set_log_level(&self, level: LogLevel) {
        self.shared.log.level.set(level);
    }

    /// Counts a configuration that was rejected before it reached [`Gateway::apply`], for example because its file is
    /// invalid.
    pub fn count_refused_reload(&self) {
        self.reloads_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The addresses that clients can connect to, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.running().open.values().map(|l| l.bound).collect()
    }

    /// The active configuration.
    pub fn table(&self) -> Arc<Table> {
        self.shared.table.load_full()
    }

    /// The state that all workers share per backend.
    pub(crate) fn backends(&self) -> &BackendStates {
        &self.shared.backends
    }

    /// The gateway's phase.
    pub fn phase(&self) -> Phase {
        match self.shared.phase.load(Ordering::Relaxed) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::HandedOver,
        }
    }

    /// Whether all workers run; always true once the gateway drains. A worker that has ended is not restarted.
    pub fn is_healthy(&self) -> bool {
        self.phase() != Phase::Serving || self.running().crew.is_complete()
    }

    /// Names of the fields of `overload` whose limits are exceeded. If there are any, new requests get a 503.
    pub fn overload_reasons(&self) -> Vec<&'static str> {
        self.shared.overload.reasons()
    }

    /// Begins to drain. The gateway accepts new clients for `drain.delay`, and after that only clients that are already
    /// queued. Every connection ends after its current exchange.
    pub fn drain(&self) {
        self.end(Phase::Draining, self.table().drain.delay.0, &[]);
    }

    /// Copies of all listening sockets, for another process.
    ///
    /// # Errors
    /// If no file descriptor is left for the copies.
    pub fn sockets(&self) -> io::Result<Vec<Passed>> {
        let running = self.running();
        let of_each = running.open.iter().map(|(id, open)| open.passed(*id));
        Ok(of_each.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Begins to drain after another process has taken over the sockets of the listeners in `taken`. Stops accepting
    /// clients from these sockets, but leaves them open.
    pub fn hand_over(&self, taken: &[ListenerId]) {
        self.end(Phase::HandedOver, Duration::ZERO, taken);
    }

    /// Waits until all workers have ended. They end only after a drain, or if they panic. Returns false if one of them
    /// panicked.
    pub fn join(&self) -> bool {
        let threads = self.running().crew.take_threads();
        // Join every thread, even if one of them panicked.
        let panicked = threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        self.shared.log.finish();
        panicked == 0 && !self.running().crew.has_panicked()
    }

    /// Client connections that were still open when the drain timeout passed, known once [`Gateway::join`] returns.
    pub fn cut_by_drain(&self) -> u64 {
        self.running().crew.upstreams.iter().map(|counters| counters.cut_by_drain.value()).sum()
    }

    /// All counters, summed over the workers.
    pub fn stats(&self) -> Stats {
        // Drop the states of removed backends that were still in use at the reload, but no longer are.
        self.shared.backends.follow(&self.table());
        let running = self.running();
        let upstreams = running.crew.upstreams.iter().map(|counters| &**counters);
        let reloads = ReloadStats {
            applied: self.reloads_applied.load(Ordering::Relaxed),
            refused: self.reloads_refused.load(Ordering::Relaxed),
        };
        let dropped = running.crew.upstreams.iter().map(|counters| counters.log_lines_dropped.value()).sum();
        let access_log = AccessLogStats { dropped, ..self.shared.log.stats() };
        let overload = self.shared.overload.stats(running.crew.upstreams.iter().map(|counters| &**counters));
        let routes = self.shared.series.stats();
        let certificate_ends = certificates::first_ends(&self.table());
        let workers = running.crew.stats();
        Stats {
            reloads,
            routes,
            access_log,
            overload,
            certificate_ends,
            workers,
            process: ProcessStats::read(),
            ..Stats::sum(&running.crew.listeners, upstreams, &self.shared.backends)
        }
    }

    fn end(&self, phase: Phase, delay: Duration, taken: &[ListenerId]) {
        let mut running = self.running();
        if self.phase() == Phase::Serving {
            self.shared.phase.store(phase as u8, Ordering::Relaxed);
        }
        // Taking the listeners closes the gateway's copies of their sockets. Only the workers' copies stay open in this
        // process.
        for (listener, open) in std::mem::take(&mut running.open) {
            if taken.contains(&listener) {
                running.crew.send_all(|| Command::Release { id: open.id, numbers: None });
            }
        }
        running.crew.send_all(|| Command::Drain { delay });
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the background threads, so that they read the active configuration.
    fn look(&self) {
        self.checks.look();
        self.lookups.look();
        self.memory.look();
    }
}

impl Running {
    /// Does the steps that may fail, so that [`Running::commit`] cannot fail.
    fn prepare(&mut self, table: &Table, passed: Vec<Passed>) -> Result<Change, GatewayError> {
        let workers = self.crew.wanted(table.workers);
        let wanted: Vec<(ListenerId, &Listener)> =
            table.listener_ids().into_iter().zip(table.listeners.iter()).collect();
        let is_gone = |id: &&ListenerId| !wanted.iter().any(|(wanted, _)| wanted == *id);
        let gone: Vec<ListenerId> = self.open.keys().filter(is_gone).copied().collect();
        let mut plans = Vec::new();
        if self.crew.count() != workers {
            for (id, open) in self.open.iter().filter(|(id, _)| !gone.contains(id)) {
                let anew = open.plan_change(self.crew.count(), workers);
                let failed = |error| GatewayError::Listen { address: open.bound, error };
                plans.push((*id, anew.map_err(failed)?));
            }
        }
        let opened = self.open_new(&wanted, workers, passed)?;
        let recruits = self.crew.recruits(workers).map_err(GatewayError::Worker)?;
        Ok(Change { workers, recruits, opened, plans, gone })
    }

    fn open_new(
        &mut self,
        wanted: &[(ListenerId, &Listener)],
        workers: usize,
        passed: Vec<Passed>,
    ) -> Result<Vec<Opened>, GatewayError> {
        let mut by_listener: BTreeMap<ListenerId, Vec<Passed>> = BTreeMap::new();
        for socket in passed {
            by_listener.entry(socket.listener).or_default().push(socket);
        }
        let mut opened = Vec::new();
        for (id, listener) in wanted.iter().filter(|(id, _)| !self.open.contains_key(id)) {
            let passed = by_listener.remove(id).unwrap_or_default();
            let open = OpenListener::open(listener, self.next_id, workers, passed)?;
            let failed = |error| GatewayError::Listen { address: listener.address, error };
            let dealt = open.dealt(workers).map_err(failed)?;
            opened.push((*id, open, dealt));
            self.next_id += 1;
        }
        Ok(opened)
    }

    /// Whether a recently ended listener may still occupy `address`.
    fn has_ended_at(&self, address: SocketAddr) -> bool {
        let is_in_the_way = |(ended, at): &(SocketAddr, Instant)| {
            ended.port() == address.port() && at.elapsed() < SOCKETS_LAST
        };
        self.ended.iter().any(is_in_the_way)
    }

    /// Applies a prepared change. Never fails. While a socket moves between workers, new clients wait in the socket's
    /// queue.
    fn commit(&mut self, change: Change) {
        let Change { workers, recruits, opened, plans, gone } = change;
        self.crew.change(recruits, workers);
        for (id, plan) in plans {
            let Some(open) = self.open.get_mut(&id) else { continue };
            let moves = open.apply_plan(plan);
            for (worker, moved) in moves.into_iter().enumerate() {
                self.crew.listen(worker, id, open, moved.gets);
                if !moved.gives.is_empty() {
                    self.crew.send(worker, Command::Release { id: open.id, numbers: Some(moved.gives) });
                }
            }
        }
        for (id, mut open, dealt) in opened {
            for (worker, sockets) in dealt.into_iter().enumerate() {
                self.crew.listen(worker, id, &mut open, sockets);
            }
            self.open.insert(id, open);
        }
        self.ended.retain(|(_, at)| at.elapsed() < SOCKETS_LAST);
        for id in gone {
            if let Some(open) = self.open.remove(&id) {
                self.ended.push((open.bound, Instant::now()));
                self.crew.send_all(|| Command::Retire { id: open.id });
            }
        }
    }
}

/// Starts the background threads that `table` needs.
fn prepare(
    table: &Table,
    shared: &Arc<Shared>,
    (checks, lookups, memory): (&Arc<HealthChecks>, &NameLookups, &MemoryWatch),
) -> Result<(), GatewayError> {
    memory.prepare(shared).map_err(GatewayError::Worker)?;
    if table.has_rsa() {
        shared.offload.start().map_err(GatewayError::Worker)?;
    }
    checks.prepare(table, shared).map_err(GatewayError::Worker)?;
    lookups.prepare(table, shared, checks).map_err(GatewayError::Worker)
}

/// Opens the access log of `table`, if it has one.
fn open_log(shared: &Shared, table: &Table) -> Result<(), GatewayError> {
    let Some((log, _)) = &table.access_log else { return Ok(()) };
    shared.log.open(log).map_err(|error| {
        let target = log.file.clone().unwrap_or_else(|| "standard output".to_owned());
        GatewayError::AccessLog { target, error }
    })
}

#[cfg(test)]
mod tests {
    use weir_config::{Batch, Change, Key, Policy, Resource, State};

    use super::*;

    #[test]
    fn a_worker_that_ends_by_itself_is_reported() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = weir_config::Settings { workers: Some(2), ..Default::default() };
        let changes = vec![
            Change::Put(Key::Settings, Resource::Settings(settings.into())),
            Change::Put(Key::Listener("l".to_owned()), Resource::Listener(Listener::plain(address))),
        ];
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        let gateway = Gateway::start(State::default().apply(batch).table.unwrap()).unwrap();
        assert!(gateway.is_healthy());
        gateway.running().crew.send(1, Command::Drain { delay: Duration::ZERO });
        while gateway.is_healthy() {
            std::thread::yield_now();
        }
        gateway.drain();
        assert!(gateway.is_healthy(), "a drained gateway is healthy");
        assert!(gateway.join());
    }
}
