//! The thread that takes the samples.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::group::GroupReader;
use super::host::HostReader;
use super::network::NetworkReader;
use super::processes::ProcessReader;
use super::series::{PartSeries, Samples, Tick};
use super::tree::TreeReader;
use super::{PartSample, mono_ns};
use crate::{Namespace, Running};

const INTERVAL: Duration = Duration::from_millis(100);

/// Samples parts and the host every 100 ms on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    /// Parts that join later; dropping it ends the thread.
    joining: Sender<Joining>,
    thread: JoinHandle<Samples>,
}

/// A part that is sampled from here on.
#[derive(Debug)]
struct Joining {
    series: PartSeries,
    reader: PartReader,
    launched_ns: u64,
}

/// What reads one part.
#[derive(Debug)]
struct PartReader {
    source: Source,
    processes: ProcessReader,
    /// Of the parts in one namespace only the first has it: what crossed is nobody's in particular, and not to be
    /// counted twice.
    network: Option<NetworkReader>,
}

#[derive(Debug)]
enum Source {
    Group(Box<GroupReader>),
    Tree(TreeReader),
}

impl PartReader {
    /// What is read at once, and the processes of the part.
    fn sample(&mut self) -> (PartSample, Vec<i32>) {
        let (sample, pids) = match &mut self.source {
            Source::Group(reader) => reader.sample(),
            Source::Tree(reader) => reader.sample(),
        };
        (PartSample { network: self.network.as_mut().and_then(NetworkReader::sample), ..sample }, pids)
    }
}

impl Sampler {
    /// Begins to sample `parts`. What runs on the host and is none of them is a disturbance.
    pub fn start(parts: &[&Running]) -> Self {
        let series = parts.iter().map(|part| series(part)).collect();
        let mut readers: Vec<PartReader> =
            parts.iter().zip(networks(parts)).map(|(part, network)| reader(part, network)).collect();
        let (joining, inbox) = channel::<Joining>();
        let mut host = HostReader::open();
        let mut samples = Samples::new(series);
        // The first sample is taken before the caller goes on, the last before `finish` returns: every moment
        // in between lies within the samples, however late the thread gets to run.
        samples.push(take(&mut readers, &mut host, false));
        let thread = thread::spawn(move || {
            let mut due = Instant::now();
            loop {
                // Skips what is overdue: samples carry their own times, and a late one needs no successor at once.
                while due <= Instant::now() {
                    due += INTERVAL;
                }
                match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => samples.push(take(&mut readers, &mut host, false)),
                    Ok(Joining { series, reader, launched_ns }) => {
                        samples.join(series, launched_ns);
                        readers.push(reader);
                        // Its interfaces have counted since before it was there.
                        samples.push(take(&mut readers, &mut host, false));
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            samples.push(take(&mut readers, &mut host, true));
            samples
        });
        Self { joining, thread }
    }

    /// Samples `part` too, which was launched after the sampler was started: up to its launch it had used nothing,
    /// so that its samples span all that it does, however soon it begins.
    pub fn join(&self, part: &Running) {
        let reader = reader(part, part.namespace().map(NetworkReader::new));
        let joining = Joining { series: series(part), reader, launched_ns: part.launched_ns() };
        // A thread that is gone has no samples of anybody, which `finish` tells.
        let _ = self.joining.send(joining);
    }

    /// Goes on with `part`, which crashed and was started again. Its control group is the one that is sampled already;
    /// without one its processes are others, and count for the host alone.
    pub fn rejoin(&self, part: &Running) {
        if part.group().is_none() {
            self.join(part);
        }
    }

    /// Takes a last sample and gives all of them.
    pub fn finish(self) -> Samples {
        drop(self.joining);
        self.thread.join().unwrap_or_else(|_| Samples::new(Vec::new()))
    }
}

fn series(part: &Running) -> PartSeries {
    PartSeries { name: part.name().into(), limit_cpus: part.limit_cpus() }
}

fn reader(part: &Running, network: Option<NetworkReader>) -> PartReader {
    let source = match part.group() {
        Some(group) => Source::Group(Box::new(GroupReader::open(group, part.limit_cpus().is_some()))),
        None => Source::Tree(TreeReader::new(part.leader())),
    };
    PartReader { source, processes: ProcessReader::default(), network }
}

/// For each part what reads its network, where it has one that no part before it has.
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

fn take(readers: &mut [PartReader], host: &mut HostReader, is_last: bool) -> Tick {
    // One time for all would be off by what reading takes; the middle of the reading is off by half of it.
    let before = mono_ns();
    let host = host.sample();
    let read: Vec<(PartSample, Vec<i32>)> = readers.iter_mut().map(PartReader::sample).collect();
    let at_ns = before + (mono_ns() - before) / 2;
    // Threads and sockets take longest, and come last: the parts' accounts are of nearly one moment.
    let parts = readers.iter_mut().zip(read).map(|(reader, (mut sample, pids))| {
        // Of a part that has ended there is nothing to look at.
        if !pids.is_empty() {
            reader.processes.sample(&pids, is_last, &mut sample);
        }
        sample
    });
    Tick { at_ns, parts: parts.collect(), host }
}
