//! Rates that are shares of what the gateways carry: what they are of, and which rates they become.

use serde_json::{Map, Value};
use weir_document::{AskedRate, AskedRates, Levels, Rate};
use weir_results::{Carried, Pilot, PilotRate};

use crate::LabError;
use crate::read::Checked;
use crate::scenario::{Axis, Load, Scenario, ShareOf};

impl Load {
    /// Whether its rate is a share.
    pub(crate) fn is_relative(&self) -> bool {
        self.rate.as_ref().is_some_and(|rates| rates.any(AskedRate::is_share))
    }

    /// The same with rates in the place of shares of `carried_per_s`.
    pub(crate) fn of_carried(&self, carried_per_s: f64) -> Self {
        if !self.is_relative() {
            return self.clone();
        }
        let rate = self.rate.as_ref().map(|rates| absolute(rates, carried_per_s));
        Self { rate, of: None, ..self.clone() }
    }
}

/// Whether any of its loads has a rate that is a share.
pub(crate) fn are_in(scenario: &Scenario) -> bool {
    scenario.loads.iter().any(|(_, load)| load.is_relative())
}

/// `checked` with rates in the place of shares, and what they were, beside what was found.
///
/// # Errors
/// When no gateway carried anything for a load, or two points of the axes become the same.
pub(crate) fn resolved(checked: &Checked, carried: Vec<Carried>) -> Result<(Checked, Pilot), LabError> {
    let mut finder = Finder { carried: &carried, rates: Vec::new() };
    let mut resolved = checked.clone();
    finder.scenario(&mut resolved.scenario)?;
    for point in &mut resolved.points {
        finder.scenario(&mut point.scenario)?;
        for (path, value) in &mut point.axes {
            finder.value(&checked.scenario, path, value)?;
        }
    }
    for (place, point) in resolved.points.iter().enumerate() {
        if let Some(first) = resolved.points[..place].iter().position(|other| other.axes == point.axes) {
            return Err(LabError::Scenario {
                place: "vary".into(),
                message: format!("points {} and {} of the axes come to the same rate", first + 1, place + 1),
                remedy: "give shares that are further apart: rates have two significant digits".into(),
            });
        }
    }
    let rates = finder.rates;
    Ok((resolved, Pilot { carried, rates }))
}

/// Finds the rate that a share is, and notes it.
struct Finder<'a> {
    carried: &'a [Carried],
    rates: Vec<PilotRate>,
}

impl Finder<'_> {
    fn scenario(&mut self, scenario: &mut Scenario) -> Result<(), LabError> {
        let as_asked = scenario.clone();
        for (name, load) in &mut scenario.loads.0 {
            if let Some(rates) = load.rate.as_ref().filter(|_| load.is_relative()) {
                load.rate = Some(self.found(name, load.of, rates)?);
                load.of = None;
            }
        }
        for (path, axis) in &mut scenario.vary.0 {
            let Axis::Values(values) = axis else { continue };
            for value in values {
                self.value(&as_asked, path, value)?;
            }
        }
        scenario.cases.iter_mut().try_for_each(|case| self.case(&as_asked, "", case))
    }

    /// The leaves of a case.
    fn case(
        &mut self,
        scenario: &Scenario,
        prefix: &str,
        case: &mut Map<String, Value>,
    ) -> Result<(), LabError> {
        for (name, value) in case.iter_mut() {
            let path = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Object(inner) => self.case(scenario, &path, inner)?,
                leaf => self.value(scenario, &path, leaf)?,
            }
        }
        Ok(())
    }

    /// A value of an axis or a case, where it is a load or the rate of one.
    fn value(&mut self, scenario: &Scenario, path: &str, value: &mut Value) -> Result<(), LabError> {
        let names: Vec<&str> = path.split('.').collect();
        match (&names[..], value) {
            (["loads", name, "rate"], rate) => {
                let of = scenario.loads.named(name).and_then(|load| load.of);
                self.rate(name, of, rate).map(|_| ())
            }
            (["loads", name], Value::Object(load)) => {
                let of = load.get("of").and_then(|of| serde_json::from_value(of.clone()).ok());
                let Some(rate) = load.get_mut("rate") else { return Ok(()) };
                if self.rate(name, of, rate)? {
                    load.remove("of");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Puts rates in the place of the shares of `name`; whether there were any.
    fn rate(&mut self, name: &str, of: Option<ShareOf>, value: &mut Value) -> Result<bool, LabError> {
        let rates = serde_json::from_value::<AskedRates>(value.clone()).ok();
        let Some(rates) = rates.filter(|rates| rates.any(AskedRate::is_share)) else { return Ok(false) };
        *value = serde_json::to_value(self.found(name, of, &rates)?).expect("rates are plain values");
        Ok(true)
    }

    fn found(&mut self, load: &str, of: Option<ShareOf>, asked: &AskedRates) -> Result<AskedRates, LabError> {
        let tried = self.carried.iter().filter(|carried| carried.loads.iter().any(|name| name == load));
        let by_rate = |one: &&Carried, other: &&Carried| one.rate_per_s.total_cmp(&other.rate_per_s);
        let of = match of.unwrap_or_default() {
            ShareOf::Least => tried.min_by(by_rate),
            ShareOf::Greatest => tried.max_by(by_rate),
        };
        let Some(of) = of else {
            return Err(LabError::Host {
                place: format!("loads.{load}.rate"),
                message: format!("{asked} of what the gateways carry: none of them carried anything"),
                remedy: "see the notes above, or give a rate like 500/s".into(),
            });
        };
        let found = absolute(asked, of.rate_per_s);
        let rate = PilotRate {
            load: load.to_owned(),
            asked: asked.to_string(),
            rate: found.to_string(),
            gateway: of.gateway.clone(),
            carried_per_s: of.rate_per_s,
            at_least: of.bound_by == weir_results::BoundBy::Generator,
        };
        if !self.rates.contains(&rate) {
            self.rates.push(rate);
        }
        Ok(found)
    }
}

/// `rates` with those that are shares as rates, to two significant digits: more the pilot does not know.
fn absolute(rates: &AskedRates, carried_per_s: f64) -> Levels<AskedRate> {
    rates.map(|rate| match rate {
        AskedRate::Share(share) => AskedRate::Rate(Rate(two_digits(share * carried_per_s))),
        rate => rate,
    })
}

fn two_digits(per_s: f64) -> f64 {
    format!("{per_s:.1e}").parse().expect("a number that was printed")
}

#[cfg(test)]
mod tests {
    use crate::check::Known;
    use crate::read::{Overrides, read};
    use crate::source::Source;

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

    fn carried(gateway: &str, loads: &[&str], rate_per_s: f64) -> Carried {
        Carried {
            gateway: gateway.into(),
            axes: Default::default(),
            loads: loads.iter().map(|load| (*load).to_owned()).collect(),
            connections: 32,
            rate_per_s,
            bound_by: weir_results::BoundBy::Gateway,
        }
    }

    fn checked(axes: &str) -> Checked {
        let known = Known { drivers: vec!["weir".into()], origins: vec![], cpus: 2, namespaces: || Ok(()) };
        let loads =
            "loads: { low: { model: open, rate: 10% }, high: { model: open, rate: 120%, of: greatest } }";
        let text = format!("name: x\ngateways: [weir]\n{loads}\n{axes}");
        let source = Source { name: "x.yaml".into(), text };
        read(&source, &Overrides::default(), &known).unwrap()
    }

    /// The rates of both loads at every point, and the axes of the points.
    fn rates(checked: &Checked) -> Vec<String> {
        let point = |point: &crate::read::Point| {
            let rate = |name| point.scenario.loads.named(name).unwrap().rate.as_ref().unwrap().to_string();
            format!("{} {} {}", rate("low"), rate("high"), weir_analysis::axes_words(&point.axes))
        };
        checked.points.iter().map(point).collect()
    }

    #[test]
    fn a_run_keeps_rates_and_is_read_again_as_it_was() {
        let found =
            || vec![carried("a", &["low", "high"], 8_930.0), carried("b", &["low", "high"], 40_000.0)];
        let check = |axes: &str, expected: &[&str]| {
            let (resolved, pilot) = resolved(&checked(axes), found()).unwrap();
            assert_eq!(rates(&resolved), expected);
            assert!(!are_in(&resolved.scenario));
            assert_eq!(pilot.carried.len(), 2);
            let known =
                Known { drivers: vec!["weir".into()], origins: vec![], cpus: 2, namespaces: || Ok(()) };
            let text = serde_json::to_string(&resolved.scenario).unwrap();
            let again = read(&Source { name: "run".into(), text }, &Overrides::default(), &known).unwrap();
            assert_eq!(again, resolved);
        };
        check("", &["890/s 48000/s "]);
        check(
            "vary: { loads.low.rate: [10%, 30%, 77/s] }\n",
            &[
                "890/s 48000/s loads.low.rate = 890/s",
                "2700/s 48000/s loads.low.rate = 2700/s",
                "77/s 48000/s loads.low.rate = 77/s",
            ],
        );
        check(
            "cases: [{ loads: { low: { rate: 20% } } }, { loads.low.rate: 1/s }]\n",
            &["1800/s 48000/s loads.low.rate = 1800/s", "1/s 48000/s loads.low.rate = 1/s"],
        );
    }

    #[test]
    fn what_nothing_is_known_of_is_no_rate() {
        let said = |axes: &str, found: Vec<Carried>| {
            let error = resolved(&checked(axes), found).unwrap_err();
            format!("{error} | {}", error.remedy())
        };
        let none = said("", vec![carried("a", &["low"], 10.0)]);
        assert!(none.starts_with("loads.high.rate: 120% of what the gateways carry: none of them"), "{none}");
        let alike =
            said("vary: { loads.low.rate: [10%, 10.1%] }\n", vec![carried("a", &["low", "high"], 10.0)]);
        assert!(alike.starts_with("vary: points 1 and 2 of the axes come to the same rate"), "{alike}");
    }

    #[test]
    fn shares_become_rates_and_rates_stay() {
        let load = |rate: &str| Load { rate: Some(rate.parse().unwrap()), ..Load::default() };
        let check = |rate: &str, expected: &str| {
            assert_eq!(load(rate).of_carried(8_930.0), load(expected), "{rate}");
        };
        check("30%", "2700/s");
        check("10%,4321/s", "890/s,4321/s");
        check("0%..120%", "0/s..11000/s");
        check("1234/s", "1234/s");
    }
}
