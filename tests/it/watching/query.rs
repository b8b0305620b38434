//! Queries of a Prometheus.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::Value;

use super::boards::Query;

/// A client of a Prometheus.
pub struct Answers(SocketAddr);

impl Answers {
    pub fn of(address: SocketAddr) -> Self {
        Self(address)
    }

    fn ask(&self, path: &str) -> Value {
        let body = self.get(path);
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {body}"));
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["data"].clone()
    }

    /// Sends a GET over HTTP/1.0, so that the response has no chunked body. Chunk lengths would end up in the JSON.
    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(self.0).unwrap();
        write!(stream, "GET {path} HTTP/1.0\r\nHost: test\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Time of the Prometheus in Unix seconds.
    pub fn now_s(&self) -> f64 {
        let answer = self.ask("/api/v1/query?query=time()");
        answer["result"][1].as_str().unwrap().parse().unwrap()
    }

    /// The series that an instant query returns now.
    pub fn vector(&self, query: &str) -> Vec<Value> {
        self.ask(&format!("/api/v1/query?query={}", encoded(query)))["result"].as_array().unwrap().clone()
    }

    /// The latest value in the last 15 minutes. The selector must match at most one series.
    pub fn last(&self, selector: &str) -> Option<f64> {
        let found = self.vector(&format!("last_over_time({selector}[15m])"));
        assert!(found.len() <= 1, "{selector}: {found:?}");
        found.first().map(|series| series["value"][1].as_str().unwrap().parse().unwrap())
    }

    /// The count of the latest histogram in the last 15 minutes. The selector must match at most one series.
    pub fn last_histogram(&self, selector: &str) -> Option<u64> {
        let found = self.vector(&format!("{selector}[15m]"));
        assert!(found.len() <= 1, "{selector}: {found:?}");
        let last = found.first()?["histograms"].as_array()?.last()?;
        Some(last[1]["count"].as_str().unwrap().parse().unwrap())
    }

    /// Whether a query returns a number. An instant query is for the current time, a range query for the time since
    /// `begun_s`.
    pub fn has_data(&self, query: &Query, begun_s: f64) -> bool {
        query.expressions.iter().any(|expression| self.finds(expression, query.is_instant, begun_s))
    }

    fn finds(&self, expression: &str, is_instant: bool, begun_s: f64) -> bool {
        let expression = encoded(expression);
        let found = match is_instant {
            true => self.ask(&format!("/api/v1/query?query={expression}")),
            false => {
                let (start, end) = (begun_s - 5.0, self.now_s());
                self.ask(&format!("/api/v1/query_range?query={expression}&start={start}&end={end}&step=1"))
            }
        };
        found["result"].as_array().unwrap().iter().any(has_number)
    }

    /// (Health, last error) of each rule, by name.
    pub fn rules(&self) -> BTreeMap<String, (String, String)> {
        let groups = self.ask("/api/v1/rules")["groups"].clone();
        let rules = groups.as_array().unwrap().iter().flat_map(|group| group["rules"].as_array().unwrap());
        let words = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        rules
            .map(|rule| (words(&rule["name"]), (words(&rule["health"]), words(&rule["lastError"]))))
            .collect()
    }
}

/// Whether a series has a histogram, or a value other than NaN.
fn has_number(series: &Value) -> bool {
    let value = |sample: &Value| sample[1].as_str().is_some_and(|value| value != "NaN");
    let has = |field: &str| !series[field].is_null();
    has("histograms")
        || has("histogram")
        || value(&series["value"])
        || series["values"].as_array().is_some_and(|values| values.iter().any(value))
}

fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' => encoded.push(char::from(byte)),
            // Writing to a string cannot fail.
            byte => std::fmt::Write::write_fmt(&mut encoded, format_args!("%{byte:02X}")).unwrap(),
        }
    }
    encoded
}
