//! The scenario language as types.
//!
//! These types define required fields and defaults. [`crate::check`] validates the scenario as a whole.

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
pub(crate) use url::without_url_credentials;

/// A scenario: a question, the gateways to measure, and the loads that answer it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Name of the run and of its report.
    pub name: String,
    /// The question that the run answers, as text for the report.
    #[serde(default)]
    pub question: String,
    /// The gateways to measure. Each is the name of a driver, like `nginx`, or a mapping like
    /// `{ name: old, driver: nginx, binary: /opt/nginx/sbin/nginx }`. `weir doctor` lists the drivers.
    pub gateways: Vec<Gateway>,
    /// CPU and memory limits by role.
    #[serde(default)]
    pub limits: LimitsByRole,
    /// The routes, TLS and authentication that every gateway gets.
    #[serde(default)]
    pub topology: Topology,
    /// The upstream. Default: weir's own upstream, with one replica.
    #[serde(default)]
    pub origin: Origin,
    /// How gateway, upstream and load generator reach each other.
    #[serde(default)]
    pub network: Network,
    /// Where the load generator runs, like `{ on: netns:2 }`.
    #[serde(default, skip_serializing_if = "GeneratorSpec::is_empty")]
    pub generator: GeneratorSpec,
    /// The loads by name (letters, digits, `-`, `_`). They run in this order, against the same processes. At least
    /// one.
    #[serde(default)]
    pub loads: Loads,
    /// Changes of routes, endpoints or certificates while load runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    /// Faults of upstream replicas or services while load runs, in order of time: `{ at, replica, do }` or
    /// `{ at, service, do }`. They apply to every load. After each load, weir restores every replica and service.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<ScheduledFault>,
    /// Slow clients during loads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slow: Option<SlowClients>,
    /// A burst of TCP connections that never send a request, while loads run: `{ connections, at, hold }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent: Option<SilentConnections>,
    /// Warm-up before each load. Its requests are excluded, and ramps start after the warm-up. Until latencies settle,
    /// weir extends the warm-up, to at most `thresholds.warmup_growth` times its length. (`weir load --warmup`)
    #[serde(default = "default_warmup")]
    pub warmup: Time,
    /// Length of the sustained phase of each load. All values come from this phase. More than 0, at most one week.
    /// (`weir load --duration`)
    #[serde(default = "default_duration")]
    pub duration: Time,
    /// Time-out of a request, from its intended send time. Also the maximum time to drain after a load. More than 0, at
    /// most `1h`. (`weir load --timeout`)
    #[serde(default = "default_timeout")]
    pub timeout: Time,
    /// Worker threads of the load generator: 1 to 1024. Each load needs at least as many connections as workers.
    /// (`weir load --workers`)
    #[serde(default = "default_workers")]
    pub workers: u32,
    /// Axes: each is the path of a field and the values of this field. The run measures every combination. An axis can
    /// vary a setting of a gateway (`gateways.nginx.set.buffering`), but no other field of a gateway, and no field that
    /// applies to the whole run, such as `repeats` or `objective`. The scenario must also be valid without its axes.
    /// `limits.data.cpus: fitted` and `doubled` choose limits that fit the host.
    #[serde(default, skip_serializing_if = "Named::is_empty")]
    pub vary: Named<Axis>,
    /// Selected combinations of values. Each case is a partial scenario: its fields override those of the scenario.
    /// With `vary`, weir measures each case at every combination of the axes. Example:
    /// `[{ limits.data.cpus: 1 }, { topology.tls: true, limits.data.cpus: 2 }]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cases: Vec<serde_json::Map<String, serde_json::Value>>,
    /// Repeats of each cell, with fresh processes: 1 to 1000. A headline needs at least 3 repeats, and the verdicts
    /// *better* and *worse* at least 6.
    #[serde(default = "default_repeats")]
    pub repeats: u32,
    /// How often weir re-measures a load after host noise: 0 to 100. weir also re-measures an open load after late
    /// sends of the generator. weir keeps the attempt with the least interference. All retries together take at most
    /// half of the run's planned time. After three retries in a row without improvement, weir stops retrying.
    #[serde(default = "default_retries")]
    pub retries: u32,
    /// Measure a second direct cell in each block. Any difference between the two direct cells (A/A) is measurement
    /// error. weir claims no smaller difference between a gateway and the direct baseline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub twin: bool,
    /// Positive control: in each block, measure one gateway again, slowed by a known amount. The report states
    /// whether the run detects it. Example: `{ share: 10%, gateway: nginx }`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Measure the start of each gateway before any load: time and CPU time until the first response with status 200,
    /// and memory after that response. Not for gateways with `config` or remote gateways.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cold_start: bool,
    /// Seed of the order of cells, of the schedules and of the requests. They are the same in runs with the same seed.
    /// The run stores the seed. (`weir load --seed`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "random"))]
    pub seed: Option<u64>,
    /// What every gateway must achieve, like `{ p99: 20ms, errors: 0.1% }`. It does not change the measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<ObjectiveSpec>,
    /// Thresholds that decide whether weir excludes a value.
    #[serde(default)]
    pub thresholds: Thresholds,
}

/// Limits by role. weir also measures roles without limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LimitsByRole {
    /// Limits of each process of the gateway's data plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Limit>,
    /// Limits of each process of the gateway's control plane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Limit>,
    /// Limits of each replica of the upstream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Limit>,
    /// The load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator: Option<Limit>,
    /// Limits of each process of the services that a gateway needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<Limit>,
}

/// Resource limits of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Limit {
    /// CPU in cores, like `0.5`: from 0.01 to the number of cores of the host. The limit is a CPU quota with a period
    /// of 100 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Memory, at least `4MiB`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<Size>,
}

impl Scenario {
    /// Number of workers of each gateway: the CPU limit of its data plane, rounded up; 1 without a limit.
    pub fn data_workers(&self) -> u32 {
        whole_cpus(self.limits.data)
    }

    /// The limits of a role.
    pub fn limits_of(&self, role: Role) -> Limits {
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

    /// The number of bearer tokens that the gateways check; zero if the upstream checks them.
    pub(crate) fn known_tokens(&self) -> u32 {
        if self.origin.service.name().is_some() { 0 } else { self.topology.bearer }
    }

    /// The features that the scenario needs and that not every driver supports.
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

    /// The network of the scenario's parts. If agents run in network namespaces, all parts run in namespaces.
    pub fn network(&self) -> Network {
        match &self.generator.on {
            Some(Place::Namespaces(_)) => Network::Namespaces,
            _ => self.network,
        }
    }

    /// Whether the gateways are remote; either all of them are, or none.
    pub fn is_elsewhere(&self) -> bool {
        self.gateways.iter().any(Gateway::is_remote)
    }

    /// Whether the scenario's parts run in pods of a cluster.
    pub fn is_in_pods(&self) -> bool {
        matches!(self.generator.on, Some(Place::Pods(_)))
    }

    /// Whether there is a direct baseline. Scenarios with remote gateways have one only if `direct` is set, because
    /// weir may be unable to reach the upstream.
    pub fn has_direct(&self) -> bool {
        !self.is_elsewhere() || self.gateways.iter().any(|gateway| gateway.remote.direct.is_some())
    }

    /// The gateway called `name`. If `name` is the positive control, the gateway that the control copies.
    pub fn gateway(&self, name: &str) -> Option<&Gateway> {
        match (&self.control, name) {
            (Some(control), CONTROL) => control.of(&self.gateways),
            _ => self.gateways.iter().find(|gateway| gateway.name == name),
        }
    }

    /// Whether the scenario has a positive control and `name` is its name.
    pub(crate) fn is_control(&self, name: &str) -> bool {
        name == CONTROL && self.control.is_some()
    }

    /// Number of worker threads of each server of the upstream.
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
