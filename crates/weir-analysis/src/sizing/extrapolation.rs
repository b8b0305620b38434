//! Extrapolates the rate to an unmeasured CPU share, on request. weir assumes that CPU time per request stays the same
//! as at the nearest point that meets the objective, so the rate is proportional to the share. weir does not
//! extrapolate latency. If a point measured at or below the extrapolated rate does not meet the objective, weir keeps
//! the measured result.

use super::answer::{Judged, PerInstance, at_share, share_at};
use super::standing::Standing;
use super::{Basis, Refused, words};

/// The extrapolated rate at `share_max`; `measured` if extrapolation gives no higher rate or is not possible.
pub(super) fn extrapolated(
    judged: &Judged<'_>,
    share_max: f64,
    measured: Result<PerInstance, Refused>,
) -> Result<PerInstance, Refused> {
    let below_all = judged.checks.first().is_some_and(|(kept, used)| {
        kept.standing == Standing::Met && matches!(used.standing, Standing::Missed | Standing::Borderline)
    });
    let Some(base) = judged.best.or(below_all.then_some(0)) else { return measured };
    let point = &judged.points[base];
    let (Some(rate_per_s), Some(share)) = (at_share(point, share_max), share_at(point)) else {
        return measured;
    };
    if judged.best.is_some() && rate_per_s.value <= point.asked_per_s {
        return measured;
    }
    let stands_against = |place: usize| {
        let (kept, _) = &judged.checks[place];
        kept.standing != Standing::Met && judged.points[place].asked_per_s <= rate_per_s.value
    };
    if let Some(place) = (base + 1..judged.points.len()).find(|place| stands_against(*place)) {
        return measured.map(|mut found| {
            found.notes.push(words::not_extrapolated(judged.points[place].asked_per_s));
            found
        });
    }
    let note = words::extrapolated(point.asked_per_s, share, share_max, rate_per_s.value);
    Ok(PerInstance { rate_per_s, basis: Basis::Extrapolated, cpu_share: Some(share_max), notes: vec![note] })
}
