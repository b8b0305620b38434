//! The `weir` program: what an L7 gateway carries, what it costs, and how many are needed.

// In a program, `pub` says what a module offers to the others.
#![allow(unreachable_pub)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cmd;
mod failure;

/// Measures L7 gateways side by side on your own hardware, and says which figures count.
#[derive(Debug, Parser)]
#[command(name = "weir", version, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario: start the gateways, drive load, keep every result, report
    Run(cmd::run::Args),
    /// Write the reports of a finished run again
    Report(cmd::report::Args),
    /// Say how many instances carry a rate, by what a run measured, and what they cost
    Size(cmd::size::Args),
    /// List the runs in the store
    Runs(cmd::runs::Args),
    /// Say what is better, worse or the same in one run, or one gateway, than in another
    Compare(Box<cmd::compare::Args>),
    /// Drive load at one URL (the engine alone)
    Load(Box<cmd::load::Args>),
    /// Serve as an upstream with a known size, delay and share of errors
    Origin(cmd::origin::Args),
    /// Write what would be run for a gateway: configuration files and command lines
    Render(cmd::render::Args),
    /// Say what this host can honestly test, and which gateways were found
    Doctor(cmd::doctor::Args),
    /// Write a stored run as a file: for another weir, or as CSV, JSON, Parquet, HdrHistogram log, k6, Locust
    Export(cmd::export::Args),
    /// Take over a run from a file of `weir export`
    Import(cmd::import::Args),
    /// Print the JSON Schema of scenarios and results
    Schema(cmd::schema::Args),
    /// Print a completion script for a shell
    Completions(cmd::completions::Args),
    #[command(hide = true)]
    Generate(cmd::generate::Args),
    #[command(hide = true)]
    Slow(cmd::slow::Args),
    #[command(hide = true)]
    Guard(cmd::guard::Args),
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
        Command::Doctor(args) => cmd::doctor::run(args),
        Command::Export(args) => cmd::export::run(args),
        Command::Import(args) => cmd::import::run(args),
        Command::Schema(args) => cmd::schema::run(args),
        Command::Completions(args) => cmd::completions::run(args),
        Command::Generate(args) => cmd::generate::run(args),
        Command::Slow(args) => cmd::slow::run(args),
        Command::Guard(args) => cmd::guard::run(args),
    };
    match result.and_then(|exit| cmd::output::lost().map_or(Ok(exit), Err)) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(),
    }
}
