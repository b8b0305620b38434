//! Where metrics are pushed to.

use std::fmt;

use percent_encoding::percent_decode_str;
use ureq::http::{HeaderName, HeaderValue, Uri};

use crate::WatchError;

/// Path of the endpoint for remote write in Prometheus.
const PROMETHEUS_PATH: &str = "/api/v1/write";
/// Path of an OTLP receiver.
const OTLP_PATH: &str = "/v1/metrics";

/// A receiver of metrics: its URL, protocol and headers.
#[derive(Clone, PartialEq, Eq)]
pub struct Output {
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
    /// Headers that each request has, for example credentials or a tenant.
    pub(crate) headers: Vec<(HeaderName, HeaderValue)>,
}

impl fmt::Debug for Output {
    /// Shows only the names of headers, because their values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        write!(f, "Output({:?}, {}, headers {names:?})", self.protocol, self.url)
    }
}

/// The protocol of a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    RemoteWrite(Version),
    Otlp,
}

/// Version of the Prometheus remote write protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// Version 1.0, which every receiver supports.
    #[default]
    V1,
    /// 2.0: names and labels are references into one table. Prometheus supports it since 3.0.
    V2,
}

impl Output {
    /// A Prometheus server, or another receiver that supports its remote write protocol. If the URL has no path,
    /// `/api/v1/write` is added.
    ///
    /// # Errors
    /// If `url` is not an `http://` or `https://` URL with a host.
    pub fn prometheus(url: &str, version: Version) -> Result<Self, WatchError> {
        let (url, protocol) = (with_path(url, PROMETHEUS_PATH)?, Protocol::RemoteWrite(version));
        Ok(Self { url, protocol, headers: Vec::new() })
    }

    /// A receiver of OTLP metrics over HTTP. If the URL has no path, `/v1/metrics` is added.
    ///
    /// # Errors
    /// Like [`Output::prometheus`].
    pub fn otlp(url: &str) -> Result<Self, WatchError> {
        Ok(Self { url: with_path(url, OTLP_PATH)?, protocol: Protocol::Otlp, headers: Vec::new() })
    }

    /// Adds headers to each request. `text` has the format of OpenTelemetry: `name=value,name=value`, with
    /// percent-encoded values. Errors name the environment variable `variable`, which contains `text`.
    ///
    /// # Errors
    /// [`WatchError::Headers`] for the first invalid header.
    pub fn with_headers(mut self, variable: &'static str, text: &str) -> Result<Self, WatchError> {
        for (place, pair) in text.split(',').enumerate().filter(|(_, pair)| !pair.trim().is_empty()) {
            // The value may be secret, so the error contains only the position of the header.
            let wrong = || WatchError::Headers { variable, place: place + 1 };
            let (name, value) = pair.split_once('=').ok_or_else(wrong)?;
            let value = percent_decode_str(value.trim()).decode_utf8().map_err(|_| wrong())?;
            let mut value = HeaderValue::from_str(&value).map_err(|_| wrong())?;
            value.set_sensitive(true);
            self.headers.push((name.trim().parse().map_err(|_| wrong())?, value));
        }
        Ok(self)
    }
}

fn with_path(url: &str, path: &str) -> Result<String, WatchError> {
    let wrong = |why: &str| WatchError::Url { url: url.to_owned(), why: why.to_owned() };
    let uri: Uri = url.parse().map_err(|error| wrong(&format!("not a URL ({error})")))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(wrong("the URL does not begin with http:// or https://"));
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(wrong("the URL has no host"));
    }
    if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        let url = format!("{}://..@{}", uri.scheme_str().unwrap_or_default(), uri.host().unwrap_or_default());
        let why = "the URL must not contain credentials, because weir prints the URL; put credentials into \
                   WEIR_PROMETHEUS_WRITE_HEADERS or OTEL_EXPORTER_OTLP_HEADERS"
            .to_owned();
        return Err(WatchError::Url { url, why });
    }
    let has_path = uri.path() != "/" || uri.query().is_some();
    Ok(if has_path { url.to_owned() } else { format!("{}{path}", url.trim_end_matches('/')) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_the_default_path_of_its_protocol() {
        let check = |url: &str, expected: &str| {
            assert_eq!(Output::prometheus(url, Version::V1).unwrap().url, expected);
        };
        check("http://a:9090", "http://a:9090/api/v1/write");
        check("http://a:9090/", "http://a:9090/api/v1/write");
        check("https://a/api/v1/push", "https://a/api/v1/push");
        check("http://a/?tenant=b", "http://a/?tenant=b");
        assert_eq!(Output::otlp("http://a:4318").unwrap().url, "http://a:4318/v1/metrics");
    }

    #[test]
    fn headers_use_the_format_of_opentelemetry_and_are_not_shown() {
        let output = |text: &str| Output::otlp("http://a").unwrap().with_headers("HEADERS", text);
        let read = output("Authorization=Basic%20d2VpcjphQ, x-scope-orgid=team=a,").unwrap();
        let pairs: Vec<(&str, &str)> =
            read.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(pairs, [("authorization", "Basic d2VpcjphQ"), ("x-scope-orgid", "team=a")]);
        assert!(!format!("{read:?}").contains("d2Vp"), "{read:?}");
        for text in ["secret", "a=b,se cret=c", "a=%ff"] {
            let error = output(text).unwrap_err();
            assert!(error.is_wrong_use() && !error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn an_invalid_url_is_rejected() {
        let check = |url: &str, words: &str| {
            let error = Output::prometheus(url, Version::V1).unwrap_err();
            assert!(error.is_wrong_use() && error.to_string().contains(words), "{error}");
        };
        check("a:9090", "http://");
        check("ftp://a", "does not begin with http://");
        check("/api/v1/write", "does not begin with http://");
        check("http://a b", "not a URL");
        check("http://me:secret@a/", "http://..@a: the URL must not contain credentials");
    }
}
