//! Deserializes IP addresses with a port from text.

use std::fmt;
use std::net::SocketAddr;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

pub(super) fn addresses<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    let addresses = Vec::<Address>::deserialize(deserializer)?;
    Ok(addresses.into_iter().map(|address| address.0).collect())
}

pub(super) fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SocketAddr, D::Error> {
    Address::deserialize(deserializer).map(|address| address.0)
}

struct Address(SocketAddr);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Address, D::Error> {
        struct Text;

        impl Visitor<'_> for Text {
            type Value = Address;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an IP address with a port, like 127.0.0.1:8080 or [::1]:8080")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Address, E> {
                text.parse().map(Address).map_err(|_| {
                    E::custom(format!(
                        "`{text}` is not an IP address with a port; write it like 127.0.0.1:8080 or '[::1]:8080'; \
                         host names are not allowed here"
                    ))
                })
            }
        }

        deserializer.deserialize_any(Text)
    }
}
