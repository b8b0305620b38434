//! A small upstream that records its requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// An upstream that responds to every GET with 200 and the path.
#[derive(Clone)]
pub(crate) struct Origin {
    pub(crate) address: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// Starts the upstream on a free port. It stops when the test process exits.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = Self { address: listener.local_addr().unwrap(), asked: Arc::default() };
        let shared = origin.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let origin = shared.clone();
                thread::spawn(move || origin.serve(stream));
            }
        });
        origin
    }

    /// The headers of all requests so far, in order of arrival.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    fn serve(&self, stream: TcpStream) {
        let mut writer = stream.try_clone().unwrap();
        let mut lines = BufReader::new(stream).lines();
        loop {
            let head: Vec<String> =
                lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
            let Some(path) = head.first().and_then(|line| line.split(' ').nth(1)) else { return };
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{path}", path.len());
            self.asked.lock().unwrap().push(head.join("\n"));
            if writer.write_all(answer.as_bytes()).is_err() {
                return;
            }
        }
    }
}
