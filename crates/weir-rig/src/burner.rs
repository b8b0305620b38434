//! Increases the CPU time of a program by a known share. A run with such a program checks that weir detects the
//! difference.
//!
//! A *burner* process runs as a child of the program, in the same session and cgroup. Samplers and limits of the
//! program therefore include the burner.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use procfs::process::Process;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::time::{ClockId, clock_gettime};
use weir_document::Time;

use crate::cleanup::{ProcessId, members};

/// How often the burner reads the program's CPU time, and burns the configured share of it.
const EVERY: Duration = Duration::from_millis(10);
/// How often the burner searches for new child processes of the program. It searches rarely, because a search reads all
/// processes of the host.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the burner searches for new child processes while the program starts.
const LOOK_FIRST: Duration = Duration::from_millis(50);
/// How long [`LOOK_FIRST`] applies, from the start of the burner.
const STARTS_FOR: Duration = Duration::from_secs(2);

/// CPU time that a burner and its parent program have used so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurnerRecord {
    /// CPU time of the program without the burner, nanoseconds.
    pub used_ns: u64,
    /// CPU time of the burner, nanoseconds.
    pub burned_ns: u64,
}

/// Starts a burner as a child of this process, then replaces this process with `command`. The burner uses `share` times
/// the CPU time of `command`, and keeps a [`BurnerRecord`] in the file `record`. Returns only on failure.
pub fn exec_with_burner(share: f64, record: &Path, command: &[String]) -> io::Error {
    let Some((program, arguments)) = command.split_first() else {
        return io::Error::new(io::ErrorKind::InvalidInput, "there is no command");
    };
    let started = std::env::current_exe().and_then(|weir| {
        let share = share.to_string();
        let of = getpid().to_string();
        let mut burner = Command::new(weir);
        burner.args(["burn", "--share", &share, "--of", &of, "--record"]).arg(record);
        let mut burner = burner.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let begun = burner.stdout.take().map_or(Ok(()), |mut output| output.read_exact(&mut [0]));
        begun.map_err(|_| io::Error::other("the burner process exited immediately"))
    });
    match started {
        Ok(()) => Command::new(program).args(arguments).exec(),
        Err(error) => error,
    }
}

/// Runs the burner until the parent process `pid` exits. The burner uses `share` times the CPU time of the parent and
/// of the other processes in its session. Prints an empty line once the file `record` exists.
///
/// # Errors
/// If `pid` is not the parent, if the CPU time of the parent cannot be read, or if the file cannot be written.
pub fn burn(share: f64, record: &Path, pid: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = Pid::from_raw(pid);
    let gone = || io::Error::other(format!("process {pid} is not the parent of this process"));
    if parent.is_none() || getppid() != parent {
        return Err(gone());
    }
    let leader = ProcessId::of(pid).ok_or_else(gone)?;
    let mut used = Used { leader, living: Vec::new(), started: Instant::now(), looked: None };
    let (before, own_before) = (used.total(), own_cpu());
    let file = File::create(record)?;
    // All records have the same length, so that a new record overwrites the previous one completely.
    let keep = |used: Duration, burned: Duration| {
        let [used, burned] = [used, burned].map(|time| Time(time).as_ns());
        file.write_all_at(format!("{used:020} {burned:020}\n").as_bytes(), 0)
    };
    keep(Duration::ZERO, Duration::ZERO)?;
    io::stdout().write_all(b"\n")?;
    while getppid() == parent {
        let used = used.total().saturating_sub(before);
        while own_cpu().saturating_sub(own_before) < used.mul_f64(share) {
            std::hint::spin_loop();
        }
        keep(used, own_cpu().saturating_sub(own_before))?;
        thread::sleep(EVERY);
    }
    Ok(())
}

/// Reads the [`BurnerRecord`] that a burner wrote to the file `path`.
///
/// # Errors
/// If the file cannot be read, or contains no complete record: the burner has not started, or exited early.
pub fn read_burner_record(path: &Path) -> io::Result<BurnerRecord> {
    let text = fs::read_to_string(path)?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(used_ns)), Some(Ok(burned_ns))) => Ok(BurnerRecord { used_ns, burned_ns }),
        _ => Err(io::Error::other("the burner record is incomplete")),
    }
}

/// Adds up the CPU time of all processes of a session, except this process.
struct Used {
    leader: ProcessId,
    /// Every process seen so far, with the CPU time that was last read.
    living: Vec<(Process, Duration)>,
    started: Instant,
    looked: Option<Instant>,
}

impl Used {
    fn total(&mut self) -> Duration {
        let every = if self.started.elapsed() < STARTS_FOR { LOOK_FIRST } else { LOOK_EVERY };
        if self.looked.is_none_or(|looked| looked.elapsed() >= every) {
            self.looked = Some(Instant::now());
            let own = getpid().as_raw_nonzero().get();
            let known: Vec<i32> = self.living.iter().map(|(process, _)| process.pid()).collect();
            let new = members(&self.leader).into_iter().filter(|pid| *pid != own && !known.contains(pid));
            self.living.extend(new.filter_map(|pid| Some((Process::new(pid).ok()?, Duration::ZERO))));
        }
        let ticks_per_second = procfs::ticks_per_second();
        for (process, used) in &mut self.living {
            // An exited process keeps its last CPU time, which still counts.
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
