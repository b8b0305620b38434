//! The access log. Workers collect lines in blocks and hand the blocks to one thread, which writes them. So a slow disk
//! or a slow reader never delays a worker. The queue is limited; lines that do not fit are dropped and counted.

use std::cell::{Cell, RefCell};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;
use weir_config::{AccessLog, LogLine};

use crate::counters::UpstreamCounters;
use crate::exposition::Exposition;
use crate::log_line::{LogClock, LoggedRequest, append_line};
use crate::program_log::seldom;
use crate::weights::DueShare;

/// A block of this size goes to the writer at once. Smaller blocks go with the next tick.
const BLOCK_BYTES: usize = 16 << 10;
/// Limit of the bytes that one worker may have queued for the writer.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// How long the process waits at its exit for queued lines.
const END_PATIENCE: Duration = Duration::from_secs(5);

/// Which requests are logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum LogLevel {
    /// No requests.
    Off = 0,
    /// Failed requests.
    Error = 1,
    /// Failed requests, and the configured share of all requests.
    #[default]
    Info = 2,
    /// All requests.
    Debug = 3,
}

impl LogLevel {
    /// All levels. The level that logs the fewest requests comes first.
    pub const ALL: [LogLevel; 4] = [LogLevel::Off, LogLevel::Error, LogLevel::Info, LogLevel::Debug];

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "off",
            LogLevel::Error => "error",
            LogLevel::Info => "info",
            LogLevel::Debug => "debug",
        }
    }

    /// The level called `name`.
    pub fn named(name: &str) -> Option<LogLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// Counts of access log lines by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AccessLogStats {
    /// Lines that were written.
    pub lines: u64,
    /// Lines that were dropped because the queue of their worker was full.
    pub dropped: u64,
    /// Lines that the system did not accept, for example because the disk is full or the reader of a pipe has exited.
    pub failed: u64,
}

impl AccessLogStats {
    pub(crate) fn append(&self, text: &mut Exposition) {
        text.family("weir_access_log_lines_total", "counter", "Access log lines written.");
        text.sample("weir_access_log_lines_total", &[], self.lines);
        let help = "Access log lines lost, by reason: queue (the queue of the worker was full) or write (the system \
        did not accept the lines).";
        text.family("weir_access_log_dropped_total", "counter", help);
        for (reason, count) in [("queue", self.dropped), ("write", self.failed)] {
            text.sample("weir_access_log_dropped_total", &[("reason", reason)], count);
        }
    }
}

/// The access log level. Every worker reads it, and it is seldom set.
#[derive(Debug)]
pub(crate) struct AtomicLevel(AtomicU8);

impl Default for AtomicLevel {
    fn default() -> Self {
        AtomicLevel(AtomicU8::new(LogLevel::default() as u8))
    }
}

impl AtomicLevel {
    pub(crate) fn get(&self) -> LogLevel {
        LogLevel::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }

    pub(crate) fn set(&self, level: LogLevel) {
        self.0.store(level as u8, Ordering::Relaxed);
    }
}

/// The access log of one worker: lines that are not handed over yet, and the channel to the writer.
#[derive(Debug)]
pub(crate) struct WorkerLog {
    block: RefCell<Vec<u8>>,
    lines: Cell<u64>,
    due: RefCell<DueShare>,
    level: Arc<AtomicLevel>,
    clock: RefCell<LogClock>,
    /// Bytes queued for the writer.
    queued: Arc<AtomicUsize>,
    sender: Sender<Message>,
}

impl WorkerLog {
    /// Appends the line of a request if the level selects it. Level `info` selects failed requests, and the share
    /// `sample` of all requests.
    pub(crate) fn write(
        &self,
        sample: f64,
        line: &LogLine,
        request: &LoggedRequest<'_>,
        counters: &UpstreamCounters,
    ) {
        let is_failure = request.observed.cause.get().is_some();
        let is_due = match self.level.get() {
            LogLevel::Off => false,
            LogLevel::Error => is_failure,
            LogLevel::Info => self.due.borrow_mut().take(sample) || is_failure,
            LogLevel::Debug => true,
        };
        if !is_due {
            return;
        }
        let mut clock = self.clock.borrow_mut();
        clock.refresh();
        let mut block = self.block.borrow_mut();
        append_line(&mut block, line, request, &clock);
        block.push(b'\n');
        self.lines.set(self.lines.get() + 1);
        let is_full = block.len() >= BLOCK_BYTES;
        drop(block);
        if is_full {
            self.hand_over(counters);
        }
    }

    /// Hands the current block to the writer.
    pub(crate) fn hand_over(&self, counters: &UpstreamCounters) {
        let lines = self.lines.take();
        if lines == 0 {
            return;
        }
        let bytes = self.block.take();
        let queued = self.queued.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len();
        let block = Block { lines, queued: Arc::clone(&self.queued), bytes };
        // An unsent block is dropped, which subtracts its bytes from `queued`.
        if queued > QUEUE_BYTES_MAX || self.sender.send(Message::Write(block)).is_err() {
            counters.log_lines_dropped.add(lines);
        }
    }
}

/// A block of lines for the writer. Drop subtracts its bytes from `queued`, the size of the queue.
#[derive(Debug)]
struct Block {
    bytes: Vec<u8>,
    lines: u64,
    queued: Arc<AtomicUsize>,
}

impl Drop for Block {
    fn drop(&mut self) {
        self.queued.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

#[derive(Debug)]
enum Message {
    Write(Block),
    /// Later lines go to this file.
    Open(File),
    /// Write all earlier lines, then drop the sender.
    Flush(Sender<()>),
    End,
}

/// The writing thread. It starts with the first log that is opened.
#[derive(Debug)]
pub(crate) struct LogWriter {
    sender: Sender<Message>,
    /// `None` once the thread runs.
    receiver: Mutex<Option<Receiver<Message>>>,
    /// Disconnected once the thread ends, because the thread holds the sender.
    running: Mutex<Option<Receiver<()>>>,
    pub(crate) level: Arc<AtomicLevel>,
    written: Arc<Written>,
}

#[derive(Debug, Default)]
struct Written {
    lines: AtomicU64,
    failed: AtomicU64,
}

impl Default for LogWriter {
    fn default() -> Self {
        let (sender, receiver) = channel();
        let receiver = Mutex::new(Some(receiver));
        LogWriter {
            sender,
            receiver,
            running: Mutex::default(),
            level: Arc::default(),
            written: Arc::default(),
        }
    }
}

impl LogWriter {
    /// The access log of a new worker.
    pub(crate) fn of_worker(&self) -> WorkerLog {
        WorkerLog {
            block: RefCell::default(),
            lines: Cell::new(0),
            due: RefCell::default(),
            level: Arc::clone(&self.level),
            clock: RefCell::default(),
            queued: Arc::default(),
            sender: self.sender.clone(),
        }
    }

    /// Opens or reopens the target of `log`. Later lines go there.
    ///
    /// # Errors
    /// If the target can't be opened, or is a pipe without a reader. Nothing changes in this case.
    pub(crate) fn open(&self, log: &AccessLog) -> io::Result<()> {
        let file = match &log.file {
            Some(path) => open_file(path)?,
            None => File::from(io::stdout().as_fd().try_clone_to_owned()?),
        };
        self.start()?;
        // The thread runs as long as `self` exists.
        let _ = self.sender.send(Message::Open(file));
        Ok(())
    }

    fn start(&self) -> io::Result<()> {
        let mut receiver = self.receiver.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(messages) = receiver.take() else { return Ok(()) };
        let (running, ended) = channel();
        let written = Arc::clone(&self.written);
        std::thread::Builder::new().name("weir-log".to_owned()).spawn(move || {
            write_blocks(&messages, &written);
            std::mem::drop(running);
        })?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        Ok(())
    }

    /// Waits until all lines handed over so far are written, for at most `patience`.
    pub(crate) fn flush(&self, patience: Duration) {
        // Flush only if the thread has started. Before that, there are no lines, and the wait would last for all of
        // `patience`.
        if self.receiver.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let (written, is_written) = channel();
            // The thread may have ended already. Then the sender is dropped too, which ends the wait.
            let _ = self.sender.send(Message::Flush(written));
            let _ = is_written.recv_timeout(patience);
        }
    }

    /// Waits until all lines handed over are written, for at most [`END_PATIENCE`].
    pub(crate) fn finish(&self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            // The thread may have ended already.
            let _ = self.sender.send(Message::End);
            let _ = running.recv_timeout(END_PATIENCE);
        }
    }

    /// Counts of written and failed lines. The workers count dropped lines.
    pub(crate) fn stats(&self) -> AccessLogStats {
        AccessLogStats {
            lines: self.written.lines.load(Ordering::Relaxed),
            dropped: 0,
            failed: self.written.failed.load(Ordering::Relaxed),
        }
    }
}

/// Opens a file to append to. A pipe must already have a reader, because waiting for one would block the caller.
fn open_file(path: &str) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
    let opened =
        OpenOptions::new().create(true).append(true).mode(0o640).custom_flags(nonblocking).open(path);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::NXIO) if is_pipe(path) => io::Error::new(error.kind(), "no process reads from this pipe"),
        _ => error,
    })?;
    // Opening must not block. Writing may block, because it has its own thread.
    fcntl_setfl(&file, fcntl_getfl(&file)?.difference(OFlags::NONBLOCK))?;
    Ok(file)
}

fn is_pipe(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|file| file.file_type().is_fifo())
}

fn write_blocks(messages: &Receiver<Message>, written: &Written) {
    let mut file = None;
    // Whether the last block ended in the middle of a line, because its write failed.
    let mut is_torn = false;
    for message in messages {
        match message {
            Message::Open(opened) => (file, is_torn) = (Some(opened), false),
            Message::Flush(written) => std::mem::drop(written),
            Message::End => return,
            Message::Write(block) => {
                let outcome = match &mut file {
                    Some(file) => write_block(file, &block.bytes, is_torn),
                    None => Err(io::ErrorKind::NotConnected.into()),
                };
                let count = if outcome.is_ok() { &written.lines } else { &written.failed };
                count.fetch_add(block.lines, Ordering::Relaxed);
                is_torn = outcome.is_err();
                if let Err(error) = outcome {
                    seldom!(::log::Level::Error, "access log lines lost: {error}");
                }
            }
        }
    }
}

fn write_block(file: &mut File, bytes: &[u8], is_torn: bool) -> io::Result<()> {
    if is_torn {
        file.write_all(b"\n")?;
    }
    file.write_all(bytes)
}
