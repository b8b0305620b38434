//! Prometheus text format, version 0.0.4.

use std::fmt::{Display, Write as _};

/// A metrics text under construction.
#[derive(Default)]
pub(crate) struct Exposition(String);

impl Exposition {
    /// Begins a metric family; its samples must follow.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (index, (label, text)) in labels.iter().enumerate() {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{}{label}=\"{text}\"", if index == 0 { '{' } else { ',' });
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

/// Nanoseconds as decimal seconds without trailing zeros.
pub(crate) fn seconds(ns: u64) -> String {
    let decimal = format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
    decimal.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_exact() {
        for (ns, expected) in
            [(0, "0"), (500_000, "0.0005"), (10_000_000_000, "10"), (1_000_000_001, "1.000000001")]
        {
            assert_eq!(seconds(ns), expected);
        }
    }
}
