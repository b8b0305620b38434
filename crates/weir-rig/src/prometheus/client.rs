//! A client of Prometheus's HTTP API, with limits on time and size.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::crypto::aws_lc_rs;
use serde::Deserialize;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};

use super::phase::{Point, Series};
use crate::RigError;

/// Timeout of one query, from the connection to the end of the response.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response, bytes: enough for an hour of a thousand series with one scrape per second.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Maximum size of a file with a token, a password or certificates, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The address of a Prometheus, and how to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusAddress {
    /// The base URL, to which weir appends `/api/v1/query`: `http://` or `https://`, host, port and path.
    pub url: String,
    /// PEM file with the trusted CA certificates; `None` trusts the CAs of the system.
    pub ca: Option<PathBuf>,
    /// Whether to accept invalid server certificates.
    pub insecure: bool,
    /// Credentials that weir sends; `None` sends none.
    pub credentials: Option<Credentials>,
}

/// Credentials for a Prometheus. They name files instead of secrets, because a run stores its scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credentials {
    /// A file that contains a bearer token.
    Token(PathBuf),
    /// A user name and a password (HTTP basic authentication).
    Password {
        /// The user name.
        user: String,
        /// A file that contains the password.
        file: PathBuf,
    },
}

/// A client of a Prometheus, or of a compatible server.
#[derive(Debug)]
pub(crate) struct Client {
    agent: ureq::Agent,
    url: String,
    authorization: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    status: String,
    data: Option<Data>,
    error: Option<String>,
}

#[derive(Deserialize)]
#[serde(tag = "resultType", content = "result", rename_all = "lowercase")]
enum Data {
    Matrix(Vec<Range>),
    Vector(Vec<Instant>),
    Scalar(Sample),
}

/// Seconds since the Unix epoch and a value.
type Sample = (f64, String);

#[derive(Deserialize)]
struct Range {
    metric: BTreeMap<String, String>,
    values: Vec<Sample>,
}

#[derive(Deserialize)]
struct Instant {
    metric: BTreeMap<String, String>,
    value: Sample,
}

impl Client {
    /// Reads the files that `address` names; sends no request.
    pub(crate) fn new(address: &PrometheusAddress) -> Result<Self, RigError> {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .root_certs(roots(address.ca.as_deref())?)
            .disable_verification(address.insecure)
            .build();
        let agent = ureq::Agent::config_builder()
            .tls_config(tls)
            .timeout_global(Some(ANSWER_TIMEOUT))
            .http_status_as_error(false)
            // Ignores proxy variables of the environment: the scenario alone selects the server.
            .proxy(None)
            .build()
            .new_agent();
        let authorization = match &address.credentials {
            None => None,
            Some(Credentials::Token(file)) => Some(format!("Bearer {}", secret(file)?)),
            Some(Credentials::Password { user, file }) => {
                Some(format!("Basic {}", STANDARD.encode(format!("{user}:{}", secret(file)?))))
            }
        };
        Ok(Self { agent, url: address.url.trim_end_matches('/').to_owned(), authorization })
    }

    /// The base URL, without a slash at the end.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Runs `query` at the current time and returns the selected series. A range selector (`metric[60s]`) returns all
    /// values of each series in that range; any other selector returns the newest value of each series.
    pub(crate) fn series(&self, query: &str) -> Result<Vec<Series>, RigError> {
        let series = |labels, values: Vec<Sample>| Series { labels, points: points(values) };
        match self.ask(query)? {
            Data::Matrix(ranges) => Ok(ranges.into_iter().map(|it| series(it.metric, it.values)).collect()),
            Data::Vector(values) => {
                Ok(values.into_iter().map(|it| series(it.metric, vec![it.value])).collect())
            }
            Data::Scalar(_) => Err(self.wrong_query(query, "the query returns a number, not a series")),
        }
    }

    /// The current time by the server's clock, seconds since the Unix epoch.
    pub(crate) fn now_s(&self) -> Result<f64, RigError> {
        match self.ask("time()")? {
            Data::Scalar((_, now)) => {
                now.parse().map_err(|_| self.failed(format!("invalid server time `{now}`"), NO_PROMETHEUS))
            }
            Data::Matrix(_) | Data::Vector(_) => {
                Err(self.failed("the response has no server time".into(), NO_PROMETHEUS))
            }
        }
    }

    fn ask(&self, query: &str) -> Result<Data, RigError> {
        let mut request = self.agent.get(format!("{}/api/v1/query", self.url)).query("query", query);
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let reach = "check that Prometheus runs and that this host can reach it";
        let mut response = request.call().map_err(|error| self.failed(error.to_string(), reach))?;
        let status = response.status().as_u16();
        let read = response.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_string();
        let body = read.map_err(|error| self.failed(error.to_string(), reach))?;
        self.understand(query, status, &body)
    }

    fn understand(&self, query: &str, status: u16, body: &str) -> Result<Data, RigError> {
        if let Ok(Answer { status: answer_status, data, error }) = serde_json::from_str::<Answer>(body) {
            return match (answer_status.as_str(), data, error) {
                ("success", Some(data), _) => Ok(data),
                (_, _, Some(error)) if matches!(status, 400 | 422) => Err(self.wrong_query(query, &error)),
                (_, _, error) => Err(self.failed(
                    format!("HTTP status {status}: {}", error.unwrap_or(answer_status)),
                    "see the log of Prometheus; weir sends requests to `/api/v1/query`",
                )),
            };
        }
        Err(match status {
            401 | 403 => self.failed(
                format!("HTTP status {status}"),
                "set a valid `token_file`, or `user` and `password_file`",
            ),
            _ => {
                let line = body.lines().next().unwrap_or_default();
                let line: String = line.chars().take(80).collect();
                self.failed(
                    format!("HTTP status {status}, and the response is not from Prometheus: {line}"),
                    NO_PROMETHEUS,
                )
            }
        })
    }

    pub(crate) fn failed(&self, message: String, remedy: &str) -> RigError {
        RigError::Prometheus {
            place: self.url.clone(),
            message,
            remedy: remedy.to_owned(),
            is_wrong_use: false,
        }
    }

    fn wrong_query(&self, query: &str, message: &str) -> RigError {
        RigError::Prometheus {
            place: self.url.clone(),
            message: format!("{query}: {message}"),
            remedy:
                "write label matchers like namespace=\"shop\",pod=~\"gw-.*\" in `selector`, and selectors \
                     without functions in `queries`"
                    .into(),
            is_wrong_use: true,
        }
    }
}

const NO_PROMETHEUS: &str = "use the base URL of Prometheus, without `/api/v1/query`";

/// Parses samples, and drops values that are not finite: a series can contain NaN.
fn points(values: Vec<Sample>) -> Vec<Point> {
    let point = |(at_s, value): Sample| Some(Point { at_s, value: value.parse().ok()? });
    values.into_iter().filter_map(point).filter(|point| point.value.is_finite()).collect()
}

fn roots(ca: Option<&Path>) -> Result<RootCerts, RigError> {
    let Some(path) = ca else {
        let found = rustls_native_certs::load_native_certs().certs;
        let certificates = found.iter().map(|der| Certificate::from_der(der.as_ref()).to_owned());
        return Ok(RootCerts::from(certificates));
    };
    let wrong = |message: String| unreadable(path, message, "use a PEM file with certificates");
    let text = bounded(path)?;
    let mut certificates = Vec::new();
    for item in parse_pem(&text) {
        if let PemItem::Certificate(certificate) = item.map_err(|error| wrong(error.to_string()))? {
            certificates.push(certificate);
        }
    }
    match certificates.is_empty() {
        true => Err(wrong("the file contains no PEM certificate".into())),
        false => Ok(RootCerts::from(certificates)),
    }
}

/// Reads a secret from a file that must contain a single line of printable ASCII.
fn secret(path: &Path) -> Result<String, RigError> {
    let text = bounded(path)?;
    let text = std::str::from_utf8(&text).unwrap_or_default().trim();
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        true => Ok(text.to_owned()),
        false => Err(unreadable(
            path,
            "the file is not a single line of text".into(),
            "write only the secret into the file",
        )),
    }
}

fn bounded(path: &Path) -> Result<Vec<u8>, RigError> {
    let readable = "correct the path";
    let wrong = |error: std::io::Error| unreadable(path, error.to_string(), readable);
    match fs::metadata(path).map_err(wrong)?.len() {
        0..=FILE_BYTES_MAX => fs::read(path).map_err(wrong),
        _ => Err(unreadable(path, "the file is larger than 1 MiB".into(), readable)),
    }
}

fn unreadable(path: &Path, message: String, remedy: &str) -> RigError {
    let place = path.display().to_string();
    RigError::Prometheus { place, message, remedy: remedy.to_owned(), is_wrong_use: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client() -> Client {
        let url = "http://127.0.0.1:9/".into();
        Client::new(&PrometheusAddress { url, ca: None, insecure: true, credentials: None }).unwrap()
    }

    #[test]
    fn api_responses_are_parsed() {
        let body = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"up","job":"a"},
            "values":[[1795227000.25,"1"],[1795227001.25,"NaN"],[1795227002.25,"2.5"]]}]}}"#;
        let Ok(Data::Matrix(ranges)) = client().understand("up[5m]", 200, body) else { panic!("{body}") };
        assert_eq!(ranges[0].metric["job"], "a");
        let values = points(vec![(1.25, "1".into()), (2.25, "NaN".into()), (3.25, "2.5".into())]);
        let expected = [Point { at_s: 1.25, value: 1.0 }, Point { at_s: 3.25, value: 2.5 }];
        assert_eq!((ranges[0].values.len(), values), (3, expected.to_vec()));
        let body =
            r#"{"status":"success","data":{"resultType":"scalar","result":[1795227000.25,"1795227000.25"]}}"#;
        assert!(matches!(client().understand("time()", 200, body), Ok(Data::Scalar(_))));
    }

    fn check(status: u16, body: &str, is_wrong_use: bool, words: &str) {
        let Err(error) = client().understand("up[", status, body) else { panic!("{body} is no error") };
        let text = format!("{error} | {}", error.remedy());
        assert!(text.starts_with("http://127.0.0.1:9: ") && text.contains(words), "{text}");
        assert_eq!(error.is_wrong_use(), is_wrong_use, "{text}");
    }

    #[test]
    fn errors_distinguish_wrong_queries_from_server_failures() {
        let parse = r#"{"status":"error","errorType":"bad_data","error":"1:4: parse error: unclosed"}"#;
        check(400, parse, true, "up[: 1:4: parse error: unclosed | write label matchers");
        let busy = r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#;
        check(503, busy, false, "HTTP status 503: query timed out");
        check(401, "Unauthorized\n", false, "HTTP status 401 | set a valid `token_file`");
        check(200, "<html>\n", false, "the response is not from Prometheus: <html> | use the base URL");
        check(404, "404 page not found\n", false, "HTTP status 404, and the response is not from");
    }

    #[test]
    fn an_unreachable_prometheus_is_named() {
        let error = client().now_s().unwrap_err();
        assert!(error.to_string().starts_with("http://127.0.0.1:9: "), "{error}");
        assert!(!error.is_wrong_use() && error.remedy().contains("this host can reach it"), "{error}");
    }

    #[test]
    fn secrets_come_from_files_with_a_single_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let with = |credentials| {
            let address = PrometheusAddress {
                url: "http://a".into(),
                ca: None,
                insecure: true,
                credentials: Some(credentials),
            };
            Client::new(&address).map(|client| client.authorization.unwrap())
        };
        std::fs::write(&file, "open sesame\n").unwrap();
        assert_eq!(with(Credentials::Token(file.clone())).unwrap(), "Bearer open sesame");
        let password = Credentials::Password { user: "a".into(), file: file.clone() };
        assert_eq!(with(password).unwrap(), format!("Basic {}", STANDARD.encode("a:open sesame")));
        for wrong in ["", "two\nlines"] {
            std::fs::write(&file, wrong).unwrap();
            let error = with(Credentials::Token(file.clone())).unwrap_err();
            assert!(error.is_wrong_use() && error.to_string().contains("secret: the file is not"), "{error}");
        }
        std::fs::remove_file(&file).unwrap();
        assert!(with(Credentials::Token(file)).unwrap_err().to_string().contains("No such file"));
    }

    #[test]
    fn ca_files_must_contain_certificates() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("ca.pem");
        std::fs::write(&file, "no PEM\n").unwrap();
        let address =
            PrometheusAddress { url: "https://a".into(), ca: Some(file), insecure: false, credentials: None };
        let error = Client::new(&address).unwrap_err();
        assert!(
            error.is_wrong_use()
                && error.to_string().contains("ca.pem: the file contains no PEM certificate"),
            "{error}"
        );
    }
}
