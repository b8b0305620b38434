//! Changes of a running gateway while load runs: routes come and go, an endpoint leaves and returns, the certificate is
//! replaced, in turn; each is seen to be in force.
//!
//! Every state that the configuration goes through is rendered before any load begins, so that a change costs the lab next
//! to nothing. Requests of the lab's own then find out from when on the change is in force; what they add to the counters
//! is taken off them.

mod target;

use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use weir_results::{Changed, LoadRecord, RouteChange};
use weir_rig::{Binding, Change, CounterSource, Credentials, Driver, RigError, Running, mono_ns};

use crate::cell::error::{CellError, failed};
use crate::clock::moment_of;
use crate::scenario::Scenario;
use crate::wiring::Seat;
use target::{Look, Target};

/// How long a change may take to be in force: a gateway reads a hundred thousand routes on a share of a core.
const SEEN_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked for, at first and at last.
const LOOK_FIRST: Duration = Duration::from_millis(1);
const LOOK_LAST: Duration = Duration::from_millis(40);
/// What a gateway answers where it has no route.
const NO_ROUTE: u16 = 404;

/// Whether the load that changes are made for was given up.
pub(crate) type IsGivenUp<'a> = &'a (dyn Fn() -> bool + Sync);

/// The changes of one running gateway.
#[derive(Debug)]
pub(crate) struct Changer {
    /// What the configuration goes through, again and again; with the last it is what it began with.
    states: Vec<State>,
    every: Duration,
    /// How many routes come and go.
    routes: u64,
    /// Routes without them.
    base_routes: u64,
    target: Target,
}

/// A state of the configuration.
#[derive(Debug)]
struct State {
    change: Change,
    /// In what it differs from the one before.
    what: Changed,
    /// All in which it differs from the one that the gateway began with.
    on: Vec<Changed>,
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
    what: Changed,
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
    /// `seat`, in front of servers of which `last` counts the requests of the last; `None` for a scenario without changes.
    pub(crate) fn prepare(
        scenario: &Scenario,
        driver: &Driver,
        (binding, credentials): (&Binding, &Credentials),
        dir: &Path,
        running: &[Running],
        (seat, last): (&Seat, Option<&CounterSource>),
    ) -> Result<Option<Self>, RigError> {
        let Some(changes) = &scenario.changes else { return Ok(None) };
        let added = changes.added_paths();
        let Some(target) = Target::new((binding, credentials), &added, seat, last)? else { return Ok(None) };
        let mut states: Vec<State> = Vec::new();
        for step in 0..2 * changes.of.len() {
            let what = changes.of[step % changes.of.len()];
            let mut on = states.last().map(|state| state.on.clone()).unwrap_or_default();
            match on.iter().position(|other| *other == what) {
                Some(place) => {
                    on.remove(place);
                }
                None => on.push(what),
            }
            let (changed, shown) = (changed(binding, &added, &on), shown(credentials, &on));
            let change = driver.prepare_change(&changed, &shown, dir, &format!("change-{step}"), running)?;
            states.push(State { change, what, on });
        }
        let hosts = binding.hosts.len() as u64;
        Ok(Some(Self {
            states,
            every: changes.every.0,
            routes: hosts * added.len() as u64,
            base_routes: hosts * binding.paths.len() as u64,
            target,
        }))
    }

    /// Makes changes until `ended` closes, and leaves the gateway as it was. Where `is_given_up` says so nobody asks for it
    /// any more.
    pub(crate) fn change_until(
        &self,
        ended: &Receiver<()>,
        is_given_up: IsGivenUp<'_>,
    ) -> Result<Made, CellError> {
        let mut made = Made::default();
        let mut states = self.states.iter().cycle();
        let mut on: &[Changed] = &[];
        let mut due = Instant::now() + self.every;
        while let (Err(RecvTimeoutError::Timeout), Some(state)) =
            (ended.recv_timeout(due.saturating_duration_since(Instant::now())), states.next())
        {
            let applied = self.apply(state, &mut made.looks, is_given_up)?;
            made.changes.push(applied);
            on = &state.on;
            // A change that took longer than the time to the next leaves that out.
            while due <= Instant::now() {
                due += self.every;
            }
        }
        if let Some(first) = self.states.last().filter(|_| !on.is_empty() && !is_given_up()) {
            let mut looks = on.iter().map(|what| self.target.look_for(*what, false)).collect::<Vec<_>>();
            first.change.apply()?;
            for look in &mut looks {
                self.await_seen(&first.change, look, &mut made.looks, is_given_up)?;
            }
        }
        Ok(made)
    }

    fn apply(
        &self,
        state: &State,
        looks: &mut Looks,
        is_given_up: IsGivenUp<'_>,
    ) -> Result<Applied, CellError> {
        let is_on = state.on.contains(&state.what);
        let mut look = self.target.look_for(state.what, is_on);
        let at_ns = mono_ns();
        state.change.apply()?;
        let seen_ns = self.await_seen(&state.change, &mut look, looks, is_given_up)?;
        let routes_added = match (state.what, is_on) {
            (Changed::Routes, true) => i64::try_from(self.routes).unwrap_or(i64::MAX),
            (Changed::Routes, false) => -i64::try_from(self.routes).unwrap_or(i64::MAX),
            _ => 0,
        };
        let has_more = state.on.contains(&Changed::Routes);
        Ok(Applied {
            at_ns,
            seen_after_ns: seen_ns.saturating_sub(at_ns),
            what: state.what,
            routes_added,
            routes: self.base_routes + if has_more { self.routes } else { 0 },
        })
    }

    /// Looks until `change` is in force; tells since when.
    fn await_seen(
        &self,
        change: &Change,
        look: &mut Look,
        looks: &mut Looks,
        is_given_up: IsGivenUp<'_>,
    ) -> Result<u64, CellError> {
        let deadline = Instant::now() + SEEN_WITHIN;
        let (mut pause, mut signalled) = (LOOK_FIRST, Instant::now());
        loop {
            let said = match self.target.look(look, looks) {
                Ok(seen_ns) => return Ok(seen_ns),
                Err(said) => said,
            };
            if is_given_up() {
                return Err(CellError::Stopped);
            }
            if Instant::now() > deadline {
                let what = self.target.words(look);
                let message = format!("{what} {} s later: {said}", SEEN_WITHIN.as_secs());
                let remedy = "check in its log whether it read the change (`apply` in its driver.yaml)";
                return Err(failed("never-ready", &message, remedy, ""));
            }
            if change.again_after().is_some_and(|after| signalled.elapsed() >= after) {
                change.signal();
                signalled = Instant::now();
            }
            thread::sleep(pause);
            pause = (pause * 2).min(look.pause_max());
        }
    }
}

/// What the gateway is rendered for where it differs in `on` from `binding`.
fn changed(binding: &Binding, added: &[String], on: &[Changed]) -> Binding {
    let mut changed = binding.clone();
    if on.contains(&Changed::Routes) {
        changed.paths.extend_from_slice(added);
    }
    if on.contains(&Changed::Endpoints) {
        changed.origins.pop();
    }
    changed
}

/// The certificates that it shows then.
fn shown(credentials: &Credentials, on: &[Changed]) -> Credentials {
    let renewed = credentials.certificates.as_ref().filter(|_| on.contains(&Changed::Certificates));
    match renewed.and_then(weir_rig::Certificates::with_renewed) {
        Some(renewed) => Credentials { certificates: Some(renewed), ..credentials.clone() },
        None => credentials.clone(),
    }
}

impl Made {
    /// The changes on the clock of `record`, whose warm-up began at `start_ns`.
    pub(crate) fn on_the_clock_of(&self, record: &LoadRecord, start_ns: u64) -> Vec<RouteChange> {
        let on_the_clock = |applied: &Applied| {
            let (t_s, sustained) = moment_of(record, start_ns, applied.at_ns);
            RouteChange {
                t_s,
                sustained,
                what: applied.what,
                routes_added: applied.routes_added,
                routes: applied.routes,
                seen_after_ns: applied.seen_after_ns,
            }
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
