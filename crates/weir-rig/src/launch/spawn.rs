//! Spawns processes with limits from their first instruction. The kernel kills them when the lab (the weir process of
//! the run) ends.

use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use rustix::thread::CpuSet;

use crate::Namespace;

/// Properties of a process that are set between fork and exec.
#[derive(Debug, Default)]
pub(crate) struct Birth {
    /// Open `cgroup.procs` files of the cgroups that the process joins.
    pub(crate) groups: Vec<File>,
    /// The CPUs on which the process can run; `None` does not change them.
    pub(crate) cpus: Option<CpuSet>,
    /// The network namespace of the process; `None` is the namespace of the host.
    pub(crate) namespace: Option<Namespace>,
}

type Request = (Command, Sender<io::Result<Child>>);

/// The thread that spawns every process of a run.
///
/// The kernel sends the parent-death signal when the forking *thread* ends, even if the process of this thread
/// continues. So the thread lives as long as the run.
#[derive(Debug)]
pub(crate) struct Spawner {
    requests: Option<Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Spawner {
    pub(crate) fn start() -> io::Result<Self> {
        let (requests, inbox): (Sender<Request>, Receiver<Request>) = channel();
        let thread = thread::Builder::new().name("launcher".into()).spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        })?;
        Ok(Self { requests: Some(requests), thread: Some(thread) })
    }

    /// Spawns `command` in its own session, which Ctrl-C on the terminal does not reach.
    pub(crate) fn spawn(&self, mut command: Command, birth: Birth) -> io::Result<Child> {
        prepare(&mut command, birth);
        let (answer, inbox) = channel();
        let gone = || io::Error::other("the launcher thread has exited");
        self.requests.as_ref().ok_or_else(gone)?.send((command, answer)).map_err(|_| gone())?;
        inbox.recv().map_err(|_| gone())?
    }
}

impl Drop for Spawner {
    fn drop(&mut self) {
        self.requests.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Prepares a command that is not a part of a run. The process starts in its own session, which Ctrl-C does not reach,
/// and with the maximum number of open files. The kernel kills the process when the thread that spawned it ends.
pub fn in_own_session(command: &mut Command) {
    prepare(command, Birth::default());
}

#[allow(unsafe_code)]
fn prepare(command: &mut Command, birth: Birth) {
    let lab = rustix::process::getpid();
    let open_files = getrlimit(Resource::Nofile);
    let at_birth = move || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the parent (weir) died before the line above, the kernel sends no signal.
        if rustix::process::getppid() != Some(lab) {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        rustix::process::setsid()?;
        setrlimit(Resource::Nofile, Rlimit { current: open_files.maximum, maximum: open_files.maximum })?;
        for group in &birth.groups {
            rustix::io::write(group, b"0")?;
        }
        if let Some(cpus) = &birth.cpus {
            rustix::thread::sched_setaffinity(None, cpus)?;
        }
        if let Some(namespace) = &birth.namespace {
            namespace.enter()?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only async-signal-safe work is allowed. The closure makes plain system calls
    // (prctl, getppid, setsid, setrlimit, write, sched_setaffinity, setns) on values that were prepared before the
    // fork; it allocates nothing and takes no lock. The process joins its cgroup here, and not after its start, so
    // that even its first threads and pages are limited.
    unsafe {
        command.pre_exec(at_birth);
    }
}
