//! A program that uses more CPU time than it needs: the positive control of an experiment.
//!
//! A *burner* runs as a child of the program, in its session and control group. Whoever samples or limits the program
//! samples and limits both.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};

use crate::cleanup::{ProcessId, members};

/// How often the burner catches up.
const EVERY: Duration = Duration::from_millis(10);
/// How often it looks for new processes of the program, which costs a read of every process of the host.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Starts a burner that uses `share` of the CPU time of this process, and then becomes `command`. Returns only if that
/// fails.
pub fn exec_with_burner(share: f64, command: &[String]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no command");
    };
    let started = std::env::current_exe().and_then(|weir| {
        let share = share.to_string();
        let of = getpid().to_string();
        let mut burner = Command::new(weir);
        burner.args(["burn", "--share", &share, "--of", &of]);
        burner.stdin(Stdio::null()).stdout(Stdio::null()).spawn()
    });
    match started {
        Ok(_) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Uses `share` of the CPU time that the session of the parent `pid` uses from now on, until the parent ends.
///
/// # Errors
/// If `pid` is not the parent, or the kernel does not tell about it.
pub fn burn(share: f64, pid: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = Pid::from_raw(pid);
    let gone = || io::Error::other(format!("process {pid} is not the parent"));
    if parent.is_none() || getppid() != parent {
        return Err(gone());
    }
    let leader = ProcessId::of(pid).ok_or_else(gone)?;
    let mut used = Used { leader, living: Vec::new(), looked: None };
    let (before, own_before) = (used.total(), own_cpu());
    while getppid() == parent {
        let due = used.total().saturating_sub(before).mul_f64(share);
        while own_cpu().saturating_sub(own_before) < due {
            std::hint::spin_loop();
        }
        thread::sleep(EVERY);
    }
    Ok(())
}

/// CPU time of a session without this process.
struct Used {
    leader: ProcessId,
    /// Every process seen so far, with its last CPU time.
    living: Vec<(Process, Duration)>,
    looked: Option<Instant>,
}

impl Used {
    fn total(&mut self) -> Duration {
        if self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY) {
            self.looked = Some(Instant::now());
            let own = getpid().as_raw_nonzero().get();
            let known: Vec<i32> = self.living.iter().map(|(process, _)| process.pid()).collect();
            let new = members(&self.leader).into_iter().filter(|pid| *pid != own && !known.contains(pid));
            self.living.extend(new.filter_map(|pid| Some((Process::new(pid).ok()?, Duration::ZERO))));
        }
        let ticks_per_second = procfs::ticks_per_second();
        for (process, used) in &mut self.living {
            // What an exited process used stays used.
            let Ok(stat) = process.stat() else { continue };
            *used = Duration::from_nanos((stat.utime + stat.stime) * (1_000_000_000 / ticks_per_second));
        }
        self.living.iter().map(|(_, used)| *used).sum()
    }
}

fn own_cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.max(0).unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
