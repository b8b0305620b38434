//! The sampling thread.

use std::sync::mpsc::{RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_results::Role;

use super::group::GroupReader;
use super::host::HostReader;
use super::network::NetworkReader;
use super::process_set::{ProcessSet, SetReader};
use super::processes::ProcessReader;
use super::series::{PartSeries, Samples, Tick};
use super::tree::{Members, TreeReader};
use super::{PartReading, PartSample};
use crate::clock::mono_ns;
use crate::{Namespace, Running};

const INTERVAL: Duration = Duration::from_millis(100);

/// Samples parts and the host every 100 ms on its own thread.
#[derive(Debug)]
pub struct Sampler {
    /// Dropping this sender ends the thread.
    messages: Sender<Message>,
    thread: JoinHandle<Samples>,
}

/// A message to the sampling thread.
#[derive(Debug)]
enum Message {
    Join(Box<Joining>),
    /// Read the part with this name from a new cgroup.
    Follow(String, Box<GroupReader>),
    /// Return the newest samples.
    Tell(SyncSender<Vec<PartReading>>),
    /// Take a snapshot of the processes outside the rig with the first sample after this time.
    LookAt(Instant),
}

/// A part that was launched after the sampler started.
#[derive(Debug)]
struct Joining {
    series: PartSeries,
    reader: PartReader,
    launched_ns: u64,
}

/// Reads one part.
#[derive(Debug)]
struct PartReader {
    source: Source,
    processes: ProcessReader,
    /// `None` without a network namespace. If several parts share one, only the first has a reader, so that traffic
    /// counts once.
    network: Option<NetworkReader>,
}

#[derive(Debug)]
enum Source {
    Group(Box<GroupReader>),
    Tree(TreeReader),
}

impl PartReader {
    /// Takes a sample, except the values of `processes`, which take longer to read. Also returns the process IDs of the
    /// part.
    fn sample(&mut self) -> (PartSample, Vec<i32>) {
        let (sample, pids) = match &mut self.source {
            Source::Group(reader) => reader.sample(),
            Source::Tree(reader) => reader.sample(),
        };
        (PartSample { network: self.network.as_mut().and_then(NetworkReader::sample), ..sample }, pids)
    }
}

impl Sampler {
    /// Starts sampling `parts`. The CPU time of all other processes counts as host noise.
    pub fn start(parts: &[&Running]) -> Self {
        let series = parts.iter().map(|part| series(part)).collect();
        let readers = parts
            .iter()
            .zip(networks(parts))
            .map(|(part, network)| reader(part, network, Members::Session(part.leader())))
            .collect();
        Self::start_with(series, readers)
    }

    /// Starts sampling processes that weir did not start, as the part `name` with the CPU limit `limit_cpus`.
    ///
    /// # Errors
    /// A message if the processes or the cgroup do not exist.
    pub fn of(name: &str, set: &ProcessSet, limit_cpus: Option<f64>) -> Result<Self, String> {
        let source = match set.reader()? {
            SetReader::Group(reader) => Source::Group(reader),
            SetReader::Tree(reader) => Source::Tree(reader),
        };
        let series = PartSeries { name: name.into(), role: Role::Data, limit_cpus };
        let reader = PartReader { source, processes: ProcessReader::default(), network: None };
        Ok(Self::start_with(vec![series], vec![reader]))
    }

    fn start_with(series: Vec<PartSeries>, mut readers: Vec<PartReader>) -> Self {
        let (messages, inbox) = channel::<Message>();
        let mut host = HostReader::open();
        let mut samples = Samples::new(series);
        // The first sample is taken before this function returns, and the last before `finish` returns. So all times in
        // between are covered, however late the thread runs.
        take(&mut readers, &mut host, false, &mut samples);
        samples.neighbours.snapshot();
        let thread = thread::spawn(move || {
            let mut due = Instant::now();
            let mut look_at: Option<Instant> = None;
            loop {
                // Skip overdue samples: each sample has its own time, so there is nothing to catch up on.
                while due <= Instant::now() {
                    due += INTERVAL;
                }
                match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {
                        take(&mut readers, &mut host, false, &mut samples);
                        if look_at.take_if(|at| *at <= Instant::now()).is_some() {
                            samples.neighbours.snapshot();
                        }
                    }
                    Ok(Message::LookAt(at)) => look_at = Some(at),
                    Ok(Message::Tell(reader)) => {
                        let _ = reader.send(samples.latest());
                    }
                    Ok(Message::Join(joining)) => {
                        let Joining { series, reader, launched_ns } = *joining;
                        samples.join(series, launched_ns);
                        readers.push(reader);
                        // Sample at once, because traffic is counted only from the first sample on.
                        take(&mut readers, &mut host, false, &mut samples);
                    }
                    Ok(Message::Follow(name, next)) => {
                        // Read the new cgroup: the part's old processes and their cgroup no longer exist.
                        let reader = samples.place(&name).and_then(|place| readers.get_mut(place));
                        if let Some(PartReader { source: Source::Group(reader), .. }) = reader {
                            reader.follow(*next);
                        }
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            take(&mut readers, &mut host, true, &mut samples);
            samples.neighbours.snapshot();
            samples
        });
        Self { messages, thread }
    }

    /// Requests a snapshot of the processes outside the rig, together with the first sample after `at`. The sampler
    /// always takes one snapshot at its start and one at its end.
    pub fn look_at_neighbours(&self, at: Instant) {
        let _ = self.messages.send(Message::LookAt(at));
    }

    /// Adds `part`, which was launched after the sampler started. Its counters were zero before its launch, so its
    /// usage is known from the launch on.
    pub fn join(&self, part: &Running) {
        self.join_as(part, Members::Session(part.leader()));
    }

    /// As [`Self::join`], for a part whose children start new sessions. Without a cgroup, the sampler samples all
    /// descendants of the part, not only its session.
    pub fn join_with_all_below(&self, part: &Running) {
        self.join_as(part, Members::Below(part.leader().pid));
    }

    fn join_as(&self, part: &Running, members: Members) {
        let reader = reader(part, part.namespace().map(NetworkReader::new), members);
        let joining = Joining { series: series(part), reader, launched_ns: part.launched_ns() };
        // If the thread has ended, `finish` returns no samples.
        let _ = self.messages.send(Message::Join(Box::new(joining)));
    }

    /// Continues to sample `part` after a crash and restart. A cgroup that weir created stays the same; a new container
    /// has a new cgroup, which is read from now on. A part without a cgroup is added as a new part.
    pub fn rejoin(&self, part: &Running) {
        match part.group() {
            Some(_) if !part.is_in_container() => {}
            Some(group) => {
                let next = GroupReader::open(group, part.limit_cpus().is_some());
                let _ = self.messages.send(Message::Follow(part.name().into(), Box::new(next)));
            }
            None => self.join(part),
        }
    }

    /// The newest sample of each part; empty if the sampling thread does not respond within 100 ms.
    pub fn latest(&self) -> Vec<PartReading> {
        let (reader, reading) = sync_channel(1);
        match self.messages.send(Message::Tell(reader)) {
            Ok(()) => reading.recv_timeout(INTERVAL).unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }

    /// Takes a last sample and returns all samples.
    pub fn finish(self) -> Samples {
        drop(self.messages);
        self.thread.join().unwrap_or_else(|_| Samples::new(Vec::new()))
    }
}

fn series(part: &Running) -> PartSeries {
    PartSeries { name: part.name().into(), role: part.role(), limit_cpus: part.limit_cpus() }
}

/// Creates the reader of a part, for its cgroup; without a cgroup, for the processes `members`.
fn reader(part: &Running, network: Option<NetworkReader>, members: Members) -> PartReader {
    let source = match part.group() {
        Some(group) => Source::Group(Box::new(GroupReader::open(group, part.limit_cpus().is_some()))),
        None => Source::Tree(TreeReader::of(members)),
    };
    PartReader { source, processes: ProcessReader::default(), network }
}

/// The network reader of each part; `None` if the part has no namespace, or an earlier part is in the same namespace.
fn networks(parts: &[&Running]) -> Vec<Option<NetworkReader>> {
    let mut seen: Vec<&Namespace> = Vec::new();
    let mut readers = Vec::new();
    for part in parts {
        let namespace = part.namespace().filter(|namespace| !seen.contains(namespace));
        seen.extend(namespace);
        readers.push(namespace.map(NetworkReader::new));
    }
    readers
}

fn take(readers: &mut [PartReader], host: &mut HostReader, is_last: bool, samples: &mut Samples) {
    // The time of a sample is the midpoint of its read, which halves the maximum error.
    let before = mono_ns();
    let host = host.sample();
    let read: Vec<(PartSample, Vec<i32>)> = readers.iter_mut().map(PartReader::sample).collect();
    let at_ns = before + (mono_ns() - before) / 2;
    // Threads and sockets take longest and come last, so that the CPU counters of all parts have nearly the same time.
    let parts = readers.iter_mut().zip(read).map(|(reader, (mut sample, pids))| {
        // A part that has exited has no processes to read.
        if !pids.is_empty() {
            reader.processes.sample(&pids, is_last, &mut sample);
            samples.neighbours.belong_to_the_rig(&pids);
        }
        sample
    });
    let parts = parts.collect();
    samples.push(Tick { at_ns, parts, host });
}
