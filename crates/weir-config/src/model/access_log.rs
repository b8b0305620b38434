//! Configuration of the access log and of metrics, and the compiled format of a log line.
//!
//! A line is a list of pieces: fixed texts and values. The format is parsed once, when a configuration takes effect.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_document::{Problem, Share, nearest};

use crate::problem::no_file;

/// Maximum number of suggested names in the error for an unknown value.
const NEAR_MOST: usize = 4;
/// Minimum length of a word in an unknown name, in bytes. The search for similar names ignores shorter words.
const WORD_LEAST: usize = 3;

/// Optional metrics.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Metrics {
    /// Request latency (`weir_request_duration_seconds`), as a histogram of 23 series per listener, `metrics_group` and
    /// backend. If true, the gateway reads the clock twice per request.
    pub latency: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics { latency: true }
    }
}

/// One log line per request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AccessLog {
    /// File to append to, relative to the directory of the configuration. A missing file is created with mode 0640. A
    /// named pipe must have a reader when the gateway opens it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1), example = "access.log", extend("x-default" = "standard output"))]
    pub file: Option<String>,
    /// `json`, or a text in which `$NAME` or `${NAME}` is replaced with a value and `$$` with a dollar sign. For
    /// nginx's `combined` format, write
    /// `$remote_addr - - [$time_local] "$request" $status $bytes_sent "$http_referer" "$http_user_agent"`.
    pub format: String,
    /// Share of requests to log, 0 to 100 %, evenly spread. Failed requests are always logged.
    pub sample: Share,
}

impl Default for AccessLog {
    fn default() -> Self {
        AccessLog { file: None, format: "json".to_owned(), sample: Share(1.0) }
    }
}

/// The parsed format of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// Fixed texts and values in order, without the line break.
    pub pieces: Vec<LogPiece>,
    /// How values are written in this line.
    pub style: LogStyle,
}

/// How values are written in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStyle {
    /// As JSON: numbers as numbers, all other values as strings, missing values as `null`.
    Json,
    /// As plain text, `-` if there is no value. Quotation marks, backslashes and unprintable bytes are written as
    /// `\xHH`.
    Plain,
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPiece {
    /// A fixed text.
    Text(String),
    /// A value of the request, inserted when the line is written.
    Value(LogValue),
}

macro_rules! log_values {
    ($($variant:ident $name:literal $text:literal;)*) => {
        /// A value of a request that a line can contain.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum LogValue {
            $(#[doc = $text] $variant,)*
            /// A request header field, by its name in lower case.
            Field(String),
        }

        impl LogValue {
            /// All values except `Field`, each with its name and its meaning.
            pub const NAMED: &[(&str, LogValue, &str)] = &[$(($name, LogValue::$variant, $text),)*];
        }
    };
}

log_values! {
    Time "time_iso8601" "Time at the end of the request, in UTC, with milliseconds.";
    TimeLocal "time_local" "Time at the end of the request in nginx's format, always UTC.";
    Seconds "msec" "Time at the end of the request in seconds since 1970, with milliseconds.";
    Listener "listener" "Name of the listener.";
    RemoteAddress "remote_addr" "Address of the client; behind proxies it depends on `forwarding.trusted_hops`.";
    RemoteAddressSource "remote_addr_source" "Source of `$remote_addr`: `forwarded` (a trusted proxy reports it) or \
    `peer` (the other end of the connection).";
    PeerAddress "peer_addr" "Address and port of the other end of the connection.";
    Scheme "scheme" "`http` or `https`.";
    Request "request" "Method, target and version as the client sent them; for a malformed request, the parts that parsed.";
    Method "request_method" "Request method.";
    Target "request_uri" "Path and query as the client sent them.";
    Host "host" "The requested host.";
    Protocol "server_protocol" "HTTP version, like HTTP/1.1.";
    Status "status" "Status sent to the client; empty if there was no response.";
    Cause "cause" "Cause of the error, as in X-Weir-Error.";
    BytesSent "bytes_sent" "Bytes sent to the client, with headers and framing; for a tunnel only the headers.";
    Duration "request_time" "Seconds from complete request headers to the end of the response.";
    Route "route" "Key of the route, such as `routes[3]`; with manifests: kind, name and rule.";
    Group "group" "Group in metrics.";
    Backend "backend" "Name of the backend.";
    Upstream "upstream_addr" "The endpoint of the last attempt.";
    UpstreamSeconds "upstream_response_time" "Seconds from complete request headers to upstream response headers.";
    RequestId "request_id" "Request ID, if `forwarding.request_id` is on.";
    TraceId "trace_id" "Trace ID, if `forwarding.trace` is on.";
    RequestLength "request_length" "Bytes of the request that the gateway read: headers and body, with framing.";
    SslProtocol "ssl_protocol" "`TLSv1.2` or `TLSv1.3`; empty for plain HTTP.";
    UpstreamStatus "upstream_status" "Status of the last upstream response, forwarded or not.";
    UpstreamTries "upstream_tries" "Number of upstream attempts.";
}

/// The fields of a JSON line, in order, each with the name of its value.
const JSON_FIELDS: [(&str, &str); 25] = [
    ("time", "time_iso8601"),
    ("listener", "listener"),
    ("client", "remote_addr"),
    ("scheme", "scheme"),
    ("method", "request_method"),
    ("host", "host"),
    ("target", "request_uri"),
    ("protocol", "server_protocol"),
    ("status", "status"),
    ("cause", "cause"),
    ("bytes_sent", "bytes_sent"),
    ("seconds", "request_time"),
    ("route", "route"),
    ("group", "group"),
    ("backend", "backend"),
    ("upstream", "upstream_addr"),
    ("upstream_seconds", "upstream_response_time"),
    ("user_agent", "http_user_agent"),
    ("request_id", "request_id"),
    ("trace_id", "trace_id"),
    ("bytes_received", "request_length"),
    ("tls", "ssl_protocol"),
    ("upstream_status", "upstream_status"),
    ("upstream_tries", "upstream_tries"),
    ("client_source", "remote_addr_source"),
];

impl LogValue {
    /// The value called `name`, such as `status`. `http_x_a` is the request header `x-a`.
    fn named(name: &str) -> Option<LogValue> {
        match name.strip_prefix("http_") {
            Some(field) if !field.is_empty() => Some(LogValue::Field(field.replace('_', "-"))),
            _ => Self::NAMED.iter().find(|(known, ..)| *known == name).map(|(_, value, _)| value.clone()),
        }
    }

    /// The name of the JSON field for the value `name`.
    pub fn json_field(name: &str) -> Option<&'static str> {
        JSON_FIELDS.iter().find(|(_, value)| *value == name).map(|(field, _)| *field)
    }

    /// Whether the value comes from the request headers, which are freed once the request is forwarded.
    pub fn is_of_head(&self) -> bool {
        use LogValue::{Field, Host, Method, Protocol, Request, Target};
        matches!(self, Request | Method | Target | Host | Protocol | Field(_))
    }
}

impl AccessLog {
    /// The settings with the parsed format; `None` if the format is invalid.
    pub(crate) fn with_line(&self) -> Option<(AccessLog, LogLine)> {
        Some((self.clone(), self.line().ok()?))
    }

    /// Parses `format`.
    pub(crate) fn line(&self) -> Result<LogLine, Problem> {
        match self.format.as_str() {
            "json" => Ok(LogLine { pieces: json_pieces(), style: LogStyle::Json }),
            template => Ok(LogLine { pieces: template_pieces(template)?, style: LogStyle::Plain }),
        }
    }
}

fn json_pieces() -> Vec<LogPiece> {
    let mut pieces = Vec::new();
    for (index, (field, name)) in JSON_FIELDS.iter().enumerate() {
        let start = if index == 0 { '{' } else { ',' };
        pieces.push(LogPiece::Text(format!("{start}\"{field}\":")));
        pieces.extend(LogValue::named(name).map(LogPiece::Value));
    }
    pieces.push(LogPiece::Text("}".to_owned()));
    pieces
}

fn template_pieces(template: &str) -> Result<Vec<LogPiece>, Problem> {
    const PLACE: &str = "access_log.format";
    if template.chars().any(char::is_control) {
        return Err(Problem::of(PLACE, "the format contains a line break or another control character")
            .help("write the format on one line; the gateway adds the line break"));
    }
    let (mut pieces, mut text, mut rest) = (Vec::new(), String::new(), template);
    while let Some((before, rest_of_text)) = rest.split_once('$') {
        text.push_str(before);
        if let Some(after) = rest_of_text.strip_prefix('$') {
            text.push('$');
            rest = after;
            continue;
        }
        if !text.is_empty() {
            pieces.push(LogPiece::Text(std::mem::take(&mut text)));
        }
        let (name, after) = split_name(rest_of_text);
        let Some(value) = LogValue::named(name) else {
            return Err(unknown_value(PLACE, name));
        };
        pieces.push(LogPiece::Value(value));
        rest = after;
    }
    if pieces.is_empty() {
        return Err(Problem::of(PLACE, format!("`{template}` contains no variable such as `$status`"))
            .help("write `json`, or a text with variables such as `$remote_addr $status`"));
    }
    text.push_str(rest);
    if !text.is_empty() {
        pieces.push(LogPiece::Text(text));
    }
    Ok(pieces)
}

/// The name at the start of `text`, with or without braces, and the rest.
fn split_name(text: &str) -> (&str, &str) {
    if let Some((name, rest)) = text.strip_prefix('{').and_then(|text| text.split_once('}')) {
        return (name, rest);
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    text.split_at(end)
}

fn unknown_value(place: &str, name: &str) -> Problem {
    let problem = Problem::of(place, format!("unknown variable `${}`", name.escape_debug()));
    if name.is_empty() {
        return problem.help("write `$$` for a dollar sign, or `$NAME` for a variable");
    }
    let list = |names: &[&str], mark: &str| {
        names.iter().map(|known| format!("{mark}${known}{mark}")).collect::<Vec<_>>().join(", ")
    };
    match near(name).as_slice() {
        [] => {
            let all: Vec<&str> = LogValue::NAMED.iter().map(|(known, ..)| *known).collect();
            problem.help(format!("known variables: {}, and $http_NAME for request headers", list(&all, "")))
        }
        near => problem.help(format!("did you mean {}?", list(near, "`"))),
    }
}

/// Suggestions for the unknown value `name`, the most likely first: the closest spelling, then names that share words
/// with it. A shared first word counts twice.
fn near(name: &str) -> Vec<&'static str> {
    let names = || LogValue::NAMED.iter().map(|(known, ..)| *known);
    let words: Vec<&str> = name.split('_').filter(|word| word.len() >= WORD_LEAST).collect();
    let in_common = |known: &str| {
        let begins_alike = known.split('_').next() == words.first().copied();
        usize::from(begins_alike) + known.split('_').filter(|word| words.contains(word)).count()
    };
    let nearest = nearest(name, names());
    let mut alike: Vec<&str> =
        names().filter(|known| in_common(known) > 0 && Some(*known) != nearest).collect();
    alike.sort_by_key(|known| std::cmp::Reverse(in_common(known)));
    nearest.into_iter().chain(alike).take(NEAR_MOST).collect()
}

/// Validates `access_log`.
pub(crate) fn check(log: &AccessLog) -> Result<(), Problem> {
    if log.file.as_deref() == Some("") {
        return Err(no_file("access_log.file"));
    }
    log.line().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(format: &str) -> Result<LogLine, Problem> {
        AccessLog { format: format.to_owned(), ..AccessLog::default() }.line()
    }

    #[test]
    fn parses_a_format_into_pieces() {
        let text = |text: &str| LogPiece::Text(text.to_owned());
        let value = LogPiece::Value;
        assert_eq!(
            line("[$time_local] ${status}s $http_x_a").unwrap().pieces,
            [
                text("["),
                value(LogValue::TimeLocal),
                text("] "),
                value(LogValue::Status),
                text("s "),
                value(LogValue::Field("x-a".to_owned())),
            ]
        );
        assert_eq!(line("$request").unwrap().pieces, [value(LogValue::Request)]);
        let dollars = [text("$a $"), value(LogValue::Status), text("$")];
        assert_eq!(line("$$a $$$status$$").unwrap().pieces, dollars);
    }

    #[test]
    fn rejects_invalid_formats_with_the_nearest_name() {
        let check = |format: &str, message: &str, remedy: &str| {
            let problem = line(format).unwrap_err();
            assert_eq!(problem.message, message);
            assert!(problem.remedy.starts_with(remedy), "{format}");
        };
        check("$statuss", "unknown variable `$statuss`", "did you mean `$status`?");
        check("100 $", "unknown variable `$`", "write `$$` for a dollar");
        check("$http_", "unknown variable `$http_`", "known variables: $time_iso8601, ");
        let near = "did you mean `$bytes_sent`?";
        check("$body_bytes_sent", "unknown variable `$body_bytes_sent`", near);
        let near = "did you mean `$upstream_response_time`, `$upstream_addr`, `$upstream_status`, `$upstream_tries`?";
        check("$upstream_connect_time", "unknown variable `$upstream_connect_time`", near);
        check("$$", "`$$` contains no variable such as `$status`", "write `json`");
        check("common", "`common` contains no variable such as `$status`", "write `json`");
        check(
            "$status\n",
            "the format contains a line break or another control character",
            "write the format on one line",
        );
        assert_eq!(
            super::check(&AccessLog { file: Some(String::new()), ..AccessLog::default() }).unwrap_err().place,
            "access_log.file"
        );
    }

    #[test]
    fn every_json_field_has_a_value() {
        let LogLine { pieces, style } = line("json").unwrap();
        assert_eq!((pieces.len(), style), (2 * JSON_FIELDS.len() + 1, LogStyle::Json));
        for (name, value, _) in LogValue::NAMED {
            assert_eq!(LogValue::named(name).as_ref(), Some(value));
        }
    }
}
