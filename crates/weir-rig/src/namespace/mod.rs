//! Network namespaces of a run, and the links between them.
//!
//! A namespace contains only its loopback and the interfaces of its links. No route leads to the host, so the addresses
//! and the firewall of the host do not affect measurements. Namespaces have no name on the host. A namespace exists
//! only while a process or an open file uses it. So the kernel removes it and its links, even if weir is killed.

mod netlink;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::digest::sha256_hex;
use netlink::Netlink;

/// Sysctls under /proc/sys/net that a new namespace copies from the host. Users tune them for many connections, but the
/// kernel gives a new namespace its defaults.
const INHERITED: [&str; 11] = [
    "core/somaxconn",
    "ipv4/ip_local_port_range",
    "ipv4/tcp_congestion_control",
    "ipv4/tcp_fin_timeout",
    "ipv4/tcp_max_syn_backlog",
    "ipv4/tcp_max_tw_buckets",
    "ipv4/tcp_notsent_lowat",
    "ipv4/tcp_rmem",
    "ipv4/tcp_slow_start_after_idle",
    "ipv4/tcp_tw_reuse",
    "ipv4/tcp_wmem",
];

/// Links have addresses in 198.18.0.0/15, which is reserved for network benchmarks (RFC 2544).
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Number of addresses per link: each link is a /30 network, and its two ends use the second and third address.
const LINK_ADDRESSES: u32 = 4;
const LINK_PREFIX_BITS: u8 = 30;
/// After this many links, addresses are reused. By then, the first links no longer exist.
const LINKS_MAX: u32 = (1 << 17) / LINK_ADDRESSES;

/// A network namespace of the run.
#[derive(Clone, Debug)]
pub struct Namespace {
    files: Arc<Files>,
}

/// Open /proc files of a namespace. An open file keeps the namespace alive, as a process in it does.
#[derive(Debug)]
struct Files {
    network: File,
    interfaces: File,
    snmp: File,
}

/// Length of the hash in interface names. A name consists of `w`, the hash, `-` and a number: at most 15 characters.
const NAME_HASH_LETTERS: usize = 8;

/// Names of the interfaces of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    /// The prefix of interface names, which identifies the run's namespaces.
    pub(crate) prefix: &'a str,
    /// The alias of the interfaces, which names their run; `ip link` shows it.
    pub(crate) alias: &'a str,
}

/// The prefix of the interface names of the rig with the name `unique`. It contains a hash of this name, because
/// interface names are short.
pub(crate) fn interface_prefix(unique: &str) -> String {
    let hash: String = sha256_hex(unique).chars().take(NAME_HASH_LETTERS).collect();
    format!("w{hash}-")
}

/// Whether `text` has the form that [`interface_prefix`] returns, for any rig.
pub(crate) fn is_interface_prefix(text: &str) -> bool {
    let hash = text.strip_prefix('w').and_then(|rest| rest.strip_suffix('-'));
    hash.is_some_and(|hash| hash.len() == NAME_HASH_LETTERS && hash.chars().all(|c| c.is_ascii_hexdigit()))
}

impl PartialEq for Namespace {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.files, &other.files)
    }
}

impl Namespace {
    /// Creates a namespace with its loopback up and the TCP settings of the host. Adds a pair of interfaces that stay
    /// down. Their names begin with `prefix`, so that the cleanup finds the namespace. The interfaces of links are not
    /// enough for this: they disappear when the namespace at the other end of the link disappears.
    ///
    /// # Errors
    /// Errors of the system; `PermissionDenied` without `CAP_SYS_ADMIN`.
    pub(crate) fn make(prefix: &str) -> io::Result<Self> {
        let settings: Vec<(&str, String)> = INHERITED
            .into_iter()
            .filter_map(|name| Some((name, fs::read_to_string(setting(name)).ok()?)))
            .collect();
        let files = on_a_thread(move || {
            unshare_network()?;
            for (name, value) in &settings {
                set(name, value)?;
            }
            // Without IPv6, new interfaces send no packets on their own, such as router solicitations.
            set("ipv6/conf/default/disable_ipv6", "1")?;
            let netlink = Netlink::open()?;
            netlink.set_up("lo", None)?;
            // /proc files that this thread opens show this namespace, even to readers in other namespaces.
            let open = |name| File::open(format!("/proc/thread-self/{name}"));
            let network = open("ns/net")?;
            // The names of these interfaces end with `x` or `y`. No link has such a name, because names of links end
            // with a hexadecimal digit.
            netlink.add_pair([&format!("{prefix}x"), &format!("{prefix}y")], network.as_fd())?;
            Ok(Files { network, interfaces: open("net/dev")?, snmp: open("net/snmp")? })
        })?;
        Ok(Self { files: Arc::new(files) })
    }

    /// Creates the link `number` to `other`; returns the addresses of this namespace and of `other` on the link.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn link(&self, other: &Self, number: u32, label: Label<'_>) -> io::Result<[Ipv4Addr; 2]> {
        let number = number % LINKS_MAX;
        let name = format!("{}{number:x}", label.prefix);
        let base = FIRST_ADDRESS.to_bits() + number * LINK_ADDRESSES;
        let addresses = [1, 2].map(|end| Ipv4Addr::from_bits(base + end));
        self.within(|| Netlink::open()?.add_pair([&name, &name], other.files.network.as_fd()))??;
        for (end, address) in [self, other].into_iter().zip(addresses) {
            end.within(|| {
                let netlink = Netlink::open()?;
                netlink.add_address(&name, address, LINK_PREFIX_BITS)?;
                netlink.set_up(&name, Some(label.alias))
            })??;
        }
        Ok(addresses)
    }

    /// Adds a route: packets for `address` go over `gateway`, which is the other end of a link of this namespace.
    ///
    /// # Errors
    /// Errors of the system.
    pub(crate) fn route(&self, address: Ipv4Addr, gateway: Ipv4Addr) -> io::Result<()> {
        self.within(|| Netlink::open()?.add_route(address, gateway))?
    }

    /// The file descriptor of the namespace in this process. Another process can join the namespace through
    /// `/proc/PID/fd/DESCRIPTOR`.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.files.network.as_raw_fd()
    }

    /// The open file /proc/net/dev of this namespace.
    pub(crate) fn interfaces(&self) -> &File {
        &self.files.interfaces
    }

    /// The open file /proc/net/snmp of this namespace.
    pub(crate) fn snmp(&self) -> &File {
        &self.files.snmp
    }

    /// Moves the calling thread into this namespace. It is a single system call, so it is safe between fork and exec.
    ///
    /// # Errors
    /// If permission or kernel support is missing.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.files.network.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Returns a function that moves the calling thread into `namespace`. For `None`, the function does nothing. The
    /// function ignores errors: the connections of the thread then fail and report the problem.
    pub fn entering(namespace: Option<&Self>) -> impl Fn() + Send + Sync + 'static {
        let namespace = namespace.cloned();
        move || {
            let _ = namespace.as_ref().map(Self::enter);
        }
    }

    /// Runs `act` on a new thread in this namespace, and waits for its result.
    ///
    /// # Errors
    /// If the thread cannot enter the namespace.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            Ok(act())
        })
    }
}

/// Connects to `address` from within `namespace`, or from the host's network. From within the namespace of a part, the
/// connection uses the loopback, so that requests of the rig do not count as traffic of the part.
///
/// # Errors
/// If the connection fails, or the namespace cannot be entered.
pub(crate) fn connect(
    namespace: Option<&Namespace>,
    address: SocketAddr,
    timeout: Duration,
) -> io::Result<TcpStream> {
    let connect = move || TcpStream::connect_timeout(&address, timeout);
    match namespace {
        Some(namespace) => namespace.within(connect)?,
        None => connect(),
    }
}

/// Runs `act` on a new thread, because a change of the namespace is permanent for a thread. Waits for the result.
fn on_a_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let ended = thread::scope(|scope| {
        thread::Builder::new().name("namespace".into()).spawn_scoped(scope, act).map(|thread| thread.join())
    });
    ended?.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
}

/// Moves the calling thread into a new network namespace.
#[allow(unsafe_code)]
fn unshare_network() -> io::Result<()> {
    // SAFETY: `unshare` is unsafe because a thread could stop sharing its open files with the other threads. This call
    // unshares only the network.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

fn setting(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

/// Sets a sysctl in the network namespace of the calling thread. Does nothing if this kernel lacks the sysctl.
fn set(name: &str, value: &str) -> io::Result<()> {
    match fs::write(setting(name), value) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("{}: {error}", setting(name))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interface_names_fit_the_kernel_limit_and_are_recognized() {
        let prefix = interface_prefix("20261121-0210-k3fz-12345-0");
        assert!(is_interface_prefix(&prefix), "{prefix}");
        assert!(format!("{prefix}{:x}", LINKS_MAX - 1).len() < 16);
        assert_ne!(prefix, interface_prefix("20261121-0210-k3fz-12345-1"));
        for other in ["", "w", "w-", "eth0", "w0123456-", "w012345678-", "wghijklmn-", "w01234567"] {
            assert!(!is_interface_prefix(other), "{other}");
        }
    }
}
