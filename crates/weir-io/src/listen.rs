//! Listening sockets that share a port, one per worker.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// Creates `sockets` listening sockets at `addr`, one per worker. The kernel distributes new connections among
/// them.
///
/// The sockets share the port with `SO_REUSEPORT`, and are non-blocking. If the port is 0, the kernel chooses one
/// port for all of them.
///
/// # Errors
/// `AddrInUse` if another socket listens on the port, even one with `SO_REUSEPORT`. Two programs that share a port
/// would take each other's connections and spoil measurements. Other errors are those of the operating system.
pub fn listen_shared(addr: SocketAddr, sockets: usize, backlog: i32) -> io::Result<Vec<TcpListener>> {
    if sockets == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "at least one listening socket is needed"));
    }
    if addr.port() != 0 {
        // This socket has no `SO_REUSEPORT`, so binding it fails if another socket uses the port. It is closed
        // immediately.
        socket(addr)?.bind(&addr.into())?;
    }
    // All sockets are bound before the first one listens. So if a bind fails, no connection is lost.
    let listeners = bind_shared(addr, sockets)?;
    for listener in &listeners {
        begin_listening(listener, backlog)?;
    }
    Ok(listeners)
}

/// Binds `sockets` further sockets to a port that is shared already. They do not listen yet. The process that uses
/// the port must belong to the same user.
///
/// # Errors
/// `AddrInUse` if the port is used without `SO_REUSEPORT`. Other errors are those of the operating system.
pub fn bind_shared(addr: SocketAddr, sockets: usize) -> io::Result<Vec<TcpListener>> {
    let mut listeners: Vec<TcpListener> = Vec::with_capacity(sockets);
    let mut bind_to = addr;
    for _ in 0..sockets {
        let socket = socket(bind_to)?;
        socket.set_reuse_port(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&bind_to.into())?;
        let listener = TcpListener::from(socket);
        bind_to = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Makes a bound socket listen. From then on, connections can enter its accept queue.
///
/// # Errors
/// If `listen` fails.
pub fn begin_listening(listener: &TcpListener, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(listener, backlog)?)
}

/// Attaches a filter with which the kernel drops new connection attempts to this listening socket. Handshakes that are
/// in progress still complete, and their connections enter the accept queue.
///
/// Closing a listening socket resets all connections in its accept queue, and all handshakes in progress. To avoid
/// that, call this function, then empty the queue, and then close the socket. The kernel does not respond to a dropped
/// attempt. So the client retries within a few seconds, and reaches another socket that listens by then. The filter
/// cannot be removed, and applies to every copy of the socket.
///
/// # Errors
/// If the kernel rejects the filter.
pub fn pass_over_newcomers(listener: &impl AsFd) -> io::Result<()> {
    /// Offset of the flags in a TCP header.
    const FLAGS: u32 = 13;
    const SYN: u32 = 0x02;
    const SYN_AND_ACK: u32 = 0x12;
    let step = |code: u32, if_not: u8, operand| SockFilter::new(code as u16, 0, if_not, operand);
    let program = [
        step(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, FLAGS),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, SYN_AND_ACK),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 1, SYN),
        step(libc::BPF_RET | libc::BPF_K, 0, 0),
        step(libc::BPF_RET | libc::BPF_K, 0, u32::MAX),
    ];
    SockRef::from(listener).attach_filter(&program)
}

fn socket(addr: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    // Connections of a previous process in TIME_WAIT must not delay a restart.
    socket.set_reuse_address(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[test]
    fn all_sockets_share_the_chosen_port() {
        let listeners = listen_shared(loopback(), 3, 16).unwrap();
        let addr = listeners[0].local_addr().unwrap();
        assert_ne!(addr.port(), 0);
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == addr));
        assert!(TcpStream::connect(addr).is_ok());
    }

    #[test]
    fn a_port_in_use_is_rejected() {
        let held = listen_shared(loopback(), 2, 16).unwrap();
        let addr = held[0].local_addr().unwrap();
        assert_eq!(listen_shared(addr, 1, 16).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(held);
        assert!(listen_shared(addr, 1, 16).is_ok());
    }

    #[test]
    fn the_holder_of_a_port_can_bind_more_sockets() {
        let held = listen_shared(loopback(), 1, 16).unwrap();
        let addr = held[0].local_addr().unwrap();
        let more = bind_shared(addr, 2).unwrap();
        assert!(more.iter().all(|listener| listener.local_addr().unwrap() == addr));
        let alone = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = bind_shared(alone.local_addr().unwrap(), 1).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn new_connections_are_dropped_and_the_queue_is_kept() {
        let listener = listen_shared(loopback(), 1, 16).unwrap().remove(0);
        let addr = listener.local_addr().unwrap();
        let queued = TcpStream::connect(addr).unwrap();
        pass_over_newcomers(&listener).unwrap();
        let newcomer = TcpStream::connect_timeout(&addr, std::time::Duration::from_millis(100));
        assert_eq!(newcomer.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let (_, from) = listener.accept().unwrap();
        assert_eq!(from, queued.local_addr().unwrap());
        assert_eq!(listener.accept().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn zero_sockets_are_an_error() {
        assert_eq!(listen_shared(loopback(), 0, 16).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
