//! Runs in a Kubernetes cluster (`docs/decisions/0027-pods.md`).
//!
//! All objects of a run are in one namespace. A coordinator pod runs the lab: it creates the pods of agents, upstreams
//! and gateways, and stores each finished cell in Secrets. The command line fetches the cells from these Secrets.

mod chunks;
#[cfg(feature = "kubernetes")]
mod cluster;
mod container;
#[cfg(feature = "kubernetes")]
mod gateway;
mod host;
#[cfg(feature = "kubernetes")]
mod kubelet;
mod manifests;
#[cfg(feature = "kubernetes")]
mod results;
mod site;
#[cfg(feature = "kubernetes")]
mod workload;

pub use chunks::{CHUNK_BYTES, FileSet, chunked, joined, joined_files};
#[cfg(feature = "kubernetes")]
pub use cluster::Pods;
pub use container::resources_of;
#[cfg(feature = "kubernetes")]
pub use gateway::{ClusterGateways, cores};
pub use host::{Carrier, PartSpec, PlacedPod, PlacedPods, PodError, PodHost, PodUsage, WatchedContainer};
pub(crate) use host::{part_of, part_of_workload};
pub use manifests::{GatewayRights, RIGHTS, coordinator_manifests, grant_manifests, namespace_manifest};
#[cfg(feature = "kubernetes")]
pub use results::{Ending, Fetched, Results};
pub use site::{AgentSize, Site};
#[cfg(feature = "kubernetes")]
use workload::{JobSpec, Mounted, PodSpec};
