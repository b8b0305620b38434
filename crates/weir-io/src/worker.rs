//! Worker threads. Each can have its own async runtime, and they share no state.

use std::future::Future;
use std::io;
use std::num::NonZeroU64;
use std::sync::mpsc;
use std::thread::Builder;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_current_timer_slack};
use tokio::runtime::{LocalOptions, LocalRuntime};

/// Options for a worker thread.
#[derive(Clone, Debug, Default)]
pub struct WorkerOptions {
    /// The thread's name, as `top` and `perf` show it. The kernel keeps 15 bytes.
    pub name: String,
    /// The CPU to which the thread is pinned; `None` lets the scheduler choose.
    pub cpu: Option<usize>,
    /// Whether the thread runs at nice -20, if the kernel allows this. Use it for threads that measure time and mostly
    /// sleep: other threads then delay them less.
    pub is_urgent: bool,
}

/// A running worker thread.
#[derive(Debug)]
pub struct JoinHandle<T>(std::thread::JoinHandle<Option<T>>);

impl<T> JoinHandle<T> {
    /// Waits until the worker ends, and returns its result.
    ///
    /// # Errors
    /// If the worker panicked.
    pub fn join(self) -> std::thread::Result<T> {
        Ok(self.0.join()?.expect("a started worker returns a result"))
    }

    /// Whether the worker has ended.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// Returns the CPUs that this process may use, in ascending order. Empty if the kernel does not report them.
pub fn available_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(None) else { return Vec::new() };
    (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect()
}

/// Returns the number of CPUs that this process may use. If a CPU quota of its cgroup (v1 or v2) is lower, returns
/// the quota, rounded up.
pub fn worth_cpus() -> usize {
    num_cpus::get()
}

/// Pins the calling thread to these CPUs. Replaces its previous affinity.
///
/// # Errors
/// If the process may not use any of these CPUs.
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

/// Starts a thread and runs `main` on it. The thread's timer slack is 1 ns instead of the kernel's 50 µs.
///
/// # Errors
/// If the thread cannot start or cannot be pinned to its CPU.
pub fn spawn_thread<T, F>(options: WorkerOptions, main: F) -> io::Result<JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    spawn(options, || Ok(()), |()| main())
}

/// Starts a thread with its own runtime, like [`spawn_thread`], and runs `main` on it.
///
/// The thread itself calls `main`, so the future may be `!Send` and `spawn_local` works.
///
/// # Errors
/// As for [`spawn_thread`], and if no file descriptor is left for the runtime.
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

/// Starts a thread. On it, `make_ground` prepares what `main` needs. Returns an error if the preparation fails.
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
                // The receiver waits for this report. If sending fails, the thread that started this one has ended.
                let _ = report.send(Err(error));
                None
            }
        }
    })?;
    match started.recv() {
        Ok(Ok(())) => Ok(JoinHandle(thread)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(io::Error::other("the worker thread exited before it was ready")),
    }
}

fn prepare(cpu: Option<usize>, is_urgent: bool) -> io::Result<()> {
    if is_urgent {
        // Without the permission, the thread keeps its priority. On Linux, this call changes only the current
        // thread.
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
    fn a_worker_is_pinned_to_its_cpu_without_timer_slack() {
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
    fn a_missing_cpu_is_an_error() {
        let options = WorkerOptions { name: "nowhere".into(), cpu: Some(1_000_000), is_urgent: false };
        assert_eq!(spawn_worker(options, || async {}).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn join_returns_the_panic() {
        let worker = spawn_worker(WorkerOptions::default(), || async { panic!("on purpose") }).unwrap();
        assert!(worker.join().is_err());
    }
}
