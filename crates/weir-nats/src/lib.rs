//! Publishes messages to NATS from synchronous code.
//!
//! The connection has its own thread, which also answers the server's pings between two calls of
//! [`Publisher::publish`].

use std::future::Future;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use async_nats::{Client, ConnectOptions};
use tokio::runtime::{Builder, Runtime};

/// A timeout for [`Publisher::connect`]: long enough for any server on the same host.
pub const TIMEOUT: Duration = Duration::from_secs(10);

/// Number of messages per flush if there is no gap between messages. A flush costs more than a message.
const BATCH: usize = 256;

/// Why publishing failed.
#[derive(Debug, thiserror::Error)]
pub enum NatsError {
    /// The connection could not be opened.
    #[error("cannot connect to NATS at {address}: {why}")]
    Connect {
        /// The server address.
        address: SocketAddr,
        /// The cause.
        why: String,
    },
    /// The server did not confirm the messages in time, or the connection failed.
    #[error("publishing to NATS at {address} failed: {why}")]
    Publish {
        /// The server address.
        address: SocketAddr,
        /// The cause.
        why: String,
    },
}

/// A connection to a NATS server.
#[derive(Debug)]
pub struct Publisher {
    address: SocketAddr,
    timeout: Duration,
    client: Client,
    runtime: Runtime,
}

impl Publisher {
    /// Connects to `address`. `timeout` applies to the connection setup, and later to each message and each flush.
    /// `at_start` runs first on the connection's thread, for example to enter a network namespace.
    ///
    /// # Errors
    /// [`NatsError::Connect`] if there is no connection within `timeout`.
    pub fn connect(
        address: SocketAddr,
        timeout: Duration,
        at_start: impl Fn() + Send + Sync + 'static,
    ) -> Result<Self, NatsError> {
        let failed = |why: String| NatsError::Connect { address, why };
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("nats")
            .on_thread_start(at_start)
            .enable_all()
            .build()
            .map_err(|error| failed(error.to_string()))?;
        let options = ConnectOptions::new().connection_timeout(timeout).max_reconnects(1);
        // The spawned task opens the socket on the connection's thread.
        let connecting = runtime.spawn(async move { options.connect(address.to_string()).await });
        let client = runtime
            .block_on(connecting)
            .map_err(|error| failed(error.to_string()))?
            .map_err(|error| failed(error.to_string()))?;
        Ok(Self { address, timeout, client, runtime })
    }

    /// Publishes messages, each a subject and a payload, with the time `gap` between two messages. Returns once the
    /// server has confirmed that it received all messages.
    ///
    /// # Errors
    /// [`NatsError::Publish`] if the connection fails, or the server does not respond in time.
    pub fn publish<'a>(
        &self,
        messages: impl IntoIterator<Item = (&'a str, &'a str)>,
        gap: Duration,
    ) -> Result<(), NatsError> {
        let mut due = Instant::now();
        for (place, (subject, content)) in messages.into_iter().enumerate() {
            if !gap.is_zero() {
                wait_until(due);
                due += gap;
            }
            // If the server hangs, the client's queue fills, and this call times out.
            self.within(async {
                let sent = self.client.publish(subject.to_owned(), content.to_owned().into()).await;
                sent.map_err(|error| error.to_string())
            })?;
            if gap.is_zero() && place % BATCH == BATCH - 1 {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn flush(&self) -> Result<(), NatsError> {
        self.within(async { self.client.flush().await.map_err(|error| error.to_string()) })
    }

    fn within(&self, work: impl Future<Output = Result<(), String>>) -> Result<(), NatsError> {
        let limited = async { tokio::time::timeout(self.timeout, work).await };
        match self.runtime.block_on(limited) {
            Ok(done) => done.map_err(|why| self.failed(why)),
            Err(_) => Err(self.failed(format!("no response within {:?}", self.timeout))),
        }
    }

    fn failed(&self, why: String) -> NatsError {
        NatsError::Publish { address: self.address, why }
    }
}

/// Waits until `due`. Sleeps for most of the time, then spins for the last 100 µs, because sleep is not exact.
fn wait_until(due: Instant) {
    const SPUN: Duration = Duration::from_micros(100);
    while let Some(left) = due.checked_duration_since(Instant::now()) {
        match left.checked_sub(SPUN) {
            Some(slept) if !slept.is_zero() => std::thread::sleep(slept),
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_missing_or_silent_server_is_an_error() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = silent.local_addr().expect("it is bound");
        let refused = |what: &str| {
            let error = Publisher::connect(address, Duration::from_millis(300), || {}).expect_err(what);
            assert!(
                error.to_string().starts_with(&format!("cannot connect to NATS at {address}: ")),
                "{error}"
            );
        };
        refused("the server accepts, but sends nothing");
        drop(silent);
        refused("no server listens");
    }
}
