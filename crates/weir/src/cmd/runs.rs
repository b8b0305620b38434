//! `weir runs`: lists the stored runs.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use weir_results::{RunListing, RunState};

use super::database::Database;
use super::hint::{database_flag, with_database};
use super::output::print;
use crate::failure::{Exit, Failure};

/// Arguments of `weir runs`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: Database,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints all runs. The newest one comes first.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let runs = match args.database.open_if_any()? {
        Some(store) => store.runs()?,
        None => vec![],
    };
    if args.json {
        print(serde_json::to_string_pretty(&runs).expect("listings can always be written as JSON"));
    } else if runs.is_empty() {
        print(with_database("no runs yet; `weir run quickstart` creates one"));
    } else {
        print(table(&runs).trim_fmt());
    }
    Ok(Exit::Good)
}

fn table(runs: &[RunListing]) -> Table {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["run", "scenario", "started (UTC)", "cells", "state"]);
    for run in runs {
        let state = match (run.state, run.cells_failed) {
            (RunState::Finished, 0) => "finished".to_owned(),
            (RunState::Finished, failed) => format!("finished, {failed} failed"),
            (RunState::Unfinished, _) => {
                format!("unfinished: weir run --resume {}{}", run.id, database_flag())
            }
        };
        let cells = format!("{}/{}", run.cells_done, run.cells_planned);
        table.add_row([run.id.clone(), run.name.clone(), started(run.started_unix_ms), cells, state]);
    }
    if let Some(cells) = table.column_mut(3) {
        cells.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn started(unix_ms: u64) -> String {
    let at = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "-".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S").to_string())
}
