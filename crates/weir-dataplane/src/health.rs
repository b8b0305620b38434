//! Checks of endpoints, on a thread of its own: a worker knows of them only what is in and what is out.
//!
//! Each endpoint of a backend with checks has a task. A new table ends the tasks that it has no use for and begins those
//! that are missing; the others go on as they are.

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

/// Checks in progress at one time; more wait.
const CHECKS_MAX: usize = 64;

/// How much an interval is longer or shorter by chance, so that endpoints are not asked all at once.
const JITTER: f64 = 0.1;

/// Characters of what the system or TLS says of a failure.
const TEXT_MAX: usize = 200;

/// The checks of a gateway. They end with it.
#[derive(Debug, Default)]
pub(crate) struct HealthChecks(Follower);

/// What one endpoint is asked.
#[derive(Clone)]
struct Question {
    check: HealthCheck,
    proxy: Option<ProxyVersion>,
    tls: Option<Arc<UpstreamTls>>,
}

/// One endpoint that is checked.
struct Checked {
    question: Question,
    endpoint: Arc<EndpointState>,
    task: AbortHandle,
}

/// Why a check was a bad one.
#[derive(Debug)]
enum Ill {
    TimedOut,
    Status(u16),
    /// The connection ended before the head of an answer.
    Closed,
    /// What came is not HTTP/1.1.
    Malformed,
    /// No connection, or no TLS over it, or one that broke.
    System(io::Error),
}

impl HealthChecks {
    /// Makes ready for what `table` asks for.
    ///
    /// # Errors
    /// When the thread can't start.
    pub(crate) fn prepare(&self, table: &Table, shared: &Arc<Shared>) -> io::Result<()> {
        if !table.checks_health {
            return Ok(());
        }
        let shared = Arc::clone(shared);
        self.0.start("weir-health", move |looks| keep(looks, shared))
    }

    /// Checks what the table in force and the addresses of its names ask for from here on.
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
        // Most changes are of routes.
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

/// The tasks that `table` wants; `former` lends those that ask the same.
fn renew(mut former: ByEndpoint, table: &Table, shared: &Shared, places: &Rc<Semaphore>) -> ByEndpoint {
    let mut checked = HashMap::new();
    for entry in table.backends().iter() {
        let Some(check) = &entry.backend.health else { continue };
        let backend = shared.backends.of(&entry.name);
        let members = shared.backends.members(entry);
        let addresses = members.iter().map(|member| member.address.clone());
        for endpoint in backend.known_endpoints(addresses, table.version) {
            let question = Question {
                check: (**check).clone(),
                proxy: entry.backend.proxy_protocol,
                tls: entry.tls.clone(),
            };
            let key = (entry.name.clone(), endpoint.address.clone());
            let task = match former.remove(&key) {
                Some(same) if same.question.is_same(&question) => same.task,
                other => {
                    if let Some(other) = other {
                        other.task.abort();
                    }
                    let subject = (Arc::clone(&endpoint), Arc::clone(&backend), entry.name.clone());
                    spawn_local(ask_always(question.clone(), subject, Rc::clone(places))).abort_handle()
                }
            };
            checked.insert(key, Checked { question, endpoint, task });
        }
    }
    for gone in former.into_values() {
        gone.task.abort();
        // Nobody would bring it back.
        gone.endpoint.set_failing(false, mono_ns());
    }
    checked
}

async fn ask_always(
    question: Question,
    (endpoint, backend, name): (Arc<EndpointState>, Arc<BackendState>, String),
    places: Rc<Semaphore>,
) {
    let HealthCheck { interval, healthy, unhealthy, .. } = question.check;
    let mut in_a_row = 0;
    let mut was_well = None;
    loop {
        // It is never closed.
        let Ok(place) = places.acquire().await else { return };
        let asked = question.ask(&endpoint.address).await;
        drop(place);
        if matches!(&asked, Err(Ill::System(error)) if is_exhausted(error)) {
            // It says nothing of the endpoint, which is what it was.
            seldom!(
                log::Level::Warn,
                "health checks paused: no file descriptors or memory left; endpoints keep their state"
            );
            tokio::time::sleep(jittered(interval.0)).await;
            continue;
        }
        let failure = asked.err().map(|ill| ill.to_string());
        let is_well = failure.is_none();
        backend.count_check(is_well);
        endpoint.count_check(failure.as_deref());
        in_a_row = if was_well == Some(is_well) { in_a_row + 1 } else { 1u32 };
        was_well = Some(is_well);
        let enough = if is_well { healthy } else { unhealthy };
        if in_a_row >= enough && endpoint.is_failing() == is_well {
            endpoint.set_failing(!is_well, mono_ns());
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

impl Question {
    fn is_same(&self, other: &Question) -> bool {
        self.check == other.check
            && self.proxy == other.proxy
            && self.tls.as_ref().map(Arc::as_ptr) == other.tls.as_ref().map(Arc::as_ptr)
    }

    async fn ask(&self, endpoint: &UpstreamAddress) -> Result<(), Ill> {
        let answered = tokio::time::timeout(self.check.timeout.0, self.converse(endpoint)).await;
        answered.unwrap_or(Err(Ill::TimedOut))
    }

    async fn converse(&self, endpoint: &UpstreamAddress) -> Result<(), Ill> {
        let mut stream = Socket::connect(endpoint).await?;
        let Some(path) = &self.check.path else { return Ok(()) };
        if let Some(version) = self.proxy {
            let mut header = Vec::new();
            append_header(version, None, &mut header);
            stream.write_all(&header).await?;
        }
        let request = self.request(path, endpoint);
        match &self.tls {
            None => answers_well(&mut stream, &request).await,
            Some(tls) => {
                let connector = TlsConnector::from(Arc::clone(&tls.config));
                let mut stream = connector.connect(tls.name(endpoint), stream).await?;
                answers_well(&mut stream, &request).await
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

impl Display for Ill {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Ill::TimedOut => f.write_str("timed out"),
            Ill::Status(status) => write!(f, "status {status}"),
            Ill::Closed => f.write_str("connection closed before a response"),
            Ill::Malformed => f.write_str("malformed HTTP/1.1 response"),
            // A certificate may name as many hosts as it likes.
            Ill::System(error) => error.to_string().chars().take(TEXT_MAX).try_for_each(|c| f.write_char(c)),
        }
    }
}

impl From<io::Error> for Ill {
    fn from(error: io::Error) -> Ill {
        Ill::System(error)
    }
}

/// Sends the request; well is an answer with a status that says so.
async fn answers_well<S: AsyncRead + AsyncWrite + Unpin>(stream: &mut S, request: &[u8]) -> Result<(), Ill> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(Ill::Closed);
        }
        while !answer.is_empty() {
            let mut slots = FieldSlots::new();
            let head = match parse_response(&answer, ResponseTo::Other, &HeadLimits::default(), &mut slots) {
                Ok(Some(head)) => head,
                Ok(None) => break,
                Err(_) => return Err(Ill::Malformed),
            };
            if !head.interim {
                return match head.status {
                    200..400 => Ok(()),
                    status => Err(Ill::Status(status)),
                };
            }
            let head_len = head.head_len;
            answer.drain(..head_len);
        }
    }
}
