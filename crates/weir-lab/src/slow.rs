//! Slow clients beside a load: a process of their own, started before the generator and ended after it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_engine::SlowSpec;
use weir_results::{Part, Role, SlowClients};
use weir_rig::{Credentials, ProcessSpec, Ready, Running};

use crate::cell::error::{CellError, failed, failed_file};
use crate::cell::limits_of;
use crate::load::Bed;
use crate::scenario::Scenario;

/// The name of their process.
const NAME: &str = "slow-clients";
/// How long it may take to write what became of them.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Slow clients while they run.
pub(crate) struct Beside {
    pub(crate) running: Running,
    record: PathBuf,
}

/// What the slow clients of `scenario` do to the gateway at `address`, which wants `credentials`; `None` without any.
pub(crate) fn slow_spec(
    scenario: &Scenario,
    address: SocketAddr,
    credentials: Option<&Credentials>,
) -> Option<SlowSpec> {
    let slow = scenario.slow.as_ref()?;
    let (hosts, paths) = (scenario.topology.hosts(), scenario.topology.paths());
    let token = credentials.and_then(|credentials| credentials.token.as_ref());
    Some(SlowSpec {
        address,
        host: hosts.into_iter().next()?,
        path: paths.into_iter().next()?,
        fields: token.map(|token| ("Authorization".into(), format!("Bearer {token}"))).into_iter().collect(),
        heads: slow.heads,
        bodies: slow.bodies,
        responses: slow.responses,
        piece_bytes: u32::try_from(slow.piece.0).unwrap_or(u32::MAX),
        every_ns: crate::clock::whole_ns(slow.every.0),
        body_bytes: slow.body.0,
    })
}

impl Bed<'_> {
    /// Starts them beside the load of that name.
    pub(crate) fn start_slow(&self, spec: &SlowSpec, load: &str) -> Result<Beside, CellError> {
        let spec_path = self.dir.join(format!("{load}.slow.json"));
        let record = self.dir.join(format!("{load}.slow.record.json"));
        let text = serde_json::to_vec(spec).expect("slow clients are a tree of plain values");
        std::fs::write(&spec_path, text).map_err(|error| failed_file("write", &spec_path, &error))?;
        let argument = |path: &PathBuf| path.display().to_string();
        let (spec, record_to) = (argument(&spec_path), argument(&record));
        let weir = self.weir.path.display().to_string();
        let running = self.rig.launch(&ProcessSpec {
            name: NAME.into(),
            role: Role::Generator,
            binary: self.weir.clone(),
            config_sha256: None,
            command: vec![weir, "slow".into(), "--spec".into(), spec, "--record".into(), record_to],
            env: vec![],
            dir: self.dir.to_path_buf(),
            log: self.dir.join(format!("{load}.slow.log")),
            limits: limits_of(self.scenario, Role::Generator),
            is_urgent: false,
            cpus: None,
            ready: Ready::None,
            ready_timeout: Duration::ZERO,
            listens: vec![],
            namespace: self.generator.cloned(),
        })?;
        Ok(Beside { running, record })
    }
}

impl Beside {
    /// Ends them; their part, and what became of them.
    pub(crate) fn end(mut self) -> Result<(Part, SlowClients), CellError> {
        if let Some(failure) = self.running.failure() {
            return Err(failure.into());
        }
        let part = self.running.part();
        self.running.stop(STOP_GRACE);
        let text = std::fs::read(&self.record).map_err(|error| failed_file("read", &self.record, &error))?;
        let counts = serde_json::from_slice(&text).map_err(|error| {
            let message =
                format!("{}: cannot read the record of the slow clients: {error}", self.record.display());
            failed("generator", &message, "report this as a bug", "")
        })?;
        Ok((part, counts))
    }
}
