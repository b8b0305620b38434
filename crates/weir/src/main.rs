//! The `weir` program: load tests of L7 gateways for capacity, cost and the number of instances.

// In this program, `pub` marks the items of a module that other modules use.
#![allow(unreachable_pub)]
// Everything must be printed by `cmd::output`, which removes control characters.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cmd;
mod failure;

/// Load-test L7 gateways on your own hardware: capacity, cost and latency, with confidence intervals
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario: start the gateways, send load, store the results, write the report
    Run(cmd::run::Args),
    /// Print and write the report of a stored run
    Report(cmd::report::Args),
    /// Compute how many instances a request rate needs, and what they cost
    Size(cmd::size::Args),
    /// List the stored runs
    Runs(cmd::runs::Args),
    /// Compare two runs or two gateways: better, worse, the same or undecided
    Compare(Box<cmd::compare::Args>),
    /// Send load to one server, like wrk or oha
    Load(Box<cmd::load::Args>),
    /// Start a test upstream with a known body size, delay and error rate
    Origin(cmd::origin::Args),
    /// Write the configuration files and commands that a run uses for a gateway
    Render(cmd::render::Args),
    /// Generate load on this machine, for a run on another machine
    Agent(cmd::agent::Args),
    /// Follow, fetch and remove runs in a Kubernetes cluster
    K8s(cmd::k8s::Args),
    /// Check what this host can measure, and which gateways are installed
    Doctor(cmd::doctor::Args),
    /// Export a stored run: archive, CSV, JSON, Parquet, HdrHistogram log, k6 or Locust format
    Export(cmd::export::Args),
    /// Import a run from an archive that `weir export` wrote
    Import(cmd::import::Args),
    /// Print the JSON Schema of scenarios, results, drivers or services
    Schema(cmd::schema::Args),
    /// Print a page of the reference as Markdown: fields, commands, columns or metrics
    Reference(cmd::reference::Args),
    /// Print a shell completion script
    Completions(cmd::completions::Args),
    #[command(hide = true)]
    Burn(cmd::burn::Args),
    #[command(hide = true)]
    Generate(cmd::generate::GenerateArgs),
    #[cfg(feature = "nats")]
    #[command(hide = true)]
    Publish(cmd::generate::Args),
    #[command(hide = true)]
    Slow(cmd::generate::Args),
    #[command(hide = true)]
    Guard(cmd::guard::Args),
    #[command(hide = true)]
    Man(cmd::man::Args),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => cmd::run::run(args),
        Command::Report(args) => cmd::report::run(args),
        Command::Size(args) => cmd::size::run(args),
        Command::Runs(args) => cmd::runs::run(args),
        Command::Compare(args) => cmd::compare::run(*args),
        Command::Load(args) => cmd::load::run(&args),
        Command::Origin(args) => cmd::origin::run(args),
        Command::Render(args) => cmd::render::run(args),
        Command::Agent(args) => cmd::agent::run(args),
        Command::K8s(args) => cmd::k8s::run(args),
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Export(args) => cmd::export::run(args),
        Command::Import(args) => cmd::import::run(args),
        Command::Schema(args) => cmd::schema::run(args),
        Command::Reference(args) => cmd::reference::run(args),
        Command::Completions(args) => cmd::completions::run(args),
        Command::Burn(args) => cmd::burn::run(args),
        Command::Generate(args) => cmd::generate::run(args),
        #[cfg(feature = "nats")]
        Command::Publish(args) => cmd::publish::run(args),
        Command::Slow(args) => cmd::slow::run(args),
        Command::Guard(args) => cmd::guard::run(args),
        Command::Man(args) => cmd::man::run(args),
    };
    match result.and_then(|exit| cmd::output::lost().map_or(Ok(exit), Err)) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}
