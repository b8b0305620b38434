//! Decides the outcome and the due time of each request, for HTTP/1.1 and HTTP/2.

use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::Ordering;

use weir_io::mono_ns;

use crate::idle::Activity;
use crate::outcome::Outcome;
use crate::stats::{Event, Stats};
use crate::worker::Worker;

/// Prefix of the paths that control the origin. Requests for them are not counted.
const OWN_PREFIX: &str = "/__weir/";

/// How many bytes of a request body an echo buffers before its response starts. Later bytes are forwarded as they
/// arrive.
pub(crate) const ECHO_HELD_BYTES: usize = 64 * 1024;

/// Maximum of the delay that `/__weir/delay/NANOSECONDS` sets: one minute.
const EXTRA_DELAY_MAX_NS: u64 = 60_000_000_000;

/// Workers spin for extra delays up to this length, because a timer would wake up too late.
const SPUN_NS: u64 = 20_000;

/// Number of pieces in a slow body.
const SLOW_PIECES: u64 = 10;

/// Whether a request is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counted(Outcome),
    /// A request for one of the paths that control the origin.
    Own(Own),
}

/// The action of a request for one of the paths under `/__weir/`, which control the origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    Stats,
    /// Switch connection resets on or off for all later requests.
    Resets(bool),
    /// Set the additional delay of all later responses, in nanoseconds.
    Delay(u64),
    Unknown,
}

/// A response to one of the origin's own paths.
pub(crate) struct OwnAnswer {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) text: String,
}

/// A request whose response is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// When the whole request had arrived. `None` if responses are not delayed, which avoids reading the clock.
    arrived_ns: Option<u64>,
}

impl Worker {
    /// Counts the request and decides its outcome. Requests for the origin's own paths are not counted.
    #[inline]
    pub(crate) fn decide(&self, path_and_query: &str) -> Kind {
        if is_own(path_and_query) {
            return Kind::Own(match path_and_query.split('?').next() {
                Some("/__weir/stats") => Own::Stats,
                Some("/__weir/resets/on") => Own::Resets(true),
                Some("/__weir/resets/off") => Own::Resets(false),
                Some(path) => path
                    .strip_prefix("/__weir/delay/")
                    .and_then(|ns| ns.parse().ok())
                    .filter(|ns| *ns <= EXTRA_DELAY_MAX_NS)
                    .map_or(Own::Unknown, Own::Delay),
                None => Own::Unknown,
            });
        }
        self.counters().request();
        if self.shared.resets_all.load(Ordering::Relaxed) {
            return Kind::Counted(Outcome::Reset);
        }
        if self.shared.spec.is_silent {
            self.counters().event(Event::Silent);
            return Kind::Counted(Outcome::Silent);
        }
        Kind::Counted(self.shared.outcomes.as_ref().map_or(Outcome::Good, |outcomes| outcomes.next()))
    }

    /// Whether no response is delayed.
    #[inline]
    pub(crate) fn delays_none(&self) -> bool {
        self.shared.timing.is_none() && self.shared.extra_delay_ns.load(Ordering::Relaxed) == 0
    }

    /// Waits until the response to a fully received request is due.
    #[inline]
    pub(crate) async fn wait_until_due(&self, activity: &Rc<Activity>) -> Due {
        if self.delays_none() {
            return Due { arrived_ns: None };
        }
        let arrived_ns = mono_ns();
        let extra_ns = self.shared.extra_delay_ns.load(Ordering::Relaxed);
        let timing = self.shared.timing.as_ref();
        let due_ns = timing.map_or(arrived_ns, |timing| timing.due_ns(arrived_ns)) + extra_ns;
        if timing.is_none() && extra_ns <= SPUN_NS {
            while mono_ns() < due_ns {
                std::hint::spin_loop();
            }
        } else if due_ns > arrived_ns {
            self.wait_until(due_ns, activity).await;
        }
        Due { arrived_ns: Some(arrived_ns) }
    }

    /// Records the delay of a response just before its first byte is written.
    #[inline]
    pub(crate) fn begin_answer(&self, due: Due) {
        if let Some(arrived_ns) = due.arrived_ns {
            self.counters().delayed(mono_ns().saturating_sub(arrived_ns));
        }
    }

    /// Returns the pieces of a slow body of `bytes`, each with its due time.
    pub(crate) fn slow_pieces(&self, bytes: u64) -> impl Iterator<Item = (u64, Range<u64>)> + use<> {
        let time_ns = self.shared.spec.faults.slow.map_or(0, |slow| slow.time.0.as_nanos() as u64);
        let start_ns = mono_ns();
        let part =
            |of: u64, piece: u64| (u128::from(of) * u128::from(piece) / u128::from(SLOW_PIECES)) as u64;
        (1..=SLOW_PIECES)
            .map(move |piece| (start_ns + part(time_ns, piece), part(bytes, piece - 1)..part(bytes, piece)))
    }

    pub(crate) async fn wait_until(&self, due_ns: u64, activity: &Rc<Activity>) {
        let _waiting = activity.wait();
        self.sleepers.until(due_ns).await;
    }

    /// Returns the response to one of the origin's own paths.
    pub(crate) fn answer_own(&self, own: Own) -> OwnAnswer {
        match own {
            Own::Stats => {
                let stats = Stats::of(&self.shared.counters, self.shared.timing.as_ref());
                let text = serde_json::to_string(&stats).expect("statistics are a tree of plain values");
                OwnAnswer { status: 200, media_type: "application/json", text }
            }
            Own::Resets(on) => {
                self.shared.resets_all.store(on, Ordering::Relaxed);
                let text = format!("resets are {}\n", if on { "on" } else { "off" });
                OwnAnswer { status: 200, media_type: "text/plain", text }
            }
            Own::Delay(ns) => {
                self.shared.extra_delay_ns.store(ns, Ordering::Relaxed);
                OwnAnswer { status: 200, media_type: "text/plain", text: format!("added delay: {ns} ns\n") }
            }
            Own::Unknown => {
                let text =
                    "use /__weir/stats, /__weir/resets/on, /__weir/resets/off or /__weir/delay/NANOSECONDS\n";
                let text = text.to_owned();
                OwnAnswer { status: 404, media_type: "text/plain", text }
            }
        }
    }
}

/// Whether the path is one of the origin's own.
#[inline]
pub(crate) fn is_own(path_and_query: &str) -> bool {
    path_and_query.starts_with(OWN_PREFIX)
}
