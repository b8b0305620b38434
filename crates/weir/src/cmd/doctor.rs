//! `weir doctor`: what this host can honestly test, and which gateways it has.

mod advice;
mod examination;

use std::path::PathBuf;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use weir_rig::Drivers;

use crate::cmd::output::print;
use crate::failure::{Exit, Failure};
use examination::Examination;

/// Arguments of `weir doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A folder with a driver, or with drivers, beside those built in; may be given again
    #[arg(long, value_name = "DIR")]
    drivers: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Looks at the host for a second, and says what it found.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let examination = Examination::of_this_host(&Drivers::load(&args.drivers)?);
    if args.json {
        print(serde_json::to_string_pretty(&examination).expect("an examination is plain values"));
    } else {
        tell(&examination);
    }
    Ok(Exit::Good)
}

fn tell(examination: &Examination) {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(["gateway", "version", "binary, or how to get it"]);
    for gateway in &examination.gateways {
        let (version, place) = match (&gateway.version, &gateway.binary) {
            (Some(version), Some(binary)) => (version.clone(), binary.display().to_string()),
            _ => ("missing".into(), gateway.problem.clone().unwrap_or_default()),
        };
        table.add_row([gateway.name.clone(), version, place]);
    }
    print(format_args!("{table}\n"));
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
