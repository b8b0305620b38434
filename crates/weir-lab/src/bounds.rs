//! Parses limits of metrics on the command line: `p99<20ms`, `errors<0.1%`.

use weir_analysis::LATENCIES;
use weir_analysis::sizing::Bound;
use weir_document::{Problem, Share, Time, nearest};

use crate::LabError;

/// Name of the only metric that is not a latency: the share of failed requests.
const ERRORS: &str = "errors";

/// Parses limits like `p99<20ms`. Each text can contain several limits, separated by commas. `flag` is the name of the
/// command-line argument, for error messages.
///
/// # Errors
/// For an unknown name, a missing value, or a duplicate limit.
pub fn read_bounds(flag: &str, texts: &[String]) -> Result<Vec<Bound>, LabError> {
    let mut bounds: Vec<Bound> = Vec::new();
    for text in texts.iter().flat_map(|texts| texts.split(',')) {
        let text = text.trim();
        let wrong = |problem: Problem<()>| LabError::Scenario(problem.at(format!("{flag} '{text}'")));
        let bound = read_bound(text).map_err(wrong)?;
        if bounds.iter().any(|known| known.name == bound.name) {
            let message = format!("duplicate limit of `{}`", bound.name);
            return Err(wrong(Problem::new(message, "remove one of the two")));
        }
        bounds.push(bound);
    }
    Ok(bounds)
}

fn read_bound(text: &str) -> Result<Bound, Problem<()>> {
    let form = "use the form 'p99<20ms', 'mean<5ms' or 'errors<0.1%'";
    let Some((name, value)) = text.split_once("<=").or_else(|| text.split_once('<')) else {
        return Err(Problem::new("the limit is missing", form));
    };
    let (name, value) = (name.trim(), value.trim());
    let name = canonical(name).ok_or_else(|| unknown(name))?;
    if name == ERRORS {
        let share: Share = value.parse()?;
        return Ok(Bound { name: name.to_owned(), limit: share.0 });
    }
    let time: Time = value.parse()?;
    if time.0.is_zero() {
        return Err(Problem::new("the latency is zero", "use a longer time, like 20ms"));
    }
    Ok(Bound { name: name.to_owned(), limit: time.as_ns() as f64 })
}

/// Names of metrics that can have limits: latencies and the share of errors. The minimum latency is excluded, because
/// nobody promises a minimum.
fn names() -> impl Iterator<Item = &'static str> {
    LATENCIES.into_iter().filter(|name| *name != "min").chain([ERRORS])
}

/// The name of a metric in results: `p999` for `p99.9`. `None` if the metric is unknown.
fn canonical(name: &str) -> Option<&'static str> {
    let plain: String = name.to_lowercase().chars().filter(|character| *character != '.').collect();
    names().find(|known| *known == plain)
}

fn unknown(name: &str) -> Problem<()> {
    let near = match quantile(name) {
        Some(asked) => nearest_quantile(asked),
        None => nearest(name, names()),
    };
    let all = names().collect::<Vec<_>>().join(", ");
    let remedy = match near {
        Some(near) => format!("did you mean `{near}`? Metrics: {all}"),
        None => format!("metrics: {all}"),
    };
    Problem::new(format!("unknown metric `{name}`"), remedy)
}

/// Parses the name of a quantile: `p97` is 0.97; `p99.5` and `p995` are 0.995.
fn quantile(name: &str) -> Option<f64> {
    let digits = name.to_lowercase().strip_prefix('p')?.to_owned();
    let quantile: f64 = match digits.contains('.') {
        true => digits.parse::<f64>().ok()? / 100.0,
        false if digits == "100" => 1.0,
        false => format!("0.{digits}").parse().ok()?,
    };
    (0.0..=1.0).contains(&quantile).then_some(quantile)
}

/// The known quantile that is closest to `asked`. Compares the tails (1 - quantile), by ratio.
fn nearest_quantile(asked: f64) -> Option<&'static str> {
    if asked >= 1.0 {
        return Some("max");
    }
    let distance = |name: &str| {
        let known = quantile(name).filter(|known| *known < 1.0)?;
        Some(((1.0 - known) / (1.0 - asked)).ln().abs())
    };
    let known = names().filter_map(|name| Some((name, distance(name)?)));
    known.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(texts: &[&str]) -> Result<Vec<(String, f64)>, String> {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let bounds = read_bounds("--objective", &texts);
        let bounds = bounds.map_err(|error| format!("{error} | {}", error.remedy()))?;
        Ok(bounds.into_iter().map(|bound| (bound.name, bound.limit)).collect())
    }

    #[test]
    fn bounds_are_parsed_with_name_and_unit() {
        let check = |texts: &[&str], expected: &[(&str, f64)]| {
            let expected: Vec<(String, f64)> =
                expected.iter().map(|(name, limit)| ((*name).to_owned(), *limit)).collect();
            assert_eq!(read(texts).unwrap(), expected, "{texts:?}");
        };
        check(&["p99<20ms"], &[("p99", 2e7)]);
        check(&["p99 <= 20ms, errors < 0.1%"], &[("p99", 2e7), ("errors", 0.001)]);
        check(&["P99.9<1s", "mean<5ms"], &[("p999", 1e9), ("mean", 5e6)]);
        check(&[], &[]);
    }

    #[test]
    fn unknown_metrics_are_rejected_with_the_closest_name() {
        let check = |text: &str, words: &[&str]| {
            let said = read(&[text]).unwrap_err();
            for word in words {
                assert!(said.contains(word), "{text}: no {word:?} in {said}");
            }
        };
        check("p97<20ms", &["--objective 'p97<20ms': unknown metric `p97`", "did you mean `p98`?"]);
        check("p99.5<20ms", &["did you mean `p99`?"]);
        check("p97.5<20ms", &["did you mean `p98`?"]);
        check("p100<1s", &["did you mean `max`?"]);
        check("error<1%", &["did you mean `errors`?"]);
        check("min<1s", &["unknown metric `min`", "p50"]);
        check("throughput<5/s", &["unknown metric `throughput`", "metrics: mean"]);
        check("p99", &["the limit is missing", "'p99<20ms'"]);
        check("", &["the limit is missing"]);
        check("p99<20", &["`20` has no unit", "20ms"]);
        check("p99<0ms", &["the latency is zero"]);
        check("errors<200%", &["more than 100%"]);
        check("p99<1s,p99<2s", &["duplicate limit of `p99`"]);
    }
}
