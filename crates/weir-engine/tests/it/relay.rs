//! The weir origin behind a relay that records the heads of requests.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use weir_origin::{Origin, OriginSpec};

/// An origin, and the relay in front of it that records request lines and headers.
pub(crate) struct Watched {
    pub(crate) origin: Origin,
    pub(crate) address: SocketAddr,
    heads: Receiver<String>,
}

impl Watched {
    /// Starts an origin with a short response body, and its relay. Both run until the test ends.
    pub(crate) fn start() -> Self {
        let spec = OriginSpec { body_bytes: 64, ..OriginSpec::at(([127, 0, 0, 1], 0).into()) };
        let origin = weir_origin::start(&spec).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (heads_in, heads) = channel();
        let upstream = origin.address();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, heads_in) = (client.unwrap(), Sender::clone(&heads_in));
                std::thread::spawn(move || relay(client, upstream, &heads_in));
            }
        });
        Self { origin, address, heads }
    }

    /// Returns the request heads that were recorded since the last call.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.try_iter().collect()
    }
}

/// Relays a connection until one of its ends closes it. The requests have no bodies, so each request ends with its
/// headers.
fn relay(mut client: TcpStream, upstream: SocketAddr, heads: &Sender<String>) {
    let mut server = TcpStream::connect(upstream).unwrap();
    let mut answers = (server.try_clone().unwrap(), client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = io::copy(&mut answers.0, &mut answers.1);
        let _ = answers.1.shutdown(Shutdown::Write);
    });
    let (mut pending, mut part) = (Vec::new(), [0; 4096]);
    while let Ok(bytes @ 1..) = client.read(&mut part) {
        pending.extend_from_slice(&part[..bytes]);
        while let Some(end) = pending.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = pending.drain(..end + 4).collect();
            // The headers are recorded before they are forwarded, so they are there when the response arrives.
            heads.send(String::from_utf8(head.clone()).unwrap()).unwrap();
            if server.write_all(&head).is_err() {
                return;
            }
        }
    }
    let _ = server.shutdown(Shutdown::Write);
}
