//! Slow clients: a process of their own, started before the generator and ended after it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_engine::SlowSpec;
use weir_results::{Measurement, Part, Role, SlowClients};
use weir_rig::{Binary, Limits, Namespace, ProcessSpec, Ready, Running};

use super::{Disturbance, Gateway, LoadContext, UnusableCounters};
use crate::cell::error::{CellError, failed, file_failed};
use crate::clock::LoadClock;
use crate::scenario;

/// The name of their process.
const NAME: &str = "slow-clients";
/// How long it may take to write its record.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// The slow clients of a scenario.
struct Slow {
    clients: scenario::SlowClients,
    spec: SlowSpec,
    weir: Binary,
    limits: Limits,
    network: Option<Namespace>,
    process: Option<Process>,
    counts: Option<SlowClients>,
}

/// Their process while a load runs.
struct Process {
    running: Running,
    record: PathBuf,
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
        weir: gateway.weir.clone(),
        limits: gateway.scenario.limits_of(Role::Generator),
        network: gateway.generator.cloned(),
        process: None,
        counts: None,
    })))
}

impl Disturbance for Slow {
    fn applies_to(&self, load: &str) -> bool {
        self.clients.concerns(load)
    }

    fn unusable_counters(&self) -> UnusableCounters {
        // Some gateways count a slow request when it begins, others when it is complete.
        UnusableCounters { gateway: true, origin: true }
    }

    fn start(&mut self, load: &mut LoadContext<'_>) -> Result<(), CellError> {
        self.counts = None;
        let spec_path = load.dir.join(format!("{}.slow.json", load.load));
        let record = load.dir.join(format!("{}.slow.record.json", load.load));
        let text = serde_json::to_vec(&self.spec).expect("slow clients are a tree of plain values");
        std::fs::write(&spec_path, text).map_err(|error| file_failed("write", &spec_path, &error))?;
        let argument = |path: &PathBuf| path.display().to_string();
        let (spec, record_to) = (argument(&spec_path), argument(&record));
        let weir = argument(&self.weir.path);
        let running = load.rig.launch(&ProcessSpec {
            name: NAME.into(),
            role: Role::Generator,
            binary: self.weir.clone(),
            config_sha256: None,
            command: vec![weir, "slow".into(), "--spec".into(), spec, "--record".into(), record_to],
            env: vec![],
            dir: load.dir.to_path_buf(),
            log: load.dir.join(format!("{}.slow.log", load.load)),
            limits: self.limits,
            is_urgent: false,
            cpus: None,
            ready: Ready::None,
            ready_timeout: Duration::ZERO,
            listens: vec![],
            namespace: self.network.clone(),
        })?;
        load.sampler.join(&running);
        self.process = Some(Process { running, record });
        Ok(())
    }

    fn poll(&mut self, _: &mut LoadContext<'_>, _: Instant) -> Result<Option<Duration>, CellError> {
        Ok(None)
    }

    fn undo(&mut self, _: &mut LoadContext<'_>) -> Result<(), CellError> {
        // They are sampled to the last, so they end in `end`.
        Ok(())
    }

    fn abandon(&mut self) {
        self.process = None;
    }

    fn end(&mut self) -> Result<Vec<Part>, CellError> {
        let Some(Process { mut running, record }) = self.process.take() else { return Ok(Vec::new()) };
        if let Some(failure) = running.failure() {
            return Err(failure.into());
        }
        let part = running.part();
        running.stop(STOP_GRACE);
        let text = std::fs::read(&record).map_err(|error| file_failed("read", &record, &error))?;
        let counts = serde_json::from_slice(&text).map_err(|error| {
            let message =
                format!("{}: cannot read the record of the slow clients: {error}", record.display());
            failed("generator", &message, "report this as a bug", "")
        })?;
        self.counts = Some(counts);
        Ok(vec![part])
    }

    fn record(&self, _: &LoadClock, measurement: &mut Measurement) {
        measurement.slow = self.counts;
    }
}
