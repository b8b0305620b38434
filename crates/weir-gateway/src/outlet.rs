//! Queues for standard output and standard error. They are needed because a write to a full pipe blocks.
//!
//! A thread per output writes the lines, so a blocked output blocks no other thread, such as the one that handles
//! signals. If the queue is full, lines are dropped and counted.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// At most this many lines are queued; more are dropped.
const QUEUE_LINES_MAX: usize = 1024;

/// Interval between attempts to add a flush message to a full queue.
const RETRY_AFTER: Duration = Duration::from_millis(5);

static STANDARD_OUTPUT: OnceLock<Outlet> = OnceLock::new();

/// A queue of lines, and the thread that writes them.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: SyncSender<Message>,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Asks for a flush. The sender is dropped once all earlier lines are written.
    Flush(SyncSender<()>),
}

impl Outlet {
    /// Starts a thread with the name `thread` that writes the queued lines to `out`. If the queue was full and lines
    /// were dropped, the thread calls `report_dropped` with their number after it writes the next line.
    pub(crate) fn open(
        thread: &str,
        out: impl Write + Send + 'static,
        report_dropped: fn(u64),
    ) -> io::Result<Outlet> {
        let (sender, received) = sync_channel(QUEUE_LINES_MAX);
        let dropped = Arc::new(AtomicU64::new(0));
        let dropped_lines = Arc::clone(&dropped);
        let thread = std::thread::Builder::new().name(thread.to_owned());
        thread.spawn(move || write_lines(&received, out, &dropped_lines, report_dropped))?;
        Ok(Outlet { sender, dropped })
    }

    /// Queues a line, with its line break. Never blocks.
    pub(crate) fn write(&self, line: Vec<u8>) {
        if self.sender.try_send(Message::Line(line)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until all queued lines are written, at most `timeout`.
    pub(crate) fn flush(&self, timeout: Duration) {
        let until = Instant::now() + timeout;
        let (written, is_written) = sync_channel(0);
        let mut message = Message::Flush(written);
        while let Err(TrySendError::Full(back)) = self.sender.try_send(message) {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(RETRY_AFTER);
            message = back;
        }
        // The thread drops the sender after the last line, which ends this wait with an error.
        let _ = is_written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }

    /// Returns the number of lines dropped since the last call, and resets it.
    fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

/// Opens the output of [`print_and_log`].
pub(crate) fn open_standard_output() -> io::Result<()> {
    let outlet = Outlet::open("weir-output", io::stdout(), warn_dropped)?;
    // The program calls this function once, so the value is not set yet.
    let _ = STANDARD_OUTPUT.set(outlet);
    Ok(())
}

/// Prints a line on standard output, and logs it.
pub(crate) fn print_and_log(line: &str) {
    log::info!("{line}");
    if let Some(outlet) = STANDARD_OUTPUT.get() {
        outlet.write(format!("{line}\n").into_bytes());
    }
}

/// Waits until all printed lines are written, at most `timeout`.
pub(crate) fn finish(timeout: Duration) {
    if let Some(outlet) = STANDARD_OUTPUT.get() {
        outlet.flush(timeout);
        match outlet.take_dropped() {
            0 => {}
            lines => warn_dropped(lines),
        }
    }
}

fn warn_dropped(lines: u64) {
    log::warn!("standard output is blocked; lines dropped: {lines}");
}

/// Writes lines until the process exits. Ignores write errors, because there is nowhere to report them.
fn write_lines(
    messages: &Receiver<Message>,
    mut out: impl Write,
    dropped: &AtomicU64,
    report_dropped: fn(u64),
) {
    for message in messages {
        match message {
            Message::Flush(written) => drop(written),
            Message::Line(line) => {
                let _ = out.write_all(&line).and_then(|()| out.flush());
                match dropped.swap(0, Ordering::Relaxed) {
                    0 => {}
                    lines => report_dropped(lines),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;

    /// A writer that writes one line each time it receives a message.
    struct Slow(Receiver<()>, Sender<Vec<u8>>);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.recv().map_err(io::Error::other)?;
            self.1.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_queue_drops_lines_and_counts_them() {
        static DROPPED: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        let ((permit, permits), (sender, written)) = (channel(), channel());
        let outlet = Outlet::open("test", Slow(permits, sender), |lines| DROPPED.lock().unwrap().push(lines));
        let outlet = outlet.unwrap();
        let lines = QUEUE_LINES_MAX + 10;
        for line in 0..lines {
            outlet.write(line.to_string().into_bytes());
        }
        outlet.flush(Duration::from_millis(1));
        (0..lines).for_each(|_| permit.send(()).unwrap());
        outlet.flush(Duration::from_secs(20));
        let written: Vec<Vec<u8>> = written.try_iter().collect();
        let expected: Vec<Vec<u8>> = (0..written.len()).map(|line| line.to_string().into_bytes()).collect();
        assert_eq!(written, expected, "in order");
        // The thread may have taken one line from the queue before the queue was full.
        assert!((QUEUE_LINES_MAX..=QUEUE_LINES_MAX + 1).contains(&written.len()), "{}", written.len());
        assert_eq!(*DROPPED.lock().unwrap(), [(lines - written.len()) as u64]);
    }
}
