//! The workers of a gateway: active ones, and draining ones that still serve clients.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::sync::mpsc::sync_channel;

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use weir_config::ListenerId;
use weir_io::{JoinHandle, WorkerOptions, available_cpus, spawn_worker, worth_cpus};

use crate::counters::{ListenerCounters, UpstreamCounters};
use crate::sockets::{DealtSocket, OpenListener};
use crate::spread::Host;
use crate::stats::WorkerStats;
use crate::worker::{Command, Shared, Worker};

/// All workers with their counters.
#[derive(Debug)]
pub(crate) struct Crew {
    shared: Arc<Shared>,
    cpus: Vec<usize>,
    serving: Vec<Member>,
    leaving: Vec<UnboundedSender<Command>>,
    threads: Vec<JoinHandle<()>>,
    has_panicked: bool,
    pub(crate) upstreams: Vec<Arc<UpstreamCounters>>,
    /// Counters by listener name. The counters of removed listeners stay.
    pub(crate) listeners: BTreeMap<String, Vec<Arc<ListenerCounters>>>,
}

/// An active worker.
#[derive(Debug)]
pub(crate) struct Member {
    commands: UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
    upstream: Arc<UpstreamCounters>,
    host: Host,
    /// This worker's counters, by listener name.
    counters: BTreeMap<String, Arc<ListenerCounters>>,
}

impl Crew {
    /// A crew without workers.
    pub(crate) fn new(shared: Arc<Shared>) -> Crew {
        Crew {
            shared,
            cpus: available_cpus(),
            serving: Vec::new(),
            leaving: Vec::new(),
            threads: Vec::new(),
            has_panicked: false,
            upstreams: Vec::new(),
            listeners: BTreeMap::new(),
        }
    }

    /// The number of workers for this setting; by default one per usable CPU.
    pub(crate) fn wanted(&self, workers: Option<u32>) -> usize {
        workers.map_or_else(worth_cpus, |workers| workers as usize)
    }

    pub(crate) fn count(&self) -> usize {
        self.serving.len()
    }

    /// Starts new workers, so that `wanted` workers run in total. The new workers join the crew only in
    /// [`Crew::change`]. If they are dropped before that, they end.
    pub(crate) fn recruits(&mut self, wanted: usize) -> io::Result<Vec<Member>> {
        (self.count()..wanted).map(|index| self.start(index, wanted)).collect()
    }

    /// Changes the number of active workers: recruits join, or the last workers drain. Does not redistribute sockets.
    pub(crate) fn change(&mut self, recruits: Vec<Member>, wanted: usize) {
        self.sweep();
        let has_changed = wanted != self.count();
        for mut recruit in recruits {
            self.threads.extend(recruit.thread.take());
            self.serving.push(recruit);
        }
        for member in self.serving.drain(wanted..) {
            // An ended worker needs no command.
            let _ = member.commands.send(Command::Leave);
            self.leaving.push(member.commands);
        }
        if has_changed {
            for index in 0..wanted {
                let cpus = self.cpu(index, wanted).map_or_else(|| self.cpus.clone(), |cpu| vec![cpu]);
                self.send(index, Command::Bind { cpus });
            }
        }
    }

    pub(crate) fn send(&self, worker: usize, command: Command) {
        // A worker that has ended needs no command.
        let _ = self.serving[worker].commands.send(command);
    }

    /// Sends a command to all active and draining workers.
    pub(crate) fn send_all(&self, command: impl Fn() -> Command) {
        for commands in self.serving.iter().map(|member| &member.commands).chain(&self.leaving) {
            let _ = commands.send(command());
        }
    }

    /// Lets a worker accept from these sockets of a listener.
    pub(crate) fn listen(
        &mut self,
        worker: usize,
        listener: ListenerId,
        open: &mut OpenListener,
        sockets: Vec<DealtSocket>,
    ) {
        if !sockets.is_empty() {
            let (id, counters) = (open.id, self.counters(worker, &open.name));
            open.spread_over(worker, &self.serving[worker].host, |spread| {
                self.send(worker, Command::Listen { id, listener, counters, spread, sockets });
            });
        }
    }

    /// The counters of a worker for the listener with this name.
    fn counters(&mut self, worker: usize, name: &str) -> Arc<ListenerCounters> {
        let sets = self.listeners.entry(name.to_owned()).or_default();
        let own = &mut self.serving[worker].counters;
        Arc::clone(own.entry(name.to_owned()).or_insert_with(|| unused(sets, || ListenerCounters::of(name))))
    }

    /// The current statistics of each active worker.
    pub(crate) fn stats(&self) -> Vec<WorkerStats> {
        self.serving.iter().map(|member| WorkerStats::of(&member.upstream, &member.counters)).collect()
    }

    /// Whether all active workers run.
    pub(crate) fn is_complete(&self) -> bool {
        !self.serving.iter().any(|member| member.commands.is_closed())
    }

    /// Takes the threads, so that the caller can join them without a lock.
    pub(crate) fn take_threads(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.threads)
    }

    /// Whether an ended worker has panicked.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked
    }

    /// Removes ended workers.
    fn sweep(&mut self) {
        self.leaving.retain(|commands| !commands.is_closed());
        let ended: Vec<_> = self.threads.extract_if(.., |thread| thread.is_finished()).collect();
        self.has_panicked |= ended.into_iter().map(JoinHandle::join).filter(Result::is_err).count() > 0;
    }

    fn start(&mut self, index: usize, workers: usize) -> io::Result<Member> {
        let (commands, received) = unbounded_channel();
        let (report, started) = sync_channel(1);
        let cpu = self.cpu(index, workers);
        let options = WorkerOptions { name: format!("weir-{index}"), cpu, is_urgent: false };
        let upstream = unused(&mut self.upstreams, UpstreamCounters::default);
        let (shared, counters) = (Arc::clone(&self.shared), Arc::clone(&upstream));
        let (host, handed) = Host::new();
        let own = host.clone();
        let thread = spawn_worker(options, move || async move {
            std::rc::Rc::new(Worker::new(index, shared, counters, own)).run(received, handed, report).await;
        })?;
        started.recv().map_err(|_| io::Error::other("the worker thread stopped during startup"))??;
        self.shared.peers.join(&commands);
        Ok(Member { commands, thread: Some(thread), upstream, host, counters: BTreeMap::new() })
    }

    /// The CPU to which a worker is pinned. `None` unless there is exactly one worker per CPU: with any other number,
    /// the scheduler distributes workers better.
    fn cpu(&self, index: usize, workers: usize) -> Option<usize> {
        (workers == self.cpus.len()).then(|| self.cpus[index])
    }
}

/// Returns a set of counters that no worker writes. Reuses the set of an ended worker if there is one, so that the
/// number of sets does not grow.
pub(crate) fn unused<T>(sets: &mut Vec<Arc<T>>, make: impl FnOnce() -> T) -> Arc<T> {
    if let Some(set) = sets.iter().find(|set| Arc::strong_count(set) == 1) {
        // Orders the writes of the former owner before the reads of the next one.
        fence(Ordering::Acquire);
        return Arc::clone(set);
    }
    let set = Arc::new(make());
    sets.push(Arc::clone(&set));
    set
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::Counter;

    #[test]
    fn counters_have_one_writer_each_and_are_reused() {
        let mut sets: Vec<Arc<Counter>> = Vec::new();
        let first = unused(&mut sets, Counter::default);
        let second = unused(&mut sets, Counter::default);
        first.add(1);
        second.add(10);
        drop(first);
        let third = unused(&mut sets, Counter::default);
        third.add(100);
        assert_eq!(sets.len(), 2);
        assert_eq!(sets.iter().map(|set| set.value()).sum::<u64>(), 111);
    }
}
