//! Comparisons in every format.

use weir_analysis::compare::{Comparison, Dataset, Question, compare};

use crate::fixture::{self, Scene};

/// The good run, and the mixed one under another id and on another kernel.
fn comparison(label: &str) -> Comparison {
    let side = |scene, id: &str, kernel: &str| {
        let (mut run, cells) = fixture::run(scene, &[0.5]);
        run.id = id.into();
        run.manifest.kernel = Some(kernel.into());
        Dataset::of_run(&run, &cells, None).expect("all gateways")
    };
    let a = side(Scene::Good, "20261120-0900-aaaa", "Linux 6.12.1 x86_64");
    let mut b = side(Scene::Mixed, "20261121-0210-k3fz", "Linux 6.18.2 x86_64");
    if !label.is_empty() {
        b.label = label.into();
    }
    compare(&a, &b, &Question::default()).expect("the same scenario")
}

#[test]
fn a_comparison_on_a_terminal() {
    insta::assert_snapshot!(weir_report::comparison_terminal(&comparison(""), 140, false));
}

#[test]
fn a_comparison_as_markdown() {
    insta::assert_snapshot!(weir_report::comparison_markdown(&comparison("")));
}

#[test]
fn a_comparison_fits_the_terminal() {
    for width in [80, 110, 200] {
        for line in weir_report::comparison_terminal(&comparison(""), width, false).lines() {
            assert!(line.chars().count() <= width, "{} > {width}: {line}", line.chars().count());
        }
    }
}

#[test]
fn the_page_of_a_comparison_lays_both_over_each_other_and_runs_nothing() {
    let page = weir_report::comparison_html(&comparison("<img src=x>")).expect("a page");
    let points = 8;
    assert_eq!(page.matches("Figures with their 95 % intervals").count(), points, "bars for each");
    assert_eq!(page.matches("Latency by quantile, all").count(), points, "curves for each");
    assert!(page.matches("s-blue").count() > points && page.matches("s-vermilion").count() > points);
    for loads in ["<script", "<img", "<link", "src=", "url(", "http://", "https://"] {
        assert!(
            !page.contains(loads) || loads == "src=" && page.contains("&lt;img src=x&gt;"),
            "the page has {loads}"
        );
    }
}
