//! Changes of the routes of a running gateway while load runs: some come, are seen to work, and go again.
//!
//! Both topologies are rendered before any load begins, so that a change costs the lab next to nothing. A request of the
//! lab's own then finds out from when on the change is in force; what it adds to the counters is taken off them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use weir_results::{LoadRecord, RouteChange};
use weir_rig::{Binding, Change, Credentials, Driver, Namespace, RigError, Running, mono_ns};

use crate::cell::{Setback, failed};
use crate::scenario::Scenario;
use crate::wiring::Seat;

/// How long a change may take to be in force: a gateway reads a hundred thousand routes on a share of a core.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked for, at first and at last.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(40);
/// How long one look may take.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// What a gateway answers where it has no route.
const NO_ROUTE: u16 = 404;

/// Whether the load that changes are made for was given up.
pub(crate) type IsGivenUp<'a> = &'a (dyn Fn() -> bool + Sync);

/// The changes of one running gateway.
#[derive(Debug)]
pub(crate) struct Changer {
    /// With the routes that come and go, and without.
    more: Change,
    fewer: Change,
    every: Duration,
    /// How many come and go.
    routes: u64,
    /// Routes without them.
    base_routes: u64,
    target: Target,
}

/// A route that comes and goes, and where it is asked for.
#[derive(Debug)]
struct Target {
    credentials: Credentials,
    network: Option<Namespace>,
    address: SocketAddr,
    host: String,
    path: String,
}

/// What was changed during a load.
#[derive(Debug, Default)]
pub(crate) struct Made {
    changes: Vec<Applied>,
    /// Requests of the lab's own meanwhile.
    pub(crate) looks: Looks,
}

/// A change, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Applied {
    at_ns: u64,
    seen_after_ns: u64,
    routes_added: i64,
    routes: u64,
}

/// Requests of the lab's own, as the gateway and the upstream counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Looks {
    /// Answered by the gateway, by whatever status.
    answered: u64,
    /// Handed on to the upstream.
    handed_on: u64,
    /// Those of which nobody can say who counted them.
    uncertain: u64,
}

impl Changer {
    /// Renders what changes of the gateway that was rendered for `binding` in `dir`, wants `credentials` and runs at
    /// `seat`; `None` for a scenario without changes.
    pub(crate) fn prepare(
        scenario: &Scenario,
        driver: &Driver,
        (binding, credentials): (&Binding, &Credentials),
        dir: &Path,
        running: &[Running],
        seat: &Seat,
    ) -> Result<Option<Self>, RigError> {
        let Some(changes) = &scenario.changes else { return Ok(None) };
        let added = changes.added_paths();
        let (Some(host), Some(path)) = (binding.hosts.first(), added.first()) else { return Ok(None) };
        let target = Target {
            credentials: credentials.clone(),
            network: seat.namespace.clone(),
            address: seat.asked,
            host: host.clone(),
            path: path.clone(),
        };
        let paths = [binding.paths.clone(), added.clone()].concat();
        let with_more = Binding { paths, ..binding.clone() };
        let hosts = binding.hosts.len() as u64;
        Ok(Some(Self {
            more: driver.prepare_change(&with_more, credentials, dir, "more", running)?,
            fewer: driver.prepare_change(binding, credentials, dir, "fewer", running)?,
            every: changes.every.0,
            routes: hosts * added.len() as u64,
            base_routes: hosts * binding.paths.len() as u64,
            target,
        }))
    }

    /// Makes changes until `ended` closes, and leaves the gateway with the routes that it had. Where `is_given_up` says
    /// so nobody asks for it any more.
    pub(crate) fn change_until(
        &self,
        ended: &Receiver<()>,
        is_given_up: IsGivenUp<'_>,
    ) -> Result<Made, Setback> {
        let mut made = Made::default();
        let mut has_more = false;
        let mut due = Instant::now() + self.every;
        while let Err(RecvTimeoutError::Timeout) =
            ended.recv_timeout(due.saturating_duration_since(Instant::now()))
        {
            has_more = !has_more;
            let applied = self.apply(has_more, &mut made.looks, is_given_up)?;
            made.changes.push(applied);
            // A change that took longer than the time to the next leaves that out.
            while due <= Instant::now() {
                due += self.every;
            }
        }
        if has_more && !is_given_up() {
            self.apply(false, &mut made.looks, is_given_up)?;
        }
        Ok(made)
    }

    fn apply(&self, more: bool, looks: &mut Looks, is_given_up: IsGivenUp<'_>) -> Result<Applied, Setback> {
        let change = if more { &self.more } else { &self.fewer };
        let at_ns = mono_ns();
        change.apply()?;
        self.await_seen(change, more, looks, is_given_up)?;
        let routes_added = i64::try_from(self.routes).unwrap_or(i64::MAX);
        Ok(Applied {
            at_ns,
            seen_after_ns: mono_ns().saturating_sub(at_ns),
            routes_added: if more { routes_added } else { -routes_added },
            routes: self.base_routes + if more { self.routes } else { 0 },
        })
    }

    /// Asks for a route that came, or went, until the answer is as it has to be.
    fn await_seen(
        &self,
        change: &Change,
        more: bool,
        looks: &mut Looks,
        is_given_up: IsGivenUp<'_>,
    ) -> Result<(), Setback> {
        let Target { credentials, network, address, host, path } = &self.target;
        let expected = if more { 200 } else { NO_ROUTE };
        let deadline = Instant::now() + SEEN_WITHIN;
        let (mut pause, mut signalled) = (LOOK_FIRST, Instant::now());
        loop {
            let answer =
                weir_rig::status_of(credentials, network.as_ref(), *address, (host, path), LOOK_TIMEOUT);
            looks.add(&answer);
            if answer == Ok(expected) {
                return Ok(());
            }
            if is_given_up() {
                return Err(Setback::Stopped);
            }
            if Instant::now() > deadline {
                let said = answer.map_or_else(|error| error, |status| format!("status {status}"));
                let message = format!(
                    "a route that {} was not {} {} s later: http://{address}{path} (Host: {host}) gave {said}",
                    if more { "came" } else { "went" },
                    if more { "served" } else { "gone" },
                    SEEN_WITHIN.as_secs()
                );
                let remedy = "see in its log whether it read the change (`apply` in its driver.yaml)";
                return Err(failed("never-ready", &message, remedy, ""));
            }
            if change.again_after().is_some_and(|after| signalled.elapsed() >= after) {
                change.signal();
                signalled = Instant::now();
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK_LAST);
        }
    }
}

impl Made {
    /// The changes on the clock of `record`, whose warm-up began at `start_ns`.
    pub(crate) fn on_the_clock_of(&self, record: &LoadRecord, start_ns: u64) -> Vec<RouteChange> {
        let phase = record.phase_start_mono_ns..record.phase_end_mono_ns;
        let on_the_clock = |applied: &Applied| RouteChange {
            t_s: (applied.at_ns as f64 - start_ns as f64) / 1e9,
            sustained: phase.contains(&applied.at_ns),
            routes_added: applied.routes_added,
            routes: applied.routes,
            seen_after_ns: applied.seen_after_ns,
        };
        self.changes.iter().map(on_the_clock).collect()
    }
}

impl Looks {
    fn add(&mut self, answer: &Result<u16, String>) {
        match answer {
            Ok(200) => {
                self.answered += 1;
                self.handed_on += 1;
            }
            Ok(NO_ROUTE) => self.answered += 1,
            Ok(_) => {
                self.answered += 1;
                self.uncertain += 1;
            }
            Err(_) => self.uncertain += 1,
        }
    }

    /// What the gateway counted without these requests; `sent` is what it should be.
    pub(crate) fn off_gateway(&self, counted: u64, sent: u64) -> u64 {
        self.off(counted, self.answered, sent)
    }

    /// The same of the upstream.
    pub(crate) fn off_origin(&self, counted: u64, sent: u64) -> u64 {
        self.off(counted, self.handed_on, sent)
    }

    fn off(&self, counted: u64, certain: u64, sent: u64) -> u64 {
        let rest = counted.saturating_sub(certain);
        rest - rest.saturating_sub(sent).min(self.uncertain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_labs_own_requests_are_taken_off_the_counters() {
        let mut looks = Looks::default();
        for answer in [Ok(404), Ok(404), Ok(200), Ok(503), Err("connection reset".to_owned())] {
            looks.add(&answer);
        }
        assert_eq!(looks, Looks { answered: 4, handed_on: 1, uncertain: 2 });
        // Those that are uncertain explain what is too much, and nothing that is missing.
        assert_eq!([104, 105, 106, 107].map(|counted| looks.off_gateway(counted, 100)), [100, 100, 100, 101]);
        assert_eq!(looks.off_gateway(103, 100), 99);
        assert_eq!([101, 103, 104].map(|counted| looks.off_origin(counted, 100)), [100, 100, 101]);
        assert_eq!(Looks::default().off_gateway(100, 100), 100);
    }
}
