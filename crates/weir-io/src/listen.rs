//! Listening sockets: one for each worker, all on one port.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};

/// Binds `sockets` listening sockets to `addr`, one for each worker; the kernel spreads connections over them.
///
/// They share the port by `SO_REUSEPORT` and don't block. With port 0 the kernel chooses one port for all.
///
/// # Errors
/// `AddrInUse` when anybody else listens on the port, also one who would share it: two programs that
/// take each other's connections unseen would spoil every measurement. Else what the system says.
pub fn listen_shared(addr: SocketAddr, sockets: usize, backlog: i32) -> io::Result<Vec<TcpListener>> {
    if sockets == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "at least one listening socket is needed"));
    }
    if addr.port() != 0 {
        // Without SO_REUSEPORT the port is refused when anybody holds it; the probe is closed at once.
        socket(addr)?.bind(&addr.into())?;
    }
    // All are bound before the first listens, so that a failure never takes a connection with it.
    let listeners = bind_shared(addr, sockets)?;
    for listener in &listeners {
        begin_listening(listener, backlog)?;
    }
    Ok(listeners)
}

/// Binds `sockets` more sockets to a port whose holder shares it, which must be the same user; none of them listens.
///
/// # Errors
/// `AddrInUse` when somebody holds the port alone. Else what the system says.
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

/// Lets clients into the queue of a bound socket.
///
/// # Errors
/// Those of `listen`.
pub fn begin_listening(listener: &TcpListener, backlog: i32) -> io::Result<()> {
    Ok(rustix::net::listen(listener, backlog)?)
}

/// Has the kernel pass over who begins a connection to this listening socket from now on, while those whose handshake
/// is under way go on into its queue.
///
/// To close a listening socket resets whoever is in its queue or half-way into it. With this the queue can be emptied
/// first. Who is passed over is not answered, asks again within some seconds, and meets what is there then. It can't be
/// undone, and holds for every copy of the socket.
///
/// # Errors
/// Where the kernel takes no filter.
pub fn pass_over_newcomers(listener: &impl AsFd) -> io::Result<()> {
    /// Where the flags stand in a header of TCP, and which of them the first packet of a connection has alone.
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
    // A restart must not wait for connections of the predecessor that linger in TIME_WAIT.
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
    fn all_sockets_share_the_port_that_was_chosen() {
        let listeners = listen_shared(loopback(), 3, 16).unwrap();
        let addr = listeners[0].local_addr().unwrap();
        assert_ne!(addr.port(), 0);
        assert!(listeners.iter().all(|listener| listener.local_addr().unwrap() == addr));
        assert!(TcpStream::connect(addr).is_ok());
    }

    #[test]
    fn a_port_that_somebody_holds_is_refused() {
        let held = listen_shared(loopback(), 2, 16).unwrap();
        let addr = held[0].local_addr().unwrap();
        assert_eq!(listen_shared(addr, 1, 16).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(held);
        assert!(listen_shared(addr, 1, 16).is_ok());
    }

    #[test]
    fn who_holds_a_port_adds_sockets_to_it() {
        let held = listen_shared(loopback(), 1, 16).unwrap();
        let addr = held[0].local_addr().unwrap();
        let more = bind_shared(addr, 2).unwrap();
        assert!(more.iter().all(|listener| listener.local_addr().unwrap() == addr));
        let alone = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken = bind_shared(alone.local_addr().unwrap(), 1).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn newcomers_are_passed_over_and_the_queue_stays() {
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
    fn no_socket_at_all_is_an_error() {
        assert_eq!(listen_shared(loopback(), 0, 16).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
