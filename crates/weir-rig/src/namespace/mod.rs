//! Network namespaces of a run's own, and the links between them.
//!
//! Each is a network with nothing in it but its loopback and its ends of links: no route leads out, so neither the
//! host's addresses nor its firewall have a part in what is measured. None has a name on the host. It lives as long
//! as a process is in it or somebody holds its file, so the kernel removes it, with its links, whatever becomes of
//! the lab.

mod netlink;

use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

use crate::digest::sha256_hex;
use netlink::Netlink;

/// What hosts are tuned by for many connections, under /proc/sys/net; a new namespace has the kernel's defaults.
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

/// 198.18.0.0/15 is set aside for benchmarks of networks (RFC 2544).
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);
/// Each link is a network of its own: four addresses, of which two are the ends'.
const LINK_ADDRESSES: u32 = 4;
const LINK_PREFIX_BITS: u8 = 30;
/// After so many links the addresses come again; the first of them are long gone by then.
const LINKS_MAX: u32 = (1 << 17) / LINK_ADDRESSES;

/// A network namespace of the run's own.
#[derive(Clone, Debug)]
pub struct Namespace {
    files: Arc<Files>,
}

/// The files of a namespace, each of which keeps it, beside the processes in it.
#[derive(Debug)]
struct Files {
    network: File,
    interfaces: File,
    snmp: File,
}

/// With a letter before them, and a hyphen and a number behind, they are within the kernel's fifteen.
const NAME_HASH_LETTERS: usize = 8;

/// What the interfaces of a run are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label<'a> {
    /// The beginning of every interface's name, by which the run's namespaces are known.
    pub(crate) prefix: &'a str,
    /// Whose they are, in words; `ip link` shows it as the alias.
    pub(crate) alias: &'a str,
}

/// The beginning of the names of the interfaces of the rig `unique`: a hash, since such names are short.
pub(crate) fn interface_prefix(unique: &str) -> String {
    let hash: String = sha256_hex(unique).chars().take(NAME_HASH_LETTERS).collect();
    format!("w{hash}-")
}

/// Whether it is the beginning of the names of a run's interfaces, and not of anybody's.
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
    /// Makes one with its loopback up and the host's settings of TCP. It is known by interfaces whose names begin with
    /// `prefix`: a pair that is never up, since links go with the namespace at their other end.
    ///
    /// # Errors
    /// The system's; without the right to (`CAP_SYS_ADMIN`) `PermissionDenied`.
    pub(crate) fn make(prefix: &str) -> io::Result<Self> {
        let settings: Vec<(&str, String)> = INHERITED
            .into_iter()
            .filter_map(|name| Some((name, fs::read_to_string(setting(name)).ok()?)))
            .collect();
        let files = on_a_thread(move || {
            leave_the_hosts_network()?;
            for (name, value) in &settings {
                set(name, value)?;
            }
            // Interfaces made from here on do not speak up by themselves: no router is asked for, nothing announced.
            set("ipv6/conf/default/disable_ipv6", "1")?;
            let netlink = Netlink::open()?;
            netlink.set_up("lo", None)?;
            // What is opened here tells of this namespace, whoever reads it, and stays so.
            let open = |name| File::open(format!("/proc/thread-self/{name}"));
            let network = open("ns/net")?;
            // Numbers of links have no such letters.
            netlink.add_pair([&format!("{prefix}x"), &format!("{prefix}y")], network.as_fd())?;
            Ok(Files { network, interfaces: open("net/dev")?, snmp: open("net/snmp")? })
        })?;
        Ok(Self { files: Arc::new(files) })
    }

    /// Lays the link `number` from this namespace to `other`; gives the address at each end.
    ///
    /// # Errors
    /// The system's.
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

    /// /proc/net/dev, as it is in it.
    pub(crate) fn interfaces(&self) -> &File {
        &self.files.interfaces
    }

    /// /proc/net/snmp, as it is in it.
    pub(crate) fn snmp(&self) -> &File {
        &self.files.snmp
    }

    /// Moves the calling thread into it. Between fork and exec this may be called, too: it is one system call.
    pub(crate) fn enter(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.files.network.as_fd(), Some(LinkNameSpaceType::Network))?)
    }

    /// Runs `act` on a thread within it.
    ///
    /// # Errors
    /// When it cannot be entered.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> io::Result<T> {
        on_a_thread(|| {
            self.enter()?;
            Ok(act())
        })
    }
}

/// Connects to `address` from within `namespace`, or on the host. From a part's own namespace this goes over its
/// loopback, so what the rig asks a part is not among what its interface counts.
///
/// # Errors
/// Of the connection; where the namespace cannot be entered.
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

/// Runs `act` on a thread that nobody else uses, so that it may leave its namespace for good.
fn on_a_thread<T: Send>(act: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    let ended = thread::scope(|scope| {
        thread::Builder::new().name("namespace".into()).spawn_scoped(scope, act).map(|thread| thread.join())
    });
    ended?.unwrap_or_else(|_| Err(io::Error::other("the thread in the namespace panicked")))
}

/// Moves the calling thread into a new network namespace.
#[allow(unsafe_code)]
fn leave_the_hosts_network() -> io::Result<()> {
    // SAFETY: what can go wrong with `unshare` is a thread that no longer shares its open files with the others. Only
    // the network is left here.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

fn setting(name: &str) -> String {
    format!("/proc/sys/net/{name}")
}

/// Changes a setting of the calling thread's namespace; one that this kernel does not have is left alone.
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
    fn names_of_interfaces_fit_the_kernel_and_are_known_again() {
        let prefix = interface_prefix("20261121-0210-k3fz-12345-0");
        assert!(is_interface_prefix(&prefix), "{prefix}");
        assert!(format!("{prefix}{:x}", LINKS_MAX - 1).len() < 16);
        assert_ne!(prefix, interface_prefix("20261121-0210-k3fz-12345-1"));
        for other in ["", "w", "w-", "eth0", "w0123456-", "w012345678-", "wghijklmn-", "w01234567"] {
            assert!(!is_interface_prefix(other), "{other}");
        }
    }
}
