//! Rates that are shares of a capacity.

use weir_document::{AskedRate, AskedRates, Levels, Rate};

use super::{Load, RateList, Scenario};

impl Load {
    /// Whether a rate of the load is a share of a capacity.
    pub(crate) fn is_relative(&self) -> bool {
        self.rate.as_ref().is_some_and(|rates| rates.any(AskedRate::is_share))
            || self.rates.as_ref().is_some_and(RateList::are_shares)
    }

    /// The load with shares of `capacity_per_s` replaced by absolute rates.
    pub(crate) fn at_capacity(&self, capacity_per_s: f64) -> Self {
        if !self.is_relative() {
            return self.clone();
        }
        let rate = self.rate.as_ref().map(|rates| absolute_rates(rates, capacity_per_s));
        Self { rate, of: None, ..self.clone() }
    }
}

impl Scenario {
    /// Whether a load of the scenario has a rate that is a share of a capacity.
    pub(crate) fn has_relative_rates(&self) -> bool {
        self.loads.iter().any(|(_, load)| load.is_relative())
    }
}

/// Converts each of `rates` that is a share of `capacity_per_s` to an absolute rate.
pub(crate) fn absolute_rates(rates: &AskedRates, capacity_per_s: f64) -> Levels<AskedRate> {
    rates.map(|rate| absolute_rate(rate, capacity_per_s))
}

/// Converts a share to an absolute rate with two significant digits, because the pilot is not more precise. Absolute
/// rates stay as they are.
pub(crate) fn absolute_rate(rate: AskedRate, capacity_per_s: f64) -> AskedRate {
    match rate {
        AskedRate::Share(share) => AskedRate::Rate(Rate(two_digits(share * capacity_per_s))),
        rate => rate,
    }
}

fn two_digits(per_s: f64) -> f64 {
    format!("{per_s:.1e}").parse().expect("a formatted number parses")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_two_significant_digits() {
        let check = |per_s: f64, expected: f64| assert_eq!(two_digits(per_s), expected);
        check(893.4, 890.0);
        check(8_949.0, 8_900.0);
        check(99.6, 100.0);
        check(3.456, 3.5);
        check(0.0, 0.0);
        check(12_345_678.0, 12_000_000.0);
    }

    #[test]
    fn shares_become_absolute_rates_and_absolute_rates_stay() {
        let load = |rate: &str| Load { rate: Some(rate.parse().unwrap()), ..Load::default() };
        let check = |rate: &str, expected: &str| {
            assert_eq!(load(rate).at_capacity(8_930.0), load(expected), "{rate}");
        };
        check("30%", "2700/s");
        check("10%,4321/s", "890/s,4321/s");
        check("0%..120%", "0/s..11000/s");
        check("1234/s", "1234/s");
    }
}
