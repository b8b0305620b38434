//! Snapshots of every format.

use weir_analysis::{Summary, summarize};
use weir_results::{Cell, Run};

use crate::fixture::{self, Scene};

fn made(scene: Scene, cpus: &[f64]) -> (Run, Vec<Cell>, Summary) {
    let (run, cells) = fixture::run(scene, cpus);
    let summary = summarize(&run, &cells);
    (run, cells, summary)
}

fn terminal(scene: Scene, width: usize, color: bool) -> String {
    let (run, cells, summary) = made(scene, &[0.5]);
    weir_report::terminal(&run, &cells, &summary, width, color)
}

/// The page with `…` in place of style, scripts, data, pictures, tables of values, and charts over time that are
/// initially hidden.
fn skeleton(page: &str) -> String {
    let mut out = String::new();
    let mut rest = page;
    while let Some(start) = ["<script", "<style", "<svg", "<template", "<details class=\"numbers\""]
        .iter()
        .filter_map(|tag| rest.find(tag))
        .min()
    {
        let (before, element) = rest.split_at(start);
        let open = element.find('>').expect("a tag") + 1;
        let name = element[1..].split([' ', '>']).next().expect("a name");
        let end = &format!("</{name}>");
        let close = element.find(end).expect("an end tag");
        out.push_str(before);
        out.push_str(&element[..open]);
        out.push('…');
        out.push_str(end);
        rest = &element[close + end.len()..];
    }
    out + rest
}

#[test]
fn a_mixed_run_on_a_wide_terminal() {
    insta::assert_snapshot!(terminal(Scene::Mixed, 140, false));
}

#[test]
fn a_good_run_on_a_narrow_terminal() {
    insta::assert_snapshot!(terminal(Scene::Good, 80, false));
}

#[test]
fn noisy_headlines_are_marked_and_reported_with_their_values() {
    let (mut run, cells, good) = made(Scene::Good, &[0.5]);
    assert!(good.problems().is_empty(), "{:?}", good.problems());
    run.thresholds.interval_share = Some(0.000_001);
    let summary = summarize(&run, &cells);
    let text = weir_report::markdown(&run, &cells, &summary);
    for part in
        ["noisy: throughput ", "is uncertain by ", "(allowed: 0.0001 %)", "In this scenario the interval"]
    {
        assert!(text.contains(part), "no `{part}` in {text}");
    }
    // Find the row with the number of valid repeats and the reason. It must contain the value in parentheses.
    let row = text
        .lines()
        .find(|line| line.contains("3 of 3 noisy"))
        .unwrap_or_else(|| panic!("no mark in {text}"));
    assert!(row.contains("| ("), "{row}");
}

#[test]
fn values_from_two_of_three_repeats_are_marked() {
    let (run, cells, summary) = made(Scene::Mixed, &[0.5]);
    let wide = weir_report::terminal(&run, &cells, &summary, 160, false);
    let markdown = weir_report::markdown(&run, &cells, &summary);
    // One cell of haproxy failed, so it has no headline value. All cells of nginx at full load are complete.
    let row = |text: &str, name: &str| {
        text.lines().find(|line| line.trim_start().starts_with(name)).unwrap().to_owned()
    };
    assert!(row(&wide, "haproxy ").contains("24,442/s*"), "{wide}");
    assert!(!row(&wide, "nginx ").contains("21,524/s*"), "{wide}");
    assert!(row(&markdown, "| haproxy ").contains("24,442/s\\* ["), "{markdown}");
    let legend = "report.html gives the reason. *: fewer than three valid repeats, so no headline.";
    assert!(wide.split_whitespace().collect::<Vec<_>>().join(" ").contains(legend), "{wide}");
    assert!(
        markdown.contains("all loads gives the reason. \\*: fewer than three valid repeats, so no headline.")
    );
    // If no gateway has three repeats, values have no `*`: only the verdict reports that there are too few repeats.
    assert!(!terminal(Scene::Single, 160, false).contains('*'));
    assert!(!terminal(Scene::Good, 160, false).contains("*:"));
}

#[test]
fn a_single_repeat_on_a_terminal() {
    insta::assert_snapshot!(terminal(Scene::Single, 110, false));
}

#[test]
fn the_legend_of_a_terminal_explains_only_marks_of_its_columns() {
    for (scene, width) in [(Scene::Mixed, 160), (Scene::Mixed, 60), (Scene::Good, 160), (Scene::Single, 110)]
    {
        let text = terminal(scene, width, false);
        let tables: Vec<&str> = text.lines().filter(|line| !line.starts_with("  •")).collect();
        let (tables, legend) = tables.split_at(tables.len() - 4);
        let has = |lines: &[&str], what: &str| lines.iter().any(|line| line.contains(what));
        assert_eq!(has(legend, "in parentheses"), has(tables, " ("), "{text}");
        assert_eq!(has(legend, "*:"), has(tables, "*"), "{text}");
    }
}

#[test]
fn a_narrow_terminal_keeps_p99_and_drops_p99_9() {
    let head = |width| {
        terminal(Scene::Good, width, false).lines().find(|line| line.contains("Mean RPS")).unwrap().to_owned()
    };
    assert!(head(80).contains("p99 at 5,000/s") && !head(80).contains("p99.9"), "{}", head(80));
    assert!(head(160).contains("p99.9 at 5,000/s"), "{}", head(160));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for (scene, width) in [(Scene::Mixed, 80), (Scene::Good, 90), (Scene::Mixed, 200)] {
        for line in terminal(scene, width, false).lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
    }
}

#[test]
fn escape_sequences_need_color() {
    assert!(!terminal(Scene::Mixed, 100, false).contains('\u{1b}'));
    assert!(
        terminal(Scene::Mixed, 100, true).contains("\u{1b}[1;31m8 valid, 2 bounded, 6 invalid main results")
    );
}

#[test]
fn a_mixed_run_as_markdown() {
    let (run, cells, summary) = made(Scene::Mixed, &[0.5]);
    insta::assert_snapshot!(weir_report::markdown(&run, &cells, &summary));
}

#[test]
fn a_run_over_an_axis_as_markdown() {
    let (run, cells, summary) = made(Scene::Good, &[0.25, 1.0]);
    let text = weir_report::markdown(&run, &cells, &summary);
    let headings: Vec<&str> =
        text.lines().filter(|line| line.starts_with('#') || line.starts_with("**")).collect();
    insta::assert_snapshot!(headings.join("\n"));
}

#[test]
fn the_skeleton_of_the_page() {
    let (run, cells, summary) = made(Scene::Mixed, &[0.5]);
    insta::assert_snapshot!(skeleton(&weir_report::html(&run, &cells, &summary).unwrap()));
}

#[test]
fn the_picture_of_the_headlines() {
    let dir = tempfile::tempdir().unwrap();
    let (run, cells, summary) = made(Scene::Mixed, &[0.5]);
    let written = weir_report::write(&run, &cells, &summary, dir.path()).unwrap();
    insta::assert_snapshot!(std::fs::read_to_string(dir.path().join("comparison.svg")).unwrap());
    let markdown = std::fs::read_to_string(written.markdown).unwrap();
    assert!(markdown.contains("![side-by-side compared](comparison.svg)"));
}

#[test]
fn a_run_without_measurements_has_a_report() {
    let (mut run, _) = fixture::run(Scene::Single, &[0.5]);
    run.ended_unix_ms = None;
    let summary = summarize(&run, &[]);
    let dir = tempfile::tempdir().unwrap();
    let written = weir_report::write(&run, &[], &summary, dir.path()).unwrap();
    assert!(written.html.is_file() && !dir.path().join("comparison.svg").exists());
    let text = weir_report::terminal(&run, &[], &summary, 100, false);
    assert!(text.contains("no gateway was measured"), "{text}");
}
