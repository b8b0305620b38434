//! Values of the fields that a scenario varies.

use std::collections::BTreeMap;

/// Values of the varied fields, by their path in the scenario.
pub type Axes = BTreeMap<String, serde_json::Value>;

/// The axes in words: `limits.data.cpus = 0.5`.
pub fn axes_words(axes: &Axes) -> String {
    let value = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    axes.iter().map(|(path, at)| format!("{path} = {}", value(at))).collect::<Vec<_>>().join(", ")
}

/// A name with its axes: `weir (limits.data.cpus = 0.5)`.
pub(crate) fn with_axes(name: &str, axes: &Axes) -> String {
    match axes_words(axes) {
        words if words.is_empty() => name.to_owned(),
        words => format!("{name} ({words})"),
    }
}

/// Converts a number to the value of an axis. Whole numbers become integers (`2`, not `2.0`), as in scenarios.
pub(crate) fn of_number(number: f64) -> serde_json::Value {
    if number.fract() == 0.0 && number.abs() < 1e15 { (number as i64).into() } else { number.into() }
}

/// A load with its axes: `full; limits.data.cpus = 0.5`; either may be empty.
pub fn at_axes(load: &str, axes: &Axes) -> String {
    match axes_words(axes) {
        words if load.is_empty() => words,
        words if words.is_empty() => load.to_owned(),
        words => format!("{load}; {words}"),
    }
}
