//! What a finished run ends with: tables or JSON, reports, and the exit code.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_analysis::{Summary, summarize};
use weir_results::{Cell, Run, Store};

use crate::failure::{Exit, Failure};

/// Columns of a table where standard output is no terminal.
const WIDTH: usize = 110;

/// The JSON of `weir run --json`.
#[derive(Serialize)]
struct Document<'a> {
    run: &'a Run,
    cells: &'a [Cell],
    summary: &'a Summary,
}

/// Prints and writes what the run `id` says.
pub(super) fn report(store: &Store, id: &str, out: Option<&Path>, json: bool) -> Result<Exit, Failure> {
    let run = store.run(id)?;
    let cells = store.cells(id)?;
    let summary = summarize(&run, &cells);
    if json {
        let document = Document { run: &run, cells: &cells, summary: &summary };
        println!("{}", serde_json::to_string(&document).expect("results are a tree of plain values"));
    } else {
        println!("{}", weir_report::terminal(&run, &cells, &summary, width(), color()));
    }
    let dir = out.map_or_else(|| PathBuf::from("weir-results").join(id), Path::to_path_buf);
    let written = weir_report::write(&run, &cells, &summary, &dir).map_err(|error| {
        let remedy = format!("the run is kept: `weir report {id} --out DIR` writes its reports elsewhere");
        Failure::environment(format!("{}: the reports cannot be written: {error}", dir.display()), remedy)
    })?;
    let say = |line: String| if json { eprintln!("{line}") } else { println!("{line}") };
    for path in [&written.html, &written.markdown, &written.csv] {
        say(path.display().to_string());
    }
    say(format!("run {id}, kept in {}", store.path().display()));
    match summary.problems() {
        [] => Ok(Exit::Good),
        problems => {
            for problem in problems {
                eprintln!("bad: {problem}");
            }
            Ok(Exit::BadResult)
        }
    }
}

fn width() -> usize {
    terminal_size::terminal_size().map_or(WIDTH, |(width, _)| usize::from(width.0))
}

fn color() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}
