//! How a load uses TLS.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Share, as_word};

use super::{invalid, out_of_range};
use crate::EngineError;

/// TLS on the connections of a load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSpec {
    /// Accept any server certificate. (`weir load --insecure`)
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    /// PEM file of the CA certificates to trust. (`weir load --cacert`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the system's"))]
    pub ca: Option<PathBuf>,
    /// PEM file of the client certificate; requires `key`. (`weir load --cert`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// PEM file of the private key of `cert`. (`weir load --key`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Which connections try to resume an earlier TLS session: `on`, `off`, or a share like `50%`. weir keeps up to
    /// two session tickets per connection. (`weir load --resumption`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "`on`"))]
    pub resumption: Option<Resumption>,
    /// The only TLS version that is offered: `1.2` or `1.3`. (`weir load --tls`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "both"))]
    pub version: Option<TlsVersion>,
    /// Server name (SNI) to send. The server's certificate must match it. (`weir load --sni`)
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "the host of the URL"))]
    pub sni: Option<String>,
}

/// The share of connections that try to resume an earlier session: `on`, `off` or `50%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resumption(pub f64);

/// A version of TLS: `1.2` or `1.3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TlsVersion {
    /// TLS 1.2.
    V12,
    /// TLS 1.3.
    V13,
}

impl TlsSpec {
    /// The share of connections that try to resume an earlier session, from 0 to 1. The default is 1.
    pub(crate) fn resumption(&self) -> f64 {
        self.resumption.map_or(1.0, |Resumption(share)| share)
    }

    /// Returns the files of the client certificate and its key; `None` if neither is set.
    ///
    /// # Errors
    /// If one of the two is missing.
    pub(crate) fn client(&self) -> Result<Option<(&Path, &Path)>, EngineError> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Ok(Some((cert, key))),
            (None, None) => Ok(None),
            (Some(_), None) => invalid("cert", "the certificate has no key", "add `key`"),
            (None, Some(_)) => invalid("key", "the key has no certificate", "add `cert`"),
        }
    }

    /// Validates everything that can be checked without reading the files.
    pub(super) fn validate(&self, host: &str) -> Result<(), EngineError> {
        self.client()?;
        if self.sni.as_deref().unwrap_or(host).is_empty() {
            return invalid("sni", "the server name is empty", "remove it to use the host of the URL");
        }
        match (0.0..=1.0).contains(&self.resumption()) {
            true => Ok(()),
            false => out_of_range("resumption", self.resumption(), "use a share from 0 to 1"),
        }
    }
}

impl FromStr for Resumption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "on" | "true" => Ok(Self(1.0)),
            "off" | "false" => Ok(Self(0.0)),
            share => match share.parse::<Share>() {
                Ok(Share(share)) => Ok(Self(share)),
                Err(_) => Err(format!("`{text}` is not a share; use on, off or a share like 50%")),
            },
        }
    }
}

impl fmt::Display for Resumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1.0 => f.write_str("on"),
            0.0 => f.write_str("off"),
            share => Share(share).fmt(f),
        }
    }
}

impl FromStr for TlsVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "1.2" => Ok(Self::V12),
            "1.3" => Ok(Self::V13),
            _ => Err(format!("unsupported TLS version `{text}`; use 1.2 or 1.3")),
        }
    }
}

impl fmt::Display for TlsVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V12 => "1.2",
            Self::V13 => "1.3",
        })
    }
}

as_word!(Resumption, "`on`, `off`, or the share of connections that try to resume a session, like `50%`");
as_word!(TlsVersion, "`1.2` or `1.3`");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_the_forms_of_documents_and_users() {
        let read = |text: &str| weir_document::read::<TlsSpec>("x.yaml", text).unwrap();
        let tls = read("{ version: 1.3, resumption: off }");
        assert_eq!((tls.version, tls.resumption), (Some(TlsVersion::V13), Some(Resumption(0.0))));
        let tls = read("version: \"1.2\"\nresumption: on\n");
        assert_eq!((tls.version, tls.resumption), (Some(TlsVersion::V12), Some(Resumption(1.0))));
        let tls = read("resumption: 12.5%\n");
        assert_eq!(tls.resumption, Some(Resumption(0.125)));
        assert_eq!(read(&serde_json::to_string(&tls).unwrap()), tls);
        let said = |text: &str| weir_document::read::<TlsSpec>("x.yaml", text).unwrap_err();
        assert_eq!(said("version: 1.1\n").remedy, "use 1.2 or 1.3");
        assert_eq!(said("resumption: maybe\n").remedy, "use on, off or a share like 50%");
    }
}
