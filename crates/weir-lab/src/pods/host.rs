//! The interface between the lab and its cluster.

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

/// A cluster that runs the pods of a run.
pub trait PodHost: fmt::Debug + Send + Sync {
    /// The address of this pod, where agents join.
    fn address(&self) -> IpAddr;

    /// Starts the pods of agents, which join at `join` with `ticket`.
    ///
    /// # Errors
    /// [`PodError`].
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
    /// [`PodError`].
    fn part(&self, part: &PartSpec<'_>, join: SocketAddr, ticket: &str)
    -> Result<Box<dyn Carrier>, PodError>;

    /// Starts an agent on a node, which sees the processes of the node and samples those of `part`.
    ///
    /// # Errors
    /// [`PodError`].
    fn sampler(
        &self,
        part: &str,
        node: &str,
        join: SocketAddr,
        ticket: &str,
    ) -> Result<Box<dyn Carrier>, PodError>;

    /// Whether the user allows agents on nodes.
    fn has_samplers(&self) -> bool;

    /// Creates the Service of the upstream; returns the cluster's values for templates of routes.
    ///
    /// # Errors
    /// [`PodError`].
    fn binding(&self, port: u16) -> Result<PodBinding, PodError>;

    /// Applies the routes of a gateway that runs in the cluster, and waits until they are accepted.
    ///
    /// # Errors
    /// [`PodError`].
    fn put_routes(
        &self,
        gateway: &str,
        objects: &[Value],
        accepted: Option<&AcceptedFile>,
    ) -> Result<(), PodError>;

    /// Sets the limits of a workload of such a gateway, and replaces its pods.
    ///
    /// # Errors
    /// [`PodError`].
    fn restart(&self, part: &str, workload: &Workload, limits: Limits) -> Result<PlacedPods, PodError>;

    /// Waits until a workload of such a gateway has all its pods.
    ///
    /// # Errors
    /// [`PodError`].
    fn await_pods(&self, part: &str, workload: &Workload) -> Result<PlacedPods, PodError>;

    /// Kills or evicts one pod of such a workload, or starts a rollout; does not wait for replacements.
    ///
    /// # Errors
    /// [`PodError`] without the permission, or if a disruption budget does not allow it.
    fn disturb(&self, part: &str, workload: &Workload, action: FaultAction) -> Result<(), PodError>;

    /// The address of the Service of a data plane.
    ///
    /// # Errors
    /// [`PodError`] if there is none, or it has no address.
    fn service(&self, service: &DataService) -> Result<IpAddr, PodError>;

    /// Starts reading the usage of containers.
    ///
    /// # Errors
    /// [`PodError`] without the permission.
    fn watch(&self, containers: &[WatchedContainer]) -> Result<Box<dyn PodUsage>, PodError>;

    /// Restores everything that the run has changed outside its own objects.
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
    /// The limits of that container.
    pub limits: Limits,
    /// Whether these are the scenario's limits.
    pub limits_applied: bool,
    /// Operations without permission, as sentences.
    pub notes: Vec<String>,
}

/// A pod that weir did not create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlacedPod {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: IpAddr,
    /// The address of its node.
    pub node_address: IpAddr,
    /// The name of its node.
    pub node: String,
    /// The runtime's ID of the measured container.
    pub container_id: String,
}

/// A container whose usage is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedContainer {
    /// Its part.
    pub part: String,
    /// The address of its node.
    pub node: IpAddr,
    /// The namespace of its pod.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The container.
    pub container: String,
}

/// The usage of containers, read until this is dropped.
pub trait PodUsage: fmt::Debug {
    /// The usage of the containers of `part` in a span, and a sentence about the source.
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
    /// Its name in the report.
    pub name: &'a str,
    /// Its role.
    pub role: Role,
    /// Its image; `None` is weir's image.
    pub image: Option<&'a str>,
    /// Program and arguments.
    pub command: &'a [String],
    /// Additional environment variables.
    pub env: &'a [(String, String)],
    /// Its limits.
    pub limits: Limits,
    /// The folders with its files.
    pub folders: Vec<&'a Path>,
    /// Their parent folder.
    pub root: &'a Path,
}

/// Owns pods: dropping it deletes them.
pub trait Carrier: fmt::Debug {
    /// Why a pod failed, if known. Sends no request, so it can be called often.
    fn failure(&self) -> Option<PodError>;

    /// As [`Carrier::failure`], but waits for it: weir notices a lost connection before it can know the reason.
    fn reason(&self, patience: Duration) -> Option<PodError>;

    /// The address of the only pod, once it runs.
    fn address(&self) -> Option<IpAddr>;

    /// The image of a container, for the report.
    fn image(&self, container: &str) -> Option<PartImage>;
}

/// Why a pod does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PodError {
    /// The failure cause, a word.
    pub cause: String,
    /// The pod, and the message of Kubernetes.
    pub message: String,
    /// The remedy.
    pub remedy: String,
    /// The end of the container's log; empty if there is none.
    pub log_tail: String,
    /// The part that exited; `None` for an agent or the whole pod.
    pub part: Option<String>,
}

impl PodError {
    /// An error of the pods as a whole.
    pub fn new(cause: &str, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        let (message, remedy) = (message.into(), remedy.into());
        Self { cause: cause.into(), message, remedy, log_tail: String::new(), part: None }
    }
}

/// The digest in Kubernetes's ID of an image: `nginx@sha256:..`.
#[cfg(feature = "kubernetes")]
pub(super) fn digest_of(image_id: &str) -> String {
    image_id.rsplit_once('@').map_or(image_id, |(_, digest)| digest).to_owned()
}

/// A part in a pod, for the manifest of cells.
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

/// A workload of the cluster, for the manifest of cells.
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
        // Pods of one workload are counted together.
        limit_cpus: placed.limits.cpus.map(|cpus| cpus * count),
        limit_memory_bytes: placed.limits.memory_bytes.map(|bytes| bytes * placed.pods.len() as u64),
        limits_applied: placed.limits_applied,
        limited_by: "kubernetes".into(),
        image,
    }
}
