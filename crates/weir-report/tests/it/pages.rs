//! The pages of cells, the pictures, and the sizes of all files of a large run.

use std::path::{Path, PathBuf};

use weir_analysis::summarize;
use weir_results::{Cell, CellOutcome, Reason, Run};

use crate::figures::{figure, figures, id, legend, panels, table};
use crate::fixture::{self, Scene};

/// Maximum size in bytes of the page of a large run, so that it fits into a mail and opens quickly.
const PAGE_MAX: usize = 6_500_000;
/// Maximum size in bytes of the page of a small run, with a few gateways and two loads.
const SMALL_PAGE_MAX: usize = 600_000;

struct Report {
    folder: tempfile::TempDir,
}

impl Report {
    fn of(run: &Run, cells: &[Cell]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        weir_report::write(run, cells, &summarize(run, cells), folder.path()).expect("a report");
        Self { folder }
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name))
            .unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn list(&self, folder: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path().join(folder)).expect("a folder of the report");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.sort();
        paths
    }

    fn page(&self) -> String {
        self.read("report.html")
    }
}

/// The values of all attributes with this name in a page.
fn attributes<'a>(page: &'a str, name: &str) -> Vec<&'a str> {
    let start = format!(" {name}=\"");
    page.split(&start).skip(1).filter_map(|rest| rest.split_once('"')).map(|(value, _)| value).collect()
}

#[test]
fn every_cell_has_a_page_that_the_report_links() {
    let (run, cells) = fixture::run(Scene::Mixed, &[0.5]);
    let report = Report::of(&run, &cells);
    let page = report.page();
    let mut links: Vec<&str> =
        attributes(&page, "href").into_iter().filter(|link| link.starts_with("cells/")).collect();
    links.sort_unstable();
    links.dedup();
    let files: Vec<String> = report
        .list("cells")
        .iter()
        .map(|path| format!("cells/{}", path.file_name().unwrap().to_str().unwrap()))
        .collect();
    assert_eq!(links, files);
    assert_eq!(links.len(), cells.len());
}

#[test]
fn the_page_of_a_cell_is_complete() {
    let (run, cells) = fixture::run(Scene::Mixed, &[0.5]);
    let report = Report::of(&run, &cells);
    let at = |gateway: &str, repeat: u32| {
        let cell =
            cells.iter().find(|cell| cell.key.gateway == gateway && cell.key.repeat == repeat).unwrap();
        (cell, report.read(&format!("cells/{:03}-{gateway}-{}.html", cell.key.index + 1, repeat + 1)))
    };
    let (cell, page) = at("nginx", 1);
    let CellOutcome::Measured { measurements } = &cell.outcome else { panic!("it was measured") };
    for part in [
        "nginx, repeat 2",
        "host-noise",
        "<figcaption>Throughput</figcaption>",
        "<figcaption>Latency per step</figcaption>",
        "<figcaption>CPU, cores used</figcaption>",
        "<figcaption>Memory</figcaption>",
        "<figcaption>Latency of all responses of the sustained phase</figcaption>",
        "listen 127.0.0.1:41873",
        "nginx: &lt;ready&gt; &amp; listening",
        "last part of the file; total size 8.79 KiB",
        "nginx --config nginx.conf",
        &cell.parts[0].binary_sha256,
        "../report.html#cells",
    ] {
        assert!(page.contains(part), "no `{part}` in {page}");
    }
    let evidence = &measurements[1].judgement.evidence[0];
    let words = |text: &str| text.replace('\u{a0}', " ").replace("<code>", "`").replace("</code>", "`");
    assert!(words(&page).contains(evidence.as_str()), "no `{evidence}`");
    // Two loads have four charts each. Each chart has a column with a tooltip for each of 12 seconds.
    assert_eq!(page.matches("class=\"hover\"").count(), 12 * 4 * 2);

    let (_, page) = at("haproxy", 2);
    assert!(
        page.contains("Failed: never-ready") && page.contains("unknown keyword &#x27;&lt;maxconnn&gt;&#x27;"),
        "{page}"
    );
}

#[test]
fn the_page_of_a_cell_loads_and_executes_nothing() {
    let evil = "</style></pre><script>alert(1)</script><img src=x onerror=alert(1)>";
    let (run, mut cells) = fixture::run(Scene::Mixed, &[0.5]);
    for cell in &mut cells {
        cell.unequal.push(evil.into());
        cell.parts.iter_mut().for_each(|part| part.command.push(evil.into()));
        cell.files.iter_mut().for_each(|file| file.text.push_str(evil));
        if cell.key.gateway == "nginx" {
            cell.key.gateway = evil.into();
        }
    }
    let report = Report::of(&run, &cells);
    for path in report.list("cells").into_iter().chain(report.list("charts")) {
        let text = std::fs::read_to_string(&path).unwrap();
        for forbidden in ["<script", "<img", "src=", "url(", "@import", "<link", "<iframe"] {
            let found = text.replace("src=x", "").contains(forbidden);
            assert!(!found, "{} has {forbidden}", path.display());
        }
        let elsewhere = text.replace("http://www.w3.org/2000/svg", "");
        assert!(!elsewhere.contains("http://") && !elsewhere.contains("https://"), "{}", path.display());
        if path.extension().is_some_and(|end| end == "html") {
            assert!(text.contains("default-src 'none'"));
            assert_eq!(attributes(&text, "href"), ["../report.html#cells"]);
        }
    }
}

#[test]
fn a_run_without_axes_has_no_charts_over_them() {
    let (run, cells) = fixture::run(Scene::Good, &[0.5]);
    let page = Report::of(&run, &cells).page();
    assert!(!page.contains("id=\"axes\"") && !figures(&page).iter().any(|of| id(of).contains("-over-")));
}

#[test]
fn charts_over_an_axis_have_intervals_and_descriptions() {
    let (run, cells) = fixture::run(Scene::Good, &[0.25, 0.5, 1.0]);
    let report = Report::of(&run, &cells);
    let page = report.page();
    let ids: Vec<&str> = figures(&page).into_iter().map(id).filter(|id| id.contains("-over-")).collect();
    let over = |load: &str, figures: &[&str]| -> Vec<String> {
        figures.iter().map(|figure| format!("{figure}-over-limits-data-cpus-{load}")).collect()
    };
    // A closed load makes the gateway reach its CPU quota, so its latency is invalid and not drawn.
    let full = over("full", &["throughput", "cpu-per-request", "scaling", "efficiency"]);
    let tail = over("tail", &["throughput", "p50", "p99", "cpu-per-request"]);
    assert_eq!(ids, [full, tail].concat());
    for id in &ids {
        assert!(page.contains(&format!("href=\"charts/{id}.svg\"")), "no picture of {id}");
        assert!(report.read(&format!("charts/{id}.svg")).starts_with("<svg "));
    }
    let of = |name: &'static str, id: &str| -> Vec<Vec<&str>> {
        table(figure(&page, id)).into_iter().filter(|row| row[0] == name).collect()
    };
    let number = |text: &str| text.parse::<f64>().unwrap();
    let full = "throughput-over-limits-data-cpus-full";
    assert_eq!(
        table(figure(&page, full))[0][1..5],
        ["limits.data.cpus, cores", "Throughput, 1/s", "low", "high"]
    );
    assert_eq!(of("nginx", full).len(), 3);
    for row in of("nginx", full) {
        let [mean, low, high] = [2, 3, 4].map(|at| number(row[at]));
        assert!(low < mean && mean < high && row[5] == "yes", "{row:?}");
        assert!(row[6].contains("3 repeats; limited by gateway"), "{row:?}");
    }
    let direct = &of("direct", full)[0];
    assert!(direct[5] == "no" && direct[6].contains("generator-limited; 0 of 3 repeats valid"), "{direct:?}");
    // In the fixture, throughput is proportional to the CPU limit, so the efficiency is 100 % except for differences
    // between repeats.
    for row in of("nginx", "efficiency-over-limits-data-cpus-full") {
        assert!((number(row[2]) - 100.0).abs() < 5.0, "{row:?}");
    }
    let names = legend(figure(&page, "cpu-per-request-over-limits-data-cpus-full"));
    assert_eq!(names, ["weir", "envoy", "nginx", "haproxy"], "the direct baseline has no data plane");
    insta::assert_snapshot!(report.read("charts/efficiency-over-limits-data-cpus-full.svg"));
}

#[test]
fn instances_are_sized_only_from_valid_repeats() {
    let page = |scene| {
        let (run, cells) = fixture::run(scene, &[0.5]);
        Report::of(&run, &cells).page()
    };
    let good = page(Scene::Good);
    for part in [
        "<div class=\"sliders\" hidden>",
        "weir size 20261121-0210-k3fz --rate 10000/s --objective 'p99&lt;20ms'</code>",
    ] {
        assert!(good.contains(part), "no `{part}`");
    }
    let single = page(Scene::Single);
    assert!(single.contains("This run cannot answer how many instances are needed"), "{single}");
    assert!(!single.contains("<div class=\"sliders\"") && !single.contains("<code class=\"command\""));
}

#[test]
fn two_axes_are_small_multiples() {
    let (run, cells) = fixture::run_over(&[0.25, 0.5], &[4, 16]);
    let page = Report::of(&run, &cells).page();
    let panels = |id: &str| panels(figure(&page, id));
    let slower = ["loads.full.connections = 4", "loads.full.connections = 16"];
    assert_eq!(panels("throughput-over-limits-data-cpus-full"), slower);
    assert_eq!(panels("scaling-over-limits-data-cpus-full"), slower);
    let limits = ["limits.data.cpus = 0.25", "limits.data.cpus = 0.5"];
    assert_eq!(panels("cpu-per-request-over-loads-full-connections-full"), limits);
    assert!(page.contains("<h4>loads.full.connections = 4</h4>"));
}

#[test]
fn markdown_shows_every_picture() {
    let (run, cells) = fixture::run(Scene::Good, &[0.25, 0.5]);
    let report = Report::of(&run, &cells);
    let text = report.read("report.md");
    let mut pictures = report.list("charts");
    assert!(pictures.len() > 20, "{}", pictures.len());
    pictures.push(report.folder.path().join("comparison.svg"));
    for picture in pictures {
        let name = picture.strip_prefix(report.folder.path()).unwrap().to_str().unwrap();
        assert_eq!(text.matches(&format!("]({name})")).count(), 1, "{name}");
    }
}

#[test]
fn the_report_of_a_hundred_cells_stays_small() {
    let (run, mut cells) = fixture::run(Scene::Good, &[0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0]);
    fixture::lengthen(&mut cells, 62);
    assert!(cells.len() >= 100);
    let report = Report::of(&run, &cells);
    let size = |path: &Path| std::fs::metadata(path).unwrap().len() as usize;
    let page = size(&report.folder.path().join("report.html"));
    assert!(page < PAGE_MAX, "report.html has {page} bytes");
    for (folder, max) in [("cells", 250_000), ("charts", 250_000)] {
        let greatest = report.list(folder).into_iter().max_by_key(|path| size(path)).unwrap();
        assert!(size(&greatest) < max, "{} has {} bytes", greatest.display(), size(&greatest));
    }
    let page = report.page();
    let maps: Vec<&str> = attributes(&page, "data-columns");
    assert_eq!(maps.len(), cells.len() * 2, "each load of each cell can be shown");
    assert!(maps.iter().all(|map| map.split(' ').count() == 62));
}

#[test]
fn a_page_of_a_few_gateways_can_be_mailed() {
    let (run, cells) = fixture::run(Scene::Good, &[0.5]);
    let page = Report::of(&run, &cells).page();
    assert!(page.len() < SMALL_PAGE_MAX, "report.html has {} bytes", page.len());
}

#[test]
fn a_long_load_has_as_many_steps_as_a_load_of_two_minutes() {
    let (run, mut cells) = fixture::run(Scene::Single, &[0.5]);
    cells.truncate(1);
    fixture::lengthen(&mut cells, 1_000);
    let page = Report::of(&run, &cells).page();
    for series in ["rate-per-s", "p99-ns", "data-cores", "data-memory-bytes", "heat"] {
        for point in 0..2 {
            let steps = table(figure(&page, &format!("point-{point}-{series}-repeat-1"))).len() - 1;
            assert!((100..=122).contains(&steps), "{series} has {steps} steps");
        }
    }
    let heights = attributes(&page, "data-rows");
    assert!(heights.len() == 2 && heights.iter().all(|rows| rows.parse::<u32>().unwrap() <= 40));
}

#[test]
fn every_chart_has_a_label_and_its_values_as_a_table() {
    let (run, cells) = fixture::run_over(&[0.25, 0.5], &[4, 16]);
    let page = Report::of(&run, &cells).page();
    let all = figures(&page);
    assert!(all.len() > 60, "{}", all.len());
    assert_eq!(all.len(), page.matches("<figure").count(), "there are other charts");
    for figure in all {
        let rows = table(figure);
        assert!(rows.len() > 1, "no values: {}", id(figure));
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{}: {rows:?}", id(figure));
        let pictures = figure.matches("<svg ").count();
        assert!(pictures > 0 && figure.matches("role=\"img\" aria-label=\"").count() == pictures);
        assert!(!figure.contains("aria-label=\"\""), "{}", id(figure));
    }
    // IDs are the names of elements and files, so they must be unique.
    let mut ids: Vec<&str> = figures(&page).into_iter().map(id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count);
}

#[test]
fn each_row_of_a_table_over_time_has_a_column() {
    let (run, cells) = fixture::run(Scene::Mixed, &[0.5]);
    let page = Report::of(&run, &cells).page();
    let over_time: Vec<&str> = figures(&page)
        .into_iter()
        .filter(|figure| id(figure).contains("-repeat-") && !figure.contains("class=\"heat\""))
        .collect();
    assert_eq!(over_time.len(), 4 * 2 * 3, "four series of two loads and three repeats");
    for figure in over_time {
        let columns = figure.matches("class=\"hover\"").count();
        assert_eq!(columns, table(figure).len() - 1, "{}", id(figure));
        let has_titles = id(figure).starts_with("point-0-") && id(figure).ends_with("-repeat-1");
        assert_eq!(figure.contains("<title>"), has_titles, "{}", id(figure));
    }
    let excluded = legend(figure(&page, "point-0-rate-per-s-repeat-1"));
    assert_eq!(excluded, ["weir", "envoy", "nginx", "haproxy", "direct: invalid"]);
}

#[test]
fn an_excluded_value_is_no_reference_for_scaling() {
    let (run, mut cells) = fixture::run(Scene::Good, &[0.25, 0.5]);
    let least = |cell: &&mut Cell| cell.key.gateway == "weir" && cell.key.axes["limits.data.cpus"] == 0.25;
    for cell in cells.iter_mut().filter(least) {
        let CellOutcome::Measured { measurements } = &mut cell.outcome else { panic!("it was measured") };
        measurements[0].judgement.verdicts.throughput = vec![Reason::HostNoise];
        measurements[0].judgement.bounds = None;
    }
    let page = weir_report::html(&run, &cells, &summarize(&run, &cells)).unwrap();
    let scaling = legend(figure(&page, "scaling-over-limits-data-cpus-full"));
    assert!(scaling.contains(&"nginx, linear scaling") && !scaling.contains(&"weir, linear scaling"));
    // The throughput at the limit 0.25 is excluded. So the relative throughput per core at 0.5, which is computed from
    // it, is also excluded.
    let tables = figures(&page).into_iter().flat_map(table).flatten();
    let invalid = tables.filter(|cell| cell.contains("host-noise; 0 of 3 repeats valid")).count();
    assert_eq!(invalid, 4, "throughput over the limit, scaling, and both efficiencies");
    let titles = page.split("<title>").skip(2).map(|rest| rest.split("</title>").next().unwrap());
    let invalid = titles.filter(|title| title.contains("host-noise; 0 of 3 repeats valid")).count();
    assert_eq!(invalid, 4, "pictures show it too");
}
