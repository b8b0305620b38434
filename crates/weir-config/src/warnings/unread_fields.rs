//! Request header fields that a configuration names, but that never have the expected value.

use weir_document::Problem;
use weir_http::is_plain_name;

use crate::model::{Balance, HashKey};
use crate::state::State;

const ALLOW: &str = "use letters, digits and hyphens, or set `underscores_in_headers: true`";

/// Fields that the gateway drops before a route or a backend could read them, and fields that clients can forge.
pub(super) fn of_state(state: &State) -> Vec<Problem> {
    let underscores = state.resources.settings.underscores_in_headers;
    let dropped = |place: String, name: &str| {
        let message = format!("the gateway drops the request field `{name}`, so nothing can match it");
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

/// A field by which a client could choose its endpoint.
fn claimed(place: String, name: &str) -> Option<Problem> {
    const CLAIMS: [&str; 3] = ["x-forwarded-for", "forwarded", "x-real-ip"];
    let is_claim = CLAIMS.iter().any(|claim| claim.eq_ignore_ascii_case(name));
    is_claim.then(|| {
        Problem::of(place, format!("`{name}` is hashed as it came, so clients choose their endpoint"))
            .help("use `hash: client_address`, with `forwarding.trusted_hops` behind other proxies")
    })
}
