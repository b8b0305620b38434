//! Conclusions about headroom, derived from its values (`docs/method.md#conclusions`).

use super::{ChangeCost, Curve, Headroom, Over, Quiet, RouteCost, Scalability, seen_after};
use crate::figures::figure::Figure;
use crate::figures::quantity::{count, counted, number, percent, rate, time_ns};
use crate::points::axes::with_axes;
use crate::points::conclusions::{by_reason, join, with_interval};

pub(super) fn conclude(headroom: &Headroom) -> Vec<String> {
    let mut sentences: Vec<String> = headroom.curves.iter().filter_map(bend).collect();
    sentences.extend(no_bend(&headroom.curves));
    sentences.extend(headroom.scalability.iter().map(scales));
    sentences.extend(greatest_shared(&headroom.route_costs).into_iter().filter_map(routes));
    sentences
}

/// States the knee of a curve, and the deviation of its fit; `None` without a knee.
fn bend(curve: &Curve) -> Option<String> {
    let knee = curve.knee.filter(|_| !curve.is_direct())?;
    let fitted = match curve.fitted("p99")?.fit() {
        Some(fit) => {
            format!(
                "; the fitted curve deviates by {} from the {}",
                percent(fit.deviation),
                counted(fit.points as u64, "point")
            )
        }
        None => "; no curve fits the points".to_owned(),
    };
    Some(format!(
        "{}: the knee of p99 is at {} (p99 {}; not for sizing){fitted}.",
        with_axes(&curve.gateway, &curve.axes),
        rate(knee.throughput_per_s),
        time_ns(knee.p99_ns)
    ))
}

/// Names the gateways whose curves have no knee, with the reasons.
fn no_bend(curves: &[Curve]) -> Option<String> {
    let straight = curves.iter().filter(|curve| curve.knee.is_none() && !curve.is_direct());
    let said: Vec<(String, String)> = straight
        .map(|curve| {
            let of = |name| curve.fitted(name).and_then(|fitted| fitted.refused());
            let why = of("p99").unwrap_or("p99 rises without a knee");
            (why.to_owned(), with_axes(&curve.gateway, &curve.axes))
        })
        .collect();
    let said: Vec<String> =
        by_reason(said).iter().map(|(why, names)| format!("{} ({why})", join(names))).collect();
    (!said.is_empty()).then(|| format!("No knee of p99 among the valid rates: {}.", said.join("; ")))
}

fn scales(found: &Scalability) -> String {
    let over = match found.over {
        Over::Connections => "connections",
        Over::Cores => "cores",
    };
    let who = with_axes(&found.gateway, &found.axes);
    let law = match (found.usl.fit(), found.usl.refused()) {
        (Some(law), _) => law,
        (None, why) => {
            let why = why.unwrap_or_default();
            return format!(
                "{who}: the Universal Scalability Law could not be fitted to throughput by {over} ({}): {why}.",
                found.load
            );
        }
    };
    let parameter = |of: super::Parameter| match of.interval {
        Some([low, high]) => {
            format!("{} [{} .. {}]", short(of.value), short(low), short(high))
        }
        None => short(of.value),
    };
    let peak = match law.peak {
        Some((at, per_s)) => format!("; throughput peaks at {} {over}, {}", number(at), rate(per_s)),
        None => String::new(),
    };
    format!(
        "{who}: throughput by {over} ({}) follows the Universal Scalability Law with contention {} and coherence {}, \
        R² {:.3}{peak}.",
        found.load,
        parameter(law.sigma),
        parameter(law.kappa),
        law.r_squared
    )
}

/// Formats a small number with two digits and an exponent: `7.7e-4`.
fn short(value: f64) -> String {
    if value == 0.0 { "0".to_owned() } else { format!("{value:.1e}") }
}

/// For each gateway and number of routes, returns the cost at the highest rate. Skips costs whose `ratio` has no
/// confidence interval.
fn greatest_shared(costs: &[RouteCost]) -> Vec<&RouteCost> {
    let mut greatest: Vec<&RouteCost> = Vec::new();
    for cost in costs.iter().filter(|cost| cost.ratio.interval.is_some()) {
        let same = |other: &&mut &RouteCost| {
            (&other.gateway, &other.axes, &other.path, other.many)
                == (&cost.gateway, &cost.axes, &cost.path, cost.many)
        };
        match greatest.iter_mut().find(same) {
            Some(known) if known.rate_per_s < cost.rate_per_s => *known = cost,
            Some(_) => {}
            None => greatest.push(cost),
        }
    }
    greatest
}

/// States the cost of many routes compared with few; `None` if the ratio has no interval.
fn routes(cost: &RouteCost) -> Option<String> {
    let [low, high] = cost.ratio.interval?;
    let what = cost.path.rsplit('.').next().unwrap_or(&cost.path);
    let (few, many) = (count(cost.few), count(cost.many));
    let ratio = with_interval(&cost.ratio, number);
    let who = with_axes(&cost.gateway, &cost.axes);
    let at = rate(cost.rate_per_s);
    Some(if low > 1.0 || high < 1.0 {
        format!(
            "{who}: at {at}, a request takes {ratio} times as much CPU time with {many} {what} as with {few}."
        )
    } else {
        format!(
            "{who}: at {at}, CPU time per request with {many} {what} is {ratio} times that with {few}: no significant \
            difference, because the interval includes 1."
        )
    })
}

/// States the cost of changes, and the time until they take effect.
pub(crate) fn change_sentence(cost: &ChangeCost) -> String {
    let who = with_axes(&cost.gateway, &cost.axes);
    let kinds: Vec<String> = cost.by_kind.iter().map(|kind| kind.what.to_string()).collect();
    let what = if kinds.is_empty() { "routes".to_owned() } else { join(&kinds) };
    let effect = match cost.seen_after_ns.mean {
        Some(_) if cost.seen_after_ns_max == 0 => format!("effective {}", seen_after(0.0)),
        Some(_) => format!(
            "effective after {} on average, at most {}",
            with_interval(&cost.seen_after_ns, time_ns),
            time_ns(cost.seen_after_ns_max as f64)
        ),
        None => "none took effect within the phase".to_owned(),
    };
    // With closely spaced changes, all seconds are near a change.
    let rest = match cost.sent_rest {
        0 => String::new(),
        sent => format!(", otherwise {} of {}", count(cost.errors_rest), count(sent)),
    };
    let (wrong, sent) = (count(cost.errors_near), count(cost.sent_near));
    let errors = format!("in seconds near changes, {wrong} of {sent} requests failed{rest}");
    let quiet = cost.quiet.as_ref().map_or_else(String::new, |quiet| against(cost, quiet));
    let p99 = if cost.sent_rest > 0 { format!("; {}", p99(cost)) } else { String::new() };
    format!(
        "{who}: {} of {what} in load `{}`, {effect}; {errors}{p99}{quiet}.",
        counted(cost.changes as u64, "change"),
        cost.load
    )
}

/// Compares a load that has changes to the same load that has none.
fn against(cost: &ChangeCost, quiet: &Quiet) -> String {
    let (load, wrong, sent) = (&quiet.load, count(quiet.errors), count(quiet.sent));
    let errors = format!("; in load `{load}`, {wrong} of {sent} requests failed");
    let counts = |figure: &Figure| figure.is_valid() && figure.mean.is_some();
    if !counts(&cost.p99_ns) || !counts(&quiet.p99_ns) {
        return format!("{errors}; latencies are not compared, because one is invalid");
    }
    let ratio = match quiet.p99_ratio.interval {
        Some([low, high]) if low > 1.0 || high < 1.0 => {
            format!(", a ratio of {}", with_interval(&quiet.p99_ratio, number))
        }
        Some(_) => ", and the interval of the ratio includes 1".to_owned(),
        None => String::new(),
    };
    format!(
        "{errors}; p99 is {} with changes and {} without{ratio}",
        with_interval(&cost.p99_ns, time_ns),
        with_interval(&quiet.p99_ns, time_ns)
    )
}

/// Compares p99 near changes with p99 in the rest of the phase. The sentence gives the ratio only if its interval
/// excludes 1.
fn p99(cost: &ChangeCost) -> String {
    let counts = |figure: &Figure| figure.is_valid() && figure.mean.is_some();
    if !counts(&cost.p99_near_ns) || !counts(&cost.p99_rest_ns) {
        return "p99 near changes cannot be compared, because a value is invalid or missing".to_owned();
    }
    let figures = format!(
        "p99 is {} near changes and {} otherwise",
        with_interval(&cost.p99_near_ns, time_ns),
        with_interval(&cost.p99_rest_ns, time_ns)
    );
    match cost.p99_ratio.interval {
        Some([low, high]) if low > 1.0 || high < 1.0 => {
            format!("{figures}, a ratio of {}", with_interval(&cost.p99_ratio, number))
        }
        Some(_) => format!("{figures}, and the interval of the ratio includes 1"),
        None => figures,
    }
}
