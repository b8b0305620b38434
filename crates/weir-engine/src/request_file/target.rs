//! URLs and paths in request files.

use weir_document::Problem;

use super::{Base, set_field};
use crate::spec::RequestSpec;

/// Sets the path of a request from a URL or a path. The authority of a URL becomes the Host header field of the
/// request.
pub(super) fn apply(request: &mut RequestSpec, url: &str, base: &Base) -> Result<(), Problem<()>> {
    if url.starts_with('/') || url == "*" {
        request.path = without_fragment(url).to_owned();
        return Ok(());
    }
    let Some(Url { scheme, authority, path }) = Url::split(url) else {
        let message = format!("`{url}` is neither a URL nor a path");
        return Err(Problem::new(message, "use the form `http://host/path` or `/path`"));
    };
    let wanted = base.scheme();
    if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        let message = format!("unsupported URL scheme `{scheme}`");
        return Err(Problem::new(message, format!("use a URL that starts with {wanted}://")));
    }
    if !scheme.eq_ignore_ascii_case(wanted) {
        let message = format!("the URL uses {}, but the target uses {wanted}", scheme.to_ascii_lowercase());
        return Err(Problem::new(message, "use the same scheme for the requests and the target"));
    }
    check_authority(authority)?;
    set_field(&mut request.headers, "Host", authority.to_owned());
    request.path = with_slash(path);
    Ok(())
}

/// The parts of a URL, without the fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Url<'a> {
    pub(super) scheme: &'a str,
    /// Host and optional port as written.
    pub(super) authority: &'a str,
    /// Path and query; may be empty, or begin with `?`.
    pub(super) path: &'a str,
}

impl<'a> Url<'a> {
    /// Splits `scheme://authority/path?query`. Returns `None` if there is no scheme.
    pub(super) fn split(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let rest = without_fragment(rest);
        let (authority, path) = rest.split_at(find_outside(rest, b"/?"));
        Some(Self { scheme, authority, path })
    }

    /// The authority in lower case and without the default port of the scheme, so that equal hosts have equal
    /// texts.
    pub(super) fn host_and_port(&self) -> String {
        let port = if self.scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        self.authority.strip_suffix(port).unwrap_or(self.authority).to_ascii_lowercase()
    }
}

/// Adds the slash at the start of a path, if the URL has none.
pub(super) fn with_slash(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// Removes the fragment, which is never sent.
pub(super) fn without_fragment(url: &str) -> &str {
    &url[..find_outside(url, b"#")]
}

/// Returns the position of the first of the `wanted` bytes that is outside placeholders, or the end. The file name in a
/// placeholder may contain these bytes.
fn find_outside(text: &str, wanted: &[u8]) -> usize {
    let mut is_inside = false;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => is_inside = true,
            b'}' => is_inside = false,
            _ if !is_inside && wanted.contains(&byte) => return at,
            _ => {}
        }
    }
    text.len()
}

pub(super) fn check_authority(authority: &str) -> Result<(), Problem<()>> {
    if authority.contains('@') {
        // The URL may contain a secret, so the error does not repeat it.
        let message = "the URL contains a user or a password";
        return Err(Problem::new(message, "use an `Authorization` header instead"));
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(&byte);
    // A placeholder in the authority is checked later, as a part of the Host header field.
    if authority.is_empty() || !(authority.contains('{') || authority.bytes().all(is_allowed)) {
        let message = format!("`{authority}` is not a valid host");
        return Err(Problem::new(message, "use the form `http://host/path`"));
    }
    Ok(())
}
