//! Converts rates that are shares of the capacity to absolute rates.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde_json::{Map, Value};
use weir_document::{AskedRate, AskedRates, Levels, Problem};
use weir_results::{Carried, DIRECT, Pilot, PilotRate};

use crate::LabError;
use crate::read::Checked;
use crate::scenario::shares::{absolute_rate, absolute_rates};
use crate::scenario::{Axis, RateList, Scenario, ShareOf, name_at};

/// Replaces the shares in `checked` with absolute rates. Also returns the results of the pilot, for the manifest of the
/// run.
///
/// # Errors
/// If no gateway has a known capacity for a load, or if two points of the axes get the same rates.
pub(crate) fn resolved(checked: &Checked, carried: Vec<Carried>) -> Result<(Checked, Pilot), LabError> {
    let mut resolver = ShareResolver { carried: &carried, rates: Vec::new() };
    let mut resolved = checked.clone();
    resolver.scenario(&mut resolved.scenario)?;
    for point in &mut resolved.points {
        resolver.scenario(&mut point.scenario)?;
        for (path, value) in &mut point.axes {
            resolver.value(&checked.scenario, path, value)?;
        }
    }
    for (place, point) in resolved.points.iter().enumerate() {
        if let Some(first) = resolved.points[..place].iter().position(|other| other.axes == point.axes) {
            let message =
                format!("combinations {} and {} of axis values have the same rate", first + 1, place + 1);
            let remedy = "use shares that differ more: weir rounds rates to two significant digits";
            return Err(LabError::Scenario(Problem::of("vary", message).help(remedy)));
        }
    }
    let rates = resolver.rates;
    Ok((resolved, Pilot { carried, rates }))
}

/// Computes absolute rates from the capacities in `carried`, and records each of them in `rates`.
struct ShareResolver<'c> {
    carried: &'c [Carried],
    rates: Vec<PilotRate>,
}

impl<'c> ShareResolver<'c> {
    fn scenario(&mut self, scenario: &mut Scenario) -> Result<(), LabError> {
        let as_asked = scenario.clone();
        let mut renamed = BTreeMap::new();
        for (name, load) in &mut scenario.loads.0 {
            if !load.is_relative() {
                continue;
            }
            if let Some(list) = &load.rates {
                load.rates = Some(self.list(name, load.of, list)?);
            }
            match (&load.rate, &load.one_of) {
                // This load is one rate of a list. The list is recorded as a whole, so this arm computes the rate
                // without recording it.
                (Some(Levels::Constant(share)), Some(list)) => {
                    let place = format!("loads.{list}.rates");
                    let rate = absolute_rate(*share, self.carrier(list, load.of, &place, share)?.rate_per_s);
                    load.rate = Some(Levels::Constant(rate));
                    renamed.insert(name.clone(), name_at(list, rate));
                }
                (Some(rates), _) => load.rate = Some(self.found(name, load.of, rates)?),
                (None, _) => {}
            }
            load.of = None;
        }
        let rename = |name: &mut String| {
            if let Some(new) = renamed.get(name) {
                name.clone_from(new);
            }
        };
        scenario.loads.0.iter_mut().for_each(|(name, _)| rename(name));
        scenario.disturbed_loads_mut().into_iter().flatten().for_each(rename);
        for (path, axis) in &mut scenario.vary.0 {
            let Axis::Values(values) = axis else { continue };
            for value in values {
                self.value(&as_asked, path, value)?;
            }
        }
        scenario.cases.iter_mut().try_for_each(|case| self.case(&as_asked, "", case))
    }

    /// Replaces the shares in `case`, and recursively in the maps within it. `prefix` is the path from the whole case
    /// to `case`; empty for the whole case.
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

    /// Replaces shares such as `30%` with absolute rates if `path` names a load, its `rate` or its `rates`. `value` is
    /// the value at this path in an axis or a case.
    fn value(&mut self, scenario: &Scenario, path: &str, value: &mut Value) -> Result<(), LabError> {
        let names: Vec<&str> = path.split('.').collect();
        match (&names[..], value) {
            (["loads", name, field @ ("rate" | "rates")], value) => {
                let of = scenario.loads.named(name).and_then(|load| load.of);
                self.field(name, of, field, value).map(|_| ())
            }
            (["loads", name], Value::Object(load)) => {
                let of = load.get("of").and_then(|of| serde_json::from_value(of.clone()).ok());
                let mut any = false;
                for field in ["rate", "rates"] {
                    if let Some(value) = load.get_mut(field) {
                        any |= self.field(name, of, field, value)?;
                    }
                }
                if any {
                    load.remove("of");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Replaces shares in `value` with absolute rates. Returns whether `value` contained shares. `value` is the field
    /// `field` of the load `name`.
    fn field(
        &mut self,
        name: &str,
        of: Option<ShareOf>,
        field: &str,
        value: &mut Value,
    ) -> Result<bool, LabError> {
        let found = match field {
            "rates" => match serde_json::from_value::<RateList>(value.clone()) {
                Ok(list) if list.are_shares() => serde_json::to_value(self.list(name, of, &list)?),
                _ => return Ok(false),
            },
            _ => match serde_json::from_value::<AskedRates>(value.clone()) {
                Ok(rates) if rates.any(AskedRate::is_share) => {
                    serde_json::to_value(self.found(name, of, &rates)?)
                }
                _ => return Ok(false),
            },
        };
        *value = found.expect("rates are plain values");
        Ok(true)
    }

    /// Replaces the shares in the list `asked` with absolute rates, and records both lists.
    fn list(&mut self, load: &str, of: Option<ShareOf>, asked: &RateList) -> Result<RateList, LabError> {
        let of = self.carrier(load, of, &format!("loads.{load}.rates"), asked)?;
        let rates = asked.rates().iter().map(|share| absolute_rate(*share, of.rate_per_s)).collect();
        let found = RateList::of(rates).map_err(|why| {
            let why = why.split(';').next().unwrap_or_default();
            let message = format!("at a capacity of {:.0}/s, two shares result in a {why}", of.rate_per_s);
            let remedy = "use shares that differ more: weir rounds rates to two significant digits";
            LabError::Scenario(Problem::of(format!("loads.{load}.rates"), message).help(remedy))
        })?;
        self.note(load, asked.to_string(), found.to_string(), of);
        Ok(found)
    }

    fn found(&mut self, load: &str, of: Option<ShareOf>, asked: &AskedRates) -> Result<AskedRates, LabError> {
        let of = self.carrier(load, of, &format!("loads.{load}.rate"), asked)?;
        let found = absolute_rates(asked, of.rate_per_s);
        self.note(load, asked.to_string(), found.to_string(), of);
        Ok(found)
    }

    /// The capacity that equals 100 % in the rates of `load`. Errors name the field `place` and the share `asked`.
    fn carrier(
        &self,
        load: &str,
        of: Option<ShareOf>,
        place: &str,
        asked: &impl Display,
    ) -> Result<&'c Carried, LabError> {
        let tried = self.carried.iter().filter(|carried| carried.loads.iter().any(|name| name == load));
        let by_rate = |one: &&Carried, other: &&Carried| one.rate_per_s.total_cmp(&other.rate_per_s);
        let is_gateway = |carried: &&Carried| carried.gateway != DIRECT;
        let found = match of.unwrap_or_default() {
            ShareOf::Least => tried.filter(is_gateway).min_by(by_rate),
            ShareOf::Greatest => tried.filter(is_gateway).max_by(by_rate),
            // The point with the lowest upstream capacity, so that the rate is the same at every point.
            ShareOf::Direct => tried.filter(|carried| !is_gateway(carried)).min_by(by_rate),
        };
        found.ok_or_else(|| {
            let message = format!("cannot compute {asked} of the capacity: the pilot could not measure it");
            let remedy = "fix the pilot errors in the lines above, or use a rate like 500/s";
            LabError::Host(Problem::of(place, message).help(remedy))
        })
    }

    /// Records the rates of `load`, unless they are already recorded.
    fn note(&mut self, load: &str, asked: String, rate: String, of: &Carried) {
        let rate = PilotRate {
            load: load.to_owned(),
            asked,
            rate,
            gateway: of.gateway.clone(),
            carried_per_s: of.rate_per_s,
            at_least: of.bound_by == weir_results::BoundBy::Generator,
        };
        if !self.rates.contains(&rate) {
            self.rates.push(rate);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::Known;
    use crate::read::{Overrides, read};
    use crate::source::Source;

    use super::*;

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

    fn known() -> Known {
        Known {
            drivers: vec!["weir".into()],
            origins: vec![],
            services: vec![],
            needs: [].into(),
            in_cluster: [].into(),
            cpus: 2,
            namespaces: || Ok(()),
        }
    }

    fn checked(axes: &str) -> Checked {
        let known = known();
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
    fn the_upstream_is_no_gateway() {
        let found =
            || vec![carried("a", &["low", "high"], 8_000.0), carried(DIRECT, &["low", "high"], 40_000.0)];
        let (resolved, _) = resolved(&checked(""), found()).unwrap();
        assert_eq!(
            rates(&resolved),
            ["800/s 9600/s "],
            "120% of the gateway's capacity, not of the upstream's"
        );
        let text = "name: x\ngateways: [weir]\nloads: { low: { model: open, rate: 10%, of: direct } }\n";
        let source = Source { name: "x.yaml".into(), text: text.into() };
        let checked = read(&source, &Overrides::default(), &known()).unwrap();
        let (resolved, _) = super::resolved(&checked, found()).unwrap();
        let rate = resolved.points[0].scenario.loads.named("low").unwrap().rate.as_ref().unwrap().to_string();
        assert_eq!(rate, "4000/s");
    }

    #[test]
    fn a_stored_run_keeps_absolute_rates() {
        let found =
            || vec![carried("a", &["low", "high"], 8_930.0), carried("b", &["low", "high"], 40_000.0)];
        let check = |axes: &str, expected: &[&str]| {
            let (resolved, pilot) = resolved(&checked(axes), found()).unwrap();
            assert_eq!(rates(&resolved), expected);
            assert!(!resolved.scenario.has_relative_rates());
            assert_eq!(pilot.carried.len(), 2);
            let known = known();
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
    fn a_list_of_shares_becomes_one_load_per_rate() {
        let read = |text: &str| {
            let source = Source { name: "x.yaml".into(), text: text.into() };
            read(&source, &Overrides::default(), &known()).unwrap()
        };
        let loads =
            "curve: { model: open, rates: 10%..30%..3, of: greatest }, other: { model: open, rate: 5/s }";
        let text = format!(
            "name: x\ngateways: [weir]\nloads: {{ {loads} }}\nchanges: {{ every: 1s, loads: [curve] }}\n\
             slow: {{ heads: 1, loads: [curve] }}"
        );
        let found = vec![carried("a", &["curve"], 8_930.0), carried("b", &["curve"], 40_000.0)];
        let (resolved, pilot) = resolved(&read(&text), found).unwrap();
        let point = &resolved.points[0].scenario;
        let names: Vec<&str> = point.loads.names().collect();
        assert_eq!(names, ["curve-4000", "curve-8000", "curve-12000", "other"]);
        assert_eq!(point.changes.as_ref().unwrap().loads, names[..3]);
        assert_eq!(point.slow.as_ref().unwrap().loads, names[..3]);
        let words: Vec<String> = pilot.rates.iter().map(PilotRate::words).collect();
        let said = "rate of curve: 4000/s, 8000/s, 12000/s (10%, 20%, 30% of the capacity of b: 40000/s)";
        assert_eq!(words, [said]);
        assert_eq!(read(&serde_json::to_string(&resolved.scenario).unwrap()), resolved);
        assert_eq!(resolved.scenario.changes.as_ref().unwrap().loads, ["curve"]);
    }

    #[test]
    fn shares_without_a_known_capacity_are_rejected() {
        let said = |axes: &str, found: Vec<Carried>| {
            let error = resolved(&checked(axes), found).unwrap_err();
            format!("{error} | {}", error.remedy())
        };
        let none = said("", vec![carried("a", &["low"], 10.0)]);
        assert!(
            none.starts_with(
                "loads.high.rate: cannot compute 120% of the capacity: the pilot could not measure it"
            ),
            "{none}"
        );
        let alike =
            said("vary: { loads.low.rate: [10%, 10.1%] }\n", vec![carried("a", &["low", "high"], 10.0)]);
        assert!(alike.starts_with("vary: combinations 1 and 2 of axis values have the same rate"), "{alike}");
        let lists = "vary: { loads.low: [{ model: open, rates: [10%, 10.1%] }] }\n";
        let alike = said(lists, vec![carried("a", &["low", "high"], 10.0)]);
        let expected = "loads.low.rates: at a capacity of 10/s, two shares result in a duplicate rate `1/s`";
        assert!(alike.starts_with(expected), "{alike}");
    }
}
