//! The bounds of an objective, and what one trial says of each.
//!
//! A quantile is held where at most the share above it takes longer than its time: p99 at most 20 ms, where at most
//! one request in a hundred took longer. That share is a mean over requests, so trials of one rate can be added,
//! and its chance is that of a count. The quantile itself is neither: of a short trial it is too low more often than
//! too high.

use weir_results::{LoadRecord, Objective, TrialSays};

use crate::figures::quantity::{count, percent, time_ns};

/// Quantiles that a search can be for.
const QUANTILES: [(&str, f64); 10] = [
    ("p50", 0.5),
    ("p66", 0.66),
    ("p75", 0.75),
    ("p80", 0.8),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p98", 0.98),
    ("p99", 0.99),
    ("p999", 0.999),
    ("p9999", 0.9999),
];

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.96;

/// One bound of an objective.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// `p99`, `mean`, `errors`, ..
    pub name: String,
    limit: Limit,
}

impl Bound {
    /// The greatest latency that it allows, nanoseconds; `None` for errors.
    pub(super) fn latency_limit_ns(&self) -> Option<f64> {
        match self.limit {
            Limit::Quantile { limit_ns, .. } => Some(limit_ns as f64),
            Limit::Mean { limit_ns } => Some(limit_ns),
            Limit::Errors { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Limit {
    /// At most a share of the requests takes longer.
    Quantile { allowed: f64, limit_ns: u64 },
    /// The mean latency.
    Mean { limit_ns: f64 },
    /// The share of errors.
    Errors { allowed: f64 },
}

/// What a trial gave for a bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// So many requests beyond the bound, of all that were scheduled.
    Share {
        /// Requests that took longer or went wrong.
        over: u64,
        /// Scheduled requests.
        of: u64,
        /// The share of them that may.
        allowed: f64,
    },
    /// The mean over its bound.
    Mean {
        /// The mean latency as share of the greatest allowed.
        ratio: f64,
        /// Its standard error, were requests independent of each other.
        standard_error: f64,
    },
}

/// Why nothing can be searched for by this objective; `None` where it can.
pub fn unsearchable(objective: &Objective) -> Option<&'static str> {
    if objective.latency_ns.is_empty() && objective.errors.is_none() {
        return Some("the search has no objective");
    }
    if objective.latency_ns.keys().any(|name| name == "max") {
        return Some("a search cannot limit `max`, which grows with the number of requests at any rate");
    }
    if objective.latency_ns.values().any(|limit_ns| *limit_ns == 0) {
        return Some("the latency is zero");
    }
    let unlikely = |share: f64| share <= 0.0 || share >= 1.0;
    objective.errors.is_some_and(unlikely).then_some("the share of errors must be above 0 and below 100%")
}

/// The objective in words: `p99 at most 20.0 ms and errors at most 0.100 %`.
pub fn objective_words(objective: &Objective) -> String {
    let words: Vec<String> = Bound::all(objective).iter().map(Bound::words).collect();
    crate::points::conclusions::join(&words)
}

impl Bound {
    /// The bounds of `objective`, latencies first. What cannot be searched for is left out ([`unsearchable`]).
    pub fn all(objective: &Objective) -> Vec<Self> {
        let latency = |(name, limit_ns): (&String, &u64)| {
            let limit = match QUANTILES.iter().find(|(known, _)| known == name) {
                Some((_, quantile)) => Limit::Quantile { allowed: 1.0 - quantile, limit_ns: *limit_ns },
                None if name == "mean" => Limit::Mean { limit_ns: *limit_ns as f64 },
                None => return None,
            };
            Some(Self { name: name.clone(), limit })
        };
        let errors =
            objective.errors.map(|allowed| Self { name: "errors".into(), limit: Limit::Errors { allowed } });
        objective.latency_ns.iter().filter_map(latency).chain(errors).collect()
    }

    /// `p99 at most 20.0 ms`.
    pub fn words(&self) -> String {
        let limit = match self.limit {
            Limit::Quantile { limit_ns, .. } => time_ns(limit_ns as f64),
            Limit::Mean { limit_ns } => time_ns(limit_ns),
            Limit::Errors { allowed } => percent(allowed),
        };
        format!("{} at most {limit}", self.name)
    }

    /// What `record` gave for it; `None` where nothing was scheduled or its histogram cannot be read.
    ///
    /// A request that was never answered took longer than any bound; in the mean it counts as `timeout_ns`, which is the
    /// least that it can have taken.
    pub fn seen(&self, record: &LoadRecord, timeout_ns: u64) -> Option<Seen> {
        let books = &record.result.requests;
        if books.scheduled == 0 {
            return None;
        }
        let (of, unanswered) = (books.scheduled, books.unanswered());
        Some(match self.limit {
            Limit::Quantile { allowed, limit_ns } => {
                let latency = record.latency.decode().ok()?;
                let longer = latency.len().saturating_sub(latency.count_between(0, limit_ns));
                Seen::Share { over: longer.saturating_add(unanswered).min(of), of, allowed }
            }
            Limit::Errors { allowed } => {
                let over = books.error_share()? * of as f64;
                Seen::Share { over: over.round() as u64, of, allowed }
            }
            Limit::Mean { limit_ns } => {
                let answered = of.saturating_sub(unanswered) as f64;
                let sum_ns = record.result.latency_ns.mean.unwrap_or(0.0) * answered
                    + timeout_ns as f64 * unanswered as f64;
                let deviation_ns = record.result.latency_ns.stddev.unwrap_or(0.0);
                Seen::Mean {
                    ratio: sum_ns / of as f64 / limit_ns,
                    standard_error: deviation_ns / (of as f64).sqrt() / limit_ns,
                }
            }
        })
    }

    /// What was seen, in words: `32 of 1,540 requests took longer than 20.0 ms (2.08 %, at most 1.00 %)`.
    pub fn seen_words(&self, seen: &Seen) -> String {
        match (self.limit, seen) {
            (Limit::Mean { limit_ns }, Seen::Mean { ratio, .. }) => {
                format!("the mean was {} (at most {})", time_ns(ratio * limit_ns), time_ns(limit_ns))
            }
            (limit, Seen::Share { over, of, allowed }) => {
                let what = match limit {
                    Limit::Quantile { limit_ns, .. } => {
                        format!("took longer than {}", time_ns(limit_ns as f64))
                    }
                    _ => "went wrong".to_owned(),
                };
                let share = percent(*over as f64 / (*of).max(1) as f64);
                let (over, of, allowed) = (count(*over), count(*of), percent(*allowed));
                format!("{over} of {of} requests {what} ({share}, at most {allowed})")
            }
            (_, Seen::Mean { ratio, .. }) => format!("{} of what is allowed", percent(*ratio)),
        }
    }
}

impl Seen {
    /// What it says, as far as a sample of its size can; no request beyond the bound is as good as it gets.
    ///
    /// The interval is Wilson's for a count (E. B. Wilson, *Probable inference*, 1927), which takes requests as
    /// independent. Those in a queue are not, so it is used to find the border's neighbourhood and for nothing else.
    pub fn says(&self) -> TrialSays {
        let [low, high, allowed] = match *self {
            Self::Share { over: 0, .. } => return TrialSays::Met,
            Self::Share { over, of, allowed } => {
                let (n, share) = (of.max(1) as f64, over as f64 / of.max(1) as f64);
                let middle = (share + Z * Z / (2.0 * n)) / (1.0 + Z * Z / n);
                let reach = Z / (1.0 + Z * Z / n)
                    * (share * (1.0 - share) / n + Z * Z / (4.0 * n * n)).max(0.0).sqrt();
                [middle - reach, middle + reach, allowed]
            }
            Self::Mean { ratio, standard_error } => {
                [ratio - Z * standard_error, ratio + Z * standard_error, 1.0]
            }
        };
        if high <= allowed {
            TrialSays::Met
        } else if low > allowed {
            TrialSays::Missed
        } else {
            TrialSays::CannotTell
        }
    }
}

/// What a trial says whose bounds gave `seen`: missed where one bound is, met where all are.
pub(crate) fn together(seen: &[Seen]) -> TrialSays {
    let says: Vec<TrialSays> = seen.iter().map(Seen::says).collect();
    if says.contains(&TrialSays::Missed) {
        TrialSays::Missed
    } else if says.iter().all(|says| *says == TrialSays::Met) {
        TrialSays::Met
    } else {
        TrialSays::CannotTell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(over: u64, of: u64) -> Seen {
        Seen::Share { over, of, allowed: 0.01 }
    }

    #[test]
    fn a_count_says_no_more_than_its_size_allows() {
        let check = |over, of, expected| assert_eq!(share(over, of).says(), expected, "{over} of {of}");
        check(0, 100, TrialSays::Met);
        check(1, 100, TrialSays::CannotTell);
        check(4, 100, TrialSays::Missed);
        check(2, 1_000, TrialSays::Met);
        check(10, 1_000, TrialSays::CannotTell);
        check(30, 1_000, TrialSays::Missed);
        check(1_000, 1_000, TrialSays::Missed);
        let mean = |ratio| Seen::Mean { ratio, standard_error: 0.1 }.says();
        assert_eq!(
            [mean(0.7), mean(0.9), mean(1.3)],
            [TrialSays::Met, TrialSays::CannotTell, TrialSays::Missed]
        );
    }

    #[test]
    fn one_bound_that_is_missed_misses_the_objective() {
        assert_eq!(together(&[share(0, 100), share(50, 100)]), TrialSays::Missed);
        assert_eq!(together(&[share(0, 100), share(1, 100)]), TrialSays::CannotTell);
        assert_eq!(together(&[share(0, 100), share(0, 100)]), TrialSays::Met);
    }

    #[test]
    fn what_no_trial_can_tell_is_refused() {
        let objective = |latency: &[(&str, u64)], errors| Objective {
            latency_ns: latency.iter().map(|(name, ns)| ((*name).to_owned(), *ns)).collect(),
            errors,
            ..Objective::default()
        };
        let check = |objective: Objective, refused| {
            assert_eq!(unsearchable(&objective).is_some(), refused, "{objective:?}");
        };
        check(objective(&[("p99", 20), ("mean", 5)], Some(0.001)), false);
        check(objective(&[], None), true);
        check(objective(&[("max", 20)], None), true);
        check(objective(&[("p99", 0)], None), true);
        check(objective(&[("p99", 20)], Some(0.0)), true);
        let words = objective_words(&objective(&[("p99", 20_000_000)], Some(0.001)));
        assert_eq!(words, "p99 at most 20.0 ms and errors at most 0.100 %");
    }
}
