//! The upstream of a cell: weir's own origin or another server, in replicas.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use weir_results::{Cell, Role};
use weir_rig::{
    Certificates, CounterSource, Credentials, Namespace, OriginBinding, ProcessSpec, Ready, Running,
};

use super::Lab;
use super::error::{CellError, failed, failed_file};
use super::kept;
use super::wiring::{Seat, Wiring};
use crate::plan;
use crate::scenario::{Origin, Scenario};

/// How long weir's own origin may take to listen.
const ORIGIN_READY: Duration = Duration::from_secs(10);

/// The upstream while a cell runs.
pub(crate) struct Upstream {
    /// Its processes.
    pub(crate) running: Vec<Running>,
    /// Its servers.
    pub(crate) replicas: Vec<Replica>,
    /// How many requests each of them received.
    pub(crate) counters: Vec<CounterSource>,
    /// The delays that it gave; absent where it was told to give none.
    pub(crate) delay: Option<Delays>,
    /// What it wants of who asks it; nothing behind a gateway.
    pub(crate) credentials: Option<Credentials>,
}

/// A server of the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    /// Its name, with which those of its processes begin.
    pub(crate) name: String,
    /// Where it is asked.
    pub(crate) asked: SocketAddr,
    /// The network that it is in; `None` is the host's.
    pub(crate) namespace: Option<Namespace>,
}

impl Replica {
    fn new(name: &str, seat: &Seat) -> Self {
        Self { name: name.to_owned(), asked: seat.asked, namespace: seat.namespace.clone() }
    }

    /// Whether a process of that name is one of its.
    pub(crate) fn has_part(&self, part: &str) -> bool {
        part.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// What origins say of the delays that they have given since their start.
pub(crate) struct Delays(Vec<DelaySource>);

/// The same of one of them.
struct DelaySource {
    count: CounterSource,
    mean_ns: CounterSource,
}

impl Delays {
    /// Their number and their mean, nanoseconds; nothing before the first one of each.
    pub(crate) fn read(&self) -> Option<(u64, u64)> {
        let read = |source: &CounterSource| source.read().ok().flatten();
        let (mut count, mut sum_ns) = (0_u64, 0_u128);
        for source in &self.0 {
            let (given, mean_ns) = (read(&source.count)?, read(&source.mean_ns)?);
            count += given;
            sum_ns += u128::from(given) * u128::from(mean_ns);
        }
        let mean_ns = sum_ns.checked_div(u128::from(count))?;
        Some((count, u64::try_from(mean_ns).ok()?))
    }

    /// The mean of those that were given since `before`: a load is not judged by what another one met.
    pub(crate) fn mean_ns_since(&self, before: Option<(u64, u64)>) -> Option<u64> {
        let (count, mean_ns) = self.read()?;
        let (earlier, earlier_mean_ns) = before.unwrap_or((0, 0));
        let sum = |count: u64, mean_ns: u64| u128::from(count) * u128::from(mean_ns);
        let sum_ns = sum(count, mean_ns).checked_sub(sum(earlier, earlier_mean_ns))?;
        let mean_ns = sum_ns.checked_div(u128::from(count.checked_sub(earlier)?))?;
        u64::try_from(mean_ns).ok()
    }
}

impl Upstream {
    /// The upstream of a gateway that runs elsewhere: nobody here knows it.
    pub(crate) fn unknown() -> Self {
        let (running, replicas, counters) = (Vec::new(), Vec::new(), Vec::new());
        Self { running, replicas, counters, delay: None, credentials: None }
    }

    /// Where each of its servers is asked.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(|replica| replica.asked).collect()
    }
}

impl Lab<'_> {
    /// Starts the upstream and waits until all of it is ready. Where it is asked by clients, in `direct` cells, weir's own
    /// speaks TLS as the gateways do.
    pub(crate) fn start_upstream(
        &self,
        dir: &Path,
        scenario: &Scenario,
        direct: bool,
        wiring: &Wiring<'_>,
        cell: &mut Cell,
    ) -> Result<Upstream, CellError> {
        match &scenario.origin.driver {
            None => {
                let certificates = (direct && scenario.topology.tls)
                    .then(|| Certificates::make(&dir.join("origin"), &scenario.topology.hosts()))
                    .transpose()?;
                self.start_own_origins(dir, scenario, certificates, wiring, cell)
            }
            Some(driver) => self.start_replicas(dir, scenario, driver, wiring, cell),
        }
    }

    fn start_own_origins(
        &self,
        dir: &Path,
        scenario: &Scenario,
        certificates: Option<Certificates>,
        wiring: &Wiring<'_>,
        cell: &mut Cell,
    ) -> Result<Upstream, CellError> {
        let credentials = certificates
            .clone()
            .map(|made| Credentials { certificates: Some(made), ..Credentials::default() });
        let host = &scenario.topology.hosts()[0];
        let mut upstream = Upstream { credentials, ..Upstream::unknown() };
        let mut delays = Vec::new();
        for (place, name) in replica_names(scenario.origin.replica_count()).iter().enumerate() {
            let seat = wiring.origin()?;
            let origin = self.origin_of(scenario, cell.key.repeat, place);
            let process = self.own_origin(dir, scenario, &origin, certificates.as_ref(), (name, &seat));
            let running = self.rig.launch(&process)?;
            cell.parts.push(running.part());
            let stats = |pointer| {
                let counters = CounterSource::json(seat.asked, "/__weir/stats", pointer);
                let counters = counters.within(seat.namespace.as_ref());
                upstream.credentials.iter().fold(counters, |counters, wanted| counters.secured(wanted, host))
            };
            let counter = stats("/requests");
            delays.push(DelaySource { count: stats("/delays/count"), mean_ns: stats("/delays/mean_ns") });
            upstream.counters.push(counter);
            upstream.running.push(running);
            upstream.replicas.push(Replica::new(name, &seat));
        }
        upstream.delay = scenario.origin.is_timed().then_some(Delays(delays));
        Ok(upstream)
    }

    fn own_origin(
        &self,
        dir: &Path,
        scenario: &Scenario,
        origin: &Origin,
        certificates: Option<&Certificates>,
        (name, seat): (&str, &Seat),
    ) -> ProcessSpec {
        let listen = seat.listen;
        let mut command = vec![self.weir.path.display().to_string(), "origin".into()];
        command.extend(["--listen".into(), listen.to_string()]);
        command.extend(["--workers".into(), scenario.origin_workers().to_string()]);
        command.extend(origin.arguments());
        if let Some(made) = certificates {
            command.extend(["--cert".into(), made.server.display().to_string()]);
            command.extend(["--key".into(), made.server_key.display().to_string()]);
        }
        ProcessSpec {
            name: name.into(),
            role: Role::Origin,
            binary: self.weir.clone(),
            config_sha256: None,
            command,
            env: vec![],
            dir: dir.to_path_buf(),
            log: dir.join(format!("{name}.log")),
            limits: scenario.limits_of(Role::Origin),
            is_urgent: false,
            cpus: None,
            ready: Ready::Tcp(listen),
            ready_timeout: ORIGIN_READY,
            listens: vec![listen],
            namespace: seat.namespace.clone(),
        }
    }

    /// The origin of a cell, the one at `place` among its replicas. Searches of several repeats that met the same service
    /// times would err alike, and their interval would promise too much; so each repeat has a seed of its own where the
    /// scenario gives none. Replicas in step would stall and be slow together, so each has a seed of its own, too.
    fn origin_of(&self, scenario: &Scenario, repeat: u32, place: usize) -> Origin {
        let mut origin = scenario.origin.clone();
        let searches = scenario.loads.iter().any(|(_, load)| load.search.is_some());
        if searches && origin.is_timed() {
            origin.seed = origin.seed.or(Some(plan::numbered_seed(self.run.seed, repeat)));
        }
        if place > 0 && origin.is_timed() {
            origin.seed = Some(plan::numbered_seed(origin.seed.unwrap_or(1), place as u32));
        }
        origin
    }

    /// Each replica has its own folder, ports, workers and limits, as a pod of its own would.
    fn start_replicas(
        &self,
        dir: &Path,
        scenario: &Scenario,
        name: &str,
        wiring: &Wiring<'_>,
        cell: &mut Cell,
    ) -> Result<Upstream, CellError> {
        let driver = self.drivers.driver(name)?;
        let binary = self.origins.get(name).ok_or_else(|| {
            failed("binary-missing", "the program of the origin was not located", "start a new run", "")
        })?;
        let mut upstream = Upstream::unknown();
        for name in replica_names(scenario.origin.replica_count()) {
            let seat = wiring.origin()?;
            let binding = OriginBinding {
                listen: seat.listen,
                admin: seat.admin,
                workers: scenario.origin_workers(),
                limits: scenario.limits_of(Role::Origin),
                body_bytes: scenario.origin.body.0,
                binary: binary.clone(),
                name,
            };
            let home = dir.join(&binding.name);
            std::fs::create_dir_all(&home).map_err(|error| failed_file("make", &home, &error))?;
            let rendered = driver.render_origin(&binding, &home)?.within(seat.namespace.as_ref());
            cell.files.extend(kept::configuration(dir, &rendered.files));
            for process in &rendered.processes {
                let running = self.rig.launch(process)?;
                cell.parts.push(running.part());
                upstream.running.push(running);
            }
            upstream.replicas.push(Replica::new(&binding.name, &seat));
            upstream.counters.push(rendered.counters);
        }
        Ok(upstream)
    }
}

/// `origin`, or `origin-1` and on where there are several.
fn replica_names(count: u32) -> Vec<String> {
    match count {
        1 => vec!["origin".into()],
        _ => (1..=count).map(|number| format!("origin-{number}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_replicas_are_told_apart() {
        assert_eq!(replica_names(1), ["origin"]);
        assert_eq!(replica_names(3), ["origin-1", "origin-2", "origin-3"]);
        let replica = |name: &str| Replica {
            name: name.into(),
            asked: SocketAddr::from(([127, 0, 0, 1], 1)),
            namespace: None,
        };
        let parts = ["origin-1", "origin-1-nginx", "origin-10", "origin", "generator"];
        assert_eq!(parts.map(|part| replica("origin-1").has_part(part)), [true, true, false, false, false]);
    }
}
