//! The workers of a gateway: those that serve, and those that were let go and still have clients.

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

/// All of them, with what they count.
#[derive(Debug)]
pub(crate) struct Crew {
    shared: Arc<Shared>,
    cpus: Vec<usize>,
    serving: Vec<Member>,
    leaving: Vec<UnboundedSender<Command>>,
    threads: Vec<JoinHandle<()>>,
    has_panicked: bool,
    pub(crate) upstreams: Vec<Arc<UpstreamCounters>>,
    /// By the listener's name, also of listeners that are gone.
    pub(crate) listeners: BTreeMap<String, Vec<Arc<ListenerCounters>>>,
}

/// A worker that serves.
#[derive(Debug)]
pub(crate) struct Member {
    commands: UnboundedSender<Command>,
    thread: Option<JoinHandle<()>>,
    upstream: Arc<UpstreamCounters>,
    host: Host,
    /// What it counts, by the listener's name.
    counters: BTreeMap<String, Arc<ListenerCounters>>,
}

impl Crew {
    /// Nobody so far.
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

    /// How many a configuration wants.
    pub(crate) fn wanted(&self, workers: Option<u32>) -> usize {
        workers.map_or_else(worth_cpus, |workers| workers as usize)
    }

    pub(crate) fn count(&self) -> usize {
        self.serving.len()
    }

    /// Starts workers that are missing for there to be so many; they are none of the crew yet, and end when dropped.
    pub(crate) fn recruits(&mut self, wanted: usize) -> io::Result<Vec<Member>> {
        (self.count()..wanted).map(|index| self.start(index, wanted)).collect()
    }

    /// From now on so many serve: recruits join, or the last ones leave. Sockets are dealt apart from this.
    pub(crate) fn change(&mut self, recruits: Vec<Member>, wanted: usize) {
        self.sweep();
        let has_changed = wanted != self.count();
        for mut recruit in recruits {
            self.threads.extend(recruit.thread.take());
            self.serving.push(recruit);
        }
        for member in self.serving.drain(wanted..) {
            // One that has ended needs to be told nothing.
            let _ = member.commands.send(Command::Leave);
            self.leaving.push(member.commands);
        }
        if has_changed {
            for index in 0..wanted {
                let cpus = self.cpu(index, wanted).map_or_else(|| self.cpus.clone(), |cpu| vec![cpu]);
                self.tell(index, Command::Bind { cpus });
            }
        }
    }

    pub(crate) fn tell(&self, worker: usize, command: Command) {
        // A worker that has ended needs to be told nothing.
        let _ = self.serving[worker].commands.send(command);
    }

    /// Tells all that serve, and those that leave.
    pub(crate) fn tell_all(&self, command: impl Fn() -> Command) {
        for commands in self.serving.iter().map(|member| &member.commands).chain(&self.leaving) {
            let _ = commands.send(command());
        }
    }

    /// Has a worker accept from these sockets of a listener.
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
                self.tell(worker, Command::Listen { id, listener, counters, spread, sockets });
            });
        }
    }

    /// What a worker counts at the listeners with this name.
    fn counters(&mut self, worker: usize, name: &str) -> Arc<ListenerCounters> {
        let sets = self.listeners.entry(name.to_owned()).or_default();
        let own = &mut self.serving[worker].counters;
        Arc::clone(own.entry(name.to_owned()).or_insert_with(|| unused(sets, || ListenerCounters::of(name))))
    }

    /// What each of those that serve has now.
    pub(crate) fn stats(&self) -> Vec<WorkerStats> {
        self.serving.iter().map(|member| WorkerStats::of(&member.upstream, &member.counters)).collect()
    }

    /// Whether all that should serve do.
    pub(crate) fn is_complete(&self) -> bool {
        !self.serving.iter().any(|member| member.commands.is_closed())
    }

    /// Their threads, to be joined without a lock.
    pub(crate) fn take_threads(&mut self) -> Vec<JoinHandle<()>> {
        std::mem::take(&mut self.threads)
    }

    /// Whether one of those that ended before did so by a panic.
    pub(crate) fn has_panicked(&self) -> bool {
        self.has_panicked
    }

    /// Lets go of what is left of workers that have ended.
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

    /// With a worker for each CPU they would only chase each other; with fewer the scheduler knows better.
    fn cpu(&self, index: usize, workers: usize) -> Option<usize> {
        (workers == self.cpus.len()).then(|| self.cpus[index])
    }
}

/// Counters that nobody writes: those of a worker that has ended go on, so that there are never more than workers.
pub(crate) fn unused<T>(sets: &mut Vec<Arc<T>>, make: impl FnOnce() -> T) -> Arc<T> {
    if let Some(set) = sets.iter().find(|set| Arc::strong_count(set) == 1) {
        // What the former writer wrote comes before what the next one reads.
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
    fn counters_have_one_writer_each_and_go_on_behind_the_last() {
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
