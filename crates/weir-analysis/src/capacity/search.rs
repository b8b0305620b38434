//! The search: selects the next rate, and decides when to stop. The *border* is the rate up to which the objective is
//! met, which is the capacity.
//!
//! ```text
//! first rate -> bracket: x 4 while met, / 4 while missed, then the geometric mean of both    -> near the border
//!               (a miss needs two trials)
//! near the border: rates at the median, an upper and a lower quantile of the posterior, in turn
//!               -> the interval is narrow enough, the maximum number of trials, or a limit of the rig
//! ```
//! The bracket only finds the neighbourhood. A wrong bracket costs trials, but does not change the result: if the
//! posterior is at an edge of its grid, a new grid is centred there.

use weir_results::{Found, Judgement, LoadRecord, Objective, Reason, Requests, Stopped, TrialSays};

use super::bounds::{Bound, Seen, together};
use super::posterior::Posterior;

/// Factor between one rate and the next while all trials meet the objective, or all miss it.
const STRIDE: f64 = 4.0;
/// Bracketing ends when a rate that meets the objective and a rate that misses it differ by at most this factor.
const BRACKETED: f64 = 2.1;
/// Margin to the rig's limit, as a factor: a limit of 1,000/s gives 800/s. Bracketing stops if a rate of at least 800/s
/// met the objective. Later trials use at most 800/s.
const LIMIT_NEAR: f64 = 1.25;
/// A trial with a saturated generator stays valid if the p99 of the generator's lateness is at most this share of the
/// lowest latency limit.
const LATENESS_SHARE: f64 = 0.1;
/// Minimum number of trials within the grid of the posterior. With fewer trials, the search has no result.
const TRIALS_MIN: u32 = 6;
/// A rate is near the border if it is between these two multiples of the border. The border is estimated by the median
/// of the posterior.
const SIDES: [f64; 2] = [0.5, 2.0];
/// Quantiles of the posterior at which trials are placed, in turn: the median, and one on each side to find the slope.
const PLACES: [f64; 3] = [0.5, 0.8, 0.2];
/// Quantiles of the posterior at both ends of the interval.
const ENDS: [f64; 2] = [0.025, 0.975];
/// Allowed number of invalid trials, as a share of the maximum number of trials.
const INVALID_SHARE: f64 = 1.0 / 3.0;
/// Number of invalid trials that is always allowed.
const INVALID_MIN: u32 = 4;

/// Configuration of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// The objective for which the capacity is searched.
    pub objective: Objective,
    /// The first rate, requests per second.
    pub first_per_s: f64,
    /// The lowest rate at which a trial can decide whether the objective is met, requests per second.
    pub least_per_s: f64,
    /// The search stops when the interval is at most this wide, as share of the capacity.
    pub width: f64,
    /// Maximum number of trials, including invalid ones.
    pub trials_max: u32,
}

/// A trial as input of the search.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialSeen {
    /// The offered rate, requests per second.
    pub rate_per_s: f64,
    /// The trial's result for each [`Bound`] of the search, or why the trial is invalid.
    pub seen: Result<Vec<Seen>, InvalidBecause>,
}

/// Why a trial is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidBecause {
    /// The load generator was the limit.
    Generator,
    /// The upstream was the limit.
    Upstream,
    /// Another cause, such as host noise, implausible values, or no scheduled requests.
    Otherwise,
}

/// What a search does next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run a trial at this rate.
    Try {
        /// The rate, requests per second.
        rate_per_s: f64,
    },
    /// End the search with this result.
    Stop(Box<Found>),
}

/// A running search.
#[derive(Clone, Debug)]
pub struct Search {
    asked: Asked,
    bounds: Vec<Bound>,
    trials: Vec<TrialSeen>,
    /// The posterior distribution of the border (the capacity); `None` during bracketing.
    posterior: Option<Posterior>,
}

/// The result of [`Search::bracket`]: try a rate, place further trials around a rate, or stop.
enum Bracket {
    Try(f64),
    About(f64),
    Stop(Stopped, Border),
}

/// Known bounds of the capacity, if the search found no capacity.
#[derive(Clone, Copy, Default)]
struct Border {
    at_least_per_s: Option<f64>,
    below_per_s: Option<f64>,
}

/// The reasons why latencies with a limit in the objective are invalid.
fn reasons_against(bounds: &[Bound], judgement: &Judgement) -> Vec<Reason> {
    match &judgement.bounds {
        Some(known) => {
            let limited = bounds.iter().filter_map(|bound| known.get(&bound.name)).filter(|of| !of.is_valid);
            limited.flat_map(|bounds| &bounds.reasons).copied().collect()
        }
        None => judgement.verdicts.latency.clone(),
    }
}

impl TrialSeen {
    /// Evaluates a trial measured at `rate_per_s` against `bounds`. A saturated upstream makes the trial invalid,
    /// except in a direct cell, where the upstream is the measured system.
    pub fn of(
        bounds: &[Bound],
        rate_per_s: f64,
        record: &LoadRecord,
        judgement: &Judgement,
        timeout_ns: u64,
        is_direct: bool,
    ) -> Self {
        let reasons = reasons_against(bounds, judgement);
        let invalid = if reasons.contains(&Reason::Implausible)
            || reasons.contains(&Reason::HostNoise) && !is_certain(bounds, record, judgement, timeout_ns)
        {
            Some(InvalidBecause::Otherwise)
        } else if reasons.contains(&Reason::GeneratorLimited) && !is_on_time(bounds, record) {
            Some(InvalidBecause::Generator)
        } else if reasons.contains(&Reason::UpstreamLimited) && !is_direct {
            Some(InvalidBecause::Upstream)
        } else {
            None
        };
        // Reasons that are not handled above, such as a queue, a quota or errors, are effects of the measured system.
        // They do not invalidate the trial.
        let seen = match invalid {
            Some(invalid) => Err(invalid),
            None => bounds
                .iter()
                .map(|bound| bound.seen(record, timeout_ns))
                .collect::<Option<Vec<_>>>()
                .ok_or(InvalidBecause::Otherwise),
        };
        Self { rate_per_s, seen }
    }

    /// Whether the trial meets the objective.
    pub fn says(&self) -> TrialSays {
        self.seen.as_deref().map_or(TrialSays::Invalid, together)
    }

    fn is_at(&self, rate_per_s: f64) -> bool {
        (self.rate_per_s / rate_per_s - 1.0).abs() < 1e-9
    }

    fn limit(&self) -> Option<InvalidBecause> {
        self.seen.as_ref().err().copied().filter(|invalid| *invalid != InvalidBecause::Otherwise)
    }
}

/// Whether the decision about a trial is certain despite host noise. Noise only delays responses, so the decision is
/// certain in two cases: the trial meets all limits, or the lower bound of a latency is above its limit.
fn is_certain(bounds: &[Bound], record: &LoadRecord, judgement: &Judgement, timeout_ns: u64) -> bool {
    let says = |bound: &Bound| bound.seen(record, timeout_ns).map(|seen| seen.says());
    let low = |bound: &Bound| judgement.bounds.as_ref()?.get(&bound.name)?.low;
    let misses =
        |bound: &Bound| bound.latency_limit_ns().zip(low(bound)).is_some_and(|(limit, low)| low > limit);
    bounds.iter().all(|bound| says(bound) == Some(TrialSays::Met)) || bounds.iter().any(misses)
}

/// Whether the generator's lateness is too small to change the decision: the p99 of the lateness is at most a tenth of
/// the lowest latency limit, and all requests were sent.
fn is_on_time(bounds: &[Bound], record: &LoadRecord) -> bool {
    let Requests { scheduled, sent, .. } = record.result.requests;
    let least_ns = bounds.iter().filter_map(Bound::latency_limit_ns).min_by(f64::total_cmp);
    let lateness_ns = record.result.lateness_ns.and_then(|lateness| lateness.p99);
    let is_small = |(limit_ns, lateness_ns): (f64, u64)| lateness_ns as f64 <= LATENESS_SHARE * limit_ns;
    sent == scheduled && least_ns.zip(lateness_ns).is_some_and(is_small)
}

impl Search {
    /// A search without trials.
    pub fn new(asked: Asked) -> Self {
        let bounds = Bound::all(&asked.objective);
        Self { asked, bounds, trials: Vec::new(), posterior: None }
    }

    /// The limits of the search's objective.
    pub fn bounds(&self) -> &[Bound] {
        &self.bounds
    }

    /// All trials so far.
    pub fn trials(&self) -> &[TrialSeen] {
        &self.trials
    }

    /// Adds the result of a trial.
    pub fn add(&mut self, trial: TrialSeen) {
        if let (Some(posterior), Ok(seen)) = (&mut self.posterior, &trial.seen) {
            posterior.add(trial.rate_per_s, seen);
        }
        self.trials.push(trial);
    }

    /// Determines what to do next, from all trials so far.
    pub fn step(&mut self) -> Step {
        let posterior = match self.posterior.take() {
            Some(posterior) if !posterior.is_at_an_edge() => posterior,
            Some(posterior) => {
                let median_per_s = posterior.quantile_per_s(0.5);
                if median_per_s <= self.asked.least_per_s && self.missed_at_least() {
                    let below_per_s = Some(self.asked.least_per_s);
                    return self.stop(Stopped::NeverMet, None, Border { below_per_s, ..Border::default() });
                }
                self.laid_out(median_per_s.max(self.asked.least_per_s))
            }
            None => match self.bracket() {
                Bracket::About(centre_per_s) => self.laid_out(centre_per_s),
                Bracket::Stop(stopped, border) => return self.stop(stopped, None, border),
                Bracket::Try(rate_per_s) => {
                    return match self.spent() {
                        Some(stopped) => self.stop(stopped, None, self.known()),
                        None => Step::Try { rate_per_s },
                    };
                }
            },
        };
        let step = self.about_the_border(&posterior);
        self.posterior = Some(posterior);
        step
    }

    /// Chooses a trial near the border, or stops the search, for example because the interval is narrow enough.
    fn about_the_border(&self, posterior: &Posterior) -> Step {
        let [low, high] = ENDS.map(|end| posterior.quantile_per_s(end));
        let is_narrow = (high - low) / posterior.quantile_per_s(0.5) <= self.asked.width;
        if is_narrow && self.is_known(posterior) {
            return self.stop(Stopped::Precise, Some(posterior), Border::default());
        }
        if let Some(stopped) = self.spent() {
            return self.stop(stopped, Some(posterior), self.known());
        }
        let place = PLACES[posterior.trials() as usize % PLACES.len()];
        let wanted = posterior.quantile_per_s(place).max(self.asked.least_per_s);
        match self.limit_of_the_rig() {
            Some((limit_per_s, stopped)) if wanted >= limit_per_s / LIMIT_NEAR => {
                // If a rate below the rig's limit missed the objective, further trials can still find the capacity.
                if self.least_missed().is_some() {
                    return Step::Try { rate_per_s: limit_per_s / LIMIT_NEAR };
                }
                let at_least_per_s = self.greatest_met();
                self.stop(stopped, None, Border { at_least_per_s, below_per_s: None })
            }
            _ => Step::Try { rate_per_s: wanted },
        }
    }

    /// Replays the bracketing from the first rate, with the decisions of all past trials. Returns the first rate that
    /// still needs a trial, or the result of the bracketing.
    fn bracket(&self) -> Bracket {
        let limit = self.limit_of_the_rig();
        let mut rate = self.asked.first_per_s.max(self.asked.least_per_s);
        let (mut met, mut missed): (Option<f64>, Option<f64>) = (None, None);
        // Each iteration moves past a decided rate, or returns.
        loop {
            if let Some((limit_per_s, stopped)) = limit
                && rate >= limit_per_s
            {
                match met {
                    Some(met) if limit_per_s / met <= LIMIT_NEAR => {
                        let at_least_per_s = Some(met);
                        return Bracket::Stop(stopped, Border { at_least_per_s, below_per_s: None });
                    }
                    Some(met) => rate = (met * limit_per_s).sqrt(),
                    None if rate <= self.asked.least_per_s => {
                        return Bracket::Stop(stopped, Border::default());
                    }
                    None => rate = (limit_per_s / STRIDE).max(self.asked.least_per_s),
                }
                if rate < limit_per_s {
                    continue;
                }
                return Bracket::Stop(stopped, Border::default());
            }
            match self.settled(rate) {
                None => return Bracket::Try(rate),
                Some(TrialSays::Met) => met = Some(rate),
                Some(TrialSays::Missed) => missed = Some(rate),
                Some(_) => return Bracket::About(rate),
            }
            rate = match (met, missed) {
                (Some(met), Some(missed)) if missed / met <= BRACKETED => {
                    return Bracket::About((met * missed).sqrt());
                }
                (Some(met), Some(missed)) => (met * missed).sqrt(),
                (Some(met), None) => met * STRIDE,
                (None, _) if rate <= self.asked.least_per_s => {
                    let below_per_s = Some(rate);
                    return Bracket::Stop(Stopped::NeverMet, Border { at_least_per_s: None, below_per_s });
                }
                (None, _) => (rate / STRIDE).max(self.asked.least_per_s),
            };
        }
    }

    /// The joint decision of the trials at a rate; `None` if another trial is needed. One trial that meets the
    /// objective is enough, because a wrong decision shows at the next rate. Any other first result needs a second
    /// trial, because a pause of the host may have caused it. If two trials differ, the median of three decides.
    fn settled(&self, rate_per_s: f64) -> Option<TrialSays> {
        let says: Vec<TrialSays> = self
            .trials
            .iter()
            .filter(|trial| trial.is_at(rate_per_s))
            .map(TrialSeen::says)
            .filter(|says| *says != TrialSays::Invalid)
            .collect();
        let rank = |says: &TrialSays| match says {
            TrialSays::Met => 0,
            TrialSays::CannotTell | TrialSays::Invalid => 1,
            TrialSays::Missed => 2,
        };
        match says.as_slice() {
            [] => None,
            [TrialSays::Met] => Some(TrialSays::Met),
            [_] => None,
            [first, second] => (first == second).then_some(*first),
            [first, second, third, ..] => {
                let mut three = [*first, *second, *third];
                three.sort_by_key(rank);
                Some(three[1])
            }
        }
    }

    /// Creates a posterior centred at a rate, from all trials so far.
    fn laid_out(&self, centre_per_s: f64) -> Posterior {
        let mut posterior = Posterior::about(centre_per_s, self.bounds.len());
        for trial in &self.trials {
            if let Ok(seen) = &trial.seen {
                posterior.add(trial.rate_per_s, seen);
            }
        }
        posterior
    }

    /// The limit of the rig, from the trials with rates above those of all valid trials: the lowest rate at which the
    /// generator or the upstream was the limit, and which of them limited more trials. `None` if fewer than two of
    /// these trials were limited so.
    fn limit_of_the_rig(&self) -> Option<(f64, Stopped)> {
        let counting = self.trials.iter().filter(|trial| trial.seen.is_ok());
        let greatest = counting.map(|trial| trial.rate_per_s).fold(0.0, f64::max);
        let limited: Vec<(f64, InvalidBecause)> = self
            .trials
            .iter()
            .filter(|trial| trial.rate_per_s > greatest)
            .filter_map(|trial| Some((trial.rate_per_s, trial.limit()?)))
            .collect();
        let least = limited.iter().map(|(rate, _)| *rate).fold(f64::INFINITY, f64::min);
        let by_upstream = limited.iter().filter(|(_, invalid)| *invalid == InvalidBecause::Upstream).count();
        let stopped = match by_upstream * 2 > limited.len() {
            true => Stopped::UpstreamLimited,
            false => Stopped::GeneratorLimited,
        };
        (limited.len() >= 2).then_some((least, stopped))
    }

    /// Why no further trial is allowed; `None` if one is allowed.
    fn spent(&self) -> Option<Stopped> {
        let invalid = self.trials.iter().filter(|trial| trial.seen == Err(InvalidBecause::Otherwise)).count();
        let borne = ((f64::from(self.asked.trials_max) * INVALID_SHARE) as u32).max(INVALID_MIN) as usize;
        if invalid > borne {
            return Some(Stopped::InvalidTrials);
        }
        (self.trials.len() >= self.asked.trials_max as usize).then_some(Stopped::MostTrials)
    }

    /// Whether the posterior gives a result. At least [`TRIALS_MIN`] trials must lie within the grid of rates. The
    /// median of the posterior must not lie at an edge of the grid. Near the median, at least two trials must have met
    /// the objective, and at least two must have missed it. An undecided trial counts as met and as missed.
    fn is_known(&self, posterior: &Posterior) -> bool {
        let middle = posterior.quantile_per_s(0.5);
        let near =
            self.trials.iter().filter(|trial| (SIDES[0]..=SIDES[1]).contains(&(trial.rate_per_s / middle)));
        let says: Vec<TrialSays> =
            near.map(TrialSeen::says).filter(|says| *says != TrialSays::Invalid).collect();
        let others = |than: TrialSays| says.iter().filter(|says| **says != than).count();
        posterior.trials() >= TRIALS_MIN
            && !posterior.is_at_an_edge()
            && others(TrialSays::Missed) >= 2
            && others(TrialSays::Met) >= 2
    }

    fn missed_at_least(&self) -> bool {
        self.settled(self.asked.least_per_s) == Some(TrialSays::Missed)
    }

    /// The range of the border according to single trials, without the posterior: from the highest rate that met the
    /// objective to the lowest rate that missed it.
    fn known(&self) -> Border {
        Border { at_least_per_s: self.greatest_met(), below_per_s: self.least_missed() }
    }

    /// The highest rate that met the objective, below all rates that missed it.
    fn greatest_met(&self) -> Option<f64> {
        let missed = self.least_missed().unwrap_or(f64::INFINITY);
        let met = self.trials.iter().filter(|trial| trial.says() == TrialSays::Met);
        met.map(|trial| trial.rate_per_s).filter(|rate| *rate < missed).reduce(f64::max)
    }

    /// The lowest rate that missed the objective. A rate is skipped if another trial met the objective at this rate.
    fn least_missed(&self) -> Option<f64> {
        let missed = self.trials.iter().filter(|trial| trial.says() == TrialSays::Missed);
        let is_contradicted =
            |rate: f64| self.trials.iter().any(|trial| trial.is_at(rate) && trial.says() == TrialSays::Met);
        missed.map(|trial| trial.rate_per_s).filter(|rate| !is_contradicted(*rate)).reduce(f64::min)
    }

    fn stop(&self, stopped: Stopped, posterior: Option<&Posterior>, border: Border) -> Step {
        // There is no result if there are too few trials, or if the capacity may lie outside the posterior's grid of
        // rates.
        let posterior = posterior.filter(|posterior| self.is_known(posterior));
        let border = if posterior.is_some() { Border::default() } else { border };
        let invalid = self.trials.iter().filter(|trial| trial.seen.is_err()).count();
        Step::Stop(Box::new(Found {
            objective: self.asked.objective.clone(),
            capacity_per_s: posterior.map(|posterior| posterior.quantile_per_s(0.5)),
            interval_per_s: posterior.map(|posterior| ENDS.map(|end| posterior.quantile_per_s(end))),
            at_least_per_s: border.at_least_per_s,
            below_per_s: border.below_per_s,
            limited_by: posterior.map(|posterior| self.bounds[posterior.limiting()].name.clone()),
            trials: self.trials.len() as u32,
            invalid: invalid as u32,
            stopped,
        }))
    }
}
