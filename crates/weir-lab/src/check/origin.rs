//! Checks the upstream: the built-in origin, or the server of a driver.

use weir_document::Size;

use super::problem::{Problems, suggestion_or};
use super::reserved;
use super::{Known, WORKERS_MAX};
use crate::agents::Place;
use crate::scenario::{CertificateScope, ClientCertificate, Network, Origin, OriginHttp2, Scenario};

const SERVERS_MAX: u32 = 100_000;
const REPLICAS_MAX: u32 = 100;
/// Maximum response body of an upstream with a driver. weir writes this body to a file.
const BODY_MAX_BYTES: u64 = 64 << 20;

/// Tolerance for the rounding errors in a sum of shares.
const SHARES_ROUNDING: f64 = 1e-9;

pub(super) fn check_origin(scenario: &Scenario, known: &Known, found: &mut Problems) {
    let origin = &scenario.origin;
    check_replicas(origin, found);
    check_place(scenario, found);
    if let Some(service) = origin.service.name() {
        return check_origin_service(scenario, service, known, found);
    }
    if !origin.prepare.is_empty() {
        let remedy = "remove `prepare`, or set `service: kubernetes-api`";
        found.add(&["origin", "prepare"], "`prepare` needs an upstream that is a service", remedy);
    }
    if scenario.topology.token_cache.is_some() {
        let remedy = "remove `token_cache`, or use an upstream that validates tokens: \
                      `origin: { service: kubernetes-api }`";
        found.add(&["topology", "token_cache"], "this upstream does not validate tokens", remedy);
    }
    if origin.driver.is_some() {
        return check_origin_driver(origin, known, found);
    }
    if origin.tls.is_some() {
        let error = reserved::error();
        found.add(&["origin", "tls"], error.message, error.remedy);
    }
    if !origin.delay.is_none() && !origin.service.is_none() {
        let remedy = "remove one of the two: `delay` is a service time without queueing";
        found.add(&["origin", "service"], "`delay` and `service` cannot be combined", remedy);
    }
    if origin.servers.is_some() && origin.service.is_none() {
        let remedy = "add a service time, like `service: exp:5ms`";
        found.add(&["origin", "servers"], "`servers` needs `service`", remedy);
    }
    if origin.shares() > 1.0 + SHARES_ROUNDING {
        let message =
            "the shares of `errors`, `resets`, `half`, `slow` and `refuse` add up to more than 100%";
        let remedy = "reduce their sum to 100% or less: a request gets at most one of these faults";
        found.add(&["origin"], message, remedy);
    }
    let http2 = &origin.http2;
    if origin.http1_only && http2 != &OriginHttp2::default() {
        let message = "`http1_only` and `http2` cannot be combined";
        found.add(&["origin", "http2"], message, "remove one of the two");
    }
    let counts: [(&[&str], Option<u32>, u32); 5] = [
        (&["origin", "workers"], origin.workers, WORKERS_MAX),
        (&["origin", "servers"], origin.servers, SERVERS_MAX),
        (&["origin", "faults", "close_after"], origin.faults.close_after, u32::MAX),
        (&["origin", "http2", "goaway"], http2.goaway, u32::MAX),
        (&["origin", "http2", "max_streams"], http2.max_streams, u32::MAX),
    ];
    for (path, count, most) in counts {
        if let Some(count) = count.filter(|count| !(1..=most).contains(count)) {
            let remedy = if most == u32::MAX { "use at least 1".into() } else { format!("use 1 to {most}") };
            found.add_range(path, count, remedy);
        }
    }
}

/// Checks an upstream that an agent runs (`origin.on`).
fn check_place(scenario: &Scenario, found: &mut Problems) {
    let origin = &scenario.origin;
    let Some(on) = &origin.on else { return };
    let at = ["origin", "on"];
    let is_namespace = matches!(on, Place::Namespaces(_));
    if is_namespace || on.agents() != 1 {
        let what = if is_namespace {
            "cannot run on an agent in a network namespace"
        } else {
            "runs on exactly one agent"
        };
        let message = format!("{on}: an upstream {what}");
        found.add(&at, message, "use ssh:HOST, agents:1, or local:1 for the host where weir runs");
    }
    let generator = scenario.generator.on.as_ref();
    let namespaces = matches!(generator, Some(Place::Namespaces(_)));
    let excluded = [
        (origin.driver.is_some(), "origin.driver"),
        (origin.service.name().is_some(), "origin.service"),
        (origin.replica_count() > 1, "origin.replicas"),
        (!scenario.faults.is_empty(), "faults"),
        (scenario.changes.is_some(), "changes"),
        (scenario.is_elsewhere(), "driver: remote"),
        (namespaces, "generator.on: netns"),
        (!namespaces && scenario.network() == Network::Namespaces, "network: namespaces"),
    ];
    for (_, other) in excluded.into_iter().filter(|(is_given, _)| *is_given) {
        found.add(&at, format!("`origin.on` and `{other}` cannot be combined"), "remove one of the two");
    }
    if matches!(on, Place::Local(_)) && generator.is_some_and(Place::is_elsewhere) {
        let message =
            format!("{on}: load from other machines does not reach an upstream that listens on loopback");
        found.add(&at, message, "use ssh:HOST or agents:1");
    }
}

fn check_replicas(origin: &Origin, found: &mut Problems) {
    if let Some(replicas) = origin.replicas.filter(|replicas| !(1..=REPLICAS_MAX).contains(replicas)) {
        found.add_range(&["origin", "replicas"], replicas, format!("use 1 to {REPLICAS_MAX}"));
    }
}

/// Checks an upstream that is a service. Such an upstream requires TLS, and either a client certificate or a token.
fn check_origin_service(scenario: &Scenario, service: &str, known: &Known, found: &mut Problems) {
    let Scenario { origin, topology, .. } = scenario;
    if !known.services.iter().any(|name| name == service) {
        let names = known.services.iter().map(String::as_str);
        let remedy = suggestion_or(service, names, "services", "or use a service time, like `exp:5ms`");
        return found.add(
            &["origin", "service"],
            format!("service `{service}` cannot serve as the upstream"),
            remedy,
        );
    }
    let others = [("driver", origin.driver.is_some()), ("replicas", origin.replicas.is_some())];
    let others = others.into_iter().chain([("workers", origin.workers.is_some())]);
    let other = others.filter(|(_, is_given)| *is_given).map(|(name, _)| name).next();
    if let Some(field) = other.or_else(|| origin.own_fields().find(|field| *field != "service")) {
        let message = format!("an origin that is a service has no `{field}`");
        found.add(&["origin", field], message, format!("remove `{field}`, or remove `service`"));
    }
    if !topology.tls {
        let message = format!("`{service}` requires TLS, so clients must connect to the gateways with TLS");
        found.add(&["topology", "tls"], message, "add `tls: true` to the topology");
    }
    let shows = topology.client_certificate == ClientCertificate::Required;
    if shows == (topology.bearer > 0) {
        let message = format!("`{service}` requires either a client certificate or a token");
        let remedy = "add `client_certificate: required` or `bearer: 1` to the topology, and not both";
        found.add(&["topology"], message, remedy);
    }
    if topology.certificates == CertificateScope::Each {
        let message = "an upstream that is a service has one certificate for all hosts";
        found.add(&["topology", "certificates"], message, "remove `topology.certificates`");
    }
}

/// Checks an upstream with a driver. Rejects fields that only the built-in origin supports.
fn check_origin_driver(origin: &Origin, known: &Known, found: &mut Problems) {
    let Some(driver) = &origin.driver else { return };
    if !known.origins.contains(driver) {
        let names = known.origins.iter().map(String::as_str);
        let otherwise = "without `driver`, weir starts its built-in origin";
        let remedy = suggestion_or(driver, names, "origins", otherwise);
        return found.add(
            &["origin", "driver"],
            format!("driver `{driver}` cannot serve as the upstream"),
            remedy,
        );
    }
    if let Some(field) = origin.own_fields().next() {
        let remedy = format!("remove `{field}`, or remove `driver`: only the built-in origin has `{field}`");
        found.add(
            &["origin", field],
            format!("an origin with the driver `{driver}` has no `{field}`"),
            remedy,
        );
    }
    if let Some(workers) = origin.workers.filter(|workers| !(1..=WORKERS_MAX).contains(workers)) {
        found.add_range(&["origin", "workers"], workers, format!("use 1 to {WORKERS_MAX}"));
    }
    if origin.body.0 > BODY_MAX_BYTES {
        let message = format!("a body of {} is too large for an origin with a driver", origin.body);
        found.add(&["origin", "body"], message, format!("use at most {}", Size(BODY_MAX_BYTES)));
    }
}
