//! `weir load`: sends load to a server from this process, like wrk, without a scenario.

mod args;
mod json;
mod on;
mod print;
mod resolve;
mod target;

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use weir_analysis::{Evidence, judge};
use weir_document::{AskedRate, Levels, Named, Problem};
use weir_engine::{ChecksSpec, EngineError, LiveSecond, LoadSpec, Progress, ProtocolSpec, Spacing, TlsSpec};
use weir_lab::scenario::{Load, Request};
use weir_lab::{Setting, load_problem};
use weir_results::{ArrivalModel, Judgement, LoadRecord, Thresholds, Usage};

use super::output::note;
use super::watch::WatchedLoad;
use crate::failure::{Exit, Failure};
pub(crate) use args::Args;
use print::Live;
use target::Target;

/// Runs the load and prints its result.
pub(crate) fn run(args: &Args) -> Result<Exit, Failure> {
    let spec = spec(args)?;
    let stop = Arc::new(AtomicBool::new(false));
    // The first Ctrl-C ends the load, and the result so far is printed. The second one kills this process.
    let interrupt = signal_hook::consts::SIGINT;
    signal_hook::flag::register_conditional_shutdown(interrupt, 130, Arc::clone(&stop))
        .and_then(|_| signal_hook::flag::register(interrupt, Arc::clone(&stop)))
        .map_err(|error| Failure::environment(format!("cannot handle Ctrl-C: {error}"), ""))?;
    let watch = args.watch.start()?;
    let live = Live::new(&spec, args.running.json, std::io::stderr().is_terminal());
    let authority = Target::parse(&args.urls[0])?.authority;
    let watched = watch.map(|watch| WatchedLoad::new(watch, &spec, &authority, &live));
    let progress: &dyn Progress = watched.as_ref().map_or(&live, |watched| watched);
    let heard = |agent: &str, second: &LiveSecond| match &watched {
        Some(watched) => watched.second_of(agent, second),
        None => live.second(second),
    };
    let outcome = match &args.running.on {
        Some(place) => on::run(args, place, &spec, &heard, &stop),
        None => {
            let record = weir_engine::run(&spec, progress, &stop).map_err(|error| failure(args, &error));
            record.map(|record| Some((record, None)))
        }
    };
    live.clear();
    let judge =
        |(record, usage): (LoadRecord, Option<Usage>)| (judge_alone(&record, &spec, usage.as_ref()), record);
    let judged = outcome.map(|measured| measured.map(judge));
    if let Some(watched) = watched {
        let judged = judged.as_ref().ok().and_then(Option::as_ref);
        watched.end(judged.map(|(judgement, record)| (record, judgement)));
    }
    let Some((judgement, mut record)) = judged? else {
        note("stopped before the load started");
        return Ok(Exit::Interrupted);
    };
    record.result.bound_by = judgement.bound_by;
    record.result.verdicts = judgement.verdicts.clone();
    if args.running.json {
        let bounds = judgement.bounds.clone().unwrap_or_default();
        let text = serde_json::to_string_pretty(&json::Document::of(&record, &bounds))
            .map_err(|error| Failure::environment(format!("cannot write the result as JSON: {error}"), ""))?;
        super::output::print(text);
    } else {
        super::output::print(print::table(&args.urls, &spec, &record, &judgement).trim_end());
    }
    Ok(exit(args, &record, stop.load(std::sync::atomic::Ordering::Acquire)))
}

fn exit(args: &Args, record: &LoadRecord, was_interrupted: bool) -> Exit {
    if was_interrupted {
        Exit::Interrupted
    } else if record.result.requests.completed == 0
        || (args.running.strict && !record.result.verdicts.all_valid())
    {
        Exit::BadResult
    } else {
        Exit::Good
    }
}

/// Judges whether the result is valid, with evidence only from the load generators. The CPU use of the server is
/// unknown. `usage` is the usage of the load generator, or of the agent closest to its CPU limit.
fn judge_alone(record: &LoadRecord, spec: &LoadSpec, usage: Option<&Usage>) -> Judgement {
    let evidence = Evidence {
        record,
        data: None,
        origin: None,
        generator: usage,
        counters: None,
        host: None,
        host_cores: weir_rig::usable_cpus().len() as u32,
        busiest: &[],
        limits_applied: true,
        loopback_floor_ns: None,
        ceiling: None,
        is_steady: spec.is_steady(),
        errors_max: None,
    };
    judge(&evidence, &Thresholds::default())
}

/// Converts the arguments to the specification for the engine.
fn spec(args: &Args) -> Result<LoadSpec, Failure> {
    let targets = Target::parse_all(&args.urls)?;
    let target = &targets[0];
    let load = load(args, &targets)?;
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let connections = match &load.connections {
        Levels::Ramp(_, to) => *to,
        levels => levels.greatest(),
    };
    let resolve = args.connections.resolve.iter().map(|text| resolve::read(text));
    let setting = Setting {
        spec: LoadSpec {
            connect: target.connect.clone(),
            host: target.host.clone(),
            resolve: resolve.collect::<Result<_, _>>()?,
            workers: args.running.workers.unwrap_or_else(|| (cpus / 2).clamp(1, connections.max(1))),
            warmup_ns: args.shape.warmup.as_ns(),
            warmup_most_ns: args.shape.warmup.as_ns(),
            timeout_ns: args.shape.timeout.as_ns(),
            seed: args.running.seed,
            trace: args.running.trace.clone(),
            counts_only: true,
            ..LoadSpec::default()
        },
        authority: target.authority.clone(),
        base: request(args, "/")?,
        domains: Vec::new(),
        rewrite: None,
    };
    load.spec(setting).map_err(|fault| reported(args, &fault))
}

/// Converts the arguments to a load as in a scenario, so that flags and scenario fields have the same meaning.
fn load(args: &Args, targets: &[Target]) -> Result<Load, Failure> {
    let (shape, requests, connections) = (&args.shape, &args.requests, &args.connections);
    let is_http2 = connections.http2 || connections.streams.is_some();
    Ok(Load {
        model: if shape.rate.is_some() { ArrivalModel::Open } else { ArrivalModel::Closed },
        connections: shape.connections.clone().unwrap_or(Levels::Constant(32)),
        rate: shape.rate.as_ref().map(|rates| rates.map(AskedRate::Rate)),
        of: None,
        rates: None,
        one_of: None,
        search: None,
        spacing: shape.even.then_some(Spacing::Even),
        burst: shape.burst,
        think: shape.think,
        steps: Vec::new(),
        duration: shape.duration,
        requests: shape.requests,
        protocol: is_http2.then_some(ProtocolSpec::Http2),
        streams: connections.streams,
        per_connection: connections.per_connection,
        tls: tls(args, targets[0].is_secure)?,
        mix: mix(args, targets)?,
        popularity: None,
        file: requests.file.clone(),
        shuffle: requests.shuffle,
        tokens: requests.tokens.clone(),
        domains: requests.domains.clone(),
        objective: None,
        spin: args.running.spin,
    })
}

/// One request per URL; the requests differ only in their paths. Returns an empty list if `--file` provides the
/// requests.
fn mix(args: &Args, targets: &[Target]) -> Result<Vec<Request>, Failure> {
    if args.requests.file.is_none() {
        return targets.iter().map(|target| request(args, &target.path)).collect();
    }
    match targets {
        [only] if only.path == "/" => Ok(Vec::new()),
        _ => {
            let message = "--file: paths come from the file, but the URL has a path too";
            Err(Failure::wrong_use(message, "give one URL without a path, like http://127.0.0.1:8080"))
        }
    }
}

fn request(args: &Args, path: &str) -> Result<Request, Failure> {
    let args = &args.requests;
    let mut headers = Vec::new();
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else {
            let message = format!("-H '{header}': the colon is missing");
            return Err(Failure::wrong_use(message, "use the form -H 'Name: value'"));
        };
        headers.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
    }
    Ok(Request {
        path: path.to_owned(),
        method: args.method.clone(),
        headers: Named(headers),
        body: args.body.clone(),
        weight: None,
        name: args.name.clone(),
        checks: (!args.checks.is_empty()).then(|| ChecksSpec::of(&args.checks)),
    })
}

fn tls(args: &Args, is_secure: bool) -> Result<Option<TlsSpec>, Failure> {
    let flags = &args.tls;
    let tls = TlsSpec {
        insecure: flags.insecure,
        ca: flags.cacert.clone(),
        cert: flags.cert.clone(),
        key: flags.key.clone(),
        resumption: flags.resumption,
        version: flags.version,
        sni: flags.sni.clone(),
    };
    let given = [
        ("--insecure", tls.insecure),
        ("--cacert", tls.ca.is_some()),
        ("--cert", tls.cert.is_some()),
        ("--key", tls.key.is_some()),
        ("--resumption", tls.resumption.is_some()),
        ("--tls", tls.version.is_some()),
        ("--sni", tls.sni.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given && !is_secure) {
        Some((flag, _)) => {
            let remedy = "write the URL with https://, or remove the flag";
            Err(Failure::wrong_use(format!("{flag}: a URL with http:// does not use TLS"), remedy))
        }
        None => Ok(is_secure.then_some(tls)),
    }
}

/// Converts an error of the engine. If an argument caused it, the message names the argument.
fn failure(args: &Args, error: &EngineError) -> Failure {
    match load_problem(error) {
        Some(fault) => reported(args, &fault),
        None => Failure::environment(error.to_string(), error.remedy()),
    }
}

fn reported(args: &Args, fault: &Problem) -> Failure {
    let place = match fault.place.as_str() {
        "mix.path" => {
            // The message quotes the path, or the invalid part of it.
            let quoted = fault.message.split('`').nth(1).unwrap_or_default();
            let url = args.urls.iter().find(|url| url.contains(quoted)).unwrap_or(&args.urls[0]);
            url.clone()
        }
        "mix.headers" => "-H".to_owned(),
        "mix.method" => "-X".to_owned(),
        "mix.checks" => "--check".to_owned(),
        "tls.ca" => "--cacert".to_owned(),
        "tls.version" => "--tls".to_owned(),
        "domains" => "--domain".to_owned(),
        "protocol" => "--http2".to_owned(),
        "spacing" => "--even".to_owned(),
        "steps" => "--rate, --connections".to_owned(),
        "shard" => "--on".to_owned(),
        field => {
            let name = field.rsplit('.').next().unwrap_or(field);
            format!("--{}", name.replace('_', "-"))
        }
    };
    Failure::wrong_use(format!("{place}: {}", fault.message), fault.remedy.clone())
}
