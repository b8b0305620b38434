//! `weir schema`: prints the JSON Schemas of the documents that weir reads and writes.

use clap::ValueEnum;
use schemars::{JsonSchema, Schema, schema_for};
use weir_lab::scenario::Scenario;
use weir_results::{Cell, Run};
use weir_rig::{DriverFile, ServiceFile};

use super::output::print;
use crate::failure::{Exit, Failure};

/// Arguments of `weir schema`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Document
    #[arg(value_enum, default_value_t = Document::Scenario)]
    document: Document,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Document {
    /// Scenario files, read by `weir run`
    Scenario,
    /// Results, written by `weir run --json`
    Results,
    /// Driver files (driver.yaml)
    Driver,
    /// Files of services that gateways need (service.yaml)
    Service,
}

/// A run and its cells.
#[derive(JsonSchema)]
#[allow(dead_code)]
pub(crate) struct Results {
    /// The run.
    run: Run,
    /// The finished cells of the run, in the order of `run.plan`.
    cells: Vec<Cell>,
    /// Results over all repeats: load points, findings and comparisons, as in the report.
    summary: serde_json::Map<String, serde_json::Value>,
}

/// Prints the chosen schema to standard output.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let schema: Schema = match args.document {
        Document::Scenario => schema_for!(Scenario),
        Document::Results => schema_for!(Results),
        Document::Driver => schema_for!(DriverFile),
        Document::Service => schema_for!(ServiceFile),
    };
    print(serde_json::to_string_pretty(&schema).expect("a schema can always be written as JSON"));
    Ok(Exit::Good)
}
