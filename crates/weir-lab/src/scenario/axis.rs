//! An axis of a scenario: values that are written, or those that fit the host.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The word for values that fit the host.
const FITTED: &str = "fitted";

/// The only path whose values can be fitted.
pub(crate) const FITTED_PATH: &str = "limits.data.cpus";

/// Most cores that are fitted: beyond, rather the connections bind than the gateway.
const CORES_MAX: usize = 6;

/// From this many cores on, limits are whole cores; below, quarters of what there is.
const WHOLE_CORES_FROM: usize = 3;

/// The values that a field takes.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// These, in this order.
    Values(Vec<Value>),
    /// CPU limits of the data plane that the host can honestly test. The run keeps them as values.
    Fitted,
}

impl Axis {
    /// The values; none where they are still to be fitted.
    pub fn values(&self) -> &[Value] {
        match self {
            Self::Values(values) => values,
            Self::Fitted => &[],
        }
    }
}

/// CPU limits for a host with that many cores. Half of them stay with the load generator and the upstream, so that the
/// gateway's limit binds first.
pub(crate) fn fitted_cpus(host_cpus: usize) -> Vec<Value> {
    let half = host_cpus / 2;
    if half >= WHOLE_CORES_FROM {
        return (1..=half.min(CORES_MAX)).map(Value::from).collect();
    }
    let most = if half == 0 { 0.5 } else { half as f64 };
    (1..=4_u8)
        .map(|quarters| most * f64::from(quarters) / 4.0)
        .map(|cpus| if cpus.fract() == 0.0 { Value::from(cpus as u64) } else { Value::from(cpus) })
        .collect()
}

impl Serialize for Axis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Values(values) => values.serialize(serializer),
            Self::Fitted => serializer.serialize_str(FITTED),
        }
    }
}

impl<'de> Deserialize<'de> for Axis {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListOrWord)
    }
}

struct ListOrWord;

impl<'de> Visitor<'de> for ListOrWord {
    type Value = Axis;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of values, or `{FITTED}`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Axis, E> {
        match word {
            FITTED => Ok(Axis::Fitted),
            other => Err(E::unknown_variant(other, &[FITTED])),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Axis, A::Error> {
        Ok(Axis::Values(Vec::deserialize(SeqAccessDeserializer::new(list))?))
    }
}

impl JsonSchema for Axis {
    fn schema_name() -> Cow<'static, str> {
        "Axis".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A list of values, or `fitted` for CPU limits of the data plane that fit the host.",
            "anyOf": [{ "type": "array", "minItems": 1 }, { "const": FITTED }]
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn limits_leave_half_of_the_host_to_the_rest_of_the_rig() {
        let check = |host_cpus: usize, expected: Value| {
            assert_eq!(Value::from(fitted_cpus(host_cpus)), expected, "{host_cpus}");
        };
        check(1, json!([0.125, 0.25, 0.375, 0.5]));
        check(2, json!([0.25, 0.5, 0.75, 1]));
        check(3, json!([0.25, 0.5, 0.75, 1]));
        check(4, json!([0.5, 1, 1.5, 2]));
        check(6, json!([1, 2, 3]));
        check(12, json!([1, 2, 3, 4, 5, 6]));
        check(64, json!([1, 2, 3, 4, 5, 6]));
    }
}
