//! The admin server: health, readiness, counters. A thread of its own, so that a worker at its limit is still seen.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::spawn_local;
use weir_http::{
    FieldSlots, HeadLimits, append_content_length, append_field, append_status_line, parse_request,
};
use weir_io::{WorkerOptions, listen_shared, spawn_worker};

use crate::gateway::{Gateway, Phase};

/// Clients at one time; more wait.
const CLIENTS_MAX: usize = 64;
/// For a request to come and its answer to be taken.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Serves `/healthz`, `/readyz`, `/metrics` and `/stats` for `gateway` until the process ends; returns where.
///
/// # Errors
/// When the address can't be had or the thread can't start.
pub fn serve_admin(address: SocketAddr, gateway: Arc<Gateway>) -> io::Result<SocketAddr> {
    let socket = listen_shared(address, 1, 64)?.remove(0);
    let bound = socket.local_addr()?;
    let options = WorkerOptions { name: "weir-admin".to_owned(), ..WorkerOptions::default() };
    spawn_worker(options, move || async move {
        if let Ok(listener) = TcpListener::from_std(socket) {
            accept(listener, gateway).await;
        }
    })?;
    Ok(bound)
}

async fn accept(listener: TcpListener, gateway: Arc<Gateway>) {
    let places = Arc::new(tokio::sync::Semaphore::new(CLIENTS_MAX));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let gateway = Arc::clone(&gateway);
                spawn_local(async move {
                    serve(stream, &gateway).await;
                    drop(place);
                });
            }
            // Without descriptors another try would fail at once.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve(mut stream: TcpStream, gateway: &Gateway) {
    let mut bytes = Vec::new();
    while let Ok(Ok(true)) = tokio::time::timeout(TIMEOUT, serve_one(&mut stream, &mut bytes, gateway)).await
    {
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
        },
        "/metrics" => (200, "text/plain; version=0.0.4; charset=utf-8", gateway.stats().prometheus()),
        "/stats" => match serde_json::to_string(&gateway.stats()) {
            Ok(json) => (200, "application/json", json + "\n"),
            Err(error) => (500, PLAIN, format!("{error}\n")),
        },
        _ => (404, PLAIN, "there are /healthz, /readyz, /metrics and /stats\n".to_owned()),
    }
}
