//! The gateway under test as a separate process, and a relay without checks. The test must detect the relay.

use std::io::Read;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

/// A running weir-gateway. Dropping it kills the process.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    child: Child,
    messages: Option<JoinHandle<String>>,
    _dir: tempfile::TempDir,
}

impl Gateway {
    /// Starts the gateway in front of this origin and waits until it accepts connections.
    pub(crate) fn start(origin: SocketAddr) -> Gateway {
        let address = free_address();
        let dir = tempfile::tempdir().expect("a temporary folder");
        let config = dir.path().join("gateway.yaml");
        let text = format!(
            "listeners: [{{ address: \"{address}\" }}]\n\
             workers: 1\n\
             routes:\n  - {{ hosts: [example.com], path: /, backend: origin }}\n\
             backends: {{ origin: {{ endpoints: [\"{origin}\"] }} }}\n\
             drain: {{ delay: 0s }}\n"
        );
        std::fs::write(&config, text).expect("a configuration file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_weir-gateway"))
            .arg("--config")
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the gateway starts");
        let mut stderr = child.stderr.take().expect("its messages");
        let messages = std::thread::spawn(move || {
            let mut bytes = Vec::new();
            // If reading fails, the messages read so far are enough.
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        let mut gateway = Gateway { address, child, messages: Some(messages), _dir: dir };
        gateway.wait_until_ready();
        gateway
    }

    /// Stops the gateway. Returns whether it was alive, and its messages.
    pub(crate) fn stop(mut self) -> (bool, String) {
        let was_alive = matches!(self.child.try_wait(), Ok(None));
        self.kill();
        let messages = self.messages.take().map(|messages| messages.join().expect("its messages end"));
        (was_alive, messages.unwrap_or_default())
    }

    fn wait_until_ready(&mut self) {
        for _ in 0..1_000 {
            if let Ok(Some(status)) = self.child.try_wait() {
                let messages = self.messages.take().and_then(|messages| messages.join().ok());
                panic!("the gateway exited with {status}: {}", messages.unwrap_or_default());
            }
            if TcpStream::connect(self.address).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("the gateway never accepted a connection at {}", self.address);
    }

    fn kill(&mut self) {
        // It may have exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A relay that forwards every byte, like a proxy without checks. It runs until the test process exits.
pub(crate) fn relay(origin: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("its address");
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(upstream) = TcpStream::connect(origin) else { return };
            let ends = client.try_clone().and_then(|c| upstream.try_clone().map(|u| (c, u)));
            let Ok((client_end, upstream_end)) = ends else { return };
            std::thread::spawn(move || forward(client, upstream));
            std::thread::spawn(move || forward(upstream_end, client_end));
        }
    });
    address
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    // When one direction ends, for whatever reason, the other direction ends too.
    let _ = std::io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

/// A free address of 127.0.0.2. Clients on the loopback interface connect from 127.0.0.1, so none of them takes the
/// port before the gateway binds it.
fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.2:0").and_then(|listener| listener.local_addr()).expect("a free port")
}
