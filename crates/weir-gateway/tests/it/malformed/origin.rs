//! An origin that keeps every byte it receives, responds to each request that the lenient parser finds, and reports
//! afterwards what it received.

use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use weir_http::{BodyDecoder, FieldSlots, HeadLimits, parse_request};

use super::lenient::{self, Seen};

/// Everything received on one connection.
pub(crate) struct Log {
    raw: Vec<u8>,
    /// Requests that the lenient parser found. Each one got a response.
    seen: Vec<Seen>,
}

pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    stopping: Arc<AtomicBool>,
    acceptor: JoinHandle<Vec<JoinHandle<Log>>>,
}

impl Origin {
    pub(crate) fn start() -> Origin {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let stopping = Arc::new(AtomicBool::new(false));
        let stopped = stopping.clone();
        let acceptor = std::thread::spawn(move || {
            let mut connections = Vec::new();
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                connections.push(std::thread::spawn(move || serve(stream)));
            }
            connections
        });
        Origin { address, stopping, acceptor }
    }

    /// Stops accepting connections, and waits until the peers have closed all of them. Returns the log of each
    /// connection.
    pub(crate) fn finish(self) -> Vec<Log> {
        self.stopping.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(self.address));
        let connections = self.acceptor.join().expect("the acceptor does not panic");
        connections.into_iter().map(|connection| connection.join().expect("no connection panics")).collect()
    }
}

fn serve(mut stream: TcpStream) -> Log {
    let mut log = Log { raw: Vec::new(), seen: Vec::new() };
    let mut understood = 0;
    let mut buffer = [0; 64 * 1024];
    while let Ok(count @ 1..) = stream.read(&mut buffer) {
        log.raw.extend_from_slice(&buffer[..count]);
        while let Some((seen, end)) = lenient::next(&log.raw[understood..]) {
            understood += end;
            let body = format!("served {}\n", seen.id);
            let head =
                format!("HTTP/1.1 200 OK\r\nX-Served: {}\r\nContent-Length: {}\r\n\r\n", seen.id, body.len());
            let answered = stream.write_all((head + &body).as_bytes());
            log.seen.push(seen);
            if answered.is_err() {
                return log;
            }
        }
    }
    log
}

/// Errors in the received bytes. `served` contains the IDs of valid requests, which get a response. `cut_off` contains
/// the IDs of requests whose headers may arrive, but whose complete body never does.
pub(crate) fn findings(logs: &[Log], served: &HashSet<String>, cut_off: &HashSet<String>) -> Vec<String> {
    let mut findings = Vec::new();
    let mut ids = HashSet::new();
    for log in logs {
        let text = String::from_utf8_lossy(&log.raw);
        if let Some(at) = text.find("smuggled") {
            let rest: String = text[at..].chars().take(200).collect();
            findings.push(format!("the origin received a smuggled request: {rest:?}"));
        }
        let strict = match strictly(&log.raw, cut_off) {
            Ok(strict) => strict,
            Err(fault) => {
                findings.push(format!("the origin received what a strict parser rejects: {fault}"));
                continue;
            }
        };
        if strict != log.seen {
            findings.push(format!("a strict parser finds {strict:?}, a lenient one {:?}", log.seen));
        }
        for seen in strict {
            if !served.contains(&seen.id) {
                findings.push(format!("{:?} was never sent as a valid request", seen.id));
            } else if !ids.insert(seen.id.clone()) {
                findings.push(format!("{:?} was received more than once", seen.id));
            }
        }
    }
    findings.extend(served.difference(&ids).map(|id| format!("{id:?} got a response, but never arrived")));
    findings
}

/// The complete requests of a connection. The body of the last request may be cut off if `cut_off` contains its ID.
fn strictly(raw: &[u8], cut_off: &HashSet<String>) -> Result<Vec<Seen>, String> {
    let limits = HeadLimits::default();
    let (mut requests, mut rest) = (Vec::new(), raw);
    while !rest.is_empty() {
        let mut slots = FieldSlots::new();
        let head = parse_request(rest, &limits, &mut slots).map_err(|error| error.to_string())?;
        let head = head.ok_or("incomplete request headers")?;
        let id = String::from_utf8_lossy(head.field("x-id").unwrap_or(b"")).into_owned();
        let mut decoder = BodyDecoder::new(head.framing);
        rest = &rest[head.head_len..];
        while !decoder.is_done() {
            if rest.is_empty() {
                return if cut_off.contains(&id) { Ok(requests) } else { Err(format!("{id:?} is cut off")) };
            }
            let step = decoder.step(rest).map_err(|error| error.to_string())?;
            rest = &rest[step.consumed..];
        }
        requests.push(Seen { target: head.path_and_query.to_owned(), id });
    }
    Ok(requests)
}
