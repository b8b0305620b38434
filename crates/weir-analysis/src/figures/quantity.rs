//! Formats quantities for reports: three significant digits, a unit, thousands separated.

pub use weir_results::words::{count, counted, plural};

/// From this size on, numbers are printed with an exponent, because an `f64` has only about 15 significant digits.
const ALL_DIGITS_MAX: f64 = 1e15;

/// A number with three significant digits, but always its whole integer part: `1,234`, `123`, `12.3`, `0.123`. From
/// 1e15 on with an exponent: `2.51e54`.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".into();
    }
    let sign = if value < 0.0 { "-" } else { "" };
    let size = value.abs();
    if size >= ALL_DIGITS_MAX {
        return format!("{sign}{size:.2e}");
    }
    if size >= 99.95 {
        return format!("{sign}{}", count(size.round() as u64));
    }
    let decimals = match size {
        _ if size >= 9.995 => 1,
        _ if size >= 0.9995 => 2,
        _ => 3,
    };
    format!("{sign}{size:.decimals$}")
}

/// Requests per second: `52,031/s`.
pub fn rate(per_s: f64) -> String {
    format!("{}/s", number(per_s))
}

/// A time in nanoseconds, printed in a fitting unit: `850 ns`, `74.5 µs`, `1.23 ms`, `2.00 s`.
pub fn time_ns(ns: f64) -> String {
    let (scaled, unit) = match ns.abs() {
        size if size < 0.5 => return "0 ns".into(),
        size if size < 999.5 => return format!("{} ns", number(ns.round())),
        size if size < 999_500.0 => (ns / 1e3, "µs"),
        size if size < 999_500_000.0 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    format!("{} {unit}", number(scaled))
}

/// A size in bytes, in binary units: `14.2 MiB`.
pub fn bytes(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size < 1024.0 => return format!("{} B", number(value.round())),
        size if size < 1024.0 * 1024.0 => (value / 1024.0, "KiB"),
        size if size < 1024.0 * 1024.0 * 1024.0 => (value / (1024.0 * 1024.0), "MiB"),
        _ => (value / (1024.0 * 1024.0 * 1024.0), "GiB"),
    };
    format!("{} {unit}", number(scaled))
}

/// A share as percent: `99.2 %`; small shares have more decimals.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 {
        return "0 %".into();
    }
    if percent.abs() < 0.1 {
        return format!("{percent:.4} %");
    }
    if (99.95..100.0).contains(&percent) {
        return format!("{percent:.3} %");
    }
    format!("{} %", number(percent))
}

/// A share of a limit as percent: `99.2 %`, `100 %`, `101 %`. Unlike [`percent`], it rounds 99.96 to 100.
pub fn percent_of_limit(share: f64) -> String {
    percent(if (0.9995..1.0).contains(&share) { 1.0 } else { share })
}

/// A share as percent, without trailing zeros: `5 %`, `12.5 %`.
pub fn percent_short(share: f64) -> String {
    let words = percent(share);
    match words.strip_suffix(" %").map(|number| number.trim_end_matches('0').trim_end_matches('.')) {
        Some(number) if words.contains('.') => format!("{number} %"),
        _ => words,
    }
}

/// Both ends of an interval. If both ends and the mean have the same unit, the unit is left out.
pub fn range(mean: &str, low: &str, high: &str) -> String {
    let ((_, unit), (low_number, low_unit), (high_number, high_unit)) =
        (split_unit(mean), split_unit(low), split_unit(high));
    if unit == low_unit && unit == high_unit {
        format!("{low_number} .. {high_number}")
    } else {
        format!("{low} .. {high}")
    }
}

/// Formats an interval: `43.3 .. 43.9 %`. If its ends have different units, prints both units.
pub fn between(low: &str, high: &str) -> String {
    let ((low_number, low_unit), (_, high_unit)) = (split_unit(low), split_unit(high));
    if low_unit == high_unit { format!("{low_number} .. {high}") } else { format!("{low} .. {high}") }
}

/// Splits a number from its unit.
fn split_unit(text: &str) -> (&str, &str) {
    text.split_at(text.rfind(|c: char| c.is_ascii_digit()).map_or(0, |place| place + 1))
}

/// An amount of money with two decimals, or with three digits if below one: `1,241.00`, `0.0472`.
pub fn money(amount: f64) -> String {
    const PLACES_MAX: i32 = 12;
    if !amount.is_finite() {
        return "n/a".into();
    }
    let is_small = amount > 0.0 && amount < 1.0;
    let places = if is_small { (2 - amount.log10().floor() as i32).min(PLACES_MAX) } else { 2 };
    let scale = 10_u64.pow(places as u32);
    // Rounds like the script of the HTML page: once, to an integer, with halves rounded up.
    let units = (amount * scale as f64).round() as u64;
    format!("{}.{:0width$}", count(units / scale), units % scale, width = places as usize)
}

/// Cores: `0.497`.
pub fn cores(value: f64) -> String {
    number(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits_and_separate_thousands() {
        let check = |value: f64, expected: &str| assert_eq!(number(value), expected);
        check(52_031.4, "52,031");
        check(1_234_567.0, "1,234,567");
        check(100.4, "100");
        check(99.96, "100");
        check(12.34, "12.3");
        check(9.996, "10.0");
        check(1.0, "1.00");
        check(0.1234, "0.123");
        check(-1_500.0, "-1,500");
        check(999_999_999_999_999.0, "999,999,999,999,999");
        check(1e15, "1.00e15");
        check(-2.514e54, "-2.51e54");
        check(f64::NAN, "n/a");
    }

    #[test]
    fn units_follow_the_size() {
        assert_eq!(time_ns(0.0), "0 ns");
        assert_eq!(time_ns(850.0), "850 ns");
        assert_eq!(time_ns(74_500.0), "74.5 µs");
        assert_eq!(time_ns(999_700.0), "1.00 ms");
        assert_eq!(time_ns(-1_230_000.0), "-1.23 ms");
        assert_eq!(time_ns(2e9), "2.00 s");
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(14.2 * 1024.0 * 1024.0), "14.2 MiB");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(percent(0.0005), "0.0500 %");
        assert_eq!(percent(0.992), "99.2 %");
        assert_eq!(percent(0.99996), "99.996 %");
        assert_eq!(
            [0.0, 0.0004, 0.992, 0.99957, 1.0123].map(percent_of_limit),
            ["0 %", "0.0400 %", "99.2 %", "100 %", "101 %"]
        );
        assert_eq!([0.05, 0.125, 0.001, 10.0].map(percent_short), ["5 %", "12.5 %", "0.1 %", "1,000 %"]);
        assert_eq!(rate(5_000.0), "5,000/s");
    }

    #[test]
    fn money_has_two_places_and_small_amounts_three_digits() {
        let check = |amount: f64, expected: &str| assert_eq!(money(amount), expected);
        check(1_241.0, "1,241.00");
        check(45.625, "45.63");
        check(0.0, "0.00");
        check(1.0, "1.00");
        check(0.9999, "1.000");
        check(0.04723, "0.0472");
        check(0.17, "0.170");
        check(1e-20, "0.000000000000");
        check(f64::NAN, "n/a");
    }

    #[test]
    fn an_interval_repeats_its_unit_only_where_it_differs() {
        assert_eq!(range("10.0 µs", "9.50 µs", "11.0 µs"), "9.50 .. 11.0");
        assert_eq!(range("998 µs", "950 µs", "1.05 ms"), "950 µs .. 1.05 ms");
        assert_eq!(range("52,031/s", "51,000/s", "53,000/s"), "51,000 .. 53,000");
    }
}
