//! The gateway as a whole: starts workers, brings new configurations into force, drains.

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
use crate::sockets::{DealtSocket, OpenListener, Passed, Redealt};
use crate::stats::{ReloadStats, Stats};
use crate::worker::{Command, Shared};

/// Connections that room is made for before the first one comes, 8 bytes each.
const FILES_RESERVED: u64 = 4_096;

/// For how long the sockets of a listener may be there after its end, for clients on the way, on a busy host.
const SOCKETS_LAST: Duration = Duration::from_secs(5);

/// How often it is tried to listen where such sockets are.
const LISTEN_EVERY: Duration = Duration::from_millis(20);

/// How often it is tried to tell workers something while a lock is held.
const LOCK_EVERY: Duration = Duration::from_millis(2);

/// Why a gateway can't start, or a configuration can't come into force.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// The environment's fault: somebody else has the address, or it is not ours.
    #[error("cannot listen on {address}: {error}{}", listen_remedy(*address, error))]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// The environment's fault: the folder is not there, or not ours to write into.
    #[error("cannot write the access log to {target}: {error}")]
    AccessLog {
        /// The file, or standard output.
        target: String,
        /// What the system says.
        error: io::Error,
    },
    /// The environment's fault.
    #[error("cannot start a worker: {0}")]
    Worker(io::Error),
    /// The caller's fault.
    #[error("cannot reload: the gateway is shutting down")]
    Ending,
}

/// What to do where the system refuses to listen on `address` with this error, behind a semicolon; nothing where that is
/// not known.
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
        io::ErrorKind::AddrNotAvailable => "; no network interface of this host has this address".to_owned(),
        _ => String::new(),
    }
}

/// How far a gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// Clients are served.
    Serving = 0,
    /// Exchanges are brought to their end, and no connection outlives the next.
    Draining = 1,
    /// The same, while another process serves new clients at the same addresses.
    HandedOver = 2,
}

/// What there was to open anew of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reopened {
    /// Its file: lines go there from now on.
    File,
    /// Nothing: it goes to standard output.
    StandardOutput,
    /// Nothing: there is none.
    Nothing,
}

/// A running gateway. Dropping it drains it too, without waiting.
#[derive(Debug)]
pub struct Gateway {
    shared: Arc<Shared>,
    /// Held by whoever brings a version into force, so that versions follow each other.
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
    /// Where listeners have ended lately, and when.
    ended: Vec<(SocketAddr, Instant)>,
}

/// A new listener, with what each worker gets of it.
type Opened = (ListenerId, OpenListener, Vec<Vec<DealtSocket>>);

/// What a new configuration asks for, got ready before anything changes.
struct Change {
    workers: usize,
    recruits: Vec<Member>,
    opened: Vec<Opened>,
    redealt: Vec<(ListenerId, Redealt)>,
    gone: Vec<ListenerId>,
}

impl Gateway {
    /// Starts workers and opens listeners for `table`.
    ///
    /// # Errors
    /// [`GatewayError::Listen`] when an address can't be had, [`GatewayError::Worker`] when a thread can't.
    pub fn start(table: Arc<Table>) -> Result<Gateway, GatewayError> {
        Gateway::start_with(table, Vec::new())
    }

    /// The same with listening sockets from elsewhere, in place of those that would be opened for the same listeners.
    /// What no listener of `table` wants is closed, at this end.
    ///
    /// # Errors
    /// Those of [`Gateway::start`].
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

    /// Brings a new version into force. No connection and no request is lost by it; listeners that are gone end once
    /// their clients are idle, workers that are too many once their clients have gone. Clients that connect from then
    /// on meet the new certificates.
    ///
    /// # Errors
    /// When it can't be; then nothing has changed.
    pub fn apply(&self, table: Arc<Table>) -> Result<(), GatewayError> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut running, change) = self.prepared(&table)?;
        let file = |table: &Table| table.access_log.as_ref().map(|(log, _)| log.file.clone());
        if file(&table) != file(&self.table()) {
            open_log(&self.shared, &table)?;
        }
        prepare(&table, &self.shared, (&self.checks, &self.lookups, &self.memory))?;
        let former = self.shared.table.swap(Arc::clone(&table));
        // Most changes are of routes.
        if !former.backends().shares_all(table.backends()) {
            self.shared.backends.follow(&table);
        }
        drop(table);
        self.retired.add(former);
        self.look();
        self.reloads_applied.fetch_add(1, Ordering::Relaxed);
        running.commit(change);
        // A worker with nothing to do would hold the former table until its clock turns.
        running.crew.tell_all(|| Command::Renew);
        Ok(())
    }

    /// What `table` asks for, once the sockets of listeners that have just ended at its addresses are closed. Nobody
    /// else waits for them.
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

    /// Opens the file of the access log anew, after it was renamed. No line is lost by it, and none is written twice.
    ///
    /// # Errors
    /// When it can't be; then lines go on to where they went.
    pub fn reopen_access_log(&self) -> Result<Reopened, GatewayError> {
        let table = self.table();
        match &table.access_log {
            None => Ok(Reopened::Nothing),
            Some((log, _)) if log.file.is_none() => Ok(Reopened::StandardOutput),
            Some(_) => open_log(&self.shared, &table).map(|()| Reopened::File),
        }
    }

    /// Has the lines of the access log written that workers have put together so far, as far as that takes no longer
    /// than `patience`. For an end that does not wait for [`Gateway::join`], from any thread.
    pub fn flush_access_log(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let left = || until.saturating_duration_since(Instant::now());
        let (handing, all_handed) = channel();
        // Whoever holds the lock may be at a reload.
        while !left().is_zero() {
            if let Ok(running) = self.running.try_lock() {
                running.crew.tell_all(|| Command::HandLogOver(handing.clone()));
                break;
            }
            std::thread::sleep(LOCK_EVERY);
        }
        drop(handing);
        // It ends with an error when the last worker has dropped its end.
        let _ = all_handed.recv_timeout(left());
        self.shared.log.flush(left());
    }

    /// Which requests get a line of the access log.
    pub fn log_level(&self) -> LogLevel {
        self.shared.log.level.get()
    }

    /// Sets which requests get a line, until it is set again. The configuration says what a line is and where it goes.
    pub fn set_log_level(&self, level: LogLevel) {
        self.shared.log.level.set(level);
    }

    /// Counts a configuration or a file that its source refused.
    pub fn count_refused_reload(&self) {
        self.reloads_refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The addresses that clients can connect to, with the ports that the system chose.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.running().open.values().map(|l| l.bound).collect()
    }

    /// The version in force.
    pub fn table(&self) -> Arc<Table> {
        self.shared.table.load_full()
    }

    /// What is known of backends.
    pub(crate) fn backends(&self) -> &BackendStates {
        &self.shared.backends
    }

    /// How far it is.
    pub fn phase(&self) -> Phase {
        match self.shared.phase.load(Ordering::Relaxed) {
            0 => Phase::Serving,
            1 => Phase::Draining,
            _ => Phase::HandedOver,
        }
    }

    /// Whether no worker has ended but to drain. One that has is not started again.
    pub fn is_healthy(&self) -> bool {
        self.phase() != Phase::Serving || self.running().crew.is_complete()
    }

    /// What of it is overloaded, by the fields of `overload`: new requests are answered 503. Nothing when all is well.
    pub fn overload_reasons(&self) -> Vec<&'static str> {
        self.shared.overload.reasons()
    }

    /// Begins to drain: clients are let in for `drain.delay`, then who is on the way; every connection ends after the
    /// exchange in progress.
    pub fn drain(&self) {
        self.end(Phase::Draining, self.table().drain.delay.0, &[]);
    }

    /// Copies of all listening sockets, for another process.
    ///
    /// # Errors
    /// When no descriptor is left for them.
    pub fn sockets(&self) -> io::Result<Vec<Passed>> {
        let running = self.running();
        let of_each = running.open.iter().map(|(id, open)| open.passed(*id));
        Ok(of_each.collect::<io::Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    /// Begins to drain, while another process accepts from the sockets of these listeners: they are left as they are.
    pub fn hand_over(&self, taken: &[ListenerId]) {
        self.end(Phase::HandedOver, Duration::ZERO, taken);
    }

    /// Waits until all workers have ended, which they do only when drained; false when one of them panicked.
    pub fn join(&self) -> bool {
        let threads = self.running().crew.take_threads();
        // Each is joined, whatever became of the others.
        let panicked = threads.into_iter().map(JoinHandle::join).filter(Result::is_err).count();
        self.shared.log.finish();
        panicked == 0 && !self.running().crew.has_panicked()
    }

    /// Client connections that were still open when the time to drain was over, known once [`Gateway::join`] returns.
    pub fn cut_by_drain(&self) -> u64 {
        self.running().crew.upstreams.iter().map(|counters| counters.cut_by_drain.value()).sum()
    }

    /// All counters, summed over the workers.
    pub fn stats(&self) -> Stats {
        // What was in use when its table went may not be any more.
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
        // From here on the workers' copies are the only ones of this process.
        for (listener, open) in std::mem::take(&mut running.open) {
            if taken.contains(&listener) {
                running.crew.tell_all(|| Command::Release { id: open.id, numbers: None });
            }
        }
        running.crew.tell_all(|| Command::Drain { delay });
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has what stands beside the workers look at the table in force.
    fn look(&self) {
        self.checks.look();
        self.lookups.look();
        self.memory.look();
    }
}

impl Running {
    /// All that may fail.
    fn prepare(&mut self, table: &Table, passed: Vec<Passed>) -> Result<Change, GatewayError> {
        let workers = self.crew.wanted(table.workers);
        let wanted: Vec<(ListenerId, &Listener)> =
            table.listener_ids().into_iter().zip(table.listeners.iter()).collect();
        let is_gone = |id: &&ListenerId| !wanted.iter().any(|(wanted, _)| wanted == *id);
        let gone: Vec<ListenerId> = self.open.keys().filter(is_gone).copied().collect();
        let mut redealt = Vec::new();
        if self.crew.count() != workers {
            for (id, open) in self.open.iter().filter(|(id, _)| !gone.contains(id)) {
                let anew = open.redealt(self.crew.count(), workers);
                let failed = |error| GatewayError::Listen { address: open.bound, error };
                redealt.push((*id, anew.map_err(failed)?));
            }
        }
        let opened = self.open_new(&wanted, workers, passed)?;
        let recruits = self.crew.recruits(workers).map_err(GatewayError::Worker)?;
        Ok(Change { workers, recruits, opened, redealt, gone })
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

    /// Whether a listener has ended lately that may still be in the way of one at `address`.
    fn has_ended_at(&self, address: SocketAddr) -> bool {
        let is_in_the_way = |(ended, at): &(SocketAddr, Instant)| {
            ended.port() == address.port() && at.elapsed() < SOCKETS_LAST
        };
        self.ended.iter().any(is_in_the_way)
    }

    /// Nothing of this fails. Between two workers a socket's clients wait in its queue.
    fn commit(&mut self, change: Change) {
        let Change { workers, recruits, opened, redealt, gone } = change;
        self.crew.change(recruits, workers);
        for (id, redealt) in redealt {
            let Some(open) = self.open.get_mut(&id) else { continue };
            let hands = open.settle(redealt);
            for (worker, hand) in hands.into_iter().enumerate() {
                self.crew.listen(worker, id, open, hand.gets);
                if !hand.gives.is_empty() {
                    self.crew.tell(worker, Command::Release { id: open.id, numbers: Some(hand.gives) });
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
                self.crew.tell_all(|| Command::Retire { id: open.id });
            }
        }
    }
}

/// Starts what `table` needs beside the workers.
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

/// Opens where the access log of `table` goes, if it has one.
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
    fn a_worker_that_ends_by_itself_is_told() {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let settings = weir_config::Settings { workers: Some(2), ..Default::default() };
        let changes = vec![
            Change::Put(Key::Settings, Resource::Settings(settings.into())),
            Change::Put(Key::Listener("l".to_owned()), Resource::Listener(Listener::plain(address))),
        ];
        let batch = Batch { version: 1, policy: Policy::AllOrNothing, changes };
        let gateway = Gateway::start(State::default().apply(batch).table.unwrap()).unwrap();
        assert!(gateway.is_healthy());
        gateway.running().crew.tell(1, Command::Drain { delay: Duration::ZERO });
        while gateway.is_healthy() {
            std::thread::yield_now();
        }
        gateway.drain();
        assert!(gateway.is_healthy(), "to drain is no illness");
        assert!(gateway.join());
    }
}
