//! Reads and writes messages on a stream. A message is its length (four bytes, big-endian), then JSON.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::timeout;
use weir_io::mono_ns;

/// A peer that sends nothing for this long is lost.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Maximum size of a message, bytes. A record with a histogram per second for an hour needs about 20 MiB.
const MESSAGE_MAX: usize = 256 << 20;

/// Bytes per read or write: each piece shows that the peer is alive.
const PIECE: usize = 64 << 10;

/// When the peer last sent data. Every piece of a message counts, so that a long message on a slow network is not
/// mistaken for silence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence(Arc<AtomicU64>);

impl Silence {
    pub(crate) fn now() -> Self {
        Self(Arc::new(AtomicU64::new(mono_ns())))
    }

    fn touch(&self) {
        self.0.store(mono_ns(), Ordering::Relaxed);
    }

    /// Time until the peer counts as silent; `None` if it already does.
    pub(crate) fn left(&self) -> Option<Duration> {
        let silent = Duration::from_nanos(mono_ns().saturating_sub(self.0.load(Ordering::Relaxed)));
        SILENCE_MAX.checked_sub(silent).filter(|left| !left.is_zero())
    }
}

/// Reads a message; `None` if the peer closed the connection between two messages.
pub(crate) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    silence: &Silence,
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    silence.touch();
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX {
        return Err(invalid(format!("a message of {length} bytes exceeds the limit of {MESSAGE_MAX} bytes")));
    }
    // Allocate memory only for bytes that arrive: the length can be wrong.
    let mut text = Vec::new();
    while text.len() < length {
        let piece = (length - text.len()).min(PIECE) as u64;
        if (&mut *stream).take(piece).read_to_end(&mut text).await? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection was closed in the middle of a message",
            ));
        }
        silence.touch();
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| invalid(format!("unknown message: {error}")))
}

/// A message with its time of arrival (monotonic clock, nanoseconds), or the reason why no more messages can arrive.
pub(crate) type Incoming<T> = Result<(T, u64), String>;

/// Reads messages from `reader` and sends them to `heard`, until one side closes the connection.
pub(crate) async fn listen<T: DeserializeOwned>(
    mut reader: impl AsyncRead + Unpin,
    heard: UnboundedSender<Incoming<T>>,
    silence: Silence,
) {
    loop {
        let message = match read(&mut reader, &silence).await {
            Ok(Some(message)) => Ok((message, mono_ns())),
            Ok(None) => Err("the connection was closed".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let is_last = message.is_err();
        if heard.send(message).is_err() || is_last {
            return;
        }
    }
}

/// Writes a message. Fails if the peer accepts no piece of it for [`SILENCE_MAX`].
pub(crate) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    message: &impl Serialize,
) -> io::Result<()> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - 4;
    let prefix = u32::try_from(length).ok().filter(|_| length <= MESSAGE_MAX);
    let prefix = prefix.ok_or_else(|| invalid(format!("a message of {length} bytes is too long")))?;
    bytes[..4].copy_from_slice(&prefix.to_be_bytes());
    let full = || {
        let why = format!("the peer accepted no data for {} s", SILENCE_MAX.as_secs());
        io::Error::new(io::ErrorKind::TimedOut, why)
    };
    for piece in bytes.chunks(PIECE) {
        timeout(SILENCE_MAX, stream.write_all(piece)).await.map_err(|_| full())??;
    }
    timeout(SILENCE_MAX, stream.flush()).await.map_err(|_| full())?
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToAgent;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(future)
    }

    #[test]
    fn messages_are_read_as_written() {
        let sent =
            [ToAgent::Ping { sent_ns: u64::MAX }, ToAgent::Leave, ToAgent::Start { load: 3, at_ns: 1 }];
        block_on(async {
            let mut bytes = Vec::new();
            for message in &sent {
                write(&mut bytes, message).await.unwrap();
            }
            let (mut stream, silence) = (bytes.as_slice(), Silence::default());
            for message in &sent {
                assert_eq!(read(&mut stream, &silence).await.unwrap().as_ref(), Some(message));
            }
            assert_eq!(read::<ToAgent>(&mut stream, &silence).await.unwrap(), None);
        });
    }

    #[test]
    fn malformed_messages_are_errors_with_the_reason() {
        let check = |bytes: &[u8], expected: &str| {
            let error = block_on(async {
                read::<ToAgent>(&mut &*bytes, &Silence::default()).await.unwrap_err().to_string()
            });
            assert!(error.contains(expected), "{error}");
        };
        check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "a message of 1213486160 bytes");
        check(b"\0\0\0\x09{\"a", "in the middle of a message");
        check(b"\0\0\0\x02{}", "unknown message");
    }
}
