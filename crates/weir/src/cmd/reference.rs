//! `weir reference`: generates the pages in docs/reference from types and command-line arguments.

use clap::{CommandFactory, ValueEnum};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, schema_for};
use serde_json::Value;
use weir_export::ColumnDescription;
use weir_lab::scenario::Scenario;
use weir_reference::{Document, Use, commands, page, table};
use weir_rig::{DriverFile, ServiceFile};
use weir_watch::{Family, LABELS, Label, families};

use super::output::print;
use super::schema::Results;
use crate::failure::{Exit, Failure};

const SCENARIO: &str = "\
Look up the type, default and meaning of a field of a scenario. `weir reference` prints this page, and `weir schema` prints \
the JSON Schema, for editors. [scenarios.md](../scenarios.md) shows how to write a scenario.

A scenario is one document, YAML or JSON. Unknown fields are errors.";

const DRIVER: &str = "\
Look up a field of a driver's `driver.yaml`. `weir reference driver` prints this page, and `weir schema driver` prints the \
JSON Schema. [drivers.md](../drivers.md) shows how to write a driver.";

const SERVICE: &str = "\
Look up a field of a service's `service.yaml`. `weir reference service` prints this page, and `weir schema service` prints \
the JSON Schema. [services.md](../services.md) shows how to write a service.";

const RESULTS: &str = "\
Look up a field of the JSON document that `weir run --json` and `weir report --json` print. `weir reference results` prints \
this page, and `weir schema results` prints the JSON Schema.

A value that was not measured is null or missing, never 0. The name of a field ends with its unit: `_ns`, `_s`, `_bytes`, \
`_share` (0 to 1).";

const COMMANDS: &str = "\
Look up a command or flag of weir. `weir reference cli` prints this page; `weir COMMAND --help` prints the same in the \
terminal.";

const COLUMNS: &str = "\
Look up a column of `weir export --format csv` or `parquet`, and of `cells.csv` of a report. `weir reference columns` prints \
this page; [export.md](../export.md) shows how to export.

- Each row is a load of a cell (`set` is `load`), a step of that load (`set` is `step`), a route of that load (`set` is \
`route`), or a failed cell (`set` is empty). Filter by `set` before you add rows up. Rows of steps and routes \
contain only names, request counts, times, and the \
verdicts of their load.
- A value that was not measured is missing, never 0. Shares are 0 to 1.
- Latency is from the intended send time (open loop) or the send (closed loop) to the last byte. Service time is from the \
send to the last byte; it is missing for routes. Lateness is actual minus intended send time; it is missing in \
closed loop and for routes.
- Quantiles are nearest-rank. In quantiles of latency and service time, unanswered requests count as the slowest; \
mean and standard deviation cover answered requests only.
- *integer* is an unsigned INT64 in Parquet, *float* a DOUBLE, *text* UTF-8.
- New versions of weir add columns, but never rename one. The format `json` also has values for each status code, \
part, error message and second.";

const FINDINGS: &str = "\
`weir export --findings` has a row per value of a finding. A report has the same rows in `findings.csv`.";

const RUN_METRICS: &str = "\
Look up a metric or label of `--prometheus-write` and `--otlp`. `weir run` and `weir load` push the metrics every \
second while a load runs, including warm-up and drain. `weir reference run-metrics` prints this page; \
[watching.md](../watching.md) shows how to use the metrics.";

const LABELS_NOTE: &str = "\
Values have at most 64 characters. In OpenTelemetry, `http.client.request.duration` also has `server.address`, `server.port`, \
`url.scheme` and `http.request.method` if they are the same for all requests of the load.";

/// Arguments of `weir reference`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Page
    #[arg(value_enum, default_value_t = Page::Scenario)]
    page: Page,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    /// Fields of scenarios
    Scenario,
    /// Fields of driver.yaml
    Driver,
    /// Fields of service.yaml
    Service,
    /// Fields of results, as `weir run --json` prints them
    Results,
    /// Commands and flags
    Cli,
    /// Columns of exports
    Columns,
    /// Metrics that --prometheus-write and --otlp push
    RunMetrics,
}

/// Prints the chosen page to standard output.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let page = match args.page {
        Page::Scenario => read("Fields of a scenario", SCENARIO, schema_for!(Scenario).as_value()),
        Page::Driver => read("Fields of driver.yaml", DRIVER, schema_for!(DriverFile).as_value()),
        Page::Service => read("Fields of service.yaml", SERVICE, schema_for!(ServiceFile).as_value()),
        Page::Results => written("Fields of results", RESULTS, &written_schema::<Results>()),
        Page::Cli => commands("Commands and flags of weir", COMMANDS, crate::Cli::command()),
        Page::Columns => columns(),
        Page::RunMetrics => run_metrics(),
    };
    print(page.trim_end());
    Ok(Exit::Good)
}

/// The page about a document that users write.
fn read(title: &str, introduction: &str, schema: &Value) -> String {
    Document { title, introduction, schema, forms: &[], use_of: Use::Read }.to_markdown()
}

/// The page about a document that weir writes.
fn written(title: &str, introduction: &str, schema: &Value) -> String {
    Document { title, introduction, schema, forms: &[], use_of: Use::Written }.to_markdown()
}

/// The JSON Schema of a document that weir writes. It shows which fields can be missing.
fn written_schema<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}

fn columns() -> String {
    let rows = |columns: Vec<ColumnDescription>| {
        let row = |column: ColumnDescription| {
            vec![format!("`{}`", column.name), column.kind.to_owned(), column.meaning]
        };
        table(&["column", "type", "meaning"], columns.into_iter().map(row))
    };
    let of_loads = rows(weir_export::columns());
    let of_findings = rows(weir_export::findings_columns());
    let body = format!("## Loads\n{of_loads}\n## Findings\n{FINDINGS}\n\n{of_findings}");
    page("Columns of exports", COLUMNS, &body)
}

fn run_metrics() -> String {
    let family = |family: &&Family| {
        let labels: Vec<String> = family.labels.iter().map(|name| format!("`{name}`")).collect();
        let [name, otlp_name] = [family.name, family.otlp_name].map(|name| format!("`{name}`"));
        let kind = family.kind.name().to_owned();
        vec![name, otlp_name, kind, family.unit.to_owned(), labels.join(", "), family.help.to_owned()]
    };
    let head = ["Prometheus", "OpenTelemetry", "type", "unit (UCUM)", "own labels", "meaning"];
    let metrics = table(&head, families().iter().map(family));
    let row = |label: &Label| {
        let [name, otlp_name] = [label.name, label.otlp_name].map(|name| format!("`{name}`"));
        vec![name, otlp_name, label.meaning.to_owned()]
    };
    let labels_of = |is_of_load: bool| {
        let labels = LABELS.iter().filter(|label| label.is_of_load == is_of_load).map(row);
        table(&["Prometheus", "OpenTelemetry", "meaning"], labels)
    };
    let body = format!(
        "## Metrics\n{metrics}\n## Labels of every metric\n{LABELS_NOTE}\n\n{}\n## Own labels\n{}",
        labels_of(true),
        labels_of(false)
    );
    page("Metrics of a run", RUN_METRICS, &body)
}
