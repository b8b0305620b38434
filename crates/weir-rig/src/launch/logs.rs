//! Logs of parts, limited in disk space.
//!
//! A part writes directly to its log file, so that logging costs the same as without the rig. A thread polls the files.
//! It releases the disk space of everything before the end of a file, because errors quote only the end. The released
//! space becomes a hole, so the end keeps its offset in the file. On a file system without holes, the thread empties
//! the file instead.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate};

/// Number of bytes at the end of a log whose disk space is kept. The space of earlier bytes is released.
const KEPT_BYTES: u64 = 1 << 20;
/// Space is released each time a log grows this many bytes beyond [`KEPT_BYTES`].
const PIECE_BYTES: u64 = 1 << 20;
/// Space is released in multiples of this number of bytes, which is a multiple of every file system's block size.
const BLOCK_BYTES: u64 = 64 << 10;
/// How often files are polled. A poll costs a microsecond per file.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Number of bytes at the end of a log that an error quotes.
const TAIL_BYTES: u64 = 4096;

/// The thread that limits the logs of a run.
#[derive(Debug)]
pub(crate) struct Logs {
    watched: Option<Sender<Weak<File>>>,
    thread: Option<JoinHandle<()>>,
}

/// A log, and how much of its space was released.
#[derive(Debug)]
struct Log {
    file: Weak<File>,
    freed_bytes: u64,
}

impl Logs {
    pub(crate) fn start() -> io::Result<Self> {
        let (watched, inbox) = channel();
        let thread = thread::Builder::new().name("logs".into()).spawn(move || keep_small(&inbox))?;
        Ok(Self { watched: Some(watched), thread: Some(thread) })
    }

    /// Creates the log at `path`. Its disk space is limited as long as the returned file is open.
    pub(crate) fn open(&self, path: &Path) -> io::Result<Arc<File>> {
        // Opened for append, so that two processes that write to the file do not overwrite each other.
        let file = Arc::new(OpenOptions::new().create(true).append(true).open(path)?);
        file.set_len(0)?;
        if let Some(watched) = &self.watched {
            // If the thread has ended, the log grows without a limit.
            let _ = watched.send(Arc::downgrade(&file));
        }
        Ok(file)
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        self.watched.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn keep_small(inbox: &Receiver<Weak<File>>) {
    let mut logs: Vec<Log> = Vec::new();
    loop {
        match inbox.recv_timeout(LOOK_EVERY) {
            Ok(file) => logs.push(Log { file, freed_bytes: 0 }),
            Err(RecvTimeoutError::Timeout) => logs.retain_mut(Log::keep_small),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl Log {
    /// Releases disk space if the log has grown enough; returns whether the log is still open.
    fn keep_small(&mut self) -> bool {
        let Some(file) = self.file.upgrade() else { return false };
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        let end = length.saturating_sub(KEPT_BYTES) / BLOCK_BYTES * BLOCK_BYTES;
        if end < self.freed_bytes + PIECE_BYTES {
            return true;
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.freed_bytes = match fallocate(&*file, hole, self.freed_bytes, end - self.freed_bytes) {
            Ok(()) => end,
            // The file system does not support holes, so empty the whole log.
            Err(_) => file.set_len(0).map_or(self.freed_bytes, |()| 0),
        };
        true
    }
}

/// The end of the log at `path`; empty if it cannot be read.
pub(super) fn tail(path: &Path) -> String {
    read_tail(path).unwrap_or_default()
}

fn read_tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = fs::metadata(path)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{FileExt, MetadataExt};

    use super::*;

    #[test]
    fn a_growing_log_keeps_its_tail_and_releases_disk_space() {
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs::start().unwrap();
        let file = logs.open(&folder.path().join("log")).unwrap();
        let line = "something that is said again and again\n".repeat(1 << 14);
        let mut written = 0;
        for _ in 0..40 {
            (&*file).write_all(line.as_bytes()).unwrap();
            written += line.len() as u64;
        }
        (&*file).write_all(b"the end").unwrap();
        let on_disk = || file.metadata().unwrap().blocks() * 512;
        let bound = KEPT_BYTES + PIECE_BYTES + 2 * BLOCK_BYTES;
        assert!(written > 4 * bound);
        assert!(crate::cleanup::wait_until(|| on_disk() <= bound), "{} of {written} bytes", on_disk());
        let mut tail = [0; 64];
        let end = file.metadata().unwrap().len();
        file_at(&folder.path().join("log"), &mut tail, end - 64);
        assert!(String::from_utf8_lossy(&tail).ends_with("again and again\nthe end"));
    }

    fn file_at(path: &Path, bytes: &mut [u8], offset: u64) {
        File::open(path).unwrap().read_exact_at(bytes, offset).unwrap();
    }
}
