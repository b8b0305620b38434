//! The verdict on one metric: its interval relative to its margin.

use serde::Serialize;

/// The verdict on B against A in one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval lies beyond the margin, on the better side.
    Better,
    /// The whole interval lies beyond the margin, on the worse side.
    Worse,
    /// The whole interval lies within the margin.
    Same,
    /// The interval crosses the margin, or no verdict is possible.
    Undecided,
}

impl Verdict {
    /// The verdict as reports print it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "the same",
            Self::Undecided => "undecided",
        }
    }
}

/// Position of the interval of ln(B / A) relative to the margin, which is also a logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Above,
    Below,
    Within,
    Across,
}

/// Position of the interval from `low` to `high` relative to the margin, which is symmetric about zero.
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
