//! Repeated registrations: a process periodically publishes all routes to a service during loads. A failed registration
//! fails the cell. If the scenario has faults of this service, failed registrations during a load are events of the
//! load instead.
//!
//! The interval starts again with each load, so registrations come at the same times of a load in every repeat.
//!
//! Gateways drop routes that were not registered recently. During a load shorter than the interval, weir registers
//! nothing. So weir also registers the routes before a load if more than 1.5 intervals would otherwise pass between two
//! registrations.

use std::time::Duration;

use weir_document::Time;
use weir_results::{Changed, Event, FailedRegistration, Measurement, Part, Registration, Role};
use weir_rig::{Namespace, Publication, mono_ns};

use super::beside::ProcessBeside;
use super::{Disturbance, Gateway, LoadContext};
use crate::cell::error::{CellError, failed};
use crate::cell::own_process::OwnProcess;
use crate::cell::publish::Publisher;
use crate::clock::LoadClock;
use crate::plan;
use crate::publish::{PublishRecord, PublishSpec, Published};
use crate::scenario::Scenario;

/// The repeated registrations of a gateway.
struct Registrations {
    scenario: Scenario,
    publication: Publication,
    every: Duration,
    /// The network namespace of the service; `None` means the network of the host.
    namespace: Option<Namespace>,
    /// Whether the scenario has faults of the service.
    has_faults: bool,
    spec: PublishSpec,
    process: ProcessBeside,
    record: PublishRecord,
    /// Start time of the last complete registration by the monotonic clock, nanoseconds.
    last_ns: u64,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let is_repeated = |of: &&Publication| of.every.is_some_and(|every| !every.is_zero());
    let Some(publication) = gateway.rendered.publications().find(is_repeated) else { return Ok(None) };
    let changes = gateway.scenario.changes.as_ref();
    if changes.is_some_and(|changes| changes.of.contains(&Changed::Endpoints)) {
        let message =
            "weir repeats the registration of routes during a load, which would restore a removed endpoint";
        let remedy = "turn off repeated registration (`every` in the driver's settings), or remove `endpoints` \
                      from `changes.of`";
        return Err(failed("render", message, remedy, ""));
    }
    let Publication { service, messages, gap, every, .. } = publication;
    let every = every.unwrap_or_default();
    let namespace = gateway.services.namespaces.get(service).cloned();
    let spec = PublishSpec {
        address: gateway.services.output(service, "address")?.to_owned(),
        messages: messages.iter().map(|of| (of.subject.clone(), of.payload.clone())).collect(),
        gap_ns: Time(*gap).as_ns(),
        every_ns: Time(every).as_ns(),
    };
    let process = ProcessBeside::new(OwnProcess {
        name: "registrations",
        role: Role::Service,
        command: "publish",
        weir: gateway.weir.clone(),
        limits: gateway.scenario.limits_of(Role::Service),
        namespace: namespace.clone(),
        is_urgent: false,
    });
    Ok(Some(Box::new(Registrations {
        scenario: gateway.scenario.clone(),
        publication: publication.clone(),
        every,
        namespace,
        has_faults: gateway.scenario.faulted_services().any(|faulted| faulted == service),
        spec,
        process,
        record: PublishRecord::default(),
        last_ns: mono_ns(),
    })))
}

impl Registrations {
    /// Registers all routes before a load, unless the last registration is recent. `longest` is the maximum length of
    /// this load; `None` if unknown.
    fn refresh(&mut self, longest: Option<Duration>) -> Result<(), CellError> {
        let now_ns = mono_ns();
        let age = Duration::from_nanos(now_ns.saturating_sub(self.last_ns));
        if !is_due(age, longest, self.every) {
            return Ok(());
        }
        let Publication { service, messages, gap, .. } = &self.publication;
        let publisher = Publisher::connect(service, &self.spec.address, self.namespace.as_ref());
        match publisher.and_then(|publisher| publisher.publish(messages, *gap)) {
            Ok(()) => self.last_ns = now_ns,
            // A fault in an earlier load may have made the service unreachable, so this is not an error: the load shows
            // the effect on the gateway.
            Err(_) if self.has_faults => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Whether to register routes before a load. The last registration was `age` ago. Without one now, the next one follows
/// `every` after the start of the load, or after the end of the load if the load is shorter (`longest` is its maximum
/// length). Returns true if the time between these two registrations would exceed 1.5 times `every`.
fn is_due(age: Duration, longest: Option<Duration>, every: Duration) -> bool {
    age + longest.map_or(every, |longest| longest.min(every)) > every * 3 / 2
}

impl Disturbance for Registrations {
    fn applies_to(&self, _: &str) -> bool {
        true
    }

    fn start(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.record = PublishRecord::default();
        let longest = plan::longest(&self.scenario, load.load);
        self.refresh(longest)?;
        if longest.is_some_and(|longest| longest < self.every) {
            return Ok(());
        }
        self.process.start(load, &self.spec)
    }

    fn abandon(&mut self) {
        self.process.abandon();
    }

    fn end(&mut self) -> Result<Vec<Part>, CellError> {
        let Some((part, record)) = self.process.end()? else { return Ok(Vec::new()) };
        self.record = record;
        let all = self.spec.messages.len() as u64;
        let mut complete =
            self.record.publications.iter().filter(|of| of.error.is_none() && of.messages == all);
        if let Some(last) = complete.next_back() {
            self.last_ns = last.start_ns;
        }
        let failed = self.record.publications.iter().find_map(|of| of.error.as_ref());
        match failed {
            Some(why) if !self.has_faults => {
                Err(CellError::Refused { part: self.publication.service.clone(), why: why.clone() })
            }
            _ => Ok(vec![part]),
        }
    }

    fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        let event = |of: &Published| {
            let (t_s, sustained) = clock.moment(of.start_ns);
            let took_ns = of.end_ns.saturating_sub(of.start_ns);
            let (kind, details) = match &of.error {
                None => {
                    let registration = Registration { messages: of.messages, took_ns };
                    (Registration::KIND, serde_json::to_value(registration))
                }
                Some(why) => {
                    let failed = FailedRegistration { why: why.clone(), took_ns };
                    (FailedRegistration::KIND, serde_json::to_value(failed))
                }
            };
            let details = details.expect("counts and text always serialize to JSON");
            Event { t_s, sustained, kind: kind.into(), details }
        };
        measurement.events.extend(self.record.publications.iter().map(event));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_registered_before_a_load_if_they_would_expire() {
        let is_due = |age_s, longest_s: Option<u64>| {
            let of = Duration::from_secs;
            is_due(of(age_s), longest_s.map(of), of(60))
        };
        // If a load is longer than 60 s, or its length is unknown, the first registration comes 60 s after the start of
        // the load.
        assert_eq!([0, 30, 31].map(|age_s| is_due(age_s, Some(100))), [false, false, true]);
        assert_eq!([0, 30, 31].map(|age_s| is_due(age_s, None)), [false, false, true]);
        assert_eq!([0, 80, 81].map(|age_s| is_due(age_s, Some(10))), [false, false, true]);
    }
}
