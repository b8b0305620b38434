//! An axis of a scenario: a list of values, or values that fit the host.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::SeqAccessDeserializer;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// The word in a scenario for CPU limits that fit the host and increase in equal steps.
const FITTED: &str = "fitted";
/// The word in a scenario for CPU limits that fit the host and double from one to the next.
const DOUBLED: &str = "doubled";

/// The only field whose values can be fitted.
pub(crate) const FITTED_PATH: &str = "limits.data.cpus";

/// Maximum CPU limit that `fitted` gives, cores. With more cores, the throughput is limited by the number of
/// connections instead of the gateway.
const CORES_MAX: usize = 6;

/// Maximum CPU limit that `doubled` gives, cores.
const DOUBLED_CORES_MAX: usize = 8;

/// If half of the host has at least this number of cores, `fitted` gives whole cores. Otherwise it gives 25, 50, 75 and
/// 100 % of that half.
const WHOLE_CORES_FROM: usize = 3;

/// The values that an axis gives to its field.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// A list, in this order.
    Values(Vec<Value>),
    /// CPU limits of the data plane, chosen so that the host can test them reliably. weir replaces them with a list of
    /// values before it stores the run.
    Fitted(Steps),
}

/// How fitted CPU limits increase from one value to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// By addition: 1, 2, 3.
    Even,
    /// By doubling: 1, 2, 4.
    Doubled,
}

impl Axis {
    /// The values of the axis; empty for [`Axis::Fitted`].
    pub fn values(&self) -> &[Value] {
        match self {
            Self::Values(values) => values,
            Self::Fitted(_) => &[],
        }
    }
}

/// CPU limits for a host with this number of cores. The load generator and the upstream keep half of them, so that the
/// gateway reaches its limit first.
pub(crate) fn fitted_cpus(host_cpus: usize, steps: Steps) -> Vec<Value> {
    match steps {
        Steps::Even => even_cpus(host_cpus / 2),
        Steps::Doubled => doubled_cpus(host_cpus / 2),
    }
}

fn even_cpus(half: usize) -> Vec<Value> {
    if half >= WHOLE_CORES_FROM {
        return (1..=half.min(CORES_MAX)).map(Value::from).collect();
    }
    let most = if half == 0 { 0.5 } else { half as f64 };
    (1..=4_u8).map(|quarters| cores(most * f64::from(quarters) / 4.0)).collect()
}

/// Powers of two from one core up to `half` of the host's cores. If the maximum is below four cores, the list starts at
/// a quarter of the maximum, so that there are three values.
fn doubled_cpus(half: usize) -> Vec<Value> {
    let most = match half.min(DOUBLED_CORES_MAX) {
        0 => 0.5,
        whole => f64::from(1_u32 << whole.ilog2()),
    };
    let halvings = most.log2().max(2.0) as i32;
    (0..=halvings).rev().map(|halved| cores(most / 2_f64.powi(halved))).collect()
}

/// Converts a number of cores to a value. Whole cores become integers, as in hand-written scenarios.
fn cores(cpus: f64) -> Value {
    if cpus.fract() == 0.0 { Value::from(cpus as u64) } else { Value::from(cpus) }
}

impl Serialize for Axis {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Values(values) => values.serialize(serializer),
            Self::Fitted(Steps::Even) => serializer.serialize_str(FITTED),
            Self::Fitted(Steps::Doubled) => serializer.serialize_str(DOUBLED),
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
        write!(f, "a list of values, or `{FITTED}` or `{DOUBLED}`")
    }

    fn visit_str<E: de::Error>(self, word: &str) -> Result<Axis, E> {
        match word {
            FITTED => Ok(Axis::Fitted(Steps::Even)),
            DOUBLED => Ok(Axis::Fitted(Steps::Doubled)),
            other => Err(E::unknown_variant(other, &[FITTED, DOUBLED])),
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
            "description": "Values of the field, in this order. `limits.data.cpus` can also be `fitted` or \
                `doubled`: limits that fit the host, at most half of its cores. `fitted` is 0.5, 1, 1.5 and 2 on four \
                cores, and whole cores up to 6 on hosts with at least six cores. `doubled` is 1, 2, 4 and 8 as far as \
                they fit, and 0.25, 0.5 and 1 on two cores. `weir run --plan` prints the limits. The run stores them, \
                so a resumed run has the same limits on any host.",
            "anyOf": [{ "type": "array", "minItems": 1 }, { "enum": [FITTED, DOUBLED] }]
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fitted_limits_use_at_most_half_of_the_host() {
        let check = |host_cpus: usize, expected: Value| {
            assert_eq!(Value::from(fitted_cpus(host_cpus, Steps::Even)), expected, "{host_cpus}");
        };
        check(1, json!([0.125, 0.25, 0.375, 0.5]));
        check(2, json!([0.25, 0.5, 0.75, 1]));
        check(3, json!([0.25, 0.5, 0.75, 1]));
        check(4, json!([0.5, 1, 1.5, 2]));
        check(6, json!([1, 2, 3]));
        check(12, json!([1, 2, 3, 4, 5, 6]));
        check(64, json!([1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn doubled_limits_use_at_most_half_of_the_host() {
        let check = |host_cpus: usize, expected: Value| {
            assert_eq!(Value::from(fitted_cpus(host_cpus, Steps::Doubled)), expected, "{host_cpus}");
        };
        check(1, json!([0.125, 0.25, 0.5]));
        check(2, json!([0.25, 0.5, 1]));
        check(4, json!([0.5, 1, 2]));
        check(8, json!([1, 2, 4]));
        check(12, json!([1, 2, 4]));
        check(16, json!([1, 2, 4, 8]));
        check(128, json!([1, 2, 4, 8]));
    }
}
