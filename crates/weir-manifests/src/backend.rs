//! Backends, and grants for references from other namespaces.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde_json::{Map, Value};
use weir_config::Backend;

use crate::text::parsed;

/// weir's own kind for a backend. It has the same fields as a backend in weir's compact form of configuration, but its
/// endpoints have separate `address` and `port`.
#[derive(Debug)]
pub(crate) struct BackendSpec(pub(crate) Box<Backend>);

/// An endpoint, converted to the compact form.
struct Endpoint(Value);

/// An IP address.
struct Ip(IpAddr);

/// A grant: which resources of its namespace may be referenced, and from where.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceGrantSpec {
    pub(crate) from: Vec<GrantFrom>,
    pub(crate) to: Vec<GrantTo>,
}

/// Resources of another namespace that may reference the resources in `to`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantFrom {
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) namespace: String,
}

/// Resources that may be referenced: the one called `name`, or all of this kind if `name` is not set.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GrantTo {
    pub(crate) group: String,
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
}

impl<'de> Deserialize<'de> for BackendSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<BackendSpec, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = BackendSpec;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping with `endpoints`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<BackendSpec, A::Error> {
                let mut fields = Map::new();
                while let Some(field) = map.next_key::<String>()? {
                    let value = match field.as_str() {
                        "endpoints" => {
                            let endpoints: Vec<Endpoint> = map.next_value()?;
                            endpoints.into_iter().map(|endpoint| endpoint.0).collect()
                        }
                        _ => map.next_value()?,
                    };
                    fields.insert(field, value);
                }
                serde_json::from_value(Value::Object(fields))
                    .map(Box::new)
                    .map(BackendSpec)
                    .map_err(de::Error::custom)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Endpoint, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Endpoint;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a mapping with `address` and `port`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Endpoint, A::Error> {
                let (mut address, mut port, mut more) = (None, None, Map::new());
                while let Some(field) = map.next_key::<String>()? {
                    match field.as_str() {
                        "address" => address = Some(map.next_value::<Ip>()?),
                        "port" => port = Some(map.next_value::<u16>()?),
                        _ => drop(more.insert(field, map.next_value()?)),
                    }
                }
                let address = address.ok_or_else(|| de::Error::missing_field("address"))?;
                let port = port.ok_or_else(|| de::Error::missing_field("port"))?;
                let address = Value::String(SocketAddr::new(address.0, port).to_string());
                if more.is_empty() {
                    return Ok(Endpoint(address));
                }
                more.insert("address".to_owned(), address);
                Ok(Endpoint(Value::Object(more)))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl<'de> Deserialize<'de> for Ip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ip, D::Error> {
        parsed(deserializer, "an IP address", |text| {
            text.parse().map(Ip).map_err(|_| {
                format!("`{text}` is not an IP address; write it like 10.0.0.7 or fd00::7; host names are not allowed here")
            })
        })
    }
}
