//! Maps fields of the gateway model to the fields of manifests from which they were built.

use crate::filter::FilterKind;
use crate::manifest::{Body, Manifest};
use crate::route::{HttpRouteSpec, HttpRule, NamedMatch};

/// Which manifest fields a resource of the gateway model was built from. `Backend`, `manifest` and `sealed` contain
/// indexes into the list of manifests.
#[derive(Debug)]
pub(crate) enum Origin {
    Backend(usize),
    Route {
        manifest: usize,
        rule: usize,
        /// The index of the match in the rule; `None` if the rule has no matches.
        matched: Option<usize>,
    },
    Listener {
        manifest: usize,
        /// Indexes of the listeners with this port in `spec.listeners` of the Gateway.
        listeners: Vec<usize>,
        /// For each host of each certificate: the index of a listener in `spec.listeners`, and the index of the
        /// certificate in `certificateRefs` of this listener.
        certificates: Vec<Vec<(usize, usize)>>,
        /// For each passthrough entry, its TLSRoute.
        sealed: Vec<usize>,
    },
}

impl Origin {
    /// Finds the manifest field from which the model field `rest`, such as `.backends[1].weight`, was built. Returns
    /// the index of the manifest and the path of the field.
    pub(crate) fn locate(&self, manifests: &[&Manifest], rest: &str) -> (usize, String) {
        let rest = rest.strip_prefix('.').unwrap_or(rest);
        match self {
            Origin::Backend(manifest) => (*manifest, format!("spec.{rest}")),
            Origin::Route { manifest, rule, matched } => {
                let path = match &manifests[*manifest].body {
                    Body::HttpRoute(spec) => in_route(spec, *rule, *matched, rest),
                    _ => String::new(),
                };
                (*manifest, path)
            }
            Origin::Listener { manifest, listeners, certificates, sealed } => {
                let index = index_of(rest);
                if rest.starts_with("passthrough") && index < sealed.len() {
                    let field = if rest.ends_with("backend") { "spec.rules" } else { "spec.hostnames" };
                    return (sealed[index], field.to_owned());
                }
                (*manifest, in_listener(listeners, certificates, rest))
            }
        }
    }
}

fn in_listener(listeners: &[usize], certificates: &[Vec<(usize, usize)>], rest: &str) -> String {
    let first = listeners.first().copied().unwrap_or_default();
    if rest == "address" {
        return format!("spec.listeners[{first}].port");
    }
    let Some(of_tls) = rest.strip_prefix("tls.") else { return format!("spec.listeners[{first}]") };
    // The model stores the first certificate in separate fields, and the others in `certificates`.
    let position = if of_tls.starts_with("certificates[") { index_of(of_tls) + 1 } else { 0 };
    let host = of_tls.find("hosts[").map_or(0, |at| index_of(&of_tls[at..]));
    match certificates.get(position).and_then(|places| places.get(host)) {
        Some((listener, reference)) => format!("spec.listeners[{listener}].tls.certificateRefs[{reference}]"),
        None => format!("spec.listeners[{first}].tls"),
    }
}

fn in_route(spec: &HttpRouteSpec, position: usize, matched: Option<usize>, rest: &str) -> String {
    let path = format!("spec.rules[{position}]");
    let rule = &spec.rules[position];
    let of_match =
        |field: &str| matched.map_or(path.clone(), |index| format!("{path}.matches[{index}].{field}"));
    let (field, more) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
    let filter = |kind: FilterKind| in_filter(rule, kind, &path);
    match field {
        "path" | "exact" | "regex" => of_match("path.value"),
        "methods" => of_match("method"),
        "headers" | "query" => {
            let matched = matched.and_then(|index| rule.matches.get(index));
            let (list, all): (&str, &[NamedMatch]) = match (field, matched) {
                ("headers", Some(matched)) => ("headers", &matched.headers),
                (_, Some(matched)) => ("queryParams", &matched.query_params),
                (_, None) => ("", &[]),
            };
            let named = more.strip_prefix('.').unwrap_or(more);
            let found = all
                .iter()
                .position(|one| named == one.name || named.strip_suffix(".regex") == Some(&one.name));
            of_match(&found.map_or(list.to_owned(), |index| format!("{list}[{index}]")))
        }
        "hosts" => "spec.hostnames".to_owned(),
        "listeners" => "spec.parentRefs".to_owned(),
        "backend" => format!("{path}.backendRefs[0]"),
        "backends" => format!(
            "{path}.backendRefs[{}]{}",
            index_of(more),
            more.find(']').map_or("", |end| &more[end + 1..])
        ),
        "timeouts" => format!("{path}.timeouts{}", more.replace("backend", "backendRequest")),
        "request_headers" => filter(FilterKind::RequestHeaderModifier),
        "response_headers" => filter(FilterKind::ResponseHeaderModifier),
        "mirror" => filter(FilterKind::RequestMirror),
        "redirect" => filter(FilterKind::RequestRedirect),
        "rewrite" => filter(FilterKind::UrlRewrite),
        "cors" => filter(FilterKind::Cors),
        _ => path,
    }
}

fn in_filter(rule: &HttpRule, kind: FilterKind, path: &str) -> String {
    match rule.filters.iter().position(|filter| filter.kind == kind) {
        Some(index) => format!("{path}.filters[{index}].{}", kind.field()),
        None => path.to_owned(),
    }
}

/// The first number in brackets, or 0.
fn index_of(rest: &str) -> usize {
    let digits = rest.split(['[', ']']).nth(1).unwrap_or_default();
    digits.parse().unwrap_or_default()
}
