//! The admin server: health, readiness, counters. A thread of its own, so that a worker at its limit is still seen.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::spawn_local;
use weir_http::{
    FieldSlots, HeadLimits, append_content_length, append_field, append_status_line, parse_request,
};
use weir_io::{Reserve, WorkerOptions, listen_shared, spawn_worker};

use crate::exhaustion::is_exhausted;
use crate::gateway::{Gateway, Phase};

/// Clients at one time; more wait.
const CLIENTS_MAX: usize = 64;
/// Clients that wait for the others.
const BACKLOG: i32 = 64;
/// For a request to come and its answer to be taken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A running admin server. Dropping it ends it, once it has answered who has asked.
#[derive(Debug)]
pub struct Admin {
    bound: SocketAddr,
    /// `None` once it was released.
    socket: Mutex<Option<std::net::TcpListener>>,
    /// Becomes true when it is.
    released: watch::Sender<bool>,
}

impl Admin {
    /// A socket to serve by.
    ///
    /// # Errors
    /// When the address can't be had.
    pub fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
        Ok(listen_shared(address, 1, BACKLOG)?.remove(0))
    }

    /// Serves `/healthz`, `/readyz`, `/metrics` and `/stats` for `gateway`.
    ///
    /// # Errors
    /// When the thread can't start.
    pub fn serve(socket: std::net::TcpListener, gateway: Arc<Gateway>) -> io::Result<Admin> {
        let (bound, own) = (socket.local_addr()?, socket.try_clone()?);
        let (released, is_released) = watch::channel(false);
        let options = WorkerOptions { name: "weir-admin".to_owned(), ..WorkerOptions::default() };
        spawn_worker(options, move || async move {
            if let Ok(listener) = TcpListener::from_std(own) {
                accept(listener, gateway, is_released).await;
            }
        })?;
        Ok(Admin { bound, socket: Mutex::new(Some(socket)), released })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.bound
    }

    /// A copy of its listening socket, for another process; `None` once it was released.
    ///
    /// # Errors
    /// When no descriptor is left for it.
    pub fn socket(&self) -> io::Result<Option<std::net::TcpListener>> {
        let socket = self.socket.lock().unwrap_or_else(PoisonError::into_inner);
        socket.as_ref().map(std::net::TcpListener::try_clone).transpose()
    }

    /// Leaves its address to the process that has the socket now. Clients that are idle are closed, so that they ask
    /// the other.
    pub fn release(&self) {
        self.socket.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.released.send_replace(true);
    }
}

async fn accept(listener: TcpListener, gateway: Arc<Gateway>, mut is_released: watch::Receiver<bool>) {
    let places = Arc::new(tokio::sync::Semaphore::new(CLIENTS_MAX));
    let reserve = Rc::new(Reserve::default());
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = poll_fn(|cx| poll_accept(&listener, &reserve, cx)) => accepted,
            _ = is_released.wait_for(|is_released| *is_released) => return wait_for_all(&places, place).await,
        };
        match accepted {
            Ok((stream, _)) => {
                let (gateway, reserve) = (Arc::clone(&gateway), Rc::clone(&reserve));
                let is_released = is_released.clone();
                spawn_local(async move {
                    serve(stream, &gateway, is_released).await;
                    reserve.refill();
                    drop(place);
                });
            }
            // Without descriptors another try would fail at once.
            Err(_) => {
                reserve.refill();
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// The next client. Where no descriptor is left for it, it gets the one that is kept back: the admin server is wanted
/// most when something runs out.
fn poll_accept(
    listener: &TcpListener,
    reserve: &Reserve,
    cx: &mut Context<'_>,
) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
    match listener.poll_accept(cx) {
        Poll::Ready(Err(error)) if is_exhausted(&error) && reserve.give_up() => {
            let accepted = listener.poll_accept(cx);
            if !matches!(accepted, Poll::Ready(Ok(_))) {
                reserve.refill();
            }
            accepted
        }
        accepted => accepted,
    }
}

/// Clients who are being answered are so to the end; the thread with them.
async fn wait_for_all(places: &tokio::sync::Semaphore, own: tokio::sync::OwnedSemaphorePermit) {
    drop(own);
    let _ = places.acquire_many(CLIENTS_MAX as u32).await;
}

async fn serve(mut stream: TcpStream, gateway: &Gateway, mut is_released: watch::Receiver<bool>) {
    let mut bytes = Vec::new();
    loop {
        let answered = tokio::select! {
            // Whoever has asked is answered before it is closed.
            biased;
            answered = tokio::time::timeout(TIMEOUT, serve_one(&mut stream, &mut bytes, gateway)) => answered,
            _ = is_released.wait_for(|is_released| *is_released) => return,
        };
        if !matches!(answered, Ok(Ok(true))) {
            return;
        }
    }
}

/// Answers one request; false when the connection ends with it.
async fn serve_one(stream: &mut TcpStream, bytes: &mut Vec<u8>, gateway: &Gateway) -> io::Result<bool> {
    loop {
        if let Some((answer, head_len)) = answer(bytes, gateway) {
            bytes.drain(..head_len);
            stream.write_all(&answer).await?;
            return Ok(head_len > 0);
        }
        if stream.read_buf(bytes).await? == 0 {
            return Ok(false);
        }
    }
}

/// The answer to the request at the start of `bytes` and the length of its head, 0 when the connection ends with it;
/// `None` while it is not whole.
fn answer(bytes: &[u8], gateway: &Gateway) -> Option<(Vec<u8>, usize)> {
    let mut slots = FieldSlots::new();
    let (status, kind, body, head_len, head_only) =
        match parse_request(bytes, &HeadLimits::default(), &mut slots) {
            Ok(None) => return None,
            Err(error) => (error.status(), PLAIN, format!("{error}\n"), 0, false),
            Ok(Some(head)) => {
                let path = head.path_and_query.split('?').next().unwrap_or_default();
                let (status, kind, body) = content(head.method, path, gateway);
                let has_body = !matches!(head.framing, weir_http::Framing::None);
                let go_on = head.keep_alive && !has_body && head.version == weir_http::Version::Http11;
                (status, kind, body, if go_on { head.head_len } else { 0 }, head.method == "HEAD")
            }
        };
    let mut out = Vec::with_capacity(body.len() + 256);
    append_status_line(&mut out, status);
    append_field(&mut out, "Content-Type", kind.as_bytes());
    append_content_length(&mut out, body.len() as u64);
    if status == 405 {
        append_field(&mut out, "Allow", b"GET, HEAD");
    }
    if head_len == 0 {
        append_field(&mut out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if !head_only {
        out.extend_from_slice(body.as_bytes());
    }
    Some((out, head_len))
}

const PLAIN: &str = "text/plain; charset=utf-8";

fn content(method: &str, path: &str, gateway: &Gateway) -> (u16, &'static str, String) {
    if method != "GET" && method != "HEAD" {
        return (405, PLAIN, "only GET and HEAD are served here\n".to_owned());
    }
    match path {
        "/healthz" if gateway.is_healthy() => (200, PLAIN, "ok\n".to_owned()),
        "/healthz" => (503, PLAIN, "a worker has ended\n".to_owned()),
        "/readyz" => match gateway.phase() {
            Phase::Serving => (200, PLAIN, "ready\n".to_owned()),
            Phase::Draining => (503, PLAIN, "draining\n".to_owned()),
            // Whoever asks means the address, which another process serves.
            Phase::HandedOver => (200, PLAIN, "handed over\n".to_owned()),
        },
        "/metrics" => (200, "text/plain; version=0.0.4; charset=utf-8", gateway.stats().prometheus()),
        "/stats" => match serde_json::to_string(&gateway.stats()) {
            Ok(json) => (200, "application/json", json + "\n"),
            Err(error) => (500, PLAIN, format!("{error}\n")),
        },
        _ => (404, PLAIN, "there are /healthz, /readyz, /metrics and /stats\n".to_owned()),
    }
}
