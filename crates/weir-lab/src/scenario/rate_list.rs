//! The rates of a load, measured one after the other: `[500/s, 1000/s]`, `500/s..8000/s..8` for eight rates, or shares
//! of the gateways' throughput, like `5%..120%..13`.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use weir_document::{AskedRate, AskedRates, Rate};

/// Maximum number of rates of one load: each is measured in every cell.
const RATES_MAX: usize = 100;

/// The syntax of rates, for errors.
const FORMS: &str = "write a list like [500/s, 1000/s], 500/s..8000/s..8 for eight of them, or \
                     500/s..8000/s..500/s for strides";

/// Distinct rates in ascending order: all absolute, or all shares.
#[derive(Clone, Debug, PartialEq)]
pub struct RateList(Vec<AskedRate>);

impl RateList {
    /// The rates, ascending.
    pub fn rates(&self) -> &[AskedRate] {
        &self.0
    }

    /// Whether the rates are shares of a capacity that is measured first.
    pub fn are_shares(&self) -> bool {
        self.0.iter().any(|rate| rate.is_share())
    }

    /// Sorts `rates` into a list.
    ///
    /// # Errors
    /// For an empty or too long list, a mix of rates and shares, or a duplicate. The text is `cause; remedy`.
    pub(crate) fn of(mut rates: Vec<AskedRate>) -> Result<Self, String> {
        if rates.iter().any(|rate| rate.is_share()) && !rates.iter().all(|rate| rate.is_share()) {
            return Err("one list cannot contain rates and shares; use two loads".to_owned());
        }
        rates.sort_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
        if let Some(pair) = rates.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("duplicate rate `{}`; remove one of the two", pair[0]));
        }
        match rates.len() {
            0 => Err(format!("no rates; {FORMS}")),
            count if count > RATES_MAX => Err(format!("the list has {count} rates; use at most {RATES_MAX}")),
            _ => Ok(Self(rates)),
        }
    }
}

impl fmt::Display for RateList {
    /// Writes the rates with commas between them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, rate) in self.0.iter().enumerate() {
            write!(f, "{}{rate}", if place == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl FromStr for RateList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends: Vec<&str> = text.split("..").map(str::trim).collect();
        if let [from, to, count] = ends[..]
            && let Ok(count) = count.parse()
        {
            let rate = |text: &str| text.parse::<AskedRate>().map_err(|error| error.to_string());
            return Self::of(spread(rate(from)?, rate(to)?, count)?);
        }
        match text.parse::<AskedRates>().map_err(|error| error.to_string())? {
            AskedRates::Constant(rate) => Self::of(vec![rate]),
            AskedRates::Steps(rates) => Self::of(rates),
            AskedRates::Ramp(..) => Err(format!("`{text}` lacks the number of rates; {FORMS}")),
        }
    }
}

/// `count` evenly spaced rates including both ends, to three significant digits.
fn spread(from: AskedRate, to: AskedRate, count: usize) -> Result<Vec<AskedRate>, String> {
    if !(2..=RATES_MAX).contains(&count) {
        return Err(format!("a range cannot have {count} rates; use 2 to {RATES_MAX}"));
    }
    let between = |from: f64, to: f64| {
        let stride = (to - from) / (count - 1) as f64;
        (0..count).map(move |place| three_digits(from + stride * place as f64))
    };
    match (from, to) {
        (AskedRate::Rate(from), AskedRate::Rate(to)) => {
            Ok(between(from.0, to.0).map(|per_s| AskedRate::Rate(Rate(per_s))).collect())
        }
        (AskedRate::Share(from), AskedRate::Share(to)) => {
            Ok(between(from, to).map(AskedRate::Share).collect())
        }
        _ => Err(format!(
            "a range from `{from}` to `{to}` mixes a rate and a share; use two rates or two shares"
        )),
    }
}

fn three_digits(value: f64) -> f64 {
    let scale = 10_f64.powi(2 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    if rounded.is_finite() { rounded } else { value }
}

impl Serialize for RateList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RateList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListOrSpread)
    }
}

struct ListOrSpread;

impl<'de> Visitor<'de> for ListOrSpread {
    type Value = RateList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of rates, or a range like 500/s..8000/s..8")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<RateList, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<RateList, A::Error> {
        RateList::of(Vec::deserialize(SeqAccessDeserializer::new(list))?).map_err(de::Error::custom)
    }
}

impl JsonSchema for RateList {
    fn schema_name() -> Cow<'static, str> {
        "RateList".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rate = generator.subschema_for::<AskedRate>();
        json_schema!({
            "description": "Rates, one after the other: a list, a number of rates like `500/s..8000/s..8` or \
                `5%..120%..13`, or strides like `500/s..8000/s..500/s`.",
            "anyOf": [{ "type": "array", "items": rate, "minItems": 1 }, { "type": "string" }]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &[f64]) {
        let read: RateList = serde_json::from_str(json).unwrap();
        let value = |rate: &AskedRate| match rate {
            AskedRate::Rate(Rate(value)) | AskedRate::Share(value) => *value,
        };
        assert_eq!(read.rates().iter().map(value).collect::<Vec<_>>(), expected, "{json}");
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<RateList>(&again).unwrap(), read, "{again}");
    }

    #[test]
    fn rate_lists_and_ranges_are_parsed_and_sorted() {
        check(r#"["1000/s", "500/s", "60/m"]"#, &[1.0, 500.0, 1000.0]);
        check(r#""500/s..8000/s..4""#, &[500.0, 3000.0, 5500.0, 8000.0]);
        check(r#""1000/s..2000/s..4""#, &[1000.0, 1330.0, 1670.0, 2000.0]);
        check(r#""0.5/s..1/s..2""#, &[0.5, 1.0]);
        check(r#""500/s..1500/s..500/s""#, &[500.0, 1000.0, 1500.0]);
        check(r#""300/s""#, &[300.0]);
        check(r#"["30%", "5%"]"#, &[0.05, 0.3]);
        check(r#""5%..150%..4""#, &[0.05, 0.533, 1.02, 1.5]);
        check(r#""10%..30%..10%""#, &[0.1, 0.2, 0.3]);
    }

    #[test]
    fn invalid_rate_lists_are_rejected_with_the_syntax() {
        let said = |json: &str| serde_json::from_str::<RateList>(json).unwrap_err().to_string();
        assert!(said(r#"["5/s", "5/s"]"#).contains("duplicate rate `5/s`; remove one"));
        assert!(said("[]").contains("no rates; write a list like"));
        assert!(said(r#""500/s..8000/s""#).contains("lacks the number of rates; write"));
        assert!(said(r#""500/s..8000/s..1""#).contains("a range cannot have 1 rates; use 2 to 100"));
        assert!(said(r#""500/s..8000/s..101""#).contains("use 2 to 100"));
        assert!(said(r#""500..8000/s..4""#).contains("`500` has no unit"));
        assert!(said(r#""5/s..5/s..2""#).contains("duplicate rate"));
        assert!(said("[5]").contains("has no unit"));
        assert!(said(r#"["5%", "5/s"]"#).contains("one list cannot contain rates and shares; use two loads"));
        assert!(
            said(r#""5%..50/s..3""#).contains(
                "a range from `5%` to `50/s` mixes a rate and a share; use two rates or two shares"
            )
        );
        assert!(said(r#"["5%", "5.0%"]"#).contains("duplicate rate `5%`"));
    }
}
