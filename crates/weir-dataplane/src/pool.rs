//! Connections to upstreams: taken in turn over the endpoints, kept alive between exchanges.
//!
//! A kept connection stays registered with the poll. If its upstream closes it, or sends what nobody asked for, the
//! poll marks it readable; that is looked at without a system call when the connection is taken, and once a second.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use weir_config::{Backend, UpstreamTls};

use crate::buffer::Buffer;
use crate::secure_upstream;

/// One worker's connections to one backend.
#[derive(Debug)]
pub(crate) struct BackendPool {
    pub(crate) backend: Arc<Backend>,
    pub(crate) tls: Option<Arc<UpstreamTls>>,
    endpoints: Vec<Rc<EndpointPool>>,
    next: Cell<usize>,
    /// Open connections to the backend, of all workers.
    open: Arc<AtomicU32>,
}

/// One worker's connections to one endpoint.
#[derive(Debug)]
pub(crate) struct EndpointPool {
    pub(crate) address: SocketAddr,
    idle: RefCell<Vec<Idle>>,
}

#[derive(Debug)]
struct Idle {
    upstream: Upstream,
    since: u32,
}

/// A connection to an upstream, with what was read from it and not used.
#[derive(Debug)]
pub(crate) struct Upstream {
    pub(crate) link: Link,
    pub(crate) inbound: Buffer,
    _permit: Permit,
}

/// What is spoken over a connection to an upstream.
#[derive(Debug)]
pub(crate) enum Link {
    Plain(TcpStream),
    Tls(Box<RefCell<TlsStream<TcpStream>>>),
}

/// A place among the backend's connections, of the whole process.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicU32>);

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Upstream {
    pub(crate) fn new(link: Link, permit: Permit) -> Upstream {
        Upstream { link, inbound: Buffer::default(), _permit: permit }
    }

    /// Whether nothing has come since it was kept: neither bytes nor its end.
    fn is_quiet(&mut self) -> bool {
        // The kernel is asked only where the poll has told something. Other than `poll_read_ready` this never says
        // "nothing" only because a task has used up its share.
        let would_block = |e: std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
        match &mut self.link {
            Link::Plain(stream) => stream.try_read(&mut [0]).is_err_and(would_block),
            Link::Tls(stream) => secure_upstream::is_quiet(stream.get_mut()),
        }
    }
}

impl EndpointPool {
    /// A kept connection that is still good; the one used last, so that the others can age.
    pub(crate) fn take_idle(&self) -> Option<Upstream> {
        let mut idle = self.idle.borrow_mut();
        while let Some(mut last) = idle.pop() {
            if last.upstream.is_quiet() {
                return Some(last.upstream);
            }
        }
        None
    }

    /// Keeps a connection whose exchange has ended cleanly, if there is room.
    pub(crate) fn keep(&self, upstream: Upstream, now: u32, most: usize) {
        let mut idle = self.idle.borrow_mut();
        if idle.len() < most {
            idle.push(Idle { upstream, since: now });
        }
    }

    fn sweep(&self, now: u32, idle_ticks: u32) {
        self.idle
            .borrow_mut()
            .retain_mut(|i| now.wrapping_sub(i.since) < idle_ticks && i.upstream.is_quiet());
    }
}

impl BackendPool {
    /// A pool for `backend`; `former` lends its connections where endpoints and TLS stay the same.
    pub(crate) fn new(
        (backend, tls): (Arc<Backend>, Option<Arc<UpstreamTls>>),
        open: Arc<AtomicU32>,
        first: usize,
        former: Option<&BackendPool>,
    ) -> BackendPool {
        let endpoint = |&address: &SocketAddr| {
            let lender = former.filter(|former| former.has_tls(tls.as_ref()));
            let same = lender.and_then(|f| f.endpoints.iter().find(|e| e.address == address));
            same.map(Rc::clone).unwrap_or_else(|| Rc::new(EndpointPool { address, idle: RefCell::default() }))
        };
        let endpoints = backend.endpoints.iter().map(endpoint).collect();
        let next = Cell::new(former.map_or(first, |f| f.next.get()));
        BackendPool { backend, tls, endpoints, next, open }
    }

    /// Whether its connections were made with this TLS, of the same files.
    pub(crate) fn has_tls(&self, tls: Option<&Arc<UpstreamTls>>) -> bool {
        self.tls.as_ref().map(Arc::as_ptr) == tls.map(Arc::as_ptr)
    }

    pub(crate) fn endpoint_count(&self) -> usize {
        self.endpoints.len()
    }

    /// The next endpoint in turn.
    pub(crate) fn next_endpoint(&self) -> Option<&Rc<EndpointPool>> {
        let turn = self.next.get();
        let turn = if turn < self.endpoints.len() { turn } else { 0 };
        self.next.set(turn + 1);
        self.endpoints.get(turn)
    }

    /// A place for a new connection. At the limit, an idle connection to any endpoint gives up its own.
    pub(crate) fn permit(&self, most: u32) -> Option<Permit> {
        loop {
            let open = self.open.fetch_add(1, Ordering::Relaxed);
            let permit = Permit(Arc::clone(&self.open));
            if open < most {
                return Some(permit);
            }
            drop(permit);
            self.endpoints.iter().find_map(|e| e.idle.borrow_mut().pop())?;
        }
    }

    /// Drops kept connections that have ended or aged.
    pub(crate) fn sweep(&self, now: u32, idle_ticks: u32) {
        for endpoint in &self.endpoints {
            endpoint.sweep(now, idle_ticks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_take_turns() {
        let endpoints: Vec<SocketAddr> = (1..=3).map(|p| SocketAddr::from(([127, 0, 0, 1], p))).collect();
        let backend = Arc::new(Backend { endpoints, tls: None });
        let pool = BackendPool::new((Arc::clone(&backend), None), Arc::default(), 1, None);
        let ports: Vec<u16> = (0..7).filter_map(|_| pool.next_endpoint()).map(|e| e.address.port()).collect();
        assert_eq!(ports, [2, 3, 1, 2, 3, 1, 2]);
        let smaller = Arc::new(Backend { endpoints: vec![backend.endpoints[2]], tls: None });
        let next = BackendPool::new((smaller, None), Arc::default(), 0, Some(&pool));
        assert!(Rc::ptr_eq(&pool.endpoints[2], next.next_endpoint().unwrap()));
    }

    #[test]
    fn permits_are_bounded_and_come_back() {
        let pool = BackendPool::new(
            (Arc::new(Backend { endpoints: vec![], tls: None }), None),
            Arc::default(),
            0,
            None,
        );
        assert!(pool.next_endpoint().is_none());
        let held = pool.permit(1).unwrap();
        assert!(pool.permit(1).is_none());
        drop(held);
        assert!(pool.permit(1).is_some());
    }
}
