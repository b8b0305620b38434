//! Validation of a listener.

use std::time::Duration;

use weir_document::Problem;

use crate::collections::FastMap;
use crate::host::HostPattern;
use crate::model::{Instead, Listener, Passthrough, Tls};
use crate::problem::{failed, no_file};
use crate::tls::policy;

/// The host that matches every server name, including a missing one.
const EVERY: &str = "*";
/// Allowed lifetimes of session tickets. TLS 1.3 sets the upper limit (RFC 8446, 4.6.1).
const TICKET_LIFETIME: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(7 * 24 * 3600);

pub(super) fn check(key: &str, listener: &Listener) -> Vec<Problem> {
    let of_tls = listener.tls.as_ref().map_or(Ok(()), |tls| check_tls(&format!("{key}.tls"), tls));
    failed([of_tls, check_passthrough(key, listener)])
}

fn check_tls(place: &str, tls: &Tls) -> Result<(), Problem> {
    if let Some((field, _)) = tls.files().into_iter().find(|(_, file)| file.is_empty()) {
        return Err(no_file(format!("{place}.{field}")));
    }
    if tls.client_auth.is_some() && tls.client_ca.is_none() {
        let problem = Problem::of(format!("{place}.client_auth"), "`client_auth` requires `client_ca`");
        return Err(problem.help("add `client_ca`, the CA certificates of the clients"));
    }
    if let Some(keys) = tls.tickets.keys()
        && !TICKET_LIFETIME.contains(&keys.lifetime.0)
    {
        let message = format!("{} is out of range; allowed: 1s to 7 days", keys.lifetime);
        return Err(Problem::of(format!("{place}.tickets.lifetime"), message)
            .help("remove the field to use the default, 12h; `tickets: off` turns resumption off"));
    }
    for (position, pair) in tls.pairs().enumerate() {
        for (index, host) in tls.hosts(position).iter().enumerate() {
            host_pattern(&format!("{place}.{}[{index}]", pair.field("hosts")), host)?;
        }
    }
    policy::check(place, tls)
}

/// Validates `passthrough` of the listener `key`: each host appears once, and each entry has one target.
fn check_passthrough(key: &str, listener: &Listener) -> Result<(), Problem> {
    // `None` stands for `*`, which matches every client.
    let mut taken: FastMap<Option<HostPattern>, usize> = FastMap::default();
    for (index, entry) in listener.passthrough.iter().enumerate() {
        let place = format!("{key}.passthrough[{index}]");
        check_target(&place, entry, listener)?;
        let place = format!("{place}.hosts");
        if entry.hosts.is_empty() {
            return Err(Problem::of(place, "the list is empty").help("list the hosts for TLS passthrough"));
        }
        for (position, host) in entry.hosts.iter().enumerate() {
            let place = format!("{place}[{position}]");
            let pattern = host_pattern(&place, host)?;
            if let Some(other) = taken.insert(pattern, index) {
                let message = format!("`{host}` is already listed in {key}.passthrough[{other}]");
                return Err(Problem::of(place, message).help("list each host once"));
            }
        }
    }
    Ok(())
}

/// Validates the target of a passthrough entry: exactly one of `backend` and `instead` is required.
fn check_target(place: &str, entry: &Passthrough, listener: &Listener) -> Result<(), Problem> {
    match (&entry.backend, entry.instead) {
        (None, None) => Err(Problem::of(place, "`backend` or `instead` is required")
            .help("write `backend: NAME`, `instead: open` or `instead: close`")),
        (Some(_), Some(_)) => {
            Err(Problem::of(place, "`backend` and `instead` cannot be combined").help("remove one of them"))
        }
        (None, Some(Instead::Open)) if listener.tls.is_none() => {
            let message = "`instead: open` requires `tls` in the listener";
            Err(Problem::of(format!("{place}.instead"), message)
                .help("add `tls` to the listener, or write `instead: close`"))
        }
        _ => Ok(()),
    }
}

/// Parses a host; `None` for `*`, which matches every host. `place` is the path of its field, for messages.
fn host_pattern(place: &str, host: &str) -> Result<Option<HostPattern>, Problem> {
    if host == EVERY {
        return Ok(None);
    }
    HostPattern::parse(host).map(Some).map_err(|wrong| {
        Problem::of(place, wrong)
            .help("write `example.com`, `*.example.com` for its subdomains, or `*` for every host")
    })
}
