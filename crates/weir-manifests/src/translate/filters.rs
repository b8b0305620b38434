//! Translates the filters of a rule.

use std::collections::BTreeSet;
use std::time::Duration;

use weir_config::{Cors, HeaderChanges, Mirror, Redirect, Rewrite, RewriteParts, Route, Scheme};
use weir_document::{Share, Time};

use super::Misfit;
use super::rules::{RuleOf, normal_path};
use crate::filter::{
    CorsFilter, Fraction, HeaderFilter, HttpFilter, MirrorFilter, NamedValue, PathModifier, PathModifierKind,
    RedirectFilter, RewriteFilter, UrlScheme,
};
use crate::route::PathMatchKind;

/// The default status of a redirect.
const FOUND: u16 = 302;

/// The wildcard in CORS: it matches all names.
const EVERY: &str = "*";

/// The replacement for the whole path, and the replacement for the matched prefix.
type Replacement = (Option<String>, Option<String>);

/// Applies the filters of the rule to the route.
pub(super) fn add_filters(rule: &RuleOf<'_, '_>, route: &mut Route) -> Result<(), Misfit> {
    let filters = &rule.rule.filters;
    for (index, filter) in filters.iter().enumerate() {
        let place = format!("filters[{index}]");
        let field = filter.kind.field();
        if filter.contents() != [filter.kind] {
            let message = format!(
                "a filter of type {} requires `{field}` and allows no other field",
                filter.kind.name()
            );
            return Err(rule.misfit(&place, message, format!("write only `{field}`, or change `type`")));
        }
        if filters[..index].iter().any(|other| other.kind == filter.kind) {
            let message = format!("the rule already has a filter of type {}", filter.kind.name());
            return Err(rule.misfit(&place, message, "merge the two filters, or remove one"));
        }
        add_filter(rule, filter, &format!("{place}.{field}"), route)?;
    }
    Ok(())
}

fn add_filter(
    rule: &RuleOf<'_, '_>,
    filter: &HttpFilter,
    place: &str,
    route: &mut Route,
) -> Result<(), Misfit> {
    // A filter sets only one of these fields: the field for its type.
    if let Some(changes) = &filter.request_header_modifier {
        route.request_headers = changes_of(changes).map(Box::new);
    }
    if let Some(changes) = &filter.response_header_modifier {
        route.response_headers = changes_of(changes).map(Box::new);
    }
    if let Some(mirror) = &filter.request_mirror {
        route.mirror = Some(Box::new(mirror_of(rule, mirror, place)?));
    }
    if let Some(redirect) = &filter.request_redirect {
        route.redirect = Some(Box::new(redirect_of(rule, redirect, place)?));
    }
    if let Some(rewrite) = &filter.url_rewrite {
        route.rewrite = rewrite_of(rule, rewrite, place)?;
    }
    if let Some(cors) = &filter.cors {
        route.cors = Some(Box::new(cors_of(cors)));
    }
    Ok(())
}

/// The header changes; `None` if there are none.
fn changes_of(filter: &HeaderFilter) -> Option<HeaderChanges> {
    let fields = |fields: &[NamedValue]| {
        let first = first_of_each(fields, |field| &field.name);
        first.map(|field| (field.name.clone(), field.value.clone())).collect()
    };
    let changes = HeaderChanges {
        set: fields(&filter.set),
        add: fields(&filter.add),
        remove: first_of_each(&filter.remove, |name| name).cloned().collect(),
    };
    (!changes.is_empty()).then_some(changes)
}

/// The first entry of each name, ignoring case.
fn first_of_each<T>(all: &[T], name: fn(&T) -> &str) -> impl Iterator<Item = &T> {
    let mut names = BTreeSet::new();
    all.iter().filter(move |one| names.insert(name(one).to_ascii_lowercase()))
}

fn mirror_of(rule: &RuleOf<'_, '_>, filter: &MirrorFilter, place: &str) -> Result<Mirror, Misfit> {
    if filter.backend_ref.weight.is_some() {
        let message = "a mirror does not support `weight`";
        return Err(rule.misfit(
            &format!("{place}.backendRef.weight"),
            message,
            "write `percent` or `fraction`",
        ));
    }
    let share = match (filter.percent, filter.fraction) {
        (None, None) => 1.0,
        (Some(percent), None) => f64::from(percent) / 100.0,
        (None, Some(Fraction { numerator, denominator })) => f64::from(numerator) / f64::from(denominator),
        (Some(_), Some(_)) => {
            let message = "`percent` and `fraction` cannot be combined";
            return Err(rule.misfit(place, message, "remove one of them"));
        }
    };
    // With a denominator of 0, the share is NaN or infinite.
    if !(0.0..=1.0).contains(&share) {
        let message = "the share of mirrored requests is out of range; allowed: 0 to 1";
        return Err(rule.misfit(
            place,
            message,
            "write a `percent` of 0 to 100, or a `fraction` of at most 1",
        ));
    }
    let backend = rule.backend(&filter.backend_ref, &format!("{place}.backendRef"))?;
    Ok(Mirror { backend, share: Share(share) })
}

fn redirect_of(rule: &RuleOf<'_, '_>, filter: &RedirectFilter, place: &str) -> Result<Redirect, Misfit> {
    let (path, prefix) = replacement(rule, filter.path.as_ref(), place)?;
    Ok(Redirect {
        scheme: filter.scheme.map(|scheme| match scheme {
            UrlScheme::Http => Scheme::Http,
            UrlScheme::Https => Scheme::Https,
        }),
        host: filter.hostname.clone(),
        port: filter.port,
        path,
        prefix,
        status: filter.status_code.unwrap_or(FOUND),
    })
}

/// The rewrite; `None` if nothing is rewritten.
fn rewrite_of(rule: &RuleOf<'_, '_>, filter: &RewriteFilter, place: &str) -> Result<Option<Rewrite>, Misfit> {
    let (path, prefix) = replacement(rule, filter.path.as_ref(), place)?;
    Ok(match (filter.hostname.clone(), path, prefix) {
        (None, None, None) => None,
        // If only the prefix changes, `Rewrite::Prefix` is enough and cheaper.
        (None, None, Some(prefix)) => Some(Rewrite::Prefix(prefix)),
        (host, path, prefix) => Some(Rewrite::Parts(Box::new(RewriteParts { host, path, prefix }))),
    })
}

fn replacement(
    rule: &RuleOf<'_, '_>,
    modifier: Option<&PathModifier>,
    place: &str,
) -> Result<Replacement, Misfit> {
    let Some(modifier) = modifier else { return Ok((None, None)) };
    let place = format!("{place}.path");
    match (modifier.kind, &modifier.replace_full_path, &modifier.replace_prefix_match) {
        (PathModifierKind::ReplaceFullPath, Some(path), None) => Ok((Some(replacing(path)), None)),
        (PathModifierKind::ReplacePrefixMatch, None, Some(prefix)) => {
            if rule.rule.matches.iter().any(|matched| matched.path.kind != PathMatchKind::PathPrefix) {
                let message = "ReplacePrefixMatch requires `type: PathPrefix` in every match of the rule";
                let remedy = "use `type: PathPrefix`, or move the other matches to another rule";
                return Err(rule.misfit(&place, message, remedy));
            }
            Ok((None, Some(replacing(prefix))))
        }
        (PathModifierKind::ReplaceFullPath, ..) => Err(rule.misfit(
            &place,
            "ReplaceFullPath requires `replaceFullPath` and allows no other field",
            "write only `replaceFullPath`",
        )),
        (PathModifierKind::ReplacePrefixMatch, ..) => {
            let message = "ReplacePrefixMatch requires `replacePrefixMatch` and allows no other field";
            Err(rule.misfit(&place, message, "write only `replacePrefixMatch`"))
        }
    }
}

/// Gateway API treats an empty path as the root.
fn replacing(path: &str) -> String {
    normal_path(if path.is_empty() { "/" } else { path })
}

fn cors_of(filter: &CorsFilter) -> Cors {
    // With credentials, browsers treat `*` as a literal field name, so the gateway must not send it.
    let is_told = |name: &&String| !filter.allow_credentials || *name != EVERY;
    Cors {
        origins: filter.allow_origins.clone(),
        methods: filter.allow_methods.clone(),
        headers: filter.allow_headers.clone(),
        expose: filter.expose_headers.iter().filter(is_told).cloned().collect(),
        credentials: filter.allow_credentials,
        max_age: Some(Time(Duration::from_secs(filter.max_age.into()))),
    }
}
