//! Creates and watches the pods of a run through the Kubernetes API.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use weir_kube::{Cluster, KubeError, Object, PodFailure, PodState, Selected, pod_state};
use weir_results::{FaultAction, PartImage};
use weir_rig::{AcceptedFile, DataService, Limits, PodBinding, Workload};

use super::host::digest_of;
use super::kubelet::KubeletWatch;
use super::site::{PART_LABEL, label};
use super::{
    AgentSize, Carrier, ClusterGateways, FileSet, JobSpec, Mounted, PartSpec, PlacedPods, PodError, PodHost,
    PodSpec, PodUsage, Site, WatchedContainer, chunked,
};

/// Interval at which the pods of a part are checked.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How long requests are retried while the API does not respond or is overloaded. Also the maximum wait for a kind that
/// the API does not serve yet.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long a pod may be unschedulable before weir gives up. weir waits because an autoscaler can add a node.
const START_MAX: Duration = Duration::from_secs(60);

/// How long a container may fail to start before weir gives up. weir waits because Kubernetes retries, for example an
/// image pull.
const CONTAINER_MAX: Duration = Duration::from_secs(30);

/// How long weir waits until deleted pods have ended.
const END_MAX: Duration = Duration::from_secs(60);

/// Maximum lifetime of agents, seconds.
const AGENTS_MAX_S: u64 = 24 * 3600;

/// Number of log lines of a container that an error contains.
const LOG_LINES: u32 = 20;

/// The cluster where the coordinator creates the pods of its run.
#[derive(Debug)]
pub struct Pods {
    cluster: Arc<Cluster>,
    site: Site,
    address: IpAddr,
    /// Name and version of Kubernetes, as the report shows them.
    engine: String,
    /// Number for the next object, which makes its name unique.
    made: AtomicU32,
    gateways: ClusterGateways,
}

impl Pods {
    /// Connects to the cluster for the run that `site` describes. Agents join at `address`.
    ///
    /// # Errors
    /// [`PodError`] if the cluster does not respond.
    pub fn new(cluster: Cluster, site: Site, address: IpAddr) -> Result<Self, PodError> {
        let cluster = Arc::new(cluster.patient(PATIENCE));
        let version = cluster.version().map_err(|error| refused(&error))?;
        let gateways = ClusterGateways::new(Arc::clone(&cluster), site.clone());
        let engine = format!("Kubernetes {version}");
        Ok(Self { cluster, site, address, engine, made: AtomicU32::new(1), gateways })
    }

    /// The connection to the Kubernetes API.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The namespace and names of the run's objects.
    pub fn site(&self) -> &Site {
        &self.site
    }

    fn unique(&self, name: &str) -> String {
        format!("{name}-{}", self.made.fetch_add(1, Ordering::Relaxed))
    }

    /// Applies `manifests`. The last one creates the pods of `name`. Returns a handle that watches these pods. When the
    /// handle is dropped, it deletes the objects of all `manifests`.
    fn carry(
        &self,
        name: &str,
        part: Option<&str>,
        manifests: Vec<Value>,
    ) -> Result<Box<dyn Carrier>, PodError> {
        let objects: Vec<Object> = manifests.iter().rev().filter_map(Object::of).collect();
        let carrier = Kept {
            cluster: Arc::clone(&self.cluster),
            objects,
            selected: Selected::new(
                "v1",
                "Pod",
                &self.site.namespace,
                &format!("{},{PART_LABEL}={name}", self.site.selector()),
            ),
            state: Arc::default(),
            stop: Arc::default(),
            thread: None,
            engine: self.engine.clone(),
        };
        // From here on, dropping `carrier` deletes the objects, even if only some of them are applied.
        self.cluster.apply(&manifests, PATIENCE).map_err(|error| refused(&error))?;
        Ok(Box::new(carrier.watched(part, name)))
    }
}

impl PodHost for Pods {
    fn address(&self) -> IpAddr {
        self.address
    }

    fn agents(
        &self,
        count: u32,
        size: AgentSize,
        join: SocketAddr,
        ticket: &str,
    ) -> Result<Box<dyn Carrier>, PodError> {
        let name = self.unique("agents");
        let data = format!("{name}-ticket");
        let spec =
            JobSpec { name: &name, agents: count, size, join, ticket: &data, deadline_s: AGENTS_MAX_S };
        let mut manifests = chunked(&self.site, &data, ticket.as_bytes());
        manifests.push(self.site.job(&spec));
        self.carry(&name, None, manifests)
    }

    fn part(
        &self,
        part: &PartSpec<'_>,
        join: SocketAddr,
        ticket: &str,
    ) -> Result<Box<dyn Carrier>, PodError> {
        let container = label(part.name);
        let name = self.unique(&container);
        let (ticket_data, files_data) = (format!("{name}-ticket"), format!("{name}-files"));
        let mut files = FileSet::default();
        for folder in part.folders.iter().filter(|folder| folder.is_dir()) {
            files.add(folder).map_err(|error| {
                PodError::new("render", format!("{}: {error}", folder.display()), "report this as a bug")
            })?;
        }
        let mut manifests = chunked(&self.site, &ticket_data, ticket.as_bytes());
        let mut mounted = None;
        if !files.is_empty() {
            let secrets = chunked(&self.site, &files_data, &files.packed());
            mounted = Some(Mounted { data: &files_data, chunks: secrets.len(), root: part.root });
            manifests.extend(secrets);
        }
        let spec = PodSpec {
            name: &name,
            part: &container,
            role: part.role,
            image: part.image.unwrap_or(&self.site.image),
            command: part.command,
            env: part.env,
            limits: part.limits,
            files: mounted,
            join,
            ticket: &ticket_data,
        };
        manifests.push(self.site.deployment(&spec));
        self.carry(&name, Some(&container), manifests)
    }

    fn sampler(
        &self,
        part: &str,
        node: &str,
        join: SocketAddr,
        ticket: &str,
    ) -> Result<Box<dyn Carrier>, PodError> {
        let name = self.unique(&label(&format!("sampler-{part}")));
        let data = format!("{name}-ticket");
        let mut manifests = chunked(&self.site, &data, ticket.as_bytes());
        manifests.push(self.site.sampler(&name, node, join, &data));
        self.carry(&name, None, manifests)
    }

    fn has_samplers(&self) -> bool {
        self.site.has_samplers
    }

    fn binding(&self, port: u16) -> Result<PodBinding, PodError> {
        let service = self.site.upstream(port);
        let name = self.site.name("upstream");
        self.cluster.apply(&[service], PATIENCE).map_err(|error| refused(&error))?;
        let Site { namespace, run, .. } = self.site.clone();
        Ok(PodBinding { namespace, run, service: name, port, ..PodBinding::default() })
    }

    fn put_routes(
        &self,
        gateway: &str,
        objects: &[Value],
        accepted: Option<&AcceptedFile>,
    ) -> Result<(), PodError> {
        self.gateways.put_routes(gateway, objects, accepted)
    }

    fn restart(&self, part: &str, workload: &Workload, limits: Limits) -> Result<PlacedPods, PodError> {
        self.gateways.restart(part, workload, limits)
    }

    fn await_pods(&self, part: &str, workload: &Workload) -> Result<PlacedPods, PodError> {
        self.gateways.await_pods(part, workload)
    }

    fn disturb(&self, part: &str, workload: &Workload, action: FaultAction) -> Result<(), PodError> {
        self.gateways.disturb(part, workload, action)
    }

    fn service(&self, service: &DataService) -> Result<IpAddr, PodError> {
        self.gateways.service(service)
    }

    fn watch(&self, containers: &[WatchedContainer]) -> Result<Box<dyn PodUsage>, PodError> {
        Ok(Box::new(KubeletWatch::start(&self.cluster, containers)?))
    }

    fn restore(&self) -> Result<(), PodError> {
        self.gateways.restore()
    }
}

/// What the watch thread has found out about the pods.
#[derive(Debug, Default)]
struct Known {
    failure: Option<PodError>,
    address: Option<IpAddr>,
    /// Name and ID of each container's image, by name of the container.
    images: BTreeMap<String, [String; 2]>,
}

/// Pods and their objects. They are deleted when this struct is dropped.
struct Kept {
    cluster: Arc<Cluster>,
    /// The Job or Deployment of the pods, and the objects that the pods use, in order of deletion.
    objects: Vec<Object>,
    selected: Selected,
    state: Arc<Mutex<Known>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    engine: String,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("selected", &self.selected.labels).finish_non_exhaustive()
    }
}

impl Kept {
    /// Starts the thread that watches the pods.
    fn watched(mut self, part: Option<&str>, name: &str) -> Self {
        let watch = Watch {
            cluster: Arc::clone(&self.cluster),
            selected: self.selected.clone(),
            maker: self.objects.first().cloned(),
            state: Arc::clone(&self.state),
            part: part.map(str::to_owned),
            name: name.to_owned(),
            since: Instant::now(),
            has_started: false,
            seen: BTreeMap::new(),
        };
        let stop = Arc::clone(&self.stop);
        let thread = thread::Builder::new().name("pods".into()).spawn(move || watch.run(&stop));
        self.thread = thread.ok();
        self
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Carrier for Kept {
    fn failure(&self) -> Option<PodError> {
        self.known().failure.clone()
    }

    fn reason(&self, patience: Duration) -> Option<PodError> {
        let deadline = Instant::now() + patience;
        loop {
            let failure = self.failure();
            if failure.is_some() || Instant::now() >= deadline {
                return failure;
            }
            thread::sleep(LOOK_EVERY / 10);
        }
    }

    fn address(&self) -> Option<IpAddr> {
        self.known().address
    }

    fn image(&self, container: &str) -> Option<PartImage> {
        let [name, id] = self.known().images.get(&label(container)).cloned()?;
        let id = digest_of(&id);
        Some(PartImage { name, id, digest: None, engine: self.engine.clone() })
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for object in &self.objects {
            // If this fails, the object is deleted at the end of the run.
            let _ = self.cluster.remove(object, Duration::ZERO);
        }
        // Waits until the pods are gone: a terminating pod would use CPU time in the next cell.
        let deadline = Instant::now() + END_MAX;
        while Instant::now() < deadline
            && self.cluster.list(&self.selected).is_ok_and(|pods| !pods.is_empty())
        {
            thread::sleep(LOOK_EVERY / 2);
        }
    }
}

/// Watches pods on a separate thread, so that a slow API server does not delay a load.
struct Watch {
    cluster: Arc<Cluster>,
    selected: Selected,
    /// The Job or Deployment that creates the pods.
    maker: Option<Object>,
    state: Arc<Mutex<Known>>,
    part: Option<String>,
    name: String,
    since: Instant,
    /// Whether all pods have started.
    has_started: bool,
    /// All pods seen so far, by name. The value is the time when weir first saw that the pod cannot start; `None` if
    /// the pod can start.
    seen: BTreeMap<String, Option<Instant>>,
}

impl Watch {
    fn run(mut self, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            // An unreachable API server is not a failure of the pods: they can still run.
            if let Ok(pods) = self.cluster.list_once(&self.selected)
                && let Some(failure) = self.look(&pods)
            {
                self.state.lock().unwrap_or_else(PoisonError::into_inner).failure = Some(failure);
                return;
            }
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Checks the pods; returns why one of them is gone or cannot start.
    fn look(&mut self, pods: &[Value]) -> Option<PodError> {
        let name_of = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let names: Vec<String> = pods.iter().map(name_of).collect();
        if let Some(gone) = self.seen.keys().find(|seen| !names.contains(seen)) {
            let namespace = self.selected.namespace.as_deref().unwrap_or_default();
            let remedy = format!("see the events of the namespace: kubectl get events -n {namespace}");
            return Some(PodError::new("pod", format!("pod {gone} was deleted"), remedy));
        }
        if pods.is_empty() && self.since.elapsed() > Duration::from_secs(5) {
            // The Job or Deployment reports why it creates no pods, for example because of a quota or an admission
            // controller.
            if let Some(why) = self.not_made() {
                let remedy = "raise the quota, change the policy that rejects the pod, or use another namespace (--namespace)";
                return Some(PodError::new(
                    "pod",
                    format!("cannot create pods of {}: {why}", self.name),
                    remedy,
                ));
            }
        }
        for pod in pods {
            let name = name_of(pod);
            let waits = self.seen.entry(name.clone()).or_default();
            match pod_state(pod) {
                PodState::Running(address) => {
                    *waits = None;
                    let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.address = Some(address);
                    for status in pod["status"]["containerStatuses"].as_array().into_iter().flatten() {
                        let text = |key: &str| status[key].as_str().unwrap_or_default().to_owned();
                        let declared = pod["spec"]["containers"].as_array().into_iter().flatten();
                        let image = declared.into_iter().find(|of| of["name"] == status["name"]);
                        let image = image.and_then(|of| of["image"].as_str()).unwrap_or_default().to_owned();
                        state.images.insert(text("name"), [image, text("imageID")]);
                    }
                }
                PodState::Waiting(_) | PodState::Succeeded => *waits = None,
                PodState::Failed(failure) if failure.may_start && !self.has_started => {
                    let since = *waits.get_or_insert_with(Instant::now);
                    let most = if failure.container.is_some() { CONTAINER_MAX } else { START_MAX };
                    if since.elapsed() > most {
                        return Some(self.failed(&name, &failure));
                    }
                }
                PodState::Failed(failure) => return Some(self.failed(&name, &failure)),
            }
        }
        None
    }

    fn failed(&self, pod: &str, failure: &PodFailure) -> PodError {
        let container = failure.container.as_deref();
        let part = container.filter(|container| self.part.as_deref() == Some(container));
        let namespace = self.selected.namespace.clone().unwrap_or_default();
        let log = |container: &str| {
            let log = |previous| self.cluster.log_once(&namespace, pod, container, previous, LOG_LINES);
            log(true).or_else(|_| log(false)).unwrap_or_default()
        };
        let describe = format!("see the events of the pod: kubectl describe pod {pod} -n {namespace}");
        let (cause, remedy) = match failure.reason.as_str() {
            reason if reason.starts_with("OOMKilled") && part.is_some() => {
                ("out-of-memory", "raise the memory limit of the pod (`limits` of the scenario)")
            }
            reason if reason.starts_with("OOMKilled") => {
                ("out-of-memory", "give agents more memory: --set limits.generator.memory=1GiB")
            }
            "Unschedulable" => ("pod", "add a node, or lower `limits` of the scenario"),
            reason if reason.contains("Image") => ("pod", "push the image, or name another one with --image"),
            "Evicted" => ("pod", "free memory or disk on the node, or use a larger node"),
            _ if part.is_some() => ("died", "see the log of the container"),
            _ => ("pod", describe.as_str()),
        };
        let log_tail = container.filter(|_| !failure.may_start).map(log).unwrap_or_default();
        PodError {
            cause: cause.into(),
            message: format!("pod {pod}: {failure}"),
            remedy: remedy.into(),
            log_tail,
            part: part.map(str::to_owned),
        }
    }

    /// Why the Job or Deployment creates no pod; `None` if it reports no reason.
    fn not_made(&self) -> Option<String> {
        let namespace = self.selected.namespace.clone()?;
        let maker = self.maker.as_ref()?;
        if let Ok(Some(object)) = self.cluster.get_once(maker) {
            let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let failed = |of: &&Value| {
                matches!(of["type"].as_str(), Some("ReplicaFailure" | "Failed")) && of["status"] == "True"
            };
            if let Some(message) = conditions.iter().find(failed).and_then(|of| of["message"].as_str()) {
                return Some(message.to_owned());
            }
        }
        let events = self.cluster.list_once(&Selected::new("v1", "Event", &namespace, "")).ok()?;
        let is_about = |event: &&Value| {
            event["reason"] == "FailedCreate"
                && event["involvedObject"]["name"].as_str().is_some_and(|name| name.starts_with(&maker.name))
        };
        events.iter().rev().find(is_about).and_then(|event| event["message"].as_str()).map(str::to_owned)
    }
}

/// The remedy if a quota or policy rejects an object.
const POLICY: &str =
    "change the quota or policy that the message names, or use another namespace (--namespace)";

/// The error for a rejected request to the API.
pub(super) fn refused(error: &KubeError) -> PodError {
    let remedy = match error.is_forbidden() {
        _ if error.is_against_policy() => POLICY,
        true => {
            "grant the permission in the message; `weir k8s render SCENARIO` prints the Role that a run needs"
        }
        false => "correct the cause that the message names, and retry",
    };
    PodError::new("kubernetes", error.to_string(), remedy)
}
