//! Registrations that are repeated: a process publishes all routes again and again, beside the loads.

use weir_document::Time;
use weir_results::{Changed, Event, Measurement, Part, Registration, Role};
use weir_rig::Publication;

use super::beside::ProcessBeside;
use super::{Disturbance, Gateway, LoadContext};
use crate::cell::error::{CellError, failed};
use crate::cell::own_process::OwnProcess;
use crate::clock::LoadClock;
use crate::publish::{PublishRecord, PublishSpec};

/// The publications of a gateway that are repeated.
struct Registrations {
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
    Ok(Some(Box::new(Registrations { spec, process, record: PublishRecord::default() })))
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
        Ok(vec![part])
    }

    fn record(&self, clock: &LoadClock, measurement: &mut Measurement) {
        let messages = self.spec.messages.len() as u64;
        let event = |(start_ns, end_ns): &(u64, u64)| {
            let (t_s, sustained) = clock.moment(*start_ns);
            let details = Registration { messages, took_ns: end_ns.saturating_sub(*start_ns) };
            let details = serde_json::to_value(details).expect("counts are plain values");
            Event { t_s, sustained, kind: Registration::KIND.into(), details }
        };
        measurement.events.extend(self.record.publications.iter().map(event));
    }
}
