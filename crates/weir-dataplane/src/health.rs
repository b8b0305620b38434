//! Health checks of endpoints, on a separate thread. Workers only see which endpoints are healthy.
//!
//! Each endpoint of a backend with checks has a task. When a new table takes effect, tasks that it does not need stop,
//! and missing ones start. The other tasks continue.

use std::collections::HashMap;
use std::fmt::{self, Display, Formatter, Write as _};
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::{AbortHandle, spawn_local};
use tokio_rustls::TlsConnector;
use weir_config::{BackendEntry, HealthCheck, Pages, ProxyVersion, Table, UpstreamAddress, UpstreamTls};
use weir_http::{FieldSlots, HeadLimits, ResponseTo, append_field, append_request_line, parse_response};
use weir_io::mono_ns;

use crate::backend_state::BackendState;
use crate::endpoint_state::EndpointState;
use crate::exhaustion::is_exhausted;
use crate::follower::Follower;
use crate::program_log::seldom;
use crate::proxy_header::append_header;
use crate::upstream_socket::Socket;
use crate::worker::Shared;

/// Maximum number of checks in progress at one time; further checks wait.
const CHECKS_MAX: usize = 64;

/// Each interval varies randomly by at most this share, so that checks of many endpoints do not start together.
const JITTER: f64 = 0.1;

/// Texts of system and TLS errors are cut after this many characters.
const TEXT_MAX: usize = 200;

/// The health checks of a gateway. Dropping this stops them.
#[derive(Debug, Default)]
pub(crate) struct HealthChecks(Follower);

/// The settings of an endpoint's checks.
#[derive(Clone)]
struct CheckSpec {
    check: HealthCheck,
    proxy: Option<ProxyVersion>,
    tls: Option<Arc<UpstreamTls>>,
}

/// One endpoint with health checks.
struct Checked {
    spec: CheckSpec,
    endpoint: Arc<EndpointState>,
    task: AbortHandle,
}

/// Why a check failed.
#[derive(Debug)]
enum CheckFailure {
    TimedOut,
    Status(u16),
    /// The connection ended before the response headers.
    Closed,
    /// The response is not valid HTTP/1.1.
    Malformed,
    /// Connecting, the TLS handshake, or a read or write failed.
    System(io::Error),
}

impl HealthChecks {
    /// Starts the thread if `table` has health checks.
    ///
    /// # Errors
    /// If the thread can't start.
    pub(crate) fn prepare(&self, table: &Table, shared: &Arc<Shared>) -> io::Result<()> {
        if !table.checks_health {
            return Ok(());
        }
        let shared = Arc::clone(shared);
        self.0.start("weir-health", move |looks| keep(looks, shared))
    }

    /// Updates the checks to the active configuration, and to the current addresses of its DNS names.
    pub(crate) fn look(&self) {
        self.0.look();
    }
}

async fn keep(mut looks: UnboundedReceiver<()>, shared: Arc<Shared>) {
    let mut checked = HashMap::new();
    let mut asked: Option<(Pages<BackendEntry>, u64)> = None;
    let places = Rc::new(Semaphore::new(CHECKS_MAX));
    while looks.recv().await.is_some() {
        let (table, names) = (shared.table.load_full(), shared.backends.names.version());
        // Most changes affect routes only and leave the tasks as they are.
        let is_same = |(backends, version): &(Pages<BackendEntry>, u64)| {
            *version == names && backends.shares_all(table.backends())
        };
        if !asked.as_ref().is_some_and(is_same) {
            checked = renew(checked, &table, &shared, &places);
            asked = Some((table.backends().clone(), names));
        }
    }
}

type ByEndpoint = HashMap<(String, UpstreamAddress), Checked>;

/// The tasks that `table` needs. Tasks of `former` with the same settings continue.
fn renew(mut former: ByEndpoint, table: &Table, shared: &Shared, places: &Rc<Semaphore>) -> ByEndpoint {
    let mut checked = HashMap::new();
    for entry in table.backends().iter() {
        let Some(check) = &entry.backend.health else { continue };
        let backend = shared.backends.of(&entry.name);
        let members = shared.backends.members(entry);
        let addresses = members.iter().map(|member| member.address.clone());
        for endpoint in backend.known_endpoints(addresses, table.version) {
            let spec = CheckSpec {
                check: (**check).clone(),
                proxy: entry.backend.proxy_protocol,
                tls: entry.tls.clone(),
            };
            let key = (entry.name.clone(), endpoint.address.clone());
            let task = match former.remove(&key) {
                Some(same) if same.spec.is_same(&spec) => same.task,
                other => {
                    if let Some(other) = other {
                        other.task.abort();
                    }
                    let subject = (Arc::clone(&endpoint), Arc::clone(&backend), entry.name.clone());
                    spawn_local(check_forever(spec.clone(), subject, Rc::clone(places))).abort_handle()
                }
            };
            checked.insert(key, Checked { spec, endpoint, task });
        }
    }
    for gone in former.into_values() {
        gone.task.abort();
        // The endpoint is no longer checked, so no later result would clear its failing state.
        gone.endpoint.set_failing(false, mono_ns());
    }
    checked
}

async fn check_forever(
    spec: CheckSpec,
    (endpoint, backend, name): (Arc<EndpointState>, Arc<BackendState>, String),
    places: Rc<Semaphore>,
) {
    let HealthCheck { interval, healthy, unhealthy, .. } = spec.check;
    let mut in_a_row = 0;
    let mut was_success = None;
    loop {
        // The semaphore is never closed, so this does not fail.
        let Ok(place) = places.acquire().await else { return };
        let asked = spec.run(&endpoint.address).await;
        drop(place);
        if matches!(&asked, Err(CheckFailure::System(error)) if is_exhausted(error)) {
            // This process lacks resources. That says nothing about the endpoint, so the endpoint keeps its state.
            seldom!(
                log::Level::Warn,
                "health checks paused: no file descriptors or memory left; endpoints keep their state"
            );
            tokio::time::sleep(jittered(interval.0)).await;
            continue;
        }
        let failure = asked.err().map(|failure| failure.to_string());
        let is_success = failure.is_none();
        backend.count_check(is_success);
        endpoint.count_check(failure.as_deref());
        in_a_row = if was_success == Some(is_success) { in_a_row + 1 } else { 1u32 };
        was_success = Some(is_success);
        let enough = if is_success { healthy } else { unhealthy };
        if in_a_row >= enough && endpoint.is_failing() == is_success {
            endpoint.set_failing(!is_success, mono_ns());
            let address = &endpoint.address;
            match failure {
                None => log::info!("backend `{name}`: endpoint {address} is healthy again"),
                Some(last) => log::warn!(
                    "backend `{name}`: endpoint {address} is unhealthy; health checks failed in a row: {unhealthy}; last \
                     failure: {last}"
                ),
            }
        }
        tokio::time::sleep(jittered(interval.0)).await;
    }
}

fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(1.0 - JITTER + 2.0 * JITTER * fastrand::f64())
}

impl CheckSpec {
    fn is_same(&self, other: &CheckSpec) -> bool {
        self.check == other.check
            && self.proxy == other.proxy
            && self.tls.as_ref().map(Arc::as_ptr) == other.tls.as_ref().map(Arc::as_ptr)
    }

    async fn run(&self, endpoint: &UpstreamAddress) -> Result<(), CheckFailure> {
        let outcome = tokio::time::timeout(self.check.timeout.0, self.probe(endpoint)).await;
        outcome.unwrap_or(Err(CheckFailure::TimedOut))
    }

    async fn probe(&self, endpoint: &UpstreamAddress) -> Result<(), CheckFailure> {
        let mut stream = Socket::connect(endpoint).await?;
        let Some(path) = &self.check.path else { return Ok(()) };
        if let Some(version) = self.proxy {
            let mut header = Vec::new();
            append_header(version, None, &mut header);
            stream.write_all(&header).await?;
        }
        let request = self.request(path, endpoint);
        match &self.tls {
            None => expect_success(&mut stream, &request).await,
            Some(tls) => {
                let connector = TlsConnector::from(Arc::clone(&tls.config));
                let mut stream = connector.connect(tls.name(endpoint), stream).await?;
                expect_success(&mut stream, &request).await
            }
        }
    }

    fn request(&self, path: &str, endpoint: &UpstreamAddress) -> Vec<u8> {
        let mut request = Vec::new();
        append_request_line(&mut request, "GET", path);
        match &self.check.host {
            Some(host) => append_field(&mut request, "Host", host.as_bytes()),
            None => append_field(&mut request, "Host", endpoint.host().as_bytes()),
        }
        append_field(&mut request, "User-Agent", b"weir-gateway health check");
        append_field(&mut request, "Connection", b"close");
        request.extend_from_slice(b"\r\n");
        request
    }
}

impl Display for CheckFailure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            CheckFailure::TimedOut => f.write_str("timed out"),
            CheckFailure::Status(status) => write!(f, "status {status}"),
            CheckFailure::Closed => f.write_str("connection closed before a response"),
            CheckFailure::Malformed => f.write_str("malformed HTTP/1.1 response"),
            // A certificate error can list any number of host names.
            CheckFailure::System(error) => {
                error.to_string().chars().take(TEXT_MAX).try_for_each(|c| f.write_char(c))
            }
        }
    }
}

impl From<io::Error> for CheckFailure {
    fn from(error: io::Error) -> CheckFailure {
        CheckFailure::System(error)
    }
}

/// Sends the request and waits for the final response. A status from 200 to 399 is a success.
async fn expect_success<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    request: &[u8],
) -> Result<(), CheckFailure> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(CheckFailure::Closed);
        }
        while !answer.is_empty() {
            let mut slots = FieldSlots::new();
            let head = match parse_response(&answer, ResponseTo::Other, &HeadLimits::default(), &mut slots) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(_) => return Err(CheckFailure::Malformed),
            };
            if !head.interim {
                return match head.status {
                    200..400 => Ok(()),
                    status => Err(CheckFailure::Status(status)),
                };
            }
            let head_len = head.head_len;
            answer.drain(..head_len);
        }
    }
}
