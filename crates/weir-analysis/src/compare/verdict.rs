//! The verdict of one figure: what its interval says of its margin.

use serde::Serialize;

/// What can be said of B against A in one figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The interval lies wholly beyond the margin, on the good side.
    Better,
    /// The same on the bad side.
    Worse,
    /// The interval lies wholly within the margin.
    Same,
    /// Neither.
    Undecided,
}

impl Verdict {
    /// As reports print it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "the same",
            Self::Undecided => "undecided",
        }
    }
}

/// Where an interval lies to a margin. Both are logarithms, the interval is that of the ratio of B to A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Above,
    Below,
    Within,
    Across,
}

/// Where the interval from `low` to `high` lies to the margin, which reaches as far to both sides of zero.
pub(super) fn place([low, high]: [f64; 2], margin: f64) -> Place {
    if low > margin {
        Place::Above
    } else if high < -margin {
        Place::Below
    } else if low >= -margin && high <= margin {
        Place::Within
    } else {
        Place::Across
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_beyond_a_margin_only_wholly() {
        let check = |interval, expected| assert_eq!(place(interval, 0.1), expected);
        check([0.11, 0.2], Place::Above);
        check([0.1, 0.2], Place::Across);
        check([-0.2, -0.11], Place::Below);
        check([-0.1, 0.1], Place::Within);
        check([-0.11, 0.1], Place::Across);
        check([0.05, 0.3], Place::Across);
    }
}
