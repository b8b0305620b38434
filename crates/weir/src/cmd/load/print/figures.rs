//! Formats values for people: with three digits and a unit.

pub(super) use weir_results::words::{count as grouped, counted};

/// Formats a time with three digits and its unit.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns >= 1e9 => (ns / 1e9, "s"),
        ns if ns >= 1e6 => (ns / 1e6, "ms"),
        ns if ns >= 1e3 => (ns / 1e3, "µs"),
        ns => (ns, "ns"),
    };
    match value {
        value if value >= 100.0 || unit == "ns" || value.fract() == 0.0 => format!("{value:.0} {unit}"),
        value if value >= 10.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.2} {unit}"),
    }
}

pub(super) fn bytes(count: f64) -> String {
    let (value, unit) = match count {
        count if count >= 1024.0 * 1024.0 * 1024.0 => (count / (1024.0 * 1024.0 * 1024.0), "GiB"),
        count if count >= 1024.0 * 1024.0 => (count / (1024.0 * 1024.0), "MiB"),
        count if count >= 1024.0 => (count / 1024.0, "KiB"),
        count => (count, "B"),
    };
    format!("{value:.1} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_short_and_have_a_unit() {
        let times = [5.0, 1_500.0, 25_000.0, 123_456.0, 9.876e6, 10e9];
        assert_eq!(times.map(time), ["5 ns", "1.50 µs", "25 µs", "123 µs", "9.88 ms", "10 s"]);
        assert_eq!([12.0, 2_048.0, 3.5e6].map(bytes), ["12.0 B", "2.0 KiB", "3.3 MiB"]);
    }
}
