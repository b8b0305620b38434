//! The worker threads of a load: how they are started, awaited and stopped.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, sync_channel};

use rustix::process::{Resource, getrlimit};
use weir_io::{JoinHandle, WorkerOptions, available_cpus, reserve_files, spawn_thread};

use super::{Prepared, STOP_CHECK_PERIOD};
use crate::EngineError;
use crate::flow::Flow;
use crate::spec::{ModelSpec, Part};
use crate::worker::{Event, WorkerPlan, work};

/// Open files of the process besides those of workers and connections, such as the standard streams.
const FILES_BASE: u64 = 32;
/// Open files of a worker besides its connections: its poll and its timers.
const FILES_PER_WORKER: u64 = 20;

/// Workers that open their connections and then wait for the start of the load.
pub(super) struct Crew {
    pub(super) starts: Vec<SyncSender<Flow>>,
    threads: Vec<JoinHandle<std::io::Result<()>>>,
}

impl Crew {
    /// Starts the workers of a load. They open their connections immediately.
    pub(super) fn start(
        part: Part<'_>,
        prepared: &Prepared,
        events: &Sender<(u32, Event)>,
        early_end_ns: &Arc<AtomicU64>,
    ) -> Result<Self, EngineError> {
        let spec = part.spec;
        let mut crew = Self { starts: Vec::new(), threads: Vec::new() };
        for worker in 0..part.workers {
            let (start, wait_for_start) = sync_channel(1);
            crew.starts.push(start);
            let plan = WorkerPlan {
                worker,
                connections: part.connections_of(worker),
                connections_first: part.connections_first_of(worker),
                protocol: spec.protocol,
                streams: part.streams(),
                dialing: prepared.dialing.of_worker(worker),
                requests: prepared.requests.clone(),
                has_domains: !spec.domains.is_empty(),
                requests_per_connection: spec.requests_per_connection,
                early_end_ns: Arc::clone(early_end_ns),
                timeout_ns: spec.timeout_ns,
                spin: spec.spin,
                events: Sender::clone(events),
                start: wait_for_start,
            };
            let options = WorkerOptions {
                name: format!("load-{worker}"),
                cpu: cpu_of(worker, part.workers),
                // A closed loop or a spinning worker may use a whole CPU. At a high priority, it would take CPU time
                // from the server.
                is_urgent: matches!(spec.model, ModelSpec::Open { .. }) && !spec.spin,
            };
            let thread = spawn_thread(options, move || work(plan))
                .map_err(|source| EngineError::Worker { worker, source })?;
            crew.threads.push(thread);
        }
        Ok(crew)
    }

    /// Whether a worker has ended before the start of the load.
    pub(super) fn has_lost_one(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    /// Stops all workers, and returns why one of them ended before the start of the load.
    pub(super) fn failure(self) -> EngineError {
        match self.dismiss() {
            Err(error) => error,
            Ok(()) => {
                let source = std::io::Error::other("the thread exited before the start");
                EngineError::Worker { worker: 0, source }
            }
        }
    }

    /// Stops the workers, which wait for the start, without starting the load.
    pub(super) fn dismiss(mut self) -> Result<(), EngineError> {
        self.starts.clear();
        self.join()
    }

    pub(super) fn join(self) -> Result<(), EngineError> {
        for (worker, thread) in (0..).zip(self.threads) {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(source)) => return Err(EngineError::Worker { worker, source }),
                Err(_) => return Err(EngineError::Panicked { worker }),
            }
        }
        Ok(())
    }
}

/// Waits until every worker has tried to open all its connections. The opening has a time limit. Returns false if a
/// worker has ended without reporting; the others then still wait for the start.
pub(super) fn await_connections(
    events: &Receiver<(u32, Event)>,
    workers: u32,
    has_lost_one: impl Fn() -> bool,
) -> bool {
    let mut connected = 0;
    while connected < workers {
        match events.recv_timeout(STOP_CHECK_PERIOD) {
            Ok(_) => connected += 1,
            Err(RecvTimeoutError::Timeout) if !has_lost_one() => {}
            // A worker has ended without reporting. Workers that have reported do not end: they wait for the start.
            Err(_) => return false,
        }
    }
    true
}

/// Returns the CPU for a worker, counted from the last CPU downwards; `None` if there are more workers than CPUs.
/// Servers of weir on the same host pin their workers from the first CPU upwards.
fn cpu_of(worker: u32, workers: u32) -> Option<usize> {
    let cpus = available_cpus();
    if workers as usize > cpus.len() {
        return None;
    }
    cpus.iter().rev().nth(worker as usize).copied()
}

/// Raises this process's limit on open files if the connections and workers need more.
pub(crate) fn raise_open_files(connections: u32, workers: u32) -> Result<(), EngineError> {
    let needed = u64::from(connections) + u64::from(workers) * FILES_PER_WORKER + FILES_BASE;
    if getrlimit(Resource::Nofile).current.is_some_and(|current| current < needed) {
        // If this fails, the check below reports it.
        weir_io::raise_open_files();
    }
    reserve_files(needed);
    match getrlimit(Resource::Nofile).current {
        Some(limit) if limit < needed => Err(EngineError::OpenFiles { connections, needed, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_worker_that_ends_without_a_message_stops_the_wait() {
        let (events_in, events) = channel();
        for worker in 0..2 {
            events_in.send((worker, Event::Connected)).unwrap();
        }
        assert!(await_connections(&events, 2, || true), "who has reported may end");
        events_in.send((0, Event::Connected)).unwrap();
        // `events_in` keeps the channel open, as do workers that wait for the start. So only `has_lost_one` shows that
        // a worker has ended.
        assert!(!await_connections(&events, 2, || true));
    }

    #[test]
    fn an_end_before_the_start_is_reported_with_its_reason() {
        let (start, wait_for_start) = sync_channel::<Flow>(1);
        let waiting = spawn_thread(WorkerOptions::default(), move || {
            drop(wait_for_start.recv());
            Ok(())
        });
        let failed =
            spawn_thread(WorkerOptions::default(), || Err(std::io::Error::other("no descriptor is left")));
        let crew = Crew { starts: vec![start], threads: vec![waiting.unwrap(), failed.unwrap()] };
        assert_eq!(crew.failure().to_string(), "worker 1 could not start: no descriptor is left");
    }
}
