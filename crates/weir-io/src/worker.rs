//! Worker threads: one runtime each, nothing shared.

use std::future::Future;
use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::thread::Builder;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use tokio::runtime::{LocalOptions, LocalRuntime};

/// How a worker thread runs.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// The thread's name, as `top` and `perf` show it (the kernel keeps 15 bytes).
    pub name: String,
    /// The CPU that it is bound to; `None` leaves it to the scheduler.
    pub cpu: Option<usize>,
    /// Whether it runs before ordinary threads (nice -20), where the kernel allows it: for what measures time and
    /// mostly sleeps. Neighbours that wake up now and then cost it less.
    pub is_urgent: bool,
}

/// A running worker thread.
#[derive(Debug)]
pub struct JoinHandle<T>(std::thread::JoinHandle<Option<T>>);

impl<T> JoinHandle<T> {
    /// Waits for the worker's end; an error carries its panic.
    ///
    /// # Errors
    /// When the worker panicked.
    pub fn join(self) -> std::thread::Result<T> {
        Ok(self.0.join()?.expect("a worker that reported its start has run to its end"))
    }

    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// The CPUs that this process may run on, in ascending order; empty when the kernel does not say.
pub fn available_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// How many CPUs this process's time is worth: those that it may run on, or the quota of its cgroup (v1 or v2), rounded up,
/// where that is less.
pub fn worth_cpus() -> usize {
    num_cpus::get()
}

/// Binds the calling thread to these CPUs, in place of those it was bound to.
///
/// # Errors
/// When none of them is there for this process.
pub fn bind_thread(cpus: &[usize]) -> io::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {cpu}")));
        }
        set.set(cpu);
    }
    Ok(sched_setaffinity(None, &set)?)
}

/// Starts a thread, and runs `main` on it until it ends. Timers of the thread have a slack of 1 ns in place of the
/// kernel's 50 us.
///
/// # Errors
/// When the thread cannot start or cannot be bound to its CPU.
pub fn spawn_thread<T, F>(options: WorkerOptions, main: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn(options, || Ok(()), |()| main())
}

/// Starts a thread with a runtime of its own, as [`spawn_thread`] does, and runs `main` on it until it ends.
///
/// `main` is called on the thread, so what it makes may stay there (`spawn_local` works).
///
/// # Errors
/// Those of [`spawn_thread`], and when the runtime gets no file descriptors.
pub fn spawn_worker<T, F, Fut>(options: WorkerOptions, main: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = T> + 'static,
    T: Send + 'static,
{
    let runtime =
        || tokio::runtime::Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    spawn(options, runtime, |runtime: LocalRuntime| runtime.block_on(async { main().await }))
}

/// Starts a thread, makes on it what `main` stands on, and reports whether that could be had.
fn spawn<G, T, P, F>(options: WorkerOptions, make_ground: P, main: F) -> io::Result<JoinHandle<T>>
where
    P: FnOnce() -> io::Result<G> + Send + 'static,
    F: FnOnce(G) -> T + Send + 'static,
    T: Send + 'static,
{
    let (report, started) = mpsc::sync_channel(1);
    let thread = Builder::new().name(options.name).spawn(move || {
        match prepare(options.cpu, options.is_urgent).and_then(|()| make_ground()) {
            Ok(ground) => {
                let _ = report.send(Ok(()));
                Some(main(ground))
            }
            Err(error) => {
                // The receiver waits for exactly this, or its thread is gone and nobody is left to tell.
                let _ = report.send(Err(error));
                None
            }
        }
    })?;
    match started.recv() {
        Ok(Ok(())) => Ok(JoinHandle(thread)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the worker thread ended before it started")),
    }
}

fn prepare(cpu: Option<usize>, is_urgent: bool) -> io::Result<()> {
    if is_urgent {
        // Not everybody may; the thread then runs as any other. On Linux this is the thread's own value.
        let _ = rustix::process::setpriority_process(None, -20);
    }
    if let Some(cpu) = cpu {
        bind_thread(&[cpu])?;
    }
    set_current_timer_slack(NonZeroU64::new(1))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    #[test]
    fn a_worker_runs_bound_to_its_cpu_without_timer_slack() {
        let cpu = *available_cpus().last().unwrap();
        let options = WorkerOptions { name: "bound".into(), cpu: Some(cpu), is_urgent: true };
        let worker = spawn_worker(options, || async {
            let local = Rc::new(3);
            let task = tokio::task::spawn_local({
                let local = Rc::clone(&local);
                async move { *local + 1 }
            });
            let slack_ns = rustix::thread::current_timer_slack().unwrap();
            (task.await.unwrap(), available_cpus(), slack_ns)
        });
        assert_eq!(worker.unwrap().join().unwrap(), (4, vec![cpu], 1));
    }

    #[test]
    fn a_cpu_that_is_not_there_is_an_error() {
        let options = WorkerOptions { name: "nowhere".into(), cpu: Some(1_000_000), is_urgent: false };
        assert_eq!(spawn_worker(options, || async {}).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_panic_reaches_who_joins() {
        let worker = spawn_worker(WorkerOptions::default(), || async { panic!("on purpose") }).unwrap();
        assert!(worker.join().is_err());
    }
}
