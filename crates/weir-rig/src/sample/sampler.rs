//! The thread that takes the samples.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::PartSample;
use super::group::GroupReader;
use super::host::HostReader;
use super::network::NetworkReader;
use super::processes::ProcessReader;
use super::series::{PartSeries, Samples, Tick};
use super::tree::TreeReader;
use crate::clock::mono_ns;
use crate::{Namespace, Running};

const INTERVAL: Duration = Duration::from_millis(100);

/// Samples parts and the host every 100 ms on a thread of its own.
#[derive(Debug)]
pub struct Sampler {
    /// What comes later; dropping it ends the thread.
    messages: Sender<Message>,
    thread: JoinHandle<Samples>,
}

/// What the thread is asked while it samples.
#[derive(Debug)]
enum Message {
    Join(Box<Joining>),
    /// Look at the processes outside the rig with the first sample from then on.
    LookAt(Instant),
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
        let (messages, inbox) = channel::<Message>();
        let mut host = HostReader::open();
        let mut samples = Samples::new(series);
        // The first sample is taken before the caller goes on, the last before `finish` returns: every moment
        // in between lies within the samples, however late the thread gets to run.
        take(&mut readers, &mut host, false, &mut samples);
        samples.neighbours.look();
        let thread = thread::spawn(move || {
            let mut due = Instant::now();
            let mut look_at: Option<Instant> = None;
            loop {
                // Skips what is overdue: samples carry their own times, and a late one needs no successor at once.
                while due <= Instant::now() {
                    due += INTERVAL;
                }
                match inbox.recv_timeout(due.saturating_duration_since(Instant::now())) {
                    Err(RecvTimeoutError::Timeout) => {
                        take(&mut readers, &mut host, false, &mut samples);
                        if look_at.take_if(|at| *at <= Instant::now()).is_some() {
                            samples.neighbours.look();
                        }
                    }
                    Ok(Message::LookAt(at)) => look_at = Some(at),
                    Ok(Message::Join(joining)) => {
                        let Joining { series, reader, launched_ns } = *joining;
                        samples.join(series, launched_ns);
                        readers.push(reader);
                        // Its interfaces have counted since before it was there.
                        take(&mut readers, &mut host, false, &mut samples);
                    }
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            take(&mut readers, &mut host, true, &mut samples);
            samples.neighbours.look();
            samples
        });
        Self { messages, thread }
    }

    /// Looks at the processes outside the rig once more, with the first sample from `at` on. It has looked when it was
    /// started, and looks at its end.
    pub fn look_at_neighbours(&self, at: Instant) {
        let _ = self.messages.send(Message::LookAt(at));
    }

    /// Samples `part` too, which was launched after the sampler was started: up to its launch it had used nothing,
    /// so that its samples span all that it does, however soon it begins.
    pub fn join(&self, part: &Running) {
        let reader = reader(part, part.namespace().map(NetworkReader::new));
        let joining = Joining { series: series(part), reader, launched_ns: part.launched_ns() };
        // A thread that is gone has no samples of anybody, which `finish` tells.
        let _ = self.messages.send(Message::Join(Box::new(joining)));
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
        drop(self.messages);
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

fn take(readers: &mut [PartReader], host: &mut HostReader, is_last: bool, samples: &mut Samples) {
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
            samples.neighbours.belong_to_the_rig(&pids);
        }
        sample
    });
    let parts = parts.collect();
    samples.push(Tick { at_ns, parts, host });
}
