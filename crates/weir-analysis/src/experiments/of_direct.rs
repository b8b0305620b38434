//! Throughput through the gateway as share of the direct baseline, at all limits and numbers of connections.

use crate::figures::quantity::percent;
use crate::points::{Point, Row};

/// States each gateway's lowest and highest valid share of the direct throughput.
pub(super) fn conclude(closed: &[&Point], gateways: &[&str]) -> Vec<String> {
    let mut limited = false;
    let said: Vec<String> = gateways
        .iter()
        .filter_map(|gateway| {
            let rows = closed
                .iter()
                .flat_map(move |point| point.gateways().filter(move |row| row.gateway == *gateway));
            let shares: Vec<(f64, bool)> = rows.filter_map(share).collect();
            let least = shares.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
            let greatest = shares.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
            limited |= shares.iter().any(|(_, at_most)| *at_most);
            Some(match shares.len() {
                1 => format!("{gateway} {}", words(least)),
                _ => format!("{gateway} {} to {}", words(least), words(greatest)),
            })
        })
        .collect();
    if said.is_empty() {
        return Vec::new();
    }
    let bound = match limited {
        true => " (≤: the rig limited the direct load, so the share is an upper bound)",
        false => "",
    };
    vec![format!(
        "Share of the direct throughput at all connection counts and limits: {}{bound}.",
        said.join(", ")
    )]
}

/// Throughput as share of the direct baseline, and whether the rig limited the baseline. If so, the share is an upper
/// bound. `None` if the share is not a headline.
fn share(row: &Row) -> Option<(f64, bool)> {
    let to_direct = row.ratio_to_direct.as_ref().filter(|to_direct| to_direct.ratio.headline)?;
    let known = to_direct.known();
    Some((known.bounds.high.or(known.mean)?, to_direct.at_most))
}

fn words((share, at_most): &(f64, bool)) -> String {
    format!("{}{}", if *at_most { "≤ " } else { "" }, percent(*share))
}
