//! The command line of `weir load`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ArgAction;
use weir_document::{Burst, Counts, Pause, Rates, Time};
use weir_engine::{Check, Resumption, TlsVersion};
use weir_lab::agents::Place;

use crate::cmd::watch::WatchArgs;

/// The help shows the description, the usage, the flags and the examples. Arguments without a flag appear only in the
/// usage.
const TEMPLATE: &str = "{about}\n{usage-heading} {usage}\n\n{all-args}{after-help}";
const EXAMPLES: &str = "\
Closed: weir load http://127.0.0.1:8080/ -c 64   Open: weir load https://example.com/ -r 1000/s
Exit codes: 0 done; 1 no response, or --strict and not valid; 2 wrong use; 3 environment; 130 ^C";

/// Arguments of `weir load`.
// Each flag about the load has a field in the scenario. The doc comment of the field names the flag; a test checks
// this.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "weir load URL [URL..] [FLAGS]; a URL may be unix:/SOCKET[:/PATH]",
    help_template = TEMPLATE,
    after_help = EXAMPLES,
    disable_help_flag = true,
    disable_version_flag = true
)]
pub(crate) struct Args {
    /// Target: http[s]://HOST[:PORT]/PATH, or unix:/SOCKET[:/PATH]; several URLs of one host get equal shares
    #[arg(required = true, value_name = "URL", hide = true)]
    pub(super) urls: Vec<String>,
    #[command(flatten, next_help_heading = "Load")]
    pub(super) shape: ShapeArgs,
    #[command(
        flatten,
        next_help_heading = "Requests (placeholders for URL, headers, body: {1..50} {seq} {uuid} {domain} {pick:FILE})"
    )]
    pub(super) requests: RequestArgs,
    #[command(flatten, next_help_heading = "Connections")]
    pub(super) connections: ConnectionArgs,
    #[command(flatten, next_help_heading = "TLS (https://)")]
    pub(super) tls: TlsArgs,
    #[command(flatten, next_help_heading = "Running")]
    pub(super) running: RunningArgs,
    #[command(flatten, next_help_heading = "Watching")]
    pub(super) watch: WatchArgs,
}

/// Amount and timing of the load.
#[derive(Debug, clap::Args)]
pub(crate) struct ShapeArgs {
    /// Connections: N, ramp 1..60, steps 1..60..5 or 1,10,60 [default: 32]
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true)]
    pub(super) connections: Option<Counts>,
    /// Open loop: 5/s, ramp 1/s..9/s, steps 1/s..9/s..4/s or 1/s,5/s,9/s
    #[arg(short = 'r', long, value_name = "RATE")]
    pub(super) rate: Option<Rates>,
    /// Duration of the measurement, or of each step [default: 10s]
    #[arg(short = 'd', long, value_name = "TIME", conflicts_with = "requests")]
    pub(super) duration: Option<Time>,
    /// Number of requests, in total or per step, instead of --duration
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    pub(super) requests: Option<u64>,
    /// Open loop: send at even intervals instead of Poisson arrivals
    #[arg(long, requires = "rate")]
    pub(super) even: bool,
    /// Open loop: 5000/s:200ms/1s sends 5000/s for 200 ms per second, else --rate
    #[arg(long, value_name = "BURST", requires = "rate")]
    pub(super) burst: Option<Burst>,
    /// Closed loop: pause after each response; exp:20ms draws random pauses
    #[arg(long, value_name = "TIME", conflicts_with = "rate")]
    pub(super) think: Option<Pause>,
    /// Warm-up before the measurement
    #[arg(long, default_value = "0s", value_name = "TIME")]
    pub(super) warmup: Time,
    /// Request time-out, from the intended send time
    #[arg(long, default_value = "10s", value_name = "TIME")]
    pub(super) timeout: Time,
}

/// The requests.
#[derive(Debug, clap::Args)]
pub(crate) struct RequestArgs {
    /// Header field; Host overrides the host of the URL
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(super) headers: Vec<String>,
    /// Request method [default: GET, or POST if there is a body]
    #[arg(short = 'X', long = "method", value_name = "METHOD")]
    pub(super) method: Option<String>,
    /// Request body, or @FILE
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(super) body: Option<String>,
    /// Requests from a file: URLs or paths, JSON lines, HAR
    #[arg(short = 'f', long, value_name = "FILE")]
    pub(super) file: Option<PathBuf>,
    /// Draw requests of a HAR at random [default: replay them in order]
    #[arg(long, requires = "file")]
    pub(super) shuffle: bool,
    /// File of bearer tokens, one per line, used in turn
    #[arg(long, value_name = "FILE")]
    pub(super) tokens: Option<PathBuf>,
    /// Host name for Host, {domain} and SNI; repeatable, used in turn
    #[arg(long = "domain", value_name = "NAME")]
    pub(super) domains: Vec<String>,
    /// Check responses: status=2xx, 'header=Name: text', length=64, body=text
    #[arg(long = "check", value_name = "CHECK")]
    pub(super) checks: Vec<Check>,
    /// Label of the requests in the results [default: method and path]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
}

/// Connections.
#[derive(Debug, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// HTTP/2: by ALPN with https://, else by prior knowledge
    #[arg(long)]
    pub(super) http2: bool,
    /// HTTP/2 with N requests in flight on a connection [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) streams: Option<u32>,
    /// Reconnect after N requests; 1 opens a connection per request
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(super) per_connection: Option<u64>,
    /// Connect to ADDR instead of HOST:PORT
    #[arg(long, value_name = "HOST:PORT:ADDR")]
    pub(super) resolve: Vec<String>,
}

/// TLS.
#[derive(Debug, clap::Args)]
pub(crate) struct TlsArgs {
    /// Accept any server certificate
    #[arg(short = 'k', long)]
    pub(super) insecure: bool,
    /// CA certificates to trust (PEM) [default: the system's]
    #[arg(long, value_name = "FILE")]
    pub(super) cacert: Option<PathBuf>,
    /// Client certificate (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    pub(super) cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub(super) key: Option<PathBuf>,
    /// Resume sessions: on, off, or a share like 50% [default: on]
    #[arg(long, value_name = "SHARE")]
    pub(super) resumption: Option<Resumption>,
    /// Use only this TLS version: 1.2 or 1.3
    #[arg(long = "tls", value_name = "VERSION")]
    pub(super) version: Option<TlsVersion>,
    /// Server name (SNI) [default: host of the URL]
    #[arg(long, value_name = "NAME")]
    pub(super) sni: Option<String>,
}

/// How weir runs the load and prints the result.
#[derive(Debug, clap::Args)]
pub(crate) struct RunningArgs {
    /// Worker threads; wrk's -t is the same [default: half of the CPUs]
    #[arg(short = 'w', short_alias = 't', long, value_name = "N", allow_negative_numbers = true)]
    pub(super) workers: Option<u32>,
    /// Open loop: busy-wait; less lateness, but a whole core per worker
    #[arg(long, requires = "rate")]
    pub(super) spin: bool,
    /// Agents that generate the load: local:N, ssh:HOST,HOST or agents:N
    #[arg(long, value_name = "PLACE", conflicts_with_all = ["trace", "spin"])]
    pub(super) on: Option<Place>,
    /// Address for agents (agents:N, ssh:HOST)
    #[arg(long, value_name = "ADDRESS", default_value = "0.0.0.0:7400", requires = "on")]
    pub(super) listen: SocketAddr,
    /// File that agents need to join (agents:N)
    #[arg(long, value_name = "FILE", default_value = "weir.ticket", requires = "on")]
    pub(super) ticket: PathBuf,
    /// Seed of the schedule and the requests
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(super) seed: u64,
    /// Exit with 1 if a verdict is not `valid`
    #[arg(long)]
    pub(super) strict: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Write intended and actual send times of the sustained phase, in ns
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
    /// Print help
    #[arg(short = 'h', long, action = ArgAction::HelpShort)]
    help: Option<bool>,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "load", about = "Send load to one server, like wrk or oha", term_width = 100)]
    struct Alone {
        #[command(flatten)]
        args: Args,
    }

    /// Flags of `weir load` and the equivalent fields of a scenario; `None` if the flag is not about the load.
    const FIELDS: &[(&str, Option<&str>)] = &[
        ("urls", Some("topology.paths")),
        ("connections", Some("loads.connections")),
        ("rate", Some("loads.rate")),
        ("duration", Some("loads.duration")),
        ("requests", Some("loads.requests")),
        ("even", Some("loads.spacing")),
        ("burst", Some("loads.burst")),
        ("think", Some("loads.think")),
        ("warmup", Some("warmup")),
        ("timeout", Some("timeout")),
        ("header", Some("loads.mix.headers")),
        ("method", Some("loads.mix.method")),
        ("body", Some("loads.mix.body")),
        ("file", Some("loads.file")),
        ("shuffle", Some("loads.shuffle")),
        ("tokens", Some("loads.tokens")),
        ("domain", Some("loads.domains")),
        ("check", Some("loads.mix.checks")),
        ("name", Some("loads.mix.name")),
        ("http2", Some("loads.protocol")),
        ("streams", Some("loads.streams")),
        ("per-connection", Some("loads.per_connection")),
        ("resolve", Some("gateways.listen")),
        ("insecure", Some("loads.tls.insecure")),
        ("cacert", Some("loads.tls.ca")),
        ("cert", Some("loads.tls.cert")),
        ("key", Some("loads.tls.key")),
        ("resumption", Some("loads.tls.resumption")),
        ("tls", Some("loads.tls.version")),
        ("sni", Some("loads.tls.sni")),
        ("workers", Some("workers")),
        ("spin", Some("loads.spin")),
        ("on", Some("generator.on")),
        ("listen", None),
        ("ticket", None),
        ("seed", Some("seed")),
        ("strict", None),
        ("trace", None),
        ("json", None),
        ("prometheus-write", None),
        ("prometheus-write-version", None),
        ("otlp", None),
        ("help", None),
    ];

    fn flags() -> Vec<String> {
        let command = Alone::command();
        let name = |arg: &clap::Arg| arg.get_long().map_or(arg.get_id().as_str(), |long| long).to_owned();
        command.get_arguments().map(name).collect()
    }

    /// Resolves a reference. Returns the schema and the schemas of its list items, map values and alternatives.
    fn behind<'a>(
        root: &'a serde_json::Value,
        mut schema: &'a serde_json::Value,
    ) -> Vec<&'a serde_json::Value> {
        while let Some(path) = schema["$ref"].as_str() {
            schema = root.pointer(path.trim_start_matches('#')).unwrap();
        }
        let mut found = vec![schema];
        for inner in ["items", "additionalProperties"] {
            if schema[inner].is_object() {
                found.extend(behind(root, &schema[inner]));
            }
        }
        for inner in schema["anyOf"].as_array().into_iter().flatten() {
            found.extend(behind(root, inner));
        }
        found
    }

    /// The description of the field at `path`; `None` if it is not in the schema or has no description.
    fn description(root: &serde_json::Value, path: &str) -> Option<String> {
        let mut here = vec![root];
        let mut found = None;
        for name in path.split('.') {
            let step = |schema: &&serde_json::Value| schema["properties"].get(name).cloned();
            let next: Vec<serde_json::Value> = here.iter().filter_map(step).collect();
            let field = next.into_iter().next()?;
            found = Some(field["description"].as_str().filter(|text| !text.is_empty())?.to_owned());
            // Leaks a few small values in a test.
            here = behind(root, Box::leak(Box::new(field)));
        }
        found
    }

    #[test]
    fn every_flag_has_a_field_whose_description_names_it() {
        let schema = serde_json::to_value(schemars::schema_for!(weir_lab::scenario::Scenario)).unwrap();
        let mapped: Vec<&str> = FIELDS.iter().map(|(flag, _)| *flag).collect();
        let mut flags = flags();
        flags.sort();
        let mut sorted = mapped.clone();
        sorted.sort_unstable();
        assert_eq!(flags, sorted, "a flag without an entry in `FIELDS`, or an entry without a flag");
        for (flag, field) in FIELDS {
            let Some(field) = field else { continue };
            let found = description(&schema, field);
            let found = found
                .unwrap_or_else(|| panic!("--{flag}: `{field}` is not in the schema, or has no description"));
            // `urls` is not a flag.
            let names = format!("(`weir load --{flag}`)");
            let text = found.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(*flag == "urls" || text.contains(&names), "`{field}` does not name {names}: {text}");
        }
        for wrong in ["loads.nonsense", "loads.mix.nonsense"] {
            assert_eq!(description(&schema, wrong), None);
        }
    }

    #[test]
    fn help_fits_a_screen() {
        for name in ["-h", "--help"] {
            let help = Alone::try_parse_from(["load", name]).unwrap_err().render().to_string();
            assert!(help.lines().count() <= 59, "{name}: {} lines\n{help}", help.lines().count());
            let widest = help.lines().max_by_key(|line| line.chars().count()).unwrap();
            assert!(widest.chars().count() <= 100, "{name}: {widest}");
            for flag in flags().iter().filter(|flag| *flag != "urls") {
                assert!(help.contains(&format!("--{flag}")), "{name} has no --{flag}");
            }
        }
    }
}
