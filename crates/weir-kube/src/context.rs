//! Connections by a context of the kubeconfig, or from inside a pod.

use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::{Cluster, KubeError, TIMEOUT, runtime};

/// Source of a cluster's address and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// The current context of the kubeconfig (`KUBECONFIG`, or `~/.kube/config`).
    Current,
    /// A context of the kubeconfig with this name.
    Named(String),
    /// The service account of this process's pod.
    Inside,
}

impl Context {
    /// Its name in messages.
    fn words(&self) -> String {
        match self {
            Self::Current => "the current context".into(),
            Self::Named(name) => format!("context `{name}`"),
            Self::Inside => "the cluster of this pod".into(),
        }
    }
}

impl Cluster {
    /// Prepares a connection to the cluster of `context`.
    ///
    /// # Errors
    /// [`KubeError::Connect`] if there is no such context, or its credentials cannot be read.
    pub fn of(context: &Context) -> Result<Self, KubeError> {
        let failed = |why: String| KubeError::Connect { address: context.words(), why };
        let runtime = runtime(|| {}).map_err(failed)?;
        let mut config = match context {
            Context::Inside => Config::incluster().map_err(|error| failed(error.to_string()))?,
            Context::Current | Context::Named(_) => {
                let read = Kubeconfig::read().map_err(|error| failed(error.to_string()))?;
                let name = match context {
                    Context::Named(name) => Some(name.clone()),
                    _ => None,
                };
                let contexts: Vec<&str> = read.contexts.iter().map(|context| context.name.as_str()).collect();
                if let Some(name) = name.as_deref().filter(|name| !contexts.contains(name)) {
                    let there = match contexts.is_empty() {
                        true => "it has no contexts".to_owned(),
                        false => format!("its contexts: {}", contexts.join(", ")),
                    };
                    return Err(failed(format!("the kubeconfig has no context `{name}`; {there}")));
                }
                let options = KubeConfigOptions { context: name, ..KubeConfigOptions::default() };
                runtime
                    .block_on(Config::from_custom_kubeconfig(read, &options))
                    .map_err(|error| failed(error.to_string()))?
            }
        };
        // A read timeout would end a followed log that has no new lines.
        config.connect_timeout = Some(Duration::from_secs(10));
        config.write_timeout = Some(TIMEOUT);
        let address = config.cluster_url.to_string();
        Self::start(config, &address, runtime)
    }
}
