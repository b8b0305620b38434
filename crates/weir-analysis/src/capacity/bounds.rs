//! The bounds of an objective, and the result of one trial for each.
//!
//! A quantile bound is checked as a share: p99 is at most 20 ms if at most one request in a hundred took longer. Counts
//! of several trials at one rate can be added, and a share has the sampling error of a count. Quantiles have neither
//! advantage, and are biased low in short trials.

use weir_results::{LoadRecord, Objective, TrialSays};

use crate::figures::quantity::{count, percent, time_ns};

/// Names and values of the quantiles that a search supports.
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
    /// Name of the limited value: a quantile such as `p99`, `mean`, or `errors`.
    pub name: String,
    limit: Limit,
}

impl Bound {
    /// The latency limit, nanoseconds; `None` if the bound limits errors.
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
    /// At most the share `allowed` of requests may take longer than `limit_ns`.
    Quantile { allowed: f64, limit_ns: u64 },
    /// The mean latency may be at most `limit_ns`.
    Mean { limit_ns: f64 },
    /// Error limit: `allowed` is the maximum share of failed requests.
    Errors { allowed: f64 },
}

/// The result of a trial, compared with one bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Seen {
    /// Number of requests beyond the bound, out of all scheduled requests.
    Share {
        /// Number of requests that took longer than allowed, or failed.
        over: u64,
        /// Number of scheduled requests.
        of: u64,
        /// Maximum allowed value of `over / of`.
        allowed: f64,
    },
    /// The mean latency relative to its bound.
    Mean {
        /// The mean latency divided by the maximum allowed mean.
        ratio: f64,
        /// Standard error of `ratio`, assuming independent requests.
        standard_error: f64,
    },
}

/// Why a search cannot use this objective; `None` if it can.
pub fn unsearchable(objective: &Objective) -> Option<&'static str> {
    if objective.latency_ns.is_empty() && objective.errors.is_none() {
        return Some("the search has no objective");
    }
    if objective.latency_ns.keys().any(|name| name == "max") {
        return Some("a search cannot limit `max`: at every rate, `max` grows with the number of requests");
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
    /// The bounds of `objective`, latencies first, without those that a search cannot use ([`unsearchable`]).
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

    /// The bound in words: `p99 at most 20.0 ms`.
    pub fn words(&self) -> String {
        let limit = match self.limit {
            Limit::Quantile { limit_ns, .. } => time_ns(limit_ns as f64),
            Limit::Mean { limit_ns } => time_ns(limit_ns),
            Limit::Errors { allowed } => percent(allowed),
        };
        format!("{} at most {limit}", self.name)
    }

    /// The result of `record` for this bound; `None` if no request was scheduled or the histogram is unreadable.
    ///
    /// An unanswered request exceeds every bound. In the mean, its latency counts as `timeout_ns`, because it took at
    /// least that long.
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

    /// The result in words: `32 of 1,540 requests took longer than 20.0 ms (2.08 %, limit 1.00 %)`.
    pub fn seen_words(&self, seen: &Seen) -> String {
        match (self.limit, seen) {
            (Limit::Mean { limit_ns }, Seen::Mean { ratio, .. }) => {
                format!("the mean was {} (limit {})", time_ns(ratio * limit_ns), time_ns(limit_ns))
            }
            (limit, Seen::Share { over, of, allowed }) => {
                let what = match limit {
                    Limit::Quantile { limit_ns, .. } => {
                        format!("took longer than {}", time_ns(limit_ns as f64))
                    }
                    _ => "failed".to_owned(),
                };
                let share = percent(*over as f64 / (*of).max(1) as f64);
                let (over, of, allowed) = (count(*over), count(*of), percent(*allowed));
                format!("{over} of {of} requests {what} ({share}, limit {allowed})")
            }
            (_, Seen::Mean { ratio, .. }) => format!("{} of the limit", percent(*ratio)),
        }
    }
}

impl Seen {
    /// Decides whether the bound is met. It is met if the whole 95 % interval is within the bound, and missed if the
    /// whole interval is beyond it. Otherwise the trial is undecided. A trial without any request beyond the bound
    /// meets it.
    ///
    /// For a share, the interval is Wilson's (E. B. Wilson, *Probable inference*, 1927), which assumes independent
    /// requests. Queued requests are not independent, so this decision is used only to find the neighbourhood of the
    /// capacity.
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

/// Decides whether a trial meets the objective: missed if one bound is missed, met if all bounds are met, else
/// undecided.
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
    fn a_count_decides_no_more_than_its_size_allows() {
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
    fn one_missed_bound_misses_the_objective() {
        assert_eq!(together(&[share(0, 100), share(50, 100)]), TrialSays::Missed);
        assert_eq!(together(&[share(0, 100), share(1, 100)]), TrialSays::CannotTell);
        assert_eq!(together(&[share(0, 100), share(0, 100)]), TrialSays::Met);
    }

    #[test]
    fn unsearchable_objectives_are_refused() {
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
