//! Reads, creates, patches and deletes objects of any kind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::Value;

use crate::{
    Cluster, KubeError, LOOK_EVERY, Manifest, TIMEOUT, api, group_version_kind, in_words, refused, repeated,
    served, status_of,
};

/// Identifies an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind of the object.
    pub kind: String,
    /// The namespace of the object; `None` for kinds without namespaces.
    pub namespace: Option<String>,
    /// The name of the object.
    pub name: String,
}

/// Selects objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// API group and version, such as `apps/v1`.
    pub api_version: String,
    /// The kind of the objects.
    pub kind: String,
    /// The namespace of the objects; `None` for all namespaces, and for kinds without namespaces.
    pub namespace: Option<String>,
    /// A label selector, such as `app=nginx`.
    pub labels: String,
}

impl Object {
    /// An object in a namespace.
    pub fn new(api_version: &str, kind: &str, namespace: &str, name: &str) -> Self {
        let namespace = Some(namespace.to_owned());
        Self { api_version: api_version.into(), kind: kind.into(), namespace, name: name.into() }
    }

    /// An object of a kind without namespaces.
    pub fn global(api_version: &str, kind: &str, name: &str) -> Self {
        Self { namespace: None, ..Self::new(api_version, kind, "", name) }
    }

    /// The object that a manifest describes; `None` if the manifest lacks `apiVersion`, `kind` or `metadata.name`.
    pub fn of(manifest: &Value) -> Option<Self> {
        let text = |pointer: &str| manifest.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        Some(Self {
            api_version: text("/apiVersion")?,
            kind: text("/kind")?,
            namespace: text("/metadata/namespace"),
            name: text("/metadata/name")?,
        })
    }

    fn manifest(&self) -> Manifest {
        Manifest {
            kind: group_version_kind(&self.api_version, &self.kind),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            content: Value::Null,
        }
    }
}

impl Selected {
    /// Objects in a namespace.
    pub fn new(api_version: &str, kind: &str, namespace: &str, labels: &str) -> Self {
        let namespace = Some(namespace.to_owned());
        Self { api_version: api_version.into(), kind: kind.into(), namespace, labels: labels.into() }
    }

    /// Objects in all namespaces, or of a kind without namespaces.
    pub fn everywhere(api_version: &str, kind: &str, labels: &str) -> Self {
        Self { namespace: None, ..Self::new(api_version, kind, "", labels) }
    }
}

impl Cluster {
    /// Reads the object; `None` if it does not exist.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the API rejects the request or does not respond.
    pub fn get(&self, object: &Object) -> Result<Option<Value>, KubeError> {
        self.get_within(object, self.patience)
    }

    /// As [`Cluster::get`], without retries.
    ///
    /// # Errors
    /// As [`Cluster::get`].
    pub fn get_once(&self, object: &Object) -> Result<Option<Value>, KubeError> {
        self.get_within(object, Duration::ZERO)
    }

    fn get_within(&self, object: &Object, patience: Duration) -> Result<Option<Value>, KubeError> {
        self.act(object.manifest(), patience, |api, manifest| async move {
            let found =
                api.get_opt(&manifest.name).await.map_err(|error| refused("get", &manifest, &error))?;
            found.map(|found| as_value(&found, &manifest)).transpose()
        })
    }

    /// Lists the objects that `selected` matches.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the API rejects the request or does not respond.
    pub fn list(&self, selected: &Selected) -> Result<Vec<Value>, KubeError> {
        self.list_within(selected, self.patience)
    }

    /// As [`Cluster::list`], without retries.
    ///
    /// # Errors
    /// As [`Cluster::list`].
    pub fn list_once(&self, selected: &Selected) -> Result<Vec<Value>, KubeError> {
        self.list_within(selected, Duration::ZERO)
    }

    fn list_within(&self, selected: &Selected, patience: Duration) -> Result<Vec<Value>, KubeError> {
        let Selected { api_version, kind, namespace, labels } = selected.clone();
        let object = Object { api_version, kind, namespace: namespace.clone(), name: labels.clone() };
        let (client, kinds) = (self.client.clone(), Arc::clone(&self.kinds));
        let manifest = object.manifest();
        self.run(async move {
            let (resource, scope) = served(&client, &kinds, &manifest, patience).await?;
            let api: Api<DynamicObject> = match &namespace {
                None => Api::all_with(client.clone(), &resource),
                Some(namespace) => api(&client, &resource, &scope, Some(namespace)),
            };
            let params = ListParams::default().labels(&labels);
            let list =
                || async { api.list(&params).await.map_err(|error| refused("list", &manifest, &error)) };
            let found = repeated(patience, list).await?;
            found.items.iter().map(|item| as_value(item, &manifest)).collect()
        })
    }

    /// Creates the object that `manifest` describes.
    ///
    /// # Errors
    /// [`KubeError::Manifest`], or [`KubeError::Refused`]. If the object already exists, [`KubeError::is_conflict`] is
    /// true for the error.
    pub fn create(&self, manifest: &Value) -> Result<Value, KubeError> {
        let manifest = Manifest::read(manifest).map_err(|why| KubeError::Manifest { number: 1, why })?;
        self.act(manifest, self.patience, |api, manifest| async move {
            let object: DynamicObject = serde_json::from_value(manifest.content.clone())
                .map_err(|error| KubeError::Manifest { number: 1, why: error.to_string() })?;
            let made = api.create(&PostParams::default(), &object).await;
            let made = made.map_err(|error| refused("create", &manifest, &error))?;
            as_value(&made, &manifest)
        })
    }

    /// Merges `change` into the object, as `kubectl patch` does. In built-in kinds, lists such as containers and ports
    /// are merged by key. In custom resources, which have no such keys, lists are replaced.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the API rejects the request or does not respond.
    pub fn patch(&self, object: &Object, change: &Value) -> Result<Value, KubeError> {
        let change = change.clone();
        let is_built_in = !object.api_version.contains('.') || object.api_version.contains(".k8s.io/");
        self.act(object.manifest(), self.patience, move |api, manifest| {
            let change = change.clone();
            async move {
                let patch = if is_built_in { Patch::Strategic(&change) } else { Patch::Merge(&change) };
                let done = api.patch(&manifest.name, &PatchParams::default(), &patch).await;
                as_value(&done.map_err(|error| refused("patch", &manifest, &error))?, &manifest)
            }
        })
    }

    /// Deletes the object and its dependents, and waits up to `patience` until it is gone. A missing object is not an
    /// error.
    ///
    /// # Errors
    /// [`KubeError::Refused`], also if the object still exists after `patience`.
    pub fn remove(&self, object: &Object, patience: Duration) -> Result<(), KubeError> {
        let asked = self.act(object.manifest(), self.patience, |api, manifest| async move {
            match api.delete(&manifest.name, &DeleteParams::background()).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                Err(error) => Err(refused("delete", &manifest, &error)),
            }
        });
        asked?;
        let deadline = Instant::now() + patience;
        while !patience.is_zero() && self.get(object)?.is_some() {
            if Instant::now() >= deadline {
                let what = format!("cannot delete {} {}", object.kind, object.name);
                let why = format!("the object still exists after {} s", patience.as_secs());
                return Err(KubeError::Refused { what, why, status: Some(0) });
            }
            std::thread::sleep(LOOK_EVERY * 4);
        }
        Ok(())
    }

    /// Deletes a pod with a grace period of 1 s, after which the kubelet kills its containers. A missing pod is not an
    /// error.
    ///
    /// With a grace period of 0, the API server removes the pod at once, and the kubelet then ends its containers with
    /// the grace period of the pod's specification. The result is a drain that can take minutes, not a failure.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the API rejects the request or does not respond.
    pub fn kill(&self, namespace: &str, pod: &str) -> Result<(), KubeError> {
        let pod = Object::new("v1", "Pod", namespace, pod);
        self.act(pod.manifest(), self.patience, |api, manifest| async move {
            match api.delete(&manifest.name, &DeleteParams::default().grace_period(1)).await {
                Ok(_) => Ok(()),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                Err(error) => Err(refused("kill", &manifest, &error)),
            }
        })
    }

    /// The version of the API server, such as `v1.36.3`.
    ///
    /// # Errors
    /// [`KubeError::Refused`] if the API does not respond.
    pub fn version(&self) -> Result<String, KubeError> {
        let (client, patience) = (self.client.clone(), self.patience);
        self.run(async move {
            let ask = || async {
                client.apiserver_version().await.map_err(|error| KubeError::Refused {
                    what: "cannot reach the Kubernetes API".into(),
                    why: in_words(&error),
                    status: status_of(&error),
                })
            };
            Ok(repeated(patience, ask).await?.git_version)
        })
    }

    /// Runs `act` on the API resource of the manifest's kind, with retries while the API is unreachable or overloaded.
    fn act<T, W>(
        &self,
        manifest: Manifest,
        patience: Duration,
        act: impl Fn(Api<DynamicObject>, Manifest) -> W + Send + Sync + 'static,
    ) -> Result<T, KubeError>
    where
        T: Send + 'static,
        W: Future<Output = Result<T, KubeError>> + Send + 'static,
    {
        let (client, kinds) = (self.client.clone(), Arc::clone(&self.kinds));
        self.run(async move {
            let (resource, scope) = served(&client, &kinds, &manifest, patience).await?;
            let api = api(&client, &resource, &scope, manifest.namespace.as_deref());
            let once = || {
                let done = act(api.clone(), manifest.clone());
                let what = format!("request for {} {}", manifest.kind.kind, manifest.name);
                async move {
                    // The client has no read timeout, because it also follows logs. So each request is limited here.
                    tokio::time::timeout(TIMEOUT, done).await.unwrap_or_else(|_| Err(unanswered(&what)))
                }
            };
            repeated(patience, once).await
        })
    }
}

fn unanswered(what: &str) -> KubeError {
    let why = format!("no response within {} s", TIMEOUT.as_secs());
    KubeError::Refused { what: what.to_owned(), why, status: None }
}

fn as_value(object: &DynamicObject, manifest: &Manifest) -> Result<Value, KubeError> {
    serde_json::to_value(object).map_err(|error| KubeError::Refused {
        what: format!("{} {}", manifest.kind.kind, manifest.name),
        why: error.to_string(),
        status: Some(0),
    })
}
