//! Simple servers on threads. All connections of a peer behave in the same way, and the requests are counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What the peer does when it receives a request; the number counts the requests of the connection from 0. Returns
/// whether the connection stays open.
pub(crate) type Behaviour = fn(&mut TcpStream, u64) -> bool;

/// A simple server that counts its requests.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    pub(crate) counts: Arc<Counts>,
    stop: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) connections: AtomicU64,
    pub(crate) requests: AtomicU64,
}

impl Peer {
    /// Starts a peer on a port that the kernel chooses.
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").unwrap(), behaviour)
    }

    /// Starts a peer on an existing listener.
    pub(crate) fn on(listener: TcpListener, behaviour: Behaviour) -> Self {
        let address = listener.local_addr().unwrap();
        let counts = Arc::new(Counts::default());
        let stop = Arc::new(AtomicBool::new(false));
        let acceptor = std::thread::spawn({
            let (counts, stop) = (Arc::clone(&counts), Arc::clone(&stop));
            move || {
                let mut threads = Vec::new();
                for stream in listener.incoming() {
                    if stop.load(Ordering::Acquire) {
                        break;
                    }
                    let Ok(stream) = stream else { continue };
                    counts.connections.fetch_add(1, Ordering::Relaxed);
                    let counts = Arc::clone(&counts);
                    threads.push(std::thread::spawn(move || serve(stream, &counts, behaviour)));
                }
                drop(listener);
                threads.into_iter().for_each(|thread| drop(thread.join()));
            }
        });
        Self { address, counts, stop, acceptor: Some(acceptor) }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.counts.requests.load(Ordering::Relaxed)
    }

    /// Stops listening, and returns the counts. Open connections end when the client closes them.
    pub(crate) fn stop(mut self) -> Arc<Counts> {
        self.end();
        Arc::clone(&self.counts)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that waits for the next connection.
        drop(TcpStream::connect(self.address));
        if let Some(acceptor) = self.acceptor.take() {
            drop(acceptor.join());
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.end();
    }
}

fn serve(stream: TcpStream, counts: &Counts, behaviour: Behaviour) {
    // Without a time-out, a connection without traffic would keep the test from ending.
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    let mut nth = 0;
    while read_request(&mut reader) {
        counts.requests.fetch_add(1, Ordering::Relaxed);
        if !behaviour(&mut stream, nth) {
            return;
        }
        nth += 1;
    }
}

/// Reads one whole request. Returns false if the connection has ended.
fn read_request(reader: &mut BufReader<TcpStream>) -> bool {
    let mut body_bytes = 0;
    let mut is_first = true;
    loop {
        let mut line = String::new();
        match reader.read_line(&mut line) {
            Ok(1..) => {}
            _ => return false,
        }
        if line == "\r\n" {
            assert!(!is_first, "an empty line before a request");
            break;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            body_bytes = length.trim().parse().unwrap();
        }
        is_first = false;
    }
    let mut body = vec![0; body_bytes];
    reader.read_exact(&mut body).is_ok()
}

/// Writes `text`. Returns false if the connection is closed.
pub(crate) fn say(stream: &mut TcpStream, text: &str) -> bool {
    stream.write_all(text.as_bytes()).is_ok()
}

/// Writes a text and returns false, so that the connection is then closed.
pub(crate) fn last(stream: &mut TcpStream, text: &str) -> bool {
    say(stream, text);
    false
}

/// Makes the close of this connection a reset instead of an orderly close.
pub(crate) fn reset(stream: &TcpStream) {
    socket2::SockRef::from(stream).set_linger(Some(Duration::ZERO)).unwrap();
}
