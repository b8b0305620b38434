//! Values of placeholders: pure functions of the seed, the arrival and the connection.

use super::Place;
use super::lines::Lines;
use crate::pacing::schedule::hash;

/// Mixed into the seed for the values of templates. Arrival gaps and the choice of requests use the same seed, but need
/// different random numbers.
const DRAW: u64 = 0xd1b5_4a32_d192_ed03;

/// A part of a rendered request: constant bytes, or a value that is inserted for each request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Constant bytes: a range of the buffer with all constant bytes.
    Literal { start: u32, bytes: u32 },
    /// A random whole number from the range with the index `range`. `occurrence` numbers the placeholders of a request,
    /// so that they get different random numbers.
    Integer { range: u32, occurrence: u32 },
    /// The index of the arrival.
    Seq,
    /// A UUID of version 4.
    Uuid { occurrence: u32 },
    /// The domain of the connection, or else of the request.
    Domain,
    /// A random line of the list with the index `list`.
    Pick { list: u32, occurrence: u32 },
    /// The next bearer token in round robin.
    Token,
    /// The length of the body in bytes: of all parts after the header fields.
    BodyBytes,
}

/// The seed, ranges and lists from which the values of placeholders are drawn.
#[derive(Debug, Default)]
pub(crate) struct Values {
    pub(crate) seed: u64,
    /// Number of earlier runs of this load. It is part of the seed of UUIDs, so that they differ from run to run.
    pub(crate) attempt: u32,
    /// The ranges of `{low..high}` placeholders; both ends are included.
    pub(crate) ranges: Vec<(u64, u64)>,
    pub(crate) lists: Vec<Lines>,
    pub(crate) domains: Lines,
    pub(crate) tokens: Lines,
}

/// The value of a part for one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Text(&'a [u8]),
    Number(u64),
    Uuid(u128),
}

impl Values {
    /// Returns the value of a part; `None` if the part is constant bytes or the length of the body.
    pub(crate) fn of(&self, part: Part, at: &Place) -> Option<Value<'_>> {
        Some(match part {
            Part::Integer { range, occurrence } => {
                let (low, high) = self.ranges[range as usize];
                let count = u128::from(high - low) + 1;
                Value::Number(low + self.below(count, occurrence, at))
            }
            Part::Seq => Value::Number(at.index),
            Part::Uuid { occurrence } => {
                let seed = match self.attempt {
                    0 => self.seed_of(occurrence),
                    again => hash(self.seed_of(occurrence), u64::from(again)),
                };
                let bits = u128::from(hash(seed, at.index)) << 64 | u128::from(hash(!seed, at.index));
                // Sets the version (4) and the variant of RFC 9562.
                Value::Uuid(bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62)
            }
            Part::Domain => {
                let turn = (at.index % self.domains.len() as u64) as usize;
                Value::Text(self.domains.line(at.domain.map_or(turn, |domain| domain as usize)))
            }
            Part::Pick { list, occurrence } => {
                let lines = &self.lists[list as usize];
                Value::Text(lines.line(self.below(lines.len() as u128, occurrence, at) as usize))
            }
            Part::Token => Value::Text(self.tokens.line((at.index % self.tokens.len() as u64) as usize)),
            Part::Literal { .. } | Part::BodyBytes => return None,
        })
    }

    /// A random number below `count`, with negligible bias. `count` is at most 2^64.
    fn below(&self, count: u128, occurrence: u32, at: &Place) -> u64 {
        ((u128::from(hash(self.seed_of(occurrence), at.index)) * count) >> 64) as u64
    }

    fn seed_of(&self, occurrence: u32) -> u64 {
        hash(self.seed ^ DRAW, u64::from(occurrence))
    }
}

impl Value<'_> {
    pub(crate) fn bytes(self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Number(number) => u64::from(number.checked_ilog10().unwrap_or(0)) + 1,
            Self::Uuid(_) => 36,
        }
    }

    pub(crate) fn append(self, out: &mut Vec<u8>) {
        match self {
            Self::Text(text) => out.extend_from_slice(text),
            Self::Number(number) => out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes()),
            Self::Uuid(bits) => append_uuid(out, bits),
        }
    }
}

fn append_uuid(out: &mut Vec<u8>, bits: u128) {
    let mut text = [b'-'; 36];
    let places = (0..36).filter(|at| !matches!(at, 8 | 13 | 18 | 23));
    for (digit, at) in places.enumerate() {
        text[at] = b"0123456789abcdef"[(bits >> (124 - 4 * digit)) as usize & 15];
    }
    out.extend_from_slice(&text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(index: u64) -> Place {
        Place { index, domain: None, close: false }
    }

    fn lines(texts: &[&str]) -> Lines {
        let mut lines = Lines::default();
        texts.iter().for_each(|text| lines.push(text.as_bytes()));
        lines
    }

    fn values(seed: u64) -> Values {
        Values {
            seed,
            attempt: 0,
            ranges: vec![(1, 50), (0, u64::MAX), (7, 7), (u64::MAX, u64::MAX)],
            lists: vec![lines(&["red", "green", "blue"])],
            domains: lines(&["a.example", "b.example"]),
            tokens: lines(&["t0", "t1", "t2"]),
        }
    }

    fn text(values: &Values, part: Part, at: &Place) -> String {
        let value = values.of(part, at).unwrap();
        let mut out = Vec::new();
        value.append(&mut out);
        assert_eq!(value.bytes(), out.len() as u64);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tokens_follow_the_index_and_domains_the_connection_if_it_has_one() {
        let values = values(1);
        let of = |part, index| text(&values, part, &place(index));
        assert_eq!([of(Part::Seq, 0), of(Part::Seq, 1_234_567)], ["0", "1234567"]);
        assert_eq!([of(Part::Token, 0), of(Part::Token, 2), of(Part::Token, 3)], ["t0", "t2", "t0"]);
        assert_eq!([of(Part::Domain, 4), of(Part::Domain, 5)], ["a.example", "b.example"]);
        let on_a_connection = Place { domain: Some(1), ..place(4) };
        assert_eq!(text(&values, Part::Domain, &on_a_connection), "b.example");
    }

    #[test]
    fn values_are_uniform_and_depend_only_on_seed_index_and_occurrence() {
        let draws = 100_000;
        let check = |part, expected: &[String]| {
            let mut counts = std::collections::BTreeMap::new();
            for index in 0..draws {
                *counts.entry(text(&values(3), part, &place(index))).or_insert(0u64) += 1;
            }
            let mut sorted = expected.to_vec();
            sorted.sort();
            assert!(counts.keys().eq(&sorted), "{counts:?}");
            let share = 1.0 / expected.len() as f64;
            let (mean, sigma) = (draws as f64 * share, (draws as f64 * share * (1.0 - share)).sqrt());
            assert!(counts.values().all(|&count| (count as f64 - mean).abs() <= 4.0 * sigma), "{counts:?}");
        };
        check(
            Part::Integer { range: 0, occurrence: 0 },
            &(1..=50).map(|n| n.to_string()).collect::<Vec<_>>(),
        );
        check(Part::Integer { range: 2, occurrence: 1 }, &["7".to_owned()]);
        check(Part::Integer { range: 3, occurrence: 1 }, &[u64::MAX.to_string()]);
        check(Part::Pick { list: 0, occurrence: 2 }, &["red", "green", "blue"].map(str::to_owned));

        let series = |seed, occurrence| {
            let part = Part::Integer { range: 1, occurrence };
            (0..50).map(|index| text(&values(seed), part, &place(index))).collect::<Vec<_>>()
        };
        assert_eq!(series(1, 0), series(1, 0));
        assert_ne!(series(1, 0), series(2, 0));
        assert_ne!(series(1, 0), series(1, 1));
    }

    #[test]
    fn uuids_differ_when_a_load_is_repeated() {
        let uuid = |attempt: u32| {
            let values = Values { attempt, ..values(1) };
            text(&values, Part::Uuid { occurrence: 0 }, &place(7))
        };
        assert_eq!(std::collections::HashSet::from([uuid(0), uuid(1), uuid(2)]).len(), 3);
        let number = |attempt: u32| {
            text(&Values { attempt, ..values(1) }, Part::Integer { range: 0, occurrence: 0 }, &place(7))
        };
        assert_eq!(number(0), number(1), "everything else stays");
    }

    #[test]
    fn uuids_are_of_version_4_and_do_not_repeat() {
        let mut seen = std::collections::HashSet::new();
        for index in 0..1_000 {
            for occurrence in 0..3 {
                let uuid = text(&values(1), Part::Uuid { occurrence }, &place(index));
                let bytes = uuid.as_bytes();
                assert_eq!((bytes[8], bytes[13], bytes[18], bytes[23]), (b'-', b'-', b'-', b'-'));
                assert_eq!(uuid.bytes().filter(u8::is_ascii_hexdigit).count(), 32);
                assert_eq!(bytes[14], b'4');
                assert!(matches!(bytes[19], b'8' | b'9' | b'a' | b'b'), "{uuid}");
                assert!(seen.insert(uuid));
            }
        }
    }
}
