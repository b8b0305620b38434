//! Reads what the kernel counts only per process or thread: context switches, block I/O, open sockets.
//!
//! Each needs a read per thread, process or open file, so it is read only as often as that is cheap, and not in every
//! sample of a part with thousands of them.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use super::PartSample;
use crate::clock::mono_ns;

/// The pause after a read, as a multiple of its duration, so that it costs 0.1 % of a core.
const REST: u64 = 1_000;

/// Two counters: read and written, or voluntary and involuntary.
type Pair = (u64, u64);

/// Reads the processes of a part.
#[derive(Debug, Default)]
pub(super) struct ProcessReader {
    threads: Pace,
    /// The last context switches of every live thread, by ID.
    switches: BTreeMap<i32, Pair>,
    /// Context switches of ended threads, without those after their last read.
    ended: Pair,
    sockets: Pace,
    /// The maximum so far: the counters of a process that exits are lost, unless its parent belongs to the part.
    block_bytes: Option<Pair>,
}

impl ProcessReader {
    /// Adds the counters of the processes `pids` to `sample`.
    ///
    /// The last sample always has them, because it bounds a span that ends shortly before it.
    pub(super) fn sample(&mut self, pids: &[i32], is_last: bool, sample: &mut PartSample) {
        if let Some(begin) = self.threads.begin(is_last) {
            if let Ok(now) = block_bytes(pids) {
                let most =
                    |before: Pair| now.map_or(before, |now| (now.0.max(before.0), now.1.max(before.1)));
                self.block_bytes = self.block_bytes.map(most).or(now);
                (sample.block_read_bytes, sample.block_written_bytes) = self.block_bytes.unzip();
            }
            let switches = self.all_switches(switches(pids));
            (sample.switches_voluntary, sample.switches_involuntary) = switches.unzip();
            self.threads.rest_after(begin);
        }
        if let Some(begin) = self.sockets.begin(false) {
            sample.sockets = sockets(pids);
            self.sockets.rest_after(begin);
        }
    }

    /// The sum over all threads, including ended ones; `None` without any thread.
    fn all_switches(&mut self, living: BTreeMap<i32, Pair>) -> Option<Pair> {
        let was_seen = !living.is_empty() || !self.switches.is_empty() || self.ended != (0, 0);
        for (thread, before) in &self.switches {
            // If a count falls, the ID belongs to another thread.
            let goes_on = living.get(thread).is_some_and(|now| now.0 >= before.0 && now.1 >= before.1);
            if !goes_on {
                self.ended = (self.ended.0 + before.0, self.ended.1 + before.1);
            }
        }
        self.switches = living;
        was_seen.then(|| self.switches.values().fold(self.ended, |sum, one| (sum.0 + one.0, sum.1 + one.1)))
    }
}

/// When the next read is due, so that reads stay cheap.
#[derive(Debug, Default)]
struct Pace {
    due_ns: u64,
}

impl Pace {
    /// The start of a read, if one is due or required.
    fn begin(&self, must_be: bool) -> Option<u64> {
        let now_ns = mono_ns();
        (must_be || now_ns >= self.due_ns).then_some(now_ns)
    }

    fn rest_after(&mut self, begun_ns: u64) {
        let now_ns = mono_ns();
        self.due_ns = now_ns + (now_ns - begun_ns) * REST;
    }
}

/// Voluntary and involuntary context switches of every thread of `pids`. Threads that just ended are skipped.
fn switches(pids: &[i32]) -> BTreeMap<i32, Pair> {
    let threads = pids.iter().filter_map(|pid| Some((pid, fs::read_dir(format!("/proc/{pid}/task")).ok()?)));
    let mut switches = BTreeMap::new();
    for (pid, entries) in threads {
        for entry in entries.flatten() {
            let Ok(thread) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")) else {
                continue;
            };
            let of = |name| numbered(&status, name);
            if let Some(both) = of("voluntary_ctxt_switches:").zip(of("nonvoluntary_ctxt_switches:")) {
                switches.insert(thread, both);
            }
        }
    }
    switches
}

/// Bytes that the live processes of `pids` read from and wrote to block devices.
///
/// The accounting of control groups differs by version: v1 misses delayed writes, which are nearly all writes of a
/// gateway. This one is the same everywhere.
///
/// # Errors
/// If this user may not read it for one of them.
fn block_bytes(pids: &[i32]) -> io::Result<Option<Pair>> {
    let mut sum: Option<Pair> = None;
    for pid in pids {
        let text = match fs::read_to_string(format!("/proc/{pid}/io")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Err(error),
            // It just exited.
            Err(_) => continue,
        };
        let of = |name| numbered(&text, name).ok_or(io::ErrorKind::InvalidData);
        let (read, written) = sum.unwrap_or_default();
        sum = Some((read + of("read_bytes:")?, written + of("write_bytes:")?));
    }
    Ok(sum)
}

/// Sockets among the open files of `pids`; `None` if this user may not read them for one of them, or none is alive.
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

/// The number in the line that begins with `name`.
fn numbered(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn switches_of_threads_that_ended_or_gave_their_id_away_stay() {
        let mut reader = ProcessReader::default();
        let mut check = |living: &[(i32, Pair)], expected| {
            assert_eq!(reader.all_switches(living.iter().copied().collect()), expected, "{living:?}");
        };
        check(&[], None);
        check(&[(1, (10, 1)), (2, (20, 2))], Some((30, 3)));
        check(&[(1, (15, 1)), (2, (20, 2))], Some((35, 3)));
        check(&[(1, (16, 1))], Some((36, 3)));
        check(&[(1, (2, 0))], Some((38, 3)));
        check(&[], Some((38, 3)));
        check(&[(2, (1, 1))], Some((39, 4)));
    }

    #[test]
    fn a_living_process_is_read_and_one_that_ended_is_left_out() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = child.id() as i32;
        assert_eq!(switches(&[pid]).len(), 1);
        assert!(block_bytes(&[pid]).unwrap().is_some() && sockets(&[pid]).is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((sockets(&[pid]), block_bytes(&[pid]).unwrap(), switches(&[pid]).len()), (None, None, 0));
    }

    #[test]
    fn lines_are_found_by_their_whole_name() {
        let status = "nonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(numbered(status, "voluntary_ctxt_switches:"), None);
        assert_eq!(numbered(status, "nonvoluntary_ctxt_switches:"), Some(7));
    }

    #[test]
    fn a_dear_look_is_followed_by_a_long_rest() {
        let mut pace = Pace::default();
        let begun_ns = pace.begin(false).unwrap();
        pace.rest_after(begun_ns - 1_000_000_000);
        assert_eq!(pace.begin(false), None);
        assert!(pace.begin(true).is_some());
    }
}
