//! Names to addresses, before the clock starts.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crate::EngineError;

/// How long one of several addresses may take to accept a trial connection.
const TRIAL: Duration = Duration::from_secs(1);

/// The addresses of `host:port`.
///
/// Of several, the first that accepts a connection is taken alone: a name like `localhost` often has an
/// address where nobody listens, and every connection would run into it first.
pub(crate) fn resolve(connect: &str) -> Result<Arc<[SocketAddr]>, EngineError> {
    let failed = |source| EngineError::Resolve { connect: connect.to_owned(), source };
    let addresses: Vec<SocketAddr> = connect.to_socket_addrs().map_err(failed)?.collect();
    match addresses.as_slice() {
        [] => Err(failed(std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address"))),
        [only] => Ok(Arc::from([*only])),
        many => Ok(match many.iter().find(|address| TcpStream::connect_timeout(address, TRIAL).is_ok()) {
            Some(accepting) => Arc::from([*accepting]),
            None => Arc::from(many),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_themselves_and_wrong_names_are_named() {
        assert_eq!(resolve("127.0.0.1:9").unwrap().as_ref(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(resolve("[::1]:9").unwrap().as_ref(), ["[::1]:9".parse().unwrap()]);
        for wrong in ["no-such-host.invalid:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(resolve(wrong).unwrap_err().to_string().starts_with(wrong), "{wrong}");
        }
    }
}
