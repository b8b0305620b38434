//! Slow clients: a separate process, which starts before the load generator and stops after it.

use weir_engine::SlowSpec;
use weir_results::{Measurement, Part, Role, SlowClients};

use super::beside::ProcessBeside;
use super::{Disturbance, Gateway, LoadContext, UnusableCounters};
use crate::cell::error::CellError;
use crate::cell::own_process::OwnProcess;
use crate::clock::LoadClock;
use crate::scenario;

/// The slow clients of a scenario.
struct Slow {
    clients: scenario::SlowClients,
    spec: SlowSpec,
    process: ProcessBeside,
    counts: Option<SlowClients>,
}

pub(super) fn prepare(gateway: &Gateway<'_>) -> Result<Option<Box<dyn Disturbance>>, CellError> {
    let Some(clients) = &gateway.scenario.slow else { return Ok(None) };
    let topology = &gateway.scenario.topology;
    let (host, path) = (topology.hosts().into_iter().next(), topology.paths().into_iter().next());
    let (Some(host), Some(path)) = (host, path) else { return Ok(None) };
    let token = gateway.rendered.credentials.token.as_ref();
    let spec = SlowSpec {
        address: gateway.listener.connect,
        host,
        path,
        fields: token.map(|token| ("Authorization".into(), format!("Bearer {token}"))).into_iter().collect(),
        heads: clients.heads,
        bodies: clients.bodies,
        responses: clients.responses,
        piece_bytes: u32::try_from(clients.piece.0).unwrap_or(u32::MAX),
        every_ns: clients.every.as_ns(),
        body_bytes: clients.body.0,
    };
    Ok(Some(Box::new(Slow {
        clients: clients.clone(),
        spec,
        process: ProcessBeside::new(OwnProcess {
            name: "slow-clients",
            role: Role::Generator,
            command: "slow",
            weir: gateway.weir.clone(),
            limits: gateway.scenario.limits_of(Role::Generator),
            namespace: gateway.generator.cloned(),
            is_urgent: false,
        }),
        counts: None,
    })))
}

impl Disturbance for Slow {
    fn applies_to(&self, load: &str) -> bool {
        self.clients.concerns(load)
    }

    fn unusable_counters(&self) -> UnusableCounters {
        // Some gateways count a slow request at its start, others at its end.
        UnusableCounters { gateway: true, origin: true }
    }

    fn start(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.counts = None;
        self.process.start(load, &self.spec)
    }

    fn abandon(&mut self) {
        self.process.abandon();
    }

    fn end(&mut self) -> Result<Vec<Part>, CellError> {
        let Some((part, counts)) = self.process.end()? else { return Ok(Vec::new()) };
        self.counts = Some(counts);
        Ok(vec![part])
    }

    fn record(&self, _: &LoadClock, measurement: &mut Measurement) {
        measurement.slow = self.counts;
    }
}
