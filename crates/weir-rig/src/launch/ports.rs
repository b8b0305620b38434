//! Checks whether addresses are free, and which process uses them.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};

use procfs::net::{TcpNetEntry, TcpState};
use procfs::process::{FDTarget, Process, all_processes};

use crate::holder::Holder;
use crate::{Namespace, RigError};

/// Checks that `address` is free, in `namespace` or on the host.
///
/// Another process can still take the address before the part binds it. So if the part dies, the caller checks again.
pub(crate) fn require_free(
    part: &str,
    namespace: Option<&Namespace>,
    address: SocketAddr,
) -> Result<(), RigError> {
    let bind = move || TcpListener::bind(address).map(drop);
    let bound = match namespace {
        Some(namespace) => namespace.within(bind).flatten(),
        None => bind(),
    };
    match bound {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => Err(RigError::PortTaken {
            part: part.into(),
            address,
            holder: namespace.is_none().then(|| holder(address)).flatten(),
        }),
        Err(error) => Err(RigError::Launch {
            part: part.into(),
            message: format!("cannot listen on {address}: {error}"),
        }),
    }
}

/// The process that listens on `address`, if this user can see it.
pub(crate) fn holder(address: SocketAddr) -> Option<Holder> {
    let inode = listening_inode(address)?;
    let holds = |process: &Process| {
        process.fd().is_ok_and(|descriptors| {
            descriptors
                .flatten()
                .any(|descriptor| matches!(descriptor.target, FDTarget::Socket(own) if own == inode))
        })
    };
    let process = all_processes().ok()?.flatten().find(holds)?;
    Some(Holder { pid: process.pid().try_into().ok()?, name: process.stat().ok()?.comm })
}

/// The addresses on which the processes `pids` listen, if this user can see them.
pub(crate) fn listened_on(pids: &[i32]) -> Vec<SocketAddr> {
    let processes: Vec<Process> = pids.iter().filter_map(|pid| Process::new(*pid).ok()).collect();
    let descriptors = processes
        .iter()
        .filter_map(|process| process.fd().ok())
        .flat_map(|descriptors| descriptors.flatten());
    let sockets: HashSet<u64> = descriptors
        .filter_map(|descriptor| match descriptor.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect();
    // Each process lists the sockets of its own network namespace.
    let entries = processes.iter().flat_map(|process| {
        let mut entries = process.tcp().unwrap_or_default();
        entries.extend(process.tcp6().unwrap_or_default());
        entries
    });
    let mut addresses: Vec<SocketAddr> = entries
        .filter(|entry| entry.state == TcpState::Listen && sockets.contains(&entry.inode))
        .map(|entry| entry.local_address)
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn sockets_of_tcp() -> Vec<TcpNetEntry> {
    let mut entries = procfs::net::tcp().unwrap_or_default();
    entries.extend(procfs::net::tcp6().unwrap_or_default());
    entries
}

fn listening_inode(address: SocketAddr) -> Option<u64> {
    let listens = |local: SocketAddr| {
        local.port() == address.port() && (local.ip() == address.ip() || local.ip().is_unspecified())
    };
    sockets_of_tcp()
        .into_iter()
        .find(|entry| entry.state == TcpState::Listen && listens(entry.local_address))
        .map(|entry| entry.inode)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_taken_port_names_its_holder() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let error = require_free("gateway", None, address).unwrap_err();
        assert_eq!(error.cause(), "port-taken");
        let RigError::PortTaken { holder: Some(holder), .. } = &error else { panic!("{error:?}") };
        assert_eq!(holder.pid, std::process::id());
        assert!(error.to_string().contains(&address.to_string()), "{error}");
        assert!(error.remedy().contains(&std::process::id().to_string()), "{}", error.remedy());
        drop(listener);
        // Another test can fork a process at this moment. Until its exec, that process also holds the socket.
        let is_free = || require_free("gateway", None, address).is_ok();
        assert!((0..500).any(|_| is_free() || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }));
    }
}
