//! Throughput through the gateway over direct, over all limits and numbers of connections.

use crate::figures::quantity::percent;
use crate::points::{Point, Row};

/// The lowest and the highest valid share of each gateway.
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
    let bound = if limited { " (≤: the rig limited direct, so the share is an upper bound)" } else { "" };
    vec![format!("Share of direct, over all numbers of connections and limits: {}{bound}.", said.join(", "))]
}

/// The share, or its upper bound, and whether the rig limited direct.
fn share(row: &Row) -> Option<(f64, bool)> {
    let to_direct = row.ratio_to_direct.as_ref().filter(|to_direct| to_direct.ratio.headline)?;
    let known = to_direct.known();
    Some((known.bounds.high.or(known.mean)?, to_direct.at_most))
}

fn words((share, at_most): &(f64, bool)) -> String {
    format!("{}{}", if *at_most { "≤ " } else { "" }, percent(*share))
}
