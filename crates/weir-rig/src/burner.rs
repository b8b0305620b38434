//! A program that uses more CPU time than it needs: the positive control of an experiment.
//!
//! A *burner* runs as a child of the program, in its session and control group. Samplers and limits of the program
//! include the burner.

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

/// How often the burner catches up.
const EVERY: Duration = Duration::from_millis(10);
/// How often it searches for new processes of the program. A search reads every process of the host. It is frequent
/// only while the program starts.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const LOOK_FIRST: Duration = Duration::from_millis(50);
const STARTS_FOR: Duration = Duration::from_secs(2);

/// CPU time of a burner and of its program so far, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BurnerRecord {
    /// CPU time of the program.
    pub used_ns: u64,
    /// CPU time of the burner.
    pub burned_ns: u64,
}

/// Starts a burner that uses `share` of the CPU time of this process and writes a [`BurnerRecord`] to the file
/// `record`. Then replaces this process by `command`. Returns only if that fails.
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

/// Uses `share` times the CPU time of the session of the parent `pid`, until the parent exits. Prints a line when its
/// record exists.
///
/// # Errors
/// If `pid` is not the parent, its CPU time cannot be read, or the record cannot be written.
pub fn burn(share: f64, record: &Path, pid: i32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let parent = Pid::from_raw(pid);
    let gone = || io::Error::other(format!("process {pid} is not the parent"));
    if parent.is_none() || getppid() != parent {
        return Err(gone());
    }
    let leader = ProcessId::of(pid).ok_or_else(gone)?;
    let mut used = Used { leader, living: Vec::new(), started: Instant::now(), looked: None };
    let (before, own_before) = (used.total(), own_cpu());
    let file = File::create(record)?;
    // A fixed length, so that each record overwrites all of the previous one.
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

/// Reads the record of a burner from its file.
///
/// # Errors
/// If it cannot be read: the burner has not started, or exited early.
pub fn read_burner_record(path: &Path) -> io::Result<BurnerRecord> {
    let text = fs::read_to_string(path)?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(used_ns)), Some(Ok(burned_ns))) => Ok(BurnerRecord { used_ns, burned_ns }),
        _ => Err(io::Error::other("the record is incomplete")),
    }
}

/// CPU time of a session without this process.
struct Used {
    leader: ProcessId,
    /// Every process seen so far, with its last CPU time.
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
            // CPU time of exited processes still counts.
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
