//! Network namespaces of a run, and the links between them.
//!
//! A namespace has only its loopback and its ends of links. No route leads to the host, so the addresses and the
//! firewall of the host do not affect measurements. Namespaces have no name on the host. A namespace exists while it
//! has a process or an open file, so the kernel removes it with its links, even if the lab is killed.

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

/// Sysctls under /proc/sys/net that tune hosts for many connections; a new namespace has the defaults of the kernel.
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

/// 198.18.0.0/15 is reserved for network benchmarks (RFC 2544).
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Each link is its own network of four addresses, two of which are its ends.
const LINK_ADDRESSES: u32 = 4;
const LINK_PREFIX_BITS: u8 = 30;
/// After this many links, addresses are reused; by then the first links no longer exist.
const LINKS_MAX: u32 = (1 << 17) / LINK_ADDRESSES;

/// A network namespace of the run.
#[derive(Clone, Debug)]
pub struct Namespace {
    files: Arc<Files>,
}

/// Open files of a namespace. Each keeps it alive, like the processes in it.
#[derive(Debug)]
struct Files {
    network: File,
    interfaces: File,
    snmp: File,
}

/// Interface names have a letter, this hash, a hyphen and a number, at most 15 characters.
const NAME_HASH_LETTERS: usize = 8;

/// Names of the interfaces of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    /// The prefix of interface names, which identifies the run's namespaces.
    pub(crate) prefix: &'a str,
    /// The owner in words; `ip link` shows it as the alias.
    pub(crate) alias: &'a str,
}

/// The prefix of interface names of the rig `unique`: a hash, because interface names are short.
pub(crate) fn interface_prefix(unique: &str) -> String {
    let hash: String = sha256_hex(unique).chars().take(NAME_HASH_LETTERS).collect();
    format!("w{hash}-")
}

/// Whether it is a prefix of interface names of some run.
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
    /// Creates a namespace with its loopback up and the TCP settings of the host. A pair of interfaces with `prefix`
    /// identifies it. The pair is never up, because links are removed with the namespace at their other end.
    ///
    /// # Errors
    /// Those of the system; `PermissionDenied` without `CAP_SYS_ADMIN`.
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
            // Keeps new interfaces quiet: no router solicitation, no announcement.
            set("ipv6/conf/default/disable_ipv6", "1")?;
            let netlink = Netlink::open()?;
            netlink.set_up("lo", None)?;
            // Files that are opened here show this namespace to any reader.
            let open = |name| File::open(format!("/proc/thread-self/{name}"));
            let network = open("ns/net")?;
            // Hexadecimal link numbers never contain these letters.
            netlink.add_pair([&format!("{prefix}x"), &format!("{prefix}y")], network.as_fd())?;
            Ok(Files { network, interfaces: open("net/dev")?, snmp: open("net/snmp")? })
        })?;
        Ok(Self { files: Arc::new(files) })
    }

    /// Creates the link `number` to `other`; returns the addresses of both ends.
    ///
    /// # Errors
    /// Those of the system.
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

    /// Sends packets for `address` over `gateway`, which is at the other end of one of its links.
    ///
    /// # Errors
    /// Those of the system.
    pub(crate) fn route(&self, address: Ipv4Addr, gateway: Ipv4Addr) -> io::Result<()> {
        self.within(|| Netlink::open()?.add_route(address, gateway))?
    }

    /// The descriptor of its file in this process. Another process can join the namespace by the descriptor's path in
    /// /proc.
    pub(crate) fn descriptor(&self) -> RawFd {
        self.files.network.as_raw_fd()
    }

    /// /proc/net/dev of this namespace.
    pub(crate) fn interfaces(&self) -> &File {
        &self.files.interfaces
    }

    /// /proc/net/snmp of this namespace.
    pub(crate) fn snmp(&self) -> &File {
        &self.files.snmp
    }

    /// Moves the calling thread into this namespace. It is a single system call, so it is safe between fork and exec.
    ///
    /// # Errors
    /// If this user or kernel cannot.
    pub fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.files.network.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Called by new threads: moves them into `namespace`; `None` is the host. If that fails, the thread's connections
    /// fail, which reports the problem.
    pub fn entering(namespace: Option<&Self>) -> impl Fn() + Send + Sync + 'static {
        let namespace = namespace.cloned();
        move || {
            let _ = namespace.as_ref().map(Self::enter);
        }
    }

    /// Runs `act` on a thread in this namespace.
    ///
    /// # Errors
    /// If the thread cannot enter it.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            Ok(act())
        })
    }
}

/// Connects to `address` from within `namespace`, or on the host. In the namespace of a part this uses the loopback, so
/// requests of the rig are not counted on its interface.
///
/// # Errors
/// Those of the connection; also if the namespace cannot be entered.
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

/// Runs `act` on a new thread, which can change its namespace permanently.
fn on_a_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let ended = thread::scope(|scope| {
        thread::Builder::new().name("namespace".into()).spawn_scoped(scope, act).map(|thread| thread.join())
    });
    ended?.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
}

/// Moves the calling thread into a new network namespace.
#[allow(unsafe_code)]
fn unshare_network() -> io::Result<()> {
    // SAFETY: `unshare` can break a thread if it stops sharing open files with the others. This call unshares only the
    // network.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

fn setting(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

/// Changes a sysctl of the calling thread's namespace. Sysctls that this kernel does not have are skipped.
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
