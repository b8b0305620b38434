//! What the service manager is told, where there is one that asks for it (`NOTIFY_SOCKET`, as of systemd).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How long the service manager may take to hear something.
const PATIENCE: Duration = Duration::from_secs(1);

/// The service manager, or nobody.
pub(crate) struct Supervisor(Option<(UnixDatagram, SocketAddr)>);

impl Supervisor {
    /// The one that started this process.
    pub(crate) fn from_environment() -> Supervisor {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| address_of(&name));
        // One that reads nothing any more holds up no signal.
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(PATIENCE))?;
            Ok(socket)
        });
        let socket = socket.ok();
        Supervisor(socket.zip(address))
    }

    /// Clients are served, by the configuration in force.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=serving");
    }

    /// The configuration is read again; [`Supervisor::ready`] follows, whatever comes of it.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading the configuration"));
    }

    /// No new clients from some time on.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=draining");
    }

    /// From here on the service is this process, and what this one says is not heard any more.
    pub(crate) fn followed_by(&self, process: i32) {
        self.tell(&format!("MAINPID={process}\nREADY=1\nSTATUS=serving; the previous process drains"));
    }

    fn tell(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            // A service manager that does not listen is no reason to serve nobody.
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// A path, or with `@` in front a name that stands in no folder.
fn address_of(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name).ok(),
        None => SocketAddr::from_pathname(name).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_folder_is_reached() {
        let name = format!("weir-gateway-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let address = address_of(OsStr::new(&format!("@{name}"))).unwrap();
        let supervisor = Supervisor(Some((UnixDatagram::unbound().unwrap(), address)));
        supervisor.followed_by(7);
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).unwrap();
        assert!(bytes[..length].starts_with(b"MAINPID=7\nREADY=1\n"));
    }
}
