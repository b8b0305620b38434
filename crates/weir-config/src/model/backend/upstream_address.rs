//! Addresses of upstream connections: IP address and port, or Unix socket.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The prefix of Unix sockets in a configuration, as in `unix:/run/app.sock`.
pub(crate) const UNIX: &str = "unix:";

/// The longest path of a Unix socket, in bytes: `sun_path` has 108, including the terminating NUL.
const PATH_BYTES_MAX: usize = 107;

/// The resolved address of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UpstreamAddress {
    /// An IP address with a port.
    Ip(SocketAddr),
    /// The path of a Unix socket.
    Unix(Arc<str>),
}

impl UpstreamAddress {
    /// The Unix socket at this path. An error has the form `cause; remedy`.
    pub(crate) fn unix(path: &str) -> Result<UpstreamAddress, String> {
        if !path.starts_with('/') {
            return Err(format!(
                "`{UNIX}{}` is not an absolute path; start the path with `/`, like unix:/run/app.sock",
                path.escape_debug()
            ));
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(format!(
                "`{UNIX}{}` has a path of {} bytes, more than the system allows ({PATH_BYTES_MAX}); \
                 use a shorter path, or a symbolic link",
                path.escape_debug(),
                path.len()
            ));
        }
        if path.chars().any(char::is_control) {
            return Err(format!(
                "`{UNIX}{}` contains a control character; use a path without control characters",
                path.escape_debug()
            ));
        }
        Ok(UpstreamAddress::Unix(path.into()))
    }

    /// The port; `None` for Unix sockets.
    pub fn port(&self) -> Option<u16> {
        match self {
            UpstreamAddress::Ip(address) => Some(address.port()),
            UpstreamAddress::Unix(_) => None,
        }
    }

    /// The Host header of requests to this address if nothing else sets it.
    pub fn host(&self) -> String {
        match self {
            UpstreamAddress::Ip(address) => address.to_string(),
            UpstreamAddress::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl From<SocketAddr> for UpstreamAddress {
    fn from(address: SocketAddr) -> UpstreamAddress {
        UpstreamAddress::Ip(address)
    }
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Ip(address) => address.fmt(f),
            UpstreamAddress::Unix(path) => write!(f, "{UNIX}{path}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_socket_paths_longer_than_the_system_allows() {
        let path = |bytes: usize| format!("/{}", "a".repeat(bytes - 1));
        assert_eq!(UpstreamAddress::unix(&path(107)).unwrap().to_string(), format!("unix:{}", path(107)));
        let error = UpstreamAddress::unix(&path(108)).unwrap_err();
        assert!(error.contains("has a path of 108 bytes, more than the system allows (107); "), "{error}");
        // The limit counts bytes, not characters.
        assert!(UpstreamAddress::unix(&format!("/{}", "é".repeat(53))).is_ok());
        assert!(UpstreamAddress::unix(&format!("/{}", "é".repeat(54))).is_err());
    }
}
