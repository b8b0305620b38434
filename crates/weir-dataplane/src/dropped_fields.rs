//! Request header fields that the gateway drops before routing: routes, filters and upstreams never get them.
//!
//! CGI and similar interfaces map both `X-Forwarded-For` and `X_Forwarded_For` to `HTTP_X_FORWARDED_FOR`. So a client
//! could bypass every rule for the first name with the second name. `Proxy` becomes `HTTP_PROXY`: many libraries send
//! their own requests through the proxy that this variable names ("httpoxy").

use std::net::SocketAddr;

use weir_config::Table;
use weir_http::{Field, is_plain_name};

use crate::counters::ListenerCounters;
use crate::program_log::seldom;

const PROXY: &str = "proxy";

/// The header fields that are not dropped; `None` if no field is dropped.
#[inline]
pub(crate) fn kept<'h>(fields: &[Field<'h>], table: &Table) -> Option<Vec<Field<'h>>> {
    let underscores = table.underscores_in_headers;
    fields.iter().any(|field| is_dropped(field.name, underscores)).then(|| stripped(fields, underscores))
}

/// Whether a request header field with this name is dropped.
#[inline]
pub(crate) fn is_dropped(name: &str, underscores_in_headers: bool) -> bool {
    (name.len() == PROXY.len() && name.eq_ignore_ascii_case(PROXY))
        || (!underscores_in_headers && !is_plain_name(name))
}

/// Why a request header field with this name is dropped.
pub(crate) fn reason(name: &str) -> &'static str {
    match name.eq_ignore_ascii_case(PROXY) {
        true => "CGI programs read it as `HTTP_PROXY`",
        false => "its name contains characters other than letters, digits and `-` (`underscores_in_headers`)",
    }
}

#[cold]
fn stripped<'h>(fields: &[Field<'h>], underscores: bool) -> Vec<Field<'h>> {
    fields.iter().filter(|field| !is_dropped(field.name, underscores)).copied().collect()
}

/// Counts the dropped fields of a request and logs the first one.
#[cold]
pub(crate) fn report(
    all: &[Field<'_>],
    kept: usize,
    listener: &ListenerCounters,
    peer: SocketAddr,
    table: &Table,
) {
    listener.fields_dropped.add((all.len() - kept) as u64);
    let dropped = all.iter().find(|field| is_dropped(field.name, table.underscores_in_headers));
    if let Some(Field { name, .. }) = dropped {
        let listener = &listener.name;
        seldom!(log::Level::Info, "{listener}: {peer}: request header `{name}` dropped: {}", reason(name));
    }
}
