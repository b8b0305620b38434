//! Endpoints of a backend.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

use super::upstream_address::{UNIX, UpstreamAddress};
use crate::host::HostPattern;
use crate::model::forms::ENDPOINT;

/// An entry of `endpoints`: one endpoint, or a host name that can resolve to several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// An IP address, a host name or a Unix socket.
    pub address: EndpointAddress,
    /// Weight, 0 to 1,000,000. The endpoint's share of requests is this weight divided by the sum of all weights. With
    /// 0 it gets only requests of its sticky clients.
    pub weight: u32,
}

/// The address of an endpoint, as configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EndpointAddress {
    /// An IP address with a port, or a Unix socket.
    Known(UpstreamAddress),
    /// A host name with a port. Each resolved address is an endpoint.
    Name {
        /// The host name, without a trailing dot.
        host: String,
        /// The port.
        port: u16,
    },
}

/// An endpoint after its host name has been resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The resolved address.
    pub address: UpstreamAddress,
    /// Weight, 0 to 1,000,000; the endpoint's share of requests is this weight divided by the sum of all weights.
    pub weight: u32,
}

/// An endpoint with a weight.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Weighted {
    /// IP address or host name with a port, or `unix:` and the absolute path of a Unix socket. The path can have at
    /// most 107 bytes. Each IP address of a host name is an endpoint with this `weight`.
    #[schemars(with = "String", regex(pattern = ENDPOINT))]
    address: EndpointAddress,
    /// Weight, 0 to 1,000,000. The endpoint's share of requests is this weight divided by the sum of all weights. With
    /// 0 it gets only requests of its sticky clients.
    #[serde(default = "one")]
    weight: u32,
}

impl EndpointAddress {
    /// The port; `None` for Unix sockets.
    pub fn port(&self) -> Option<u16> {
        match self {
            EndpointAddress::Known(address) => address.port(),
            EndpointAddress::Name { port, .. } => Some(*port),
        }
    }

    /// The Host header of requests to this endpoint if nothing else sets it.
    pub fn host(&self) -> String {
        match self {
            EndpointAddress::Known(address) => address.host(),
            EndpointAddress::Name { .. } => self.to_string(),
        }
    }

    /// The addresses of the endpoint. If the endpoint has a host name, `addresses` returns the IP addresses of this
    /// name.
    pub fn resolved(&self, addresses: impl Fn(&str) -> Vec<IpAddr>) -> Vec<UpstreamAddress> {
        match self {
            EndpointAddress::Known(address) => vec![address.clone()],
            EndpointAddress::Name { host, port } => {
                addresses(host).into_iter().map(|ip| SocketAddr::new(ip, *port).into()).collect()
            }
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Endpoint {
        Endpoint { address: EndpointAddress::Known(address.into()), weight: one() }
    }
}

fn one() -> u32 {
    1
}

impl fmt::Display for EndpointAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EndpointAddress::Known(address) => address.fmt(f),
            EndpointAddress::Name { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

// `weir_document` splits error texts at the first `; ` into cause and remedy.

impl FromStr for EndpointAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<EndpointAddress, String> {
        if let Ok(address) = text.parse::<SocketAddr>() {
            return Ok(EndpointAddress::Known(address.into()));
        }
        if let Some(path) = text.strip_prefix(UNIX) {
            return UpstreamAddress::unix(path).map(EndpointAddress::Known);
        }
        let wrong = || {
            format!(
                "`{text}` is not an IP address or a host name with a port; write it like 127.0.0.1:8080, \
                 '[::1]:8080', api.internal:8080 or unix:/run/app.sock"
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.strip_suffix('.').unwrap_or(host);
        // A text without letters, such as `1.2.3:80`, is an invalid IP address, not a host name.
        let is_name = host.bytes().any(|byte| byte.is_ascii_alphabetic())
            && matches!(HostPattern::parse(host), Ok(HostPattern::Exact(_)));
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        match port.parse() {
            Ok(port) if is_name && is_port => {
                Ok(EndpointAddress::Name { host: host.to_ascii_lowercase(), port })
            }
            _ => Err(wrong()),
        }
    }
}

impl Serialize for EndpointAddress {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for EndpointAddress {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<EndpointAddress, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = EndpointAddress;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address or a host name with a port, or a Unix socket")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<EndpointAddress, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_any(Text)
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.weight {
            1 => self.address.serialize(serializer),
            weight => Weighted { address: self.address.clone(), weight }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Endpoint, D::Error> {
        struct AddressOrWeighted;

        impl<'de> Visitor<'de> for AddressOrWeighted {
            type Value = Endpoint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "an IP address or a host name with a port, a Unix socket, or `address` and `weight`",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Endpoint, E> {
                Ok(Endpoint { address: text.parse().map_err(E::custom)?, weight: one() })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Endpoint, A::Error> {
                let Weighted { address, weight } = Deserialize::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Endpoint { address, weight })
            }
        }

        deserializer.deserialize_any(AddressOrWeighted)
    }
}

impl JsonSchema for Endpoint {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Endpoint".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let weighted = generator.subschema_for::<Weighted>();
        json_schema!({
            "anyOf": [{ "type": "string", "pattern": ENDPOINT }, weighted],
            "description": "Address of an endpoint: an IP address or a host name with a port, or the path of a Unix socket \
                            behind `unix:`."
        })
    }
}
