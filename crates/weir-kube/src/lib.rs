//! A blocking client of the Kubernetes API. It reads, applies (server-side), patches and deletes objects, waits for
//! conditions, reads logs of pods, and creates tokens of service accounts.

mod context;
mod kubelet;
mod log;
mod objects;
mod pod;

use std::collections::HashMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use context::Context;
pub use kubelet::{Kubelet, Page};
pub use log::LogLines;
pub use objects::{Object, Selected};
pub use pod::{PodFailure, PodState, pod_state};

use http::Uri;
use kube::api::{Api, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::config::AuthInfo;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Time limit for one request.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The field manager for server-side apply.
const MANAGER: &str = "weir";

/// Maximum number of objects of one kind that are applied or deleted at the same time.
const AT_ONCE: usize = 16;

/// The pause between two checks of an object, or of a kind that the API does not serve yet.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A failed request to the API.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The client could not be created: for example, a certificate cannot be read.
    #[error("cannot connect to the Kubernetes API at {address}: {why}")]
    Connect {
        /// The address, or the name of the kubeconfig's context.
        address: String,
        /// The cause.
        why: String,
    },
    /// A manifest is not an object with `apiVersion`, `kind` and `metadata.name`.
    #[error("manifest {number}: {why}")]
    Manifest {
        /// Position of the manifest, from 1.
        number: usize,
        /// What is wrong with the manifest.
        why: String,
    },
    /// The API rejected a request, or did not respond in time.
    #[error("{what}: {why}")]
    Refused {
        /// The failed operation.
        what: String,
        /// The cause.
        why: String,
        /// The HTTP status; `None` if there was no response.
        status: Option<u16>,
    },
}

impl KubeError {
    /// Whether the API rejected the request because the caller lacks permission.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { status: Some(401 | 403), .. }) && !self.is_against_policy()
    }

    /// Whether a resource quota, Pod Security or another policy forbids the object, whoever the caller is.
    pub fn is_against_policy(&self) -> bool {
        const SAID: [&str; 4] =
            ["exceeded quota", "violates PodSecurity", "admission webhook", "ValidatingAdmissionPolicy"];
        matches!(self, Self::Refused { why, .. } if SAID.iter().any(|said| why.contains(said)))
    }

    /// Whether the object already exists, or another client changed it at the same time (HTTP status 409).
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: Some(409), .. })
    }

    /// Whether a retry may succeed: the API is unreachable or overloaded.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Refused { status: None | Some(429 | 500..), .. })
    }
}

/// Address and credentials of a Kubernetes API.
#[derive(Clone, Debug)]
pub struct Access {
    /// The address of the API server. The server's certificate must contain the IP.
    pub address: SocketAddr,
    /// PEM file with the certificate of the CA that signed the server's certificate.
    pub ca: PathBuf,
    /// PEM file with the client certificate.
    pub certificate: PathBuf,
    /// PEM file with the key of the client certificate.
    pub key: PathBuf,
}

/// An object to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Awaited {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object; `None` for the default namespace, and for kinds without namespaces.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
    /// The type of a condition that must be `True`; `None` if it is enough that the object exists.
    pub condition: Option<String>,
}

/// A client of one Kubernetes API.
pub struct Cluster {
    client: Client,
    /// The configuration of `client`. Clients of kubelets are created from it, with the same credentials.
    config: Config,
    runtime: Arc<Runtime>,
    /// The kinds that were already looked up.
    kinds: Kinds,
    /// How long requests are retried while the API is unreachable or overloaded.
    patience: Duration,
}

/// The API resource of each kind, and whether it is namespaced.
type Kinds = Arc<Mutex<HashMap<GroupVersionKind, (ApiResource, Scope)>>>;

/// A manifest with its kind and name.
#[derive(Clone, Debug)]
struct Manifest {
    kind: GroupVersionKind,
    namespace: Option<String>,
    name: String,
    content: Value,
}

impl Cluster {
    /// Creates a client, without sending a request. `timeout` limits connecting and each read and write. `at_start`
    /// runs first on the client's thread, for example to enter a network namespace.
    ///
    /// # Errors
    /// [`KubeError::Connect`] if a file cannot be used. If the address is unreachable, the first request fails.
    pub fn connect(
        access: &Access,
        timeout: Duration,
        at_start: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, KubeError> {
        let address = access.address.to_string();
        let failed = |why: String| KubeError::Connect { address: address.clone(), why };
        let uri: Uri = format!("https://{}", access.address)
            .parse()
            .map_err(|error: http::uri::InvalidUri| failed(error.to_string()))?;
        let text = |path: &PathBuf| Some(path.display().to_string());
        let mut config = Config::new(uri);
        config.root_cert_file = Some(access.ca.clone());
        config.auth_info = AuthInfo {
            client_certificate: text(&access.certificate),
            client_key: text(&access.key),
            ..AuthInfo::default()
        };
        config.connect_timeout = Some(timeout);
        config.read_timeout = Some(timeout);
        config.write_timeout = Some(timeout);
        let runtime = runtime(at_start).map_err(failed)?;
        Self::start(config, &address, runtime)
    }

    fn start(mut config: Config, address: &str, runtime: Runtime) -> Result<Self, KubeError> {
        // Disables the retries of the library, which would retry a rejected eviction for minutes. `Cluster::patient`
        // enables weir's own retries.
        config.default_retry = false;
        let client = {
            let _inside = runtime.enter();
            Client::try_from(config.clone())
                .map_err(|error| KubeError::Connect { address: address.to_owned(), why: in_words(&error) })?
        };
        let (runtime, kinds) = (Arc::new(runtime), Kinds::default());
        Ok(Self { client, config, runtime, kinds, patience: Duration::ZERO })
    }

    /// The URL of the API.
    pub fn address(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// Makes the client retry requests for up to `patience` while the API is unreachable or overloaded.
    #[must_use]
    pub fn patient(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Applies manifests server-side, and takes over fields of other field managers. Adjacent manifests of the same
    /// kind are applied concurrently; otherwise, the order is kept. If the API does not serve a kind yet, because its
    /// definition was just applied, waits for up to `patience`.
    ///
    /// # Errors
    /// [`KubeError::Manifest`] and [`KubeError::Refused`]. Other manifests may already have been applied.
    pub fn apply(&self, manifests: &[Value], patience: Duration) -> Result<(), KubeError> {
        let params = PatchParams::apply(MANAGER).force();
        self.each(manifests, patience, move |api, manifest| {
            let params = params.clone();
            async move {
                let done = api.patch(&manifest.name, &params, &Patch::Apply(&manifest.content)).await;
                done.map(drop).map_err(|error| refused("apply", &manifest, &error))
            }
        })
    }

    /// Deletes the objects that `manifests` describe, without waiting until they are gone. A missing object is not an
    /// error.
    ///
    /// # Errors
    /// As [`Cluster::apply`].
    pub fn delete(&self, manifests: &[Value]) -> Result<(), KubeError> {
        self.each(manifests, Duration::ZERO, |api, manifest| async move {
            match api.delete(&manifest.name, &DeleteParams::default()).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                Err(error) => Err(refused("delete", &manifest, &error)),
            }
        })
    }

    /// Waits until an object exists and, if `awaited` names a condition, until this condition is `True`.
    ///
    /// # Errors
    /// [`KubeError::Refused`] after `patience`, with the last state of the object.
    pub fn wait(&self, awaited: &Awaited, patience: Duration) -> Result<(), KubeError> {
        let (client, awaited) = (self.client.clone(), awaited.clone());
        self.run(async move {
            let deadline = Instant::now() + patience;
            loop {
                let why = match look(&client, &awaited).await {
                    Ok(()) => return Ok(()),
                    Err(why) => why,
                };
                if Instant::now() >= deadline {
                    let what = format!("{} {} is not ready after {patience:?}", awaited.kind, awaited.name);
                    return Err(KubeError::Refused { what, why, status: None });
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        })
    }

    /// Creates a token for a service account. The token is valid for `lifetime`, which must be at least ten minutes.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the API rejects the request.
    pub fn token(&self, namespace: &str, account: &str, lifetime: Duration) -> Result<String, KubeError> {
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": { "expirationSeconds": lifetime.as_secs() },
        });
        let what = format!("cannot create a token for service account {namespace}/{account}");
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
        let response = self.post(&what, &path, &body)?;
        let token = response.pointer("/status/token").and_then(Value::as_str);
        token.map(str::to_owned).ok_or_else(|| KubeError::Refused {
            what,
            why: "the response has no token".into(),
            status: None,
        })
    }

    /// Evicts a pod: Kubernetes checks disruption budgets first, and then ends the pod with its grace period.
    ///
    /// # Errors
    /// [`KubeError::Refused`], with status 429 if a disruption budget forbids the eviction now.
    pub fn evict(&self, namespace: &str, pod: &str) -> Result<(), KubeError> {
        let body = json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": { "namespace": namespace, "name": pod },
        });
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}/eviction");
        self.post(&format!("cannot evict pod {namespace}/{pod}"), &path, &body).map(drop)
    }

    /// Sends a POST to the subresource at `path`. Errors start with `what`, the failed operation.
    fn post(&self, what: &str, path: &str, body: &Value) -> Result<Value, KubeError> {
        let failed = |why: String, status| KubeError::Refused { what: what.to_owned(), why, status };
        let request = http::Request::post(path)
            .header("Content-Type", "application/json")
            .body(body.to_string().into_bytes())
            .map_err(|error| failed(error.to_string(), None))?;
        let client = self.client.clone();
        let response = self.run(async move { client.request::<Value>(request).await });
        response.map_err(|error| failed(in_words(&error), status_of(&error)))
    }

    /// Runs `act` for each manifest: concurrently for adjacent manifests of the same kind, otherwise in order.
    fn each<F, W>(&self, manifests: &[Value], patience: Duration, act: F) -> Result<(), KubeError>
    where
        F: Fn(Api<DynamicObject>, Manifest) -> W + Send + Sync + 'static,
        W: Future<Output = Result<(), KubeError>> + Send + 'static,
    {
        let read = |(at, content): (usize, &Value)| {
            Manifest::read(content).map_err(|why| KubeError::Manifest { number: at + 1, why })
        };
        let manifests: Vec<Manifest> = manifests.iter().enumerate().map(read).collect::<Result<_, _>>()?;
        let (client, kinds, until) = (self.client.clone(), Arc::clone(&self.kinds), self.patience);
        let act = Arc::new(act);
        self.run(async move {
            for neighbours in manifests.chunk_by(|one, other| one.kind == other.kind) {
                let (resource, scope) = served(&client, &kinds, &neighbours[0], patience.max(until)).await?;
                let places = Arc::new(Semaphore::new(AT_ONCE));
                let mut tasks = JoinSet::new();
                for manifest in neighbours.iter().cloned() {
                    let api = api(&client, &resource, &scope, manifest.namespace.as_deref());
                    let (act, places) = (Arc::clone(&act), Arc::clone(&places));
                    tasks.spawn(async move {
                        // This cannot fail, because the semaphore is never closed.
                        let _place = places.acquire_owned().await;
                        repeated(until, || act(api.clone(), manifest.clone())).await
                    });
                }
                while let Some(done) = tasks.join_next().await {
                    done.unwrap_or_else(|error| {
                        let why = error.to_string();
                        Err(KubeError::Refused { what: "a task".into(), why, status: None })
                    })?;
                }
            }
            Ok(())
        })
    }

    /// Runs `work` on the client's thread. Sockets must be opened on this thread, because it can be in another network
    /// namespace.
    fn run<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> T {
        run(&self.runtime, work)
    }
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").finish_non_exhaustive()
    }
}

impl Manifest {
    fn read(content: &Value) -> Result<Self, String> {
        let text =
            |pointer: &str| content.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
        let missing = |field: &str| format!("`{field}` is missing");
        let api_version = text("/apiVersion").ok_or_else(|| missing("apiVersion"))?;
        let kind = text("/kind").ok_or_else(|| missing("kind"))?;
        let name = text("/metadata/name").ok_or_else(|| missing("metadata.name"))?;
        Ok(Self {
            kind: group_version_kind(api_version, kind),
            namespace: text("/metadata/namespace").map(str::to_owned),
            name: name.to_owned(),
            content: content.clone(),
        })
    }
}

/// Returns group, version and kind. `api_version` is `apps/v1`, for example, or `v1` for the core group.
fn group_version_kind(api_version: &str, kind: &str) -> GroupVersionKind {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    GroupVersionKind::gvk(group, version, kind)
}

/// Runs `work` on the thread of `runtime`, and waits for its result.
fn run<T: Send + 'static>(runtime: &Runtime, work: impl Future<Output = T> + Send + 'static) -> T {
    let task = runtime.spawn(work);
    match runtime.block_on(task) {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A runtime with one thread, on which `at_start` runs first.
fn runtime(at_start: impl Fn() + Send + Sync + 'static) -> Result<Runtime, String> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("kubernetes").on_thread_start(at_start).enable_all();
    builder.build().map_err(|error| error.to_string())
}

/// Retries `act` for up to `patience` while the API is unreachable or overloaded.
async fn repeated<T, W>(patience: Duration, act: impl Fn() -> W) -> Result<T, KubeError>
where
    W: Future<Output = Result<T, KubeError>>,
{
    const PAUSE: Duration = Duration::from_millis(500);
    let deadline = Instant::now() + patience;
    loop {
        match act().await {
            Err(error) if error.is_transient() && Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}

/// The API resource of the manifest's kind. If the API does not serve the kind yet, waits for up to `patience`.
async fn served(
    client: &Client,
    kinds: &Kinds,
    manifest: &Manifest,
    patience: Duration,
) -> Result<(ApiResource, Scope), KubeError> {
    let known = || kinds.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = known().get(&manifest.kind) {
        return Ok(found.clone());
    }
    let deadline = Instant::now() + patience;
    loop {
        match pinned_kind(client, &manifest.kind).await {
            Ok((resource, capabilities)) => {
                let found = (resource, capabilities.scope);
                known().insert(manifest.kind.clone(), found.clone());
                return Ok(found);
            }
            Err(error) if Instant::now() >= deadline => {
                return Err(refused("find the API for", manifest, &error));
            }
            Err(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
}

fn api(
    client: &Client,
    resource: &ApiResource,
    scope: &Scope,
    namespace: Option<&str>,
) -> Api<DynamicObject> {
    match (scope, namespace) {
        (Scope::Cluster, _) => Api::all_with(client.clone(), resource),
        (Scope::Namespaced, None) => Api::default_namespaced_with(client.clone(), resource),
        (Scope::Namespaced, Some(namespace)) => Api::namespaced_with(client.clone(), namespace, resource),
    }
}

/// Checks once whether the object exists and meets its condition. The error describes the current state.
async fn look(client: &Client, awaited: &Awaited) -> Result<(), String> {
    let kind = group_version_kind(&awaited.api_version, &awaited.kind);
    let (resource, capabilities) = pinned_kind(client, &kind).await.map_err(|error| in_words(&error))?;
    let api = api(client, &resource, &capabilities.scope, awaited.namespace.as_deref());
    let object = api.get(&awaited.name).await.map_err(|error| in_words(&error))?;
    let Some(condition) = &awaited.condition else { return Ok(()) };
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let found = conditions.into_iter().flatten().find(|of| of["type"] == condition.as_str());
    match found.and_then(|found| found["status"].as_str()) {
        Some("True") => Ok(()),
        Some(status) => Err(format!("condition {condition} is {status}")),
        None => Err(format!("the object has no condition {condition}")),
    }
}

fn refused(verb: &str, manifest: &Manifest, error: &kube::Error) -> KubeError {
    let place = manifest.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
    let what = format!("cannot {verb} {} {place}{}", manifest.kind.kind, manifest.name);
    KubeError::Refused { what, why: in_words(error), status: status_of(error) }
}

/// The HTTP status with which the API rejected a request; `None` if there was no response.
fn status_of(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

/// The message of the API, or the innermost cause of the error if there was no response.
fn in_words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    match innermost.to_string() {
        cause if cause.is_empty() => error.to_string(),
        cause => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manifests_need_a_kind_and_a_name() {
        let check = |content: Value, expected: Result<(&str, &str, Option<&str>, &str), &str>| {
            let read = Manifest::read(&content);
            let read = read.as_ref().map(|manifest| {
                let kind = &manifest.kind;
                (
                    kind.group.as_str(),
                    kind.version.as_str(),
                    manifest.namespace.as_deref(),
                    manifest.name.as_str(),
                )
            });
            assert_eq!(read.map_err(String::as_str), expected, "{content}");
        };
        let config_map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "namespace": "n" } });
        check(config_map, Ok(("", "v1", Some("n"), "a")));
        let grouped = json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "a" } });
        check(grouped, Ok(("apps", "v1", None, "a")));
        check(json!({ "kind": "ConfigMap" }), Err("`apiVersion` is missing"));
        check(
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {} }),
            Err("`metadata.name` is missing"),
        );
        check(json!("text"), Err("`apiVersion` is missing"));
    }

    #[test]
    fn missing_files_and_unreachable_servers_are_errors() {
        let path = |name: &str| PathBuf::from(format!("/nonexistent/{name}"));
        let address: SocketAddr = "127.0.0.1:1".parse().expect("it is one");
        let access = Access { address, ca: path("ca"), certificate: path("client"), key: path("client.key") };
        let error = Cluster::connect(&access, Duration::from_secs(1), || {}).expect_err("no file is there");
        assert!(
            error.to_string().starts_with("cannot connect to the Kubernetes API at 127.0.0.1:1: "),
            "{error}"
        );
    }
}
