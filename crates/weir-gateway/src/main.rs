//! The `weir-gateway` program: a configuration source, the data plane and the admin server put together.

mod check;
mod explain;
mod outlet;
mod program_log;
mod reference;
mod signals;
mod supervisor;
mod upgrade;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use log::Level;
use weir_config::Severity;
use weir_control::{FileSource, Stamps, Watch};
use weir_dataplane::{Admin, AdminHost, Gateway, GatewayError, Reopened, listen_remedy};
use weir_document::{Problem, Time};

use crate::outlet::{Outlet, print_and_log};
use crate::program_log::{Levels, log_problems};
use crate::signals::{Request, Requests};
use crate::supervisor::Supervisor;
use crate::upgrade::{InheritedSockets, UpgradeOptions, Upgrader};

/// At most this many names of reloaded files are printed in one line. Others are only counted.
const FILES_LISTED_MAX: usize = 8;

/// Time limit for each output to write its last lines before the process exits.
const EXIT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Time limit for the access log to write its last lines after a second stop signal.
const ACCESS_LOG_FLUSH_TIMEOUT: Duration = Duration::from_millis(200);
/// Like [`ACCESS_LOG_FLUSH_TIMEOUT`], but for each of the other outputs.
const OUTPUT_FLUSH_TIMEOUT: Duration = Duration::from_millis(20);

const AFTER_HELP: &str = "\
A minimal configuration:
  listeners: [{ address: 127.0.0.1:8080 }]
  routes:
    - { hosts: [example.com], path: /api, backend: api }  # a prefix
    - { exact: [/a, /b], backend: api, rewrite: /c }      # every host
  backends: { api: { endpoints: [127.0.0.1:9000] } }

Signals:
  SIGHUP   reload the configuration; if it has errors, log them and keep the active one.
           Changed certificate and key files are reloaded even without SIGHUP and --watch
  SIGUSR1  reopen the access log file, after a log rotation renamed it
  SIGUSR2  upgrade: start the program again and hand over the sockets (needs --runtime-dir)
  SIGTERM, SIGINT, SIGQUIT
           drain: accept new connections during `drain.delay`, then close each connection after
           its current request. Connections that are still open after `drain.timeout` are closed.
           A second signal stops the process at once

Exit codes:
  0  success: drained (also if `drain.timeout` expired), handed over, or printed the output
  1  stopped at once by a second signal
  2  the command line or the configuration is invalid; with `check --strict`, also a warning
  3  the environment fails: for example, an address is in use or a thread does not start

Fields: `weir-gateway reference`. Metrics: `weir-gateway reference metrics`. Errors: docs/errors.md.
Upgrades: docs/operations.md.";

/// HTTP/1.1 gateway: routes by host and path, upstream keep-alive, reloads that lose no request.
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
    /// Configuration: a YAML or JSON file, or a directory of such files
    ///
    /// The gateway reads its own compact format and Gateway API manifests. From a directory it reads every file that
    /// ends in .yaml, .yml or .json. It ignores subdirectories.
    #[arg(long, value_name = "PATH", required = true)]
    config: Option<PathBuf>,
    /// Start the admin server on this IP address and port: health, metrics, active configuration, drain
    ///
    /// Default: no admin server. The server has no authentication, so keep its address off public networks.
    #[arg(long, value_name = "ADDR", value_parser = admin_address)]
    admin: Option<SocketAddr>,
    /// Also accept admin requests with this Host; may be repeated
    ///
    /// The admin server always accepts IP addresses and localhost. It rejects other names with 403, because a web page
    /// could use them (DNS rebinding). `*.example.com` accepts all names below it.
    #[arg(long, value_name = "NAME", requires = "admin")]
    admin_host: Vec<AdminHost>,
    /// Reload when the configuration file or a file that it references changes
    ///
    /// Same as SIGHUP. Write the new version to a temporary file and rename it, so that the gateway never reads half of
    /// it.
    #[arg(long)]
    watch: bool,
    /// Directory for upgrades without downtime: a new gateway that is started with the same directory takes over the
    /// sockets of the old one
    ///
    /// The old process hands over its listening sockets, with connections that are not yet accepted. The directory must
    /// exist, and only the gateway's user may have access to it.
    #[arg(long, value_name = "DIR")]
    runtime_dir: Option<PathBuf>,
    /// Time limit for the new process to become ready after SIGUSR2
    ///
    /// If the new process is not ready by then, the old process stops it and keeps serving.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = upgrade_timeout)]
    upgrade_timeout: Time,
    /// Lowest level to log on standard error: error, warn, info or debug
    ///
    /// Overrides `log.level` of the configuration. The admin server can change it at run time.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Severity>,
    /// Check the configuration and exit, like `weir-gateway check PATH`
    #[arg(long)]
    check: bool,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a configuration and all files that it names, print a summary, and exit
    ///
    /// The command opens no socket. It prints at most 32 errors (10 of a file above 1 MiB), and omits errors that only
    /// follow from another error. It warns of: routes that match no request; routes that clients can bypass with
    /// another spelling of the path; `cors` without OPTIONS in `methods`; no routes; unused backends; backends without
    /// endpoints or weights; certificates and CAs that expired, expire within 14 days or are not valid yet;
    /// certificates that match neither their `hosts` nor a host of a route; plain HTTP on addresses other than loopback
    /// for routes with `tokens`, or next to a listener that requires client certificates.
    Check(check::Arguments),
    /// Show which route matches a request, what is sent upstream, and why other routes do not match
    ///
    /// The command uses the routing table of the gateway and contacts no upstream. If the route responds itself, the
    /// output shows the response without Date and Connection. If backends have weights, the output shows the backend of
    /// the next request. It lists at most five other routes: first routes with one failed condition, then routes that
    /// also match, then routes of the same host.
    Explain(explain::Arguments),
    /// Print a page of the reference as Markdown
    Reference {
        /// The page
        #[arg(value_enum, default_value_t = reference::Page::Configuration)]
        page: reference::Page,
    },
    /// Print the JSON Schema of the configuration, for editors
    Schema,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the man pages, for packages
    #[command(hide = true)]
    Man {
        /// Directory for the pages
        dir: PathBuf,
    },
}

/// Failure class, mapped to an exit code.
enum Failure {
    /// Exit code 2: the configuration.
    Configuration(Vec<String>),
    /// Exit code 2: an error in the command line.
    Command(Problem<()>),
    /// Exit code 3: the environment.
    Environment(String),
}

fn admin_address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "not an IP address with a port; write it like 127.0.0.1:9901 or [::1]:9901".to_owned())
}

fn main() -> ExitCode {
    let outcome = run(&Args::parse());
    outlet::finish(EXIT_FLUSH_TIMEOUT);
    program_log::finish(EXIT_FLUSH_TIMEOUT);
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Configuration(lines)) => {
            report(&lines);
            ExitCode::from(2)
        }
        Err(Failure::Command(Problem { message, remedy, .. })) => {
            // Same format as the errors of clap, as in `weir`.
            report(&[format!("error: {message}"), format!(" help: {remedy}")]);
            ExitCode::from(2)
        }
        Err(Failure::Environment(line)) => {
            report_in_time(&line);
            ExitCode::from(3)
        }
    }
}

fn run(args: &Args) -> Result<(), Failure> {
    match (&args.command, &args.config) {
        (Some(Command::Check(arguments)), _) => check::run(arguments),
        (Some(Command::Explain(arguments)), _) => explain::run(arguments),
        (Some(Command::Reference { page }), _) => printed(page.to_markdown().trim_end()),
        (Some(Command::Schema), _) => printed(&format!("{:#}", weir_config::schema())),
        (Some(Command::Completions { shell }), _) => printed(completions(*shell).trim_end()),
        (Some(Command::Man { dir }), _) => weir_reference::man_pages(Args::command(), dir).map_err(|error| {
            Failure::Environment(format!("cannot write man pages to {}: {error}", dir.display()))
        }),
        (None, Some(config)) if args.check => check::run(&check::Arguments::of(config)),
        (None, Some(config)) => serve(config, args),
        (None, None) => {
            Err(Failure::Command(Problem::new("--config PATH is missing", "see `weir-gateway --help`")))
        }
    }
}

/// The completion script for a shell.
fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "weir-gateway", &mut script);
    // clap_complete 4.6 spells a name with a hyphen in two ways in its bash script, so completion fails after a
    // subcommand (github.com/clap-rs/clap/issues/6421). This makes both spellings equal.
    String::from_utf8_lossy(&script).replace("weir__subcmd__gateway", "weir__gateway")
}

fn printed(text: &str) -> Result<(), Failure> {
    print(text);
    Ok(())
}

fn serve(config: &Path, args: &Args) -> Result<(), Failure> {
    let mut source = FileSource::new(config);
    let table = source.load().map_err(|error| Failure::Configuration(error.lines()))?;
    let environment = |error: std::io::Error| Failure::Environment(format!("cannot start: {error}"));
    let supervisor = Supervisor::from_environment();
    // This must come before the first thread starts, so that no signal gets its default action.
    let requests = Requests::listen().map_err(environment)?;
    let mut levels = Levels::begin(&table.log, args.log_level).map_err(environment)?;
    outlet::open_standard_output().map_err(environment)?;
    weir_io::raise_open_files();
    let folder = args.runtime_dir.as_deref();
    let mut inherited = InheritedSockets::find(folder, &table, args.admin).map_err(Failure::Environment)?;
    // Steps that may fail come before the gateway accepts clients. After that, a failure would close its listening
    // sockets and lose connections.
    let of_admin = args.admin.map(|address| admin_socket(address, &mut inherited)).transpose()?;
    let sockets = std::mem::take(&mut inherited.sockets);
    let gateway = Arc::new(Gateway::start_with(table, sockets).map_err(failure_of)?);
    for address in gateway.addresses() {
        print_and_log(&format!("listening on {address}"));
    }
    let serve_admin = |(address, socket)| {
        let stops = requests.sender();
        let on_drain = move || {
            // Errors can be ignored: the receiver lives until the gateway has drained.
            let _ = stops.send(Request::Stop);
        };
        Ok((address, Admin::serve(socket, Arc::clone(&gateway), args.admin_host.clone(), on_drain)?))
    };
    let admin = of_admin.map(serve_admin).transpose().map_err(environment)?;
    if let Some((_, admin)) = &admin {
        print_and_log(&format!("admin on {}", admin.address()));
    }
    inherited.take_over().map_err(Failure::Environment)?;
    let upgrades = UpgradeOptions { folder: args.runtime_dir.clone(), timeout: args.upgrade_timeout };
    let mut upgrader =
        Upgrader::begin(supervisor, upgrades, admin, requests.sender()).map_err(Failure::Environment)?;
    let of_requests = Arc::clone(&gateway);
    requests.before_immediate_exit(move || write_last_lines(&of_requests));
    let changes = requests.sender();
    let on_change = move || {
        // Errors can be ignored: the receiver lives as long as this function runs.
        let _ = changes.send(Request::Refresh);
    };
    let watch = Watch::start(on_change).map_err(environment)?;
    print_and_log("ready");
    upgrader.supervisor.ready();
    loop {
        watch.set(watched(&source, args.watch));
        let keeps_serving = handle(requests.next(), &mut source, &gateway, &mut upgrader, args.watch);
        levels.update(&gateway.table().log);
        if !keeps_serving {
            return wait_until_drained(&gateway, &requests);
        }
    }
}

fn upgrade_timeout(text: &str) -> Result<Time, String> {
    match text.parse::<Time>() {
        Ok(time) if time.0.is_zero() => Err("must be greater than 0; the default is 60s".to_owned()),
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Handles a request; returns false if the gateway must drain and exit.
fn handle(
    request: Request,
    source: &mut FileSource,
    gateway: &Gateway,
    upgrader: &mut Upgrader,
    watches: bool,
) -> bool {
    match request {
        Request::Reload => reload(source, gateway, &upgrader.supervisor),
        Request::Refresh if watches && source.is_outdated() => {
            reload(source, gateway, &upgrader.supervisor);
        }
        Request::Refresh => refresh(source, gateway),
        Request::Reopen => reopen(gateway),
        Request::Upgrade => upgrader.start_new_process(),
        Request::NewProcessExited(status) => upgrader.new_process_exited(status),
        Request::NewProcessTimedOut => upgrader.new_process_timed_out(),
        Request::HandOver(next) => return !upgrader.hand_over(next, gateway),
        Request::Stop => {
            log::info!("draining");
            upgrader.supervisor.stopping();
            gateway.drain();
            return false;
        }
        Request::Drained(_) => {}
    }
    true
}

/// Handles a request while the gateway drains. Reloads and upgrades fail.
fn handle_while_draining(request: Request, gateway: &Gateway) {
    match request {
        Request::Reopen => reopen(gateway),
        Request::Reload => {
            gateway.count_refused_reload();
            log::error!("{}", GatewayError::Ending);
        }
        Request::Upgrade => log::error!("cannot upgrade: this process is shutting down"),
        Request::HandOver(_) => log::error!("cannot hand over the sockets: this process is shutting down"),
        Request::Stop => log::info!("already draining"),
        Request::Refresh
        | Request::NewProcessExited(_)
        | Request::NewProcessTimedOut
        | Request::Drained(_) => {}
    }
}

/// The listening socket of the admin server, inherited or new, with its configured address.
fn admin_socket(
    address: SocketAddr,
    inherited: &mut InheritedSockets,
) -> Result<(SocketAddr, TcpListener), Failure> {
    let socket = inherited.admin.take().map_or_else(|| Admin::listen(address), Ok);
    let failed = |error| {
        let remedy = listen_remedy(address, &error);
        Failure::Environment(format!("cannot start the admin server on {address}: {error}{remedy}"))
    };
    Ok((address, socket.map_err(failed)?))
}

/// The files to watch for changes: referenced files, and also the configuration files if `with_sources` is true.
fn watched(source: &FileSource, with_sources: bool) -> Stamps {
    let mut files = source.stamps();
    if with_sources {
        files.extend(source.sources());
    }
    files
}

/// Waits until the gateway has drained, and handles requests meanwhile.
fn wait_until_drained(gateway: &Arc<Gateway>, requests: &Requests) -> Result<(), Failure> {
    let (joined, sender) = (Arc::clone(gateway), requests.sender());
    let thread = std::thread::Builder::new().name("weir-end".to_owned());
    let joining = thread.spawn(move || {
        // This cannot fail, because the receiver waits for this request.
        let _ = sender.send(Request::Drained(joined.join()));
    });
    let is_well = match joining {
        Err(_) => gateway.join(),
        Ok(_) => loop {
            match requests.next() {
                Request::Drained(is_well) => break is_well,
                request => handle_while_draining(request, gateway),
            }
        },
    };
    match gateway.cut_by_drain() {
        0 => {}
        cut => log::warn!("`drain.timeout` expired; active connections closed: {cut}"),
    }
    match is_well {
        true => {
            log::info!("drained");
            Ok(())
        }
        false => Err(Failure::Environment(
            "a worker thread panicked; see the panic message on standard error".to_owned(),
        )),
    }
}

fn reload(source: &mut FileSource, gateway: &Gateway, supervisor: &Supervisor) {
    supervisor.reloading();
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
            print_and_log(&format!("reloaded {}, version {version}{of_files}", source.path().display()));
        }
        Err(mut lines) => {
            lines.push("the previous configuration stays active".to_owned());
            gateway.count_refused_reload();
            log_problems(Level::Error, &lines);
        }
    }
    supervisor.ready();
}

/// Reopens the access log.
fn reopen(gateway: &Gateway) {
    match gateway.reopen_access_log() {
        Ok(Reopened::File) => print_and_log("access log reopened"),
        Ok(Reopened::StandardOutput) => {
            log::warn!("cannot reopen the access log: it goes to standard output");
        }
        Ok(Reopened::Nothing) => {
            log::warn!("cannot reopen the access log: none is configured (`access_log`)")
        }
        Err(error) => log::error!("{error}; still writing to the previous file"),
    }
}

/// Flushes the outputs after a second stop signal, so that lines of answered requests are not lost.
fn write_last_lines(gateway: &Gateway) {
    gateway.flush_access_log(ACCESS_LOG_FLUSH_TIMEOUT);
    outlet::finish(OUTPUT_FLUSH_TIMEOUT);
    program_log::finish(OUTPUT_FLUSH_TIMEOUT);
}

/// Applies changes of referenced files, such as certificates.
fn refresh(source: &mut FileSource, gateway: &Gateway) {
    let refreshed = source.refresh();
    let mut lines = refreshed.problems;
    if let Some(table) = refreshed.table {
        match gateway.apply(table) {
            Ok(()) => print_and_log(&format!("files reloaded: {}", listed(&refreshed.files))),
            Err(error) => lines.push(error.to_string()),
        }
    }
    if !lines.is_empty() {
        lines.push("the previous contents of these files stay active".to_owned());
        gateway.count_refused_reload();
        log_problems(Level::Error, &lines);
    }
}

/// Lists the first names, and how many more there are.
fn listed(names: &[String]) -> String {
    match names.split_at_checked(FILES_LISTED_MAX) {
        Some((first, more)) if !more.is_empty() => format!("{} and {} more", first.join(", "), more.len()),
        _ => names.join(", "),
    }
}

fn failure_of(error: GatewayError) -> Failure {
    Failure::Environment(error.to_string())
}

/// Prints the requested output. It is not a failure if the reader has stopped reading.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// Prints lines on standard error.
fn report(lines: &[String]) {
    let mut err = std::io::stderr().lock();
    for line in lines {
        let _ = writeln!(err, "{line}");
    }
}

/// Prints an environment failure on standard error. The time is limited, because standard error may be a pipe that
/// nobody reads.
fn report_in_time(line: &str) {
    let line = format!("weir-gateway: {line}\n");
    if let Ok(outlet) = Outlet::open("weir-report", std::io::stderr(), |_| ()) {
        outlet.write(line.into_bytes());
        outlet.flush(EXIT_FLUSH_TIMEOUT);
    }
}
