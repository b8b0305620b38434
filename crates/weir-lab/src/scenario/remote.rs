//! The fields of remote gateways.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::TlsSpec;
use weir_rig::prometheus::{Credentials, MetricSet, PrometheusAddress, Queries};

use super::{Limit, Url};
use crate::agents::Place;

/// The URL of a gateway with the driver `remote`, and the source of its CPU and memory. Other drivers have none of
/// these fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Remote {
    /// Required: where load goes, like `https://gw.example`. Set paths in `topology.paths`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// Value of the Host header. Default: host and port of `url`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// URL of the gateway's upstream, for the direct baseline. Without this URL the run has no direct cells. Either all
    /// gateways of a scenario have the same URL here, or none of them has a URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<Url>,
    /// TLS settings of the connections to `https://` URLs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// Resource limits of the gateway on its host. weir does not set them. Default: the limits that cAdvisor reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limit>,
    /// Prometheus server that has the CPU and memory metrics of the gateway. Not with `sampler`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusSource>,
    /// Agent on the gateway's host that samples the gateway's CPU and memory. Not with `prometheus`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerSource>,
}

/// An agent on the gateway's host that samples the processes of the gateway. Set exactly one of `program`, `pid` and
/// `cgroup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SamplerSource {
    /// Where the agent runs: `ssh:HOST`, `agents:1` for an agent that you start, or `local:1` for this host.
    pub on: Place,
    /// Name of the gateway's program: every process that runs it is sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Process ID: the process and all processes that it started are sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Control group whose processes are sampled, like `/system.slice/nginx.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

impl SamplerSource {
    /// The sampled processes in words, like `program nginx`; empty if none of the fields is set.
    pub(crate) fn words(&self) -> String {
        let program = self.program.iter().map(|program| format!("program {program}"));
        let pid = self.pid.iter().map(|pid| format!("process {pid}"));
        let cgroup = self.cgroup.iter().map(|cgroup| format!("control group {}", cgroup.display()));
        program.chain(pid).chain(cgroup).collect::<Vec<_>>().join(", ")
    }
}

/// A Prometheus server, and the series of the gateway in it. After each load, weir waits for the next scrape: up to two
/// scrape intervals plus 10 s, but at most 120 s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusSource {
    /// Address of the Prometheus server, with the path before `/api/v1` if there is one. (`weir run --prometheus`)
    pub url: Url,
    /// Label matchers of the gateway's series, like `namespace="shop",pod=~"gw-.*"`. weir sums the series that match.
    /// Required unless `queries.cpu` is given. (`weir run --selector`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The set of metrics that weir reads.
    #[serde(default)]
    pub metrics: MetricSet,
    /// Selectors for individual values, such as `cpu`. For these values, they replace the selectors of `metrics`.
    #[serde(default, skip_serializing_if = "is_none_asked")]
    pub queries: Queries,
    /// PEM file of the CA certificates to trust. Paths are relative to the scenario's folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the system's"))]
    pub ca: Option<PathBuf>,
    /// Accept any certificate.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// File with a bearer token. The scenario must not contain the token itself, because the run stores the scenario.
    /// Not with `user`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// User name; requires `password_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File with the password of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

impl Remote {
    /// The name of the first field that is given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let fields = [
            ("url", self.url.is_some()),
            ("host", self.host.is_some()),
            ("direct", self.direct.is_some()),
            ("tls", self.tls.is_some()),
            ("limits", self.limits.is_some()),
            ("prometheus", self.prometheus.is_some()),
            ("sampler", self.sampler.is_some()),
        ];
        fields.into_iter().find(|(_, is_given)| *is_given).map(|(field, _)| field)
    }

    /// The paths of files in these fields, each with the name of its field.
    pub(crate) fn files_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut PathBuf)> {
        let tls = self.tls.iter_mut().flat_map(|tls| {
            [("tls.ca", &mut tls.ca), ("tls.cert", &mut tls.cert), ("tls.key", &mut tls.key)]
        });
        let prometheus = self.prometheus.iter_mut().flat_map(|prometheus| {
            [
                ("prometheus.ca", &mut prometheus.ca),
                ("prometheus.token_file", &mut prometheus.token_file),
                ("prometheus.password_file", &mut prometheus.password_file),
            ]
        });
        tls.chain(prometheus).filter_map(|(field, file)| Some((field, file.as_mut()?)))
    }
}

impl PrometheusSource {
    /// The address and credentials of the Prometheus.
    pub(crate) fn address(&self) -> PrometheusAddress {
        let password = self.user.clone().zip(self.password_file.clone());
        let token = self.token_file.clone().map(Credentials::Token);
        PrometheusAddress {
            url: self.url.to_string(),
            ca: self.ca.clone(),
            insecure: self.insecure,
            credentials: token.or(password.map(|(user, file)| Credentials::Password { user, file })),
        }
    }

    /// The selectors of the gateway's series.
    pub(crate) fn asked(&self) -> Queries {
        match &self.selector {
            Some(selector) => Queries::of(self.metrics, selector).overlaid(&self.queries),
            // Without label matchers, the metric set would select the series of all programs.
            None => self.queries.clone(),
        }
    }
}

fn is_none_asked(queries: &Queries) -> bool {
    *queries == Queries::default()
}
