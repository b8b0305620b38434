//! What a scenario says of a gateway that runs elsewhere.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::TlsSpec;
use weir_rig::prometheus::{Credentials, MetricSet, PrometheusAddress, Queries};

use super::{Limit, Url};
use crate::agents::Place;

/// Where a gateway of the driver `remote` is, and who knows what it uses. Nothing of it holds for another driver.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Remote {
    /// Where load goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<Url>,
    /// The value of Host; by default the URL's host and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Its upstream, for the direct baseline; without it there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direct: Option<Url>,
    /// TLS on the connections to a URL of https.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsSpec>,
    /// The limits that it has where it runs; weir sets none there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limit>,
    /// A Prometheus that knows what it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusSource>,
    /// An agent beside it that samples what it uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampler: Option<SamplerSource>,
}

/// An agent on the host of a gateway, and which processes there are the gateway's: one of `program`, `pid` and `cgroup`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SamplerSource {
    /// Where it runs: `ssh:HOST`, `agents:1` if the user starts it, or `local:1` for this host.
    pub on: Place,
    /// The name of the gateway's program: all processes that run it are sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// A process: it and all that it has started are sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// A control group, like `/system.slice/nginx.service`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<PathBuf>,
}

impl SamplerSource {
    /// What is sampled, in words; empty if nothing is given.
    pub(crate) fn words(&self) -> String {
        let program = self.program.iter().map(|program| format!("program {program}"));
        let pid = self.pid.iter().map(|pid| format!("process {pid}"));
        let cgroup = self.cgroup.iter().map(|cgroup| format!("control group {}", cgroup.display()));
        program.chain(pid).chain(cgroup).collect::<Vec<_>>().join(", ")
    }
}

/// A Prometheus, and which of its series are the gateway's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrometheusSource {
    /// Its address, with the path before `/api/v1` where it has one.
    pub url: Url,
    /// Matchers of the gateway's series, as `namespace="shop",pod=~"gw-.*"`. What they match is summed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The set of metrics: `container` (cAdvisor), `process` (client libraries) or `node` (node exporter).
    #[serde(default)]
    pub metrics: MetricSet,
    /// Selectors of one's own in place of the set's.
    #[serde(default, skip_serializing_if = "is_none_asked")]
    pub queries: Queries,
    /// PEM file of the authorities to trust; by default the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Whether any certificate will do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// File of a bearer token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    /// A user, whose password is in `password_file`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// File of the user's password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
}

impl Remote {
    /// The first of its fields that is given.
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

    /// The files that it names, with their fields.
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
    /// Where it is and who asks.
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

    /// What is asked.
    pub(crate) fn asked(&self) -> Queries {
        match &self.selector {
            Some(selector) => Queries::of(self.metrics, selector).overlaid(&self.queries),
            // Without matchers the set would be that of everything there is.
            None => self.queries.clone(),
        }
    }
}

fn is_none_asked(queries: &Queries) -> bool {
    *queries == Queries::default()
}
