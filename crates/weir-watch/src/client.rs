//! Sends one request at a time to a receiver of metrics.

use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use ureq::http::{HeaderMap, StatusCode};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

use crate::otlp;
use crate::output::{Output, Protocol, Version};
use crate::remote_write;
use crate::series::{Batch, samples};

/// Time-out of a request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of bytes that are read of a response.
const RESPONSE_BYTES_MAX: u64 = 64 << 10;
/// Maximum number of characters of a response that messages quote.
const QUOTED_CHARS_MAX: usize = 120;

/// The result of sending a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The receiver has written all samples.
    Written,
    /// The receiver has rejected these samples permanently.
    Rejected { samples: u64, why: Why },
    /// The request failed. The same request may succeed later.
    Failed(Why),
}

/// Why samples were not written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Why {
    pub(crate) message: String,
    /// What the user can do.
    pub(crate) remedy: &'static str,
}

/// A client of one receiver.
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    output: Output,
}

impl Client {
    /// Creates a client. It sends no request yet.
    pub(crate) fn new(output: Output) -> Self {
        let certificates = match output.url.starts_with("https:") {
            true => rustls_native_certs::load_native_certs().certs,
            false => Vec::new(),
        };
        let certificates = certificates.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .root_certs(RootCerts::from(certificates))
            .build();
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(TIMEOUT))
            .http_status_as_error(false)
            // The proxy variables of the environment are ignored, because the command line decides where metrics
            // go.
            .proxy(None)
            .build()
            .new_agent();
        Self { agent, output }
    }

    /// Sends a batch once, without retries.
    pub(crate) fn send(&self, batch: &Batch) -> Outcome {
        let request = self.agent.post(&self.output.url).header("User-Agent", "weir");
        let headers = self.output.headers.iter();
        let request = headers.fold(request, |request, (name, value)| request.header(name, value));
        let sent = match self.output.protocol {
            Protocol::RemoteWrite(version) => {
                let (kind, number) = match version {
                    Version::V1 => ("application/x-protobuf", "0.1.0"),
                    Version::V2 => ("application/x-protobuf;proto=io.prometheus.write.v2.Request", "2.0.0"),
                };
                let request = request.header("Content-Type", kind).header("Content-Encoding", "snappy");
                let request = request.header("X-Prometheus-Remote-Write-Version", number);
                request.send(&remote_write::encode(batch, version)[..])
            }
            Protocol::Otlp => {
                request.header("Content-Type", "application/x-protobuf").send(&otlp::encode(batch)[..])
            }
        };
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                let remedy = "check that the receiver runs and that this host can reach it";
                return Outcome::Failed(Why { message: error.to_string(), remedy });
            }
        };
        // The response body is read in any case, so that the connection can be reused.
        let body = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX).read_to_vec();
        outcome(self.output.protocol, response.status(), response.headers(), &body.unwrap_or_default(), batch)
    }
}

fn outcome(
    protocol: Protocol,
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    batch: &Batch,
) -> Outcome {
    let all = samples(batch);
    if status.is_success() {
        return match protocol {
            Protocol::RemoteWrite(Version::V1) => Outcome::Written,
            Protocol::RemoteWrite(Version::V2) => confirmed(headers, all),
            Protocol::Otlp => match otlp::rejected(body) {
                None => Outcome::Written,
                Some((samples, message)) => {
                    Outcome::Rejected { samples, why: Why { message, remedy: "see the receiver's log" } }
                }
            },
        };
    }
    let why = Why { message: status_words(status, body), remedy: remedy(protocol, status) };
    match status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        true => Outcome::Failed(why),
        false => Outcome::Rejected { samples: all, why },
    }
}

/// Decides from the response headers whether the receiver has written the samples of a remote write 2.0 request. A
/// receiver that supports only version 1.0 finds no series in such a request, but responds with success.
fn confirmed(headers: &HeaderMap, all: u64) -> Outcome {
    let count = |name: &str| -> Option<u64> {
        headers.get(format!("x-prometheus-remote-write-{name}-written"))?.to_str().ok()?.trim().parse().ok()
    };
    let written = count("samples").unwrap_or(0) + count("histograms").unwrap_or(0);
    if written >= all {
        return Outcome::Written;
    }
    let why = Why {
        message: "the receiver did not confirm the samples, so it may not support remote write 2.0".into(),
        remedy: "use `--prometheus-write-version 1`",
    };
    Outcome::Rejected { samples: all - written, why }
}

fn status_words(status: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line: String =
        text.lines().next().unwrap_or_default().trim().chars().take(QUOTED_CHARS_MAX).collect();
    match line.chars().any(char::is_control) || line.is_empty() {
        true => format!("HTTP status {}", status.as_u16()),
        false => format!("HTTP status {}: {line}", status.as_u16()),
    }
}

fn remedy(protocol: Protocol, status: StatusCode) -> &'static str {
    match (protocol, status.as_u16()) {
        (Protocol::Otlp, 401 | 403) => {
            "put credentials into OTEL_EXPORTER_OTLP_HEADERS, like Authorization=Bearer%20TOKEN"
        }
        (Protocol::RemoteWrite(_), 401 | 403) => {
            "put credentials into WEIR_PROMETHEUS_WRITE_HEADERS, like Authorization=Bearer%20TOKEN"
        }
        (Protocol::RemoteWrite(_), 404 | 405) => {
            "start Prometheus with `--web.enable-remote-write-receiver`, or correct the path of the URL"
        }
        (Protocol::Otlp, 404 | 405) => "correct the path of the URL: most receivers use /v1/metrics",
        (Protocol::RemoteWrite(Version::V2), 400 | 415) => "use `--prometheus-write-version 1`",
        (_, 429) => "raise the receiver's limit of samples per second",
        _ => "see the receiver's log",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair =
            |(name, value): &(&'static str, &'static str)| (name.parse().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn responses_say_whether_to_retry() {
        let check = |protocol, status: u16, expected: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            let text = match outcome(protocol, status, &HeaderMap::new(), b"why\n", &Batch::new()) {
                Outcome::Written => "written".to_owned(),
                Outcome::Rejected { why, .. } => format!("rejected: {}; {}", why.message, why.remedy),
                Outcome::Failed(why) => format!("failed: {}; {}", why.message, why.remedy),
            };
            assert_eq!(text, expected);
        };
        let write = Protocol::RemoteWrite(Version::V1);
        check(write, 204, "written");
        check(write, 400, "rejected: HTTP status 400: why; see the receiver's log");
        check(write, 500, "failed: HTTP status 500: why; see the receiver's log");
        check(write, 429, "failed: HTTP status 429: why; raise the receiver's limit of samples per second");
        check(
            Protocol::RemoteWrite(Version::V2),
            415,
            "rejected: HTTP status 415: why; use `--prometheus-write-version 1`",
        );
        check(
            Protocol::Otlp,
            404,
            "rejected: HTTP status 404: why; correct the path of the URL: most receivers use /v1/metrics",
        );
    }

    #[test]
    fn version_2_counts_only_confirmed_samples() {
        let check = |pairs: &[(&'static str, &'static str)], expected: Option<u64>| {
            let rejected = match confirmed(&headers(pairs), 5) {
                Outcome::Written => None,
                Outcome::Rejected { samples, .. } => Some(samples),
                Outcome::Failed(why) => panic!("{why:?}"),
            };
            assert_eq!(rejected, expected);
        };
        check(&[], Some(5));
        let samples = ("x-prometheus-remote-write-samples-written", "4");
        check(&[samples], Some(1));
        check(&[samples, ("x-prometheus-remote-write-histograms-written", "1")], None);
    }
}
