//! The admin server: health, readiness, counters, the active configuration and a few commands. It runs on a separate
//! thread, so that operators can still reach it when all workers are CPU-bound.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::Serialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::spawn_local;
use weir_http::{
    FieldSlots, HeadLimits, RequestHead, append_content_length, append_field, append_status_line,
    parse_request,
};
use weir_io::{Reserve, WorkerOptions, listen_shared, spawn_worker};

use crate::admin_hosts::{AdminHost, is_accepted};
use crate::admin_pages;
use crate::exhaustion::is_exhausted;
use crate::gateway::{Gateway, Phase};
use crate::idle_clients::{IdleClients, IdleRead};

/// Maximum number of client connections at one time. To accept one more, the server closes the one that was idle
/// longest.
const CLIENTS_MAX: usize = 64;
/// Length of the accept queue.
const BACKLOG: i32 = 64;
/// Limit for reading one request and writing its response.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A running admin server. Dropping it stops the server after responses to pending requests.
#[derive(Debug)]
pub struct Admin {
    bound: SocketAddr,
    /// The listening socket; `None` once the address is released to another process.
    socket: Mutex<Option<std::net::TcpListener>>,
    /// Becomes true when the address is released.
    released: watch::Sender<bool>,
}

impl Admin {
    /// Opens the listening socket.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
        Ok(listen_shared(address, 1, BACKLOG)?.remove(0))
    }

    /// Serves `/healthz`, `/readyz`, `/metrics`, `/stats`, `/config`, `/clusters`, `/certs`, `/log`, `/log_level` and
    /// `/drain` for `gateway`. Accepts requests whose Host is an IP address, `localhost` or one of `hosts`. Calls
    /// `on_drain` after `POST /drain`.
    ///
    /// # Errors
    /// If the thread cannot start.
    pub fn serve(
        socket: std::net::TcpListener,
        gateway: Arc<Gateway>,
        hosts: Vec<AdminHost>,
        on_drain: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Admin> {
        let served = Arc::new(Served { gateway, hosts, on_drain: Box::new(on_drain) });
        let (bound, own) = (socket.local_addr()?, socket.try_clone()?);
        let (released, is_released) = watch::channel(false);
        // Reserve a descriptor before the first client can use the last one.
        let reserve = Reserve::new();
        let options = WorkerOptions { name: "weir-admin".to_owned(), ..WorkerOptions::default() };
        spawn_worker(options, move || async move {
            if let Ok(listener) = TcpListener::from_std(own) {
                accept(listener, served, reserve, is_released).await;
            }
        })?;
        Ok(Admin { bound, socket: Mutex::new(Some(socket)), released })
    }

    /// The address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.bound
    }

    /// A copy of the listening socket for another process. `None` after [`Admin::release`].
    ///
    /// # Errors
    /// If the process has no free descriptor.
    pub fn socket(&self) -> io::Result<Option<std::net::TcpListener>> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.as_ref().map(std::net::TcpListener::try_clone).transpose()
    }

    /// Leaves the address to the process that now owns the socket. Idle connections are closed, so that clients
    /// reconnect to that process.
    pub fn release(&self) {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.released.send_replace(true);
    }
}

/// State that the request handlers use.
struct Served {
    gateway: Arc<Gateway>,
    hosts: Vec<AdminHost>,
    on_drain: Box<dyn Fn() + Send + Sync>,
}

async fn accept(
    listener: TcpListener,
    served: Arc<Served>,
    reserve: Reserve,
    mut is_released: watch::Receiver<bool>,
) {
    let permits = Arc::new(Semaphore::new(CLIENTS_MAX));
    let (reserve, idle_clients) = (Rc::new(reserve), Rc::new(IdleClients::default()));
    loop {
        let accepted = tokio::select! {
            accepted = poll_fn(|cx| poll_accept(&listener, &reserve, cx)) => accepted,
            _ = is_released.wait_for(|is_released| *is_released) => return wait_for_all(&permits).await,
        };
        match accepted {
            Ok((mut stream, _)) => {
                let Some(permit) = permit(&permits, &idle_clients).await else { return };
                let (served, reserve, idle_clients) =
                    (Arc::clone(&served), Rc::clone(&reserve), Rc::clone(&idle_clients));
                let is_released = is_released.clone();
                spawn_local(async move {
                    serve(&mut stream, (&served, &idle_clients), is_released).await;
                    if let Ok(stream) = stream.into_std() {
                        reserve.take_back(stream.into());
                    }
                    drop(permit);
                });
            }
            // Without a free descriptor, an immediate retry would fail again.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// Accepts the next client. Uses the reserved descriptor if no other is free, because operators need the admin server
/// most when resources run out.
fn poll_accept(
    listener: &TcpListener,
    reserve: &Reserve,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    let mut is_idle = false;
    match listener.poll_accept(cx) {
        Poll::Ready(Err(error)) if is_exhausted(&error) => {
            let attempt = || match listener.poll_accept(cx) {
                Poll::Ready(Ok(accepted)) => Some(Ok(accepted)),
                // The accept queue is empty. Without a free descriptor, `accept` fails even if the queue is empty.
                Poll::Pending => {
                    is_idle = true;
                    None
                }
                Poll::Ready(Err(_)) => None,
            };
            match reserve.spend(attempt) {
                Some(accepted) => Poll::Ready(accepted),
                None if is_idle => Poll::Pending,
                None => Poll::Ready(Err(error)),
            }
        }
        accepted => accepted,
    }
}

/// Returns a permit for a client. If none is free, closes the connection that has been idle longest. If no connection
/// is idle, waits until one becomes idle or ends.
async fn permit(permits: &Arc<Semaphore>, idle_clients: &IdleClients) -> Option<OwnedSemaphorePermit> {
    if permits.available_permits() == 0 {
        tokio::select! {
            biased;
            () = idle_clients.end_one() => {}
            permit = Arc::clone(permits).acquire_owned() => return permit.ok(),
        }
    }
    Arc::clone(permits).acquire_owned().await.ok()
}

/// Waits until all responses in progress are complete.
async fn wait_for_all(permits: &Semaphore) {
    let _ = permits.acquire_many(CLIENTS_MAX as u32).await;
}

async fn serve(
    stream: &mut TcpStream,
    of_all: (&Served, &IdleClients),
    mut is_released: watch::Receiver<bool>,
) {
    let mut bytes = Vec::new();
    loop {
        let answered = tokio::select! {
            // Respond to a received request before the connection is closed.
            biased;
            answered = tokio::time::timeout(TIMEOUT, serve_one(stream, &mut bytes, of_all)) => answered,
            _ = is_released.wait_for(|is_released| *is_released) => return,
        };
        if !matches!(answered, Ok(Ok(true))) {
            return;
        }
    }
}

/// Responds to one request. Returns false if the connection has to close.
async fn serve_one(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    (served, idle_clients): (&Served, &IdleClients),
) -> io::Result<bool> {
    let mut is_going = false;
    loop {
        if let Some(Answer { text, head_len, drains }) = answer(bytes, served) {
            bytes.drain(..head_len);
            stream.write_all(&text).await?;
            if drains {
                (served.on_drain)();
            }
            return Ok(head_len > 0 && !is_going);
        }
        if is_going {
            return Ok(false);
        }
        let outcome = idle_clients.until(stream.read_buf(bytes)).await;
        is_going = matches!(outcome, IdleRead::LastRead(_));
        match outcome {
            IdleRead::Close | IdleRead::Read(Ok(0)) | IdleRead::LastRead(Ok(0)) => return Ok(false),
            IdleRead::Read(read) | IdleRead::LastRead(read) => {
                read?;
            }
        }
    }
}

/// A complete response.
struct Answer {
    text: Vec<u8>,
    /// Bytes of the request headers; 0 if the connection has to close.
    head_len: usize,
    /// Whether the gateway drains after the response.
    drains: bool,
}

/// The response to the request at the start of `bytes`; `None` while the request is incomplete.
fn answer(bytes: &[u8], served: &Served) -> Option<Answer> {
    let mut slots = FieldSlots::new();
    let (page, head_len, head_only) = match parse_request(bytes, &HeadLimits::default(), &mut slots) {
        Ok(None) => return None,
        Err(error) => (Page::plain(error.status(), format!("{error}\n")), 0, false),
        Ok(Some(head)) => {
            let has_body = !matches!(head.framing, weir_http::Framing::None);
            let go_on = head.keep_alive && !has_body && head.version == weir_http::Version::Http11;
            (page(&head, served), if go_on { head.head_len } else { 0 }, head.method == "HEAD")
        }
    };
    let mut out = Vec::with_capacity(page.body.len() + 256);
    append_status_line(&mut out, page.status);
    append_field(&mut out, "Content-Type", page.kind.as_bytes());
    append_content_length(&mut out, page.body.len() as u64);
    if let Some(methods) = page.allow {
        append_field(&mut out, "Allow", methods.as_bytes());
    }
    if head_len == 0 {
        append_field(&mut out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if !head_only {
        out.extend_from_slice(page.body.as_bytes());
    }
    Some(Answer { text: out, head_len, drains: page.drains })
}

/// Status and content of a response.
struct Page {
    status: u16,
    kind: &'static str,
    body: String,
    /// For a 405: the methods that this path supports.
    allow: Option<&'static str>,
    /// Whether the gateway drains after the response.
    drains: bool,
}

impl Page {
    fn plain(status: u16, body: impl Into<String>) -> Page {
        Page { status, kind: "text/plain; charset=utf-8", body: body.into(), allow: None, drains: false }
    }

    fn json(value: &impl Serialize) -> Page {
        match serde_json::to_string(value) {
            Ok(json) => Page { kind: "application/json", ..Page::plain(200, json + "\n") },
            Err(error) => Page::plain(500, format!("{error}\n")),
        }
    }

    fn only(methods: &'static str) -> Page {
        Page { allow: Some(methods), ..Page::plain(405, format!("method not allowed; use {methods}\n")) }
    }
}

fn page(head: &RequestHead<'_>, Served { gateway, hosts, .. }: &Served) -> Page {
    if !is_accepted(head.host, hosts) {
        return Page::plain(
            403,
            "the Host header is neither an IP address nor localhost; use one of these, or start weir-gateway \
             with --admin-host NAME\n",
        );
    }
    let (path, query) = head.path_and_query.split_once('?').unwrap_or((head.path_and_query, ""));
    match (head.method, path) {
        // A web page in an operator's browser must not change the gateway (CSRF).
        ("POST", _) if head.field("origin").is_some() => Page::plain(
            403,
            "request rejected: it has an Origin header, so a web page sent it; use another client, such as curl\n",
        ),
        ("POST", "/drain") => Page { drains: true, ..Page::plain(202, "draining\n") },
        (_, "/drain") => Page::only("POST"),
        ("POST", "/log") => match admin_pages::set_log(gateway, query) {
            Ok(value) => Page::json(&value),
            Err(wrong) => Page::plain(400, wrong),
        },
        ("POST", "/log_level") => match admin_pages::set_log_level(query) {
            Ok(value) => Page::json(&value),
            Err(wrong) => Page::plain(400, wrong),
        },
        ("GET" | "HEAD", _) => shown(path, gateway),
        (_, "/log" | "/log_level") => Page::only("GET, HEAD, POST"),
        _ => Page::only("GET, HEAD"),
    }
}

fn shown(path: &str, gateway: &Gateway) -> Page {
    match path {
        "/healthz" if gateway.is_healthy() => Page::plain(200, "ok\n"),
        "/healthz" => Page::plain(503, "a worker thread has stopped\n"),
        "/readyz" => match gateway.phase() {
            Phase::Serving => match gateway.overload_reasons().as_slice() {
                [] => Page::plain(200, "ready\n"),
                reasons => Page::plain(503, format!("overloaded: {}\n", reasons.join(", "))),
            },
            Phase::Draining => Page::plain(503, "draining\n"),
            // Another process serves this address now, so a readiness check of the address must pass.
            Phase::HandedOver => Page::plain(200, "handed over\n"),
        },
        "/metrics" => Page {
            kind: "text/plain; version=0.0.4; charset=utf-8",
            ..Page::plain(200, gateway.stats().prometheus())
        },
        "/stats" => Page::json(&gateway.stats()),
        "/config" => Page::json(&admin_pages::config(gateway)),
        "/clusters" => Page::json(&admin_pages::clusters(gateway)),
        "/certs" => Page::json(&admin_pages::certs(gateway)),
        "/log" => Page::json(&admin_pages::log(gateway)),
        "/log_level" => Page::json(&admin_pages::log_level()),
        _ => Page::plain(
            404,
            "not found; pages: /healthz, /readyz, /metrics, /stats, /config, /clusters, /certs, /log, /log_level, /drain\n",
        ),
    }
}
