//! Rates or numbers that are constant, a ramp or a sequence of steps: `5000/s`, `1000/s..5000/s`, `1,10,60`.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::{QuantityError, Rate};

/// Maximum number of steps.
const STEPS_MAX: usize = 1_000;

/// A value that is constant or changes with time.
#[derive(Clone, Debug, PartialEq)]
pub enum Levels<T> {
    /// A constant value.
    Constant(T),
    /// Linear from the first to the second value.
    Ramp(T, T),
    /// Two or more values, one after the other.
    Steps(Vec<T>),
}

/// Rates during a load: `5000/s`, a ramp `1000/s..5000/s`, steps `1000/s..5000/s..1000/s` or `100/s,1000/s`.
pub type Rates = Levels<Rate>;

/// Numbers during a load: `32`, a ramp `1..60`, steps `1..60..5` or `1,10,60`.
pub type Counts = Levels<u32>;

/// A type that [`Levels`] can contain.
pub trait Level: Copy + PartialOrd + fmt::Display {
    /// Name of the type `Levels<Self>` in a JSON Schema.
    const NAME: &'static str;
    /// Valid forms, for messages and the JSON Schema.
    const FORMS: &'static str;

    /// Parses one value.
    ///
    /// # Errors
    /// If the text is invalid.
    fn read(text: &str) -> Result<Self, QuantityError>;

    /// Parses the start or end of a ramp. Zero is valid here, even for types that reject a constant zero.
    ///
    /// # Errors
    /// If the text is invalid.
    fn read_end(text: &str) -> Result<Self, QuantityError>;

    /// Step `n` from `self` toward `to`: `self` plus or minus `n` times `by`. `None` if this is beyond `to`, or if `by`
    /// is zero.
    fn stride(self, to: Self, by: Self, n: usize) -> Option<Self>;

    /// Converts a number without a unit in a document; `None` if the type needs a unit or the number is out of range.
    fn from_number(number: f64) -> Option<Self>;

    /// Serializes a constant value.
    ///
    /// # Errors
    /// If the serializer fails.
    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error>;
}

impl Level for Rate {
    const NAME: &'static str = "Rates";
    const FORMS: &'static str =
        "`5000/s`, `1000/s..5000/s` (ramp), `1000/s..5000/s..1000/s` or `100/s,1000/s` (steps)";

    fn read(text: &str) -> Result<Self, QuantityError> {
        text.parse()
    }

    fn read_end(text: &str) -> Result<Self, QuantityError> {
        if text == "0/s" { Ok(Self(0.0)) } else { text.parse() }
    }

    fn stride(self, to: Self, by: Self, n: usize) -> Option<Self> {
        let up = to.0 >= self.0;
        let at = self.0 + if up { by.0 } else { -by.0 } * n as f64;
        // Because of rounding, the last step can lie slightly beyond the end.
        let slack = by.0 * 1e-9;
        let within = if up { at <= to.0 + slack } else { at >= to.0 - slack };
        (within && by.0 > 0.0).then_some(Self(at))
    }

    fn from_number(_: f64) -> Option<Self> {
        None
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.serialize(serializer)
    }
}

impl Level for u32 {
    const NAME: &'static str = "Counts";
    const FORMS: &'static str = "`32`, `1..60` (ramp), `1..60..5` or `1,10,60` (steps)";

    fn read(text: &str) -> Result<Self, QuantityError> {
        text.parse().map_err(|_| wrong::<Self>(text, "not a whole number"))
    }

    fn read_end(text: &str) -> Result<Self, QuantityError> {
        Self::read(text)
    }

    fn stride(self, to: Self, by: Self, n: usize) -> Option<Self> {
        let away = by.checked_mul(u32::try_from(n).ok()?).filter(|_| by > 0)?;
        match to >= self {
            true => self.checked_add(away).filter(|at| *at <= to),
            false => self.checked_sub(away).filter(|at| *at >= to),
        }
    }

    fn from_number(number: f64) -> Option<Self> {
        (number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number)).then_some(number as u32)
    }

    fn write<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(*self)
    }
}

impl<T: Level> Levels<T> {
    /// The steps; empty for a constant or a ramp.
    pub fn steps(&self) -> &[T] {
        match self {
            Self::Steps(steps) => steps,
            _ => &[],
        }
    }

    /// Applies `of` to each value.
    pub fn map<U: Level>(&self, of: impl Fn(T) -> U) -> Levels<U> {
        match self {
            Self::Constant(level) => Levels::Constant(of(*level)),
            Self::Ramp(from, to) => Levels::Ramp(of(*from), of(*to)),
            Self::Steps(steps) => Levels::Steps(steps.iter().copied().map(of).collect()),
        }
    }

    /// Whether `holds` is true for at least one value. For a ramp, only its start and end are tested.
    pub fn any(&self, holds: impl Fn(T) -> bool) -> bool {
        match self {
            Self::Constant(level) => holds(*level),
            Self::Ramp(from, to) => holds(*from) || holds(*to),
            Self::Steps(steps) => steps.iter().copied().any(holds),
        }
    }

    /// The minimum value.
    pub fn least(&self) -> T {
        match self {
            Self::Constant(level) => *level,
            Self::Ramp(from, to) => {
                if from < to {
                    *from
                } else {
                    *to
                }
            }
            Self::Steps(steps) => {
                steps[1..].iter().fold(steps[0], |least, &step| if step < least { step } else { least })
            }
        }
    }

    /// The maximum value.
    pub fn greatest(&self) -> T {
        match self {
            Self::Constant(level) => *level,
            Self::Ramp(from, to) => {
                if from > to {
                    *from
                } else {
                    *to
                }
            }
            Self::Steps(steps) => {
                steps[1..].iter().fold(steps[0], |most, &step| if step > most { step } else { most })
            }
        }
    }

    fn of_steps(steps: Vec<T>, text: &str) -> Result<Self, QuantityError> {
        match steps[..] {
            [] => Err(wrong::<T>(text, "empty")),
            [only] => Ok(Self::Constant(only)),
            _ if steps.len() > STEPS_MAX => Err(wrong::<T>(text, "too long: more than 1000 steps")),
            _ => Ok(Self::Steps(steps)),
        }
    }
}

fn wrong<T: Level>(given: &str, why: &'static str) -> QuantityError {
    QuantityError::OutOfRange { given: given.to_owned(), why, kind: "it", examples: T::FORMS }
}

impl<T: Level> FromStr for Levels<T> {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        if text.contains(',') {
            // To detect too many steps, it is enough to parse one more than allowed.
            let steps = text.split(',').take(STEPS_MAX + 1).map(|step| T::read(step.trim()));
            return Self::of_steps(steps.collect::<Result<_, _>>()?, text);
        }
        let ends: Vec<&str> = text.split("..").map(str::trim).collect();
        match ends[..] {
            [level] => T::read(level).map(Self::Constant),
            [from, to] => Ok(Self::Ramp(T::read_end(from)?, T::read_end(to)?)),
            [from, to, by] => {
                let (from, to, by) = (T::read(from)?, T::read(to)?, T::read(by)?);
                if from.stride(to, by, 0).is_none() {
                    return Err(wrong::<T>(text, "a range with an invalid step"));
                }
                let steps = (0..=STEPS_MAX).map_while(|n| from.stride(to, by, n)).collect();
                Self::of_steps(steps, text)
            }
            _ => Err(wrong::<T>(text, "not a level, a ramp or steps")),
        }
    }
}

impl<T: Level> fmt::Display for Levels<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Constant(level) => level.fmt(f),
            Self::Ramp(from, to) => write!(f, "{from}..{to}"),
            Self::Steps(steps) => {
                let steps: Vec<String> = steps.iter().map(T::to_string).collect();
                f.write_str(&steps.join(","))
            }
        }
    }
}

impl<T: Level> Serialize for Levels<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(level) => level.write(serializer),
            _ => serializer.collect_str(self),
        }
    }
}

impl<'de, T: Level> Deserialize<'de> for Levels<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Written(PhantomData))
    }
}

/// An element of a list: a single value, not a ramp or steps.
struct Item<T>(T);

impl<'de, T: Level> Deserialize<'de> for Item<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Levels::deserialize(deserializer)? {
            Levels::Constant(level) => Ok(Self(level)),
            other => Err(de::Error::custom(wrong::<T>(&other.to_string(), "not a single level"))),
        }
    }
}

struct Written<T>(PhantomData<T>);

impl<'de, T: Level> Visitor<'de> for Written<T> {
    type Value = Levels<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::FORMS)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Levels<T>, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Levels<T>, E> {
        self.visit_f64(number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Levels<T>, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Levels<T>, E> {
        match T::from_number(number) {
            Some(level) => Ok(Levels::Constant(level)),
            None => self.visit_str(&number.to_string()),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Levels<T>, A::Error> {
        let mut steps = Vec::new();
        while let Some(Item(step)) = list.next_element()? {
            steps.push(step);
            if steps.len() > STEPS_MAX {
                break;
            }
        }
        Levels::of_steps(steps, "[..]").map_err(de::Error::custom)
    }
}

impl<T: Level> JsonSchema for Levels<T> {
    fn schema_name() -> Cow<'static, str> {
        T::NAME.into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": format!("One value, a ramp or steps, like {}", T::FORMS),
            "type": ["string", "integer", "array"],
            "items": { "type": ["string", "integer"] }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check<T: Level + fmt::Debug>(text: &str, expected: Levels<T>, printed: &str) {
        let read: Levels<T> = text.parse().unwrap();
        assert_eq!(read, expected, "{text}");
        assert_eq!(read.to_string(), printed, "{text}");
        assert_eq!(printed.parse::<Levels<T>>().unwrap(), read, "{printed}");
        let json = serde_json::to_string(&read).unwrap();
        assert_eq!(serde_json::from_str::<Levels<T>>(&json).unwrap(), read, "{json}");
    }

    #[test]
    fn levels_ramps_and_steps_are_read_and_printed() {
        check("32", Levels::Constant(32), "32");
        check("1..60", Levels::Ramp(1, 60), "1..60");
        check("1 .. 60 .. 20", Levels::Steps(vec![1, 21, 41]), "1,21,41");
        check("10..1..3", Levels::Steps(vec![10, 7, 4, 1]), "10,7,4,1");
        check("1, 10 ,60", Levels::Steps(vec![1, 10, 60]), "1,10,60");
        check("5..5..1", Levels::Constant(5), "5");
        check("5000/s", Levels::Constant(Rate(5000.0)), "5000/s");
        check("0/s..300/m", Levels::Ramp(Rate(0.0), Rate(5.0)), "0/s..5/s");
        check(
            "0.1/s..0.3/s..0.1/s",
            Levels::Steps(vec![Rate(0.1), Rate(0.2), Rate(0.1 + 0.2)]),
            "0.1/s,0.2/s,0.30000000000000004/s",
        );
        check("100/s,1000/s", Levels::Steps(vec![Rate(100.0), Rate(1000.0)]), "100/s,1000/s");
    }

    #[test]
    fn documents_may_contain_numbers_and_lists() {
        assert_eq!(serde_json::from_str::<Counts>("7").unwrap(), Levels::Constant(7));
        assert_eq!(serde_json::from_str::<Counts>("[1, \"5\", 60]").unwrap(), Levels::Steps(vec![1, 5, 60]));
        assert_eq!(
            serde_json::from_str::<Rates>("[\"1/s\", \"2/s\"]").unwrap(),
            Levels::Steps(vec![Rate(1.0), Rate(2.0)])
        );
        assert_eq!(serde_json::to_string(&Levels::Constant(7)).unwrap(), "7");
    }

    #[test]
    fn invalid_levels_are_rejected_with_a_valid_form() {
        let rates = |text: &str| text.parse::<Rates>().unwrap_err().to_string();
        let counts = |text: &str| text.parse::<Counts>().unwrap_err().to_string();
        assert_eq!(rates("5000"), "`5000` has no unit; write a rate with its unit, like 5000/s, 300/m");
        assert!(rates("1/s..5").starts_with("`5` has no unit"));
        assert!(rates("0/s").contains("not above zero"));
        assert_eq!(
            counts("many"),
            "`many` is not a whole number; \
             write it like `32`, `1..60` (ramp), `1..60..5` or `1,10,60` (steps)"
        );
        assert!(counts("1..5000..1").contains("more than 1000 steps"));
        assert!(counts("1..9..0").contains("an invalid step"));
        assert!(counts("1..2..3..4").contains("not a level"));
        for text in ["", "..", "1..", "..5", ",", "1,", "-3", "1.5", "1,2..3", "4294967296"] {
            assert!(text.parse::<Counts>().is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Counts>("[]").is_err());
        assert!(serde_json::from_str::<Counts>("[\"1..5\"]").is_err());
        assert!(serde_json::from_str::<Rates>("5").is_err());
    }

    #[test]
    fn the_maximum_level_is_found() {
        let greatest = |text: &str| text.parse::<Counts>().unwrap().greatest();
        assert_eq!(["3", "1..9", "9..1", "1,60,5"].map(greatest), [3, 9, 9, 60]);
    }
}
