//! How a worker waits for the next arrival or event.
//!
//! In an open loop, the worker sets kernel alarms for coming arrivals. If the next arrival is near, it ignores
//! socket events until then. The kernel records when responses arrive, so reading them late does not change their
//! latency, and a wake-up costs more than the read.

use weir_io::mono_ns;

use super::Worker;

/// Maximum time for which socket events are ignored. Ignoring them delays the reading of responses.
const DEFERRAL_NS_MAX: u64 = 300_000;
/// Socket events are ignored only while at least this many slots are free.
const FREE_MIN: usize = 4;
/// Before a planned start, the worker sleeps until this much time is left, and then spins.
const SPUN_NS: u64 = 60_000;
/// Interval at which a worker checks for an early end of the load before a planned start.
const END_LOOKED_FOR_NS: u64 = 50_000_000;

/// Waits until `CLOCK_MONOTONIC` has reached `start_ns`.
pub(super) fn until(start_ns: u64) {
    loop {
        let left_ns = start_ns.saturating_sub(mono_ns());
        match left_ns {
            0 => return,
            1..=SPUN_NS => std::hint::spin_loop(),
            _ => std::thread::sleep(std::time::Duration::from_nanos(left_ns - SPUN_NS)),
        }
    }
}

impl Worker {
    /// Waits for the start of the load. Returns false if the load ends before it starts.
    pub(super) fn wait_for_start(&mut self) -> bool {
        let start_ns = self.flow.timeline().start_ns;
        loop {
            let left_ns = start_ns.saturating_sub(mono_ns());
            if left_ns <= END_LOOKED_FOR_NS {
                break;
            }
            if self.heed_early_end() {
                return false;
            }
            std::thread::sleep(std::time::Duration::from_nanos((left_ns - SPUN_NS).min(END_LOOKED_FOR_NS)));
        }
        until(start_ns);
        true
    }

    /// Waits until a request is due, a timer has expired or a connection is ready. Returns the number of ready
    /// connections.
    pub(super) fn wait(&mut self) -> usize {
        if self.spin || !self.again.is_empty() {
            return self.net.poll.now();
        }
        let now_ns = mono_ns();
        if self.flow.next_deadline_ns(now_ns) <= now_ns {
            return self.net.poll.now();
        }
        self.timer.set(self.flow.next_event_ns(now_ns));
        self.set_alarms(now_ns);
        match self.alarms.next_ns() {
            Some(due_ns) if self.alarms.is_ahead(now_ns) => {
                until(due_ns);
                self.net.poll.now()
            }
            Some(due_ns) if due_ns - now_ns <= DEFERRAL_NS_MAX && self.may_sleep() => {
                self.alarms.sleep();
                let now_ns = mono_ns();
                if self.alarms.is_ahead(now_ns) {
                    until(due_ns);
                }
                // Requests that are due are sent before responses are read.
                self.start_what_woke();
                self.net.poll.now()
            }
            Some(_) => {
                let ready = self.net.poll.wait();
                self.alarms.woken(mono_ns());
                ready
            }
            // A closed loop has no alarms, so the clock need not be read for them.
            None => self.net.poll.wait(),
        }
    }

    fn start_what_woke(&mut self) {
        let now_ns = mono_ns();
        self.flow.turn(now_ns);
        self.start_due(now_ns);
    }

    /// Whether the worker may ignore socket events until the next arrival.
    fn may_sleep(&self) -> bool {
        self.net.is_stamped
            // One read can return responses on several streams. They all get the timestamp of the last response, which
            // is wrong for the earlier ones.
            && self.net.streams == 1
            && self.net.opening == 0
            && self.partial == 0
            && self.flow.free_slots() >= FREE_MIN
    }

    /// Sets alarms for the next arrivals.
    fn set_alarms(&mut self, now_ns: u64) {
        self.alarms.pass(now_ns);
        if !self.alarms.is_low() {
            return;
        }
        self.covered_ns = self.covered_ns.max(now_ns);
        while self.alarms.has_room() {
            let Some(due_ns) = self.flow.next_arrival_after_ns(self.covered_ns) else { return };
            let wake_ns = self.pace.admit(due_ns);
            self.alarms.set(wake_ns, now_ns);
            self.covered_ns = wake_ns;
        }
    }
}
