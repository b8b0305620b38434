//! Reads cAdvisor's metrics from kubelets: the resources that the containers on a node use.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::{HeaderMap, Request, Uri};
use k8s_openapi::jiff::fmt::rfc2822;
use kube::Client;
use kube::client::Body;
use tokio::runtime::Runtime;

use crate::{Cluster, KubeError, in_words, run};

/// The port on which kubelets listen.
const PORT: u16 = 10250;

/// The path of cAdvisor's metrics.
const PATH: &str = "/metrics/cadvisor";

/// A client of the kubelet of one node.
pub struct Kubelet {
    client: Client,
    runtime: Arc<Runtime>,
    address: SocketAddr,
}

/// A response of a kubelet with cAdvisor's metrics, and its times.
#[derive(Clone, Debug)]
pub struct Page {
    /// The metrics, in the text format of Prometheus.
    pub text: String,
    /// The `Date` header of the response, which is the node's clock rounded down to a second; `None` if it is missing
    /// or malformed.
    pub date: Option<SystemTime>,
    /// When the request was sent.
    pub asked: Instant,
    /// When the response headers arrived. The kubelet read the clock for `date` between `asked` and `answered`.
    pub answered: Instant,
}

impl Cluster {
    /// Creates a client of the kubelet on the node with the IP `node`, with the credentials of this cluster. Sends no
    /// request.
    ///
    /// The client accepts any certificate, because most kubelets have a self-signed one. So it sends the credentials to
    /// any server on port 10250 of `node`: use only addresses that the cluster itself reports for its nodes.
    ///
    /// # Errors
    /// [`KubeError::Connect`] if the credentials cannot be used.
    pub fn kubelet(&self, node: IpAddr) -> Result<Kubelet, KubeError> {
        let address = SocketAddr::new(node, PORT);
        let failed = |why: String| KubeError::Connect { address: address.to_string(), why };
        let mut config = self.config.clone();
        config.cluster_url =
            format!("https://{address}").parse::<Uri>().map_err(|error| failed(error.to_string()))?;
        config.accept_invalid_certs = true;
        config.tls_server_name = None;
        // Disables retries: with a retry, the time between `asked` and `answered` would cover several requests.
        config.default_retry = false;
        let _inside = self.runtime.enter();
        let client = Client::try_from(config).map_err(|error| failed(in_words(&error)))?;
        Ok(Kubelet { client, runtime: Arc::clone(&self.runtime), address })
    }
}

impl Kubelet {
    /// The address of the kubelet.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Reads cAdvisor's metrics. This requires the permission `get nodes/metrics`; without it,
    /// [`KubeError::is_forbidden`] is true for the error.
    ///
    /// # Errors
    /// [`KubeError::Refused`], also if the response takes longer than `timeout`.
    pub fn cadvisor(&self, timeout: Duration) -> Result<Page, KubeError> {
        let client = self.client.clone();
        let read = run(&self.runtime, async move { tokio::time::timeout(timeout, page(&client)).await });
        let read = read.unwrap_or_else(|_| Err(Failure::of(format!("no response within {timeout:?}"))));
        read.map_err(|Failure { why, status }| {
            let what = format!("cannot read {PATH} of the kubelet at {}", self.address);
            KubeError::Refused { what, why, status }
        })
    }
}

impl std::fmt::Debug for Kubelet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kubelet").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Why the metrics could not be read.
struct Failure {
    why: String,
    /// The HTTP status; `None` if there was no response.
    status: Option<u16>,
}

impl Failure {
    fn of(why: String) -> Self {
        Self { why, status: None }
    }
}

async fn page(client: &Client) -> Result<Page, Failure> {
    let failed = |error: kube::Error| Failure::of(in_words(&error));
    let request = Request::get(PATH).body(Body::empty()).map_err(|error| Failure::of(error.to_string()))?;
    let asked = Instant::now();
    let response = client.send(request).await.map_err(failed)?;
    let answered = Instant::now();
    let (status, date) = (response.status(), date(response.headers()));
    let body = response.into_body().collect_bytes().await.map_err(failed)?;
    let text = String::from_utf8_lossy(&body);
    if status.is_success() {
        return Ok(Page { text: text.into_owned(), date, asked, answered });
    }
    let status = status.as_u16();
    // The error of the kubelet names the missing permission: user, verb, resource.
    let said: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
    let why = if said.is_empty() {
        format!("HTTP status {status}")
    } else {
        format!("HTTP status {status}: {said}")
    };
    Err(Failure { why, status: Some(status) })
}

fn date(headers: &HeaderMap) -> Option<SystemTime> {
    let text = headers.get(http::header::DATE)?.to_str().ok()?;
    rfc2822::parse(text).ok().map(|date| date.timestamp().into())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn check(text: &str, expected_s: Option<u64>) {
        let value = HeaderValue::from_str(text).expect("it is a value");
        let headers = HeaderMap::from_iter([(http::header::DATE, value)]);
        let expected = expected_s.map(|s| SystemTime::UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(date(&headers), expected, "{text}");
    }

    #[test]
    fn the_clock_of_a_node_is_in_its_responses() {
        check("Thu, 26 Nov 2026 15:18:16 GMT", Some(1_795_706_296));
        check("Thu, 1 Jan 1970 00:00:01 GMT", Some(1));
        check("yesterday", None);
        assert_eq!(date(&HeaderMap::new()), None);
    }

    #[test]
    fn only_a_status_shows_a_missing_permission() {
        let refused = |status| KubeError::Refused { what: "a".into(), why: "b".into(), status };
        assert!(refused(Some(401)).is_forbidden() && refused(Some(403)).is_forbidden());
        assert!(!refused(Some(503)).is_forbidden() && !refused(None).is_forbidden());
    }
}
