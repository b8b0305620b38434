//! The loop of a worker: open connections, send due requests, read responses, record results.

mod connections;
mod http1;
mod http2;
mod pipe;
mod replies;
mod report;
mod wait;
mod woken;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};

use weir_io::{Alarms, Poll, Timer, mono_ns, realtime_offset_ns};

use crate::flow::{Flow, Start};
use crate::link::{Dialing, Read};
use crate::pacing::Pace;
use crate::recording::PhaseUsage;
use crate::recording::recorder::Interval;
use crate::request::{Http2Request, RequestSource};
use crate::spec::ProtocolSpec;

use connections::Net;
pub(crate) use http2::Http2Books;
pub(crate) use report::{Said, TlsBooks, WorkerReport};

/// Maximum number of reads from one connection before other connections are served.
const READS_MAX: usize = 8;
/// Maximum number of requests that are started before the worker reads again.
const STARTS_MAX: usize = 64;
/// Maximum time to wait for responses after an early end.
pub(crate) const EARLY_DRAIN_NS: u64 = 1_000_000_000;
/// Poll token of the alarms. No connection has this token.
const ALARM_TOKEN: u64 = u64::MAX;
/// Poll token of the timer. No connection has this token.
const TIMER_TOKEN: u64 = u64::MAX - 1;

/// A message from a worker to the coordinator.
#[derive(Debug)]
pub(crate) enum Event {
    /// The worker's connections are open, or the first attempts to open them have failed.
    Connected,
    /// An interval has ended; these are its counts and latencies.
    Interval(Box<Interval>),
    /// The worker has ended; this is its final report.
    Ended(Box<WorkerReport>),
}

/// What a worker needs to drive its part of the load.
pub(crate) struct WorkerPlan {
    pub(crate) worker: u32,
    pub(crate) connections: usize,
    /// Number of connections that are used from the start. A ramp of connections opens the others later.
    pub(crate) connections_first: usize,
    pub(crate) protocol: ProtocolSpec,
    /// Maximum number of in-flight requests per connection.
    pub(crate) streams: u32,
    pub(crate) dialing: Dialing,
    pub(crate) requests: RequestSource,
    /// Whether each TLS connection has its own domain, which its requests then use.
    pub(crate) has_domains: bool,
    pub(crate) requests_per_connection: Option<u64>,
    /// Time on the monotonic clock at which the load ends early; 0 while no early end is announced.
    pub(crate) early_end_ns: Arc<AtomicU64>,
    pub(crate) timeout_ns: u64,
    /// Whether the worker busy-waits instead of sleeping.
    pub(crate) spin: bool,
    pub(crate) events: Sender<(u32, Event)>,
    /// Delivers the [`Flow`] (the worker's load without its I/O) once all workers are connected.
    pub(crate) start: Receiver<Flow>,
}

/// Runs a worker until its load ends.
///
/// # Errors
/// If the process has no file descriptor left for the poll or the timers.
pub(crate) fn work(plan: WorkerPlan) -> std::io::Result<()> {
    let poll = Poll::new()?;
    let mut net = Net::new(&plan, poll);
    let mut timer = Timer::new(&net.poll, TIMER_TOKEN)?;
    let alarms = Alarms::new(&net.poll, ALARM_TOKEN)?;
    net.connect_first(&mut timer, || plan.early_end_ns.load(Ordering::Acquire) != 0);
    // The coordinator ends early if it gives up the load. Then the worker has nothing to do.
    if plan.events.send((plan.worker, Event::Connected)).is_err() {
        return Ok(());
    }
    let Ok(flow) = plan.start.recv() else { return Ok(()) };
    let mut worker = Worker {
        again: Vec::new(),
        expired: Vec::new(),
        partial: 0,
        pace: Pace::default(),
        covered_ns: flow.timeline().start_ns,
        stamps_missed: 0,
        realtime_offset_ns: realtime_offset_ns(),
        usage: PhaseUsage::default(),
        early_end_ns: plan.early_end_ns,
        timeout_ns: plan.timeout_ns,
        requests: plan.requests,
        scratch: Vec::new(),
        rendered: Http2Request::new(),
        dirty: Vec::new(),
        spin: plan.spin,
        protocol: plan.protocol,
        timer,
        alarms,
        net,
        flow,
    };
    worker.adopt_connections();
    if worker.wait_for_start() {
        // Bytes that have arrived by now belong to no request. They are read before the load sends its first request.
        let ready = worker.net.poll.now();
        worker.serve_ready(ready, mono_ns());
        worker.run(plan.worker, &plan.events);
    }
    let report = worker.finish();
    // If the coordinator has ended, it does not need this report.
    let _ = plan.events.send((plan.worker, Event::Ended(Box::new(report))));
    Ok(())
}

struct Worker {
    timer: Timer,
    alarms: Alarms,
    net: Net,
    flow: Flow,
    protocol: ProtocolSpec,
    requests: RequestSource,
    /// Buffer for rendered requests that are not static.
    scratch: Vec<u8>,
    rendered: Http2Request,
    /// HTTP/2 connections that have output to write.
    dirty: Vec<usize>,
    /// Connections that have more to read than one turn allows.
    again: Vec<usize>,
    expired: Vec<usize>,
    /// Number of partial responses plus number of blocked writes.
    partial: usize,
    pace: Pace,
    /// Alarms are set for all arrivals up to this time.
    covered_ns: u64,
    /// Number of reads without a kernel timestamp although timestamps are enabled.
    stamps_missed: u32,
    /// Real time minus monotonic time.
    realtime_offset_ns: u64,
    usage: PhaseUsage,
    early_end_ns: Arc<AtomicU64>,
    timeout_ns: u64,
    spin: bool,
}

/// Result of processing received bytes.
enum Taken {
    More,
    /// A response is complete and was processed at this time. The connection stays open.
    Whole(u64),
    /// The connection is down now.
    Down,
}

impl Worker {
    /// Runs turn by turn until the load ends. Each turn does a limited amount of work: it starts due requests,
    /// reads once from ready connections, and polls again.
    fn run(&mut self, worker: u32, events: &Sender<(u32, Event)>) {
        loop {
            let ready = self.wait();
            let now_ns = mono_ns();
            self.flow.turn(now_ns);
            self.usage.observe(now_ns, self.flow.timeline().sustain_ns, self.flow.timeline().end_ns);
            self.start_due(now_ns);
            self.serve_ready(ready, now_ns);
            if self.flow.is_tick_due(now_ns) {
                self.tick(now_ns);
            }
            if self.flow.has_finished_intervals() {
                for interval in self.flow.take_finished_intervals() {
                    // If the coordinator has ended, nobody needs the intervals any more.
                    let _ = events.send((worker, Event::Interval(Box::new(interval))));
                }
            }
            if self.flow.is_finished(mono_ns()) {
                return;
            }
        }
    }

    /// Serves the ready connections, and those that had bytes left after their last turn.
    fn serve_ready(&mut self, ready: usize, now_ns: u64) {
        for place in std::mem::take(&mut self.again) {
            self.serve(place, true);
        }
        for at in 0..ready {
            let readiness = self.net.poll.readiness(at);
            match readiness.token {
                ALARM_TOKEN => {}
                TIMER_TOKEN => self.timer.rang(),
                token => {
                    let place = token as u32 as usize;
                    if !self.net.connections[place].link.is_meant(token) {
                        continue;
                    }
                    if self.net.connections[place].is_opening() {
                        self.go_on_opening(place, now_ns);
                    } else {
                        if readiness.is_writable {
                            self.write_on(place);
                        }
                        if readiness.is_readable {
                            self.serve(place, readiness.is_ended);
                        }
                    }
                }
            }
        }
    }

    /// Starts requests that are due while slots are free, up to [`STARTS_MAX`].
    #[inline]
    fn start_due(&mut self, mut now_ns: u64) {
        for _ in 0..STARTS_MAX {
            let Some(start) = self.flow.start(now_ns) else { break };
            self.send(start);
            if !self.flow.is_start_due(now_ns) {
                break;
            }
            now_ns = mono_ns();
        }
        if !self.dirty.is_empty() {
            self.flush_dirty();
        }
    }

    #[inline]
    fn send(&mut self, start: Start) {
        match self.protocol {
            ProtocolSpec::Http1 => self.send_http1(start),
            ProtocolSpec::Http2 => self.send_http2(start),
        }
    }

    fn write_on(&mut self, place: usize) {
        if self.net.connections[place].link.flush().is_err() {
            // The next read shows how the connection ended.
            return self.again.push(place);
        }
        match self.protocol {
            ProtocolSpec::Http1 => self.write_on_http1(place),
            ProtocolSpec::Http2 => self.write_on_http2(place),
        }
    }

    /// Processes `bytes` bytes that were read from connection `place`. `bytes` is 0 if TLS itself used everything that
    /// was read.
    #[inline]
    fn take(&mut self, place: usize, bytes: usize, stamp_ns: Option<u64>) -> Taken {
        if bytes == 0 {
            return Taken::More;
        }
        self.flow.read(bytes);
        match self.protocol {
            ProtocolSpec::Http1 => self.take_http1(place, bytes, stamp_ns),
            ProtocolSpec::Http2 => self.take_http2(place, bytes, stamp_ns),
        }
    }

    /// Handles a close by the peer. `came_ns` is the arrival time of the last bytes before the close.
    fn closed(&mut self, place: usize, now_ns: u64, came_ns: u64) {
        match self.protocol {
            ProtocolSpec::Http1 => self.closed_http1(place, now_ns, came_ns),
            ProtocolSpec::Http2 => self.closed_http2(place, now_ns),
        }
    }

    /// Reads from connection `place`, then starts requests that are due. If `is_ended` is true, reads until no bytes
    /// are left, because the peer may have closed the connection, or the poll may not report the remaining bytes again.
    #[inline]
    fn serve(&mut self, place: usize, is_ended: bool) {
        let connection = &self.net.connections[place];
        if !connection.link.is_up() || connection.is_opening() {
            // The event is from an earlier connection with this index, before it was reopened.
            return;
        }
        let (mut freed_ns, mut last_stamp_ns) = (None, None);
        for read in 0..=READS_MAX {
            if read == READS_MAX {
                self.again.push(place);
                break;
            }
            if self.net.connections[place].pauses_reading() {
                break;
            }
            match self.net.connections[place].link.read(&mut self.net.buffers) {
                Read::Nothing => break,
                Read::Bytes { bytes, stamp_ns, is_drained } => {
                    last_stamp_ns = stamp_ns;
                    match self.take(place, bytes, stamp_ns) {
                        Taken::More => {}
                        Taken::Whole(now_ns) => freed_ns = Some(now_ns),
                        Taken::Down => return,
                    }
                    if is_drained && !is_ended {
                        break;
                    }
                }
                Read::Closed => {
                    let now_ns = mono_ns();
                    // The kernel does not timestamp a close. If a response was read just before the close, the close
                    // gets the timestamp of the response.
                    let came_ns = last_stamp_ns.map_or(now_ns, |stamp| self.came_ns(Some(stamp), now_ns));
                    return self.closed(place, now_ns, came_ns);
                }
                Read::Broken(cause, said) => {
                    self.net.said.add(said);
                    return self.broken(place, mono_ns(), cause);
                }
            }
        }
        // Requests are started only after all reads: if the peer closed after its response, no request must be sent
        // on this connection.
        if let Some(now_ns) = freed_ns {
            self.start_due(now_ns);
        }
        if !self.dirty.is_empty() {
            self.flush_dirty();
        }
    }

    /// Returns the arrival time of bytes: the kernel's timestamp if it is plausible, otherwise `now_ns`.
    #[inline]
    fn came_ns(&mut self, stamp_ns: Option<u64>, now_ns: u64) -> u64 {
        match stamp_ns {
            // If somebody sets the clock, timestamps are in the future or far in the past, until the next tick
            // corrects the offset.
            Some(real_ns) => {
                let came_ns = real_ns.saturating_sub(self.realtime_offset_ns);
                if came_ns <= now_ns && now_ns - came_ns < STAMP_AGE_NS_MAX { came_ns } else { now_ns }
            }
            None => {
                // The first reads after timestamps are enabled may have none. If the kernel never adds timestamps,
                // reads must not be deferred.
                self.stamps_missed += u32::from(self.net.is_stamped);
                self.net.is_stamped &= self.stamps_missed < STAMPS_MISSED_MAX;
                now_ns
            }
        }
    }

    /// Does the periodic work, every 10 ms.
    fn tick(&mut self, now_ns: u64) {
        self.realtime_offset_ns = realtime_offset_ns();
        self.heed_early_end();
        let mut expired = std::mem::take(&mut self.expired);
        self.flow.tick(now_ns, &mut expired);
        for slot in expired.drain(..) {
            self.give_up(slot, now_ns);
        }
        self.expired = expired;
        self.flush_dirty();
        self.mend_connections(now_ns);
    }

    /// Ends the load early and returns true if an early end is announced.
    fn heed_early_end(&mut self) -> bool {
        let end_ns = self.early_end_ns.load(Ordering::Acquire);
        if end_ns != 0 {
            self.flow.cut(end_ns, EARLY_DRAIN_NS.min(self.timeout_ns));
        }
        end_ns != 0
    }

    fn finish(mut self) -> WorkerReport {
        let now_ns = mono_ns();
        self.usage.close();
        WorkerReport {
            flow: self.flow.finish(now_ns),
            connections_opened: self.net.opened,
            cpu_ns: self.usage.cpu_ns(),
            runqueue_ns: self.usage.runqueue_ns(),
            said: self.net.said,
            tls: self.net.tls,
            http2: self.net.http2,
        }
    }
}

/// Maximum plausible time from the arrival of bytes until they are read. It is exceeded only if the thread had no
/// CPU for that long.
const STAMP_AGE_NS_MAX: u64 = 1_000_000_000;

/// After this number of reads without a timestamp, the worker assumes that the kernel does not timestamp.
const STAMPS_MISSED_MAX: u32 = 1_000;

#[cfg(test)]
mod tests;
