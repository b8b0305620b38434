//! Reads what the kernel counts only per process or thread: context switches, run-queue delay, block I/O, open sockets.
//!
//! Each value needs one read per thread, process or open file. So if a part has thousands of them, weir does not read
//! these values in every sample.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::ops::Add;

use super::PartSample;
use crate::clock::mono_ns;

/// Pause after each read, as a multiple of the duration of the read. So reading costs 0.1 % of a core.
const REST: u64 = 1_000;

/// Bytes read, and bytes written.
type Pair = (u64, u64);

/// Context switches and run-queue delay of a thread, or their sums over several threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ThreadCounts {
    voluntary: u64,
    involuntary: u64,
    /// Run-queue delay, nanoseconds; `None` if the kernel does not show it.
    waited_ns: Option<u64>,
}

impl ThreadCounts {
    /// Whether no counter is lower than in `before`. Counters of one thread never fall.
    fn follow(self, before: Self) -> bool {
        self.voluntary >= before.voluntary
            && self.involuntary >= before.involuntary
            && self.waited_ns >= before.waited_ns
    }
}

impl Add for ThreadCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
            waited_ns: self.waited_ns.zip(other.waited_ns).map(|(one, more)| one + more),
        }
    }
}

/// Reads the counters that the kernel has only per process or thread, and adds them up for a part.
#[derive(Debug, Default)]
pub(super) struct ProcessReader {
    threads: Pace,
    /// The last counters of every live thread, by thread ID.
    living: BTreeMap<i32, ThreadCounts>,
    /// The sum of the last counters of all ended threads; `None` if no thread has ended yet.
    ended: Option<ThreadCounts>,
    sockets: Pace,
    /// The highest sums of read and written bytes so far. The sums can fall: the counters of a process that exits are
    /// lost unless its parent belongs to the part.
    block_bytes: Option<Pair>,
}

impl ProcessReader {
    /// Adds the counters of the processes `pids` to `sample`.
    ///
    /// In the last sample (`is_last`), threads and block I/O are read even if they are not due. Otherwise a span that
    /// ends shortly before this sample would have no values.
    pub(super) fn sample(&mut self, pids: &[i32], is_last: bool, sample: &mut PartSample) {
        if let Some(begin) = self.threads.begin(is_last) {
            if let Ok(now) = block_bytes(pids) {
                let most =
                    |before: Pair| now.map_or(before, |now| (now.0.max(before.0), now.1.max(before.1)));
                self.block_bytes = self.block_bytes.map(most).or(now);
                (sample.block_read_bytes, sample.block_written_bytes) = self.block_bytes.unzip();
            }
            if let Some(all) = self.all_threads(thread_counts(pids)) {
                sample.switches_voluntary = Some(all.voluntary);
                sample.switches_involuntary = Some(all.involuntary);
                sample.waited_ns = all.waited_ns;
            }
            self.threads.rest_after(begin);
        }
        if let Some(begin) = self.sockets.begin(false) {
            sample.sockets = sockets(pids);
            self.sockets.rest_after(begin);
        }
    }

    /// Updates the counters with those of the live threads, and returns the sum over all threads, including ended ones.
    /// `None` if there has been no thread yet.
    fn all_threads(&mut self, living: BTreeMap<i32, ThreadCounts>) -> Option<ThreadCounts> {
        for (thread, before) in &self.living {
            // If a counter falls, the thread has ended, and a new thread has its ID.
            let goes_on = living.get(thread).is_some_and(|now| now.follow(*before));
            if !goes_on {
                self.ended = self.ended.map(|ended| ended + *before).or(Some(*before));
            }
        }
        self.living = living;
        self.ended.into_iter().chain(self.living.values().copied()).reduce(Add::add)
    }
}

/// When the next read is due. The pause between reads depends on how long they take.
#[derive(Debug, Default)]
struct Pace {
    due_ns: u64,
}

impl Pace {
    /// Returns the current time if a read is due or `must_be` is true, otherwise `None`.
    fn begin(&self, must_be: bool) -> Option<u64> {
        let now_ns = mono_ns();
        (must_be || now_ns >= self.due_ns).then_some(now_ns)
    }

    fn rest_after(&mut self, begun_ns: u64) {
        let now_ns = mono_ns();
        self.due_ns = now_ns + (now_ns - begun_ns) * REST;
    }
}

/// The counters of every thread of the processes `pids`, by thread ID. Threads that have just ended are skipped.
fn thread_counts(pids: &[i32]) -> BTreeMap<i32, ThreadCounts> {
    let threads = pids.iter().filter_map(|pid| Some((pid, fs::read_dir(format!("/proc/{pid}/task")).ok()?)));
    let mut counts = BTreeMap::new();
    for (pid, entries) in threads {
        for entry in entries.flatten() {
            let Ok(thread) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let task = format!("/proc/{pid}/task/{thread}");
            let Ok(status) = fs::read_to_string(format!("{task}/status")) else { continue };
            let of = |name| numbered(&status, name);
            if let Some((voluntary, involuntary)) =
                of("voluntary_ctxt_switches:").zip(of("nonvoluntary_ctxt_switches:"))
            {
                let schedstat = fs::read_to_string(format!("{task}/schedstat")).ok();
                let waited_ns = schedstat.as_deref().and_then(run_queue_delay);
                counts.insert(thread, ThreadCounts { voluntary, involuntary, waited_ns });
            }
        }
    }
    counts
}

/// Parses the run-queue delay (nanoseconds) in a `schedstat`. Its three numbers are time on a CPU, time waiting for a
/// CPU, and time slices.
fn run_queue_delay(schedstat: &str) -> Option<u64> {
    schedstat.split_whitespace().nth(1)?.parse().ok()
}

/// Bytes that the live processes of `pids` read from and wrote to block devices.
///
/// Reads /proc/PID/io, which is the same on every host. The counters of cgroups differ by version: v1 misses delayed
/// writes, which are nearly all writes of a gateway.
///
/// # Errors
/// If this user may not read the file of one of the processes.
fn block_bytes(pids: &[i32]) -> io::Result<Option<Pair>> {
    let mut sum: Option<Pair> = None;
    for pid in pids {
        let text = match fs::read_to_string(format!("/proc/{pid}/io")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // The process has just exited.
            Err(_) => continue,
        };
        let of = |name| numbered(&text, name).ok_or(io::ErrorKind::InvalidData);
        let (read, written) = sum.unwrap_or_default();
        sum = Some((read + of("read_bytes:")?, written + of("write_bytes:")?));
    }
    Ok(sum)
}

/// Number of sockets among the open files of `pids`; `None` if this user may not read the open files of one of these
/// processes, or none is alive.
fn sockets(pids: &[i32]) -> Option<u64> {
    let mut sum: Option<u64> = None;
    for pid in pids {
        let files = match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(files) => files,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return None,
            Err(_) => continue,
        };
        let is_socket = |entry: &fs::DirEntry| {
            fs::read_link(entry.path()).is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        };
        sum = Some(sum.unwrap_or(0) + files.flatten().filter(is_socket).count() as u64);
    }
    sum
}

/// The number after `name`, in the line of `text` that begins with `name`.
fn numbered(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn counters_of_ended_threads_and_reused_ids_are_kept() {
        let mut reader = ProcessReader::default();
        let counts = |(voluntary, involuntary, waited_ns): (u64, u64, u64)| ThreadCounts {
            voluntary,
            involuntary,
            waited_ns: Some(waited_ns),
        };
        let mut check = |living: &[(i32, (u64, u64, u64))], expected: Option<(u64, u64, u64)>| {
            let of_threads = living.iter().map(|(thread, of)| (*thread, counts(*of))).collect();
            assert_eq!(reader.all_threads(of_threads), expected.map(counts), "{living:?}");
        };
        check(&[], None);
        check(&[(1, (10, 1, 100)), (2, (20, 2, 200))], Some((30, 3, 300)));
        check(&[(1, (15, 1, 110)), (2, (20, 2, 200))], Some((35, 3, 310)));
        check(&[(1, (16, 1, 110))], Some((36, 3, 310)));
        check(&[(1, (2, 0, 5))], Some((38, 3, 315)));
        check(&[], Some((38, 3, 315)));
        check(&[(2, (1, 1, 1))], Some((39, 4, 316)));
    }

    #[test]
    fn a_thread_without_run_queue_delay_makes_the_sum_unknown() {
        assert_eq!(run_queue_delay("1200 340 5\n"), Some(340));
        assert_eq!(run_queue_delay(""), None);
        let known = ThreadCounts { waited_ns: Some(7), ..ThreadCounts::default() };
        assert_eq!((known + ThreadCounts::default()).waited_ns, None);
        assert_eq!((known + known).waited_ns, Some(14));
    }

    #[test]
    fn ended_processes_are_skipped() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        let counts = thread_counts(&[pid]);
        assert!(counts.len() == 1 && counts.values().all(|of| of.waited_ns.is_some()), "{counts:?}");
        assert!(block_bytes(&[pid]).unwrap().is_some() && sockets(&[pid]).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            (sockets(&[pid]), block_bytes(&[pid]).unwrap(), thread_counts(&[pid]).len()),
            (None, None, 0)
        );
    }

    #[test]
    fn lines_are_found_by_full_name() {
        let status = "nonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(numbered(status, "voluntary_ctxt_switches:"), None);
        assert_eq!(numbered(status, "nonvoluntary_ctxt_switches:"), Some(7));
    }

    #[test]
    fn an_expensive_read_is_followed_by_a_long_pause() {
        let mut pace = Pace::default();
        let begun_ns = pace.begin(false).unwrap();
        pace.rest_after(begun_ns - 1_000_000_000);
        assert_eq!(pace.begin(false), None);
        assert!(pace.begin(true).is_some());
    }
}
