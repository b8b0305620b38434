//! Listening sockets: one for each worker, all on one port.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

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
    // All are bound before the first listens, so that a failure never takes a connection with it.
    for listener in &listeners {
        rustix::net::listen(listener, backlog)?;
    }
    Ok(listeners)
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
    fn no_socket_at_all_is_an_error() {
        assert_eq!(listen_shared(loopback(), 0, 16).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
