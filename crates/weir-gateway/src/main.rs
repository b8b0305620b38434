//! The `weir-gateway` program: a configuration source, the data plane and the admin server put together.

mod explain;
mod signals;

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use weir_control::{FileSource, Watch};
use weir_dataplane::{Admin, Gateway, GatewayError};

use crate::signals::{Request, Requests};

/// How many files a line about them names.
const NAMES_SAID_MAX: usize = 8;

const AFTER_HELP: &str = "\
A configuration that works as it stands:
  listeners: [{ address: 127.0.0.1:8080 }]
  routes:
    - { hosts: [example.com], path: /api, backend: api }  # a prefix
    - { exact: [/a, /b], backend: api, rewrite: /c }      # every host
  backends: { api: { endpoints: [127.0.0.1:9000] } }

Signals:
  SIGHUP           read the configuration again; a bad one is reported and changes nothing.
                   Files of certificates and keys are read again by themselves when they change
  SIGTERM, SIGINT  drain: clients are let in for `drain.delay`, every connection ends with its
                   exchange; `drain.timeout` bounds it, and a second signal ends it at once

Exit codes:
  0  drained, or the configuration is good, or a request was explained
  1  ended at once by a second signal
  2  the command line or the configuration is wrong
  3  the environment can't: an address is taken, a thread does not start

Every field, limit, metric and error is told in docs/gateway.md.";

/// An HTTP/1.1 gateway: routes by host and path, upstream keep-alive, reloads without a lost request.
#[derive(Debug, Parser)]
#[command(
    name = "weir-gateway",
    version,
    max_term_width = 100,
    after_long_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The configuration: a YAML or JSON file, or a directory of such files
    ///
    /// Both forms are taken everywhere, the compact one and manifests of Gateway API. Of a directory all files count that
    /// end in .yaml, .yml or .json, and no directories in it.
    #[arg(long, value_name = "PATH", required = true)]
    config: Option<PathBuf>,
    /// Serve /healthz, /readyz, /metrics and /stats on this IP address and port
    ///
    /// Without it there is no admin server. It has no authentication, so keep it off public networks.
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Only check the configuration, say what is wrong with it, and end
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Say which route has a request, what is sent upstream, and why other routes do not have it
    Explain(explain::Arguments),
}

/// What went wrong, in the words of the exit code.
enum Failure {
    /// Exit code 2: the configuration or the command line.
    Use(Vec<String>),
    /// Exit code 3: the environment.
    Environment(String),
}

fn main() -> ExitCode {
    let (code, lines) = match run(&Args::parse()) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Use(lines)) => (2, lines),
        Err(Failure::Environment(line)) => (3, vec![format!("weir-gateway: {line}")]),
    };
    report(&lines);
    ExitCode::from(code)
}

fn run(args: &Args) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(Command::Explain(arguments)), _) => explain::run(arguments),
        (None, Some(config)) => serve(config, args),
        (None, None) => Err(Failure::Use(vec!["weir-gateway: --config PATH is missing".to_owned()])),
    }
}

fn serve(config: &Path, args: &Args) -> Result<(), Failure> {
    let mut source = FileSource::new(config);
    let table = source.load().map_err(|error| Failure::Use(error.lines()))?;
    if args.check {
        say(&format!("{}: good", config.display()));
        return Ok(());
    }
    let environment = |error: std::io::Error| Failure::Environment(error.to_string());
    // Before the first thread starts: no signal may come to a program that does not yet listen for it.
    let requests = Requests::listen().map_err(environment)?;
    signals::raise_open_files_limit();
    let gateway = Arc::new(Gateway::start(table).map_err(failure_of)?);
    for address in gateway.addresses() {
        say(&format!("listening on {address}"));
    }
    // It ends when it is dropped.
    let _admin = args.admin.map(|address| serve_admin(address, &gateway)).transpose()?;
    let changes = requests.sender();
    let on_change = move || {
        // The other end is there as long as this function runs.
        let _ = changes.send(Request::Refresh);
    };
    let watch = Watch::start(on_change).map_err(environment)?;
    watch.set(source.stamps());
    say("ready");
    follow(&requests, &mut source, &gateway, &watch);
    gateway.drain();
    end(&gateway)
}

fn serve_admin(address: SocketAddr, gateway: &Arc<Gateway>) -> Result<Admin, Failure> {
    let served = Admin::listen(address).and_then(|socket| Admin::serve(socket, Arc::clone(gateway)));
    let admin = served.map_err(|error| {
        Failure::Environment(format!("cannot serve the admin interface on {address}: {error}"))
    })?;
    say(&format!("admin on {}", admin.address()));
    Ok(admin)
}

/// Waits until a gateway that drains has ended.
fn end(gateway: &Gateway) -> Result<(), Failure> {
    let is_well = gateway.join();
    match gateway.cut_by_drain() {
        0 => {}
        cut => report(&[format!(
            "weir-gateway: the time to drain is over (`drain.timeout`); connections cut while in use: {cut}"
        )]),
    }
    match is_well {
        true => Ok(()),
        false => Err(Failure::Environment("a worker ended by a panic".to_owned())),
    }
}

/// Does what is asked until the gateway is to stop.
fn follow(requests: &Requests, source: &mut FileSource, gateway: &Gateway, watch: &Watch) {
    loop {
        match requests.next() {
            Request::Reload => reload(source, gateway),
            Request::Refresh => refresh(source, gateway),
            Request::Stop => return,
        }
        watch.set(source.stamps());
    }
}

fn reload(source: &mut FileSource, gateway: &Gateway) {
    let parsed_before = source.files_parsed();
    let outcome = source.load().map_err(|error| error.lines()).and_then(|table| {
        let version = table.version;
        gateway.apply(table).map_err(|error| vec![error.to_string()])?;
        Ok(version)
    });
    match outcome {
        Ok(version) => {
            let parsed = source.files_parsed() - parsed_before;
            let of_files = match source.path().is_dir() {
                true => format!(", {parsed} of {} files parsed", source.files()),
                false => String::new(),
            };
            say(&format!("reloaded {}, version {version}{of_files}", source.path().display()));
        }
        Err(mut lines) => {
            lines.push("weir-gateway: the former configuration stays in force".to_owned());
            gateway.count_refused_reload();
            report(&lines);
        }
    }
}

/// Takes in files that have changed by themselves.
fn refresh(source: &mut FileSource, gateway: &Gateway) {
    let refreshed = source.refresh();
    let mut lines = refreshed.problems;
    if let Some(table) = refreshed.table {
        match gateway.apply(table) {
            Ok(()) => say(&format!("read again: {}", listed(&refreshed.files))),
            Err(error) => lines.push(error.to_string()),
        }
    }
    if !lines.is_empty() {
        lines.push("weir-gateway: what these files held before stays in force".to_owned());
        gateway.count_refused_reload();
        report(&lines);
    }
}

/// The first of many names, and how many more there are.
fn listed(names: &[String]) -> String {
    match names.split_at_checked(NAMES_SAID_MAX) {
        Some((first, more)) if !more.is_empty() => format!("{} and {} more", first.join(", "), more.len()),
        _ => names.join(", "),
    }
}

fn failure_of(error: GatewayError) -> Failure {
    Failure::Environment(error.to_string())
}

/// A line on standard output. Whoever started the gateway may have stopped reading; that is no reason to end.
fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

fn report(lines: &[String]) {
    let mut err = std::io::stderr().lock();
    for line in lines {
        let _ = writeln!(err, "{line}");
    }
}
