//! The URL of a remote server.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

const FORM: &str = "write it as https://HOST[:PORT]";

/// A URL in the form `http[s]://HOST[:PORT][/PATH]`, without user, query or fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether the scheme is https.
    pub is_secure: bool,
    /// The host's name, or its address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The path without the slash at its end; empty if there is no path.
    pub path: String,
    /// Host and port as written.
    authority: String,
}

impl Url {
    /// `host:port` to connect to.
    pub fn connect(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Host and port as written, for the Host header.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Whether the URL leads to this host: `localhost` or a loopback address.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str, remedy: &str| Err(format!("`{}`: {what}; {remedy}", without_credentials(text)));
        let Some((scheme, rest)) = text.split_once("://") else {
            return wrong("the URL has no scheme", FORM);
        };
        let (is_secure, default_port) = match scheme {
            "http" => (false, 80),
            "https" => (true, 443),
            _ => return wrong("the scheme is not supported", "use http:// or https://"),
        };
        if rest.contains(['?', '#']) {
            return wrong("the URL contains a query or a fragment", "remove everything after the path");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return wrong(
                "the URL contains credentials, which weir would store with the run",
                "remove them from the URL",
            );
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port),
            None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        if host.is_empty() || !host.chars().all(plain) {
            return wrong("the URL has no host", FORM);
        }
        let port = match port.strip_prefix(':').map(str::parse::<u16>) {
            None if port.is_empty() => default_port,
            Some(Ok(port @ 1..)) => port,
            _ => return wrong("the port is not between 1 and 65535", "correct the port"),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong(
                "the path contains a space, a control character or a non-ASCII character",
                "percent-encode this character, for example a space as %20",
            );
        }
        Ok(Self {
            is_secure,
            host: host.to_owned(),
            port,
            path: path.trim_end_matches('/').to_owned(),
            authority: authority.to_owned(),
        })
    }
}

/// Replaces everything between `://` and the last `@` in `text` with `***`. Without `://`, everything before the last
/// `@` is replaced. This part can be the user and password, which no error may print.
pub(crate) fn without_credentials(text: &str) -> String {
    let begin = text.find("://").map_or(0, |at| at + 3);
    match text[begin..].rfind('@') {
        Some(at) => format!("{}***{}", &text[..begin], &text[begin + at..]),
        None => text.to_owned(),
    }
}

/// Like [`without_credentials`], but returns text without `://` unchanged.
pub(crate) fn without_url_credentials(text: &str) -> String {
    if text.contains("://") { without_credentials(text) } else { text.to_owned() }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

impl Serialize for Url {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Url {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Url {
    fn schema_name() -> Cow<'static, str> {
        "Url".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "`http[s]://HOST[:PORT][/PATH]`, without user, query or fragment.",
            "type": "string",
            "pattern": "^https?://"
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_and_printed() {
        for (text, connect, host, path) in [
            ("http://a", "a:80", "a", ""),
            ("https://gw.example", "gw.example:443", "gw.example", ""),
            ("http://10.0.0.7:8080", "10.0.0.7:8080", "10.0.0.7", ""),
            ("https://[::1]:8443", "[::1]:8443", "::1", ""),
            ("http://a:9090/prometheus", "a:9090", "a", "/prometheus"),
        ] {
            let url: Url = text.parse().unwrap();
            assert_eq!((url.connect().as_str(), url.host.as_str(), url.path.as_str()), (connect, host, path));
            assert_eq!(url.to_string(), text);
        }
        assert_eq!("http://a/".parse::<Url>().unwrap().to_string(), "http://a");
        let is_here = |text: &str| text.parse::<Url>().unwrap().is_loopback();
        assert!(is_here("http://localhost:1") && is_here("http://[::1]") && !is_here("http://10.0.0.7"));
    }

    #[test]
    fn invalid_urls_have_a_remedy() {
        for (text, said) in [
            ("gw.example:443", "no scheme; write it as https://HOST"),
            ("ftp://a", "use http://"),
            ("http://", "no host"),
            ("http://:80", "no host"),
            ("http://a b", "no host"),
            ("http://a:0", "correct the port"),
            ("http://a:99999", "correct the port"),
            ("http://[::1]x", "correct the port"),
            ("http://a/x y", "percent-encode this character"),
            ("http://a/x?y", "remove everything after the path"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.starts_with(&format!("`{text}`: ")) && error.contains(said), "{error}");
        }
        for (text, shown) in [
            ("http://u:p@a", "`http://***@a`: the URL contains credentials"),
            ("http://u:p@a/x?y", "`http://***@a/x?y`: the URL contains a query"),
            ("ftp://u:p@q@a", "`ftp://***@a`: the scheme is not supported"),
            ("u:p@a", "`***@a`: the URL has no scheme"),
            ("http://u:p/q?r#s@a", "`http://***@a`: the URL contains a query"),
            ("http:/u:p@a", "`***@a`: the URL has no scheme"),
        ] {
            let error = text.parse::<Url>().unwrap_err();
            assert!(error.starts_with(shown), "{error}");
        }
    }
}
