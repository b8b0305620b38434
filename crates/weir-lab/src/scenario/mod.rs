//! The scenario language as types: what is run, against what, for how long.
//!
//! Every field has a default or is required here; what only the whole can tell is in [`crate::check`].

mod axis;
mod changes;
mod control;
mod disturbances;
mod expanded;
mod faults;
mod gateway;
mod generator;
pub(crate) mod load_spec;
mod loads;
mod network;
mod objective;
mod origin;
mod popularity;
mod rate_list;
mod remote;
mod request;
mod search;
pub(crate) mod secured;
pub(crate) mod setting;
pub(crate) mod shares;
mod silent;
mod slow;
mod topology;
mod url;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Named, Size, Time};
use weir_results::{CONTROL, Role, Thresholds};
use weir_rig::{Limits, Serves};

use crate::agents::Place;

pub use axis::Axis;
pub(crate) use axis::{FITTED_PATH, fitted_cpus};
pub(crate) use changes::CHANGED;
pub use changes::Changes;
pub use control::Control;
pub(crate) use expanded::name_at;
pub use faults::ScheduledFault;
pub use gateway::Gateway;
pub use generator::GeneratorSpec;
pub use loads::{Load, Loads, ShareOf};
pub use network::Network;
pub use objective::{FindingLimit, ObjectiveSpec};
pub use origin::{Origin, OriginFaults, OriginHttp2, OriginService, OriginTls};
pub use popularity::Popularity;
pub use rate_list::RateList;
pub use remote::{PrometheusSource, Remote, SamplerSource};
pub use request::Request;
pub use search::Search;
pub use silent::SilentConnections;
pub use slow::SlowClients;
pub(crate) use topology::Numbered;
pub use topology::{CertificateScope, ClientCertificate, Paths, Topology};
pub use url::Url;

/// A scenario: a question, the gateways it is put to, and the loads that answer it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the scenario; names the run and its report.
    pub name: String,
    /// The question that the run answers, in words.
    #[serde(default)]
    pub question: String,
    /// The gateways: names of drivers, or `{ name, driver, binary, config, listen, set, optional }`; of those that
    /// run elsewhere `{ name, driver: remote, url, host, direct, tls, limits, prometheus }`.
    pub gateways: Vec<Gateway>,
    /// Limits by role.
    #[serde(default)]
    pub limits: LimitsByRole,
    /// What the gateway is configured for.
    #[serde(default)]
    pub topology: Topology,
    /// The upstream.
    #[serde(default)]
    pub origin: Origin,
    /// How the parts reach each other: `loopback`, or `namespaces` of the run's own with links between them.
    #[serde(default)]
    pub network: Network,
    /// Where load comes from: `{ on: netns:2 }`.
    #[serde(default, skip_serializing_if = "GeneratorSpec::is_empty")]
    pub generator: GeneratorSpec,
    /// The loads by name, run one after the other against the same processes.
    #[serde(default)]
    pub loads: Loads,
    /// Routes that come and go while load runs, endpoints that leave and return, certificates that are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// What is done to servers of the upstream or to services while load runs, in the order of time: `{ at, replica, do }`
    /// or `{ at, service, do }`. Every load meets all of it, and when it is over everything is as it was.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<ScheduledFault>,
    /// Clients that take their time, beside the loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowClients>,
    /// A burst of TCP connections that never send a request, while loads run: `{ connections, at, hold }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<SilentConnections>,
    /// Warm-up of every load, the least.
    #[serde(default = "default_warmup")]
    pub warmup: Time,
    /// Sustained phase of every load; it alone counts.
    #[serde(default = "default_duration")]
    pub duration: Time,
    /// A request not answered this long after its intended start is given up; also the longest drain.
    #[serde(default = "default_timeout")]
    pub timeout: Time,
    /// Worker threads of the load generator.
    #[serde(default = "default_workers")]
    pub workers: u32,
    /// Axes: any field's path and its values; the run is their cross product. `limits.data.cpus: fitted` takes limits
    /// that fit the host.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub vary: Named<Axis>,
    /// A list of partial scenarios, each laid over this one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Repeats of every cell, each with fresh processes.
    #[serde(default = "default_repeats")]
    pub repeats: u32,
    /// How often a load is measured again after host noise or, in open loop, late sends of its generator; the least
    /// disturbed attempt counts. All retries of a run take at most half of its planned time.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Whether each block has a second direct cell, a twin of the first: how far the two are apart is the rig's own
    /// doing, and nothing smaller is claimed of a gateway.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twin: bool,
    /// A positive control: each block has one of the gateways once more, which uses more CPU time and answers later, by
    /// known amounts. The report says whether the run finds them: `{ share, gateway }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Whether the start of each gateway is measured: time and CPU time up to the first request that it answers 200, and
    /// the memory that it has then, before any load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold_start: bool,
    /// Seed of order and arrivals; drawn and recorded where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// What a gateway has to keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// Thresholds of the verdicts, if not the defaults.
    #[serde(default)]
    pub thresholds: Thresholds,
}

/// Limits by role; a role that is not named is not limited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsByRole {
    /// The gateway's data plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Limit>,
    /// The gateway's control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Limit>,
    /// The upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Limit>,
    /// The load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Limit>,
    /// Each process of the services that a gateway needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Limit>,
}

/// What a process of a role may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// CPU in cores; a fraction is a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
}

impl Scenario {
    /// Cores that the gateway's data plane may use, rounded up: its number of workers. One without a limit.
    pub fn data_workers(&self) -> u32 {
        whole_cpus(self.limits.data)
    }

    /// The limits of a role.
    pub(crate) fn limits_of(&self, role: Role) -> Limits {
        let limit = match role {
            Role::Data => self.limits.data,
            Role::Control => self.limits.control,
            Role::Origin => self.limits.origin,
            Role::Generator => self.limits.generator,
            Role::Service => self.limits.service,
        };
        let limit = limit.unwrap_or_default();
        Limits { cpus: limit.cpus, memory_bytes: limit.memory.map(|memory| memory.0) }
    }

    /// The number of bearer tokens that its gateways check; none where the upstream does.
    pub(crate) fn known_tokens(&self) -> u32 {
        if self.origin.service.name().is_some() { 0 } else { self.topology.bearer }
    }

    /// What not every driver renders.
    pub(crate) fn wants(&self) -> Vec<Serves> {
        let topology = &self.topology;
        let wants = [
            (Serves::Tls, topology.tls),
            (Serves::ClientCertificate, topology.client_certificate == ClientCertificate::Required),
            (Serves::Certificates, topology.certificates == CertificateScope::Each),
            (Serves::Bearer, self.known_tokens() > 0),
            (Serves::SecureOrigin, self.origin.service.name().is_some()),
        ];
        wants.into_iter().filter_map(|(what, is_wanted)| is_wanted.then_some(what)).collect()
    }

    /// How its parts reach each other: agents in namespaces need those of the others.
    pub fn network(&self) -> Network {
        match &self.generator.on {
            Some(Place::Namespaces(_)) => Network::Namespaces,
            _ => self.network,
        }
    }

    /// Whether its gateways run elsewhere; then all of them do.
    pub fn is_elsewhere(&self) -> bool {
        self.gateways.iter().any(Gateway::is_remote)
    }

    /// Whether its parts run in pods of a cluster.
    pub fn is_in_pods(&self) -> bool {
        matches!(self.generator.on, Some(Place::Pods(_)))
    }

    /// Whether there is a direct baseline: gateways that run elsewhere may keep their upstream to themselves.
    pub fn has_direct(&self) -> bool {
        !self.is_elsewhere() || self.gateways.iter().any(|gateway| gateway.remote.direct.is_some())
    }

    /// The gateway of that name; of the positive control, the one that it is.
    pub fn gateway(&self, name: &str) -> Option<&Gateway> {
        match (&self.control, name) {
            (Some(control), CONTROL) => control.of(&self.gateways),
            _ => self.gateways.iter().find(|gateway| gateway.name == name),
        }
    }

    /// Whether that name is the positive control's, and no gateway's.
    pub(crate) fn is_control(&self, name: &str) -> bool {
        name == CONTROL && self.control.is_some()
    }

    /// Worker threads of the origin.
    pub fn origin_workers(&self) -> u32 {
        self.origin.workers.unwrap_or_else(|| whole_cpus(self.limits.origin))
    }
}

fn whole_cpus(limit: Option<Limit>) -> u32 {
    limit.and_then(|limit| limit.cpus).map_or(1, |cpus| (cpus.ceil() as u32).max(1))
}

fn default_warmup() -> Time {
    Time(Duration::from_secs(5))
}

fn default_duration() -> Time {
    Time(Duration::from_secs(60))
}

fn default_timeout() -> Time {
    Time(Duration::from_secs(10))
}

fn default_workers() -> u32 {
    1
}

fn default_repeats() -> u32 {
    3
}

fn default_retries() -> u32 {
    2
}
