//! Throughput per core at full load, at each limit of the data plane.

use serde::Serialize;

use crate::figures::figure::Figure;
use crate::figures::quantity::{percent, range, rate};
use crate::points::conclusions::{join, with_interval};

use super::saturation::{Maximum, Saturation};
use super::{DataLimit, cores};

/// Throughput per core of a gateway at full load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PerCore {
    /// The gateway's name.
    pub gateway: String,
    /// Throughput per core at each limit of the experiment; `None` if the limit was not saturated.
    pub per_core_per_s: Vec<Option<Figure>>,
    /// Throughput per core at the highest saturated limit divided by throughput per core at the lowest one, in the same
    /// repeat; 1 is linear growth. `None` if fewer than two limits were saturated.
    pub efficiency: Option<Figure>,
    /// The conclusion in words.
    pub conclusion: String,
}

/// A CPU limit that the gateway saturated.
struct Full<'a> {
    cpus: f64,
    maximum: &'a Maximum,
}

/// Compares the limits that `gateway` saturated.
pub(super) fn per_core(gateway: &str, limits: &[DataLimit], saturations: &[Saturation]) -> PerCore {
    let maximum = |place: usize| {
        let own = |found: &&Saturation| found.gateway == gateway && found.limit == place;
        saturations.iter().find(own).and_then(|saturation| saturation.maximum.as_ref())
    };
    let full: Vec<Full<'_>> = limits
        .iter()
        .enumerate()
        .filter_map(|(place, limit)| Some(Full { cpus: limit.cpus?, maximum: maximum(place)? }))
        .collect();
    let is_uncounted = |place: &usize| {
        let own = |found: &&Saturation| found.gateway == gateway && found.limit == *place;
        saturations.iter().find(own).is_none_or(|saturation| saturation.counted_at.is_empty())
    };
    let uncounted: Vec<String> =
        (0..limits.len()).filter(is_uncounted).map(|place| limits[place].words()).collect();
    let ends = match full.as_slice() {
        [least, .., greatest] if least.cpus < greatest.cpus => Some((least, greatest)),
        _ => None,
    };
    let efficiency = ends.map(|(least, greatest)| ratio(greatest.maximum, least.maximum));
    let conclusion = match (ends, &efficiency) {
        (Some((least, greatest)), Some(efficiency)) if efficiency.headline => {
            compared(gateway, least, greatest, efficiency)
        }
        (Some(_), _) => {
            format!(
                "{gateway}: throughput per core is not compared: three valid repeats are required at both limits."
            )
        }
        (None, _) => not_compared(gateway, &full, &uncounted),
    };
    PerCore {
        gateway: gateway.to_owned(),
        per_core_per_s: (0..limits.len())
            .map(|place| maximum(place).map(|maximum| maximum.per_core_per_s.clone()))
            .collect(),
        efficiency,
        conclusion,
    }
}

/// The ratio of two values of throughput per core, repeat by repeat.
fn ratio(of: &Maximum, to: &Maximum) -> Figure {
    Figure::of(of.per_core_per_s.paired(&to.per_core_per_s, |own, other| own / other)).headline_if(true)
}

fn compared(gateway: &str, least: &Full<'_>, greatest: &Full<'_>, efficiency: &Figure) -> String {
    let per_core = |full: &Full<'_>| with_interval(&full.maximum.per_core_per_s, rate);
    let said = match efficiency.interval {
        Some([_, high]) if high < 1.0 => {
            format!(
                "{} of each core's throughput is lost{}",
                lost(efficiency, 1.0),
                each(least, greatest, efficiency)
            )
        }
        Some([low, _]) if low > 1.0 => "throughput per core is higher with more cores".to_owned(),
        _ => "no significant loss, because the interval includes 100 %".to_owned(),
    };
    format!(
        "{gateway} handles {} per core with {}, and {} with {}, a ratio of {}: {said}.",
        per_core(least),
        cores(least.cpus),
        per_core(greatest),
        cores(greatest.cpus),
        with_interval(efficiency, percent),
    )
}

/// States the loss per added core. Empty unless more than one core was added: for one core, it would repeat the total
/// loss; for less than one, it would be an extrapolation.
fn each(least: &Full<'_>, greatest: &Full<'_>, efficiency: &Figure) -> String {
    let added = greatest.cpus - least.cpus;
    if added > 1.0 { format!(" ({} per added core)", lost(efficiency, added)) } else { String::new() }
}

/// Formats the lost share of throughput per core, with its interval. The share is divided by `parts`, such as the
/// number of added cores.
fn lost(efficiency: &Figure, parts: f64) -> String {
    let share = |efficiency: f64| (1.0 - efficiency) / parts;
    let mean = efficiency.mean.map_or_else(|| "n/a".to_owned(), |mean| percent(share(mean)));
    match efficiency.interval {
        Some([low, high]) => {
            format!("{mean} [{}]", range(&mean, &percent(share(high)), &percent(share(low))))
        }
        None => mean,
    }
}

fn not_compared(gateway: &str, full: &[Full<'_>], uncounted: &[String]) -> String {
    let filled = match full {
        [] => "no valid load saturates a CPU limit".to_owned(),
        [only, ..] => {
            format!("valid loads saturate only the limit of {}, at {}", cores(only.cpus), rate(mean(only)))
        }
    };
    let without = match uncounted {
        [] => String::new(),
        limits => format!("; no load is valid with {}", join(limits)),
    };
    format!("{gateway}: throughput per core is not compared: {filled}{without}.")
}

fn mean(full: &Full<'_>) -> f64 {
    full.maximum.throughput_per_s.mean.unwrap_or(f64::NAN)
}
