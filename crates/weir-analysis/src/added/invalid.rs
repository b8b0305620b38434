//! Why a difference of latencies is invalid: because of the gateway's cell, or because of the direct cell.

use weir_results::Reason;

use crate::figures::figure::Figure;
use crate::points::conclusions::join;
use crate::points::{Point, Row};
use crate::verdicts::reasons::reason_name;

/// A sentence names all load points if there are at most `NAMED_MAX + 1`. Otherwise, it names `NAMED_MAX` and counts
/// the rest.
const NAMED_MAX: usize = 2;

/// One of the two cells of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// The cell that is compared with the direct cell: the gateway's cell or, for the rig's bias, the second direct
    /// cell (the twin).
    Own,
    /// The direct cell of the same repeat.
    Direct,
}

impl Point {
    /// Why repeats of the added latency of `row` are invalid: which cell, the reason, and the number of repeats.
    pub fn added_reasons(&self, row: &Row) -> Vec<(Side, Reason, usize)> {
        let own = row.latency("p50");
        let is_own = |repeat, reason| own.is_some_and(|own| has(own, repeat, reason));
        row.added_latency("p50").map(|added| sides(added, &is_own)).unwrap_or_default()
    }

    /// Why repeats of the rig's bias (the difference between the two direct cells of a block) are invalid: which cell,
    /// the reason, and the number of repeats.
    pub fn bias_reasons(&self) -> Vec<(Side, Reason, usize)> {
        let Some(difference) = self.bias.as_ref().and_then(|bias| bias.difference("p50")) else {
            return Vec::new();
        };
        let direct = self.direct().and_then(|row| row.latency("p50"));
        let is_own = |repeat, reason| !direct.is_some_and(|direct| has(direct, repeat, reason));
        sides(difference, &is_own)
    }
}

/// The reasons of `difference`, each assigned to one of the two cells.
fn sides(difference: &Figure, is_own: &dyn Fn(u32, Reason) -> bool) -> Vec<(Side, Reason, usize)> {
    let mut counted: Vec<(Side, Reason, usize)> = Vec::new();
    let mut add = |side, reason, repeats| match counted
        .iter_mut()
        .find(|(of, known, _)| (*of, *known) == (side, reason))
    {
        Some((_, _, n)) => *n += repeats,
        None => counted.push((side, reason, repeats)),
    };
    for repeated in &difference.repeats {
        for reason in &repeated.reasons {
            let side = if is_own(repeated.repeat, *reason) { Side::Own } else { Side::Direct };
            add(side, *reason, 1);
        }
    }
    if difference.noise.is_some() {
        add(Side::Own, Reason::Noisy, difference.repeats.len());
    }
    counted.sort();
    counted
}

fn has(figure: &Figure, repeat: u32, reason: Reason) -> bool {
    let mut same = figure.repeats.iter().filter(|repeated| repeated.repeat == repeat);
    same.any(|repeated| repeated.reasons.contains(&reason))
}

/// Names the load points where a gateway's latency is a headline, but its added latency is not, because direct cells
/// are invalid. `None` if there is no such load point.
pub(crate) fn for_want_of_direct(points: &[Point]) -> Option<String> {
    let mut reasons: Vec<Reason> = Vec::new();
    let mut places: Vec<String> = Vec::new();
    for point in points {
        let of_direct: Vec<Reason> =
            point.gateways().filter(|row| is_wanting(row)).flat_map(|row| directs(point, row)).collect();
        if !of_direct.is_empty() {
            places.push(point.words());
            reasons.extend(of_direct);
        }
    }
    reasons.sort();
    reasons.dedup();
    if places.len() > NAMED_MAX + 1 {
        let more = places.len() - NAMED_MAX;
        places.truncate(NAMED_MAX);
        places.push(format!("{more} more load points"));
    }
    let why: Vec<&str> = reasons.into_iter().map(reason_name).collect();
    (!places.is_empty()).then(|| {
        format!(
            "because the direct baseline is invalid ({}), added latency has no headline at {}",
            why.join(", "),
            join(&places)
        )
    })
}

/// Whether the latency of `row` is a headline, but its added latency is not.
fn is_wanting(row: &Row) -> bool {
    let own = row.latency("p50").is_some_and(|own| own.headline);
    own && row.added_latency("p50").is_some_and(|added| !added.headline)
}

fn directs(point: &Point, row: &Row) -> Vec<Reason> {
    let of_direct = point.added_reasons(row).into_iter().filter(|(side, ..)| *side == Side::Direct);
    of_direct.map(|(_, reason, _)| reason).collect()
}
