//! The form of a `driver.yaml`, whole: what no code serves yet is read, and refused by name.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use weir_document::Time;
use weir_results::Role;

use crate::engine::ImageName;

/// A driver's file.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverFile {
    /// What it drives, in a few words.
    pub about: String,
    /// The binary.
    pub binary: Option<BinaryFile>,
    /// Settings that a scenario may change (`set:`), with their defaults.
    #[serde(default)]
    pub settings: BTreeMap<String, serde_json::Value>,
    /// What of a topology it can render beyond hosts, paths and a rewrite; what is not here is refused by name.
    #[serde(default)]
    pub serves: Vec<Serves>,
    /// Names of addresses that it needs beside `listen` and `admin`. Templates find each as `NAME`, `NAME_ip` and
    /// `NAME_port`.
    #[serde(default)]
    pub addresses: Vec<String>,
    /// Services that must run first, by name. Templates find their outputs in `services.NAME`.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The processes.
    #[serde(default)]
    pub processes: Vec<ProcessFile>,
    /// What is done to get it running, in order.
    #[serde(default)]
    pub steps: Vec<Step>,
    /// How a change of the topology reaches the running gateway.
    pub apply: Option<Apply>,
    /// Where the gateway counts requests.
    pub counters: Option<CountersFile>,
    /// The template that a scenario's own configuration file (`config:`) takes the place of; where only one is
    /// rendered, that one.
    pub main: Option<String>,
    /// What its templates make equal to the other gateways; looked for in a configuration file of the user's own.
    #[serde(default)]
    pub equal: Vec<EqualFile>,
    /// What cannot be made equal, each a template; one that renders empty does not apply.
    #[serde(default)]
    pub unequal: Vec<String>,
    /// How it plays the upstream, where it can.
    pub origin: Option<OriginFile>,
    /// How it is measured in a cluster where it runs already. Such a driver has no binary and no processes.
    pub kubernetes: Option<KubernetesFile>,
}

/// A gateway that runs in a cluster before weir comes: weir gives it routes, limits and fresh pods, and takes all of them
/// back. Templates find `pods.namespace` (the run's), `pods.run`, `pods.service` and `pods.port` (the upstream).
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubernetesFile {
    /// The template of the objects that make its routes. They are applied server-side, and deleted at the end.
    pub routes: String,
    /// A condition that objects of a kind must have before there is load.
    pub accepted: Option<AcceptedFile>,
    /// The workload that load passes through.
    pub data: WorkloadFile,
    /// The workload that configures it.
    pub control: Option<WorkloadFile>,
    /// The port of its pods for load.
    pub port: u16,
    /// The same for TLS.
    pub tls_port: Option<u16>,
    /// The port of its pods for administration, which counters and the like name `admin`.
    pub admin_port: Option<u16>,
    /// The kinds of the objects in `routes`, as RBAC names them.
    pub rights: Vec<RightFile>,
}

/// A condition of objects.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AcceptedFile {
    /// Group and version, such as `projectcontour.io/v1`.
    pub api_version: String,
    /// The kind.
    pub kind: String,
    /// The type of the condition, which must be `True`.
    pub condition: String,
}

/// A Deployment or DaemonSet. Texts are templates.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Which of the two.
    pub kind: WorkloadKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The container that counts.
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
    /// The group; empty for that of Secrets and Services.
    pub group: String,
    /// The plural names of the kinds.
    pub resources: Vec<String>,
    /// Whether some of them are in the namespace of the data plane, and not in the run's.
    #[serde(default)]
    pub beside_data: bool,
}

/// What a topology may ask of a gateway, and not every driver renders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Serves {
    /// `topology.tls`.
    Tls,
    /// `topology.client_certificate`.
    ClientCertificate,
    /// `topology.certificates`: one for each host.
    Certificates,
    /// `topology.bearer`.
    Bearer,
    /// `origin.service`: an upstream that speaks TLS and authenticates clients itself.
    SecureOrigin,
}

/// A binary.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BinaryFile {
    /// Its file name.
    pub name: String,
    /// How it tells its version; by its hash, if absent.
    pub version: Option<VersionFile>,
    /// How to get it, as a sentence.
    pub get: String,
    /// The image that contains it, with its tag and, if it is fixed, its digest: `nginx:1.29`. For hosts
    /// with a container engine and without the binary.
    pub image: Option<ImageName>,
}

/// How a binary tells its version.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VersionFile {
    /// Its arguments.
    pub args: Vec<String>,
    /// The version is the word after this text in the first line.
    pub after: String,
    /// Of that word only this piece between slashes, from 0.
    pub piece: Option<usize>,
}

/// Something that is made equal, and the words of the configuration that do it.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EqualFile {
    /// What, in a few words.
    pub what: String,
    /// The words, a template; spaces and line ends do not matter.
    pub text: String,
}

/// A server that plays the upstream: it answers every path with a body of the asked size.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OriginFile {
    /// The processes, of the role `origin`.
    pub processes: Vec<ProcessFile>,
    /// What is done to get it running, in order.
    pub steps: Vec<Step>,
    /// Where it counts requests.
    pub counters: Option<CountersFile>,
}

/// A process. Texts are templates.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcessFile {
    /// Its name, unique in the driver.
    pub name: String,
    /// `data` or `control`; under `origin`, `origin`; of a service, `service`.
    #[schemars(with = "String")]
    pub role: Role,
    /// Of a service with several binaries, the name of the one that it is.
    pub binary: Option<String>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Variables.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Addresses that it listens on; they must be free before and accept when it is ready.
    #[serde(default)]
    pub listens: Vec<Place>,
    /// When it is ready; when it listens, if absent.
    pub ready: Option<ReadyFile>,
    /// How long it may take; half a minute if absent.
    #[schemars(with = "Option<String>")]
    pub ready_timeout: Option<Time>,
}

/// One of the addresses that the rig gives, by name. A gateway has `listen`, where load arrives, and `admin` for its own
/// administration; a service has those that it lists.
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
    /// When the address accepts.
    Tcp(Place),
    /// When a GET is answered with the status.
    Http {
        /// The address.
        on: Place,
        /// The path.
        path: String,
        /// The status.
        status: u16,
        /// Whether over TLS, with the client certificate that the step `certificate` made.
        #[serde(default)]
        tls: bool,
    },
}

/// A step. The list is closed; there is no shell.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Renders a template of the driver into a file.
    Render {
        /// The template's file in the driver's folder.
        template: String,
        /// The file, relative to the gateway's folder.
        to: String,
    },
    /// Starts a process, by its name.
    Start(String),
    /// Waits until a process is ready, by its name.
    Wait(String),
    /// Makes an authority, a certificate of it for all hosts, and one for clients, where the topology has TLS; for a service,
    /// always. Templates find the files in `tls`.
    Certificate {
        /// The folder for them, relative to the gateway's.
        to: String,
        /// Further client certificates of the same authority, by name. Templates find each in `tls.clients.NAME`, as
        /// `certificate` and `key`.
        #[serde(default)]
        clients: BTreeMap<String, Subject>,
        /// Whether the certificate is also for the gateway's own IP addresses; that of a service always is.
        #[serde(default)]
        addresses: bool,
    },
    /// Sends a request to one of its own addresses.
    Http {
        /// The address.
        on: Place,
        /// The method.
        method: String,
        /// The path, a template.
        path: String,
        /// The Host header and the server name of TLS, a template; the address if absent.
        host: Option<String>,
        /// The template of the body; none if absent.
        template: Option<String>,
        /// The media type of the body.
        content_type: Option<String>,
        /// The status that must come.
        status: u16,
        /// How long the request is repeated until that status comes; it is sent once if absent.
        #[schemars(with = "Option<String>")]
        patience: Option<Time>,
        /// Whether over TLS, with the client certificate that the step `certificate` made.
        #[serde(default)]
        tls: bool,
    },
    /// Applies manifests to a Kubernetes API, server-side.
    KubeApply {
        /// The API.
        api: KubeApi,
        /// The template of the manifests; one that renders empty applies nothing.
        template: String,
    },
    /// Waits until an object of a Kubernetes API exists, and its condition is `True`. Texts are templates.
    KubeWait {
        /// The API.
        api: KubeApi,
        /// Group and version, such as `apps/v1`.
        api_version: String,
        /// The kind.
        kind: String,
        /// The namespace, of kinds that have one; `default` if absent.
        namespace: Option<String>,
        /// The name.
        name: String,
        /// The type of the condition; if absent, it is enough that the object exists.
        condition: Option<String>,
        /// How long that may take; half a minute if absent.
        #[schemars(with = "Option<String>")]
        patience: Option<Time>,
    },
    /// Publishes a message to NATS for each route: each path of each host at each server of the upstream.
    NatsPublish {
        /// The service, one of `needs`; its output `address` is where NATS listens.
        service: String,
        /// The subject.
        subject: String,
        /// The template of a message. It has `route` with `host`, `path`, `origin_ip` and `origin_port`.
        template: String,
        /// The time between two messages, a template; none if absent.
        gap: Option<String>,
        /// The interval in which all messages are published again, a template; never if absent or empty.
        every: Option<String>,
    },
}

/// The subject of a certificate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subject {
    /// The common name; to Kubernetes the user.
    pub name: String,
    /// The organization; to Kubernetes the group.
    pub organization: Option<String>,
}

/// A Kubernetes API.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum KubeApi {
    /// That of a service.
    Service(KubeService),
    /// One of its own addresses.
    Own(OwnKubeApi),
}

/// The Kubernetes API of a service, one of `needs`. Its outputs say how to reach it: `address`, and the files `ca`,
/// `certificate` and `key`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KubeService {
    /// The service.
    pub service: String,
}

/// A Kubernetes API at one of its own addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OwnKubeApi {
    /// The address.
    pub on: Place,
    /// Whose certificate is shown: one of `clients` of the step `certificate`; that of the rig's client if absent.
    #[serde(rename = "as")]
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
    /// The field of a scenario that asks for it.
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
    /// Files are rendered again and a process gets a signal.
    Files {
        /// The templates.
        templates: Vec<String>,
        /// The signal's name without SIG, for the first process; none for a gateway that watches its files itself.
        signal: Option<String>,
        /// When a change that is not in force by then is signalled again, where the gateway may lose a signal.
        #[schemars(with = "Option<String>")]
        again_after: Option<Time>,
    },
    /// Through a Kubernetes API: manifests that differ are applied, and those that are gone are deleted.
    Kubernetes {
        /// The API.
        api: KubeApi,
        /// The template of the manifests.
        template: String,
    },
    /// Through NATS: a message for each route that is added or removed.
    Nats {
        /// The service, one of `needs`.
        service: String,
        /// The template of a message, as of the step `nats_publish`.
        template: String,
        /// The subject of routes that are added.
        added: String,
        /// The subject of routes that are removed.
        removed: String,
    },
    /// Through an xDS server.
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
    /// The address.
    pub on: Place,
    /// The path.
    pub path: String,
    /// How the answer is read.
    pub parser: Parser,
    /// Whether the requests for the counters are among those counted.
    #[serde(default)]
    pub counts_own_polls: bool,
    /// Whether it counts from zero again once a change of the topology was applied; then it is not asked during loads
    /// with changes.
    #[serde(default)]
    pub restarts_on_apply: bool,
    /// Whether over TLS, with the client certificate that the step `certificate` made.
    #[serde(default)]
    pub tls: bool,
    /// Only with the parser `prometheus`: all series of the metric are also summed by kind, so that requests which gateways make
    /// of their own are seen.
    pub by: Option<KindsFile>,
}

/// Kinds of requests: values of a label.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KindsFile {
    /// The label.
    pub label: String,
    /// Its values that clients and gateways cause; others are not counted.
    pub values: Vec<String>,
}

/// How counters are read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Parser {
    /// Prometheus text: the sum over the series of `metric` that have the labels.
    Prometheus {
        /// The metric.
        metric: String,
        /// Labels that a series must have.
        #[serde(default)]
        labels: BTreeMap<String, String>,
        /// Whether no such series means 0: of a gateway whose series appear with their first request.
        #[serde(default)]
        appears_later: bool,
    },
    /// nginx's `stub_status`.
    StubStatus,
    /// HAProxy's statistics as CSV: a field of a proxy's FRONTEND row.
    HaproxyCsv {
        /// The proxy.
        proxy: String,
        /// The column.
        field: String,
    },
    /// JSON: the number at a pointer (RFC 6901).
    Json {
        /// The pointer.
        pointer: String,
    },
}
