//! Passes file descriptors between processes, with a Unix socket.
#![allow(unsafe_code)]

use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The process at the other end of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The process ID at the time of connecting. `None` if it is not visible here, for example because the peer is
    /// in another PID namespace.
    pub process: Option<i32>,
    /// The user ID of the process.
    pub user: u32,
}

impl Peer {
    /// Returns the process that is connected to this socket, as the kernel reports it.
    ///
    /// # Errors
    /// If `getsockopt` fails.
    pub fn of(stream: &UnixStream) -> io::Result<Peer> {
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is open. The pointers are valid for writes of a `ucred` and of its length. The length
        // contains the size of the buffer.
        let outcome = unsafe {
            libc::getsockopt(
                stream.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut length,
            )
        };
        if outcome != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Peer { process: Some(peer.pid).filter(|&process| process > 0), user: peer.uid })
    }
}

/// Sends `text`, and attaches a copy of the descriptor to its first byte.
///
/// # Errors
/// If `sendmsg` fails. If the descriptor was not sent, no text was sent.
pub fn send_descriptor(stream: &UnixStream, text: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    assert!(
        control.push(SendAncillaryMessage::ScmRights(&descriptors)),
        "the buffer has space for one descriptor"
    );
    let sent = sendmsg(stream, &[IoSlice::new(text)], &mut control, SendFlags::NOSIGNAL)?;
    let mut stream = stream;
    stream.write_all(&text[sent..])
}

/// Receives data, and appends it to `bytes` and `descriptors` in the order in which it was sent. Returns 0 at the end
/// of the stream.
///
/// # Errors
/// If `recvmsg` fails.
pub fn receive_descriptors(
    stream: &UnixStream,
    bytes: &mut Vec<u8>,
    descriptors: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut chunk = [0; 4096];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(stream, &mut [IoSliceMut::new(&mut chunk)], &mut control, flags)?;
    bytes.extend_from_slice(&chunk[..received.bytes]);
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            descriptors.extend(sent);
        }
    }
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd as _;

    use super::*;
    use crate::listening_socket;

    #[test]
    fn the_peer_is_reported() {
        let (near, _far) = UnixStream::pair().unwrap();
        let process = i32::try_from(std::process::id()).ok();
        assert_eq!(Peer::of(&near).unwrap(), Peer { process, user: rustix::process::geteuid().as_raw() });
    }

    /// Sends more descriptors than one call receives, and checks that they arrive in order.
    #[test]
    fn a_passed_socket_is_the_same_socket() {
        let (near, far) = UnixStream::pair().unwrap();
        let listeners: Vec<_> = (0..20).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        for (number, listener) in listeners.iter().enumerate() {
            send_descriptor(&near, format!("{number}\n").as_bytes(), listener.as_fd()).unwrap();
        }
        let addresses: Vec<_> = listeners.iter().map(|l| l.local_addr().unwrap()).collect();
        let waiting = TcpStream::connect(addresses[0]).unwrap();
        drop((near, listeners));
        let (mut bytes, mut descriptors) = (Vec::new(), Vec::new());
        while receive_descriptors(&far, &mut bytes, &mut descriptors).unwrap() > 0 {}
        let expected: String = (0..20).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(bytes).unwrap(), expected);
        let received: Vec<_> = descriptors.into_iter().map(|d| listening_socket(d).unwrap()).collect();
        let of_received: Vec<_> = received.iter().map(|l| l.local_addr().unwrap()).collect();
        assert_eq!(of_received, addresses);
        let (_, from) = received[0].accept().unwrap();
        assert_eq!(from, waiting.local_addr().unwrap(), "the queued client is still there");
    }
}
