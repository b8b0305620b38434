//! Draws the report as one HTML page that contains everything it needs, including its charts. It makes no network
//! requests.

use std::collections::BTreeMap;

use minijinja::{Environment, Value, context};
use weir_analysis::Summary;
use weir_analysis::sizing::{InstanceType, instance_types};
use weir_results::Run;

use crate::charts::colors::{colors, data};
use crate::charts::figures::figures;
use crate::charts::pictures::Picture;
use crate::charts::svg::{escape, page_style};
use crate::charts::timelines::CellTimeline;
use crate::model::Report;
use crate::model::plot::Plot;

/// The style of all pages, except for the style of pictures in the page.
const STYLE: &str = include_str!("../../assets/report.css");

/// Template macros that draw tables and facts on all pages.
const MACROS: &str = include_str!("../../assets/macros.html");
const TEMPLATE: &str = include_str!("../../assets/report.html");
const SCRIPT: &str = concat!(
    include_str!("../../assets/charts.js"),
    include_str!("../../assets/sizing.js"),
    include_str!("../../assets/sizing-controls.js")
);

/// The charts that the page shows.
pub(crate) struct Drawn<'a> {
    /// Charts of metrics by the axes of the run, and charts of events and headroom.
    pub(crate) plots: &'a [Plot],
    pub(crate) timelines: &'a [CellTimeline<'a>],
    /// Picture files that the page links to; empty if the page is written without other files.
    pub(crate) pictures: &'a [Picture],
}

/// The charts that a section shows below its tables.
#[derive(serde::Serialize)]
struct SectionCharts {
    plots: Vec<String>,
    note: String,
}

/// Draws the report page.
pub(crate) fn draw(
    report: &Report,
    run: &Run,
    summary: &Summary,
    drawn: &Drawn<'_>,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    prepare(&mut environment, "report.html", TEMPLATE)?;
    let scenario = serde_json::to_string_pretty(&run.scenario).unwrap_or_default();
    let (plots, of_sections): (Vec<&Plot>, Vec<&Plot>) =
        drawn.plots.iter().partition(|plot| plot.section.is_empty());
    let ids = |plots: &[&Plot]| plots.iter().map(|plot| plot.id.clone()).collect::<Vec<_>>();
    let mut sections: BTreeMap<&str, SectionCharts> = BTreeMap::new();
    for plots in of_sections.chunk_by(|one, next| one.section == next.section) {
        let note = [chart_note(plots), plots[0].note.to_owned()].join(" ").trim().to_owned();
        sections.insert(plots[0].section, SectionCharts { plots: ids(plots), note });
    }
    let sizing = instance_types(run, summary);
    let has_sizing = sizing.iter().any(|of| !of.points.is_empty() || !of.searched.is_empty());
    let may_size = sizing.iter().any(InstanceType::may_answer);
    let axes_note = chart_note(&plots);
    environment.get_template("report.html")?.render(context! {
        report => Value::from_serialize(report),
        plots => ids(&plots),
        section_charts => Value::from_serialize(sections),
        colors => known_colors(summary),
        scenario,
        has_sizing,
        may_size,
        style => Value::from_safe_string(style()),
        figures => Value::from_serialize(figures(summary, drawn)),
        has_headlines => report.has(|entry| entry.headline),
        has_intervals => report.has(|entry| entry.under.is_some()),
        has_invalid => report.has(|entry| entry.invalid),
        axes_note,
        script => Value::from_safe_string(SCRIPT.to_owned()),
        data => Value::from_safe_string(island(&data(summary, sizing))),
    })
}

/// The style of the page and of the pictures in it.
pub(crate) fn style() -> String {
    format!("{STYLE}\n{}", page_style())
}

/// Explains the marks that occur in `plots`.
fn chart_note(plots: &[&Plot]) -> String {
    let spots = || {
        let lines = plots.iter().flat_map(|plot| &plot.panels).flat_map(|panel| &panel.lines);
        lines.filter(|line| line.marked).flat_map(|line| &line.spots)
    };
    let is_beyond = |plot: &&&Plot| {
        let mut spots = plot.panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.spots);
        spots.any(|spot| spot.beyond_timeout || spot.y.is_some_and(|y| y > plot.y.high))
    };
    let said = [
        (
            spots().any(|spot| spot.interval.is_some()),
            "Bars at the dots are 95 % confidence intervals over repeats.",
        ),
        (spots().any(|spot| !spot.counts), "Rings mark bounded or invalid values."),
        (plots.iter().any(|plot| is_beyond(&plot)), "Arrows point to values beyond the scale."),
    ];
    let said: Vec<&str> =
        said.into_iter().filter(|(is_drawn, _)| *is_drawn).map(|(_, words)| words).collect();
    said.join(" ")
}

/// Adds the template of a page to `environment`, with the macros and filters that all pages use.
pub(crate) fn prepare(
    environment: &mut Environment<'_>,
    name: &'static str,
    template: &str,
) -> Result<(), minijinja::Error> {
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("prose", prose);
    environment.add_template_owned(name, format!("{MACROS}{template}"))
}

/// The name of the colour of each gateway.
pub(crate) fn known_colors(summary: &Summary) -> BTreeMap<&str, &str> {
    colors(summary).into_iter().map(|colored| (colored.name, colored.color)).collect()
}

/// Converts text to HTML. Parts in backticks become `code` elements.
fn prose(text: String) -> Value {
    let text = escape(&tight(&text));
    let (mut out, mut rest) = (String::with_capacity(text.len()), text.as_str());
    while let Some((plain, quoted)) = rest.split_once('`')
        && let Some((code, after)) = quoted.split_once('`')
    {
        out.push_str(&format!("{plain}<code>{code}</code>"));
        rest = after;
    }
    Value::from_safe_string(out + rest)
}

/// Inserts no-break spaces between numbers and their units, so that they stay on one line.
fn tight(text: &str) -> String {
    const UNITS: [&str; 9] = ["%", "ns", "µs", "ms", "s", "B", "KiB", "MiB", "GiB"];
    let mut words = text.split(' ').peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(word) = words.next() {
        out.push_str(word);
        let Some(next) = words.peek() else { break };
        let unit = next.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '%');
        let number = word.ends_with(|c: char| c.is_ascii_digit());
        out.push(if number && UNITS.contains(&unit) { '\u{a0}' } else { ' ' });
    }
    out
}

/// Converts a value to JSON that cannot end the script element which contains it.
fn island(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".into()).replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The contrast ratio of two colours, from 1 to 21 (WCAG).
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance = |color: &str| {
            let channel = |at: usize| {
                let share = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
                if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
        };
        let (one, other) = (luminance(one) + 0.05, luminance(other) + 0.05);
        if one > other { one / other } else { other / one }
    }

    #[test]
    fn every_text_is_readable_in_both_themes() {
        let blocks: Vec<&str> = STYLE.split('}').filter(|block| block.contains("--bg:")).collect();
        assert_eq!(blocks.len(), 3, "light, dark by the system, dark by the button");
        for block in blocks {
            let color =
                |name: &str| block.split(&format!("--{name}: ")).nth(1).unwrap().split(';').next().unwrap();
            let pairs = ["ink", "soft", "faint"].into_iter().flat_map(|text| [(text, "bg"), (text, "panel")]);
            for (text, ground) in pairs.chain(["good", "bad", "plain"].map(|tone| (tone, "bg"))) {
                let contrast = contrast(color(text), color(ground));
                assert!(contrast >= 4.5, "{text} on {ground}: {contrast:.2} in {block}");
            }
        }
    }

    #[test]
    fn the_legend_explains_only_marks_that_are_drawn() {
        use crate::model::plot::{Line, Marks, Panel, Spot};
        use crate::model::scale::{Scale, Unit};
        let check = |spot: Spot, expected: &str| {
            let lines = vec![Line {
                name: "weir".into(),
                color: "blue",
                dashed: false,
                marked: true,
                spots: vec![Spot::at(1.0, Some(1.0)), spot],
            }];
            let plot = Plot {
                section: "",
                note: "",
                id: String::new(),
                title: String::new(),
                setting: String::new(),
                x: Scale::from_zero("time", Unit::Seconds, 2.0),
                y: Scale::from_zero("rate", Unit::PerSecond, 10.0),
                marks: Marks::Dots,
                shade_to: None,
                panels: vec![Panel { title: String::new(), lines }],
            };
            assert_eq!(chart_note(&[&plot]), expected);
        };
        let at = |y| Spot::at(2.0, Some(y));
        check(at(2.0), "");
        let interval = Spot { interval: Some([1.0, 3.0]), ..at(2.0) };
        check(interval, "Bars at the dots are 95 % confidence intervals over repeats.");
        check(Spot { counts: false, ..at(2.0) }, "Rings mark bounded or invalid values.");
        check(at(1e6), "Arrows point to values beyond the scale.");
    }

    #[test]
    fn a_unit_stays_with_its_number() {
        assert_eq!(tight("12.3 ms, 4 %) of it"), "12.3\u{a0}ms, 4\u{a0}%) of it");
        assert_eq!(tight("3 repeats"), "3 repeats");
    }

    #[test]
    fn commands_in_backticks_become_code() {
        let check = |text: &str, html: &str| assert_eq!(prose(text.into()).as_str(), Some(html));
        check("run `weir x`, or <`y`>", "run <code>weir x</code>, or &lt;<code>y</code>&gt;");
        check("`a` and ` alone", "<code>a</code> and ` alone");
        check("none", "none");
    }

    #[test]
    fn data_cannot_close_its_script_element() {
        assert_eq!(island(&"</script>"), "\"\\u003c/script>\"");
    }
}
