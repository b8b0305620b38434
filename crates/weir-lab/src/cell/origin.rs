//! Starts the upstream of a cell: weir's own origin, another server, or a service.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use weir_agent::{Served, Serving};
use weir_results::{Cell, Role};
use weir_rig::{
    Asked, CertificateFiles, Certificates, CounterSource, Credentials, Namespace, OriginBinding, ProcessSpec,
    Ready, Rendered, Running, SecureOrigin, status_of,
};

use super::Lab;
use super::error::{CellError, failed, file_failed};
use super::kept;
use super::network::{CellNetwork, CellSite, Listener};
use super::service::Services;
use crate::plan;
use crate::scenario::{ClientCertificate, Origin, Scenario};

/// Timeout until weir's own origin listens.
const ORIGIN_READY: Duration = Duration::from_secs(10);

/// The upstream while a cell runs.
pub(crate) struct Upstream {
    /// The processes of the upstream on this host.
    pub(crate) running: Vec<Running>,
    /// The servers of the upstream.
    pub(crate) replicas: Vec<Replica>,
    /// Request counter of each server.
    pub(crate) counters: Vec<CounterSource>,
    /// Reads the delays that the servers have added; `None` if they add none.
    pub(crate) delay: Option<Delays>,
    /// Credentials that clients of the upstream need; `None` if it requires none.
    pub(crate) credentials: Option<Credentials>,
    /// The server that an agent started on another host.
    pub(crate) served: Option<Served>,
    /// The bearer tokens that the upstream accepts. If `None`, the upstream checks no tokens, and the gateways check
    /// the tokens of the run.
    pub(crate) tokens: Option<Vec<String>>,
}

/// A server of the upstream.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    /// Name of the server. The names of its processes begin with it.
    pub(crate) name: String,
    /// Address to connect to.
    pub(crate) connect: SocketAddr,
    /// Network namespace of the server; `None` means the network of the host.
    pub(crate) namespace: Option<Namespace>,
}

impl Replica {
    pub(super) fn new(name: &str, listener: &Listener) -> Self {
        Self { name: name.to_owned(), connect: listener.connect, namespace: listener.namespace.clone() }
    }

    /// Changes the behaviour of weir's own origin with a request for `path`. Error messages describe the change as
    /// `what`.
    pub(crate) fn switch(&self, path: &str, what: &str, timeout: Duration) -> Result<(), CellError> {
        let asked = Asked { host: &self.name, path };
        let credentials = Credentials::default();
        let said = match status_of(&credentials, self.namespace.as_ref(), self.connect, asked, timeout) {
            Ok(200) => return Ok(()),
            Ok(status) => format!("HTTP status {status}"),
            Err(error) => error,
        };
        let message = format!("{}: cannot {what}: {said}", self.name);
        Err(failed("died", &message, &format!("see the log of {}", self.name), ""))
    }

    /// The counters of weir's own origin: its requests, and the delays that it adds.
    pub(super) fn statistics(
        &self,
        credentials: Option<&Credentials>,
        host: &str,
    ) -> (CounterSource, DelaySource) {
        let stats = |pointer| {
            let counters = CounterSource::json(self.connect, "/__weir/stats", pointer);
            let counters = counters.within(self.namespace.as_ref());
            credentials.into_iter().fold(counters, |counters, wanted| counters.secured(wanted, host))
        };
        let delay = DelaySource { count: stats("/delays/count"), mean_ns: stats("/delays/mean_ns") };
        (stats("/requests"), delay)
    }

    /// Whether the process `part` belongs to this server.
    pub(crate) fn has_part(&self, part: &str) -> bool {
        part.strip_prefix(&self.name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    }
}

/// A server of the upstream to start.
#[derive(Clone, Copy)]
pub(super) struct ReplicaSpec<'a> {
    pub(super) name: &'a str,
    pub(super) listener: &'a Listener,
}

/// Counters of the delays that origins have added since their start.
pub(crate) struct Delays(pub(super) Vec<DelaySource>);

/// The delay counters of one origin: how many delays it has added, and their mean.
pub(super) struct DelaySource {
    count: CounterSource,
    mean_ns: CounterSource,
}

impl Delays {
    /// Number of all delays, and their mean in nanoseconds; `None` if a counter cannot be read, or before the first
    /// delay.
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

    /// Mean of the delays of one load, nanoseconds. `before` is what [`Delays::read`] returned before the load.
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
    /// The upstream of a remote gateway. weir does not start such an upstream.
    pub(crate) fn unknown() -> Self {
        let (running, replicas, counters) = (Vec::new(), Vec::new(), Vec::new());
        Self { running, replicas, counters, delay: None, credentials: None, served: None, tokens: None }
    }

    /// The address of each server.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.replicas.iter().map(|replica| replica.connect).collect()
    }
}

impl Lab<'_> {
    /// Starts the upstream and waits until all servers are ready. In `direct` cells weir's own origin uses TLS if the
    /// gateways do.
    pub(crate) fn start_upstream(
        &self,
        site: CellSite<'_>,
        direct: bool,
        cell: &mut Cell,
        services: &mut Services,
    ) -> Result<Upstream, CellError> {
        let CellSite { dir, scenario, network } = site;
        if let Some(service) = scenario.origin.service.name() {
            return self.start_service_origin(site, service, cell, services);
        }
        match &scenario.origin.driver {
            None => {
                let certificates = (direct && scenario.topology.tls)
                    .then(|| Certificates::make(&dir.join("origin"), &scenario.topology.hosts()))
                    .transpose()?;
                self.start_own_origins(dir, scenario, certificates, network, cell)
            }
            Some(driver) => self.start_replicas(dir, scenario, driver, network, cell),
        }
    }

    /// Starts a service as the upstream, and creates the bearer tokens that it accepts.
    fn start_service_origin(
        &self,
        site: CellSite<'_>,
        name: &str,
        cell: &mut Cell,
        services: &mut Services,
    ) -> Result<Upstream, CellError> {
        let service = self.drivers.service(name)?;
        let started = self.start_service(site, service, Role::Origin, cell, services)?;
        let origin = started.origin.ok_or_else(|| {
            let message = format!("service `{name}` cannot serve as the upstream");
            failed("render", &message, "add `origin` to its service.yaml", "")
        })?;
        let namespace = services.namespaces.get(name).cloned();
        let tokens = match &origin.tokens {
            Some(tokens) if !tokens.accounts.is_empty() => {
                services.kube_client(&tokens.api, name, namespace.as_ref())?.tokens(tokens)?
            }
            _ => Vec::new(),
        };
        let shows_certificate = site.scenario.topology.client_certificate == ClientCertificate::Required;
        let credentials = Credentials { certificates: origin.certificates, shows_certificate, token: None };
        Ok(Upstream {
            running: started.running,
            replicas: vec![Replica { name: name.to_owned(), connect: origin.address, namespace }],
            counters: vec![origin.counters],
            delay: None,
            credentials: Some(credentials),
            served: None,
            tokens: Some(tokens),
        })
    }

    fn start_own_origins(
        &self,
        dir: &Path,
        scenario: &Scenario,
        certificates: Option<Certificates>,
        network: &CellNetwork<'_>,
        cell: &mut Cell,
    ) -> Result<Upstream, CellError> {
        let credentials = certificates
            .clone()
            .map(|made| Credentials { certificates: Some(made), ..Credentials::default() });
        let host = &scenario.topology.hosts()[0];
        let mut upstream = Upstream { credentials, ..Upstream::unknown() };
        let mut delays = Vec::new();
        for (place, name) in replica_names(scenario.origin.replica_count()).iter().enumerate() {
            let origin = self.origin_of(scenario, cell.key.repeat, place);
            let replica = match &scenario.origin.on {
                None => {
                    let listener = network.origin()?;
                    let process = self.own_origin(
                        dir,
                        scenario,
                        &origin,
                        certificates.as_ref(),
                        ReplicaSpec { name, listener: &listener },
                    );
                    let running = self.rig.launch(&process)?;
                    cell.parts.push(running.part());
                    upstream.running.push(running);
                    Replica::new(name, &listener)
                }
                Some(on) => {
                    let serving = serving(scenario, &origin, certificates.as_ref(), name)?;
                    let served = self.serve(scenario, on, serving, ORIGIN_READY)?;
                    cell.parts.push(served.part.clone());
                    let connect = served.address;
                    upstream.served = Some(served);
                    Replica { name: name.clone(), connect, namespace: None }
                }
            };
            let (counter, delay) = replica.statistics(upstream.credentials.as_ref(), host);
            delays.push(delay);
            upstream.counters.push(counter);
            upstream.replicas.push(replica);
        }
        let is_delayed = scenario.origin.is_timed() || scenario.is_control(&cell.key.gateway);
        upstream.delay = is_delayed.then_some(Delays(delays));
        Ok(upstream)
    }

    pub(super) fn own_origin(
        &self,
        dir: &Path,
        scenario: &Scenario,
        origin: &Origin,
        certificates: Option<&Certificates>,
        replica: ReplicaSpec<'_>,
    ) -> ProcessSpec {
        let ReplicaSpec { name, listener } = replica;
        let listen = listener.listen;
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
            input: None,
            limits: scenario.limits_of(Role::Origin),
            is_urgent: false,
            cpus: None,
            ready: Ready::Tcp(listen),
            ready_timeout: ORIGIN_READY,
            listens: vec![listen],
            namespace: listener.namespace.clone(),
        }
    }

    /// The settings of weir's own origin in repeat `repeat`, for the replica with the index `place`, from 0.
    ///
    /// In a capacity search, each repeat has its own seed. With the same service times in all repeats, all repeats
    /// would have the same error, and the confidence interval of the capacity would be too narrow. Each replica also
    /// has its own seed, so that replicas are not slow at the same time.
    pub(super) fn origin_of(&self, scenario: &Scenario, repeat: u32, place: usize) -> Origin {
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

    /// Starts the replicas of an upstream with the driver `name`. Each replica has its own folder, ports, workers and
    /// limits, like a pod.
    fn start_replicas(
        &self,
        dir: &Path,
        scenario: &Scenario,
        name: &str,
        network: &CellNetwork<'_>,
        cell: &mut Cell,
    ) -> Result<Upstream, CellError> {
        let mut upstream = Upstream::unknown();
        for replica in replica_names(scenario.origin.replica_count()) {
            let listener = network.origin()?;
            let spec = ReplicaSpec { name: &replica, listener: &listener };
            let rendered = self.render_replica(dir, scenario, name, spec, cell)?;
            let rendered = rendered.within(listener.namespace.as_ref());
            for process in &rendered.processes {
                let running = self.rig.launch(process)?;
                cell.parts.push(running.part());
                upstream.running.push(running);
            }
            upstream.replicas.push(Replica::new(&replica, &listener));
            upstream.counters.push(rendered.counters);
        }
        Ok(upstream)
    }

    /// Writes the files of one replica of an upstream with the driver `driver`.
    pub(super) fn render_replica(
        &self,
        dir: &Path,
        scenario: &Scenario,
        driver: &str,
        replica: ReplicaSpec<'_>,
        cell: &mut Cell,
    ) -> Result<Rendered, CellError> {
        let binary = self.origins.get(driver).ok_or_else(|| {
            failed("binary-missing", "the program of the origin was not located", "start a new run", "")
        })?;
        let binding = OriginBinding {
            listen: replica.listener.listen,
            admin: replica.listener.admin,
            workers: scenario.origin_workers(),
            limits: scenario.limits_of(Role::Origin),
            body_bytes: scenario.origin.body.0,
            binary: binary.clone(),
            name: replica.name.to_owned(),
        };
        let home = dir.join(replica.name);
        std::fs::create_dir_all(&home).map_err(|error| file_failed("create", &home, &error))?;
        let rendered = self.drivers.driver(driver)?.render_origin(&binding, &home)?;
        cell.files.extend(kept::configuration(dir, &rendered.files));
        Ok(rendered)
    }
}

/// The request to an agent to start weir's own origin.
fn serving(
    scenario: &Scenario,
    origin: &Origin,
    certificates: Option<&Certificates>,
    name: &str,
) -> Result<Serving, CellError> {
    let content =
        |path: &Path| std::fs::read_to_string(path).map_err(|error| file_failed("read", path, &error));
    let pair = |made: &Certificates| Ok::<_, CellError>([content(&made.server)?, content(&made.server_key)?]);
    let mut arguments = vec!["--workers".to_owned(), scenario.origin_workers().to_string()];
    arguments.extend(origin.arguments());
    let limits = scenario.limits_of(Role::Origin);
    Ok(Serving {
        part: name.to_owned(),
        arguments,
        certificate: certificates.map(pair).transpose()?,
        limit_cpus: limits.cpus,
        limit_memory_bytes: limits.memory_bytes,
    })
}

/// How gateways connect to the upstream of `scenario` over TLS; `None` unless the upstream is a service with
/// certificates.
pub fn secure_origin(scenario: &Scenario, certificates: Option<&Certificates>) -> Option<SecureOrigin> {
    scenario.origin.service.name()?;
    let made = certificates?;
    let client = CertificateFiles { certificate: made.client.clone(), key: made.client_key.clone() };
    let shows = scenario.topology.client_certificate == ClientCertificate::Required;
    Some(SecureOrigin { ca: made.ca.clone(), client: shows.then_some(client) })
}

/// Names of the upstream's servers: `origin`, or `origin-1`, `origin-2` and so on if there are several.
pub(super) fn replica_names(count: u32) -> Vec<String> {
    match count {
        1 => vec!["origin".into()],
        _ => (1..=count).map(|number| format!("origin-{number}")).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replicas_have_different_names() {
        assert_eq!(replica_names(1), ["origin"]);
        assert_eq!(replica_names(3), ["origin-1", "origin-2", "origin-3"]);
        let replica = |name: &str| Replica {
            name: name.into(),
            connect: SocketAddr::from(([127, 0, 0, 1], 1)),
            namespace: None,
        };
        let parts = ["origin-1", "origin-1-nginx", "origin-10", "origin", "generator"];
        assert_eq!(parts.map(|part| replica("origin-1").has_part(part)), [true, true, false, false, false]);
    }
}
