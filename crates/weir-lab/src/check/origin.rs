//! What an upstream cannot be: weir's own, or another server.

use weir_document::{Size, nearest};

use super::{Checked, Known, Problem, WORKERS_MAX, problem};
use crate::not_served;
use crate::scenario::{Origin, OriginHttp2, Scenario};

const SERVERS_MAX: u32 = 100_000;
const REPLICAS_MAX: u32 = 100;
/// Largest body of an origin that is another server.
const BODY_MAX_BYTES: u64 = 64 << 20;

/// How far a sum of shares may be off the whole by the rounding of each.
const SHARES_ROUNDING: f64 = 1e-9;

pub(super) fn check_origin(scenario: &Scenario, known: &Known) -> Checked {
    let origin = &scenario.origin;
    check_origin_driver(origin, known)?;
    if origin.tls.is_some() {
        let path = ["origin", "tls"];
        return Err(Problem { fault: not_served::fault(&path), ..problem(&path, "", "") });
    }
    if !origin.delay.is_none() && !origin.service.is_none() {
        let remedy = "leave one of them out: a delay is a service with servers without end";
        return Err(problem(&["origin", "service"], "an origin with both a delay and a service", remedy));
    }
    if origin.servers.is_some() && origin.service.is_none() {
        let remedy = "add how long each serves, like `service: exp:5ms`";
        return Err(problem(&["origin", "servers"], "servers without a service", remedy));
    }
    if origin.shares() > 1.0 + SHARES_ROUNDING {
        let message = "errors, resets, half, slow and refuse are together more than all requests";
        let remedy = "make them 100% or less together: no request gets two of them";
        return Err(problem(&["origin"], message, remedy));
    }
    let http2 = &origin.http2;
    if origin.http1_only && http2 != &OriginHttp2::default() {
        let remedy = "leave out either `http1_only` or `http2`";
        return Err(problem(&["origin", "http2"], "HTTP/2 of an origin that speaks only HTTP/1.1", remedy));
    }
    let counts: [(&[&str], &str, Option<u32>, u32); 5] = [
        (&["origin", "workers"], "workers", origin.workers, WORKERS_MAX),
        (&["origin", "servers"], "servers", origin.servers, SERVERS_MAX),
        (&["origin", "faults", "close_after"], "responses", origin.faults.close_after, u32::MAX),
        (&["origin", "http2", "goaway"], "requests", http2.goaway, u32::MAX),
        (&["origin", "http2", "max_streams"], "streams", http2.max_streams, u32::MAX),
    ];
    for (path, what, count, most) in counts {
        if count.is_some_and(|count| !(1..=most).contains(&count)) {
            let message = format!("an impossible number of {what}");
            let remedy = if most == u32::MAX { "give 1 or more".into() } else { format!("give 1 to {most}") };
            return Err(problem(path, message, remedy));
        }
    }
    Ok(())
}

/// Refuses what weir's own origin can and another server cannot, and the other way round.
fn check_origin_driver(origin: &Origin, known: &Known) -> Checked {
    if origin.replicas.is_some_and(|replicas| !(1..=REPLICAS_MAX).contains(&replicas)) {
        let message = "an impossible number of replicas";
        return Err(problem(&["origin", "replicas"], message, format!("give 1 to {REPLICAS_MAX}")));
    }
    let Some(driver) = &origin.driver else { return Ok(()) };
    if !known.origins.contains(driver) {
        let remedy = match nearest(driver, known.origins.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => {
                format!("those that can are: {}; or leave it out: weir has its own", known.origins.join(", "))
            }
        };
        let message = format!("no driver `{driver}` can play the upstream");
        return Err(problem(&["origin", "driver"], message, remedy));
    }
    if let Some(field) = origin.own_field() {
        let remedy = format!("leave it out, or leave out `driver`: weir's own origin has `{field}`");
        let message = format!("an origin of the driver `{driver}` has no `{field}`");
        return Err(problem(&["origin", field], message, remedy));
    }
    if origin.body.0 > BODY_MAX_BYTES {
        let message = format!("a body of {} is rendered into a file", origin.body);
        return Err(problem(&["origin", "body"], message, format!("give at most {}", Size(BODY_MAX_BYTES))));
    }
    Ok(())
}
