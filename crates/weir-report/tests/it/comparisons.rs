//! Comparisons in every format.

use weir_analysis::compare::{Comparison, Dataset, Measure, Question, Series, Source, compare};
use weir_analysis::{Figure, Repeated, Sample};

use crate::fixture::{self, Scene};

/// Compares the good run with the mixed run, which has another ID and another kernel.
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

/// Compares two datasets with two repeats each. The repeats differ so much that confidence intervals are useless.
fn noisy() -> Comparison {
    let measures = [Measure::Throughput, Measure::CpuPerRequest, Measure::Latency("p99")];
    let side = |label: &str, values: [f64; 2]| {
        let figures = measures.map(|measure| (measure, Figure::of_valid(values.map(Some))));
        let series = vec![Series { figures: figures.to_vec(), ..Series::default() }];
        let (notes, warnings) = (Vec::new(), vec!["900 of 1,000 requests failed".into()]);
        let source = Source::Foreign { program: "Locust", files: vec![label.into()], notes, warnings };
        Dataset { label: label.into(), source, series }
    };
    let (a, b) = (side("a.csv", [20.0, 40_000.0]), side("b.csv", [10.0, 90_000.0]));
    compare(&a, &b, &Question::default()).expect("one series each")
}

#[test]
fn an_interval_that_is_too_wide_is_printed_in_words() {
    let comparison = noisy();
    let terminal = weir_report::comparison_terminal(&comparison, 140, false);
    let markdown = weir_report::comparison_markdown(&comparison).replace("\\<", "<");
    let page = weir_report::comparison_html(&comparison).expect("a page");
    let page = page.replace("&lt;", "<").replace("&gt;", ">").replace('\u{a0}', " ");
    for text in [&terminal, &markdown, &page] {
        let text = &text.split_whitespace().collect::<Vec<_>>().join(" ");
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| *word == "any");
        assert_eq!(words.count(), 9, "of A, of B and of the ratio: {text}");
        assert_eq!(text.matches("> 1,000 %").count(), 3, "{text}");
        assert!(!text.contains("18,446,744") && !text.contains("e19 s") && !text.contains("845 s"), "{text}");
        assert!(
            text.contains(
                "a verdict of better or worse needs 6 valid repeats of A and of B: A has 2, B has 2"
            ),
            "{text}"
        );
        let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("no {words} in {text}"));
        assert!(place("a.csv: 900 of 1,000 requests failed.") < place("Smallest effect"), "{text}");
    }
    assert!(terminal.contains("Valid repeats"), "a column is missing: {terminal}");
    let json = serde_json::to_value(&comparison).unwrap();
    for end in json["points"][0]["figures"][0]["interval"].as_array().unwrap() {
        assert!(end.is_number(), "{json}");
    }
}

/// Compares recovery times of A and B in six repeats. A always recovers; B does not recover in the first `beyond`
/// repeats.
fn recovered(beyond: u32) -> Comparison {
    let side = |label: &str, beyond: u32| {
        let repeated = |repeat: u32| Repeated {
            repeat,
            sample: if repeat < beyond { Sample::BeyondTimeout } else { Sample::Value(2.0) },
            reasons: Vec::new(),
            ..Repeated::default()
        };
        let repeats = (0..6).map(repeated).collect();
        let figure = Figure { repeats, valid: 6, beyond_timeout: beyond > 0, ..Figure::default() };
        let measure = Measure::named("recovery.time").expect("a metric of a finding");
        let series = vec![Series { figures: vec![(measure, figure)], ..Series::default() }];
        let (notes, warnings) = (Vec::new(), Vec::new());
        let source = Source::Foreign { program: "Locust", files: vec![label.into()], notes, warnings };
        Dataset { label: label.into(), source, series }
    };
    compare(&side("old", 0), &side("new", beyond), &Question::default()).expect("one series each")
}

#[test]
fn repeats_beyond_the_measured_range_use_the_words_of_their_metric() {
    let comparison = recovered(5);
    let terminal = weir_report::comparison_terminal(&comparison, 160, false);
    let markdown = weir_report::comparison_markdown(&comparison);
    for text in [&terminal, &markdown] {
        let text = &text.split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = "recovery.time of new is worse: not recovered in 5 of 6 repeats (old: 0 of 6).";
        assert!(text.contains(sentence), "{text}");
        assert!(!text.contains("timeout in") && !text.contains("Recovered within"), "{text}");
    }
    assert!(markdown.contains("Exact tests of counts and of ranks"), "{markdown}");
    let terminal = weir_report::comparison_terminal(&recovered(2), 160, false);
    let words = "not recovered in 2 of 6 repeats of B and in 0 of 6 repeats of A, which may be chance.";
    assert!(terminal.split_whitespace().collect::<Vec<_>>().join(" ").contains(words), "{terminal}");
}

#[test]
fn a_reason_of_several_values_is_printed_once_on_a_terminal() {
    let terminal = weir_report::comparison_terminal(&comparison(""), 1_000, false);
    let reasons: Vec<&str> = terminal
        .lines()
        .filter(|line| {
            line.contains(
                "crosses the margin, and a verdict of better or worse needs 6 valid repeats of A and of B: A has 3, \
                 B has 3.",
            )
        })
        .collect();
    assert_eq!(reasons.len(), 1, "{terminal}");
    for words in ["weir, full (throughput, CPU per request)", "weir, tail (CPU per request, p50 latency)"] {
        assert!(reasons[0].contains(words), "{}", reasons[0]);
    }
}

#[test]
fn the_page_of_a_comparison_draws_both_sides_together_and_has_no_scripts() {
    let page = weir_report::comparison_html(&comparison("<img src=x>")).expect("a page");
    let points = 8;
    assert_eq!(page.matches("Values with 95 % intervals").count(), points, "bars for each");
    assert_eq!(page.matches("Latency by quantile, all").count(), points, "curves for each");
    assert!(page.matches("s-blue").count() > points && page.matches("s-vermilion").count() > points);
    for loads in ["<script", "<img", "<link", "src=", "url(", "http://", "https://"] {
        assert!(
            !page.contains(loads) || loads == "src=" && page.contains("&lt;img src=x&gt;"),
            "the page has {loads}"
        );
    }
}
