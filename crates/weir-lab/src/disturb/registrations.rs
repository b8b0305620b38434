//! Registrations that are repeated: a process publishes all routes again and again, beside the loads. Those that fail while
//! a planned fault has stopped the service are events of the load.

use weir_document::Time;
use weir_results::{Changed, Event, FailedRegistration, Measurement, Part, Registration, Role};
use weir_rig::Publication;

use super::beside::ProcessBeside;
use super::{Disturbance, Gateway, LoadContext};
use crate::cell::error::{CellError, failed};
use crate::cell::own_process::OwnProcess;
use crate::clock::LoadClock;
use crate::publish::{PublishRecord, PublishSpec, Published};

/// The publications of a gateway that are repeated.
struct Registrations {
    service: String,
    /// Whether the scenario has faults of the service.
    has_faults: bool,
    spec: PublishSpec,
    process: ProcessBeside,
    record: PublishRecord,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let is_repeated = |of: &&Publication| of.every.is_some_and(|every| !every.is_zero());
    let Some(publication) = gateway.rendered.publications().find(is_repeated) else { return Ok(None) };
    let changes = gateway.scenario.changes.as_ref();
    if changes.is_some_and(|changes| changes.of.contains(&Changed::Endpoints)) {
        let message =
            "routes are registered again while load runs, which would bring a removed endpoint back";
        let remedy = "set no interval of re-registration, or remove `endpoints` from `changes.of`";
        return Err(failed("render", message, remedy, ""));
    }
    let Publication { service, messages, gap, every, .. } = publication;
    let spec = PublishSpec {
        address: gateway.services.output(service, "address")?.to_owned(),
        messages: messages.iter().map(|of| (of.subject.clone(), of.payload.clone())).collect(),
        gap_ns: Time(*gap).as_ns(),
        every_ns: Time(every.unwrap_or_default()).as_ns(),
    };
    let process = ProcessBeside::new(OwnProcess {
        name: "registrations",
        role: Role::Service,
        command: "publish",
        weir: gateway.weir.clone(),
        limits: gateway.scenario.limits_of(Role::Service),
        namespace: gateway.services.namespaces.get(service).cloned(),
        is_urgent: false,
    });
    Ok(Some(Box::new(Registrations {
        service: service.clone(),
        has_faults: gateway.scenario.faulted_services().any(|faulted| faulted == service),
        spec,
        process,
        record: PublishRecord::default(),
    })))
}

impl Disturbance for Registrations {
    fn applies_to(&self, _: &str) -> bool {
        true
    }

    fn start(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.record = PublishRecord::default();
        self.process.start(load, &self.spec)
    }

    fn abandon(&mut self) {
        self.process.abandon();
    }

    fn end(&mut self) -> Result<Vec<Part>, CellError> {
        let Some((part, record)) = self.process.end()? else { return Ok(Vec::new()) };
        self.record = record;
        let failed = self.record.publications.iter().find_map(|of| of.error.as_ref());
        match failed {
            Some(why) if !self.has_faults => {
                Err(CellError::Refused { part: self.service.clone(), why: why.clone() })
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
            let details = details.expect("counts and text are plain values");
            Event { t_s, sustained, kind: kind.into(), details }
        };
        measurement.events.extend(self.record.publications.iter().map(event));
    }
}
