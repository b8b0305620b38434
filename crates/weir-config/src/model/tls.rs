//! What a configuration can say of TLS, with clients and with upstreams.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::Time;

use crate::schema::{HOST_OR_ANY, one_of};

/// TLS with the clients of a listener. Its files are PEM where nothing else is said, relative to the configuration's
/// folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("dependentRequired" = { "client_auth": ["client_ca"] }))]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The certificate with its chain, for clients that ask for no name, or for one that no other certificate is for.
    #[schemars(length(min = 1), example = "shop.pem")]
    pub certificate: String,
    /// Its private key.
    #[schemars(length(min = 1), example = "shop.key")]
    pub key: String,
    /// The answer of its authority's OCSP responder (DER), handed to clients that ask for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "shop.ocsp")]
    pub ocsp: Option<String>,
    /// Host names that it is shown for, exact or `*.suffix`, in place of those that it carries; `*` is what it carries. A
    /// client gets a certificate of the most specific host that its name falls under, if it can one that carries the name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST_OR_ANY)), example = json!(["shop.example"]), extend("x-default" = ["*"]))]
    pub hosts: Vec<String>,
    /// Further ones, each for the names that it carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "certificate": "blog.pem", "key": "blog.key" }]))]
    pub certificates: Vec<CertificateFiles>,
    /// Authorities: a client's certificate must be signed by one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "partners.pem", extend("x-default" = "nobody is asked"))]
    pub client_ca: Option<String>,
    /// Whether a client must show a certificate. It needs `client_ca`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"optional", extend("x-default" = "`required`"))]
    pub client_auth: Option<ClientAuth>,
    /// Refuses clients that ask for no name, or for one that no certificate is for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true, extend("x-default" = false))]
    pub strict_sni: bool,
    /// The versions that are spoken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([1.3]), extend("x-default" = [1.2, 1.3]))]
    pub versions: Vec<TlsVersion>,
    /// The suites that are spoken, by IANA's or OpenSSL's names, the first that a client has too is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["TLS_AES_128_GCM_SHA256"]), extend("x-default" = "all, AES-128-GCM first"))]
    pub ciphers: Vec<String>,
    /// The groups of key exchanges that are spoken; of those the client's first is taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["X25519", "P-256"]), extend("x-default" = "all"))]
    pub curves: Vec<String>,
    /// How sessions are resumed.
    #[serde(default, skip_serializing_if = "Tickets::is_default")]
    #[schemars(example = json!({ "lifetime": "1h" }), extend("x-default" = { "lifetime": "12h" }))]
    pub tickets: Tickets,
}

impl Tls {
    /// With this certificate and the further ones, and everything else as it is by default.
    pub fn of(first: CertificateFiles, certificates: Vec<CertificateFiles>) -> Tls {
        let CertificateFiles { certificate, key, ocsp, hosts } = first;
        Tls {
            certificate,
            key,
            ocsp,
            hosts,
            certificates,
            client_ca: None,
            client_auth: None,
            strict_sni: false,
            versions: Vec::new(),
            ciphers: Vec::new(),
            curves: Vec::new(),
            tickets: Tickets::default(),
        }
    }
}

/// A certificate and its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// The certificate with its chain.
    #[schemars(length(min = 1), example = "blog.pem")]
    pub certificate: String,
    /// Its private key.
    #[schemars(length(min = 1), example = "blog.key")]
    pub key: String,
    /// The answer of its authority's OCSP responder (DER).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "blog.ocsp")]
    pub ocsp: Option<String>,
    /// Host names that it is shown for, in place of those that it carries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST_OR_ANY)), example = json!(["blog.example"]), extend("x-default" = ["*"]))]
    pub hosts: Vec<String>,
}

/// Whether a client must show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// A handshake without one breaks off.
    Required,
    /// A client may show none; one that it shows must be good.
    Optional,
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

/// How sessions of a listener are resumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// They are not.
    Off,
    /// By tickets, sealed with these keys.
    On(TicketKeys),
}

/// The keys of session tickets, shared by all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TicketKeys {
    /// Keys that several gateways share, one a line in base64: the first seals, all open. Keys of its own are random and
    /// change by themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "tickets.keys", extend("x-default" = "random keys of its own"))]
    pub file: Option<String>,
    /// How long a ticket is good for, 1s to 7 days.
    pub lifetime: Time,
}

/// TLS with the endpoints of a backend. Its files are PEM, relative to the configuration's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("dependentRequired" = { "certificate": ["key"], "key": ["certificate"] }))]
#[serde(deny_unknown_fields, default)]
pub struct BackendTls {
    /// Authorities, one of which must have signed the endpoint's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "internal.pem", extend("x-default" = "the system's"))]
    pub ca: Option<String>,
    /// The name that is asked for and that the certificate must be for. When absent, none is asked for, and the
    /// certificate must be for the endpoint's IP address.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "web.internal", extend("x-default" = "the endpoint's IP address"))]
    pub sni: Option<String>,
    /// The certificate to show, with its chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "gateway.pem")]
    pub certificate: Option<String>,
    /// Its private key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "gateway.key")]
    pub key: Option<String>,
}

/// Clients whose TLS is passed on sealed, by the name that they ask for. It says one of `backend` and `instead`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [one_of(&["backend", "instead"])]))]
#[serde(deny_unknown_fields)]
pub struct Passthrough {
    /// Host names, exact or `*.suffix` (one label or more before the suffix). `*` is every client that no other entry is
    /// for, also one that asks for no name.
    #[schemars(length(min = 1), inner(regex(pattern = HOST_OR_ANY)), example = json!(["bank.example", "*.vault.example"]))]
    pub hosts: Vec<String>,
    /// The backend's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"sealed")]
    pub backend: Option<String>,
    /// What becomes of these clients where their TLS is not passed on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"open")]
    pub instead: Option<Instead>,
}

/// What becomes of clients whose TLS is not passed on, though that of less specific hosts may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Instead {
    /// Their TLS ends here, with `tls` of the listener.
    Open,
    /// They are closed.
    Close,
}

impl Default for TicketKeys {
    fn default() -> Self {
        TicketKeys { file: None, lifetime: Time(Duration::from_secs(12 * 3600)) }
    }
}

impl Default for Tickets {
    fn default() -> Self {
        Tickets::On(TicketKeys::default())
    }
}

impl Tickets {
    /// The keys, unless sessions are not resumed.
    pub fn keys(&self) -> Option<&TicketKeys> {
        match self {
            Tickets::Off => None,
            Tickets::On(keys) => Some(keys),
        }
    }

    fn is_default(&self) -> bool {
        *self == Tickets::default()
    }
}

// Documents take `1.3` for a number and `off` for a switch. The text of an error is `cause; remedy`.

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsVersion, String> {
        match text {
            "1.2" => Ok(TlsVersion::V12),
            "1.3" => Ok(TlsVersion::V13),
            _ => Err(format!("`{text}` is no version of TLS that is spoken; write 1.2 or 1.3")),
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsVersion::V12 => "1.2",
            TlsVersion::V13 => "1.3",
        })
    }
}

impl Serialize for TlsVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TlsVersion {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TlsVersion, D::Error> {
        struct Version;

        impl Visitor<'_> for Version {
            type Value = TlsVersion;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("1.2 or 1.3")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<TlsVersion, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<TlsVersion, E> {
                self.visit_str(&number.to_string())
            }
        }

        deserializer.deserialize_any(Version)
    }
}

impl JsonSchema for TlsVersion {
    fn schema_name() -> Cow<'static, str> {
        "TlsVersion".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "enum": [1.2, 1.3, "1.2", "1.3"], "description": "A version of TLS." })
    }
}

impl Serialize for Tickets {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Tickets::Off => serializer.serialize_str("off"),
            Tickets::On(keys) => keys.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Tickets {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tickets, D::Error> {
        struct Said;

        impl<'de> Visitor<'de> for Said {
            type Value = Tickets;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("`off`, or a mapping with `file` and `lifetime`")
            }

            fn visit_bool<E: de::Error>(self, on: bool) -> Result<Tickets, E> {
                Ok(if on { Tickets::default() } else { Tickets::Off })
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Tickets, E> {
                match text {
                    "on" => Ok(Tickets::default()),
                    "off" => Ok(Tickets::Off),
                    _ => Err(E::custom(format!(
                        "`{text}` says nothing of tickets; write `off`, or a mapping with `file` and `lifetime`"
                    ))),
                }
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Tickets, A::Error> {
                Deserialize::deserialize(MapAccessDeserializer::new(map)).map(Tickets::On)
            }
        }

        deserializer.deserialize_any(Said)
    }
}

impl JsonSchema for Tickets {
    fn schema_name() -> Cow<'static, str> {
        "Tickets".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let keys = generator.subschema_for::<TicketKeys>();
        json_schema!({ "anyOf": [{ "enum": ["off", "on", false, true] }, keys] })
    }
}
