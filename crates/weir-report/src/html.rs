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
    fn data_cannot_end_its_script() {
        assert_eq!(island(&"</script>"), "\"\\u003c/script>\"");
    }
}
