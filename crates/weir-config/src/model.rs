//! The structure of a configuration file, and its parts.
//!
//! Each part defines its fields, their defaults and the limits that concern only this part. Rules that concern several
//! parts are in [`crate::check`].

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

pub(crate) mod access_log;
mod address;
pub(crate) mod backend;
pub(crate) mod bounds;
mod drain;
pub(crate) mod forms;
pub(crate) mod forwarding;
mod limits;
mod listener;
pub(crate) mod overload;
mod precedence;
mod program_log;
pub(crate) mod resolver;
pub(crate) mod retries;
mod route;
pub(crate) mod settings;
mod timeouts;
mod tls;
pub(crate) mod trailers;
mod value_match;

use crate::path::PathRules;
pub use access_log::{AccessLog, LogLine, LogPiece, LogStyle, LogValue, Metrics};
pub use backend::{
    Backend, BackendLimits, BackendTimeouts, Balance, Ejection, Endpoint, EndpointAddress, ErrorShare,
    HashKey, HealthCheck, Keepalive, Member, ProxyVersion, Sticky, UpstreamAddress,
};
pub use drain::Drain;
pub use forwarding::{B3, Forwarding, RequestId, Trace, TrustedHeader};
pub use limits::Limits;
pub use listener::Listener;
pub use overload::{MemoryBound, Overload};
pub use precedence::Precedence;
pub use program_log::{ProgramLog, ProgramLogFormat, Severity, UnknownSeverity};
pub use resolver::Resolver;
pub use retries::{Retries, RetryOn};
pub(crate) use route::{BackendField, PATTERN_BYTES_MAX};
pub use route::{OneOrMany, Route};
pub use settings::Settings;
pub use timeouts::Timeouts;
pub(crate) use tls::PairFiles;
pub use tls::{
    BackendTls, CertificateFiles, ClientAuth, Instead, Passthrough, SYSTEM_AUTHORITIES, TicketKeys, Tickets,
    Tls, TlsVersion,
};
pub use trailers::Trailers;
pub use value_match::ValueMatch;

/// A whole configuration, as written in a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Addresses where the gateway accepts clients; each must be unique. In a directory of files, at least one file
    /// needs listeners.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "address": "127.0.0.1:8080" }]))]
    pub listeners: Vec<Listener>,
    /// Number of worker threads. Each has its own upstream connections. It also has its own sockets if the port can be
    /// shared. A worker that would exceed 1.25 times the mean number of client connections hands new connections to the
    /// worker with the fewest. A reload can change the number of workers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = settings::WORKERS_MAX), example = 2)]
    #[schemars(extend("x-unit" = "threads", "x-default" = "one per CPU, limited by the cgroup quota"))]
    pub workers: Option<u32>,
    /// Routes from requests to backends. The most specific route wins; the order does not matter.
    #[serde(default)]
    #[schemars(example = json!([{ "path": "/", "backend": "web" }]))]
    pub routes: Vec<Route>,
    /// Services behind the gateway, by name.
    #[serde(default)]
    #[schemars(example = json!({ "web": { "endpoints": ["127.0.0.1:9000"] } }))]
    pub backends: BTreeMap<String, Backend>,
    /// Normalization of request paths, before routing.
    #[serde(default)]
    #[schemars(example = json!({ "escaped_slashes": "reject" }), extend("x-default" = "see its fields"))]
    pub paths: PathRules,
    /// DNS servers that resolve the host names of endpoints.
    #[serde(default)]
    pub resolver: Resolver,
    /// Limits on sizes and connections.
    #[serde(default)]
    #[schemars(example = json!({ "body": "10MB" }), extend("x-default" = "see its fields"))]
    pub limits: Limits,
    /// Thresholds above which the gateway sheds load (503).
    #[serde(default)]
    #[schemars(example = json!({ "memory": "90%" }), extend("x-default" = "never"))]
    pub overload: Overload,
    /// Timeouts for clients and upstreams.
    #[serde(default)]
    #[schemars(example = json!({ "response": "2m" }), extend("x-default" = "see its fields"))]
    pub timeouts: Timeouts,
    /// Graceful shutdown.
    #[serde(default)]
    #[schemars(example = json!({ "timeout": "1m" }), extend("x-default" = "see its fields"))]
    pub drain: Drain,
    /// One log line per request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = json!({ "file": "access.log" }))]
    pub access_log: Option<AccessLog>,
    /// Log of the program itself, on standard error.
    #[serde(default)]
    #[schemars(example = json!({ "level": "info" }), extend("x-default" = "see its fields"))]
    pub log: ProgramLog,
    /// Optional metrics.
    #[serde(default)]
    #[schemars(example = json!({ "latency": false }), extend("x-default" = "see its fields"))]
    pub metrics: Metrics,
    /// Headers with client address, request ID and trace that the gateway adds to upstream requests.
    #[serde(default)]
    #[schemars(example = json!({ "x_forwarded": true }), extend("x-default" = "see its fields"))]
    pub forwarding: Forwarding,
    /// Forward request headers whose names contain characters other than letters, digits and `-`. By default they are
    /// dropped and counted (`weir_request_fields_dropped_total`): to many servers `X_Forwarded_For` is the same header
    /// as `X-Forwarded-For`. `Proxy` is always dropped: CGI programs read it as `HTTP_PROXY`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = &true, extend("x-default" = false))]
    pub underscores_in_headers: bool,
    /// Trailers to forward, by name. All others are dropped.
    #[serde(default)]
    #[schemars(example = json!({ "response": ["Server-Timing"] }), extend("x-default" = "none"))]
    pub trailers: Trailers,
}

impl Configuration {
    /// Every file that the configuration names, with the first field that names it, such as `listeners[0].tls.key`.
    pub fn files(&self) -> BTreeMap<String, String> {
        let mut files = BTreeMap::new();
        for (file, place) in self.named_by_tls() {
            files.entry(file.to_owned()).or_insert(place);
        }
        for (index, route) in self.routes.iter().enumerate() {
            if let Some(file) = &route.tokens
                && !files.contains_key(file)
            {
                files.insert(file.clone(), format!("routes[{index}].tokens"));
            }
        }
        files
    }

    /// The files named in the TLS settings of listeners and backends.
    pub fn tls_files(&self) -> BTreeSet<String> {
        self.named_by_tls().map(|(file, _)| file.to_owned()).collect()
    }

    /// The files named in TLS settings, each with its field.
    fn named_by_tls(&self) -> impl Iterator<Item = (&str, String)> {
        let of_listeners = self.listeners.iter().enumerate().flat_map(|(index, listener)| {
            let files = listener.tls.as_deref().into_iter().flat_map(Tls::files);
            files.map(move |(field, file)| (file, format!("listeners[{index}].tls.{field}")))
        });
        let of_backends = self.backends.iter().flat_map(|(name, backend)| {
            let files = backend.tls.iter().flat_map(BackendTls::files);
            files.map(move |(field, file)| (file, format!("backends.{name}.tls.{field}")))
        });
        of_listeners.chain(of_backends)
    }
}
