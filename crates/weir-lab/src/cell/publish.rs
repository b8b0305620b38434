//! Publishes routes to gateways over NATS. Needs the feature `nats`.

use std::net::SocketAddr;
use std::time::Duration;

use weir_rig::{Message, Namespace};

use super::error::CellError;
#[cfg(not(feature = "nats"))]
use super::error::failed;
use super::network::parsed_address;

/// Whether this build can publish.
pub(crate) const IS_SUPPORTED: bool = cfg!(feature = "nats");

/// A connection to a NATS server.
#[derive(Debug)]
pub(crate) struct Publisher {
    #[cfg(feature = "nats")]
    publisher: weir_nats::Publisher,
    service: String,
}

impl Publisher {
    /// Connects to the NATS service `service` at `address`, from the network namespace `namespace`; `None` means the
    /// network of the host.
    pub(crate) fn connect(
        service: &str,
        address: &str,
        namespace: Option<&Namespace>,
    ) -> Result<Self, CellError> {
        Self::open(service, parsed_address(service, address, "{{ client }}")?, namespace)
    }

    #[cfg(feature = "nats")]
    fn open(service: &str, address: SocketAddr, namespace: Option<&Namespace>) -> Result<Self, CellError> {
        let publisher =
            weir_nats::Publisher::connect(address, weir_nats::TIMEOUT, Namespace::entering(namespace))
                .map_err(|error| unpublished(service, &error))?;
        Ok(Self { publisher, service: service.to_owned() })
    }

    #[cfg(not(feature = "nats"))]
    fn open(service: &str, _: SocketAddr, _: Option<&Namespace>) -> Result<Self, CellError> {
        let message = format!("service `{service}`: this build of weir lacks the feature `nats`");
        Err(failed("render", &message, "build weir with `--features nats`", ""))
    }

    /// Publishes messages, with the pause `gap` between two messages. Returns when the server has received all.
    #[cfg(feature = "nats")]
    pub(crate) fn publish(&self, messages: &[Message], gap: Duration) -> Result<(), CellError> {
        let all = messages.iter().map(|message| (message.subject.as_str(), message.payload.as_str()));
        self.publisher.publish(all, gap).map_err(|error| unpublished(&self.service, &error))
    }

    #[cfg(not(feature = "nats"))]
    pub(crate) fn publish(&self, _: &[Message], _: Duration) -> Result<(), CellError> {
        unreachable!("this build of weir cannot connect to {}", self.service)
    }
}

#[cfg(feature = "nats")]
fn unpublished(service: &str, error: &weir_nats::NatsError) -> CellError {
    CellError::Refused { part: service.to_owned(), why: error.to_string() }
}
