//! `weir size`: computes from a stored run how many instances a request rate needs, and what they cost.

use serde::Serialize;
use weir_analysis::sizing::{Demand, Outcome, Price, PriceOf, Sizing, size};
use weir_analysis::summarize;
use weir_document::{Growth, Price as HourlyPrice, Rate, Share};
use weir_results::Run;

use super::database::Database;
use super::hint::with_database;
use super::output::{note, print};
use super::report::{color, width};
use crate::failure::{Exit, Failure};

/// Explains the exit codes in the help.
const EXIT_CODES: &str = "\
Exit codes:
  0  every gateway has a number of instances
  1  for a gateway, no number can be computed
  2  wrong use
  3  the database cannot be read";

/// Arguments of `weir size`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// Run: its id, a unique prefix of the id, or `last`
    #[arg(default_value = "last")]
    run: String,
    /// Total request rate of all instances, like 10000/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    rate: Rate,
    /// Objective, like 'p99<20ms' or 'errors<0.1%'. Metrics: mean, p50 to p99.99, max, errors. Separate several
    /// objectives with commas, or repeat the option [default: the objective of the run]
    #[arg(long = "objective", value_name = "BOUND")]
    objectives: Vec<String>,
    /// Maximum CPU use of an instance, as share of its CPU limit, like 65%
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    max_cpu: Option<Share>,
    /// Spare instances to add
    #[arg(long, value_name = "N", default_value_t = 0, allow_hyphen_values = true)]
    spare: u32,
    /// Hourly price of an instance (0.17/h), or of one core of the CPU limit (0.05/core/h). With a price per core,
    /// costs at different limits are comparable. A month has 730 hours
    #[arg(long, value_name = "PRICE", allow_hyphen_values = true)]
    price: Option<HourlyPrice>,
    /// Growth of the request rate per year, like 30%/y (compound); also prints the instances needed in 12 and 24 months
    #[arg(long, value_name = "GROWTH", allow_hyphen_values = true)]
    growth: Option<Growth>,
    /// If no load reached --max-cpu, estimate from CPU time per request; the result is marked `extrapolated`
    #[arg(long, requires = "max_cpu")]
    extrapolate: bool,
    #[command(flatten)]
    database: Database,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The document that `weir size --json` prints.
#[derive(Serialize)]
struct Document<'a> {
    run: &'a str,
    scenario: &'a str,
    #[serde(flatten)]
    sizing: &'a Sizing,
}

/// Computes the number of instances for every gateway of the run. The exit code is 1 if a gateway has no result.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let demand = demand(&args)?;
    let store = args.database.open()?;
    let run = store.run(&store.find(&args.run)?)?;
    let cells = store.cells(&run.id)?;
    if cells.len() < run.plan.len() {
        let planned = weir_results::words::counted(run.plan.len() as u64, "cell");
        note(format_args!("run {} is unfinished: {} of {planned} finished", run.id, cells.len()));
    }
    let mut sizing = size(&run, &summarize(&run, &cells), demand);
    require_something(&run.id, &sizing)?;
    if args.json {
        let document = Document { run: &run.id, scenario: &run.name, sizing: &sizing };
        print(serde_json::to_string_pretty(&document).expect("a sizing can always be written as JSON"));
    } else {
        // JSON keeps the placeholders. The report page keeps them too, because it has no database and no run ID. So
        // programs can compare JSON and page.
        name_the_run(&mut sizing, &run);
        print(weir_report::sizing(&run, &sizing, width(), color()).trim_end());
    }
    match sizing.unanswered()[..] {
        [] => Ok(Exit::Good),
        _ => Ok(Exit::BadResult),
    }
}

/// Replaces the placeholders in suggested commands: `RUN` with the ID of the run, and `N` with twice its number of
/// repeats.
fn name_the_run(sizing: &mut Sizing, run: &Run) {
    let repeats = run.plan.iter().map(|key| key.repeat.saturating_add(1)).max().unwrap_or(1);
    for offer in &mut sizing.offers {
        if let Outcome::Refused(refused) = &mut offer.outcome {
            let twice = format!("--repeats {}", repeats.saturating_mul(2));
            let named =
                refused.remedy.replace(" RUN", &format!(" {}", run.id)).replace("--repeats N", &twice);
            refused.remedy = with_database(&named);
        }
    }
}

fn demand(args: &Args) -> Result<Demand, Failure> {
    let bounds = weir_lab::read_bounds("--objective", &args.objectives)?;
    if args.max_cpu == Some(Share(0.0)) {
        let remedy = "use a share above 0, like 65%, or remove --max-cpu";
        return Err(Failure::wrong_use("--max-cpu 0%: out of range", remedy));
    }
    Ok(Demand {
        rate_per_s: args.rate.0,
        bounds: (!bounds.is_empty()).then_some(bounds),
        cpu_share_max: args.max_cpu.map(|share| share.0),
        spare: args.spare,
        price: args.price.map(|price| Price {
            per_hour: price.per_hour,
            of: if price.is_per_core { PriceOf::Core } else { PriceOf::Instance },
        }),
        growth_per_year: args.growth.map(|growth| growth.0),
        extrapolate: args.extrapolate,
    })
}

/// Requires an objective or `--max-cpu`. Without both, no rate would be too high for an instance.
fn require_something(id: &str, sizing: &Sizing) -> Result<(), Failure> {
    let asks_nothing = sizing.offers.iter().find(|offer| offer.bounds.is_empty());
    match asks_nothing.filter(|_| sizing.demand.cpu_share_max.is_none()) {
        None => Ok(()),
        Some(offer) => Err(Failure::wrong_use(
            format!("run {id} has no objective for {}", offer.gateway),
            "set one, like --objective 'p99<20ms', or --max-cpu 65%",
        )),
    }
}
