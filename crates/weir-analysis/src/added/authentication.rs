//! Cost of client authentication: the same load with and without it, in the same repeat.

use serde::Serialize;
use serde_json::Value;
use weir_results::{DIRECT_TWIN, Measurement, Run, is_baseline};

use crate::figures::figure::Figure;
use crate::figures::quantity::time_ns;
use crate::points::Point;
use crate::points::axes::Axes;
use crate::points::baseline::added_latency;
use crate::points::conclusions::{join, with_interval};
use crate::points::grouping::Group;

use super::at;
use super::bias::{Claim, claim};

/// Scenario field that turns TLS on.
const TLS: &str = "topology.tls";
/// Scenario field that turns client certificates on.
const CLIENT_CERTIFICATE: &str = "topology.client_certificate";
/// Scenario field with the number of bearer tokens; 0 means none.
const BEARER: &str = "topology.bearer";
/// Scenario field with the time for which a gateway may cache a checked token.
const TOKEN_CACHE: &str = "topology.token_cache";

/// Words for a client without credentials.
const NONE: &str = "none";

/// Cost of an authentication method at a load: latency with it minus latency without.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AuthenticationCost {
    /// Name of the load.
    pub load: String,
    /// Offered rate, requests per second; `None` if the load sets no single rate.
    pub rate_per_s: Option<f64>,
    /// Values of all axes except those that select the authentication method.
    pub axes: Axes,
    /// The method in words: `TLS client certificate`.
    pub authentication: String,
    /// Gateways in the scenario's order, the direct baseline last.
    pub rows: Vec<CostRow>,
    /// One sentence: which gateways have a significant cost, and which have none. `None` if nothing can be concluded.
    pub conclusion: Option<String>,
}

/// Cost for one gateway.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostRow {
    /// Name of the gateway or of the direct baseline.
    pub gateway: String,
    /// Latency with the method minus latency without authentication in the same repeat, nanoseconds. If no load was
    /// measured without authentication, latency with the TLS client certificate is subtracted instead. One value per
    /// quantile, in the order of [`crate::ADDED`].
    pub more_ns: Vec<(String, Figure)>,
}

/// How clients authenticate in the cells of `gateway`, in words. In direct cells, an upstream that is not a service
/// requires no authentication: the result is `TLS` or `none`. In all other cells, the scenario and the axes define the
/// method.
pub(super) fn spoken(run: &Run, axes: &Axes, gateway: &str, measurement: &Measurement) -> String {
    let is_service = !measurement.counters.origin_by_kind.is_empty();
    if !is_baseline(gateway) || is_service {
        return asked(run, axes);
    }
    let tls = measurement.record.result.tls.is_some();
    if tls { "TLS".into() } else { NONE.into() }
}

/// The value of the scenario field `path`: from `axes`, else from the scenario.
fn value<'a>(run: &'a Run, axes: &'a Axes, path: &str) -> Option<&'a Value> {
    let pointer = format!("/{}", path.replace('.', "/"));
    axes.get(path).or_else(|| run.scenario.pointer(&pointer))
}

/// How clients authenticate for these values of the axes, in words.
fn asked(run: &Run, axes: &Axes) -> String {
    let is_on = |path: &str| match value(run, axes, path) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::String(word)) => !["none", "off"].contains(&word.as_str()),
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        Some(_) => true,
    };
    let transport = match (is_on(TLS), is_on(CLIENT_CERTIFICATE)) {
        (true, true) => Some("TLS client certificate".to_owned()),
        (true, false) => Some("TLS".to_owned()),
        (false, _) => None,
    };
    let cache = value(run, axes, TOKEN_CACHE).and_then(Value::as_str);
    let token = is_on(BEARER).then(|| match cache {
        Some(time) => format!("bearer token cached for {time}"),
        None => "bearer token".to_owned(),
    });
    let shown: Vec<String> = transport.into_iter().chain(token).collect();
    if shown.is_empty() { NONE.into() } else { shown.join(", ") }
}

/// The cost of each authentication method at each load, compared with the same load without authentication. If no load
/// was measured without authentication, methods are compared with the TLS client certificate instead.
pub(super) fn costs(run: &Run, groups: &[Group<'_>], points: &[Point]) -> Vec<AuthenticationCost> {
    let mut costs = Vec::new();
    let is_least = |way: &str| groups.iter().any(|group| asked(run, group.axes) == way);
    let Some(least) = [NONE, "TLS client certificate"].into_iter().find(|way| is_least(way)) else {
        return costs;
    };
    // Groups and points have the same order.
    for (with, point) in groups.iter().zip(points).filter(|(_, point)| point.bias.is_some()) {
        let authentication = asked(run, with.axes);
        if authentication == least {
            continue;
        }
        let others = without_authentication(with.axes);
        let plain = groups.iter().zip(points).find(|(group, _)| {
            group.load == with.load
                && without_authentication(group.axes) == others
                && asked(run, group.axes) == least
        });
        let Some((without, plain)) = plain else { continue };
        let rows: Vec<CostRow> = with
            .rows
            .iter()
            .filter(|(gateway, _)| *gateway != DIRECT_TWIN)
            .filter_map(|(gateway, repeats)| {
                let more_ns = added_latency(repeats, without.repeats(gateway)?, true);
                Some(CostRow { gateway: (*gateway).to_owned(), more_ns })
            })
            .collect();
        let said = conclude(&authentication, least, &rows, point, plain);
        let conclusion =
            said.map(|said| format!("{}, p50: {said}.", at(with.load, with.rate_per_s, &others)));
        costs.push(AuthenticationCost {
            load: with.load.to_owned(),
            rate_per_s: with.rate_per_s,
            axes: others,
            authentication,
            rows,
            conclusion,
        });
    }
    costs
}

/// Separates the axes that select the authentication method from the others. Returns a description of the method, and
/// the other axes. The description is `None` if no axis selects the method.
pub(super) fn apart(run: &Run, axes: &Axes) -> (Option<String>, Axes) {
    let others = without_authentication(axes);
    let said = (others.len() < axes.len()).then(|| match asked(run, axes) {
        words if words == NONE => "no authentication".to_owned(),
        words => words,
    });
    (said, others)
}

/// Returns the authentication in words, and all axes except those that select the authentication method (TLS, client
/// certificates, tokens). The authentication may come from the scenario or from axes.
pub(crate) fn in_words(run: &Run, axes: &Axes) -> (String, Axes) {
    (asked(run, axes), without_authentication(axes))
}

fn without_authentication(axes: &Axes) -> Axes {
    let is_other = |path: &str| ![TLS, CLIENT_CERTIFICATE, BEARER, TOKEN_CACHE].contains(&path);
    axes.iter()
        .filter(|(path, _)| is_other(path))
        .map(|(path, value)| (path.clone(), value.clone()))
        .collect()
}

/// States what the method adds to the median latency (p50) of each gateway. A cost is significant only if it exceeds
/// the rig's bias at both load points: the one with the method, and the one without it.
fn conclude(
    authentication: &str,
    base: &str,
    rows: &[CostRow],
    with: &Point,
    without: &Point,
) -> Option<String> {
    let least = |point: &Point| point.bias.as_ref().and_then(|bias| bias.least_ns("p50"));
    let least_ns = least(with).zip(least(without)).map(|(one, other)| one.max(other));
    let (mut significant, mut others) = (Vec::new(), Vec::new());
    for row in rows.iter().filter(|row| !is_baseline(&row.gateway)) {
        let Some((_, more)) = row.more_ns.iter().find(|(name, _)| name == "p50") else { continue };
        match claim(more, least_ns) {
            Claim::Significant if more.mean.is_some_and(|mean_ns| mean_ns > 0.0) => {
                significant.push(format!("{} {}", row.gateway, with_interval(more, time_ns)));
            }
            Claim::Significant | Claim::HoldsZero | Claim::WithinBias => others.push(row.gateway.clone()),
            Claim::Unknown => {}
        }
    }
    let mut words = Vec::new();
    if !significant.is_empty() {
        let than = if base == NONE { String::new() } else { format!(" than {base}") };
        words.push(format!("{authentication} costs {} more{than}", join(&significant)));
    }
    if !others.is_empty() {
        words.push(format!("{authentication} has no measurable cost for {}", join(&others)));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn authentication_is_said_in_words() {
        let check = |topology: Value, axes: &[(&str, Value)], expected: &str| {
            let run: Run = serde_json::from_value(json!({
                "schema_version": 1, "id": "x", "name": "x", "question": "", "scenario": { "topology": topology },
                "seed": 1, "started_unix_ms": 0, "ended_unix_ms": null, "plan": [], "objective": null,
                "thresholds": {}, "manifest": weir_results::Manifest::default(),
            }))
            .unwrap();
            let axes = axes.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect();
            assert_eq!(asked(&run, &axes), expected);
        };
        check(json!({}), &[], "none");
        check(json!({ "tls": true }), &[], "TLS");
        check(json!({ "tls": true }), &[(TLS, json!(false))], "none");
        check(
            json!({}),
            &[(TLS, json!(true)), (CLIENT_CERTIFICATE, json!("required"))],
            "TLS client certificate",
        );
        check(json!({ "tls": true, "bearer": 100 }), &[], "TLS, bearer token");
        check(json!({ "bearer": 0 }), &[], "none");
        let cached = [(TOKEN_CACHE, json!("600s"))];
        check(json!({ "tls": true, "bearer": 1 }), &cached, "TLS, bearer token cached for 600s");
    }
}
