//! Sizing from capacity searches. A search finds the rate more exactly than loads at fixed rates do, but only for its
//! own objective.

use serde::Serialize;

use super::answer::PerInstance;
use super::instance_type::{InstanceType, Shown};
use super::{Basis, Bound, Demand, Refused, RefusedFor, Span, bounds_of, words};
use crate::capacity::{Capacity, CapacityRow};

/// The result of a search for an instance type.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SearchedFor {
    /// The bounds of the search.
    pub bounds: Vec<Bound>,
    /// The bounds in words.
    pub words: String,
    /// Number of searches, one per repeat.
    pub searches: usize,
    /// Number of searches with a valid result.
    pub valid_repeats: usize,
    /// Number of trials in all searches together.
    pub trials: u64,
    /// The capacity, requests per second.
    pub per_s: Shown,
}

impl SearchedFor {
    pub(super) fn of(capacity: &Capacity, row: &CapacityRow, per_s: Shown) -> Self {
        Self {
            bounds: bounds_of(&capacity.objective),
            words: capacity.objective_words(),
            searches: row.searches.len(),
            valid_repeats: row.per_s.valid,
            trials: row.trials(),
            per_s,
        }
    }

    /// Whether the search's bounds are at least as strict as `bounds`.
    fn covers(&self, bounds: &[Bound]) -> bool {
        let no_less = |asked: &Bound| {
            self.bounds.iter().any(|kept| kept.name == asked.name && kept.limit <= asked.limit)
        };
        bounds.iter().all(no_less)
    }

    /// Whether the search's bounds are exactly `bounds`.
    fn is_for(&self, bounds: &[Bound]) -> bool {
        self.bounds.len() == bounds.len() && bounds.iter().all(|asked| self.bounds.contains(asked))
    }

    fn per_instance(&self, basis: Basis, note: String) -> Option<PerInstance> {
        let Shown::Interval { mean, low, high } = self.per_s else { return None };
        let rate_per_s = Span { value: mean, low, high };
        Some(PerInstance { rate_per_s, basis, cpu_share: None, notes: vec![note] })
    }
}

/// The capacity from a search with exactly these bounds.
pub(super) fn exactly(of: &InstanceType, bounds: &[Bound], demand: &Demand) -> Option<PerInstance> {
    let mut exact = searches(of, demand).filter(|searched| searched.is_for(bounds));
    exact.find_map(|searched| searched.per_instance(Basis::Searched, words::searched(searched)))
}

/// The highest capacity from searches whose bounds are at least as strict as `bounds`.
pub(super) fn at_least(of: &InstanceType, bounds: &[Bound], demand: &Demand) -> Option<PerInstance> {
    let stricter = searches(of, demand).filter(|searched| searched.covers(bounds));
    let found = stricter.filter_map(|searched| {
        searched.per_instance(Basis::AtLeast, words::searched_for_more(&searched.words))
    });
    found.max_by(|a, b| a.rate_per_s.value.total_cmp(&b.rate_per_s.value))
}

/// Explains why searches give no answer for an instance type without load points. Returns `otherwise` if the type has
/// load points or no searches.
pub(super) fn refused(of: &InstanceType, bounds: &[Bound], demand: &Demand, otherwise: Refused) -> Refused {
    let Some(first) = of.searched.first().filter(|_| of.points.is_empty()) else { return otherwise };
    if demand.cpu_share_max.is_some() {
        return Refused {
            why: RefusedFor::NothingMeasured,
            words: words::searched_without_cpu().into(),
            remedy: words::measure_cpu().into(),
        };
    }
    match of.searched.iter().find(|searched| searched.covers(bounds)) {
        None => Refused {
            why: RefusedFor::NothingMeasured,
            words: words::searched_for_less(&first.words),
            remedy: words::search_for_this().into(),
        },
        Some(searched) => Refused {
            why: RefusedFor::Unknown,
            words: words::found_nothing(searched),
            remedy: words::measure_again().into(),
        },
    }
}

/// The searches whose results may be used: none if the demand limits CPU, because searches do not measure CPU.
fn searches<'a>(of: &'a InstanceType, demand: &Demand) -> impl Iterator<Item = &'a SearchedFor> {
    of.searched.iter().filter(move |_| demand.cpu_share_max.is_none())
}
