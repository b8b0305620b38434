//! Test setup: a gateway in this process, scripted origins on threads, and a client that checks every byte.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weir_config::{Batch, Change, Configuration, Key, Policy, Resource, State, Table};
use weir_dataplane::{Gateway, Stats};

/// Time limit of a read. If it passes, the test fails.
const PATIENCE: Duration = Duration::from_secs(20);

/// An upstream that runs a script for each connection.
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<String>>>,
}

/// A connection at the origin.
pub(crate) struct Served {
    pub(crate) stream: TcpStream,
    /// The number of the connection, from 0.
    pub(crate) number: usize,
    bytes: Vec<u8>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// Runs `script` for each connection, on its own thread.
    pub(crate) fn start(script: impl Fn(&mut Served) + Send + Sync + 'static) -> Origin {
        Origin::over(TcpListener::bind("127.0.0.1:0").unwrap(), script)
    }

    /// Like [`Origin::start`], but accepts connections on `listener`.
    pub(crate) fn over(
        listener: TcpListener,
        script: impl Fn(&mut Served) + Send + Sync + 'static,
    ) -> Origin {
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (count, log, script) = (Arc::clone(&connections), Arc::clone(&requests), Arc::new(script));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                let number = count.fetch_add(1, Ordering::SeqCst);
                let mut served = Served { stream, number, bytes: Vec::new(), requests: Arc::clone(&log) };
                let script = Arc::clone(&script);
                std::thread::spawn(move || script(&mut served));
            }
        });
        Origin { address, connections, requests }
    }

    /// Sends these bytes as the response to every request, and keeps the connection open.
    pub(crate) fn answering(response: &'static str) -> Origin {
        Origin::start(move |served| {
            while served.request().is_some() {
                served.send(response);
            }
        })
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The received requests: headers, and bodies with `Content-Length`.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl Served {
    /// The next request: its headers and, with `Content-Length`, its body. `None` if the gateway closed the connection.
    pub(crate) fn request(&mut self) -> Option<String> {
        let head = self.read_until("\r\n\r\n")?;
        let length = content_length(&head);
        let body = self.read_exact(length)?;
        let request = head + &body;
        self.requests.lock().unwrap().push(request.clone());
        Some(request)
    }

    /// Reads up to and including `end`.
    pub(crate) fn read_until(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some(at) = find(&self.bytes, end.as_bytes()) {
                let taken = self.bytes.drain(..at + end.len()).collect();
                return Some(String::from_utf8(taken).unwrap());
            }
            self.read_more()?;
        }
    }

    pub(crate) fn read_exact(&mut self, length: usize) -> Option<String> {
        while self.bytes.len() < length {
            self.read_more()?;
        }
        Some(String::from_utf8(self.bytes.drain(..length).collect()).unwrap())
    }

    /// Reads `length` bytes of any content.
    pub(crate) fn read_raw(&mut self, length: usize) -> Vec<u8> {
        while self.bytes.len() < length && self.read_more().is_some() {}
        let length = length.min(self.bytes.len());
        self.bytes.drain(..length).collect()
    }

    fn read_more(&mut self) -> Option<()> {
        let mut chunk = [0; 16384];
        let bytes = self.stream.read(&mut chunk).ok().filter(|&n| n > 0)?;
        self.bytes.extend_from_slice(&chunk[..bytes]);
        Some(())
    }

    /// Sends `text`. Ignores a closed connection.
    pub(crate) fn send(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }

    /// Sends nothing until the gateway closes the connection.
    pub(crate) fn stall(&mut self) {
        while self.read_more().is_some() {}
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(&mut self) {
        reset(&self.stream);
    }
}

/// A listener with a full accept queue, and the connections that fill it. The kernel drops further SYN packets.
pub(crate) fn full_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    // The queue accepts one or two connections.
    let connect = || TcpStream::connect_timeout(&address, Duration::from_millis(300)).ok();
    let queued = std::iter::from_fn(connect).collect();
    (listener, queued)
}

/// A gateway under test.
pub(crate) struct Proxy {
    pub(crate) gateway: Gateway,
    pub(crate) state: State,
}

impl Proxy {
    /// A gateway with one listener, a route for every host to `origin`, and these further lines of configuration.
    pub(crate) fn to(origin: SocketAddr, more: &str) -> Proxy {
        Proxy::with(&format!(
            "listeners: [{{ address: 127.0.0.1:0, name: main }}]\nworkers: 1\n\
             routes: [{{ path: /, backend: b }}]\nbackends: {{ b: {{ endpoints: ['{origin}'] }} }}\n{more}"
        ))
    }

    pub(crate) fn with(text: &str) -> Proxy {
        Proxy::with_files(text, &[])
    }

    /// A gateway with this configuration and the contents of the files that it names.
    pub(crate) fn with_files(text: &str, files: &[(&str, &str)]) -> Proxy {
        let mut state = State::default();
        let gateway = Gateway::start(compile_with(&mut state, text, files)).unwrap();
        Proxy { gateway, state }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.gateway.addresses()[0])
    }

    /// Sends `request` on a new connection and returns the response.
    pub(crate) fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.send(request);
        client.response()
    }

    /// Waits until `condition` holds for the counters. Fails after a timeout.
    pub(crate) fn wait_for(&self, what: &str, condition: impl Fn(&Stats) -> bool) {
        for _ in 0..2000 {
            if condition(&self.gateway.stats()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("timed out waiting for {what}: {:?}", self.gateway.stats());
    }

    pub(crate) fn errors(&self, cause: &str) -> u64 {
        self.gateway.stats().errors[cause]
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.gateway.drain();
    }
}

/// Compiles this configuration.
pub(crate) fn compile(state: &mut State, text: &str) -> Arc<Table> {
    compile_with(state, text, &[])
}

/// Compiles this configuration with the contents of the files that it names.
pub(crate) fn compile_with(state: &mut State, text: &str, files: &[(&str, &str)]) -> Arc<Table> {
    *state = State::default();
    recompile_with(state, text, files)
}

/// Compiles this configuration as a change of the current one.
pub(crate) fn recompile_with(state: &mut State, text: &str, files: &[(&str, &str)]) -> Arc<Table> {
    // Tests have no load balancer in front, so a drain delay would only slow them down.
    let drain = if text.contains("\ndrain:") { "" } else { "\ndrain: { delay: 0s }\n" };
    let configuration: Configuration = weir_document::read("test.yaml", &format!("{text}{drain}")).unwrap();
    let files = files.iter().map(|(name, content)| {
        (Key::File((*name).to_owned()), Resource::File(content.as_bytes().to_vec().into()))
    });
    let resources = configuration.into_resources().into_iter().chain(files);
    let changes = resources.map(|(k, r)| Change::Put(k, r)).collect();
    let applied = state.apply(Batch { version: 1, policy: Policy::AllOrNothing, changes });
    applied.table.unwrap_or_else(|| panic!("{:?}", applied.refused))
}

/// A client's connection.
pub(crate) struct Client<S = TcpStream> {
    pub(crate) stream: S,
    bytes: Vec<u8>,
    /// The gateway closed the connection by a reset, or without the `close_notify` of TLS.
    was_cut: bool,
}

/// A received response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    /// The payload, or the received part of it.
    pub(crate) body: String,
    /// Whether the body is complete according to its framing.
    pub(crate) whole: bool,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Client::over(stream)
    }

    /// Disconnects, by a reset or by a FIN.
    pub(crate) fn leave(self, by_reset: bool) {
        if by_reset {
            reset(&self.stream);
        }
    }
}

impl<S: Read + Write> Client<S> {
    /// A client over a stream with a read timeout.
    pub(crate) fn over(stream: S) -> Client<S> {
        Client { stream, bytes: Vec::new(), was_cut: false }
    }

    /// Sends `text`. Ignores a closed connection, because tests check the response.
    pub(crate) fn send(&mut self, text: &str) {
        let _ = self.stream.write_all(text.as_bytes());
    }

    pub(crate) fn ask(&mut self, request: &str) -> Answer {
        self.send(request);
        self.response()
    }

    /// The next response. Not for responses to HEAD requests.
    pub(crate) fn response(&mut self) -> Answer {
        let mut answer = self.head();
        let has_body = !matches!(answer.status, 100..=199 | 204 | 304);
        if has_body && answer.field("transfer-encoding") == Some("chunked") {
            answer.whole = self.read_chunks(&mut answer.body);
        } else if has_body && answer.field("content-length").is_some() {
            let length = content_length(&answer.head);
            answer.whole = self.fill(length);
            let taken = self.bytes.len().min(length);
            answer.body = String::from_utf8(self.bytes.drain(..taken).collect()).unwrap();
        } else if has_body {
            while self.fill(self.bytes.len() + 1) {}
            answer.body = String::from_utf8(std::mem::take(&mut self.bytes)).unwrap();
            answer.whole = !self.was_cut;
        }
        answer
    }

    /// The headers of the next response.
    pub(crate) fn head(&mut self) -> Answer {
        let head = self.line_end("\r\n\r\n").unwrap_or_else(|| {
            panic!("no response: {:?}", String::from_utf8_lossy(&self.bytes));
        });
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head, body: String::new(), whole: true }
    }

    /// Whether the gateway closed the connection without sending another byte.
    pub(crate) fn is_closed(&mut self) -> bool {
        self.bytes.is_empty() && !self.fill(1)
    }

    /// Whether the gateway closed the connection without a reset or a truncation.
    pub(crate) fn is_ended(&mut self) -> bool {
        self.is_closed() && !self.was_cut
    }

    pub(crate) fn read_exact(&mut self, length: usize) -> String {
        String::from_utf8(self.read_bytes(length)).unwrap()
    }

    /// Reads `length` bytes of any content.
    pub(crate) fn read_bytes(&mut self, length: usize) -> Vec<u8> {
        assert!(self.fill(length), "closed too early");
        self.bytes.drain(..length).collect()
    }

    fn read_chunks(&mut self, body: &mut String) -> bool {
        loop {
            let Some(line) = self.line_end("\r\n") else { return false };
            let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
            if size == 0 {
                while let Some(line) = self.line_end("\r\n") {
                    if line == "\r\n" {
                        return true;
                    }
                    body.push_str(&format!("[{}]", line.trim_end()));
                }
                return false;
            }
            if !self.fill(size + 2) {
                return false;
            }
            body.push_str(std::str::from_utf8(&self.bytes[..size]).unwrap());
            assert_eq!(self.bytes[size..size + 2], *b"\r\n");
            self.bytes.drain(..size + 2);
        }
    }

    fn line_end(&mut self, end: &str) -> Option<String> {
        loop {
            if let Some(at) = find(&self.bytes, end.as_bytes()) {
                return Some(String::from_utf8(self.bytes.drain(..at + end.len()).collect()).unwrap());
            }
            if !self.fill(self.bytes.len() + 1) {
                return None;
            }
        }
    }

    fn fill(&mut self, length: usize) -> bool {
        let mut chunk = [0; 16384];
        while self.bytes.len() < length {
            match self.stream.read(&mut chunk) {
                Ok(bytes) if bytes > 0 => self.bytes.extend_from_slice(&chunk[..bytes]),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    panic!("the gateway neither sends nor closes");
                }
                Err(error) => {
                    self.was_cut |=
                        matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof);
                    return false;
                }
                Ok(_) => return false,
            }
        }
        true
    }
}

impl Answer {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let lines = self.head.split("\r\n").skip(1);
        let named = |line: &&str| line.split(':').next().is_some_and(|n| n.eq_ignore_ascii_case(name));
        lines.filter_map(|l| Some(l).filter(named)).map(|l| l[name.len() + 1..].trim()).next()
    }

    /// Status and cause of a response that the gateway generated.
    pub(crate) fn error(&self) -> (u16, &str) {
        (self.status, self.field("x-weir-error").unwrap_or("none"))
    }
}

/// Makes this stream send a TCP reset when it is closed.
pub(crate) fn reset(stream: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
}

fn content_length(head: &str) -> usize {
    let lower = head.to_ascii_lowercase();
    let value = lower.split("\r\n").find_map(|line| line.strip_prefix("content-length:"));
    value.map_or(0, |v| v.trim().parse().unwrap())
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|w| w == what)
}
