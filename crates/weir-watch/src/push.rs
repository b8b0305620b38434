//! A thread that pushes samples to one receiver. Samples that it cannot write in time are dropped and counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::WatchError;
use crate::client::{Client, Outcome, Why};
use crate::output::Output;
use crate::series::{Batch, samples};

/// Maximum number of batches in the queue. It is enough for some seconds of a load with the maximum number of agents.
const QUEUE_MAX: usize = 1_024;
/// Pauses before each retry of a batch.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(200),
    Duration::from_millis(400),
    Duration::from_millis(800),
    Duration::from_millis(1_600),
];
/// Maximum time to write the batches that are left at the end.
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// How often weir checks whether to end a pause early.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Counts of written and lost samples, and why samples were lost.
#[derive(Clone, Debug, Default)]
struct Account {
    written: u64,
    lost: u64,
    /// Number of samples that were dropped because the queue was full; `lost` includes them.
    crowded: u64,
    why: Option<Why>,
}

/// The caller's handle for the thread that pushes to one receiver.
#[derive(Debug)]
pub(crate) struct Pusher {
    url: String,
    queue: SyncSender<Batch>,
    shared: Arc<Shared>,
    done: Receiver<()>,
}

#[derive(Debug, Default)]
struct Shared {
    account: Mutex<Account>,
    /// Set when no more batches follow. Pauses then end early.
    is_over: AtomicBool,
}

impl Shared {
    fn account(&self) -> MutexGuard<'_, Account> {
        self.account.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pusher {
    /// Starts the thread. It sends no request before the first batch.
    pub(crate) fn start(output: &Output) -> Result<Self, WatchError> {
        let (queue, batches) = sync_channel(QUEUE_MAX);
        let (ended, done) = channel();
        let shared = Arc::new(Shared::default());
        let (of_thread, url, output) = (Arc::clone(&shared), output.url.clone(), output.clone());
        thread::Builder::new().name("weir-watch".into()).spawn(move || {
            push_all(&Client::new(output), &batches, &of_thread);
            let _ = ended.send(());
        })?;
        Ok(Self { url, queue, shared, done })
    }

    /// Puts a batch into the queue. If the queue is full, the batch is dropped and counted.
    pub(crate) fn push(&self, batch: Batch) {
        match self.queue.try_send(batch) {
            Ok(()) => {}
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                let count = samples(&batch);
                let mut account = self.shared.account();
                account.lost += count;
                account.crowded += count;
            }
        }
    }

    /// Puts the last batch into the queue. If the queue is full, waits for space, but not longer than `until`.
    fn push_patiently(&self, mut last: Batch, until: Instant) {
        while !last.is_empty() && Instant::now() < until {
            match self.queue.try_send(last) {
                Err(TrySendError::Full(back)) => {
                    last = back;
                    thread::sleep(LOOK_EVERY);
                }
                Ok(()) | Err(TrySendError::Disconnected(_)) => return,
            }
        }
        self.shared.account().lost += samples(&last);
    }

    /// Writes the batches that are left, and then `last`, within a time limit. Returns a sentence about samples
    /// that were not written, if there are any.
    pub(crate) fn finish(self, last: Batch) -> Option<String> {
        self.shared.is_over.store(true, Ordering::Release);
        let until = Instant::now() + FLUSH_MAX;
        self.push_patiently(last, until);
        let Self { url, queue, shared, done } = self;
        drop(queue);
        // If the thread is still in a request after the limit, it ends when the process exits.
        let left = until.saturating_duration_since(Instant::now());
        let is_done = !matches!(done.recv_timeout(left), Err(RecvTimeoutError::Timeout));
        let account = shared.account().clone();
        sentence(&url, &account, is_done)
    }
}

fn push_all(client: &Client, batches: &Receiver<Batch>, shared: &Shared) {
    // After a failure, each batch gets only one attempt until one of them succeeds.
    let mut is_down = false;
    let mut deadline: Option<Instant> = None;
    for batch in batches {
        let count = samples(&batch);
        if shared.is_over.load(Ordering::Acquire) {
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + FLUSH_MAX);
            if Instant::now() > deadline {
                shared.account().lost += count;
                continue;
            }
        }
        let outcome = attempt(client, &batch, if is_down { &[] } else { &PAUSES }, shared);
        is_down = matches!(outcome, Outcome::Failed(_));
        let mut account = shared.account();
        let (lost, why) = match outcome {
            Outcome::Written => (0, None),
            Outcome::Rejected { samples, why } => (samples.min(count), Some(why)),
            Outcome::Failed(why) => (count, Some(why)),
        };
        account.written += count - lost;
        account.lost += lost;
        account.why = why.or(account.why.take());
    }
}

/// Sends a batch until the receiver has written or rejected it. After each of `pauses`, there is one retry. Returns the
/// outcome of the last attempt.
fn attempt(client: &Client, batch: &Batch, pauses: &[Duration], shared: &Shared) -> Outcome {
    for pause in pauses {
        match client.send(batch) {
            Outcome::Failed(_) => rest(*pause, shared),
            outcome => return outcome,
        }
    }
    client.send(batch)
}

fn rest(pause: Duration, shared: &Shared) {
    let until = Instant::now() + pause;
    // When no more batches follow, the rest of the pause is skipped. The next attempt then starts at once.
    while Instant::now() < until && !shared.is_over.load(Ordering::Acquire) {
        thread::sleep(LOOK_EVERY.min(pause));
    }
}

fn sentence(url: &str, account: &Account, is_done: bool) -> Option<String> {
    let Account { written, lost, crowded, why } = account;
    if *lost == 0 && is_done {
        return None;
    }
    let total = written + lost;
    let what = match (*lost, is_done) {
        (_, true) => format!("{lost} of {total} samples were not written"),
        (0, false) => "the receiver did not confirm the last samples".to_owned(),
        _ => format!(
            "{lost} of {total} samples were not written, and the receiver did not confirm the last samples"
        ),
    };
    let cause = match why {
        Some(Why { message, remedy }) => format!("{message}; {remedy}"),
        None if *crowded > 0 => "the receiver is too slow; see the receiver's log".to_owned(),
        None => "the receiver did not respond in time; check that the receiver runs".to_owned(),
    };
    Some(format!("{url}: {what}: {cause}; weir's own results are complete"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpListener};

    use super::*;
    use crate::family::SENT;
    use crate::labels::Target;
    use crate::output::Version;
    use crate::series::{Growth, Sample, Series, Value};

    fn batch() -> Batch {
        let target = Arc::new(Target::default());
        let series = Arc::new(Series { family: &SENT, labels: vec![], target, since_ms: 0 });
        vec![Growth { series, samples: vec![Sample { at_ms: 1, value: Value::Number(1.0) }] }]
    }

    /// Starts a receiver that responds with `statuses` one after the other, and then always with the last one. Returns
    /// its address and the number of requests so far.
    fn receiver(statuses: &'static [u16]) -> (SocketAddr, Arc<Mutex<usize>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, count) = (listener.local_addr().unwrap(), Arc::new(Mutex::new(0)));
        let counted = Arc::clone(&count);
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut bytes = vec![0; 64 << 10];
                // A small request arrives in one or two pieces. The client then waits for the response.
                let read = stream.read(&mut bytes).unwrap();
                if !bytes[..read].windows(4).any(|window| window == b"\r\n\r\n") {
                    continue;
                }
                let mut nth = counted.lock().unwrap();
                let status = statuses[(*nth).min(statuses.len() - 1)];
                *nth += 1;
                write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    .unwrap();
            }
        });
        (address, count)
    }

    fn pusher(address: SocketAddr) -> Pusher {
        Pusher::start(&Output::prometheus(&format!("http://{address}"), Version::V1).unwrap()).unwrap()
    }

    #[test]
    fn failures_are_retried_and_rejections_are_not() {
        let check = |statuses: &'static [u16], requests: usize, words: Option<&str>| {
            let (address, count) = receiver(statuses);
            let pusher = pusher(address);
            pusher.push(batch());
            let until = Instant::now() + Duration::from_secs(60);
            while *count.lock().unwrap() < requests && Instant::now() < until {
                thread::sleep(Duration::from_millis(5));
            }
            let said = pusher.finish(Batch::new());
            assert_eq!(*count.lock().unwrap(), requests, "{statuses:?}");
            match words {
                None => assert_eq!(said, None),
                Some(words) => {
                    let said = said.unwrap();
                    assert!(said.contains(words) && said.contains("1 of 1 samples"), "{said}");
                }
            }
        };
        check(&[204], 1, None);
        check(&[503, 204], 2, None);
        check(&[400], 1, Some("HTTP status 400; see the receiver's log"));
        check(&[404], 1, Some("--web.enable-remote-write-receiver"));
    }

    #[test]
    fn an_unreachable_receiver_loses_only_its_samples() {
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let pusher = pusher(gone);
        (0..QUEUE_MAX * 2).for_each(|_| pusher.push(batch()));
        let said = pusher.finish(Batch::new()).unwrap();
        let all = QUEUE_MAX * 2;
        assert!(said.contains(&format!("{all} of {all} samples were not written")), "{said}");
        assert!(said.contains("check that the receiver runs"), "{said}");
    }

    #[test]
    fn a_receiver_that_never_responds_does_not_block_the_end() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let pusher = pusher(silent.local_addr().unwrap());
        (0..QUEUE_MAX * 2).for_each(|_| pusher.push(batch()));
        let said = pusher.finish(Batch::new()).unwrap();
        assert!(said.contains("samples were not written"), "{said}");
    }
}
