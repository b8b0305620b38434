//! Lines on their way to standard output and standard error, either of which may be a pipe that nobody reads.
//!
//! Whoever has a line hands it to a thread, which writes it: nobody else waits for whoever reads, above all not the
//! thread that obeys signals. What finds no room in the queue is left out, and how much that was is told.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Lines on their way to the thread; more are left out.
const QUEUE_LINES_MAX: usize = 1024;

/// Between two looks for room in the queue, by whoever waits for its end.
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(5);

static STANDARD_OUTPUT: OnceLock<Outlet> = OnceLock::new();

/// A queue of lines with the thread that writes them.
#[derive(Debug)]
pub(crate) struct Outlet {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

#[derive(Debug)]
enum Message {
    Line(Vec<u8>),
    /// Everything before it is written once this is dropped.
    Flush(SyncSender<()>),
}

impl Outlet {
    /// Writes to `out` from a thread of this name. Once there is room again, `tell_lost` is told how many lines found none.
    pub(crate) fn open(
        thread: &str,
        out: impl Write + Send + 'static,
        tell_lost: fn(u64),
    ) -> io::Result<Outlet> {
        let (sender, received) = sync_channel(QUEUE_LINES_MAX);
        let lost = Arc::new(AtomicU64::new(0));
        let lost_lines = Arc::clone(&lost);
        let thread = std::thread::Builder::new().name(thread.to_owned());
        thread.spawn(move || write_lines(&received, out, &lost_lines, tell_lost))?;
        Ok(Outlet { sender, lost })
    }

    /// Hands over a line with its end; it waits for nothing.
    pub(crate) fn write(&self, line: Vec<u8>) {
        if self.sender.try_send(Message::Line(line)).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until everything that was handed over is written, but no longer than this.
    pub(crate) fn flush(&self, patience: Duration) {
        let until = Instant::now() + patience;
        let (written, is_written) = sync_channel(0);
        let mut message = Message::Flush(written);
        while let Err(TrySendError::Full(back)) = self.sender.try_send(message) {
            if Instant::now() >= until {
                return;
            }
            std::thread::sleep(LOOK_AGAIN_AFTER);
            message = back;
        }
        // It ends with an error when the other end is dropped, which is what is waited for.
        let _ = is_written.recv_timeout(until.saturating_duration_since(Instant::now()));
    }

    /// How many lines found no room since that was told last.
    fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }
}

/// From here on [`say`] speaks.
pub(crate) fn open_standard_output() -> io::Result<()> {
    let outlet = Outlet::open("weir-output", io::stdout(), tell_unsaid)?;
    // The program opens it once.
    let _ = STANDARD_OUTPUT.set(outlet);
    Ok(())
}

/// Says a line on standard output, which the log has too.
pub(crate) fn say(line: &str) {
    log::info!("{line}");
    if let Some(outlet) = STANDARD_OUTPUT.get() {
        outlet.write(format!("{line}\n").into_bytes());
    }
}

/// Waits until what was said is written, but no longer than this.
pub(crate) fn finish(patience: Duration) {
    if let Some(outlet) = STANDARD_OUTPUT.get() {
        outlet.flush(patience);
        match outlet.take_lost() {
            0 => {}
            lines => tell_unsaid(lines),
        }
    }
}

fn tell_unsaid(lines: u64) {
    log::warn!("standard output is blocked; lines dropped: {lines}");
}

/// Writes until the process ends. Where nobody reads any more there is nobody to tell.
fn write_lines(messages: &Receiver<Message>, mut out: impl Write, lost: &AtomicU64, tell_lost: fn(u64)) {
    for message in messages {
        match message {
            Message::Flush(written) => drop(written),
            Message::Line(line) => {
                let _ = out.write_all(&line).and_then(|()| out.flush());
                match lost.swap(0, Ordering::Relaxed) {
                    0 => {}
                    lines => tell_lost(lines),
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

    /// Takes a line for each leave that it is given.
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
    fn nobody_waits_and_what_finds_no_room_is_counted() {
        static LOST: Mutex<Vec<u64>> = Mutex::new(Vec::new());
        let ((leave, leaves), (sender, written)) = (channel(), channel());
        let outlet = Outlet::open("test", Slow(leaves, sender), |lines| LOST.lock().unwrap().push(lines));
        let outlet = outlet.unwrap();
        let lines = QUEUE_LINES_MAX + 10;
        for line in 0..lines {
            outlet.write(line.to_string().into_bytes());
        }
        outlet.flush(Duration::from_millis(1));
        (0..lines).for_each(|_| leave.send(()).unwrap());
        outlet.flush(Duration::from_secs(20));
        let written: Vec<Vec<u8>> = written.try_iter().collect();
        let expected: Vec<Vec<u8>> = (0..written.len()).map(|line| line.to_string().into_bytes()).collect();
        assert_eq!(written, expected, "in their order");
        // The thread may have taken one out of the queue before it was full.
        assert!((QUEUE_LINES_MAX..=QUEUE_LINES_MAX + 1).contains(&written.len()), "{}", written.len());
        assert_eq!(*LOST.lock().unwrap(), [(lines - written.len()) as u64]);
    }
}
