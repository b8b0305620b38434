//! Sockets without a runtime: connections that are opened without waiting, and reads that tell when the bytes came.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use rustix::time::{ClockId, clock_gettime};
use socket2::{Protocol, SockAddr, Socket, Type};

use crate::mono_ns;

/// Begins a connection to `address`, by TCP or to a Unix socket: it is open, or has failed, once its socket is writable.
///
/// Nagle's algorithm is off: a request leaves in one write, and waiting for more would only add to its latency.
///
/// # Errors
/// When no descriptor or no local port is left, or the network cannot be reached. Of a Unix socket also when nobody
/// listens there, and `WouldBlock` when its listen queue is full.
pub fn connect(address: &SockAddr) -> io::Result<Socket> {
    let protocol = (!address.is_unix()).then_some(Protocol::TCP);
    let socket = Socket::new(address.domain(), Type::STREAM.nonblocking(), protocol)?;
    if protocol.is_some() {
        socket.set_tcp_nodelay(true)?;
    }
    match socket.connect(address) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Ok(socket)
}

/// Makes the kernel note when bytes come in, for [`recv_stamped`]. Whether it can.
pub fn stamp_arrivals(socket: &impl AsRawFd) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open, the pointer is valid for reads of a `c_int`, and its size is given.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    done == 0
}

/// Room for one control message with a time.
#[repr(align(8))]
struct Control([MaybeUninit<u8>; 64]);

/// Reads what has come, with the time at which the last of it reached this host, on the real-time clock in
/// nanoseconds; `None` where the kernel did not note it. `Ok((0, _))` is the peer's end.
///
/// # Errors
/// Those of `recvmsg`; `WouldBlock` when nothing is there.
#[inline]
pub fn recv_stamped(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([MaybeUninit::uninit(); 64]);
    // SAFETY: a `msghdr` of zeroes is valid, and says that there is neither name nor buffer.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len();
    // SAFETY: the message points to one piece, which is all of `buffer`, and to the whole of `control`; both outlive
    // the call, and the kernel writes within the lengths that are given.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has filled in the message; its control part lies in `control`, which is aligned for a header.
    let stamp = unsafe { stamp_of(&message) };
    Ok((read as usize, stamp))
}

/// # Safety
/// The message must be one that the kernel has filled in, with its control buffer still there.
unsafe fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: as promised by the caller; the macro looks at the message's lengths before it gives a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: it is not null, so a whole header lies there.
    let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: a message of this kind carries a `timespec`; it may lie anywhere, so it is read as unaligned.
    let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// What is to be added to the monotonic clock for the real-time clock, nanoseconds; both since their beginnings, so it
/// is never negative on a host whose date is set. The real-time clock may be set or slewed, so this is asked anew now
/// and then.
pub fn realtime_offset_ns() -> u64 {
    let before_ns = mono_ns();
    let now = clock_gettime(ClockId::Realtime);
    let after_ns = mono_ns();
    let real_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
    real_ns.saturating_sub(before_ns + (after_ns - before_ns) / 2)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::*;
    use crate::Poll;

    #[test]
    fn arrivals_are_noted_between_sending_and_reading() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = connect(&listener.local_addr().unwrap().into()).unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add_socket(&near, 0).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert!(poll.wait() == 1 && near.take_error().unwrap().is_none());
        assert!(stamp_arrivals(&near));
        let mut buffer = [0; 16];
        assert_eq!(recv_stamped(&near, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // The kernel begins to note times a little after it is asked to.
        let noted = (0..10_000).find_map(|_| {
            let sent_ns = mono_ns();
            far.write_all(b"hello").unwrap();
            poll.wait();
            let (bytes, stamp) = recv_stamped(&near, &mut buffer).unwrap();
            assert_eq!(bytes, 5);
            Some((sent_ns, stamp? - realtime_offset_ns(), mono_ns()))
        });
        let (sent_ns, came_ns, read_ns) = noted.expect("times are noted");
        // Two readings of two clocks are never quite at once.
        assert!(came_ns + 1_000_000 >= sent_ns && came_ns <= read_ns + 1_000_000);
        drop(far);
        poll.wait();
        assert_eq!(recv_stamped(&near, &mut buffer).unwrap().0, 0);
    }

    #[test]
    fn a_unix_socket_is_connected_to_at_once_or_its_queue_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let address = SockAddr::unix(&path).unwrap();
        assert_eq!(connect(&address).unwrap_err().kind(), io::ErrorKind::NotFound);
        let listener = Socket::new(address.domain(), Type::STREAM, None).unwrap();
        listener.bind(&address).unwrap();
        assert_eq!(connect(&address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        listener.listen(1).unwrap();
        let queued: Vec<Socket> = std::iter::from_fn(|| connect(&address).ok()).take(100).collect();
        assert!((1..100).contains(&queued.len()));
        assert_eq!(connect(&address).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let (mut far, _) = listener.accept().unwrap();
        far.write_all(b"hello").unwrap();
        let mut buffer = [0; 16];
        assert_eq!(recv_stamped(&queued[0], &mut buffer).unwrap().0, 5);
    }

    #[test]
    fn a_port_where_nobody_listens_refuses() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        match connect(&address.into()) {
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused),
            Ok(socket) => {
                let mut poll = Poll::new().unwrap();
                poll.add_socket(&socket, 0).unwrap();
                poll.wait();
                let error = socket.take_error().unwrap().unwrap();
                assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
            }
        }
    }
}
