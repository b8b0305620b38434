//! The network of a cell: ports on loopback, or network namespaces with links between them.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;

use weir_rig::{Namespace, Rig};

use super::error::{CellError, failed};
use super::ports::Ports;
use crate::scenario::{Network, Scenario};

/// Port where a server in its own network namespace or pod listens; the same in every cell.
pub(super) const LISTEN_PORT: u16 = 8080;
/// Port of the admin endpoint of a server in its own network namespace or pod.
pub(super) const ADMIN_PORT: u16 = 8081;

/// The addresses of a server.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// Address on which the server listens.
    pub(crate) listen: SocketAddr,
    /// Address of the server's admin endpoint.
    pub(crate) admin: SocketAddr,
    /// Address to connect to; differs from `listen` if `listen` is a wildcard address.
    pub(crate) connect: SocketAddr,
    /// Network namespace of the server; `None` means the network of the host.
    pub(crate) namespace: Option<Namespace>,
}

/// The context of a cell's processes: its folder, its scenario, and its network.
#[derive(Clone, Copy)]
pub(crate) struct CellSite<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) scenario: &'a Scenario,
    pub(crate) network: &'a CellNetwork<'a>,
}

/// The network of one cell.
pub(crate) enum CellNetwork<'a> {
    /// The network of the host. Servers listen on loopback. If agents on other machines generate the load, servers
    /// listen on all addresses, and `reached_at` is the address of this host that the agents can reach.
    Host { ports: &'a Ports, reached_at: Option<IpAddr> },
    /// Network namespaces with links between them: from each generator to the gateway, and from the gateway to each
    /// server of the upstream. Without a gateway, the links lead from the generators to the servers.
    Namespaces { rig: &'a Rig, generators: Vec<Namespace>, gateway: Option<Namespace> },
}

/// Where the load of a cell comes from, if agents generate it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadFrom {
    /// The network namespaces of the agents; empty if they have none.
    pub(crate) namespaces: Vec<Namespace>,
    /// The address of this host that agents on other machines can reach.
    pub(crate) reached_at: Option<IpAddr>,
}

impl<'a> CellNetwork<'a> {
    /// Creates the network of a cell. If `network` requires namespaces, creates one for the generator and, with
    /// `has_gateway`, one for the gateway. If `from` contains namespaces of agents, uses those instead of a new one for
    /// the generator.
    pub(crate) fn new(
        network: Network,
        rig: &'a Rig,
        ports: &'a Ports,
        has_gateway: bool,
        from: LoadFrom,
    ) -> Result<Self, CellError> {
        Ok(match network {
            Network::Loopback => Self::Host { ports, reached_at: from.reached_at },
            Network::Namespaces => Self::Namespaces {
                rig,
                generators: match from.namespaces.is_empty() {
                    true => vec![rig.namespace()?],
                    false => from.namespaces,
                },
                gateway: has_gateway.then(|| rig.namespace()).transpose()?,
            },
        })
    }

    /// Addresses for one more endpoint of the upstream.
    pub(crate) fn origin(&self) -> Result<Listener, CellError> {
        match self {
            Self::Host { ports, reached_at } => on_host(ports.free()?, ports, *reached_at),
            Self::Namespaces { rig, generators, gateway } => {
                let namespace = rig.namespace()?;
                let address = link_clients(rig, gateway.as_ref(), generators, &namespace)?;
                Ok(in_namespace(namespace, address, None))
            }
        }
    }

    /// Additional addresses of a gateway, one per name.
    pub(crate) fn further(
        &self,
        gateway: &Listener,
        names: &[String],
    ) -> Result<BTreeMap<String, SocketAddr>, CellError> {
        let address = |(name, port): (&String, u16)| match self {
            Self::Host { ports, .. } => Ok((name.clone(), ports.free()?)),
            Self::Namespaces { .. } => Ok((name.clone(), SocketAddr::new(gateway.admin.ip(), port))),
        };
        names.iter().zip(gateway.admin.port() + 1..).map(address).collect()
    }

    /// Addresses for a service, one per name, and the network namespace of the service; `None` means the network of
    /// the host.
    pub(crate) fn service(
        &self,
        names: &[String],
    ) -> Result<(BTreeMap<String, SocketAddr>, Option<Namespace>), CellError> {
        match self {
            Self::Host { ports, .. } => {
                let addresses = names.iter().map(|name| Ok((name.clone(), ports.free()?)));
                Ok((addresses.collect::<Result<_, CellError>>()?, None))
            }
            Self::Namespaces { rig, generators, gateway } => {
                let namespace = rig.namespace()?;
                let address = link_clients(rig, gateway.as_ref(), generators, &namespace)?;
                let ports = names.iter().zip(LISTEN_PORT..);
                let addresses = ports.map(|(name, port)| (name.clone(), SocketAddr::from((address, port))));
                Ok((addresses.collect(), Some(namespace)))
            }
        }
    }

    /// Addresses for the gateway; `listen` is the address that the scenario sets.
    pub(crate) fn gateway(&self, listen: Option<SocketAddr>) -> Result<Listener, CellError> {
        match self {
            Self::Namespaces { rig, generators, gateway: Some(namespace) } => {
                let address = link_clients(rig, None, generators, namespace)?;
                Ok(in_namespace(namespace.clone(), address, listen))
            }
            Self::Namespaces { gateway: None, .. } => unreachable!("a direct cell has no gateway"),
            Self::Host { ports, reached_at } => {
                let listen = listen.map_or_else(|| ports.free(), Ok)?;
                on_host(listen, ports, *reached_at)
            }
        }
    }

    /// The network namespace of the generator, or of the first agent; `None` means the network of the host.
    pub(crate) fn generator(&self) -> Option<Namespace> {
        match self {
            Self::Host { .. } => None,
            Self::Namespaces { generators, .. } => generators.first().cloned(),
        }
    }
}

/// Parses `address`, an output of the service `service`. Error messages show `example`, a correct form of the output.
pub(crate) fn parsed_address(service: &str, address: &str, example: &str) -> Result<SocketAddr, CellError> {
    address.parse().map_err(|_| {
        let message = format!("service `{service}`: the output `address` is `{address}`, not IP:PORT");
        failed("render", &message, &format!("use a form like {example:?} in its service.yaml"), "")
    })
}

/// Links `server` to its clients: the gateway, or the generators if there is no gateway. Returns the address of the
/// server.
fn link_clients(
    rig: &Rig,
    gateway: Option<&Namespace>,
    generators: &[Namespace],
    server: &Namespace,
) -> Result<Ipv4Addr, CellError> {
    let clients = gateway.map_or(generators, std::slice::from_ref);
    let (first, further) = clients.split_first().expect("the server has at least one client");
    let [_, address] = rig.link(first, server)?;
    for client in further {
        rig.link_to(client, server, address)?;
    }
    Ok(address)
}

fn on_host(listen: SocketAddr, ports: &Ports, reached_at: Option<IpAddr>) -> Result<Listener, CellError> {
    let admin = ports.free()?;
    Ok(match reached_at {
        None => Listener { listen, admin, connect: listen, namespace: None },
        Some(ip) => Listener {
            listen: (Ipv4Addr::UNSPECIFIED, listen.port()).into(),
            admin,
            connect: (ip, listen.port()).into(),
            namespace: None,
        },
    })
}

fn in_namespace(namespace: Namespace, address: Ipv4Addr, listen: Option<SocketAddr>) -> Listener {
    let connect = SocketAddr::from((address, listen.map_or(LISTEN_PORT, |listen| listen.port())));
    let admin_port = if connect.port() == ADMIN_PORT { ADMIN_PORT + 1 } else { ADMIN_PORT };
    Listener {
        listen: listen.unwrap_or(connect),
        admin: SocketAddr::from((address, admin_port)),
        connect,
        namespace: Some(namespace),
    }
}
