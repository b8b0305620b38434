//! The complete format of a `driver.yaml`. Fields that weir does not support yet are parsed, and rejected by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_document::Time;
use weir_results::Role;

use crate::engine::ImageName;

/// A driver: how weir starts a gateway, configures it, and reads its counters. Values marked as templates can use the
/// template values of docs/drivers.md.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// The gateway, in a few words.
    pub about: String,
    /// The gateway's program.
    pub binary: Option<BinaryFile>,
    /// Settings that a scenario can change by `set`, with their defaults: `{ buffering: true }`. Templates have them
    /// as `set.NAME`. A new value must have the type of the default.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Features that the driver configures besides hosts, paths and a rewrite. weir rejects a scenario that needs
    /// others.
    #[serde(default)]
    pub serves: Vec<Serves>,
    /// Names of addresses that the gateway needs besides `listen` and `admin`. Templates have each as `NAME`,
    /// `NAME_ip` and `NAME_port`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Services that start before the gateway, by name. Templates have their outputs as `services.NAME.OUTPUT`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The gateway's processes. Each must be started by a step.
    #[serde(default)]
    pub processes: Vec<ProcessFile>,
    /// Steps that start the gateway, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// How changes of the topology reach the running gateway. Required for scenarios with `changes`.
    pub apply: Option<Apply>,
    /// Where the gateway counts requests. Without it, reports have no count of the gateway; generator and upstream
    /// are still reconciled.
    pub counters: Option<CountersFile>,
    /// The template that `config` of a scenario replaces. Required if the steps render several.
    #[schemars(extend("x-default" = "the only rendered template"))]
    pub main: Option<String>,
    /// Properties that the templates make equal to other gateways, each with its configuration text. weir searches the
    /// `config` of a scenario for these texts, and the report lists missing ones.
    #[serde(default)]
    pub equal: Vec<EqualFile>,
    /// Differences that cannot be made equal, printed in every report. Each is a template; one that renders empty does
    /// not apply.
    #[serde(default)]
    pub unequal: Vec<String>,
    /// How the program serves as upstream, if it can (`origin: { driver: NAME }` in a scenario).
    pub origin: Option<OriginFile>,
    /// How weir measures a gateway that already runs in a cluster. Such a driver has no binary and no processes.
    pub kubernetes: Option<KubernetesFile>,
}

/// A gateway that already runs in a cluster. weir adds routes and limits, restarts its pods, and restores everything
/// at the end. Templates have `pods.namespace` (of the run), `pods.run`, `pods.service` and `pods.port` (of the
/// upstream).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesFile {
    /// Template of the objects that define the routes. weir applies them server-side, and deletes them at the end.
    pub routes: String,
    /// Condition that the objects of a kind in `routes` must meet before the load.
    pub accepted: Option<AcceptedFile>,
    /// The workload that proxies the load.
    pub data: WorkloadFile,
    /// The workload that configures the data plane.
    pub control: Option<WorkloadFile>,
    /// Port of the pods for load.
    pub port: u16,
    /// Port of the pods for load over TLS.
    pub tls_port: Option<u16>,
    /// Admin port of the pods, which other fields name `admin`.
    pub admin_port: Option<u16>,
    /// The Service of the data plane, in its namespace. If the scenario has faults of the gateway, load goes to this
    /// Service, because faults change the addresses of pods.
    pub service: Option<DataServiceFile>,
    /// Kinds of the objects in `routes`, for RBAC.
    pub rights: Vec<RightFile>,
}

/// The Service of a data plane.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataServiceFile {
    /// Name, a template.
    pub name: String,
    /// Port for plain HTTP.
    pub port: u16,
    /// Port for TLS.
    pub tls_port: Option<u16>,
}

/// A condition of objects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptedFile {
    /// Group and version, like `projectcontour.io/v1`.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Type of the condition, which must be `True`.
    pub condition: String,
}

/// A Deployment or DaemonSet. All texts are templates.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Kind of the workload.
    pub kind: WorkloadKind,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Container whose CPU and memory are measured and limited.
    pub container: String,
}

/// A kind of workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum WorkloadKind {
    /// `apps/v1` Deployment.
    Deployment,
    /// `apps/v1` DaemonSet.
    DaemonSet,
}

/// Kinds of objects of an API group.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RightFile {
    /// API group; empty for the core group.
    pub group: String,
    /// Plural names of the kinds, like `[httpproxies]`.
    pub resources: Vec<String>,
    /// Whether some of the objects are in the namespace of the data plane instead of the run's.
    #[serde(default)]
    pub beside_data: bool,
}

/// A feature that a topology can require, but not every driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Serves {
    /// `topology.tls`. Needs a step `certificate`.
    Tls,
    /// `topology.client_certificate`.
    ClientCertificate,
    /// `topology.certificates: each`: one certificate per host.
    Certificates,
    /// `topology.bearer`.
    Bearer,
    /// `origin.service`: an upstream that uses TLS and authenticates clients.
    SecureOrigin,
}

/// A program.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BinaryFile {
    /// File name. weir searches `target/peers/bin`, its own folder, `PATH` and `KUBEBUILDER_ASSETS`.
    pub name: String,
    /// How to get its version.
    #[schemars(extend("x-default" = "the hash of the file"))]
    pub version: Option<VersionFile>,
    /// How to get the program, as a sentence for error messages.
    pub get: String,
    /// Container image with the program, like `nginx:1.29`, with tag or digest: used by `--images` on hosts without
    /// the program.
    pub image: Option<ImageName>,
}

/// How a program prints its version.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionFile {
    /// Arguments, like `[--version]`.
    pub args: Vec<String>,
    /// The version is the word after this text in the first line of the output.
    pub after: String,
    /// Use only this part of the word, split at slashes and counted from 0.
    #[schemars(extend("x-default" = "the whole word"))]
    pub piece: Option<usize>,
}

/// Something that the templates make equal to other gateways.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EqualFile {
    /// What it is, in a few words.
    pub what: String,
    /// The configuration text that does so, a template. White space does not matter.
    pub text: String,
}

/// A program as upstream: it answers every path with status 200 and a body of the given size. Templates have `body`
/// and `body_bytes`, and no values about routes and TLS.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginFile {
    /// Its processes, with the role `origin`.
    pub processes: Vec<ProcessFile>,
    /// Steps that start it, in order: `render`, `start` and `wait`.
    pub steps: Vec<Step>,
    /// Where it counts requests.
    pub counters: Option<CountersFile>,
}

/// A process. It must stay in the foreground: weir limits, samples and ends the process that it starts, and its
/// descendants. weir ends it with SIGTERM, and with SIGKILL 2 s later. The last MiB of its output is kept as log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessFile {
    /// Name, unique in the driver.
    pub name: String,
    /// `data` or `control`; `origin` for processes under `origin`; `service` in a service. The role determines the
    /// limits.
    #[schemars(with = "String")]
    pub role: Role,
    /// In a service with several binaries, the name of its binary.
    pub binary: Option<String>,
    /// Program and arguments; each is a template.
    pub command: Vec<String>,
    /// Environment variables; values are templates.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of the addresses that it listens on: `listen` gets the load, `admin` is its own. They must be free
    /// before it starts.
    #[serde(default)]
    pub listens: Vec<Place>,
    /// When it is ready. It must also accept connections on all of `listens`.
    #[schemars(extend("x-default" = "when it listens"))]
    pub ready: Option<ReadyFile>,
    /// Maximum time until it is ready.
    #[schemars(with = "Option<String>")]
    #[schemars(extend("x-default" = "`30s`"))]
    pub ready_timeout: Option<Time>,
}

/// The name of an address. A gateway has `listen` (for load), `admin` (its own), and those of `addresses`; a service
/// has those of its `addresses`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Place(pub String);

impl Place {
    /// Where load arrives at a gateway.
    pub(super) const LISTEN: &str = "listen";
    /// The gateway's own administration.
    pub(super) const ADMIN: &str = "admin";
}

/// When a process is ready.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadyFile {
    /// When the address accepts connections.
    Tcp(Place),
    /// When a GET request gets the status.
    Http {
        /// Address.
        on: Place,
        /// Path.
        path: String,
        /// Expected status.
        status: u16,
        /// Use TLS, with the client certificate of the step `certificate`.
        #[serde(default)]
        tls: bool,
    },
}

/// A step to start a gateway or service. No step runs a shell.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Render a template into a file.
    Render {
        /// Template, a file in the driver's folder.
        template: String,
        /// File name in the gateway's folder (`dir`).
        to: String,
    },
    /// Start the process of this name.
    Start(String),
    /// Wait until the process of this name is ready.
    Wait(String),
    /// Create a CA, a server certificate for all hosts, and a client certificate. A driver does so if the topology
    /// has TLS, a service always. Templates have the files in `tls`.
    Certificate {
        /// Folder for the files, in the gateway's folder.
        to: String,
        /// Additional client certificates, by name. Templates have each as `tls.clients.NAME`, with `certificate` and
        /// `key`.
        #[serde(default)]
        clients: BTreeMap<String, Subject>,
        /// Also issue the certificate for the gateway's own IP address. Certificates of services always include it.
        #[serde(default)]
        addresses: bool,
    },
    /// Send a request to one of its own addresses.
    Http {
        /// Address.
        on: Place,
        /// Method.
        method: String,
        /// Path, a template.
        path: String,
        /// Host header and SNI, a template.
        #[schemars(extend("x-default" = "the address"))]
        host: Option<String>,
        /// Template of the body.
        #[schemars(extend("x-default" = "no body"))]
        template: Option<String>,
        /// Media type of the body.
        content_type: Option<String>,
        /// Expected status.
        status: u16,
        /// How long weir repeats the request until it gets the status, like `10s`.
        #[schemars(with = "Option<String>")]
        #[schemars(extend("x-default" = "sent once"))]
        patience: Option<Time>,
        /// Use TLS, with the client certificate of the step `certificate`.
        #[serde(default)]
        tls: bool,
    },
    /// Apply manifests to a Kubernetes API, server-side; this takes over fields that others manage. Needs a weir with
    /// the feature `kubernetes`.
    KubeApply {
        /// The API.
        api: KubeApi,
        /// Template of the manifests. If it renders empty, nothing is applied.
        template: String,
    },
    /// Wait until an object of a Kubernetes API exists and its condition is `True`. Texts are templates. Needs a weir
    /// with the feature `kubernetes`.
    KubeWait {
        /// The API.
        api: KubeApi,
        /// Group and version, like `apps/v1`.
        api_version: String,
        /// Kind.
        kind: String,
        /// Namespace, for kinds that have one.
        #[schemars(extend("x-default" = "`default`"))]
        namespace: Option<String>,
        /// Name.
        name: String,
        /// Type of the condition.
        #[schemars(extend("x-default" = "existence is enough"))]
        condition: Option<String>,
        /// Maximum time.
        #[schemars(with = "Option<String>")]
        #[schemars(extend("x-default" = "`30s`"))]
        patience: Option<Time>,
    },
    /// Publish a message to NATS for each route: each path of each host at each upstream address. Needs a weir with
    /// the feature `nats`.
    NatsPublish {
        /// The service, one of `needs`; its output `address` is the address of NATS.
        service: String,
        /// Subject.
        subject: String,
        /// Template of a message, with `route.host`, `route.path`, `route.origin_ip` and `route.origin_port`.
        template: String,
        /// Time between two messages, a template, like `50us`.
        #[schemars(extend("x-default" = "none"))]
        gap: Option<String>,
        /// Interval at which all messages are published again, a template, like `60s`. If it renders empty, never.
        #[schemars(extend("x-default" = "never"))]
        every: Option<String>,
    },
}

/// Subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Common name; the user for Kubernetes.
    pub name: String,
    /// Organization; the group for Kubernetes.
    pub organization: Option<String>,
}

/// A Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KubeApi {
    /// The API of a service.
    Service(KubeService),
    /// The gateway's or service's own API, at one of its addresses.
    Own(OwnKubeApi),
}

/// The Kubernetes API of a service, which must be one of `needs`. weir uses its outputs `address`, `ca`,
/// `certificate` and `key`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeService {
    /// Name of the service.
    pub service: String,
}

/// A Kubernetes API at one of its own addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnKubeApi {
    /// Address.
    pub on: Place,
    /// Client certificate to use: one of `clients` of the step `certificate`.
    #[serde(rename = "as")]
    #[schemars(extend("x-default" = "the rig's own"))]
    pub client: Option<String>,
}

impl ProcessFile {
    /// The addresses that it names.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        let ready = self.ready.as_ref().map(|ready| match ready {
            ReadyFile::Tcp(place) | ReadyFile::Http { on: place, .. } => place,
        });
        self.listens.iter().chain(ready)
    }
}

impl Serves {
    /// The field of a scenario that requires it.
    pub fn field(self) -> &'static str {
        match self {
            Self::Tls => "topology.tls",
            Self::ClientCertificate => "topology.client_certificate",
            Self::Certificates => "topology.certificates",
            Self::Bearer => "topology.bearer",
            Self::SecureOrigin => "origin.service",
        }
    }

    /// Its name in the file.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::ClientCertificate => "client_certificate",
            Self::Certificates => "certificates",
            Self::Bearer => "bearer",
            Self::SecureOrigin => "secure_origin",
        }
    }
}

impl Step {
    /// The template that it renders.
    pub(super) fn template(&self) -> Option<&String> {
        match self {
            Self::Render { template, .. }
            | Self::KubeApply { template, .. }
            | Self::NatsPublish { template, .. } => Some(template),
            Self::Http { template, .. } => template.as_ref(),
            _ => None,
        }
    }

    /// Whether it uses a Kubernetes API.
    pub(super) fn uses_kubernetes(&self) -> bool {
        matches!(self, Self::KubeApply { .. } | Self::KubeWait { .. })
    }

    /// Its name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Render { .. } => "render",
            Self::Start(_) => "start",
            Self::Wait(_) => "wait",
            Self::Certificate { .. } => "certificate",
            Self::Http { .. } => "http",
            Self::KubeApply { .. } => "kube_apply",
            Self::KubeWait { .. } => "kube_wait",
            Self::NatsPublish { .. } => "nats_publish",
        }
    }
}

/// How a change of the topology reaches the running gateway.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Apply {
    /// Render files again, move each over the present one, and signal the first process.
    Files {
        /// Templates with routes, endpoints and certificates.
        templates: Vec<String>,
        /// Signal: `HUP`, `USR1` or `USR2`. None for gateways that watch their files.
        #[schemars(extend("x-default" = "none"))]
        signal: Option<String>,
        /// Signal again if the change has not taken effect after this time, for gateways that can lose a signal.
        #[schemars(with = "Option<String>")]
        again_after: Option<Time>,
    },
    /// Apply the changed manifests to a Kubernetes API, and delete the removed ones.
    Kubernetes {
        /// The API.
        api: KubeApi,
        /// Template of the manifests.
        template: String,
    },
    /// Publish a message to NATS for each route that is added or removed.
    Nats {
        /// The service, one of `needs`.
        service: String,
        /// Template of a message, as in the step `nats_publish`.
        template: String,
        /// Subject for added routes.
        added: String,
        /// Subject for removed routes.
        removed: String,
    },
    /// Through an xDS server. Not supported yet.
    Xds {},
}

impl Apply {
    /// Its name in the file.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Files { .. } => "files",
            Self::Kubernetes { .. } => "kubernetes",
            Self::Nats { .. } => "nats",
            Self::Xds {} => "xds",
        }
    }
}

/// Where a gateway counts the requests that it received.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountersFile {
    /// Address.
    pub on: Place,
    /// Path.
    pub path: String,
    /// How to parse the response.
    pub parser: Parser,
    /// Whether requests for the counters are counted too.
    #[serde(default)]
    pub counts_own_polls: bool,
    /// Whether the counter restarts after a change of the topology. weir does not read it in loads with changes then.
    #[serde(default)]
    pub restarts_on_apply: bool,
    /// Use TLS, with the client certificate of the step `certificate`.
    #[serde(default)]
    pub tls: bool,
    /// Parser `prometheus` only: also sum all series of the metric by the values of a label, for the amplification of
    /// requests.
    pub by: Option<KindsFile>,
}

/// Kinds of requests, by the values of a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindsFile {
    /// Label.
    pub label: String,
    /// Values that clients and gateways cause; others are ignored.
    pub values: Vec<String>,
}

/// How to parse counters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Parser {
    /// Prometheus text format: the sum of the series of `metric` with these labels.
    Prometheus {
        /// Metric.
        metric: String,
        /// Labels that a series must have.
        #[serde(default)]
        labels: BTreeMap<String, String>,
        /// A missing series means 0, for gateways whose series appear with the first request.
        #[serde(default)]
        appears_later: bool,
    },
    /// nginx `stub_status`.
    StubStatus,
    /// HAProxy statistics as CSV: a column of a proxy's FRONTEND row.
    HaproxyCsv {
        /// Name of the proxy.
        proxy: String,
        /// Column, like `req_tot`.
        field: String,
    },
    /// JSON: the number at a pointer.
    Json {
        /// JSON Pointer (RFC 6901), like `/requests`.
        pointer: String,
    },
}
