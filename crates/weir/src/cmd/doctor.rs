//! `weir doctor`: how much load this host can generate, how precisely it can measure, and which gateways are
//! installed.

mod advice;
mod bounds;
mod examination;
mod precision;

use std::path::PathBuf;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use weir_results::{HostBounds, Thresholds};
use weir_rig::Drivers;

use crate::cmd::database::Database;
use crate::cmd::output::{note, print};
use crate::cmd::scope::enter_scope;
use crate::failure::{Exit, Failure};
use examination::Examination;
use precision::Precision;

/// Arguments of `weir doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Additional driver directory: one driver, or one directory per driver; may be repeated
    #[arg(long, value_name = "DIR")]
    drivers: Vec<PathBuf>,
    /// Skip the measurements that take a minute and a half in total: generator ceiling, latency floor and detectable
    /// differences
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    database: Database,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Examines this host, measures and stores its limits (not with `--quick`), and prints the results.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    enter_scope();
    let drivers = Drivers::load(&args.drivers)?;
    let mut store =
        if args.quick { args.database.open_if_there()? } else { Some(args.database.open_or_make()?) };
    let mut examination = Examination::of_this_host(&drivers);
    if !args.quick {
        note("measuring this host for about a minute and a half; --quick skips this");
        let bounds = bounds::measure(&examination.host, examination.disturbance)?;
        if let Some(store) = &mut store {
            // Stored bounds that were measured on a quiet host are kept if the host is not quiet now.
            let before = store.bounds(&bounds.fingerprint)?;
            let limit = Thresholds::default().disturbed_share;
            let is_quiet = |bounds: &HostBounds| bounds.disturbed_share.is_some_and(|share| share <= limit);
            match before.filter(|before| is_quiet(before) && !is_quiet(&bounds)) {
                None => store.keep_bounds(&bounds)?,
                Some(_) => note(
                    "other processes use this host now; weir keeps the earlier results, which it measured while the \
                    host was quiet",
                ),
            }
        }
        examination.bounds = Some(bounds);
        if let Some(gateway) = examination.found() {
            match Precision::measure(&drivers, gateway) {
                Ok(Ok(precision)) => examination.precision = Some(precision),
                Ok(Err(why)) => note(format_args!("detectable differences are unknown: {gateway}: {why}")),
                Err(failure) => {
                    note(format_args!("cannot measure detectable differences: {}", failure.problem.message))
                }
            }
        }
    } else if let (Some(store), Some(host)) = (&store, HostBounds::fingerprint(&examination.host)) {
        examination.bounds = store.bounds(&host)?;
    }
    examination.advise();
    if args.json {
        print(
            serde_json::to_string_pretty(&examination).expect("an examination can always be written as JSON"),
        );
    } else {
        tell(&examination);
    }
    Ok(Exit::Good)
}

fn tell(examination: &Examination) {
    for (what, all) in [("gateway", &examination.gateways), ("service", &examination.services)] {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header([what, "version", "binary, or how to get it"]);
        for one in all {
            let (version, place) = match (&one.version, &one.binary) {
                (Some(version), Some(binary)) => (version.clone(), binary.display().to_string()),
                _ => ("missing".into(), one.problem.clone().unwrap_or_default()),
            };
            table.add_row([one.name.clone(), version, place]);
        }
        print(format_args!("{table}\n"));
    }
    let mut table = Table::new();
    table.load_preset(NOTHING);
    for (name, value) in examination.facts() {
        table.add_row([name.to_owned(), value]);
    }
    print(format_args!("{table}\n"));
    for sentence in &examination.advice {
        print(format_args!("- {sentence}"));
    }
}
