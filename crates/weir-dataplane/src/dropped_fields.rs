//! Request fields that end here before anything reads them: routes, filters and upstreams see a head without them.
//!
//! By CGI and its heirs a program gets `HTTP_X_FORWARDED_FOR` from `X-Forwarded-For` as well as from `X_Forwarded_For`,
//! so the second would pass by whatever is done to the first. `Proxy` becomes `HTTP_PROXY`, by which many libraries
//! choose a proxy for requests of their own ("httpoxy").

use std::net::SocketAddr;

use weir_config::Table;
use weir_http::{Field, is_plain_name};

use crate::counters::ListenerCounters;
use crate::program_log::seldom;

const PROXY: &str = "proxy";

/// The fields that stay; `None` if all of them do.
#[inline]
pub(crate) fn kept<'h>(fields: &[Field<'h>], table: &Table) -> Option<Vec<Field<'h>>> {
    let underscores = table.underscores_in_headers;
    fields.iter().any(|field| is_dropped(field.name, underscores)).then(|| stripped(fields, underscores))
}

/// Whether a request field of this name ends here.
#[inline]
pub(crate) fn is_dropped(name: &str, underscores_in_headers: bool) -> bool {
    (name.len() == PROXY.len() && name.eq_ignore_ascii_case(PROXY))
        || (!underscores_in_headers && !is_plain_name(name))
}

/// Why a request field of this name ends here.
pub(crate) fn reason(name: &str) -> &'static str {
    match name.eq_ignore_ascii_case(PROXY) {
        true => "CGI programs take it for the address of a proxy",
        false => "its name holds other characters than letters, digits and `-` (`underscores_in_headers`)",
    }
}

#[cold]
fn stripped<'h>(fields: &[Field<'h>], underscores: bool) -> Vec<Field<'h>> {
    fields.iter().filter(|field| !is_dropped(field.name, underscores)).copied().collect()
}

/// Counts and logs what was dropped of a client's request.
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
        seldom!(log::Level::Info, "{listener}: {peer}: request field `{name}` dropped: {}", reason(name));
    }
}
