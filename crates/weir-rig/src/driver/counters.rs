//! The request counters of gateways.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;

use super::form::{CountersFile, KindsFile, Parser};
use crate::launch::reach;
use crate::{Credentials, Namespace, RigError, http};

/// Timeout to read the counters. Envoy takes seconds to print the statistics of a hundred thousand routes.
const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// Where and how to read the counters of a gateway.
#[derive(Clone, Debug)]
pub struct CounterSource {
    source: Option<Source>,
}

#[derive(Clone, Debug)]
struct Source {
    address: SocketAddr,
    /// The network namespace of `address`; `None` is the host.
    namespace: Option<Namespace>,
    path: String,
    parser: Parser,
    /// Number of times that weir has read the counters, if the gateway counts these reads as requests; otherwise
    /// `None`.
    own_polls: Option<Arc<AtomicU64>>,
    restarts_on_apply: bool,
    /// Credentials for reading the counters.
    credentials: Credentials,
    /// The Host header, and the TLS server name.
    host: String,
    /// A label and some of its values. weir counts requests for each of these values, in addition to the total.
    by: Option<KindsFile>,
}

/// The counters of a part since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// The requests that the part received, without the requests that weir sent to read the counters.
    pub requests: u64,
    /// Requests per kind, that is per value of the label that the driver configures; empty without such a label.
    pub by: BTreeMap<String, u64>,
}

impl CounterSource {
    /// The source for a gateway without counters.
    pub(crate) fn none() -> Self {
        Self { source: None }
    }

    /// The source for a part that returns JSON at the URL path `path`. In this JSON, `pointer` (RFC 6901) points to the
    /// number of requests. The part must not count the requests that weir sends to read this JSON.
    pub fn json(address: SocketAddr, path: &str, pointer: &str) -> Self {
        let parser = Parser::Json { pointer: pointer.into() };
        Self { source: Some(Source::new(address, path.into(), parser, None)) }
    }

    pub(crate) fn new(address: SocketAddr, file: &CountersFile) -> Self {
        let own_polls = file.counts_own_polls.then(Arc::default);
        let (path, parser) = (file.path.clone(), file.parser.clone());
        let source = Source::new(address, path, parser, own_polls);
        let (restarts_on_apply, by) = (file.restarts_on_apply, file.by.clone());
        Self { source: Some(Source { restarts_on_apply, by, ..source }) }
    }

    /// Reads the counters from within `namespace`; `None` is the host.
    #[must_use]
    pub fn within(mut self, namespace: Option<&Namespace>) -> Self {
        if let Some(source) = &mut self.source {
            source.namespace = namespace.cloned();
        }
        self
    }

    /// Replaces the IP of the counters' address with `ip` if it is unspecified (`0.0.0.0`, `::`).
    #[must_use]
    pub fn reached_at(mut self, ip: IpAddr) -> Self {
        if let Some(source) = &mut self.source {
            let is_named = source.host == source.address.to_string();
            reach(&mut source.address, ip);
            if is_named {
                source.host = source.address.to_string();
            }
        }
        self
    }

    /// Whether a change of the topology resets the counters.
    pub fn restarts_on_apply(&self) -> bool {
        self.source.as_ref().is_some_and(|source| source.restarts_on_apply)
    }

    /// Reads the counters with `credentials`. The server's certificate must be valid for `host`.
    #[must_use]
    pub fn secured(mut self, credentials: &Credentials, host: &str) -> Self {
        if let Some(source) = &mut self.source {
            source.credentials = credentials.clone();
            source.host = host.to_owned();
        }
        self
    }

    /// Reads how many requests the gateway has received since its start, without the requests that weir sent to read
    /// the counters. `None` if the gateway has no counters.
    ///
    /// # Errors
    /// [`RigError::Counters`] if the counters cannot be read or are missing.
    pub fn read(&self) -> Result<Option<u64>, RigError> {
        Ok(self.read_all()?.map(|counted| counted.requests))
    }

    /// As [`CounterSource::read`], and also reads the requests per kind.
    ///
    /// # Errors
    /// As [`CounterSource::read`].
    pub fn read_all(&self) -> Result<Option<Counted>, RigError> {
        let Some(source) = &self.source else { return Ok(None) };
        let scheme = if source.credentials.certificates.is_some() { "https" } else { "http" };
        let place = format!("{scheme}://{}{}", source.address, source.path);
        let failed = |message: String| RigError::Counters { place: place.clone(), message };
        let Source { credentials, address, namespace, host, path, .. } = source;
        let answer = http::get_with(credentials, namespace.as_ref(), *address, host, path, READ_TIMEOUT)
            .map_err(|error| failed(error.to_string()))?;
        let polls = source.own_polls.as_ref().map_or(0, |polls| polls.fetch_add(1, Ordering::Relaxed) + 1);
        if answer.status != 200 {
            return Err(failed(format!("status {}", answer.status)));
        }
        let counted = source.parser.read(&answer.body).map_err(failed)?;
        let by = source.by.as_ref().map(|by| source.parser.read_by(&answer.body, by)).unwrap_or_default();
        Ok(Some(Counted { requests: counted.saturating_sub(polls), by }))
    }
}

impl Source {
    fn new(address: SocketAddr, path: String, parser: Parser, own_polls: Option<Arc<AtomicU64>>) -> Self {
        let (credentials, host) = (Credentials::default(), address.to_string());
        let (restarts_on_apply, by) = (false, None);
        Self { address, namespace: None, path, parser, own_polls, restarts_on_apply, credentials, host, by }
    }
}

impl Parser {
    /// The number of requests per kind, summed over all series of the metric; empty for parsers without labels.
    fn read_by(&self, text: &str, kinds: &KindsFile) -> BTreeMap<String, u64> {
        let Self::Prometheus { metric, .. } = self else { return BTreeMap::new() };
        let mut sums: BTreeMap<String, u64> = BTreeMap::new();
        for line in text.lines() {
            let Some(line) = MetricLine::of(line).filter(|line| line.metric == metric) else { continue };
            let Some(value) = line.value() else { continue };
            let kind = line.label(&kinds.label);
            if let Some(kind) = kinds.values.iter().find(|known| Some(known.as_str()) == kind) {
                *sums.entry(kind.clone()).or_default() += value as u64;
            }
        }
        sums
    }

    fn read(&self, text: &str) -> Result<u64, String> {
        match self {
            Self::Prometheus { metric, labels, appears_later } => {
                let lines = text.lines().filter_map(MetricLine::of);
                let lines = lines.filter(|line| line.metric == metric && line.has(labels));
                let series: Vec<f64> = lines.filter_map(|line| line.value()).collect();
                match (series.is_empty() && !appears_later, labels.is_empty()) {
                    (true, true) => Err(format!("the response has no series of {metric}")),
                    (true, false) => {
                        Err(format!("the response has no series of {metric} with the labels in `counters`"))
                    }
                    (false, _) => Ok(series.iter().sum::<f64>() as u64),
                }
            }
            Self::StubStatus => {
                stub_status(text).ok_or_else(|| "the response is not a stub_status page".into())
            }
            Self::HaproxyCsv { proxy, field } => haproxy_csv(text, proxy, field).ok_or_else(|| {
                format!("the CSV has no number in column {field} of the FRONTEND row of {proxy}")
            }),
            Self::Json { pointer } => serde_json::from_str::<Value>(text)
                .map_err(|error| error.to_string())?
                .pointer(pointer)
                .and_then(Value::as_u64)
                .ok_or_else(|| format!("the response has no number at {pointer}")),
        }
    }
}

/// A line `metric{name="value",..} number timestamp` of Prometheus's text format. Label values are not decoded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MetricLine<'t> {
    /// The name of the metric.
    pub(crate) metric: &'t str,
    /// The labels, without braces.
    labels: &'t str,
    /// Value and timestamp.
    rest: &'t str,
}

impl<'t> MetricLine<'t> {
    /// Parses `line`; `None` if it has no value. A comment becomes a metric with the name `#`, which is never the name
    /// of a real metric.
    pub(crate) fn of(line: &'t str) -> Option<Self> {
        let (metric, rest) = line.split_at(line.find(['{', ' '])?);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => rest.rsplit_once('}')?,
            None => ("", rest),
        };
        Some(Self { metric, labels, rest })
    }

    /// The value of the series; `None` if it is not a number.
    pub(crate) fn value(&self) -> Option<f64> {
        self.rest.split_whitespace().next()?.parse().ok()
    }

    /// The time of the sample, milliseconds since the Unix epoch; `None` if the line has none.
    pub(crate) fn timestamp_ms(&self) -> Option<i64> {
        self.rest.split_whitespace().nth(1)?.parse().ok()
    }

    /// The value of the label `name`; `None` if the line does not have this label.
    pub(crate) fn label(&self, name: &str) -> Option<&'t str> {
        let start = format!("{name}=\"");
        let mut found = self.labels.match_indices(&start);
        let (at, _) = found.find(|(at, _)| *at == 0 || self.labels[..*at].ends_with(','))?;
        self.labels[at + start.len()..].split_once('"').map(|(value, _)| value)
    }

    /// Whether the line has all of `labels`, with the same values.
    fn has(&self, labels: &BTreeMap<String, String>) -> bool {
        let set = format!(",{}", self.labels);
        labels.iter().all(|(name, value)| set.contains(&format!(",{name}=\"{value}\"")))
    }
}

/// Parses nginx's `stub_status`: a line `server accepts handled requests`, then a line with these three numbers.
fn stub_status(text: &str) -> Option<u64> {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("server accepts handled requests"));
    lines.nth(1)?.split_whitespace().nth(2)?.parse().ok()
}

fn haproxy_csv(text: &str, proxy: &str, field: &str) -> Option<u64> {
    let mut lines = text.lines();
    let column = lines.next()?.trim_start_matches("# ").split(',').position(|name| name == field)?;
    let row = lines
        .map(|line| line.split(',').collect::<Vec<_>>())
        .find(|row| row.starts_with(&[proxy, "FRONTEND"]))?;
    row.get(column)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parser: &Parser, text: &str, expected: Option<u64>) {
        assert_eq!(parser.read(text).ok(), expected, "{text}");
    }

    #[test]
    fn prometheus_text_is_summed_over_the_series_with_the_labels() {
        let labels = [("listener".to_owned(), "data".to_owned())];
        let parser =
            Parser::Prometheus { metric: "rq_total".into(), labels: labels.into(), appears_later: false };
        let text = "# TYPE rq_total counter\nrq_total{listener=\"data\",class=\"2\"} 40\n\
                    rq_total{class=\"4\",listener=\"data\"} 2\nrq_total{listener=\"admin\"} 7\n\
                    rq_total_sum{listener=\"data\"} 9\n";
        check(&parser, text, Some(42));
        check(&parser, "rq_total 5\n", None);
        let plain = Parser::Prometheus { metric: "rq_total".into(), labels: [].into(), appears_later: false };
        check(&plain, "rq_total 5 1700000000\n", Some(5));
        check(&plain, "", None);
        let later = Parser::Prometheus { metric: "rq_total".into(), labels: [].into(), appears_later: true };
        check(&later, "", Some(0));
        check(&later, "rq_total 5\n", Some(5));
    }

    #[test]
    fn prometheus_text_is_summed_by_a_label() {
        let parser =
            Parser::Prometheus { metric: "rq_total".into(), labels: [].into(), appears_later: false };
        let text = "rq_total{verb=\"GET\",resource=\"pods\"} 40\nrq_total{resource=\"pods\",verb=\"PUT\"} 2\n\
                    rq_total{resource=\"\",verb=\"GET\"} 7\nrq_total{subresource=\"pods\"} 9\nother{resource=\"a\"} 1\n\
                    rq_total{resource=\"tokens\"} 3\n";
        let values = ["pods", "tokens", "none"].map(str::to_owned).to_vec();
        let kinds = KindsFile { label: "resource".into(), values };
        let expected = [("pods".to_owned(), 42), ("tokens".to_owned(), 3)];
        assert_eq!(parser.read_by(text, &kinds), expected.into());
        assert!(Parser::StubStatus.read_by(text, &kinds).is_empty());
    }

    #[test]
    fn stub_status_returns_the_third_number() {
        let text =
            "Active connections: 2 \nserver accepts handled requests\n 31 31 72 \nReading: 0 Writing: 1\n";
        check(&Parser::StubStatus, text, Some(72));
        check(&Parser::StubStatus, "server accepts handled requests\n 31 31\n", None);
        check(&Parser::StubStatus, "<html>", None);
    }

    #[test]
    fn haproxy_csv_is_read_by_column_and_row() {
        let parser = Parser::HaproxyCsv { proxy: "data".into(), field: "req_tot".into() };
        let head = "# pxname,svname,scur,req_tot,\n";
        check(
            &parser,
            &format!("{head}data,BACKEND,0,3,\nadmin,FRONTEND,0,9,\ndata,FRONTEND,0,5,\n"),
            Some(5),
        );
        check(&parser, &format!("{head}data,BACKEND,0,3,\n"), None);
        check(&parser, "# pxname,svname\ndata,FRONTEND\n", None);
        check(&parser, "", None);
    }

    #[test]
    fn json_is_read_by_its_pointer() {
        let parser = Parser::Json { pointer: "/requests".into() };
        check(&parser, r#"{"requests": 12, "by_status": {}}"#, Some(12));
        check(&parser, r#"{"requests": "12"}"#, None);
        check(&parser, "{", None);
    }
}
