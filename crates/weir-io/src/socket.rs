//! Sockets without an async runtime: connecting without blocking, and reading with the arrival time of the data.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;

use rustix::time::{ClockId, clock_gettime};
use socket2::{Protocol, SockAddr, Socket, Type};

use crate::mono_ns;

/// Starts to connect to `address`, over TCP or over a Unix socket. When the socket becomes writable, the connection is
/// open or has failed.
///
/// Disables Nagle's algorithm: each request is sent by a single write, so waiting for more data would only add latency.
///
/// # Errors
/// If no descriptor or local port is left, or the network is unreachable. For a Unix socket, also if no process
/// listens. `WouldBlock` if the listen queue of a Unix socket is full.
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

/// Enables kernel timestamps of received data, for [`recv_stamped`]. Returns whether the kernel supports them.
pub fn stamp_arrivals(socket: &impl AsRawFd) -> bool {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open. The pointer is valid for reads of a `c_int`, and its size is passed.
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

/// Buffer for one control message with a timestamp.
#[repr(align(8))]
struct Control([MaybeUninit<u8>; 64]);

/// Reads the available data, and returns its length and the time at which the last byte reached this host.
///
/// The time is in nanoseconds of the real-time clock; `None` if the kernel did not record it. A length of 0 means that
/// the peer has closed its sending direction.
///
/// # Errors
/// If `recvmsg` fails. `WouldBlock` if no data is available.
#[inline]
pub fn recv_stamped(socket: &impl AsRawFd, buffer: &mut [u8]) -> io::Result<(usize, Option<u64>)> {
    let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    let mut control = Control([MaybeUninit::uninit(); 64]);
    // SAFETY: an all-zero `msghdr` is valid. It has no name and no buffer.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    // The type of this length differs between C libraries.
    message.msg_controllen = control.0.len() as _;
    // SAFETY: the message points to all of `buffer` and all of `control`. Both outlive the call. The kernel writes only
    // within the given lengths.
    let read = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, libc::MSG_DONTWAIT) };
    if read < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel filled in the message. Its control data is in `control`, which is aligned for a header.
    let stamp = unsafe { stamp_of(&message) };
    Ok((read as usize, stamp))
}

/// # Safety
/// The kernel must have filled in the message, and its control buffer must still exist.
unsafe fn stamp_of(message: &libc::msghdr) -> Option<u64> {
    // SAFETY: guaranteed by the caller. The macro checks the message's lengths before it returns a header.
    let header = unsafe { libc::CMSG_FIRSTHDR(message) };
    if header.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, so it points to a complete header.
    let (level, kind) = unsafe { ((*header).cmsg_level, (*header).cmsg_type) };
    if (level, kind) != (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
        return None;
    }
    // SAFETY: a message of this type contains a `timespec`. The `timespec` may be unaligned, so `read_unaligned` reads
    // it.
    let time = unsafe { libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned() };
    Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Returns real time minus monotonic time, in nanoseconds. This is not negative on a host with a correct date. Call
/// it again from time to time, because the real-time clock may be set or adjusted.
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
    fn arrival_times_are_between_send_and_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = connect(&listener.local_addr().unwrap().into()).unwrap();
        let mut poll = Poll::new().unwrap();
        poll.add_socket(&near, 0).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert!(poll.wait() == 1 && near.take_error().unwrap().is_none());
        assert!(stamp_arrivals(&near));
        let mut buffer = [0; 16];
        assert_eq!(recv_stamped(&near, &mut buffer).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // The kernel may enable timestamps late, so the first messages may have none.
        let noted = (0..10_000).find_map(|_| {
            let sent_ns = mono_ns();
            far.write_all(b"hello").unwrap();
            poll.wait();
            let (bytes, stamp) = recv_stamped(&near, &mut buffer).unwrap();
            assert_eq!(bytes, 5);
            Some((sent_ns, stamp? - realtime_offset_ns(), mono_ns()))
        });
        let (sent_ns, came_ns, read_ns) = noted.expect("times are noted");
        // The two clocks cannot be read at exactly the same time.
        assert!(came_ns + 1_000_000 >= sent_ns && came_ns <= read_ns + 1_000_000);
        drop(far);
        poll.wait();
        assert_eq!(recv_stamped(&near, &mut buffer).unwrap().0, 0);
    }

    #[test]
    fn a_unix_socket_connects_at_once_or_its_queue_is_full() {
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
    fn a_port_without_a_listener_refuses_connections() {
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
