//! Checks whether a part is ready.

use std::net::SocketAddr;
use std::time::Duration;

use super::process::{ProcessSpec, Ready};
use crate::{http, namespace};

/// Timeout of one connection or request of a readiness check.
const READY_LOOK_TIMEOUT: Duration = Duration::from_secs(1);

/// Checks readiness once; the error is the reason why the part is not ready.
pub(super) fn check(spec: &ProcessSpec) -> Result<(), String> {
    let network = spec.namespace.as_ref();
    let accepts = |address: &SocketAddr| match namespace::connect(network, *address, READY_LOOK_TIMEOUT) {
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{address}: {error}")),
    };
    match &spec.ready {
        Ready::None => {}
        Ready::Tcp(address) => accepts(address)?,
        Ready::Http { address, host, path, status, credentials } => {
            match http::get_with(credentials, network, *address, host, path, READY_LOOK_TIMEOUT) {
                Ok(answer) if answer.status == *status => {}
                Ok(answer) => {
                    return Err(format!(
                        "{address}{path} returned status {} instead of {status}",
                        answer.status
                    ));
                }
                Err(error) => return Err(format!("{address}{path}: {error}")),
            }
        }
    }
    spec.listens.iter().try_for_each(accepts)
}

/// The addresses on which a part must listen to become ready.
pub(super) fn addresses(spec: &ProcessSpec) -> Vec<SocketAddr> {
    let ready = match &spec.ready {
        Ready::None => None,
        Ready::Tcp(address) | Ready::Http { address, .. } => Some(*address),
    };
    spec.listens.iter().copied().chain(ready).collect()
}
