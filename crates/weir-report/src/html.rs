//! One self-contained page: no request leaves it, charts included.

use minijinja::{Environment, Value, context};
use weir_analysis::Summary;
use weir_results::{Cell, Run};

use crate::charts::{charts, colors};
use crate::model::Report;

const TEMPLATE: &str = include_str!("../assets/report.html");
const STYLE: &str = include_str!("../assets/report.css");
const SCRIPT: &str = include_str!("../assets/report.js");

/// Draws the page with `chart_library` as the text of its first script.
pub(crate) fn draw(
    report: &Report,
    run: &Run,
    cells: &[Cell],
    summary: &Summary,
    chart_library: &str,
) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_trim_blocks(true);
    environment.set_lstrip_blocks(true);
    environment.add_filter("tight", tight);
    environment.add_template("report.html", TEMPLATE)?;
    let known: std::collections::BTreeMap<&str, &str> =
        colors(summary).into_iter().map(|colored| (colored.name, colored.color)).collect();
    let scenario = serde_json::to_string_pretty(&run.scenario).unwrap_or_default();
    environment.get_template("report.html")?.render(context! {
        report => Value::from_serialize(report),
        colors => known,
        scenario,
        style => Value::from_safe_string(STYLE.to_owned()),
        script => Value::from_safe_string(SCRIPT.to_owned()),
        library => Value::from_safe_string(chart_library.to_owned()),
        data => Value::from_safe_string(island(&charts(summary, cells))),
    })
}

/// The text of plotly.js out of the script elements that the plotly crate embeds.
pub(crate) fn plotly_js() -> String {
    let elements = plotly::Plot::offline_js_sources();
    let body = elements.split_once('>').map_or("", |(_, rest)| rest);
    body.split_once("</script>").map_or("", |(script, _)| script).to_owned()
}

/// Numbers that stay on the line of their unit.
fn tight(text: String) -> String {
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

/// JSON that cannot end the script element it stands in.
fn island(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).unwrap_or_else(|_| "{}".into()).replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_plotly_alone() {
        let library = plotly_js();
        assert!(library.contains("plotly.js v") && library.trim_end().ends_with(';'));
        assert!(!library.contains("MathJax.loader") && !library.contains("</script"));
        assert!(library.len() > 1_000_000, "{}", library.len());
    }

    #[test]
    fn a_unit_stays_with_its_number() {
        assert_eq!(tight("12.3 ms, 4 %) of it".into()), "12.3\u{a0}ms, 4\u{a0}%) of it");
        assert_eq!(tight("3 repeats".into()), "3 repeats");
    }

    #[test]
    fn data_cannot_end_its_script() {
        assert_eq!(island(&"</script>"), "\"\\u003c/script>\"");
    }
}
