//! `weir-gateway reference`: prints the gateway's pages in docs/reference, made from the program's own definitions.

use clap::{CommandFactory as _, ValueEnum};
use weir_config::LogValue;
use weir_dataplane::{Cause, Metric, metrics};
use weir_reference::{Document, Use, commands, page, table};

use crate::Args;

/// If a label has more values than this, the metrics page does not list them.
const VALUES_MAX: usize = 10;

const CONFIGURATION: &str = "\
Look up the type, default and meaning of a field of weir-gateway's configuration. `weir-gateway reference` prints this \
page, and `weir-gateway schema` prints the JSON Schema, for editors. [gateway.md](../gateway.md) lists \
the pages that show how fields work together.

A file is one document, YAML or JSON. Unknown fields are errors.";

const COMMANDS: &str = "\
Look up a command or flag of weir-gateway. `weir-gateway reference cli` prints this page; `weir-gateway --help` and \
`weir-gateway COMMAND --help` print the same in the terminal. [gateway.md](../gateway.md) shows how to start the gateway.";

const METRICS: &str = "\
Look up the type, labels and meaning of a metric of weir-gateway. `weir-gateway reference metrics` prints this page; \
[operations.md](../operations.md) shows which metrics to watch. The [admin \
server](../gateway-logs.md#admin-endpoints) serves the metrics for Prometheus (text format 0.0.4):

```console
$ weir-gateway --config gateway.yaml --admin 127.0.0.1:9901
$ curl -s http://127.0.0.1:9901/metrics
```

- Counters start at 0 with the process and are exact.
- A listener that a reload removes keeps its counters.
- A backend that a reload removes loses its series `weir_upstream_*` and `weir_health_*` once it has no connections and \
requests. Its counters start at 0 if it comes back. Totals without the label `backend` keep the counts of the \
removed backend.
- The label `worker` counts from 0.
- Above 1,000 backends at a time, further backends are counted together as `other`.
- `process_*` are the metrics of Prometheus' client libraries, read at each scrape. A metric that the kernel does not \
report is missing.";

const ACCESS_LOG: &str = "\
Look up a variable for `access_log.format`, or a field of a JSON line. `weir-gateway reference access-log` prints this \
page; [gateway-logs.md](../gateway-logs.md#access-log) shows how to configure the log. A line of JSON, the default format:

```json
{\"time\":\"2026-01-31T12:00:00.000Z\",\"listener\":\"main\",\"client\":\"192.0.2.7\",\"scheme\":\"http\",\"method\":\"GET\",\
\"host\":\"example.com\",\"target\":\"/a?b=c\",\"protocol\":\"HTTP/1.1\",\"status\":200,\"cause\":null,\"bytes_sent\":105,\
\"seconds\":0.001203,\"route\":\"routes[0]\",\"group\":\"api\",\"backend\":\"api\",\"upstream\":\"127.0.0.1:9000\",\
\"upstream_seconds\":0.001127,\"user_agent\":\"curl/8.5.0\",\"request_id\":null,\"trace_id\":null,\"bytes_received\":82,\
\"tls\":null,\"upstream_status\":200,\"upstream_tries\":1,\"client_source\":\"peer\"}
```

- A variable without a value is `null` in JSON and `-` in a text.
- In a text, quotation marks, backslashes and unprintable bytes are written as `\\xHH`; JSON escapes them as usual. So a \
client cannot forge a line.
- If the gateway rejects malformed request headers (400, 408, 414, 417, 431, 501, 505), the line has only the parts \
that parsed. The target (at most 2,048 bytes) and the version are missing if the request line is incomplete. \
If not all headers parsed, `$host`, `$http_NAME` and the client address from trusted proxies are missing. Before you \
block \
an address behind proxies, check that `$remote_addr_source` is `forwarded`.";

/// The meaning of log variables that are named after a request header.
const HEADER: &str = "A request header as the client sent it; `NAME` is the header name in lower case, with `_` for \
`-`. Repeated \
headers are joined with `, ` (`Cookie`: `; `), as in nginx. A header that the gateway drops because of its name has no \
value.";

const CAUSES: &str = "\
Look up why weir-gateway rejected a request, and which setting to change. `weir-gateway reference causes` prints this \
page. [errors.md](../errors.md) shows where to find the cause of an error: the response header `X-Weir-Error`, the response \
body, the access log and `weir_errors_total`.

- *cut*: the response had begun, so the gateway resets the client connection and sends no error response. Such a cause \
is only in the access log and the metric.
- For causes without a status, the gateway never sends a response. These causes are in the metric and the log. If a \
TLS handshake fails, the gateway sends a TLS alert.";

/// A page of the reference.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Page {
    /// Every field of the configuration
    Configuration,
    /// Every command and flag
    Cli,
    /// Every metric
    Metrics,
    /// Every variable of the access log
    AccessLog,
    /// Every cause of an error
    Causes,
}

impl Page {
    pub(crate) fn to_markdown(self) -> String {
        match self {
            Page::Configuration => configuration(),
            Page::Cli => commands("Commands and flags of weir-gateway", COMMANDS, Args::command()),
            Page::Metrics => page("Metrics of weir-gateway", METRICS, &metrics_table()),
            Page::AccessLog => page("Access log variables", ACCESS_LOG, &access_log_table()),
            Page::Causes => page("Causes of errors", CAUSES, &causes_table()),
        }
    }
}

fn configuration() -> String {
    Document {
        title: "Fields of weir-gateway's configuration",
        introduction: CONFIGURATION,
        schema: &weir_config::schema(),
        forms: &weir_config::FORMS,
        use_of: Use::Read,
    }
    .to_markdown()
}

fn metrics_table() -> String {
    let row = |metric: Metric| {
        let labels: Vec<String> = metric.labels.iter().map(|(name, values)| label(name, values)).collect();
        vec![format!("`{}`", metric.name), metric.kind, labels.join(", "), metric.help]
    };
    table(&["metric", "type", "labels", "meaning"], metrics().into_iter().map(row))
}

fn label(name: &str, values: &[String]) -> String {
    match values.len() {
        0 => format!("`{name}`"),
        1..=VALUES_MAX => format!("`{name}` (`{}`)", values.join("`, `")),
        _ => format!("[`{name}`](causes.md)"),
    }
}

fn access_log_table() -> String {
    let row = |name: &str, value: &str, meaning: &str| {
        let field = LogValue::json_field(value).map(|field| format!("`{field}`"));
        vec![format!("`${name}`"), field.unwrap_or_default(), meaning.to_owned()]
    };
    let named = LogValue::NAMED.iter().map(|(name, _, meaning)| row(name, name, meaning));
    let header = row("http_NAME", "http_user_agent", HEADER);
    table(&["variable", "field in JSON", "meaning"], named.chain([header]))
}

fn causes_table() -> String {
    let status = |cause: &Cause| cause.has_response().then(|| cause.status());
    let mut causes = Cause::ALL.to_vec();
    // Causes without a status come last.
    causes.sort_by_key(|cause| status(cause).unwrap_or(u16::MAX));
    let row = |cause: Cause| {
        let status = status(&cause).map(|status| status.to_string()).unwrap_or_default();
        vec![status, format!("`{}`", cause.name()), cause.text().to_owned(), cause.meaning().to_owned()]
    };
    let head =
        ["status", "cause", "text in the response, or in the log if there is no status", "what happened"];
    table(&head, causes.into_iter().map(row))
}
