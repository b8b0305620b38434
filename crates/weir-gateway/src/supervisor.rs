//! State notifications to the service manager (`sd_notify`), if `NOTIFY_SOCKET` is set.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time limit to send one notification.
const SEND_TIMEOUT: Duration = Duration::from_secs(1);

/// The service manager, if there is one.
pub(crate) struct Supervisor(Option<(UnixDatagram, SocketAddr)>);

impl Supervisor {
    /// The service manager that started this process.
    pub(crate) fn from_environment() -> Supervisor {
        let address = std::env::var_os("NOTIFY_SOCKET").and_then(|name| address_of(&name));
        // A service manager that no longer reads must not block signal handling.
        let socket = UnixDatagram::unbound().and_then(|socket| {
            socket.set_write_timeout(Some(SEND_TIMEOUT))?;
            Ok(socket)
        });
        let socket = socket.ok();
        Supervisor(socket.zip(address))
    }

    /// Reports that the gateway serves with the active configuration.
    pub(crate) fn ready(&self) {
        self.notify("READY=1\nSTATUS=serving");
    }

    /// Reports that a reload has started. [`Supervisor::ready`] follows, whether the reload succeeds or fails.
    pub(crate) fn reloading(&self) {
        let now = clock_gettime(ClockId::Monotonic);
        let now_us = now.tv_sec * 1_000_000 + now.tv_nsec / 1_000;
        self.notify(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading the configuration"));
    }

    /// Reports that the gateway drains.
    pub(crate) fn stopping(&self) {
        self.notify("STOPPING=1\nSTATUS=draining");
    }

    /// Reports `process` as the new main process. From then on the service manager ignores notifications from the
    /// calling process.
    pub(crate) fn handed_over_to(&self, process: i32) {
        self.notify(&format!("MAINPID={process}\nREADY=1\nSTATUS=serving; the previous process drains"));
    }

    fn notify(&self, state: &str) {
        if let Some((socket, address)) = &self.0 {
            // A failed notification must not stop the gateway.
            let _ = socket.send_to_addr(state.as_bytes(), address);
        }
    }
}

/// The address in `NOTIFY_SOCKET`: a path, or an abstract socket name with the prefix `@`.
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
    fn an_abstract_socket_receives_notifications() {
        let name = format!("weir-gateway-test-{}", std::process::id());
        let manager = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        let address = address_of(OsStr::new(&format!("@{name}"))).unwrap();
        let supervisor = Supervisor(Some((UnixDatagram::unbound().unwrap(), address)));
        supervisor.handed_over_to(7);
        let mut bytes = [0; 256];
        let length = manager.recv(&mut bytes).unwrap();
        assert!(bytes[..length].starts_with(b"MAINPID=7\nREADY=1\n"));
    }
}
