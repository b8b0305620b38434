//! Validation of a backend.

use rustls::pki_types::ServerName;
use weir_document::{Problem, nearest};

use crate::model::backend::{balance, health, keepalive, limits, timeouts};
use crate::model::bounds::{WEIGHT_MAX, check_time};
use crate::model::{Backend, BackendTls, Balance, Endpoint};
use crate::problem::no_file;

pub(super) fn check(name: &str, backend: &Backend) -> Result<(), Problem> {
    check_name(name)?;
    let place = format!("backends.{name}");
    if let Some(tls) = &backend.tls {
        check_tls(&format!("backends.{name}.tls"), tls)?;
        if let Some(host) = backend.names().next().filter(|_| tls.sni.is_none()) {
            let message = format!(
                "required: without `sni`, the certificate must be valid for the IP addresses of `{host}`"
            );
            return Err(Problem::of(format!("backends.{name}.tls.sni"), message)
                .help(format!("set `sni` to `{host}` or to the name in the certificate")));
        }
        if tls.sni.is_none() && backend.has_unix_sockets() {
            let message = "required: a Unix socket has no host name to check the certificate against";
            return Err(Problem::of(format!("backends.{name}.tls.sni"), message)
                .help("set `sni` to the host name in the certificate of the service"));
        }
    }
    let is_without_port = |endpoint: &Endpoint| endpoint.address.port() == Some(0);
    if let Some(index) = backend.endpoints.iter().position(is_without_port) {
        let message = format!("{} has port 0", backend.endpoints[index].address);
        return Err(Problem::of(format!("{place}.endpoints[{index}]"), message)
            .help("write the port that the service listens on"));
    }
    limits::check(name, &backend.limits)?;
    timeouts::check(name, &backend.timeouts, &backend.limits)?;
    keepalive::check(name, &backend.keepalive)?;
    check_weights(&place, backend)?;
    balance::check(&format!("{place}.balance"), &backend.balance)?;
    check_slow_start(&place, backend)?;
    if let Some(health) = &backend.health {
        health::check_health(&format!("{place}.health"), health)?;
    }
    if let Some(ejection) = &backend.ejection {
        health::check_ejection(&format!("{place}.ejection"), ejection)?;
    }
    Ok(())
}

fn check_weights(place: &str, backend: &Backend) -> Result<(), Problem> {
    let mut weights = backend.endpoints.iter().map(|endpoint| endpoint.weight).enumerate();
    match weights.find(|(_, weight)| *weight > WEIGHT_MAX) {
        Some((index, weight)) => {
            let message = format!("{weight} is larger than {WEIGHT_MAX}");
            Err(Problem::of(format!("{place}.endpoints[{index}].weight"), message)
                .help("use smaller weights; only their ratio matters"))
        }
        None => Ok(()),
    }
}

fn check_slow_start(place: &str, backend: &Backend) -> Result<(), Problem> {
    let place = format!("{place}.slow_start");
    match (&backend.slow_start, &backend.balance) {
        (Some(_), Balance::Hash(_)) => {
            let message = "no effect with `balance: hash`: only the key selects the endpoint";
            Err(Problem::of(place, message).help("remove `slow_start`"))
        }
        (Some(time), _) => check_time(&place, *time, "remove the field to turn slow start off"),
        (None, _) => Ok(()),
    }
}

fn check_name(name: &str) -> Result<(), Problem> {
    let printable = |c: char| !c.is_control() && c != '"' && c != '\\';
    if name.is_empty() || name.len() > 253 || !name.chars().all(printable) {
        let message = format!("invalid backend name `{}`", name.escape_debug());
        return Err(Problem::of("backends", message).help("use 1 to 253 printable characters"));
    }
    Ok(())
}

/// Validates `tls`. `place` is the path of its field, for messages.
fn check_tls(place: &str, tls: &BackendTls) -> Result<(), Problem> {
    if let Some((field, _)) = tls.files().into_iter().find(|(_, file)| file.is_empty()) {
        return Err(no_file(format!("{place}.{field}")));
    }
    if let Some(name) = &tls.sni
        && ServerName::try_from(name.as_str()).is_err()
    {
        return Err(Problem::of(format!("{place}.sni"), format!("`{name}` is not a host name"))
            .help("set `sni` to the host name in the certificate of the endpoints, without a port"));
    }
    match (&tls.certificate, &tls.key) {
        (Some(_), None) => Err(Problem::of(format!("{place}.certificate"), "`certificate` requires `key`")
            .help("add `key`, the private key of the certificate")),
        (None, Some(_)) => Err(Problem::of(format!("{place}.key"), "`key` requires `certificate`")
            .help("add `certificate`, the certificate of the key")),
        _ => Ok(()),
    }
}

/// The problem to report for the field `place`, which names the unknown backend `wanted`. `names` are the known
/// backends, for the suggestion.
pub(crate) fn unknown_backend<'n>(
    place: String,
    wanted: &str,
    names: impl Iterator<Item = &'n str>,
) -> Problem {
    let problem = Problem::of(place, format!("unknown backend `{wanted}`"));
    let names: Vec<&str> = names.collect();
    match nearest(wanted, names.iter().copied()) {
        Some(name) => problem.help(format!("did you mean `{name}`?")),
        None if names.is_empty() => problem.help("add it under `backends`"),
        None => problem.help(format!("known backends: {}", names[..names.len().min(8)].join(", "))),
    }
}
