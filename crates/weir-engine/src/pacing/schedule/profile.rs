//! The rate of a schedule over time: constant or linear, with bursts.
//!
//! ```text
//!   rate                                   burst
//!    |        ____          ____          ____
//!    |       |    |        |    |        |    |  ____ rate at the end
//!    |       |    |        |    | ______ |    | /
//!    |       |    | ______/|    |/       |    |/
//!    | ______|    |/
//!    +--------------------------------------------------> time
//!      warm-up    sustained phase
//! ```

use weir_document::Burst;

use crate::spec::{LoadSpec, ModelSpec};

/// The due time of an arrival that never happens. It is later than the end of any load, and can be added to a clock
/// without overflow.
pub const NEVER_NS: u64 = u64::MAX / 4;
/// Maximum length of a load with a changing rate: a week of warm-up and a week of sustained phase.
const HORIZON_NS: u64 = 14 * 24 * 3_600 * 1_000_000_000;

/// The rate of a schedule as a function of the time since the load's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    rate_per_s: f64,
    ramp: Option<Ramp>,
    burst: Option<Burst>,
    /// No arrival is due after this time, so that the search for the next arrival ends.
    horizon_ns: u64,
}

/// A linear change of the rate to `to_per_s`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ramp {
    from_ns: u64,
    length_ns: u64,
    to_per_s: f64,
}

/// A period in which the rate is constant or changes linearly.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Piece {
    start_ns: u64,
    end_ns: u64,
    /// Expected number of arrivals before this piece.
    before: f64,
    rate_per_s: f64,
    /// Change of the rate, in arrivals per second per second.
    slope: f64,
}

impl From<f64> for Profile {
    /// A constant rate, which must be above zero and finite.
    fn from(rate_per_s: f64) -> Self {
        Self { rate_per_s, ramp: None, burst: None, horizon_ns: HORIZON_NS }
    }
}

impl From<&Profile> for Profile {
    fn from(profile: &Profile) -> Self {
        *profile
    }
}

impl Profile {
    /// The rate of a load without steps; `None` in a closed loop. A ramp spans the sustained phase; the warm-up has the
    /// initial rate of the ramp.
    pub fn of(spec: &LoadSpec) -> Option<Self> {
        let ModelSpec::Open { rate_per_s, rate_to_per_s, burst, .. } = spec.model else { return None };
        let mut profile = Self::from(rate_per_s);
        profile.burst = burst;
        if let Some(duration_ns) = spec.duration_ns {
            profile.horizon_ns = spec.longest_warmup_ns().saturating_add(duration_ns).min(HORIZON_NS);
            if let Some(to_per_s) = rate_to_per_s {
                profile = profile.ramp(to_per_s, spec.warmup_ns, duration_ns);
            }
        }
        Some(profile)
    }

    /// Adds a ramp: the rate changes linearly to `to_per_s` between `from_ns` and `from_ns + length_ns`, and then
    /// stays.
    pub fn ramp(mut self, to_per_s: f64, from_ns: u64, length_ns: u64) -> Self {
        self.ramp = Some(Ramp { from_ns, length_ns: length_ns.max(1), to_per_s });
        self
    }

    /// Adds bursts. Once every `burst.every`, a burst replaces the rate for `burst.length`.
    pub fn bursts(mut self, burst: Burst) -> Self {
        debug_assert!(burst.length < burst.every);
        self.burst = Some(burst);
        self
    }

    /// The rate, if it is constant.
    pub(super) fn constant(&self) -> Option<f64> {
        (self.ramp.is_none() && self.burst.is_none()).then_some(self.rate_per_s)
    }

    /// The piece that starts at time 0.
    pub(super) fn first(&self) -> Piece {
        self.piece(0, 0.0)
    }

    /// Returns the time at which the expected number of arrivals reaches `mass`. Moves `piece` forward to the piece
    /// that contains this time, so `mass` must not fall from call to call.
    ///
    /// The boundaries of pieces do not depend on `mass`, so all iterators agree exactly.
    pub(super) fn due_ns(&self, piece: &mut Piece, mass: f64) -> u64 {
        while mass > piece.end_mass() && piece.end_ns < NEVER_NS {
            if piece.end_ns > self.horizon_ns {
                return NEVER_NS;
            }
            *piece = self.piece(piece.end_ns, piece.end_mass());
        }
        piece.due_ns(mass)
    }

    /// Expected number of arrivals in the first `until_ns` nanoseconds.
    pub(crate) fn arrivals_until(&self, until_ns: u64) -> f64 {
        let mut piece = self.first();
        while piece.end_ns < until_ns && piece.end_ns <= self.horizon_ns {
            piece = self.piece(piece.end_ns, piece.end_mass());
        }
        piece.mass_at(until_ns)
    }

    /// The piece that starts at `start_ns`. `before` is the expected number of arrivals before it.
    fn piece(&self, start_ns: u64, before: f64) -> Piece {
        let (end_ns, rate_per_s, slope) = self.line(start_ns);
        let mut piece = Piece { start_ns, end_ns, before, rate_per_s, slope };
        if let Some(burst) = &self.burst {
            let (length_ns, every_ns) = (burst.length.as_ns(), burst.every.as_ns());
            let into_ns = start_ns % every_ns;
            let cycle_ns = start_ns - into_ns;
            if into_ns < length_ns {
                // A ramp that begins or ends during the burst does not split this piece: the next piece starts with the
                // right rate.
                piece.end_ns = cycle_ns + length_ns;
                (piece.rate_per_s, piece.slope) = (burst.rate.0, 0.0);
            } else {
                piece.end_ns = end_ns.min(cycle_ns + every_ns);
            }
        }
        piece
    }

    /// Returns the rate without bursts at `at_ns`, as (end of this linear part, arrivals per second, change of the
    /// rate per second).
    fn line(&self, at_ns: u64) -> (u64, f64, f64) {
        let Some(ramp) = &self.ramp else { return (NEVER_NS, self.rate_per_s, 0.0) };
        let end_ns = ramp.from_ns + ramp.length_ns;
        if at_ns < ramp.from_ns {
            return (ramp.from_ns, self.rate_per_s, 0.0);
        }
        if at_ns >= end_ns {
            return (NEVER_NS, ramp.to_per_s, 0.0);
        }
        let change = ramp.to_per_s - self.rate_per_s;
        let share = (at_ns - ramp.from_ns) as f64 / ramp.length_ns as f64;
        (end_ns, self.rate_per_s + change * share, change / (ramp.length_ns as f64 / 1e9))
    }
}

impl Piece {
    fn end_mass(&self) -> f64 {
        self.mass_at(self.end_ns)
    }

    /// Expected number of arrivals from the start of the schedule until `at_ns`, a time in this piece.
    fn mass_at(&self, at_ns: u64) -> f64 {
        let length_s = at_ns.saturating_sub(self.start_ns) as f64 / 1e9;
        self.before + (self.rate_per_s + self.slope * length_s / 2.0) * length_s
    }

    /// Returns the time at which the expected number of arrivals reaches `mass`.
    ///
    /// Solves `rate x + slope x^2 / 2 = mass - before` for x. The usual solution subtracts two similar numbers, which
    /// loses precision. So this function uses the equivalent form with the square root in the denominator.
    fn due_ns(&self, mass: f64) -> u64 {
        let behind = mass - self.before;
        if behind <= 0.0 {
            return self.start_ns;
        }
        let root = (self.rate_per_s * self.rate_per_s + 2.0 * self.slope * behind).max(0.0).sqrt();
        let at_s = 2.0 * behind / (self.rate_per_s + root);
        // With a rate of zero, or after the rate fell to zero, no arrival follows.
        if at_s.is_finite() { (self.start_ns + (at_s * 1e9) as u64).min(self.end_ns) } else { NEVER_NS }
    }
}
