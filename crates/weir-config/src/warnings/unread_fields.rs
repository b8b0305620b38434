//! Warnings about dropped headers in conditions and hash keys, and about hash keys that clients can forge.

use weir_document::Problem;
use weir_http::is_plain_name;

use crate::model::{Balance, HashKey};
use crate::state::State;

const ALLOW: &str = "use letters, digits and hyphens, or set `underscores_in_headers: true`";

/// Finds headers that the gateway drops before a route or a backend can use them, and hash keys that clients can forge.
pub(super) fn of_state(state: &State) -> Vec<Problem> {
    let underscores = state.resources.settings.underscores_in_headers;
    let dropped = |place: String, name: &str| {
        let message =
            format!("the gateway drops the request header `{name}`, so the header is always missing");
        if name.eq_ignore_ascii_case("proxy") {
            return Some(Problem::of(place, message).help("use another name"));
        }
        (!underscores && !is_plain_name(name)).then(|| Problem::of(place, message).help(ALLOW))
    };
    let routes = state.resources.routes.values().flat_map(|entry| {
        let names = entry.route.headers.keys();
        names.filter_map(|name| dropped(format!("{}.headers.{name}", entry.key), name))
    });
    let hashed = state.resources.backends.iter().filter_map(|(backend, entry)| {
        let Balance::Hash(HashKey::Header(name)) = &entry.balance else { return None };
        let place = format!("backends.{backend}.balance.hash.header");
        dropped(place.clone(), name).or_else(|| claimed(place, name))
    });
    routes.chain(hashed).collect()
}

/// Warns if the hash key is a header that clients can set, because clients could then choose their endpoint.
fn claimed(place: String, name: &str) -> Option<Problem> {
    const CLAIMS: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];
    let is_claim = CLAIMS.iter().any(|claim| claim.eq_ignore_ascii_case(name));
    is_claim.then(|| {
        let message =
            format!("`{name}` is hashed as the client sends it, so clients can choose their endpoint");
        Problem::of(place, message)
            .help("use `hash: client_address`, with `forwarding.trusted_hops` behind other proxies")
    })
}
