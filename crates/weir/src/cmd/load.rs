//! `weir load`: the engine alone, a better wrk.

mod print;
mod target;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_analysis::{Evidence, judge};
use weir_document::{Rate, Time};
use weir_engine::{Body, EngineError, LoadSpec, ModelSpec, RequestSpec, Spacing};
use weir_results::{Judgement, LoadRecord, Thresholds};

use crate::failure::{Exit, Failure};
use print::Live;
use target::Target;

/// Arguments of `weir load`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the requests go: http://HOST[:PORT]/PATH
    url: String,
    /// Connections, over all workers
    #[arg(short = 'c', long, default_value_t = 32, value_name = "N", allow_negative_numbers = true)]
    connections: u32,
    /// Length of the measurement [default: 10s]
    #[arg(short = 'd', long, value_name = "TIME", conflicts_with = "requests")]
    duration: Option<Time>,
    /// Number of requests, in place of a duration
    #[arg(short = 'n', long, value_name = "N", allow_negative_numbers = true)]
    requests: Option<u64>,
    /// Open loop: so many arrivals a second, whatever the answers do (5000/s); without it each
    /// connection sends when it has been answered
    #[arg(short = 'r', long, value_name = "RATE")]
    rate: Option<Rate>,
    /// Open loop: evenly spaced arrivals in place of Poisson's
    #[arg(long, requires = "rate")]
    even: bool,
    /// Time before the measurement that does not count
    #[arg(long, default_value = "0s", value_name = "TIME")]
    warmup: Time,
    /// Worker threads [default: half of the CPUs, so that the server has the other half]
    #[arg(short = 'w', long, value_name = "N", allow_negative_numbers = true)]
    workers: Option<u32>,
    /// Time-out of a request, from its intended start
    #[arg(long, default_value = "10s", value_name = "TIME")]
    timeout: Time,
    /// A header field; `Host` replaces the URL's
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The method [default: GET, or POST with a body]
    #[arg(short = 'X', long = "method", value_name = "METHOD")]
    method: Option<String>,
    /// The body, or @FILE to read it from a file
    #[arg(long, value_name = "TEXT|@FILE")]
    body: Option<String>,
    /// Seed of the arrivals: the same seed gives the same schedule
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Exit with 1 when a verdict is not `valid`
    #[arg(long)]
    strict: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Drives the load and prints what came of it.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let target = Target::parse(&args.url)?;
    let spec = spec(&args, &target)?;
    let stop = Arc::new(AtomicBool::new(false));
    // The first Ctrl-C ends the load with what there is, the second at once.
    let interrupt = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_shutdown(interrupt, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(interrupt, Arc::clone(&stop)))
        .map_err(|error| Failure::environment(format!("Ctrl-C cannot be caught: {error}"), ""))?;
    let live = Live::new(&spec, args.json, std::io::stderr().is_terminal());
    let outcome = weir_engine::run(&spec, &live, &stop);
    live.clear();
    let mut record = outcome.map_err(|error| failure(&args, &error))?;
    let judgement = judge_alone(&record);
    record.result.bound_by = judgement.bound_by;
    record.result.verdicts = judgement.verdicts.clone();
    if args.json {
        let text = serde_json::to_string_pretty(&record.result)
            .map_err(|error| Failure::environment(format!("the result has no JSON: {error}"), ""))?;
        super::output::print(text);
    } else {
        super::output::print(print::table(&args.url, &spec, &record, &judgement).trim_end());
    }
    Ok(exit(&args, &record, stop.load(std::sync::atomic::Ordering::Acquire)))
}

fn exit(args: &Args, record: &LoadRecord, was_interrupted: bool) -> Exit {
    if was_interrupted {
        Exit::Interrupted
    } else if record.result.requests.completed == 0 || (args.strict && !record.result.verdicts.all_valid()) {
        Exit::BadResult
    } else {
        Exit::Good
    }
}

/// What the generator alone can tell: it sees neither the server's CPU nor the host.
fn judge_alone(record: &LoadRecord) -> Judgement {
    let evidence = Evidence {
        record,
        data: None,
        origin: None,
        generator: None,
        counters: None,
        host: None,
        limits_applied: true,
        loopback_floor_ns: None,
        errors_max: None,
    };
    judge(&evidence, &Thresholds::default())
}

fn spec(args: &Args, target: &Target) -> Result<LoadSpec, Failure> {
    let model = match args.rate {
        None => ModelSpec::Closed { think: None },
        Some(Rate(rate_per_s)) => {
            let spacing = if args.even { Spacing::Even } else { Spacing::Poisson };
            ModelSpec::open(rate_per_s, spacing)
        }
    };
    let duration_ns = match (args.duration, args.requests) {
        (Some(duration), _) => Some(nanoseconds(duration)),
        (None, None) => Some(10_000_000_000),
        (None, Some(_)) => None,
    };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let spec = LoadSpec {
        connect: target.connect.clone(),
        requests: vec![request(args, target)?],
        model,
        connections: args.connections,
        workers: args.workers.unwrap_or_else(|| (cpus / 2).clamp(1, args.connections.max(1))),
        warmup_ns: nanoseconds(args.warmup),
        duration_ns,
        request_count: args.requests,
        timeout_ns: nanoseconds(args.timeout),
        seed: args.seed,
        ..LoadSpec::default()
    };
    spec.validate().map_err(|error| failure(args, &error))?;
    Ok(spec)
}

fn request(args: &Args, target: &Target) -> Result<RequestSpec, Failure> {
    let mut headers = Vec::new();
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else {
            let message = format!("-H '{header}': a header field needs a colon");
            return Err(Failure::wrong_use(message, "write it as -H 'Name: value'"));
        };
        headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    let hosts = headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count();
    match hosts {
        0 => headers.insert(0, ("Host".into(), target.host.clone())),
        1 => {}
        _ => {
            let message = "-H: Host is given more than once";
            return Err(Failure::wrong_use(message, "give Host once; a request has one"));
        }
    }
    let body = match args.body.as_deref() {
        None => String::new(),
        Some(text) => match text.strip_prefix('@') {
            None => text.to_owned(),
            Some(path) => std::fs::read_to_string(path).map_err(|error| {
                Failure::wrong_use(format!("--body @{path}: {error}"), "name a readable file of UTF-8 text")
            })?,
        },
    };
    let by_body = if args.body.is_some() { "POST" } else { "GET" };
    let method = args.method.clone().unwrap_or_else(|| by_body.into());
    Ok(RequestSpec {
        method,
        path: target.path.clone(),
        headers,
        body: Body::Text(body),
        ..RequestSpec::default()
    })
}

/// Says where on the command line the fault is, as far as it is there.
fn failure(args: &Args, error: &EngineError) -> Failure {
    let EngineError::Invalid { field, message } = error else {
        return Failure::environment(error.to_string(), error.remedy());
    };
    let place = match *field {
        "header" => "-H".to_owned(),
        "method" => "-X".to_owned(),
        "path" => args.url.clone(),
        flag => format!("--{flag}"),
    };
    Failure::wrong_use(format!("{place}: {message}"), "see `weir load --help`")
}

fn nanoseconds(time: Time) -> u64 {
    u64::try_from(time.0.as_nanos()).unwrap_or(u64::MAX)
}
