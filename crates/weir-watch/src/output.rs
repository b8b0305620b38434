//! Where metrics go.

use ureq::http::Uri;

use crate::WatchError;

/// Path of the remote write receiver of Prometheus.
const PROMETHEUS_PATH: &str = "/api/v1/write";
/// Path of an OTLP receiver.
const OTLP_PATH: &str = "/v1/metrics";

/// A receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    pub(crate) url: String,
    pub(crate) protocol: Protocol,
}

/// How a receiver is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    RemoteWrite(Version),
    Otlp,
}

/// Version of the Prometheus remote write protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// 1.0, which every receiver understands.
    #[default]
    V1,
    /// 2.0: names and labels as references into one table. Prometheus understands it from 3.0 on.
    V2,
}

impl Output {
    /// A Prometheus, or another receiver of its remote write protocol. A URL without a path gets `/api/v1/write`.
    ///
    /// # Errors
    /// If `url` is not an `http://` or `https://` URL with a host.
    pub fn prometheus(url: &str, version: Version) -> Result<Self, WatchError> {
        Ok(Self { url: with_path(url, PROMETHEUS_PATH)?, protocol: Protocol::RemoteWrite(version) })
    }

    /// A receiver of OTLP metrics over HTTP. A URL without a path gets `/v1/metrics`.
    ///
    /// # Errors
    /// As [`Output::prometheus`].
    pub fn otlp(url: &str) -> Result<Self, WatchError> {
        Ok(Self { url: with_path(url, OTLP_PATH)?, protocol: Protocol::Otlp })
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
    let has_path = uri.path() != "/" || uri.query().is_some();
    Ok(if has_path { url.to_owned() } else { format!("{}{path}", url.trim_end_matches('/')) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_path_gets_the_one_of_its_protocol() {
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
    fn what_is_no_url_is_rejected() {
        let check = |url: &str, words: &str| {
            let error = Output::prometheus(url, Version::V1).unwrap_err();
            assert!(error.is_wrong_use() && error.to_string().contains(words), "{error}");
        };
        check("a:9090", "http://");
        check("ftp://a", "does not begin with http://");
        check("/api/v1/write", "does not begin with http://");
        check("http://a b", "not a URL");
    }
}
