//! Messages over a stream: the length as four bytes, most significant first, and then JSON.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The greatest message, bytes: a record with a histogram for each second of an hour has some 20 MiB.
const MESSAGE_MAX: usize = 256 << 20;

/// Reads a message; `None` where the other side has closed the connection between two messages.
pub(crate) async fn read<T: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length).await {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    };
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX {
        return Err(invalid(format!("a message of {length} bytes, at most {MESSAGE_MAX} are allowed")));
    }
    // Only what has come takes memory, whatever the length says.
    let mut text = Vec::new();
    let read = stream.take(length as u64).read_to_end(&mut text).await?;
    if read < length {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a message"));
    }
    serde_json::from_slice(&text).map(Some).map_err(|error| invalid(format!("an unknown message: {error}")))
}

/// Writes a message.
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
    stream.write_all(&bytes).await?;
    stream.flush().await
}

fn invalid(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ToAgent;

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
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
            let mut stream = bytes.as_slice();
            for message in &sent {
                assert_eq!(read(&mut stream).await.unwrap().as_ref(), Some(message));
            }
            assert_eq!(read::<ToAgent>(&mut stream).await.unwrap(), None);
        });
    }

    #[test]
    fn what_is_no_message_is_an_error_that_says_why() {
        let check = |bytes: &[u8], expected: &str| {
            let error = block_on(async { read::<ToAgent>(&mut &*bytes).await.unwrap_err().to_string() });
            assert!(error.contains(expected), "{error}");
        };
        check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "a message of 1213486160 bytes");
        check(b"\0\0\0\x09{\"a", "within a message");
        check(b"\0\0\0\x02{}", "an unknown message");
    }
}
