//! The Kubernetes API that all tests share. It ends with the test process.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use ureq::http::Request;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use weir_kube::{Access, Cluster, Object, Selected};
use weir_lab::pods::{Site, namespace_manifest};
use weir_results::Role;
use weir_rig::{CertificateFiles, Drivers, Limits, ProcessSpec, ServiceBinding};

use crate::program::{free_port, until};

const SERVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../services/kubernetes-api");

/// Timeout of one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs a program until standard input closes. The kernel closes it when the test process ends, for any reason.
const UNTIL_THE_END: &str = "folder=$1; shift; \"$@\" & cat > /dev/null; kill -9 $!; wait; \
                             until rm -rf \"$folder\"; do sleep 0.1; done";

/// (File name, user name) of users with a client certificate, besides the administrator.
const USERS: [(&str, &str); 2] = [("coordinator", COORDINATOR), ("viewer", VIEWER)];

/// Suffix of the ID and namespace of the run whose coordinator has a client certificate.
pub const RUN: &str = "rbac";
/// RBAC's user name for the service account of this coordinator.
pub const COORDINATOR: &str =
    "system:serviceaccount:weir-20261126-1450-rbac:weir-20261126-1450-rbac-coordinator";
/// A user that initially has no rights.
pub const VIEWER: &str = "viewer";

pub const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// The resources that [`Api::end_namespaces`] removes with a namespace.
const RESOURCES: [&str; 9] = [
    "api/v1/pods",
    "api/v1/secrets",
    "api/v1/configmaps",
    "api/v1/services",
    "api/v1/serviceaccounts",
    "apis/apps/v1/deployments",
    "apis/batch/v1/jobs",
    "apis/rbac.authorization.k8s.io/v1/rolebindings",
    "apis/rbac.authorization.k8s.io/v1/roles",
];

/// A Kubernetes API.
pub struct Api {
    pub address: SocketAddr,
    pub ca: PathBuf,
    clients: BTreeMap<String, CertificateFiles>,
    admin: Arc<Cluster>,
    requests: Requests,
    /// Dropping the processes closes their standard input, which ends them.
    _processes: Vec<Child>,
}

/// Sends requests that the crate `weir-kube` does not offer: to subresources, and with tokens of other accounts.
#[derive(Clone)]
struct Requests {
    address: SocketAddr,
    agent: ureq::Agent,
    /// The administrator's token.
    token: String,
}

/// The API. The first caller starts it.
pub fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(Api::start)
}

/// An object with a name and a namespace.
pub fn manifest(api_version: &str, kind: &str, namespace: &str, name: &str, more: Value) -> Value {
    let metadata = json!({ "name": name, "namespace": namespace });
    let mut manifest = json!({ "apiVersion": api_version, "kind": kind, "metadata": metadata });
    for (key, value) in more.as_object().unwrap() {
        manifest[key] = value.clone();
    }
    manifest
}

/// A rule of RBAC.
pub fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({ "apiGroups": [group], "resources": resources, "verbs": verbs })
}

impl Api {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("weir-it-").tempdir().unwrap().keep();
        let process = |process: &ProcessSpec| {
            let child = spawned(process, &folder);
            until(&format!("{} is ready", process.name), || process.look().is_ok());
            child
        };
        let drivers = Drivers::load(&[described(&folder)]).unwrap();
        let service = drivers.service("kubernetes-api").unwrap();
        let at = |name: &str| (name.to_owned(), SocketAddr::from(([127, 0, 0, 1], free_port())));
        let binding = ServiceBinding {
            addresses: ["api", "etcd", "etcd_peer"].map(at).into(),
            binaries: service.locate().unwrap(),
            limits: Limits::default(),
            role: Role::Service,
            hosts: Vec::new(),
            set: BTreeMap::new(),
            tokens: 0,
        };
        let rendered = service.render(&binding, &folder.join("service")).unwrap();
        let processes = rendered.processes.iter().map(process).collect();
        let origin = rendered.origin.unwrap();
        let certificates = origin.certificates.unwrap();
        let (address, ca, clients) = (origin.address, certificates.ca, certificates.clients);
        let admin = Arc::new(connection(address, &ca, &clients["admin"]));
        let requests = Requests::new(address, &ca, &admin);
        let controller = requests.clone();
        thread::spawn(move || controller.end_namespaces());
        Self { address, ca, clients, admin, requests, _processes: processes }
    }

    /// A connection of the administrator.
    pub fn admin(&self) -> &Arc<Cluster> {
        &self.admin
    }

    /// A new connection for one of [`USERS`] or `admin`.
    pub fn connect(&self, user: &str) -> Cluster {
        connection(self.address, &self.ca, &self.clients[user])
    }

    /// Creates a namespace and its service account `default`, which a controller creates in a real cluster.
    pub fn namespace(&self, name: &str, labels: Value) {
        let namespace = json!({ "apiVersion": "v1", "kind": "Namespace",
            "metadata": { "name": name, "labels": labels } });
        let account = manifest("v1", "ServiceAccount", name, "default", json!({}));
        self.admin.apply(&[namespace, account], Duration::ZERO).unwrap();
    }

    /// A run in an existing namespace.
    pub fn shared(&self, namespace: &str, run: &str) -> Site {
        self.namespace(namespace, json!({}));
        Site { namespace: namespace.into(), run: format!("20261126-1450-{run}"), ..template() }
    }

    /// A run in a namespace that is created for it, with the service account `default`, which a controller creates in a
    /// real cluster.
    pub fn own(&self, run: &str) -> Site {
        let run = format!("20261126-1450-{run}");
        let site = Site { namespace: Site::own_namespace(&run), is_own: true, run, ..template() };
        let account = manifest("v1", "ServiceAccount", &site.namespace, "default", json!({}));
        self.admin.apply(&[namespace_manifest(&site), account], Duration::ZERO).unwrap();
        site
    }

    /// Creates a service account and returns its token.
    pub fn account(&self, namespace: &str, name: &str) -> String {
        let account = manifest("v1", "ServiceAccount", namespace, name, json!({}));
        self.admin.apply(&[account], Duration::ZERO).unwrap();
        self.admin.token(namespace, name, Duration::from_secs(3600)).unwrap()
    }

    /// Grants `rules` to `subject`, in `namespace` or in the whole cluster.
    pub fn grant(&self, name: &str, namespace: Option<&str>, subject: Value, rules: &[Value]) {
        let prefix = if namespace.is_some() { "" } else { "Cluster" };
        let (role, space) = (format!("{prefix}Role"), namespace.unwrap_or_default());
        let binding = json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name },
            "subjects": [subject],
        });
        let manifests = [
            manifest(RBAC, &role, space, name, json!({ "rules": rules })),
            manifest(RBAC, &format!("{role}Binding"), space, name, binding),
        ];
        self.admin.apply(&manifests, Duration::ZERO).unwrap();
    }

    /// Writes a kubeconfig with one context per (user, token), named like the user. The first context is current.
    pub fn kubeconfig(&self, folder: &Path, tokens: &[(&str, &str)]) -> PathBuf {
        let server = format!("https://{}", self.address);
        let users = tokens.iter().map(|(name, token)| json!({ "name": name, "user": { "token": token } }));
        let context = |name: &str| json!({ "name": name, "context": { "cluster": "it", "user": name } });
        let config = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "it", "cluster": { "server": server, "certificate-authority": self.ca } }],
            "users": users.collect::<Vec<_>>(),
            "contexts": tokens.iter().map(|(name, _)| context(name)).collect::<Vec<_>>(),
            "current-context": tokens[0].0,
        });
        let path = folder.join("kubeconfig");
        fs::write(&path, config.to_string()).unwrap();
        path
    }

    /// The administrator's token.
    pub fn token(&self) -> &str {
        &self.requests.token
    }

    /// The object. Panics if it does not exist.
    pub fn get(&self, object: &Object) -> Value {
        self.admin.get(object).unwrap().unwrap_or_else(|| panic!("{object:?} does not exist"))
    }

    /// The sorted names of objects in a namespace.
    pub fn names(&self, api_version: &str, kind: &str, namespace: &str, labels: &str) -> Vec<String> {
        let found = self.admin.list(&Selected::new(api_version, kind, namespace, labels)).unwrap();
        let mut names: Vec<String> =
            found.iter().map(|of| of["metadata"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    }

    /// Sets the status of an object, as its controller does.
    pub fn set_status(&self, object: &Object, status: &Value) {
        let body = json!({ "status": status });
        let (code, said) = self.request("PATCH", &format!("{}/status", path(object)), Some(&body));
        assert_eq!(code, 200, "{said}");
    }

    /// Sends a request as the administrator. Returns (status, body).
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.requests.send(&self.requests.token, method, path, body)
    }

    /// Sends a request with the token of an account.
    pub fn request_of(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        self.requests.send(token, method, path, body)
    }
}

/// The status of a pod whose containers all run.
pub fn running(address: &str, containers: &[&str]) -> Value {
    let status = |name: &&str| {
        json!({
            "name": name, "ready": true, "restartCount": 0, "image": format!("registry.test/{name}:1"),
            "imageID": format!("registry.test/{name}@sha256:{}", "ab".repeat(32)),
            "containerID": format!("containerd://{name}"), "state": { "running": {} },
        })
    };
    json!({
        "phase": "Running", "podIP": address, "hostIP": "10.0.0.1",
        "containerStatuses": containers.iter().map(status).collect::<Vec<_>>(),
    })
}

fn template() -> Site {
    Site {
        namespace: String::new(),
        is_own: false,
        run: String::new(),
        image: "registry.test/weir:0.1.0".into(),
        has_samplers: false,
    }
}

/// The path of an object in the API.
pub fn path(object: &Object) -> String {
    let root = if object.api_version.contains('/') { "/apis" } else { "/api" };
    let kind = object.kind.to_lowercase();
    let plural = kind.strip_suffix('y').map_or(format!("{kind}s"), |stem| format!("{stem}ies"));
    let space = object.namespace.as_ref().map(|space| format!("/namespaces/{space}")).unwrap_or_default();
    format!("{root}/{}{space}/{plural}/{}", object.api_version, object.name)
}

/// Copies the service, and adds client certificates for [`USERS`]. Returns the folder of the copy.
fn described(folder: &Path) -> PathBuf {
    let own = folder.join("kubernetes-api");
    fs::create_dir(&own).unwrap();
    for file in fs::read_dir(SERVICE).unwrap().map(|entry| entry.unwrap().path()) {
        let mut text = fs::read_to_string(&file).unwrap();
        if file.ends_with("service.yaml") {
            let users = USERS.map(|(name, user)| format!("{name}: {{ name: \"{user}\" }}, "));
            let further =
                text.replace("clients: { admin: ", &format!("clients: {{ {}admin: ", users.concat()));
            assert_ne!(further, text);
            text = further;
        }
        fs::write(own.join(file.file_name().unwrap()), text).unwrap();
    }
    own
}

fn spawned(process: &ProcessSpec, folder: &Path) -> Child {
    let log = File::create(&process.log).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", UNTIL_THE_END, "sh"]).arg(folder).args(&process.command);
    command.envs(process.env.iter().cloned()).current_dir(&process.dir).stdin(Stdio::piped());
    // The processes have a separate process group, so that Ctrl-C ends only the tests. They exit when their input
    // closes.
    command.stdout(log.try_clone().unwrap()).stderr(log).process_group(0).spawn().unwrap()
}

fn connection(address: SocketAddr, ca: &Path, client: &CertificateFiles) -> Cluster {
    let CertificateFiles { certificate, key } = client.clone();
    let access = Access { address, ca: ca.to_owned(), certificate, key };
    Cluster::connect(&access, TIMEOUT, || {}).unwrap()
}

impl Requests {
    fn new(address: SocketAddr, ca: &Path, admin: &Cluster) -> Self {
        let authority = Certificate::from_pem(&fs::read(ca).unwrap()).unwrap();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .root_certs(RootCerts::from([authority]))
            .build();
        let agent = ureq::Agent::config_builder().tls_config(tls).timeout_global(Some(TIMEOUT));
        let agent = agent.http_status_as_error(false).proxy(None).build().new_agent();
        let account = manifest("v1", "ServiceAccount", "default", "weir-it", json!({}));
        let binding = json!({
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": "weir-it", "namespace": "default" }],
        });
        let binding = manifest(RBAC, "ClusterRoleBinding", "", "weir-it", binding);
        let namespace = Object::global("v1", "Namespace", "default");
        until("the API has its first namespace", || admin.get(&namespace).is_ok_and(|of| of.is_some()));
        admin.apply(&[account, binding], Duration::ZERO).unwrap();
        let token = admin.token("default", "weir-it", Duration::from_secs(24 * 3600)).unwrap();
        Self { address, agent, token }
    }

    fn send(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
        let content = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = Request::builder()
            .method(method)
            .uri(format!("https://{}{path}", self.address))
            .header("Authorization", format!("Bearer {token}"))
            .header("Content-Type", content);
        let response = match body {
            Some(body) => self.agent.run(request.body(body.to_string()).unwrap()),
            None => self.agent.run(request.body(()).unwrap()),
        };
        let mut response = response.unwrap();
        let text = response.body_mut().read_to_string().unwrap();
        (response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    /// Removes the objects of deleted namespaces, then the namespaces, like the namespace controller.
    fn end_namespaces(&self) {
        loop {
            let (_, spaces) = self.send(&self.token, "GET", "/api/v1/namespaces", None);
            let ending = spaces["items"].as_array().into_iter().flatten();
            for space in ending.filter(|space| space["metadata"]["deletionTimestamp"].is_string()) {
                let name = space["metadata"]["name"].as_str().unwrap();
                for resource in RESOURCES {
                    let (version, plural) = resource.rsplit_once('/').unwrap();
                    let path = format!("/{version}/namespaces/{name}/{plural}?gracePeriodSeconds=0");
                    self.send(&self.token, "DELETE", &path, None);
                }
                let mut final_one = space.clone();
                final_one["apiVersion"] = json!("v1");
                final_one["kind"] = json!("Namespace");
                final_one["spec"]["finalizers"] = json!([]);
                let path = format!("/api/v1/namespaces/{name}/finalize");
                self.send(&self.token, "PUT", &path, Some(&final_one));
            }
            thread::sleep(Duration::from_millis(200));
        }
    }
}
