//! One worker's loop: connect, then take what is due, read what is ready, write, record.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::task::{Context, Poll};

use tokio::sync::oneshot;
use tokio::task::coop::unconstrained;
use weir_io::{PreciseTimer, mono_ns};

use crate::books::Cause;
use crate::connection::{CONNECT_TIMEOUT_NS, Connection, Read};
use crate::exchange::Fed;
use crate::flow::{Flow, FlowReport, Start};
use crate::ready::ReadySet;
use crate::recorder::Interval;
use crate::request::RequestSource;
use crate::usage::PhaseUsage;

/// The read buffer, one for all connections of a worker.
const BUFFER_BYTES: usize = 64 * 1024;
/// Reads from one connection before the others have their turn.
const READS_MAX: usize = 8;
/// Requests started in one go before what is ready is read again.
const STARTS_MAX: usize = 64;
/// Drain after an early end.
pub(crate) const EARLY_DRAIN_NS: u64 = 1_000_000_000;

/// What a worker tells the coordinator.
#[derive(Debug)]
pub(crate) enum Event {
    /// Every connection is open, or its first attempt has failed.
    Connected,
    /// An interval has ended.
    Interval(Box<Interval>),
    /// All is over.
    Ended(Box<WorkerReport>),
}

/// What a worker's load came to, with what the worker used.
#[derive(Debug)]
pub(crate) struct WorkerReport {
    pub(crate) flow: FlowReport,
    pub(crate) connections_opened: u64,
    /// CPU time in the sustained phase.
    pub(crate) cpu_ns: u64,
    /// Time in the sustained phase in which the thread was ready and had no CPU.
    pub(crate) runqueue_ns: Option<u64>,
}

/// What a worker needs.
pub(crate) struct WorkerPlan {
    pub(crate) worker: u32,
    pub(crate) connections: usize,
    pub(crate) addresses: Arc<[SocketAddr]>,
    pub(crate) requests: RequestSource,
    /// Where an early end of the load is announced, on the monotonic clock; 0 while there is none.
    pub(crate) early_end_ns: Arc<AtomicU64>,
    pub(crate) timeout_ns: u64,
    pub(crate) events: Sender<(u32, Event)>,
    /// Comes once all workers are connected.
    pub(crate) start: oneshot::Receiver<Flow>,
}

/// Runs a worker to its end.
///
/// # Errors
/// When no file descriptor is left for the timer.
pub(crate) async fn work(plan: WorkerPlan) -> std::io::Result<()> {
    let timer = PreciseTimer::new()?;
    let mut pool = Pool::new(plan.connections, plan.addresses);
    pool.connect_all(&timer).await;
    // The coordinator is gone when it gave up; then there is nothing to do.
    if plan.events.send((plan.worker, Event::Connected)).is_err() {
        return Ok(());
    }
    let Ok(flow) = plan.start.await else { return Ok(()) };
    timer.wait_until(flow.timeline().start_ns).await;
    let mut worker = Worker {
        buffer: vec![0; BUFFER_BYTES],
        expired: Vec::new(),
        usage: PhaseUsage::default(),
        early_end_ns: plan.early_end_ns,
        timeout_ns: plan.timeout_ns,
        requests: plan.requests,
        timer,
        pool,
        flow,
    };
    worker.adopt_connections();
    let events = plan.events;
    unconstrained(poll_fn(|cx| worker.poll(cx, plan.worker, &events))).await;
    let report = worker.finish();
    // As above.
    let _ = events.send((plan.worker, Event::Ended(Box::new(report))));
    Ok(())
}

/// The connections of a worker.
struct Pool {
    connections: Vec<Connection>,
    ready: ReadySet,
    addresses: Arc<[SocketAddr]>,
    opened: u64,
}

struct Worker {
    timer: PreciseTimer,
    pool: Pool,
    flow: Flow,
    requests: RequestSource,
    buffer: Vec<u8>,
    expired: Vec<usize>,
    usage: PhaseUsage,
    early_end_ns: Arc<AtomicU64>,
    timeout_ns: u64,
}

impl Pool {
    fn new(connections: usize, addresses: Arc<[SocketAddr]>) -> Self {
        Self {
            connections: (0..connections).map(|_| Connection::new()).collect(),
            ready: ReadySet::new(connections),
            addresses,
            opened: 0,
        }
    }

    /// Opens all connections, before the clock starts; those that fail are tried again when it has started.
    async fn connect_all(&mut self, timer: &PreciseTimer) {
        let now_ns = mono_ns();
        let deadline_ns = now_ns + CONNECT_TIMEOUT_NS;
        for connection in &mut self.connections {
            connection.connect(&self.addresses, now_ns);
        }
        unconstrained(poll_fn(|cx| {
            self.ready.attend(cx.waker());
            for word in 0..self.ready.words() {
                for slot in self.ready.take(word) {
                    let mut cx = Context::from_waker(self.ready.waker(slot));
                    if let Some(Ok(())) = self.connections[slot].poll_connect(&mut cx, now_ns) {
                        self.opened += 1;
                    }
                }
            }
            if !self.connections.iter().any(Connection::is_connecting) {
                return Poll::Ready(());
            }
            timer.poll_until(cx, deadline_ns)
        }))
        .await;
    }
}

impl Worker {
    /// The loop. Every turn is bounded: what is due is started, what is ready is read once, then the
    /// runtime polls again.
    fn poll(&mut self, cx: &mut Context<'_>, worker: u32, events: &Sender<(u32, Event)>) -> Poll<()> {
        self.pool.ready.attend(cx.waker());
        let now_ns = mono_ns();
        self.usage.observe(now_ns, self.flow.timeline().sustain_ns, self.flow.timeline().end_ns);
        self.flow.turn(now_ns);
        self.start_due(now_ns);
        for word in 0..self.pool.ready.words() {
            for slot in self.pool.ready.take(word) {
                self.serve(slot, now_ns);
            }
        }
        if self.flow.is_tick_due(now_ns) {
            self.tick(now_ns);
        }
        if self.flow.has_finished_intervals() {
            for interval in self.flow.take_finished_intervals() {
                // A coordinator that is gone needs no series any more.
                let _ = events.send((worker, Event::Interval(Box::new(interval))));
            }
        }
        self.wait(cx)
    }

    /// Sleeps until something is ready or due; over when the load is.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now_ns = mono_ns();
        if self.flow.is_finished(now_ns) {
            return Poll::Ready(());
        }
        let deadline_ns = self.flow.next_deadline_ns(now_ns);
        let is_behind = !self.pool.ready.is_empty() || self.timer.poll_until(cx, deadline_ns).is_ready();
        if is_behind {
            // By way of the runtime, so that it looks for what has become ready meanwhile.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Hands the connections that are open to the load, and opens the others.
    fn adopt_connections(&mut self) {
        let now_ns = self.flow.timeline().start_ns;
        for slot in 0..self.pool.connections.len() {
            // All are looked at in the first turn: their wakers want to be registered.
            self.pool.ready.insert(slot);
            if !self.pool.connections[slot].is_up() {
                self.pool.connections[slot].connect(&self.pool.addresses, now_ns);
                continue;
            }
            self.flow.connected(slot, now_ns);
            // What a peer said before it was asked must not pass for the first answer.
            let mut cx = Context::from_waker(self.pool.ready.waker(slot));
            match self.pool.connections[slot].read(&mut cx, &mut self.buffer) {
                Read::Nothing => {}
                Read::Bytes(bytes) => {
                    self.take(slot, bytes);
                }
                Read::Closed => self.closed(slot, now_ns),
                Read::Broken(cause) => self.broken(slot, now_ns, cause),
            }
        }
    }

    /// Starts what is due, as far as connections are free.
    #[inline]
    fn start_due(&mut self, mut now_ns: u64) {
        for _ in 0..STARTS_MAX {
            let Some(start) = self.flow.start(now_ns) else { return };
            self.send(start);
            if !self.flow.is_start_due(now_ns) {
                return;
            }
            now_ns = mono_ns();
        }
    }

    #[inline]
    fn send(&mut self, start: Start) {
        let connection = &mut self.pool.connections[start.slot];
        connection.exchange.begin(self.requests.of(start.index).response_to);
        connection.index = start.index;
        connection.written = 0;
        connection.is_writing = true;
        self.write(start.slot);
    }

    /// Writes what is left of a connection's request.
    #[inline]
    fn write(&mut self, slot: usize) {
        let connection = &mut self.pool.connections[slot];
        let bytes = &self.requests.of(connection.index).bytes;
        let mut cx = Context::from_waker(self.pool.ready.waker(slot));
        while connection.written < bytes.len() {
            match connection.write(&mut cx, &bytes[connection.written..]) {
                Ok(0) => return,
                Ok(written) => {
                    if connection.written == 0 {
                        self.flow.sent(slot);
                    }
                    connection.written += written;
                    self.flow.wrote(written);
                }
                Err(cause) if connection.written == 0 => {
                    // The connection had died unseen before anything was sent on it.
                    self.flow.not_sent(slot);
                    return self.lost(slot, mono_ns(), cause);
                }
                Err(cause) => {
                    // Perhaps the peer answered before it broke off: reading will tell.
                    connection.stop_writing(cause);
                    return self.pool.ready.insert(slot);
                }
            }
        }
        connection.is_writing = false;
    }

    /// Does what a connection is ready for, then starts what is due.
    #[inline]
    fn serve(&mut self, slot: usize, turn_ns: u64) {
        if self.pool.connections[slot].is_connecting() && !self.go_on_connecting(slot, turn_ns) {
            return;
        }
        if self.pool.connections[slot].is_writing {
            self.write(slot);
        }
        let mut now_ns = None;
        for read in 0..=READS_MAX {
            if read == READS_MAX {
                self.pool.ready.insert(slot);
                break;
            }
            let mut cx = Context::from_waker(self.pool.ready.waker(slot));
            match self.pool.connections[slot].read(&mut cx, &mut self.buffer) {
                Read::Nothing => break,
                Read::Bytes(bytes) => match self.take(slot, bytes) {
                    Taken::More => {}
                    Taken::Whole(at_ns) => now_ns = Some(at_ns),
                    Taken::Down => return,
                },
                Read::Closed => return self.closed(slot, mono_ns()),
                Read::Broken(cause) => return self.broken(slot, mono_ns(), cause),
            }
        }
        // Only now, when all was read and the waker is registered: a close that came along with the response
        // is seen before the next request would go out on a dead connection.
        if let Some(now_ns) = now_ns {
            self.start_due(now_ns);
        }
    }

    /// Goes on with an attempt; whether the connection is up.
    fn go_on_connecting(&mut self, slot: usize, now_ns: u64) -> bool {
        let mut cx = Context::from_waker(self.pool.ready.waker(slot));
        match self.pool.connections[slot].poll_connect(&mut cx, now_ns) {
            None => false,
            Some(Ok(())) => {
                self.pool.opened += 1;
                let now_ns = mono_ns();
                self.flow.connected(slot, now_ns);
                self.start_due(now_ns);
                true
            }
            Some(Err(cause)) => {
                self.flow.connection_error(now_ns, cause);
                self.retry_if_due(slot, now_ns);
                false
            }
        }
    }

    /// Takes bytes that were read on a connection.
    #[inline]
    fn take(&mut self, slot: usize, bytes: usize) -> Taken {
        self.flow.read(bytes);
        if !self.flow.is_busy(slot) {
            // Nobody asked for anything.
            let now_ns = mono_ns();
            self.flow.connection_error(now_ns, Cause::Parse);
            self.flow.disconnected(slot);
            self.reopen(slot, now_ns);
            return Taken::Down;
        }
        let connection = &mut self.pool.connections[slot];
        match connection.exchange.feed(&self.buffer[..bytes]) {
            Ok(Fed::More) => Taken::More,
            Ok(Fed::Whole(answer, used)) => {
                let now_ns = mono_ns();
                // After an answer to half a request, or with bytes nobody asked for, nothing else can follow.
                let reusable = answer.reusable && used == bytes && !connection.is_writing;
                self.flow.completed(slot, now_ns, answer.status, reusable);
                if used < bytes {
                    self.flow.connection_error(now_ns, Cause::Parse);
                }
                if reusable {
                    return Taken::Whole(now_ns);
                }
                self.reopen(slot, now_ns);
                Taken::Down
            }
            Err(cause) => {
                self.broken(slot, mono_ns(), cause);
                Taken::Down
            }
        }
    }

    /// The peer has closed.
    fn closed(&mut self, slot: usize, now_ns: u64) {
        if !self.flow.is_busy(slot) {
            return self.disconnect(slot, now_ns, Cause::Closed);
        }
        let connection = &mut self.pool.connections[slot];
        match connection.exchange.close() {
            Ok(answer) => self.flow.completed(slot, now_ns, answer.status, false),
            Err(cause) => self.flow.failed(slot, now_ns, connection.cause_of_end(cause)),
        }
        self.reopen(slot, now_ns);
    }

    /// The connection broke, or what came on it is no HTTP.
    fn broken(&mut self, slot: usize, now_ns: u64, cause: Cause) {
        if !self.flow.is_busy(slot) {
            return self.disconnect(slot, now_ns, cause);
        }
        self.flow.failed(slot, now_ns, cause);
        self.reopen(slot, now_ns);
    }

    /// An idle connection has ended.
    fn disconnect(&mut self, slot: usize, now_ns: u64, cause: Cause) {
        self.flow.disconnected(slot);
        self.lost(slot, now_ns, cause);
    }

    /// A connection ended that carried no request: its peer's right, but for one that never was of use.
    fn lost(&mut self, slot: usize, now_ns: u64, cause: Cause) {
        if self.pool.connections[slot].is_useless(now_ns) {
            self.flow.connection_error(now_ns, cause);
        }
        self.reopen(slot, now_ns);
    }

    /// Closes a connection that carries no request any more, and opens it again, now or later.
    fn reopen(&mut self, slot: usize, now_ns: u64) {
        self.pool.connections[slot].close(now_ns);
        self.retry_if_due(slot, now_ns);
    }

    fn retry_if_due(&mut self, slot: usize, now_ns: u64) {
        let connection = &mut self.pool.connections[slot];
        if connection.is_retry_due(now_ns) && self.flow.needs_connections(now_ns) {
            connection.connect(&self.pool.addresses, now_ns);
            self.pool.ready.insert(slot);
        }
    }

    /// What is done every 10 ms.
    fn tick(&mut self, now_ns: u64) {
        match self.early_end_ns.load(Ordering::Acquire) {
            0 => {}
            end_ns => self.flow.cut(end_ns, EARLY_DRAIN_NS.min(self.timeout_ns)),
        }
        let mut expired = std::mem::take(&mut self.expired);
        self.flow.tick(now_ns, &mut expired);
        for slot in expired.drain(..) {
            self.reopen(slot, now_ns);
        }
        self.expired = expired;
        for slot in 0..self.pool.connections.len() {
            if self.pool.connections[slot].is_given_up(now_ns) {
                self.pool.connections[slot].attempt_failed(now_ns);
                self.flow.connection_error(now_ns, Cause::Connect);
            }
            self.retry_if_due(slot, now_ns);
        }
    }

    fn finish(mut self) -> WorkerReport {
        let now_ns = mono_ns();
        self.usage.close();
        WorkerReport {
            flow: self.flow.finish(now_ns),
            connections_opened: self.pool.opened,
            cpu_ns: self.usage.cpu_ns(),
            runqueue_ns: self.usage.runqueue_ns(),
        }
    }
}

/// What bytes came to.
enum Taken {
    More,
    /// A whole response at this time; the connection goes on.
    Whole(u64),
    /// The connection is down.
    Down,
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::sync::mpsc::channel;

    use weir_io::{WorkerOptions, spawn_worker};

    use super::*;
    use crate::source::Source;
    use crate::spec::RequestSpec;
    use crate::timeline::Timeline;

    #[test]
    fn what_was_said_before_the_first_request_is_no_answer() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let get = RequestSpec { headers: vec![("Host".into(), "a".into())], ..RequestSpec::default() };
        let (events_in, events) = channel();
        let (start, wait_for_start) = oneshot::channel();
        let plan = WorkerPlan {
            worker: 0,
            connections: 1,
            addresses: Arc::from([listener.local_addr().unwrap()]),
            requests: RequestSource::new(1, &[get]),
            early_end_ns: Arc::default(),
            timeout_ns: 10_000_000_000,
            events: events_in,
            start: wait_for_start,
        };
        let worker = spawn_worker(WorkerOptions::default(), move || work(plan)).unwrap();
        assert!(matches!(events.recv().unwrap().1, Event::Connected));
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        let (mut early, _) = listener.accept().unwrap();
        early.write_all(answer).unwrap();
        let timeline = Timeline::new(mono_ns() + 50_000_000, 0, None, 0);
        let flow = Flow::new(Source::closed(0, 1, Some(1)), timeline, 10_000_000_000, 1);
        assert!(start.send(flow).is_ok());
        // The request comes on another connection, and nothing on the first.
        let (mut second, _) = listener.accept().unwrap();
        assert!(second.read(&mut [0; 512]).unwrap() > 0);
        second.write_all(answer).unwrap();
        worker.join().unwrap().unwrap();
        assert_eq!(early.read(&mut [0; 512]).unwrap_or(0), 0);
        let books = events.iter().find_map(|(_, event)| match event {
            Event::Ended(report) => Some(report.flow.sustained),
            _ => None,
        });
        let books = books.unwrap();
        assert_eq!((books.requests.sent, books.requests.completed, books.errors.parse), (1, 1, 1));
    }
}
