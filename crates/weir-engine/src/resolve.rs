//! Names to addresses, before the clock starts.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use crate::EngineError;
use crate::spec::LoadSpec;

/// How long one of several addresses may take to accept a trial connection.
const TRIAL: Duration = Duration::from_secs(1);

/// The addresses of a load: those that were given for it or its `host:port`, or what the name resolves to.
///
/// Of several, the first that accepts a connection is taken alone: a name like `localhost` often has an
/// address where nobody listens, and every connection would run into it first.
pub(crate) fn resolve(spec: &LoadSpec) -> Result<Arc<[SocketAddr]>, EngineError> {
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
        [] => Err(failed(std::io::Error::new(std::io::ErrorKind::NotFound, "the name has no address"))),
        [only] => Ok(Arc::from([*only])),
        many => Ok(match many.iter().find(|address| TcpStream::connect_timeout(address, TRIAL).is_ok()) {
            Some(accepting) => Arc::from([*accepting]),
            None => Arc::from(many),
        }),
    }
}

/// Whether `host:port` is the one that an address was given for.
fn is_for(connect: &str, host: &str, port: u16) -> bool {
    connect.rsplit_once(':').is_some_and(|(name, asked)| {
        name.trim_matches(['[', ']']).eq_ignore_ascii_case(host) && asked.parse() == Ok(port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::ResolveSpec;

    fn resolve(connect: &str) -> Result<Arc<[SocketAddr]>, EngineError> {
        let resolve =
            vec![ResolveSpec { host: "shop.example".into(), port: 80, address: [10, 0, 0, 1].into() }];
        super::resolve(&LoadSpec { connect: connect.into(), resolve, ..LoadSpec::default() })
    }

    #[test]
    fn an_address_that_was_given_goes_before_the_name_but_only_for_its_port() {
        assert_eq!(resolve("Shop.example:80").unwrap().as_ref(), ["10.0.0.1:80".parse().unwrap()]);
        assert!(resolve("shop.example:81").is_err());
    }

    #[test]
    fn addresses_that_were_given_for_the_load_are_taken_as_they_are() {
        let addresses: Vec<SocketAddr> = ["127.0.0.1:9", "127.0.0.1:8"].map(|a| a.parse().unwrap()).to_vec();
        let spec = LoadSpec {
            connect: "no-such-host.invalid:80".into(),
            addresses: addresses.clone(),
            ..LoadSpec::default()
        };
        assert_eq!(super::resolve(&spec).unwrap().as_ref(), addresses);
    }

    #[test]
    fn addresses_stand_for_themselves_and_wrong_names_are_named() {
        assert_eq!(resolve("127.0.0.1:9").unwrap().as_ref(), ["127.0.0.1:9".parse().unwrap()]);
        assert_eq!(resolve("[::1]:9").unwrap().as_ref(), ["[::1]:9".parse().unwrap()]);
        for wrong in ["no-such-host.invalid:80", "127.0.0.1", "127.0.0.1:99999"] {
            assert!(resolve(wrong).unwrap_err().to_string().starts_with(wrong), "{wrong}");
        }
    }
}
