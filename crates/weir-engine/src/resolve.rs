//! Resolves the address of the server before the load starts.

use std::io::{Error, ErrorKind};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt as _;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Access, access};
use weir_io::SockAddr;

use crate::EngineError;
use crate::spec::{LoadSpec, UNIX};

/// Time-out for trying one of several addresses.
const TRIAL: Duration = Duration::from_secs(1);

/// The addresses of the server: configured, or resolved from its name.
///
/// If a name has several addresses, only the first that accepts a connection is used. A name like `localhost` often has
/// an address on which no server listens, and each connection would fail there first.
pub(crate) fn resolve(spec: &LoadSpec) -> Result<Arc<[SockAddr]>, EngineError> {
    match spec.connect.strip_prefix(UNIX) {
        Some(path) if spec.addresses.is_empty() => Ok(Arc::from([unix(path)?])),
        _ => Ok(ip(spec)?.iter().map(|&address| address.into()).collect()),
    }
}

/// Returns the address of the Unix socket at `path`. The socket must exist and be writable, because otherwise the
/// load would only count failed connections.
fn unix(path: &str) -> Result<SockAddr, EngineError> {
    let failed = |source| EngineError::Socket { path: path.into(), source };
    let address = SockAddr::unix(path).map_err(failed)?;
    if !std::fs::metadata(path).map_err(failed)?.file_type().is_socket() {
        return Err(failed(Error::new(ErrorKind::InvalidInput, "this file is not a socket")));
    }
    access(path, Access::WRITE_OK).map_err(|error| failed(error.into()))?;
    Ok(address)
}

fn ip(spec: &LoadSpec) -> Result<Arc<[SocketAddr]>, EngineError> {
    if !spec.addresses.is_empty() {
        return Ok(spec.addresses.as_slice().into());
    }
    let connect = spec.connect.as_str();
    let asked = spec.resolve.iter().filter(|over| is_for(connect, &over.host, over.port));
    let given: Vec<SocketAddr> = asked.map(|over| SocketAddr::new(over.address, over.port)).collect();
    if !given.is_empty() {
        return Ok(given.into());
    }
    let failed = |source| EngineError::Resolve { connect: connect.to_owned(), source };
    let addresses: Vec<SocketAddr> = connect.to_socket_addrs().map_err(failed)?.collect();
    match addresses.as_slice() {
        [] => Err(failed(Error::new(ErrorKind::NotFound, "no IP address found"))),
        [only] => Ok(Arc::from([*only])),
        many => Ok(match many.iter().find(|address| TcpStream::connect_timeout(address, TRIAL).is_ok()) {
            Some(accepting) => Arc::from([*accepting]),
            None => Arc::from(many),
        }),
    }
}

/// Whether `connect` (`host:port`) names this host and port, so that the address configured for them applies.
fn is_for(connect: &str, host: &str, port: u16) -> bool {
    connect.rsplit_once(':').is_some_and(|(name, asked)| {
        name.trim_matches(['[', ']']).eq_ignore_ascii_case(host) && asked.parse() == Ok(port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ResolveSpec;

    fn resolve(connect: &str) -> Result<Vec<SocketAddr>, EngineError> {
        let resolve =
            vec![ResolveSpec { host: "shop.example".into(), port: 80, address: [10, 0, 0, 1].into() }];
        let spec = LoadSpec { connect: connect.into(), resolve, ..LoadSpec::default() };
        Ok(super::resolve(&spec)?.iter().filter_map(SockAddr::as_socket).collect())
    }

    #[test]
    fn a_configured_address_overrides_the_name_only_for_its_port() {
        assert_eq!(resolve("Shop.example:80").unwrap(), ["10.0.0.1:80".parse().unwrap()]);
        assert!(resolve("shop.example:81").is_err());
    }

    #[test]
    fn configured_addresses_are_used_unchanged() {
        let addresses: Vec<SocketAddr> = ["127.0.0.1:9", "127.0.0.1:8"].map(|a| a.parse().unwrap()).to_vec();
        let spec = LoadSpec {
            connect: "no-such-host.invalid:80".into(),
            addresses: addresses.clone(),
            ..LoadSpec::default()
        };
        let resolved = super::resolve(&spec).unwrap();
        assert_eq!(resolved.iter().filter_map(SockAddr::as_socket).collect::<Vec<_>>(), addresses);
    }

    #[test]
    fn an_unusable_unix_socket_is_reported_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| format!("{UNIX}{}", folder.path().join(name).display());
        let said = |connect: &str| resolve(connect).unwrap_err().to_string();
        assert!(said(&place("none")).contains("No such file"));
        std::fs::write(folder.path().join("file"), "").unwrap();
        assert!(said(&place("file")).contains("not a socket"));
        assert!(said(&place(&"x".repeat(108))).contains("path"));
        let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("socket")).unwrap();
        assert_eq!(resolve(&place("socket")).unwrap(), [], "no IP address");
        assert!(said(&place("socket/below")).starts_with(&place("socket/below")));
    }

    #[test]
    fn addresses_need_no_resolution_and_unknown_names_are_reported() {
        assert_eq!(resolve("127.0.0.1:9").unwrap(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(resolve("[::1]:9").unwrap(), ["[::1]:9".parse().unwrap()]);
        for wrong in ["no-such-host.invalid:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(resolve(wrong).unwrap_err().to_string().starts_with(wrong), "{wrong}");
        }
    }
}
