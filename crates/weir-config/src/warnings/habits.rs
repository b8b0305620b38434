//! Text that is special in other gateways, but literal here: variables, the host `_`, paths with `*`.

use std::collections::BTreeMap;

use weir_document::Problem;

use crate::filters::HeaderChanges;
use crate::model::Route;

/// Finds text in the route `key` that is special in other gateways, but literal here.
pub(super) fn of_route(key: &str, route: &Route) -> Vec<Problem> {
    let changes =
        [("request_headers", &route.request_headers), ("response_headers", &route.response_headers)];
    let changed = changes.into_iter().filter_map(|(field, changes)| Some((field, changes.as_deref()?)));
    let mut found: Vec<Problem> =
        changed.flat_map(|(field, changes)| variables_of(&format!("{key}.{field}"), changes)).collect();
    if let Some(respond) = &route.respond {
        found.extend(variables(&format!("{key}.respond.headers"), &respond.headers));
    }
    found.extend(route.hosts.iter().enumerate().filter(|(_, host)| *host == "_").map(|(index, _)| {
        Problem::of(
            format!("{key}.hosts[{index}]"),
            "`_` is not a wildcard here; it matches only the host `_`",
        )
        .help("remove `hosts` to match every host")
    }));
    found.extend(starred_paths(key, route));
    found
}

fn variables_of(place: &str, changes: &HeaderChanges) -> Vec<Problem> {
    let set = variables(&format!("{place}.set"), &changes.set);
    set.into_iter().chain(variables(&format!("{place}.add"), &changes.add)).collect()
}

/// Finds header values that seem to contain a variable, such as `$name`.
fn variables(place: &str, fields: &BTreeMap<String, String>) -> Vec<Problem> {
    let looking = fields.iter().filter_map(|(name, value)| Some((name, variable_in(value)?)));
    looking
        .map(|(name, variable)| {
            let message =
                format!("the gateway sends `{variable}` literally; header values have no variables");
            Problem::of(format!("{place}.{name}"), message)
                .help("use `forwarding` to send the client address and a request ID to upstreams")
        })
        .collect()
}

/// The first `$name`, `${name}` or `%{name}` in a text.
fn variable_in(value: &str) -> Option<&str> {
    value.char_indices().find_map(|(at, sign)| {
        let rest = &value[at + sign.len_utf8()..];
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let braced = rest.strip_prefix('{').and_then(|inner| inner.find('}')).map(|end| end + 2);
        let length = match sign {
            '$' if rest.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                rest.find(|c| !is_name(c)).unwrap_or(rest.len())
            }
            '$' | '%' => braced?,
            _ => return None,
        };
        Some(&value[at..at + sign.len_utf8() + length])
    })
}

/// Finds paths with a trailing `*`. The `*` is not needed, because a prefix matches all paths below it.
fn starred_paths(key: &str, route: &Route) -> Vec<Problem> {
    let prefix = route.path.iter().map(|path| ("path", path));
    let exact = route.exact.iter().flat_map(|paths| paths.as_slice()).map(|path| ("exact", path));
    prefix
        .chain(exact)
        .filter(|(_, path)| path.ends_with('*'))
        .map(|(field, path)| {
            let below = path.trim_end_matches('*').trim_end_matches('/');
            let below = if below.is_empty() { "/" } else { below };
            Problem::of(
                format!("{key}.{field}"),
                format!("`*` in `{path}` is not a wildcard; it matches only `*`"),
            )
            .help(format!("use `path: {below}` to match everything below it, or `regex` for other patterns"))
        })
        .collect()
}
