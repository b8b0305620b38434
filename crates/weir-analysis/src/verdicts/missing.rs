//! Connections that a load could not open.

use weir_results::Thresholds;

use crate::figures::quantity::{number, percent};
use crate::verdicts::evidence::Evidence;

/// Reports missing connections if their share is above the limit. Request counts do not show missing connections: in an
/// open loop, the other connections send the requests late; in a closed loop, fewer requests are sent.
///
/// If the gateway is overloaded, reports nothing: it may refuse connections, and its overload is already reported.
pub(crate) fn connections(
    evidence: &Evidence<'_>,
    thresholds: &Thresholds,
    is_overloaded: bool,
) -> Option<String> {
    let own = &evidence.record.generator;
    let missing = own.connections_missing_mean.filter(|_| own.connections > 0 && !is_overloaded)?;
    let share = missing / f64::from(own.connections);
    let allowed = (1.0 - thresholds.completed_share).max(evidence.errors_max.unwrap_or(0.0));
    (share > allowed).then(|| {
        format!(
            "{} of {} connections were missing on average, because they could not be opened ({}, limit {})",
            number(missing),
            own.connections,
            percent(share),
            percent(allowed)
        )
    })
}
