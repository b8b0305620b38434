//! Rates that a load is put to one after the other: `[500/s, 1000/s]`, or `500/s..8000/s..8` for eight of them.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use weir_document::{Rate, Rates};

/// Most rates of one load: each is measured in every cell.
const RATES_MAX: usize = 100;

/// How rates are written.
const FORMS: &str = "write a list like [500/s, 1000/s], 500/s..8000/s..8 for eight of them, or \
                     500/s..8000/s..500/s for strides";

/// Rates in ascending order, each once.
#[derive(Clone, Debug, PartialEq)]
pub struct RateList(Vec<Rate>);

impl RateList {
    /// The rates, from the least.
    pub fn rates(&self) -> &[Rate] {
        &self.0
    }

    fn of(mut rates: Vec<Rate>) -> Result<Self, String> {
        rates.sort_by(|a, b| a.0.total_cmp(&b.0));
        if let Some(pair) = rates.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(format!("the rate {} is given twice; keep one of the two", pair[0]));
        }
        match rates.len() {
            0 => Err(format!("no rates; {FORMS}")),
            count if count > RATES_MAX => Err(format!("{count} rates; give at most {RATES_MAX}")),
            _ => Ok(Self(rates)),
        }
    }
}

impl FromStr for RateList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ends: Vec<&str> = text.split("..").map(str::trim).collect();
        if let [from, to, count] = ends[..]
            && let Ok(count) = count.parse()
        {
            let rate = |text: &str| text.parse::<Rate>().map_err(|error| error.to_string());
            return Self::of(spread(rate(from)?, rate(to)?, count)?);
        }
        match text.parse::<Rates>().map_err(|error| error.to_string())? {
            Rates::Constant(rate) => Self::of(vec![rate]),
            Rates::Steps(rates) => Self::of(rates),
            Rates::Ramp(..) => Err(format!("`{text}` does not say how many rates; {FORMS}")),
        }
    }
}

/// `count` rates at equal distances, both ends among them, to three significant digits.
fn spread(from: Rate, to: Rate, count: usize) -> Result<Vec<Rate>, String> {
    if !(2..=RATES_MAX).contains(&count) {
        return Err(format!("a spread of {count} rates; give 2 to {RATES_MAX}"));
    }
    let stride = (to.0 - from.0) / (count - 1) as f64;
    Ok((0..count).map(|place| Rate(three_digits(from.0 + stride * place as f64))).collect())
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
        f.write_str("a list of rates, or a spread like 500/s..8000/s..8")
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
        let rate = generator.subschema_for::<Rate>();
        json_schema!({
            "description": "Rates that the load is put to one after the other: a list, or a spread like 500/s..8000/s..8.",
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
        assert_eq!(read.rates().iter().map(|rate| rate.0).collect::<Vec<_>>(), expected, "{json}");
        let again = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<RateList>(&again).unwrap(), read, "{again}");
    }

    #[test]
    fn rates_are_listed_spread_or_in_strides_and_ascend() {
        check(r#"["1000/s", "500/s", "60/m"]"#, &[1.0, 500.0, 1000.0]);
        check(r#""500/s..8000/s..4""#, &[500.0, 3000.0, 5500.0, 8000.0]);
        check(r#""1000/s..2000/s..4""#, &[1000.0, 1330.0, 1670.0, 2000.0]);
        check(r#""0.5/s..1/s..2""#, &[0.5, 1.0]);
        check(r#""500/s..1500/s..500/s""#, &[500.0, 1000.0, 1500.0]);
        check(r#""300/s""#, &[300.0]);
    }

    #[test]
    fn what_is_no_list_of_rates_is_refused_with_its_form() {
        let said = |json: &str| serde_json::from_str::<RateList>(json).unwrap_err().to_string();
        assert!(said(r#"["5/s", "5/s"]"#).contains("the rate 5/s is given twice; keep one"));
        assert!(said("[]").contains("no rates; write a list like"));
        assert!(said(r#""500/s..8000/s""#).contains("does not say how many rates; write"));
        assert!(said(r#""500/s..8000/s..1""#).contains("a spread of 1 rates; give 2 to 100"));
        assert!(said(r#""500/s..8000/s..101""#).contains("give 2 to 100"));
        assert!(said(r#""500..8000/s..4""#).contains("`500` has no unit"));
        assert!(said(r#""5/s..5/s..2""#).contains("given twice"));
        assert!(said("[5]").contains("has no unit"));
    }
}
