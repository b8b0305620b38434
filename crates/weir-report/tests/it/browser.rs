//! The page in a browser (headless Chromium), as it is when it has just been loaded.

use std::path::{Path, PathBuf};
use std::process::Command;

use weir_analysis::summarize;

use crate::fixture::{self, Scene};

fn chromium() -> PathBuf {
    let own = std::env::current_exe().expect("a path");
    let mut places = own.ancestors().map(|folder| folder.join("target/peers/bin/chromium-headless-shell"));
    places.find(|path| path.exists()).expect("no chromium-headless-shell; `make peers` fetches it")
}

/// What the browser has of `page` once it is loaded; it waits for nothing beyond that.
fn loaded(folder: &Path, page: &str) -> String {
    let mut command = Command::new(chromium());
    command.args(["--no-sandbox", "--disable-gpu", "--timeout=60000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    command.arg(format!("file://{}", folder.join(page).display())).env("HOME", folder);
    let output = command.output().expect("the browser starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    seen(&String::from_utf8(output.stdout).expect("text"))
}

/// A page without what it is drawn from and by.
fn seen(page: &str) -> String {
    page.split_once("<script").map_or(page, |(seen, _)| seen).to_owned()
}

/// What is inside of each element with the class `chart`.
fn charts(page: &str) -> Vec<&str> {
    page.split("<div class=\"chart ").skip(1).collect()
}

/// Whether something is drawn in a chart beside its scales: by us, or by the library.
fn has_marks(chart: &str) -> bool {
    let (end, ours) = (chart.find("</figure>").unwrap_or(chart.len()), "class=\"");
    let drawn = &chart[..end];
    // Classes of fills and strokes in the colours of gateways, and the library's traces.
    let colors = ["blue", "green", "vermilion", "pink", "amber", "violet", "brown", "teal", "grey"];
    let of = |kind: &str, color: &str| drawn.contains(&format!("{ours}{kind}-{color}"));
    colors.iter().any(|color| of("f", color) || of("s", color) || of("ring s", color))
        || drawn.contains("class=\"trace ")
        || drawn.contains("class=\"hm\"")
}

#[test]
fn charts_were_empty_boxes_until_the_script_had_drawn_them() {
    for limits in [&[0.5][..], &[0.25, 0.5]] {
        let (run, cells) = fixture::run(Scene::Good, limits);
        let folder = tempfile::tempdir().expect("a folder");
        weir_report::write(&run, &cells, &summarize(&run, &cells), folder.path()).expect("a report");
        let written = std::fs::read_to_string(folder.path().join("report.html")).expect("the page");
        // Before the script has run, and as soon as the browser calls the page loaded.
        for page in [seen(&written), loaded(folder.path(), "report.html")] {
            let charts = charts(&page);
            assert!(charts.len() >= 10, "{} charts", charts.len());
            for chart in charts {
                let start: String = chart.chars().take(300).collect();
                assert!(has_marks(chart), "nothing is drawn: {start}");
            }
        }
    }
}

#[test]
fn charts_of_a_cell_are_there_as_soon_as_its_page_is() {
    let (run, cells) = fixture::run(Scene::Single, &[0.5]);
    let folder = tempfile::tempdir().expect("a folder");
    weir_report::write(&run, &cells, &summarize(&run, &cells), folder.path()).expect("a report");
    let mut pages: Vec<PathBuf> =
        std::fs::read_dir(folder.path().join("cells")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.sort();
    let page = loaded(folder.path(), pages[0].strip_prefix(folder.path()).unwrap().to_str().unwrap());
    assert_eq!(page.matches("<svg class=\"plot\"").count(), 10, "five charts of each of two loads");
}
