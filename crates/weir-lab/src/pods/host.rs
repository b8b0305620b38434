//! The interface between a run and the cluster in which its parts run.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use weir_results::{FaultAction, Part, PartImage, Role};
use weir_rig::prometheus::{Readings, Span};
use weir_rig::{AcceptedFile, DataService, Limits, PodBinding, Workload};

use super::AgentSize;

/// A cluster in which a run creates its pods and can measure gateways that already run there.
pub trait PodHost: fmt::Debug + Send + Sync {
    /// The address of the coordinator pod, where agents join.
    fn address(&self) -> IpAddr;

    /// Starts `count` pods, each with an agent that generates load. The agents join at `join` with `ticket`.
    ///
    /// # Errors
    /// [`PodError`] if the pods cannot be created.
    fn agents(
        &self,
        count: u32,
        size: AgentSize,
        join: SocketAddr,
        ticket: &str,
    ) -> Result<Box<dyn Carrier>, PodError>;

    /// Starts the pod of a gateway or upstream, with an agent in it that joins at `join`.
    ///
    /// # Errors
    /// [`PodError`] if the pod cannot be created.
    fn part(&self, part: &PartSpec<'_>, join: SocketAddr, ticket: &str)
    -> Result<Box<dyn Carrier>, PodError>;

    /// Starts a pod on the node `node`. Its agent sees all processes of the node, and samples those of `part`.
    ///
    /// # Errors
    /// [`PodError`] if the pod cannot be created.
    fn sampler(
        &self,
        part: &str,
        node: &str,
        join: SocketAddr,
        ticket: &str,
    ) -> Result<Box<dyn Carrier>, PodError>;

    /// Whether the user allows agents that see all processes of a node.
    fn has_samplers(&self) -> bool;

    /// Creates the Service of the upstream. Returns values of the cluster, which route templates can use.
    ///
    /// # Errors
    /// [`PodError`] if the Service cannot be created.
    fn binding(&self, port: u16) -> Result<PodBinding, PodError>;

    /// Applies the routes of a gateway that already runs in the cluster. With `accepted`, waits until the gateway has
    /// accepted them.
    ///
    /// # Errors
    /// [`PodError`] if the routes cannot be applied or are not accepted.
    fn put_routes(
        &self,
        gateway: &str,
        objects: &[Value],
        accepted: Option<&AcceptedFile>,
    ) -> Result<(), PodError>;

    /// Sets the limits of a workload of a gateway that already runs in the cluster, and replaces the pods of the
    /// workload. `part` is the name of the workload in the report.
    ///
    /// # Errors
    /// [`PodError`] if the workload cannot be changed, or its new pods do not become ready.
    fn restart(&self, part: &str, workload: &Workload, limits: Limits) -> Result<PlacedPods, PodError>;

    /// Waits until all pods of a workload run, and returns them.
    ///
    /// # Errors
    /// [`PodError`] if the pods do not become ready.
    fn await_pods(&self, part: &str, workload: &Workload) -> Result<PlacedPods, PodError>;

    /// Kills or evicts one pod of a workload, or starts a rollout. Does not wait for replacements.
    ///
    /// # Errors
    /// [`PodError`] if the permission is missing, or if a disruption budget forbids the eviction.
    fn disturb(&self, part: &str, workload: &Workload, action: FaultAction) -> Result<(), PodError>;

    /// The cluster address of the Service that leads to a gateway's data plane.
    ///
    /// # Errors
    /// [`PodError`] if the Service does not exist or has no address.
    fn service(&self, service: &DataService) -> Result<IpAddr, PodError>;

    /// Starts reading the usage of containers.
    ///
    /// # Errors
    /// [`PodError`] if the usage cannot be read, for example because the permission `get nodes/metrics` is missing.
    fn watch(&self, containers: &[WatchedContainer]) -> Result<Box<dyn PodUsage>, PodError>;

    /// Restores the original state of objects that the run has changed but did not create.
    ///
    /// # Errors
    /// [`PodError`] with the failed restorations.
    fn restore(&self) -> Result<(), PodError>;
}

/// The pods of a workload that weir did not create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlacedPods {
    /// The pods.
    pub pods: Vec<PlacedPod>,
    /// The image of the measured container.
    pub image: Option<PartImage>,
    /// The limits of the measured container.
    pub limits: Limits,
    /// Whether `limits` are the limits of the scenario.
    pub limits_applied: bool,
    /// What weir could not do because it lacks a permission, as sentences.
    pub notes: Vec<String>,
}

/// A pod that weir did not create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPod {
    /// Name of the pod.
    pub name: String,
    /// Address of the pod.
    pub address: IpAddr,
    /// Address of the pod's node.
    pub node_address: IpAddr,
    /// Name of the pod's node.
    pub node: String,
    /// The runtime's ID of the measured container.
    pub container_id: String,
}

/// A container whose usage weir reads from the kubelet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedContainer {
    /// Name of the part to which the container belongs.
    pub part: String,
    /// Address of the node where the container runs.
    pub node: IpAddr,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub pod: String,
    /// Name of the container in the pod.
    pub container: String,
}

/// A reader of the usage of containers. It stops when it is dropped.
pub trait PodUsage: fmt::Debug {
    /// The usage of the containers of `part` in the phase `span`, and a sentence about the source of the values.
    fn observe(
        &self,
        part: &str,
        span: &Span,
        limit_cpus: Option<f64>,
        stop: &AtomicBool,
    ) -> (Option<Box<Readings>>, String);
}

/// A gateway or upstream that runs in a pod.
#[derive(Clone, Debug)]
pub struct PartSpec<'a> {
    /// Name of the part in the report.
    pub name: &'a str,
    /// Role of the part.
    pub role: Role,
    /// Container image; `None` means weir's own image.
    pub image: Option<&'a str>,
    /// Program and arguments.
    pub command: &'a [String],
    /// Additional environment variables.
    pub env: &'a [(String, String)],
    /// Resource limits of the container.
    pub limits: Limits,
    /// The folders with the files of the part.
    pub folders: Vec<&'a Path>,
    /// A folder that contains all `folders`.
    pub root: &'a Path,
}

/// Owns pods: dropping it deletes them.
pub trait Carrier: fmt::Debug {
    /// Why a pod failed, if known. Sends no request, so it can be called often.
    fn failure(&self) -> Option<PodError>;

    /// As [`Carrier::failure`], but waits at most `patience` until a reason is known. The wait is needed because an
    /// agent's connection is lost before Kubernetes reports why the pod ended.
    fn reason(&self, patience: Duration) -> Option<PodError>;

    /// The address of the only pod; `None` until it runs.
    fn address(&self) -> Option<IpAddr>;

    /// The image of a container, for the report.
    fn image(&self, container: &str) -> Option<PartImage>;
}

/// Why a pod does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PodError {
    /// The failure cause as one word, like `kubelet`.
    pub cause: String,
    /// The pod, and the message of Kubernetes.
    pub message: String,
    /// What the user can do about the error.
    pub remedy: String,
    /// The last lines of the container's log; empty if there is none.
    pub log_tail: String,
    /// Name of the part whose container exited; `None` if an agent or the pod as a whole failed.
    pub part: Option<String>,
}

impl PodError {
    /// An error of the pods as a whole.
    pub fn new(cause: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Self { cause: cause.into(), message, remedy, log_tail: String::new(), part: None }
    }
}

/// The digest of an image: the text after `@` in the ID that Kubernetes reports, like `nginx@sha256:..`.
#[cfg(feature = "kubernetes")]
pub(super) fn digest_of(image_id: &str) -> String {
    image_id.rsplit_once('@').map_or(image_id, |(_, digest)| digest).to_owned()
}

/// Describes a part that weir runs in a pod, for the results of a cell.
pub(crate) fn part_of(spec: &PartSpec<'_>, config_sha256: Option<String>, carrier: &dyn Carrier) -> Part {
    let image = carrier.image(spec.name);
    let id = image.as_ref().map(|image| image.id.clone()).unwrap_or_default();
    let named = image.as_ref().map(|image| image.name.clone()).unwrap_or_default();
    let version = match spec.image {
        None => env!("CARGO_PKG_VERSION").to_owned(),
        Some(_) => named.rsplit_once(':').map_or(named.clone(), |(_, tag)| tag.to_owned()),
    };
    Part {
        name: spec.name.to_owned(),
        role: spec.role,
        version,
        binary: spec.command.first().cloned().unwrap_or_default(),
        binary_sha256: id.trim_start_matches("sha256:").to_owned(),
        config_sha256,
        command: spec.command.to_vec(),
        limit_cpus: spec.limits.cpus,
        limit_memory_bytes: spec.limits.memory_bytes,
        limits_applied: true,
        limited_by: "kubernetes".into(),
        image,
    }
}

/// Describes a workload that already runs in the cluster, for the results of a cell.
pub(crate) fn part_of_workload(name: &str, role: Role, workload: &Workload, placed: &PlacedPods) -> Part {
    let image = placed.image.clone();
    let named = image.as_ref().map(|image| image.name.clone()).unwrap_or_default();
    let count = placed.pods.len() as f64;
    Part {
        name: name.to_owned(),
        role,
        version: named.rsplit_once(':').map_or(named.clone(), |(_, tag)| tag.to_owned()),
        binary: format!("{} {}/{}", workload.kind.name(), workload.namespace, workload.name),
        binary_sha256: image.as_ref().map(|of| of.id.replace("sha256:", "")).unwrap_or_default(),
        config_sha256: None,
        command: Vec::new(),
        // The usage of a workload is the sum over its pods, so its limit is the sum of their limits.
        limit_cpus: placed.limits.cpus.map(|cpus| cpus * count),
        limit_memory_bytes: placed.limits.memory_bytes.map(|bytes| bytes * placed.pods.len() as u64),
        limits_applied: placed.limits_applied,
        limited_by: "kubernetes".into(),
        image,
    }
}
