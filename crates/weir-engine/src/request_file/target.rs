//! URLs and paths as they stand in files.

use weir_document::Problem;

use super::{Base, set_field};
use crate::spec::RequestSpec;

/// Points a request at a URL, whose authority becomes its Host, or at a path.
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
        return Err(Problem::new(message, format!("use a URL with {wanted}")));
    }
    if !scheme.eq_ignore_ascii_case(wanted) {
        let message = format!("the URL uses {}, and the target uses {wanted}", scheme.to_ascii_lowercase());
        return Err(Problem::new(message, "use one scheme for the requests and the target"));
    }
    check_authority(authority)?;
    set_field(&mut request.headers, "Host", authority.to_owned());
    request.path = with_slash(path);
    Ok(())
}

/// A URL's parts, without its fragment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Url<'a> {
    pub(super) scheme: &'a str,
    /// Host and perhaps port, as they stand there.
    pub(super) authority: &'a str,
    /// Path and query; may be empty, or begin with `?`.
    pub(super) path: &'a str,
}

impl<'a> Url<'a> {
    /// Splits `scheme://authority/path?query`; `None` where there is no scheme.
    pub(super) fn split(url: &'a str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let rest = without_fragment(rest);
        let (authority, path) = rest.split_at(find_outside(rest, b"/?"));
        Some(Self { scheme, authority, path })
    }

    /// The authority as it compares: in lower case, without the scheme's own port.
    pub(super) fn host_and_port(&self) -> String {
        let port = if self.scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
        self.authority.strip_suffix(port).unwrap_or(self.authority).to_ascii_lowercase()
    }
}

/// A request's path begins with a slash, also where the URL has none.
pub(super) fn with_slash(path: &str) -> String {
    if path.starts_with('/') { path.to_owned() } else { format!("/{path}") }
}

/// A fragment is for whoever reads the answer, and is never sent.
pub(super) fn without_fragment(url: &str) -> &str {
    &url[..find_outside(url, b"#")]
}

/// Where the first of these bytes stands outside of placeholders, whose files may be named in any way; else the end.
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
        // It may be a secret, so the error does not repeat it.
        let message = "the URL contains a user or a password";
        return Err(Problem::new(message, "use an `Authorization` header instead"));
    }
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]%".contains(&byte);
    // Placeholders are looked at with the request's fields.
    if authority.is_empty() || !(authority.contains('{') || authority.bytes().all(is_allowed)) {
        let message = format!("`{authority}` is not a valid host");
        return Err(Problem::new(message, "use the form `http://host/path`"));
    }
    Ok(())
}
