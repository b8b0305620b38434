//! The format of `driver.yaml`. weir also parses fields that it does not support yet, so that the error names them.

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
    /// Settings that a scenario can change by `set`, with their defaults: `{ buffering: true }`. In templates, their
    /// names are `set.NAME`. A new value must have the type of the default.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// Features that the driver configures besides hosts, paths and a rewrite, each with the scenario field that
    /// requires it. weir rejects a scenario that requires another feature.
    #[serde(default)]
    pub serves: Vec<Serves>,
    /// Names of addresses that the gateway needs besides `listen` and `admin`. Templates refer to each address as
    /// `NAME`, `NAME_ip` and `NAME_port`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Services that start before the gateway, by name. In templates, their outputs are `services.NAME.OUTPUT`.
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
    /// Where weir reads how many requests the gateway has received. Without `counters`, weir only compares the counts
    /// of load generator and upstream.
    pub counters: Option<CountersFile>,
    /// The template that the user's own file replaces (`config` in a scenario). Required if the steps render several
    /// templates.
    #[schemars(extend("x-default" = "the only rendered template"))]
    pub main: Option<String>,
    /// Settings that have the same value in all drivers, each with the configuration text that sets it. If a scenario
    /// replaces the configuration (`config`), weir searches the new file for these texts. The report lists settings
    /// whose text is missing.
    #[serde(default)]
    pub equal: Vec<EqualFile>,
    /// Differences from other gateways that the driver cannot remove, as sentences for every report. Each is a
    /// template. weir omits a sentence that renders empty.
    #[serde(default)]
    pub unequal: Vec<String>,
    /// How the program serves as upstream, for scenarios with `origin: { driver: NAME }`. Omit it if the program cannot
    /// be an upstream.
    pub origin: Option<OriginFile>,
    /// How weir measures a gateway that already runs in a cluster. Such a driver has no binary and no processes.
    pub kubernetes: Option<KubernetesFile>,
}

/// A gateway that already runs in a cluster. weir adds routes and limits, restarts the gateway's pods, and restores
/// everything at the end. Templates can use `pods.run` (name of the run), `pods.namespace` (namespace of the run),
/// `pods.service` (Service of the upstream) and `pods.port` (port of the upstream). If the gateway's control plane sets
/// the limits of the data plane, templates get these limits from `pods.resources`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesFile {
    /// Template of the objects that define the routes. weir applies them server-side, and deletes them at the end.
    pub routes: String,
    /// Condition that all objects of one kind in `routes` must meet before the load.
    pub accepted: Option<AcceptedFile>,
    /// The workload that proxies the load.
    pub data: WorkloadFile,
    /// The workload that configures the data plane.
    pub control: Option<WorkloadFile>,
    /// Port of the data plane's pods that receives the load.
    pub port: u16,
    /// Port of the data plane's pods that receives load over TLS.
    pub tls_port: Option<u16>,
    /// Admin port of the data plane's pods. Other fields refer to it as `admin`.
    pub admin_port: Option<u16>,
    /// The Service of the data plane, in the data plane's namespace. If the scenario has faults of the gateway, load
    /// goes to this Service, because faults change the addresses of pods.
    pub service: Option<DataServiceFile>,
    /// Kinds of the objects in `routes`. weir needs RBAC permissions for them.
    pub rights: Vec<RightFile>,
}

/// The Service of a data plane.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DataServiceFile {
    /// Name of the Service, a template.
    pub name: String,
    /// Port of the Service for plain HTTP.
    pub port: u16,
    /// Port of the Service for TLS.
    pub tls_port: Option<u16>,
}

/// A condition that all objects of one kind must meet before the load.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptedFile {
    /// Group and version, like `projectcontour.io/v1`.
    pub api_version: String,
    /// Kind of the objects.
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
    /// Namespace of the workload.
    pub namespace: String,
    /// Name of the workload.
    pub name: String,
    /// Container whose CPU and memory weir measures and limits.
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
    /// Whether some of these objects are in the data plane's namespace instead of the run's namespace.
    #[serde(default)]
    pub beside_data: bool,
}

/// A feature that a topology can require, but that not every driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Serves {
    /// `topology.tls`; the driver needs a step `certificate`.
    Tls,
    /// `topology.client_certificate`.
    ClientCertificate,
    /// `topology.certificates: each` (one certificate per host).
    Certificates,
    /// `topology.bearer`.
    Bearer,
    /// `origin.service` (an upstream that uses TLS and authenticates clients).
    SecureOrigin,
}

/// A program.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BinaryFile {
    /// File name. weir searches `target/peers/bin`, its own folder, `PATH` and `KUBEBUILDER_ASSETS`.
    pub name: String,
    /// How weir gets the version of the program.
    #[schemars(extend("x-default" = "the hash of the file"))]
    pub version: Option<VersionFile>,
    /// How to get the program, as a sentence for error messages.
    pub get: String,
    /// Container image that contains the program, with tag or digest, like `nginx:1.29`. With `--images`, weir uses it
    /// on hosts without the program.
    pub image: Option<ImageName>,
}

/// How a program prints its version.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionFile {
    /// Arguments that print the version, like `[--version]`.
    pub args: Vec<String>,
    /// The version is the word after this text in the first line of the output.
    pub after: String,
    /// weir splits the found word at each slash, and uses only the part with this index, counted from 0.
    #[schemars(extend("x-default" = "the whole word"))]
    pub piece: Option<usize>,
}

/// A setting with the same value in all drivers.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EqualFile {
    /// The setting, in a few words.
    pub what: String,
    /// The configuration text of the setting, a template. White space does not matter.
    pub text: String,
}

/// A program that serves as the upstream. It must respond to every path with status 200 and a body of the given size.
/// Templates can use `body` and `body_bytes`, but no values about routes and TLS.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginFile {
    /// Processes of the upstream, with the role `origin`.
    pub processes: Vec<ProcessFile>,
    /// Steps that start the upstream, in order. Only `render`, `start` and `wait` are allowed.
    pub steps: Vec<Step>,
    /// Where weir reads how many requests the upstream has received.
    pub counters: Option<CountersFile>,
}

/// A process. It must stay in the foreground: weir limits, samples and ends this process and the descendants of this
/// process. weir ends it with SIGTERM, and 2 s later with SIGKILL. weir keeps the last MiB of the output as log.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessFile {
    /// Name, unique in the driver or service.
    pub name: String,
    /// Role of the process, which determines its limits: `data` or `control` for a gateway, `origin` under `origin`,
    /// `service` in a service.
    #[schemars(with = "String")]
    pub role: Role,
    /// Only in a service with several binaries: name of the binary that the process runs.
    pub binary: Option<String>,
    /// Program and arguments; each is a template.
    pub command: Vec<String>,
    /// Environment variables; values are templates.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Names of the addresses on which the process listens, such as `listen` and `admin`. They must be free before the
    /// process starts.
    #[serde(default)]
    pub listens: Vec<Place>,
    /// When the process is ready. The process must also accept connections on all addresses in `listens`.
    #[schemars(extend("x-default" = "when it listens"))]
    pub ready: Option<ReadyFile>,
    /// Maximum time until the process is ready.
    #[schemars(with = "Option<String>")]
    #[schemars(extend("x-default" = "`30s`"))]
    pub ready_timeout: Option<Time>,
}

/// The name of an address. A gateway has `listen` (for load), `admin` (for administration), and the names in its
/// `addresses`. A service has only the names in its `addresses`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Place(pub String);

impl Place {
    /// The gateway's address to which load is sent.
    pub(super) const LISTEN: &str = "listen";
    /// The gateway's address for administration.
    pub(super) const ADMIN: &str = "admin";
}

/// When a process is ready.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadyFile {
    /// The process is ready when the address with this name accepts connections.
    Tcp(Place),
    /// When a GET request returns the expected status.
    Http {
        /// Name of the address to which the request is sent.
        on: Place,
        /// Path of the request.
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
        /// Template, a file in the folder of the driver or service.
        template: String,
        /// File name in the folder of the gateway or service (`dir` in templates).
        to: String,
    },
    /// Start the process of this name.
    Start(String),
    /// Wait until the process of this name is ready.
    Wait(String),
    /// Create a CA, a server certificate for all hosts, and a client certificate. In a driver, this step runs only if
    /// the topology has TLS; in a service, always. In templates, the paths of the files are in `tls`.
    Certificate {
        /// Folder for the files, in the folder of the gateway or service.
        to: String,
        /// Additional client certificates, by name. In templates, each is `tls.clients.NAME`, with `certificate` and
        /// `key`.
        #[serde(default)]
        clients: BTreeMap<String, Subject>,
        /// Whether the server certificate is also valid for the IP address of the gateway. A service's certificate is
        /// always valid for the IP addresses of the service.
        #[serde(default)]
        addresses: bool,
    },
    /// Send an HTTP request to an address of the gateway or service.
    Http {
        /// Name of the address to which the request is sent.
        on: Place,
        /// Method of the request.
        method: String,
        /// Path of the request, a template.
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
        /// How long weir repeats the request until the response has the expected status, like `10s`.
        #[schemars(with = "Option<String>")]
        #[schemars(extend("x-default" = "sent once"))]
        patience: Option<Time>,
        /// Use TLS, with the client certificate of the step `certificate`.
        #[serde(default)]
        tls: bool,
    },
    /// Apply manifests server-side to a Kubernetes API, and take over fields from other field managers. Needs a build
    /// of weir with the feature `kubernetes`.
    KubeApply {
        /// Kubernetes API to which the manifests are applied.
        api: KubeApi,
        /// Template of the manifests. If it renders empty, nothing is applied.
        template: String,
    },
    /// Wait until an object of a Kubernetes API exists and its `condition`, if set, is `True`. All text fields are
    /// templates. Needs a build of weir with the feature `kubernetes`.
    KubeWait {
        /// Kubernetes API that has the object.
        api: KubeApi,
        /// API group and version of the object, like `apps/v1`.
        api_version: String,
        /// Kind of the object.
        kind: String,
        /// Namespace of the object, for kinds that have namespaces.
        #[schemars(extend("x-default" = "`default`"))]
        namespace: Option<String>,
        /// Name of the object.
        name: String,
        /// Type of the condition that must be `True`.
        #[schemars(extend("x-default" = "none: weir waits only until the object exists"))]
        condition: Option<String>,
        /// How long weir waits.
        #[schemars(with = "Option<String>")]
        #[schemars(extend("x-default" = "`30s`"))]
        patience: Option<Time>,
    },
    /// Publish a message to NATS for each route, that is for each combination of host, path and upstream address. Needs
    /// a build of weir with the feature `nats`.
    NatsPublish {
        /// Name of the service in `needs` that runs the NATS server. weir connects to its output `address`.
        service: String,
        /// The messages are published to this subject.
        subject: String,
        /// Template of a message, with `route.host`, `route.path`, `route.origin_ip` and `route.origin_port`.
        template: String,
        /// Time between two messages, like `50us`. Can be a template.
        #[schemars(extend("x-default" = "none"))]
        gap: Option<String>,
        /// Interval at which all messages are published again, like `60s`. Can be a template. If the result is empty, the
        /// messages are published only once.
        #[schemars(extend("x-default" = "never"))]
        every: Option<String>,
    },
}

/// Subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// Common name. Kubernetes uses it as the user name.
    pub name: String,
    /// Organization. For Kubernetes, it is the user's group.
    pub organization: Option<String>,
}

/// A Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KubeApi {
    /// The API of a service.
    Service(KubeService),
    /// The API that the gateway or service itself serves, at one of its addresses.
    Own(OwnKubeApi),
}

/// The Kubernetes API of a service. The service must be one of `needs`. weir uses the outputs `address`, `ca`,
/// `certificate` and `key` of the service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeService {
    /// Name of the service.
    pub service: String,
}

/// The Kubernetes API that the gateway or service itself serves, at one of its addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnKubeApi {
    /// Name of the address at which the API is served.
    pub on: Place,
    /// Client certificate to use: one of `clients` of the step `certificate`.
    #[serde(rename = "as")]
    #[schemars(extend("x-default" = "the unnamed client certificate"))]
    pub client: Option<String>,
}

impl ProcessFile {
    /// The names of the addresses that the process uses.
    pub(super) fn places(&self) -> impl Iterator<Item = &Place> {
        let ready = self.ready.as_ref().map(|ready| match ready {
            ReadyFile::Tcp(place) | ReadyFile::Http { on: place, .. } => place,
        });
        self.listens.iter().chain(ready)
    }
}

impl Serves {
    /// The field of a scenario that requires this feature.
    pub fn field(self) -> &'static str {
        match self {
            Self::Tls => "topology.tls",
            Self::ClientCertificate => "topology.client_certificate",
            Self::Certificates => "topology.certificates",
            Self::Bearer => "topology.bearer",
            Self::SecureOrigin => "origin.service",
        }
    }

    /// The name of this feature in `driver.yaml`.
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
    /// The name of the template file that this step renders, if any.
    pub(super) fn template(&self) -> Option<&String> {
        match self {
            Self::Render { template, .. }
            | Self::KubeApply { template, .. }
            | Self::NatsPublish { template, .. } => Some(template),
            Self::Http { template, .. } => template.as_ref(),
            _ => None,
        }
    }

    /// Whether this step uses a Kubernetes API.
    pub(super) fn uses_kubernetes(&self) -> bool {
        matches!(self, Self::KubeApply { .. } | Self::KubeWait { .. })
    }

    /// The name of this step in `driver.yaml` and `service.yaml`.
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
    /// Render files again, replace each file with a rename, and send a signal to the first process in `processes`.
    Files {
        /// Templates with routes, endpoints and certificates.
        templates: Vec<String>,
        /// Signal to send: `HUP`, `USR1` or `USR2`. Omit it for gateways that watch their files.
        #[schemars(extend("x-default" = "none"))]
        signal: Option<String>,
        /// For gateways that can lose a signal: weir sends the signal again if the change has not taken effect after
        /// this time.
        #[schemars(with = "Option<String>")]
        again_after: Option<Time>,
    },
    /// Apply the changed manifests to a Kubernetes API, and delete the removed ones.
    Kubernetes {
        /// Kubernetes API to which the manifests are applied.
        api: KubeApi,
        /// Template of the manifests.
        template: String,
    },
    /// Publish a message to NATS for each route that is added or removed.
    Nats {
        /// Name of the service in `needs` that runs the NATS server.
        service: String,
        /// Template of a message, as in the step `nats_publish`.
        template: String,
        /// NATS subject for added routes.
        added: String,
        /// NATS subject for removed routes.
        removed: String,
    },
    /// Through an xDS server. Not supported yet.
    Xds {},
}

impl Apply {
    /// The name of this kind of `apply` in `driver.yaml`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Files { .. } => "files",
            Self::Kubernetes { .. } => "kubernetes",
            Self::Nats { .. } => "nats",
            Self::Xds {} => "xds",
        }
    }
}

/// Where weir reads how many requests a gateway, upstream or service has received.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CountersFile {
    /// Name of the address from which weir reads the counters.
    pub on: Place,
    /// Path that returns the counters.
    pub path: String,
    /// How to parse the response.
    pub parser: Parser,
    /// Whether the counter includes the requests that weir sends to read it.
    #[serde(default)]
    pub counts_own_polls: bool,
    /// Whether a change of the topology resets the counter. If so, weir does not read the counter in loads with
    /// changes.
    #[serde(default)]
    pub restarts_on_apply: bool,
    /// Use TLS, with the client certificate of the step `certificate`.
    #[serde(default)]
    pub tls: bool,
    /// Only with the parser `prometheus`: weir counts requests per value of a label. From these counts, weir computes
    /// the amplification: requests to the upstream per client request.
    pub by: Option<KindsFile>,
}

/// A label of the counter, and the label values that weir counts separately.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindsFile {
    /// Name of the label.
    pub label: String,
    /// The values of this label that weir counts. List the values that stand for requests from clients and gateways.
    /// weir ignores series with other values.
    pub values: Vec<String>,
}

/// How weir parses the counters.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Parser {
    /// Prometheus text format: the sum of all series of `metric` that have the labels in `labels`.
    Prometheus {
        /// Name of the metric.
        metric: String,
        /// Labels that a series must have.
        #[serde(default)]
        labels: BTreeMap<String, String>,
        /// Whether missing series mean 0, for gateways whose series appear with the first request.
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
    /// JSON: the number that the JSON Pointer in `pointer` selects.
    Json {
        /// JSON Pointer (RFC 6901), like `/requests`.
        pointer: String,
    },
}
