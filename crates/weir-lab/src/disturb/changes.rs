//! Changes the configuration of a running gateway: adds and removes routes, removes and restores an endpoint, replaces
//! and restores the certificate. weir measures when each change takes effect.
//!
//! Every state of the configuration is rendered before the first load, so that a change needs little CPU time. weir
//! sends its own requests to find out when the change takes effect, and subtracts them from the counters. Sending these
//! requests blocks, so changes run on their own thread.

mod target;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir_results::{Changed, Measurement, RouteChange};
use weir_rig::{Binding, Change, ChangeChannel, Credentials, Manifests, mono_ns};

use super::{Disturbance, Gateway, InCluster, LoadContext, OwnRequests, UnusableCounters};
use crate::agents::CrewError;
use crate::cell::error::{CellError, failed};
use crate::cell::kube::KubeClient;
use crate::cell::publish::Publisher;
use crate::clock::LoadClock;
use crate::scenario;
use target::{Look, Target};

/// Timeout of a change. With a fraction of a core, a gateway can take a long time to read 100,000 routes.
const EFFECT_TIMEOUT: Duration = Duration::from_secs(60);
/// Minimum pause between two checks of whether a change has taken effect.
const LOOK_FIRST: Duration = Duration::from_millis(1);
/// Maximum pause between two checks.
const LOOK_LAST: Duration = Duration::from_millis(40);
/// Divisor for the pause between two checks: the pause is the time since the change, divided by this number. Unless the
/// pause is clamped to its minimum or maximum, the measured time is accurate to 5 %.
const LOOKS: u32 = 20;
/// Status that gateways return for a path without a route.
const NO_ROUTE: u16 = 404;

/// The changes of a scenario.
struct Changes {
    changes: scenario::Changes,
    /// Whether the gateway's request counter starts again from zero after each change.
    restarts_counter: bool,
    changer: Arc<Changer>,
    stop: Arc<AtomicBool>,
    worker: Option<Worker>,
    made: ChangesMade,
}

/// The thread that makes changes while a load runs.
struct Worker {
    /// Dropping it signals the thread that the load has ended.
    load: Sender<()>,
    is_abandoned: Arc<AtomicBool>,
    thread: JoinHandle<Result<ChangesMade, CellError>>,
}

/// Returns whether the load failed or the run was stopped, so that no more changes are needed.
type IsAbandoned<'a> = &'a dyn Fn() -> bool;

/// The changes of one running gateway.
#[derive(Debug)]
struct Changer {
    /// The states of the configuration, in a cycle; the last one is the initial state.
    states: Vec<State>,
    every: Duration,
    /// Number of routes that are added and removed.
    routes: u64,
    /// Number of routes that the gateway always has.
    base_routes: u64,
    target: Target,
    /// How changes reach the gateway; `None` if it reads them from files.
    channel: Option<Channel>,
}

/// How changes reach a gateway that does not read them from files.
#[derive(Debug)]
enum Channel {
    Nats(Box<Publisher>),
    Kubernetes(Box<KubeClient>),
    Cluster(Box<InCluster>),
}

impl Channel {
    fn open(gateway: &Gateway<'_>) -> Result<Option<Self>, CellError> {
        let over = gateway.driver.changes_over(gateway.binding, &gateway.rendered.credentials)?;
        Ok(match over {
            None => None,
            Some(ChangeChannel::Nats(service)) => {
                Some(Self::Nats(Box::new(gateway.services.publisher(&service)?)))
            }
            Some(ChangeChannel::Kubernetes(access)) => {
                let namespace = gateway.listener.namespace.as_ref();
                let client = gateway.services.kube_client(&access, gateway.driver.name(), namespace)?;
                Some(Self::Kubernetes(Box::new(client)))
            }
            Some(ChangeChannel::Cluster) => gateway.pods.cloned().map(Box::new).map(Self::Cluster),
        })
    }

    /// Whether a change contains all routes. If not, it contains only the difference to the previous state.
    fn is_whole(&self) -> bool {
        matches!(self, Self::Cluster(_))
    }

    fn carry(&self, change: &Change) -> Result<(), CellError> {
        match self {
            Self::Nats(publisher) => publisher.publish(change.messages(), Duration::ZERO),
            Self::Kubernetes(client) => {
                let Manifests { applied, deleted } = change.manifests();
                client.delete(deleted)?;
                client.apply(applied)
            }
            Self::Cluster(pods) => {
                let put = pods.host.put_routes(&pods.gateway, &change.manifests().applied, None);
                put.map_err(|error| CrewError::from(error).into())
            }
        }
    }
}

/// A state of the configuration.
#[derive(Debug)]
struct State {
    change: Change,
    /// What differs from the previous state.
    what: Changed,
    /// Everything that differs from the initial state.
    on: Vec<Changed>,
}

/// The changes during a load.
#[derive(Debug, Default)]
struct ChangesMade {
    changes: Vec<Applied>,
    own_requests: OwnRequests,
}

/// A change that took effect. Times are of the monotonic clock.
#[derive(Clone, Copy, Debug)]
struct Applied {
    at_ns: u64,
    seen_after_ns: u64,
    what: Changed,
    routes_added: i64,
    routes: u64,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let Some(changes) = &gateway.scenario.changes else { return Ok(None) };
    let Some(changer) = Changer::prepare(gateway, changes)? else { return Ok(None) };
    Ok(Some(Box::new(Changes {
        changes: changes.clone(),
        restarts_counter: gateway.rendered.counters.restarts_on_apply(),
        changer: Arc::new(changer),
        stop: Arc::clone(gateway.stop),
        worker: None,
        made: ChangesMade::default(),
    })))
}

impl Disturbance for Changes {
    fn applies_to(&self, load: &str) -> bool {
        self.changes.concerns(load)
    }

    fn unusable_counters(&self) -> UnusableCounters {
        UnusableCounters { gateway: self.restarts_counter, ..UnusableCounters::default() }
    }

    fn start(&mut self, _: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.made = ChangesMade::default();
        Ok(())
    }

    fn poll(&mut self, _: &mut LoadContext<'_>, _: Instant) -> Result<Option<Duration>, CellError> {
        if self.worker.is_none() {
            self.worker = Some(Worker::start(&self.changer, &self.stop));
        }
        Ok(None)
    }

    fn undo(&mut self, _: &mut LoadContext<'_>) -> Result<(), CellError> {
        if let Some(worker) = self.worker.take() {
            self.made = worker.end()?;
        }
        Ok(())
    }

    fn abandon(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.is_abandoned.store(true, Ordering::Relaxed);
            // An error of the thread does not matter: the load has already failed for another reason.
            let _ = worker.end();
        }
    }

    fn own_requests(&self) -> OwnRequests {
        self.made.own_requests
    }

    fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        let event = |applied: &Applied| {
            let (t_s, sustained) = clock.moment(applied.at_ns);
            RouteChange {
                t_s,
                sustained,
                what: applied.what,
                routes_added: applied.routes_added,
                routes: applied.routes,
                seen_after_ns: applied.seen_after_ns,
            }
        };
        measurement.route_changes = self.made.changes.iter().map(event).collect();
    }
}

impl Drop for Changes {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl Worker {
    fn start(changer: &Arc<Changer>, stop: &Arc<AtomicBool>) -> Self {
        let (load, ended) = channel();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let flags = [Arc::clone(&is_abandoned), Arc::clone(stop)];
        let changer = Arc::clone(changer);
        let thread = thread::spawn(move || {
            changer.change_until(&ended, &|| flags.iter().any(|flag| flag.load(Ordering::Relaxed)))
        });
        Self { load, is_abandoned, thread }
    }

    /// Ends the thread, and returns the changes. Before it ends, the thread restores the gateway, unless the load is
    /// abandoned.
    fn end(self) -> Result<ChangesMade, CellError> {
        drop(self.load);
        self.thread.join().expect("the thread that makes the changes does not panic")
    }
}

impl Changer {
    /// Renders every state of the gateway's configuration; `None` if the gateway has no host or path.
    fn prepare(gateway: &Gateway<'_>, changes: &scenario::Changes) -> Result<Option<Self>, CellError> {
        let (binding, credentials) = (gateway.binding, &gateway.rendered.credentials);
        let added = changes.added_paths();
        let Some(target) = Target::new(gateway, &added)? else { return Ok(None) };
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
            let before = states.last().map_or(&[][..], |state| &state.on);
            let bindings = [before, &on].map(|on| changed(binding, &added, on));
            let shown = shown(credentials, &on);
            let name = format!("change-{step}");
            let [before, after] = &bindings;
            let change =
                gateway.driver.prepare_change(before, after, &shown, gateway.home, &name, gateway.running)?;
            states.push(State { change, what, on });
        }
        let channel = Channel::open(gateway)?;
        let hosts = binding.hosts.len() as u64;
        Ok(Some(Self {
            channel,
            states,
            every: changes.every.0,
            routes: hosts * added.len() as u64,
            base_routes: hosts * binding.paths.len() as u64,
            target,
        }))
    }

    /// Makes changes until `ended` closes, then restores the gateway unless the load is abandoned.
    fn change_until(
        &self,
        ended: &Receiver<()>,
        is_abandoned: IsAbandoned<'_>,
    ) -> Result<ChangesMade, CellError> {
        let mut made = ChangesMade::default();
        let mut states = self.states.iter().enumerate().cycle();
        let mut on: &[Changed] = &[];
        let mut next = 0;
        let mut due = Instant::now() + self.every;
        while let (Err(RecvTimeoutError::Timeout), Some((place, state))) =
            (ended.recv_timeout(due.saturating_duration_since(Instant::now())), states.next())
        {
            let applied = self.apply(state, &mut made.own_requests, is_abandoned)?;
            made.changes.push(applied);
            (on, next) = (&state.on, place + 1);
            // If a change took longer than the interval, the next one waits for the next multiple of the interval.
            while due <= Instant::now() {
                due += self.every;
            }
        }
        if let Some(first) = self.states.last().filter(|_| !on.is_empty() && !is_abandoned()) {
            let mut looks = on.iter().map(|what| self.target.look_for(*what, false)).collect::<Vec<_>>();
            match &self.channel {
                Some(channel) if channel.is_whole() => self.carry_out(&first.change)?,
                // Each change contains only the difference from the previous state, so all remaining changes are
                // applied to restore the initial state.
                Some(_) => self.states[next..].iter().try_for_each(|state| self.carry_out(&state.change))?,
                None => first.change.apply()?,
            }
            for look in &mut looks {
                self.await_effect(&first.change, look, &mut made.own_requests, is_abandoned)?;
            }
        }
        Ok(made)
    }

    fn apply(
        &self,
        state: &State,
        own: &mut OwnRequests,
        is_abandoned: IsAbandoned<'_>,
    ) -> Result<Applied, CellError> {
        let is_on = state.on.contains(&state.what);
        let mut look = self.target.look_for(state.what, is_on);
        let asked_ns = mono_ns();
        self.carry_out(&state.change)?;
        // In a cluster, weir measures from the moment when the API server has stored the objects, because storing them
        // is not work of the gateway.
        let is_stored = self.channel.as_ref().is_some_and(Channel::is_whole);
        let at_ns = if is_stored { mono_ns() } else { asked_ns };
        let seen_ns = self.await_effect(&state.change, &mut look, own, is_abandoned)?;
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

    fn carry_out(&self, change: &Change) -> Result<(), CellError> {
        change.apply()?;
        self.channel.as_ref().map_or(Ok(()), |channel| channel.carry(change))
    }

    /// Waits until `change` takes effect. Returns the time when it took effect, by the monotonic clock in nanoseconds.
    fn await_effect(
        &self,
        change: &Change,
        look: &mut Look,
        own: &mut OwnRequests,
        is_abandoned: IsAbandoned<'_>,
    ) -> Result<u64, CellError> {
        let changed = Instant::now();
        let mut signalled = changed;
        loop {
            let said = match self.target.look(look, own) {
                Ok(seen_ns) => return Ok(seen_ns),
                Err(said) => said,
            };
            if is_abandoned() {
                return Err(CellError::Stopped);
            }
            if changed.elapsed() > EFFECT_TIMEOUT {
                let what = self.target.words(look);
                let message = format!("{} s after the change, {what}: {said}", EFFECT_TIMEOUT.as_secs());
                let remedy = "check in the gateway's log whether it read the change; `apply` in its \
                              driver.yaml defines how weir sends the change";
                return Err(failed("never-ready", &message, remedy, ""));
            }
            if change.again_after().is_some_and(|after| signalled.elapsed() >= after) {
                change.signal();
                signalled = Instant::now();
            }
            thread::sleep((changed.elapsed() / LOOKS).max(LOOK_FIRST).min(look.pause_max()));
        }
    }
}

/// Returns a copy of `binding` with every change in `on`. A change of routes adds the paths in `added`.
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

/// Returns `credentials` with the changes `on` applied. Only a change of certificates affects credentials.
fn shown(credentials: &Credentials, on: &[Changed]) -> Credentials {
    let renewed = credentials.certificates.as_ref().filter(|_| on.contains(&Changed::Certificates));
    match renewed.and_then(weir_rig::Certificates::with_renewed) {
        Some(renewed) => Credentials { certificates: Some(renewed), ..credentials.clone() },
        None => credentials.clone(),
    }
}
