//! The rtnetlink requests that create a link: add a pair of interfaces, an address and a route, set an interface up.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, netdevice, recv, send, socket_with};

/// Size of the buffer for a response of the kernel, bytes. A response contains the request.
const ANSWER_BYTES: usize = 8 << 10;

/// An rtnetlink socket, which configures the network namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: OwnedFd,
}

impl Netlink {
    pub(super) fn open() -> io::Result<Self> {
        let family = rustix::net::AddressFamily::NETLINK;
        Ok(Self { socket: socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)? })
    }

    /// Creates the two interfaces of a link: one in this namespace, one in the namespace `other`.
    pub(super) fn add_pair(&self, [here, there]: [&str; 2], other: BorrowedFd<'_>) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.attributes =
            vec![LinkAttribute::IfName(there.into()), LinkAttribute::NetNsFd(other.as_raw_fd())];
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(here.into()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.ask(
            RouteNetlinkMessage::NewLink(message),
            NLM_F_CREATE | NLM_F_EXCL,
            "cannot create a veth pair",
        )
    }

    pub(super) fn add_address(&self, name: &str, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = prefix_bits;
        message.header.index = netdevice::name_to_index(&self.socket, name)?;
        let address = IpAddr::V4(address);
        message.attributes = vec![AddressAttribute::Local(address), AddressAttribute::Address(address)];
        self.ask(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE | NLM_F_EXCL, "cannot add an address")
    }

    /// Adds a route: packets for `address` go over `gateway`.
    pub(super) fn add_route(&self, address: Ipv4Addr, gateway: Ipv4Addr) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = 32;
        message.header.table = RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Static;
        message.header.scope = RouteScope::Universe;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(address)),
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)),
        ];
        self.ask(RouteNetlinkMessage::NewRoute(message), NLM_F_CREATE | NLM_F_EXCL, "cannot add a route")
    }

    pub(super) fn set_up(&self, name: &str, alias: Option<&str>) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = netdevice::name_to_index(&self.socket, name)?;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        message.attributes.extend(alias.map(|alias| LinkAttribute::IfAlias(alias.into())));
        self.ask(RouteNetlinkMessage::SetLink(message), 0, "cannot set an interface up")
    }

    /// Sends a request to the kernel, and waits for the response. `what` prefixes errors.
    fn ask(&self, message: RouteNetlinkMessage, flags: u16, what: &str) -> io::Result<()> {
        let failed = |error: io::Error| io::Error::new(error.kind(), format!("{what}: {error}"));
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut message = NetlinkMessage::new(header, NetlinkPayload::from(message));
        message.finalize();
        let mut request = vec![0; message.buffer_len()];
        message.serialize(&mut request);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut answer = vec![0; ANSWER_BYTES];
        let (length, _) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&answer[..length])
            .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error.to_string())))?;
        match answer.payload {
            NetlinkPayload::Error(error) if error.code.is_some() => Err(failed(error.to_io())),
            NetlinkPayload::Error(_) => Ok(()),
            _ => {
                Err(failed(io::Error::new(io::ErrorKind::InvalidData, "unexpected response from the kernel")))
            }
        }
    }
}
