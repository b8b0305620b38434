//! TLS settings for clients and upstreams.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_document::Time;

use super::forms::{HOST_OR_ANY, one_of};

/// A file name that stands for the CA certificates of the system. The configuration source supplies their PEM under
/// this name, as for a file.
pub const SYSTEM_AUTHORITIES: &str = "<system CA certificates>";

/// TLS settings for clients. Files are PEM unless noted otherwise; paths are relative to the directory of the
/// configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("dependentRequired" = { "client_auth": ["client_ca"] }))]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate with its chain. It is also the default for clients without a server name (SNI), or with an
    /// unknown one.
    #[schemars(length(min = 1), example = "shop.pem")]
    pub certificate: String,
    /// Private key of the certificate, without a password: ECDSA (P-256, P-384, P-521), Ed25519 or RSA.
    #[schemars(length(min = 1), example = "shop.key")]
    pub key: String,
    /// OCSP response for the certificate (DER), stapled for clients that request it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "shop.ocsp")]
    pub ocsp: Option<String>,
    /// Server names that use this certificate, exact or `*.suffix`. `*` stands for the names in the certificate. A
    /// client gets the certificate of the most specific match; a certificate that contains the name has precedence over
    /// one that does not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST_OR_ANY)), example = json!(["shop.example"]), extend("x-default" = ["*"]))]
    pub hosts: Vec<String>,
    /// More certificates, each for the names that it contains; `*.example.org` covers one label. A name can have one
    /// certificate per key type. If two have the same key type, the first is used. ECDSA is preferred to Ed25519, and
    /// Ed25519 to RSA, as far as the client can verify the signature.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([{ "certificate": "blog.pem", "key": "blog.key" }]))]
    pub certificates: Vec<CertificateFiles>,
    /// CA certificates. One of them must have signed the client certificate, which must not be expired; otherwise the
    /// handshake fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "partners.pem", extend("x-default" = "no client certificates"))]
    pub client_ca: Option<String>,
    /// Whether clients must send a certificate. This field requires `client_ca`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"optional", extend("x-default" = "`required`"))]
    pub client_auth: Option<ClientAuth>,
    /// Reject clients that send no server name (SNI), or a name for which there is no certificate (cause
    /// `unknown_name`, alert `access_denied`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(example = true, extend("x-default" = false))]
    pub strict_sni: bool,
    /// Enabled TLS versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!([1.3]), extend("x-default" = [1.2, 1.3]))]
    pub versions: Vec<TlsVersion>,
    /// Enabled cipher suites in order of preference, by IANA or OpenSSL name. Each enabled TLS version needs at least
    /// one suite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["TLS_AES_128_GCM_SHA256"]), extend("x-default" = "all, AES-128-GCM first"))]
    pub ciphers: Vec<String>,
    /// Enabled key exchange groups: `X25519`, `P-256`, `P-384`, `X25519MLKEM768`. The client's preference decides. The
    /// gateway uses the first group of the client's list that is enabled here. If the client sent no key share for this
    /// group, it gets a HelloRetryRequest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(example = json!(["X25519", "P-256"]), extend("x-default" = "all"))]
    pub curves: Vec<String>,
    /// Session tickets, with which clients resume sessions; `off` disables resumption.
    #[serde(default, skip_serializing_if = "Tickets::is_default")]
    #[schemars(example = json!({ "lifetime": "1h" }), extend("x-default" = { "lifetime": "12h" }))]
    pub tickets: Tickets,
}

impl Tls {
    /// TLS with these certificates and defaults for everything else.
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

/// A certificate and its private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    /// Certificate with its chain.
    #[schemars(length(min = 1), example = "blog.pem")]
    pub certificate: String,
    /// Private key of the certificate, without a password: ECDSA (P-256, P-384, P-521), Ed25519 or RSA.
    #[schemars(length(min = 1), example = "blog.key")]
    pub key: String,
    /// OCSP response for the certificate (DER).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "blog.ocsp")]
    pub ocsp: Option<String>,
    /// Server names that use this certificate, exact or `*.suffix`. `*` stands for the names in the certificate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(inner(regex(pattern = HOST_OR_ANY)), example = json!(["blog.example"]), extend("x-default" = ["*"]))]
    pub hosts: Vec<String>,
}

/// The file names of a certificate and its key, as the TLS settings list them.
#[derive(Clone, Debug)]
pub(crate) struct PairFiles<'t> {
    pub(crate) certificate: &'t str,
    pub(crate) key: &'t str,
    pub(crate) ocsp: Option<&'t str>,
    /// The prefix of the fields, such as `certificates[3].`; empty for the first certificate.
    pub(crate) prefix: String,
}

/// Whether a client must send a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientAuth {
    /// The handshake fails without a certificate.
    Required,
    /// A client does not need a certificate; if it sends one, the certificate must be valid.
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

/// Whether clients of a listener can resume sessions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tickets {
    /// No resumption.
    Off,
    /// Resumption by tickets, encrypted with these keys.
    On(TicketKeys),
}

/// Keys of session tickets, shared by all workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TicketKeys {
    /// File of ticket keys that several gateways share: one base64 key of 32 to 128 bytes per line, at most 16; empty
    /// lines and lines that start with `#` are ignored. The first key encrypts; all keys decrypt. Without a file, keys
    /// are random; a key encrypts for half of `lifetime`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "tickets.keys", extend("x-default" = "random keys"))]
    pub file: Option<String>,
    /// Lifetime of a ticket, 1s to 7 days. Resumption does not check the client certificate again, so this lifetime
    /// also limits how long an expired certificate is accepted.
    pub lifetime: Time,
}

/// TLS settings for connections to endpoints: TLS 1.2 and 1.3, ALPN `http/1.1`, with session resumption. Files are PEM;
/// paths are relative to the directory of the configuration. After a change of a file or a field, the gateway uses new
/// connections and sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("dependentRequired" = { "certificate": ["key"], "key": ["certificate"] }))]
#[serde(deny_unknown_fields, default)]
pub struct BackendTls {
    /// CA certificates. One of them must have signed the certificate of the endpoint. Default: `SSL_CERT_FILE` and
    /// `SSL_CERT_DIR`, else the CA certificates of the distribution. The gateway reads the default at start and on
    /// SIGHUP.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "internal.pem", extend("x-default" = "CA certificates of the system"))]
    pub ca: Option<String>,
    /// Server name (SNI) that the gateway sends and checks in the certificate. If not set, it sends none and checks the
    /// IP address of the endpoint. Required for host names and Unix sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(example = "web.internal", extend("x-default" = "no SNI; the gateway checks the IP address"))]
    pub sni: Option<String>,
    /// Client certificate of the gateway, with its chain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "gateway.pem")]
    pub certificate: Option<String>,
    /// Private key of the certificate, without a password: ECDSA (P-256, P-384, P-521), Ed25519 or RSA.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "gateway.key")]
    pub key: Option<String>,
}

/// TLS passthrough for some server names (SNI). Set either `backend` or `instead`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(extend("allOf" = [one_of(&["backend", "instead"])]))]
#[serde(deny_unknown_fields)]
pub struct Passthrough {
    /// Server names, exact or `*.suffix` (at least one label before the suffix). `*` matches all other clients,
    /// including those without a server name. The most specific entry applies.
    #[schemars(length(min = 1), inner(regex(pattern = HOST_OR_ANY)), example = json!(["bank.example", "*.vault.example"]))]
    pub hosts: Vec<String>,
    /// Name of the backend, which must not have `tls`. `limits.upstream_connections` applies to its connections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"sealed")]
    pub backend: Option<String>,
    /// What the gateway does with clients that match `hosts`, instead of passthrough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(example = &"open")]
    pub instead: Option<Instead>,
}

/// What the gateway does with matching clients instead of passthrough. An entry with `instead` can be an exception to a
/// less specific entry, for example to one for `*.example`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Instead {
    /// Terminate TLS with `tls` of the listener.
    Open,
    /// Close the connection.
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
    /// The ticket keys, unless resumption is off.
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

impl Tls {
    /// All files that these settings name, each with its field.
    pub(crate) fn files(&self) -> Vec<(String, &str)> {
        let mut files = vec![
            ("certificate".to_owned(), self.certificate.as_str()),
            ("key".to_owned(), self.key.as_str()),
        ];
        files.extend(self.ocsp.as_deref().map(|ocsp| ("ocsp".to_owned(), ocsp)));
        for (index, more) in self.certificates.iter().enumerate() {
            files.push((format!("certificates[{index}].certificate"), more.certificate.as_str()));
            files.push((format!("certificates[{index}].key"), more.key.as_str()));
            files.extend(more.ocsp.as_deref().map(|ocsp| (format!("certificates[{index}].ocsp"), ocsp)));
        }
        files.extend(self.client_ca.as_deref().map(|ca| ("client_ca".to_owned(), ca)));
        let keys = self.tickets.keys().and_then(|keys| keys.file.as_deref());
        files.extend(keys.map(|keys| ("tickets.file".to_owned(), keys)));
        files
    }

    /// The files of all certificates in order, the default one first.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = PairFiles<'_>> {
        (0..=self.certificates.len()).filter_map(move |position| self.pair(position))
    }

    /// The files of the certificate at this position: 0 is the default one, 1 is `certificates[0]`. `None` if there is
    /// none.
    pub(crate) fn pair(&self, position: usize) -> Option<PairFiles<'_>> {
        let (certificate, key, ocsp) = self.pair_files(position)?;
        let prefix = position.checked_sub(1).map(|index| format!("certificates[{index}]."));
        Some(PairFiles { certificate, key, ocsp, prefix: prefix.unwrap_or_default() })
    }

    /// The configured `hosts` of the certificate at this position. If empty, the certificate is used for
    /// the names that it contains.
    pub(crate) fn hosts(&self, position: usize) -> &[String] {
        let further = position.checked_sub(1).map(|index| self.certificates.get(index));
        match further {
            None => &self.hosts,
            Some(certificate) => certificate.map_or(&[], |certificate| &certificate.hosts),
        }
    }

    /// Certificate, key and OCSP response of the certificate at this position; `None` if there is none.
    pub(crate) fn pair_files(&self, position: usize) -> Option<(&str, &str, Option<&str>)> {
        Some(match position.checked_sub(1) {
            None => (&self.certificate, &self.key, self.ocsp.as_deref()),
            Some(index) => {
                let CertificateFiles { certificate, key, ocsp, .. } = self.certificates.get(index)?;
                (certificate, key, ocsp.as_deref())
            }
        })
    }

    /// Whether the certificate at this position uses at least one of these files.
    pub(crate) fn names_any(&self, position: usize, files: &BTreeSet<&str>) -> bool {
        self.pair_files(position).is_some_and(|(certificate, key, ocsp)| {
            files.contains(certificate)
                || files.contains(key)
                || ocsp.is_some_and(|ocsp| files.contains(ocsp))
        })
    }
}

impl PairFiles<'_> {
    /// The full name of the field `name` of this certificate, such as `certificates[3].key`.
    pub(crate) fn field(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl BackendTls {
    /// All files that these settings name, each with its field. Without `ca`, [`SYSTEM_AUTHORITIES`] is one of them.
    pub(crate) fn files(&self) -> Vec<(&'static str, &str)> {
        let mut files = vec![("ca", self.ca.as_deref().unwrap_or(SYSTEM_AUTHORITIES))];
        files.extend(self.certificate.as_deref().map(|certificate| ("certificate", certificate)));
        files.extend(self.key.as_deref().map(|key| ("key", key)));
        files
    }
}

// YAML reads `1.3` as a number and `off` as a boolean. So `TlsVersion` also accepts numbers, and `Tickets` booleans.
// Error texts contain cause and remedy: `weir_document` splits them at the first `; `.

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<TlsVersion, String> {
        match text {
            "1.2" => Ok(TlsVersion::V12),
            "1.3" => Ok(TlsVersion::V13),
            _ => Err(format!("unsupported TLS version `{text}`; write 1.2 or 1.3")),
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
                        "unknown value `{text}`; write `off`, or a mapping with `file` and `lifetime`"
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
