//! Where the parts of a cell are: on ports of loopback, or in network namespaces with links between them.

use std::net::{Ipv4Addr, SocketAddr};

use weir_rig::{Namespace, Rig};

use super::error::CellError;
use super::ports::Ports;
use crate::scenario::Network;

/// In a namespace of its own a server may have any port, so it has the same in every cell.
const LISTEN_PORT: u16 = 8080;
const ADMIN_PORT: u16 = 8081;

/// Where a server is.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    /// Where it listens.
    pub(crate) listen: SocketAddr,
    /// Its own administration.
    pub(crate) admin: SocketAddr,
    /// Where it is asked; another address than the first where that is every one of a namespace.
    pub(crate) asked: SocketAddr,
    /// The network that it is in; `None` is the host's.
    pub(crate) namespace: Option<Namespace>,
}

/// How the parts of one cell reach each other.
pub(crate) enum Wiring<'a> {
    /// Over loopback.
    Loopback(&'a Ports),
    /// Over a link from the generator to the gateway, and one from there to each server of the upstream. Without a
    /// gateway the generator has those.
    Namespaces { rig: &'a Rig, generator: Namespace, gateway: Option<Namespace> },
}

impl<'a> Wiring<'a> {
    /// That of a cell with or without a gateway.
    pub(crate) fn new(
        network: Network,
        rig: &'a Rig,
        ports: &'a Ports,
        has_gateway: bool,
    ) -> Result<Self, CellError> {
        Ok(match network {
            Network::Loopback => Self::Loopback(ports),
            Network::Namespaces => Self::Namespaces {
                rig,
                generator: rig.namespace()?,
                gateway: has_gateway.then(|| rig.namespace()).transpose()?,
            },
        })
    }

    /// A seat for one more server of the upstream.
    pub(crate) fn origin(&self) -> Result<Seat, CellError> {
        match self {
            Self::Loopback(ports) => on_loopback(ports.free()?, ports),
            Self::Namespaces { rig, generator, gateway } => {
                let namespace = rig.namespace()?;
                let [_, address] = rig.link(gateway.as_ref().unwrap_or(generator), &namespace)?;
                Ok(in_namespace(namespace, address, None))
            }
        }
    }

    /// The gateway's seat, which may be told where to listen.
    pub(crate) fn gateway(&self, listen: Option<SocketAddr>) -> Result<Seat, CellError> {
        match self {
            Self::Namespaces { rig, generator, gateway: Some(namespace) } => {
                let [_, address] = rig.link(generator, namespace)?;
                Ok(in_namespace(namespace.clone(), address, listen))
            }
            Self::Namespaces { gateway: None, .. } => unreachable!("a direct cell seats no gateway"),
            Self::Loopback(ports) => match listen {
                Some(listen) => on_loopback(listen, ports),
                None => on_loopback(ports.free()?, ports),
            },
        }
    }

    /// The generator's network.
    pub(crate) fn generator(&self) -> Option<Namespace> {
        match self {
            Self::Loopback(_) => None,
            Self::Namespaces { generator, .. } => Some(generator.clone()),
        }
    }
}

fn on_loopback(listen: SocketAddr, ports: &Ports) -> Result<Seat, CellError> {
    Ok(Seat { listen, admin: ports.free()?, asked: listen, namespace: None })
}

fn in_namespace(namespace: Namespace, address: Ipv4Addr, listen: Option<SocketAddr>) -> Seat {
    let asked = SocketAddr::from((address, listen.map_or(LISTEN_PORT, |listen| listen.port())));
    let admin_port = if asked.port() == ADMIN_PORT { ADMIN_PORT + 1 } else { ADMIN_PORT };
    Seat {
        listen: listen.unwrap_or(asked),
        admin: SocketAddr::from((address, admin_port)),
        asked,
        namespace: Some(namespace),
    }
}
