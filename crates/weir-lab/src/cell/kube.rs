//! Connects to the Kubernetes APIs of services and gateways. Needs the feature `kubernetes`.

use serde_json::Value;
use weir_rig::{AwaitedObject, KubeEndpoint, Namespace, Tokens};

use super::error::CellError;
#[cfg(not(feature = "kubernetes"))]
use super::error::failed;
use super::network::parsed_address;

/// Whether this build supports Kubernetes APIs.
pub(crate) const IS_SUPPORTED: bool = cfg!(feature = "kubernetes");

/// A connection to a Kubernetes API.
#[derive(Debug)]
pub(crate) struct KubeClient {
    #[cfg(feature = "kubernetes")]
    cluster: weir_kube::Cluster,
    /// Name of the service or gateway that has the API, for errors.
    part: String,
}

impl KubeClient {
    /// Connects to the API of `part` from the network namespace `namespace`; `None` means the network of the host.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn connect(
        part: &str,
        endpoint: &KubeEndpoint,
        namespace: Option<&Namespace>,
    ) -> Result<Self, CellError> {
        let KubeEndpoint { address, ca, certificate, key } = endpoint.clone();
        let access = weir_kube::Access { address, ca, certificate, key };
        let cluster =
            weir_kube::Cluster::connect(&access, weir_kube::TIMEOUT, Namespace::entering(namespace))
                .map_err(|error| refused(part, &error))?;
        Ok(Self { cluster, part: part.to_owned() })
    }

    #[cfg(not(feature = "kubernetes"))]
    pub(crate) fn connect(part: &str, _: &KubeEndpoint, _: Option<&Namespace>) -> Result<Self, CellError> {
        let message = format!("{part}: this build of weir lacks the feature `kubernetes`");
        Err(failed("render", &message, "build weir with `--features kubernetes`", ""))
    }

    /// Applies manifests server-side.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn apply(&self, manifests: &[Value]) -> Result<(), CellError> {
        self.cluster.apply(manifests, weir_kube::TIMEOUT).map_err(|error| refused(&self.part, &error))
    }

    /// Deletes the objects of manifests.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn delete(&self, manifests: &[Value]) -> Result<(), CellError> {
        self.cluster.delete(manifests).map_err(|error| refused(&self.part, &error))
    }

    /// Waits until an object exists and meets its condition.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn wait(&self, awaited: &AwaitedObject) -> Result<(), CellError> {
        let AwaitedObject { api_version, kind, namespace, name, condition, patience } = awaited.clone();
        let awaited = weir_kube::Awaited { api_version, kind, namespace, name, condition };
        self.cluster.wait(&awaited, patience).map_err(|error| refused(&self.part, &error))
    }

    /// Creates one token per service account, valid for 24 hours, which is longer than a cell.
    #[cfg(feature = "kubernetes")]
    pub(crate) fn tokens(&self, tokens: &Tokens) -> Result<Vec<String>, CellError> {
        const LIFETIME: std::time::Duration = std::time::Duration::from_secs(24 * 3600);
        let token = |account: &String| self.cluster.token(&tokens.namespace, account, LIFETIME);
        let made = tokens.accounts.iter().map(token).collect::<Result<_, _>>();
        made.map_err(|error| refused(&self.part, &error))
    }
}

#[cfg(not(feature = "kubernetes"))]
impl KubeClient {
    pub(crate) fn apply(&self, _: &[Value]) -> Result<(), CellError> {
        self.never()
    }

    pub(crate) fn delete(&self, _: &[Value]) -> Result<(), CellError> {
        self.never()
    }

    pub(crate) fn wait(&self, _: &AwaitedObject) -> Result<(), CellError> {
        self.never()
    }

    pub(crate) fn tokens(&self, _: &Tokens) -> Result<Vec<String>, CellError> {
        self.never()
    }

    fn never(&self) -> ! {
        unreachable!("this build of weir cannot connect to {}", self.part)
    }
}

#[cfg(feature = "kubernetes")]
fn refused(part: &str, error: &weir_kube::KubeError) -> CellError {
    CellError::Refused { part: part.to_owned(), why: error.to_string() }
}

/// The address and credentials of a service's API, from the outputs of the service.
pub(crate) fn endpoint_of(
    service: &str,
    output: impl Fn(&str) -> Result<String, CellError>,
) -> Result<KubeEndpoint, CellError> {
    let address = parsed_address(service, &output("address")?, "{{ api }}")?;
    let file = |name: &str| Ok::<_, CellError>(output(name)?.into());
    Ok(KubeEndpoint { address, ca: file("ca")?, certificate: file("certificate")?, key: file("key")? })
}
