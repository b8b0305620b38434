//! Slow clients: they send requests or read responses a few bytes at a time. They measure nothing themselves. A
//! normal load that runs at the same time shows their effect on the server.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Builder;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Interval, MissedTickBehavior, interval, sleep};
use weir_http::{BodyDecoder, FieldSlots, HeadLimits, ResponseTo, parse_response};
use weir_results::{SlowClients, SlowCounts};

use crate::error::EngineError;
use crate::run::raise_open_files;

/// Approximate length of a request head that is sent slowly, as from a browser with some cookies.
const HEAD_BYTES: usize = 1024;
/// Size of the receive buffer of a client that reads slowly. With a larger buffer, the kernel would accept the
/// response fast.
const RECEIVE_BYTES: u32 = 4096;
/// Size of a read by clients that do not read slowly.
const READ_BYTES: usize = 16 * 1024;
/// Maximum bytes of a request body per write, for clients that do not send bodies slowly.
const WRITE_BYTES: usize = 16 * 1024;
/// How often clients check whether to stop.
const STOP_LOOK: Duration = Duration::from_millis(10);

/// Which slow clients to run, and against which server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowSpec {
    /// Address of the server. Connections to it use no TLS.
    pub address: SocketAddr,
    /// Value of the `Host` header field.
    pub host: String,
    /// Path of the requests.
    pub path: String,
    /// Additional header fields of every request.
    pub fields: Vec<(String, String)>,
    /// Number of clients that send the head of their requests slowly.
    pub heads: u32,
    /// Number of clients that send the body of their requests slowly.
    pub bodies: u32,
    /// Number of clients that read responses slowly.
    pub responses: u32,
    /// How many bytes are sent or read at a time.
    pub piece_bytes: u32,
    /// Time between pieces, in nanoseconds.
    pub every_ns: u64,
    /// Length of request bodies. Requests whose head is sent slowly have no body.
    pub body_bytes: u64,
}

/// What a client does slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Head,
    Body,
    Response,
}

/// Counts of all clients of one kind.
#[derive(Debug, Default)]
struct Counts {
    connections: u32,
    opened: Cell<u64>,
    open: Cell<u64>,
    answered: Cell<u64>,
    unexpected: Cell<u64>,
    broken: Cell<u64>,
    refused: Cell<u64>,
}

/// The error of a connection that failed because this host lacks a resource, such as a port. It is not an error of
/// the server.
type Lack = Rc<RefCell<Option<io::Error>>>;

/// Runs slow clients until `stop` is set. When a connection ends, its client waits for `every_ns` and opens another.
///
/// # Errors
/// If this host lacks a resource, such as ports, at the start or later. Connections that fail for other reasons are
/// only counted.
pub fn run_slow(spec: &SlowSpec, stop: &AtomicBool) -> Result<SlowClients, EngineError> {
    raise_open_files(spec.heads.saturating_add(spec.bodies).saturating_add(spec.responses), 1)?;
    let runtime = Builder::new_current_thread().enable_io().enable_time().build();
    let runtime = runtime.map_err(|source| EngineError::Worker { worker: 0, source })?;
    let spec = Rc::new(spec.clone());
    let kinds = [Kind::Head, Kind::Body, Kind::Response];
    let counts =
        kinds.map(|kind| Rc::new(Counts { connections: spec.connections(kind), ..Counts::default() }));
    let (clients, lack) = (LocalSet::new(), Lack::default());
    clients.block_on(&runtime, async {
        for (kind, counts) in kinds.into_iter().zip(&counts) {
            for number in 0..counts.connections {
                spawn_local(client(Rc::clone(&spec), kind, number, Rc::clone(counts), Rc::clone(&lack)));
            }
        }
        while !stop.load(Ordering::Relaxed) && lack.borrow().is_none() {
            sleep(STOP_LOOK).await;
        }
    });
    if let Some(error) = lack.take() {
        return Err(EngineError::Exhausted(error));
    }
    let [heads, bodies, responses] = counts.map(|counts| counts.taken());
    Ok(SlowClients { heads, bodies, responses })
}

/// Runs one client, which sends one request per connection.
async fn client(spec: Rc<SlowSpec>, kind: Kind, number: u32, counts: Rc<Counts>, lack: Lack) {
    // The clients start at different times within `every_ns`, so that they do not send at the same time.
    sleep(spec.every().mul_f64(f64::from(number) / f64::from(counts.connections))).await;
    loop {
        match connect(&spec, kind).await {
            Ok(stream) => {
                add(&counts.opened, 1);
                add(&counts.open, 1);
                match exchange(&spec, kind, stream).await {
                    Ok(200..400) => add(&counts.answered, 1),
                    Ok(_) => add(&counts.unexpected, 1),
                    Err(_) => add(&counts.broken, 1),
                }
                add(&counts.open, 1_u64.wrapping_neg());
            }
            Err(error) if is_lack(&error) => {
                lack.borrow_mut().get_or_insert(error);
                return;
            }
            Err(_) => add(&counts.refused, 1),
        }
        sleep(spec.every()).await;
    }
}

/// Whether a connection failed because this host lacks a resource, such as a port or memory.
fn is_lack(error: &io::Error) -> bool {
    let here = [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM, libc::EADDRNOTAVAIL];
    error.raw_os_error().is_some_and(|code| here.contains(&code))
}

async fn connect(spec: &SlowSpec, kind: Kind) -> io::Result<TcpStream> {
    let socket = if spec.address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if kind == Kind::Response {
        socket.set_recv_buffer_size(RECEIVE_BYTES)?;
    }
    let stream = socket.connect(spec.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Sends one request, and returns the status of its response.
async fn exchange(spec: &SlowSpec, kind: Kind, mut stream: TcpStream) -> io::Result<u16> {
    let head = spec.head(kind);
    match kind {
        // A server that responds before the request is complete may reject the rest of it, so a failed write is
        // ignored.
        Kind::Head => {
            let _ = trickle(spec, &mut stream, head.len() as u64, |at| head[at as usize]).await;
            read_response(&mut stream, None).await
        }
        Kind::Body => {
            stream.write_all(&head).await?;
            let _ = trickle(spec, &mut stream, spec.body_bytes, |_| b'x').await;
            read_response(&mut stream, None).await
        }
        Kind::Response => {
            let (mut reader, mut writer) = stream.split();
            let pace = Some((spec.ticks(), spec.piece_bytes as usize));
            let writing = async {
                match write_all(&mut writer, &head, spec.body_bytes).await {
                    Ok(()) => std::future::pending().await,
                    Err(error) => error,
                }
            };
            tokio::select! {
                status = read_response(&mut reader, pace) => status,
                error = writing => Err(error),
            }
        }
    }
}

/// Sends `length` bytes in pieces, until the peer responds.
async fn trickle(
    spec: &SlowSpec,
    stream: &mut TcpStream,
    length: u64,
    byte_at: impl Fn(u64) -> u8,
) -> io::Result<()> {
    let mut ticks = spec.ticks();
    let mut sent = 0;
    while sent < length {
        tokio::select! {
            _ = ticks.tick() => {}
            readable = stream.readable() => return readable,
        }
        let end = length.min(sent + u64::from(spec.piece_bytes));
        let piece: Vec<u8> = (sent..end).map(&byte_at).collect();
        stream.write_all(&piece).await?;
        sent = end;
    }
    Ok(())
}

async fn write_all(writer: &mut (impl AsyncWrite + Unpin), head: &[u8], body_bytes: u64) -> io::Result<()> {
    writer.write_all(head).await?;
    let piece = [b'x'; WRITE_BYTES];
    let mut left = body_bytes;
    while left > 0 {
        let now = usize::try_from(left).map_or(WRITE_BYTES, |left| left.min(WRITE_BYTES));
        writer.write_all(&piece[..now]).await?;
        left -= now as u64;
    }
    Ok(())
}

/// Reads a response, and returns its status. With `pace`, reads one piece of the given size per tick; otherwise reads
/// as fast as bytes arrive.
async fn read_response(
    reader: &mut (impl AsyncRead + Unpin),
    mut pace: Option<(Interval, usize)>,
) -> io::Result<u16> {
    let mut buffer = vec![0; pace.as_ref().map_or(READ_BYTES, |(_, piece)| *piece)];
    let mut head = Vec::new();
    let mut body: Option<(u16, BodyDecoder)> = None;
    loop {
        if let Some((ticks, _)) = &mut pace {
            ticks.tick().await;
        }
        let read = reader.read(&mut buffer).await?;
        if read == 0 {
            return match body {
                Some((status, body)) if body.finish().is_ok() => Ok(status),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            };
        }
        let is_done = match &mut body {
            Some((_, body)) => body.step(&buffer[..read]).map_err(io::Error::other)?.done,
            None => {
                head.extend_from_slice(&buffer[..read]);
                body = begun(&head)?;
                body.as_ref().is_some_and(|(_, body)| body.is_done())
            }
        };
        if let Some((status, _)) = body.as_ref().filter(|_| is_done) {
            return Ok(*status);
        }
    }
}

/// Parses a response head. Once it is complete, returns the status and the decoder of the body. The decoder has already
/// processed the body bytes in `bytes`.
fn begun(bytes: &[u8]) -> io::Result<Option<(u16, BodyDecoder)>> {
    let mut slots = FieldSlots::new();
    let head = parse_response(bytes, ResponseTo::Other, &HeadLimits::default(), &mut slots);
    let Some(head) = head.map_err(io::Error::other)? else { return Ok(None) };
    let mut body = BodyDecoder::new(head.framing);
    let mut rest = &bytes[head.head_len..];
    while !rest.is_empty() && !body.is_done() {
        let step = body.step(rest).map_err(io::Error::other)?;
        rest = &rest[step.consumed..];
    }
    Ok(Some((head.status, body)))
}

impl SlowSpec {
    fn connections(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Head => self.heads,
            Kind::Body => self.bodies,
            Kind::Response => self.responses,
        }
    }

    fn every(&self) -> Duration {
        Duration::from_nanos(self.every_ns)
    }

    fn ticks(&self) -> Interval {
        let mut ticks = interval(self.every());
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks
    }

    /// The request line and header fields of the requests of this kind of client.
    fn head(&self, kind: Kind) -> Vec<u8> {
        let method = if kind == Kind::Head { "GET" } else { "POST" };
        let mut head =
            format!("{method} {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.path, self.host);
        for (name, value) in &self.fields {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        match kind {
            Kind::Head => {
                let padding = HEAD_BYTES.saturating_sub(head.len());
                head.push_str(&format!("X-Slow: {}\r\n", "s".repeat(padding.max(1))));
            }
            Kind::Body | Kind::Response => head.push_str(&format!("Content-Length: {}\r\n", self.body_bytes)),
        }
        head.push_str("\r\n");
        head.into_bytes()
    }
}

impl Counts {
    fn taken(&self) -> SlowCounts {
        SlowCounts {
            connections: self.connections,
            opened: self.opened.get(),
            open_at_end: self.open.get(),
            answered: self.answered.get(),
            unexpected: self.unexpected.get(),
            broken: self.broken.get(),
            refused: self.refused.get(),
        }
    }
}

fn add(count: &Cell<u64>, more: u64) {
    count.set(count.get().wrapping_add(more));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &str, expected: Option<(u16, bool)>) {
        let begun = begun(bytes.as_bytes()).unwrap();
        assert_eq!(begun.map(|(status, body)| (status, body.is_done())), expected, "{bytes:?}");
    }

    #[test]
    fn a_response_begins_with_its_head_and_ends_with_its_body() {
        check("HTTP/1.1 200 OK\r\nContent-Le", None);
        check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Some((200, false)));
        check("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", Some((408, true)));
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        check(&format!("{chunked}3\r\nabc\r\n"), Some((200, false)));
        check(&format!("{chunked}3\r\nabc\r\n0\r\n\r\n"), Some((200, true)));
        assert!(begun(b"SSH-2.0-OpenSSH\r\n\r\n").is_err());
    }

    #[test]
    fn only_missing_local_resources_are_not_counted_for_the_peer() {
        let found =
            [libc::EMFILE, libc::EADDRNOTAVAIL, libc::ECONNREFUSED, libc::ECONNRESET, libc::ETIMEDOUT]
                .map(|code| is_lack(&io::Error::from_raw_os_error(code)));
        assert_eq!(found, [true, true, false, false, false]);
        assert!(!is_lack(&io::ErrorKind::UnexpectedEof.into()));
    }

    #[test]
    fn slow_heads_are_long_and_other_requests_announce_a_body() {
        let spec = SlowSpec {
            address: ([127, 0, 0, 1], 1).into(),
            host: "a.test".into(),
            path: "/ping".into(),
            fields: vec![("Authorization".into(), "Bearer t".into())],
            heads: 1,
            bodies: 2,
            responses: 3,
            piece_bytes: 16,
            every_ns: 1_000_000,
            body_bytes: 100_000,
        };
        let text = |kind| String::from_utf8(spec.head(kind)).unwrap();
        let head = text(Kind::Head);
        assert!(head.starts_with("GET /ping HTTP/1.1\r\nHost: a.test\r\n"), "{head}");
        assert!(head.len() >= HEAD_BYTES && head.contains("Bearer t") && !head.contains("Content-Length"));
        for kind in [Kind::Body, Kind::Response] {
            let head = text(kind);
            assert!(head.starts_with("POST ") && head.contains("Content-Length: 100000\r\n"), "{head}");
        }
        assert_eq!([Kind::Head, Kind::Body, Kind::Response].map(|kind| spec.connections(kind)), [1, 2, 3]);
    }
}
