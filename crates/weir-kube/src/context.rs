//! Connects to the cluster of a kubeconfig context, or, inside a pod, to the cluster of the pod.

use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::{Cluster, KubeError, TIMEOUT, runtime};

/// Where a client gets a cluster's address and credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Context {
    /// The current context of the kubeconfig (`KUBECONFIG`, or `~/.kube/config`).
    Current,
    /// The context of the kubeconfig with this name.
    Named(String),
    /// The service account of the pod in which this process runs.
    Inside,
}

impl Context {
    /// The name of the context in error messages.
    fn words(&self) -> String {
        match self {
            Self::Current => "the current context".into(),
            Self::Named(name) => format!("context `{name}`"),
            Self::Inside => "the cluster of this pod".into(),
        }
    }
}

impl Cluster {
    /// Creates a client of the cluster that `context` selects, without sending a request.
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
                        true => "the kubeconfig contains no contexts".to_owned(),
                        false => format!("known contexts: {}", contexts.join(", ")),
                    };
                    return Err(failed(format!("the kubeconfig has no context `{name}`; {there}")));
                }
                let options = KubeConfigOptions { context: name, ..KubeConfigOptions::default() };
                runtime
                    .block_on(Config::from_custom_kubeconfig(read, &options))
                    .map_err(|error| failed(error.to_string()))?
            }
        };
        // No read timeout: it would end a followed log that has no new lines for a while.
        config.connect_timeout = Some(Duration::from_secs(10));
        config.write_timeout = Some(TIMEOUT);
        let address = config.cluster_url.to_string();
        Self::start(config, &address, runtime)
    }
}
