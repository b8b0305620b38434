//! Messages over a stream: the length as four bytes, most significant first, and then JSON.

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

/// A side of which nothing comes for this long is lost.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(3);

/// The greatest message, bytes: a record with a histogram for each second of an hour has some 20 MiB.
const MESSAGE_MAX: usize = 256 << 20;

/// Bytes that are sent or received at a time: each piece shows that the other side is there.
const PIECE: usize = 64 << 10;

/// When something came last. A long message on a slow network is no silence.
#[derive(Clone, Debug, Default)]
pub(crate) struct Silence(Arc<AtomicU64>);

impl Silence {
    pub(crate) fn now() -> Self {
        Self(Arc::new(AtomicU64::new(mono_ns())))
    }

    fn touch(&self) {
        self.0.store(mono_ns(), Ordering::Relaxed);
    }

    /// Time left until it counts as silence; `None` if it does.
    pub(crate) fn left(&self) -> Option<Duration> {
        let silent = Duration::from_nanos(mono_ns().saturating_sub(self.0.load(Ordering::Relaxed)));
        SILENCE_MAX.checked_sub(silent).filter(|left| !left.is_zero())
    }
}

/// Reads a message; `None` where the other side has closed the connection between two messages.
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
        return Err(invalid(format!("a message of {length} bytes, at most {MESSAGE_MAX} are allowed")));
    }
    // Only what has come takes memory, whatever the length says.
    let mut text = Vec::new();
    while text.len() < length {
        let piece = (length - text.len()).min(PIECE) as u64;
        if (&mut *stream).take(piece).read_to_end(&mut text).await? == 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "the connection ended within a message",
            ));
        }
        silence.touch();
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| invalid(format!("an unknown message: {error}")))
}

/// What a reader hands on: a message with the time when it was there, or why no more can come.
pub(crate) type Incoming<T> = Result<(T, u64), String>;

/// Hands on the messages of `reader` until one side ends the connection.
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

/// Writes a message. The other side must take something at least every [`SILENCE_MAX`].
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
        let why = format!("no data was accepted for {} s", SILENCE_MAX.as_secs());
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
    fn messages_come_as_they_were_sent() {
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
    fn what_is_no_message_is_an_error_that_says_why() {
        let check = |bytes: &[u8], expected: &str| {
            let error = block_on(async {
                read::<ToAgent>(&mut &*bytes, &Silence::default()).await.unwrap_err().to_string()
            });
            assert!(error.contains(expected), "{error}");
        };
        check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "a message of 1213486160 bytes");
        check(b"\0\0\0\x09{\"a", "within a message");
        check(b"\0\0\0\x02{}", "an unknown message");
    }
}
