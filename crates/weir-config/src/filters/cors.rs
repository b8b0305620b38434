//! CORS (Fetch standard): which web pages of other origins may read the responses of a route.

use super::forms::Cors;
use crate::host::HostPattern;

/// In a list, this entry stands for all origins, methods or headers.
pub(super) const EVERY: &str = "*";

/// The settings of `cors` in the form that the data plane uses.
#[derive(Debug)]
pub struct CorsPolicy {
    /// Allowed origins; `None` allows every origin.
    origins: Option<Box<[OriginPattern]>>,
    credentials: bool,
    methods: Allowed,
    headers: Allowed,
    expose: Option<Box<str>>,
    max_age_s: Option<Box<str>>,
}

/// The headers of a preflight request.
#[derive(Clone, Copy, Debug)]
pub struct Preflight<'r> {
    /// Value of `Origin`.
    pub origin: &'r [u8],
    /// Value of `Access-Control-Request-Method`.
    pub method: &'r [u8],
    /// Value of `Access-Control-Request-Headers`, if sent.
    pub headers: Option<&'r [u8]>,
}

/// An allowed origin, in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OriginPattern {
    Exact(Box<str>),
    /// Any subdomain: the text before and after it, such as `https://` and `.example.org`.
    Around(Box<str>, Box<str>),
    /// A pattern for any host: the text before and after the host, such as `https://` and `:8443`.
    EveryHost(Box<str>, Box<str>),
}

/// Names of methods or headers that are allowed in addition to those that CORS always allows.
#[derive(Debug)]
enum Allowed {
    Nothing,
    /// The configured names, separated by commas.
    Listed(Box<str>),
    /// All names that the browser requests. With credentials, this replaces `*`, because browsers then read `*` as a
    /// literal name.
    AsRequested,
}

impl CorsPolicy {
    /// Compiles valid settings.
    pub(super) fn of(cors: &Cors) -> CorsPolicy {
        let is_every = cors.origins.iter().any(|origin| origin == EVERY);
        let patterns = cors.origins.iter().filter_map(|origin| OriginPattern::parse(origin).ok());
        let list = |names: &[String]| (!names.is_empty()).then(|| names.join(", ").into_boxed_str());
        let allowed = |names: &[String]| match list(names) {
            Some(_) if cors.credentials && names.iter().any(|name| name == EVERY) => Allowed::AsRequested,
            Some(names) => Allowed::Listed(names),
            None => Allowed::Nothing,
        };
        CorsPolicy {
            origins: (!is_every).then(|| patterns.collect()),
            credentials: cors.credentials,
            methods: allowed(&cors.methods),
            headers: allowed(&cors.headers),
            expose: list(&cors.expose),
            max_age_s: cors.max_age.map(|age| age.0.as_secs().to_string().into_boxed_str()),
        }
    }

    /// Calls `field` for each CORS header of a response, with its name and value. `origin` is the `Origin` header of
    /// the request, if any.
    pub fn response(&self, origin: Option<&[u8]>, mut field: impl FnMut(&'static str, &[u8])) {
        if let Some(origin) = origin.filter(|origin| self.allows(origin)) {
            self.allow(origin, &mut field);
            if let Some(names) = &self.expose {
                field("Access-Control-Expose-Headers", names.as_bytes());
            }
        }
        self.vary(&mut field);
    }

    /// Calls `field` for each CORS header of the response to a preflight, with its name and value.
    pub fn preflight(&self, requested: &Preflight<'_>, mut field: impl FnMut(&'static str, &[u8])) {
        if self.allows(requested.origin) {
            self.allow(requested.origin, &mut field);
            self.methods.write("Access-Control-Allow-Methods", Some(requested.method), &mut field);
            self.headers.write("Access-Control-Allow-Headers", requested.headers, &mut field);
            if let Some(seconds) = &self.max_age_s {
                field("Access-Control-Max-Age", seconds.as_bytes());
            }
        }
        self.vary(&mut field);
        if matches!(self.methods, Allowed::AsRequested) {
            field("Vary", b"Access-Control-Request-Method");
        }
        if matches!(self.headers, Allowed::AsRequested) {
            field("Vary", b"Access-Control-Request-Headers");
        }
    }

    fn allows(&self, origin: &[u8]) -> bool {
        self.origins.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(origin)))
    }

    fn allow(&self, origin: &[u8], field: &mut impl FnMut(&'static str, &[u8])) {
        let allowed = if self.names_origins() { origin } else { EVERY.as_bytes() };
        field("Access-Control-Allow-Origin", allowed);
        if self.credentials {
            field("Access-Control-Allow-Credentials", b"true");
        }
    }

    /// Sends `Vary: Origin` if responses depend on the origin: a cache must not serve the response for one origin to
    /// another origin, or to requests without one.
    fn vary(&self, field: &mut impl FnMut(&'static str, &[u8])) {
        if self.names_origins() {
            field("Vary", b"Origin");
        }
    }

    /// Whether responses contain the origin of the request instead of `*`. With credentials, browsers reject `*`.
    fn names_origins(&self) -> bool {
        self.origins.is_some() || self.credentials
    }
}

impl Allowed {
    fn write(
        &self,
        name: &'static str,
        requested: Option<&[u8]>,
        field: &mut impl FnMut(&'static str, &[u8]),
    ) {
        match (self, requested) {
            (Allowed::Listed(names), _) => field(name, names.as_bytes()),
            (Allowed::AsRequested, Some(requested)) => field(name, requested),
            (Allowed::AsRequested, None) | (Allowed::Nothing, _) => {}
        }
    }
}

impl OriginPattern {
    /// Parses an allowed origin. The error is a message.
    pub(super) fn parse(text: &str) -> Result<OriginPattern, String> {
        let lower = text.to_ascii_lowercase();
        let Some((scheme, rest)) = lower.split_once("://") else {
            return Err(format!("`{text}` is not an origin: it has no scheme"));
        };
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
        if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.bytes().all(is_letter) {
            return Err(format!("`{text}` is not an origin: unsupported scheme `{scheme}`"));
        }
        if rest.contains(['/', '?', '#', '@']) {
            return Err(format!("`{text}` is not an origin: only a host and a port may follow the scheme"));
        }
        let name = crate::host::without_port(rest);
        let port = match rest[name.len()..].strip_prefix(':') {
            None => None,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 => Some(port),
                _ => return Err(format!("`{text}` is not an origin: `{digits}` is not a port")),
            },
        };
        // Browsers omit the default port of a scheme.
        let port = match (scheme, port) {
            (_, None) | ("http", Some(80)) | ("https", Some(443)) => String::new(),
            (_, Some(port)) => format!(":{port}"),
        };
        if name == EVERY {
            return Ok(OriginPattern::EveryHost(format!("{scheme}://").into(), port.into()));
        }
        Ok(match HostPattern::parse(name)? {
            HostPattern::Exact(name) => OriginPattern::Exact(format!("{scheme}://{name}{port}").into()),
            HostPattern::Suffix(suffix) => {
                OriginPattern::Around(format!("{scheme}://").into(), format!("{suffix}{port}").into())
            }
        })
    }

    /// Whether the pattern allows every host.
    pub(super) fn has_every_host(&self) -> bool {
        matches!(self, OriginPattern::EveryHost(..))
    }

    fn matches(&self, origin: &[u8]) -> bool {
        match self {
            OriginPattern::Exact(exact) => origin.eq_ignore_ascii_case(exact.as_bytes()),
            OriginPattern::Around(before, after) => between(origin, before, after).is_some_and(are_labels),
            OriginPattern::EveryHost(before, after) => {
                between(origin, before, after).is_some_and(|host| are_labels(host) || is_address(host))
            }
        }
    }
}

/// The part of `origin` between the prefix `before` and the suffix `after`, ignoring case; `None` if one of them does
/// not match.
fn between<'o>(origin: &'o [u8], before: &str, after: &str) -> Option<&'o [u8]> {
    let length = origin.len().checked_sub(before.len() + after.len())?;
    let (start, rest) = origin.split_at(before.len());
    let (inner, end) = rest.split_at(length);
    let is_around =
        start.eq_ignore_ascii_case(before.as_bytes()) && end.eq_ignore_ascii_case(after.as_bytes());
    is_around.then_some(inner)
}

fn are_labels(text: &[u8]) -> bool {
    let is_of_label = |b: &u8| b.is_ascii_alphanumeric() || b"-_.".contains(b);
    !text.is_empty() && text.iter().all(is_of_label)
}

/// Whether `host` is an IPv6 address in brackets.
fn is_address(host: &[u8]) -> bool {
    let inner = host.strip_prefix(b"[").and_then(|host| host.strip_suffix(b"]"));
    inner.is_some_and(|inner| inner.iter().all(|b| b.is_ascii_hexdigit() || b":.".contains(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_match_by_scheme_host_and_port() {
        let check = |pattern: &str, origin: &str, expected: bool| {
            let matches = OriginPattern::parse(pattern).unwrap().matches(origin.as_bytes());
            assert_eq!(matches, expected, "{pattern} {origin}");
        };
        check("https://app.example.org", "https://app.example.org", true);
        check("HTTPS://App.Example.org:443", "https://app.example.org", true);
        check("http://a:80", "http://a", true);
        check("http://[::1]:8080", "http://[::1]:8080", true);
        check("https://app.example.org", "http://app.example.org", false);
        check("https://app.example.org", "https://app.example.org:8443", false);
        check("https://app.example.org", "https://app.example.org.evil.test", false);
        check("https://*.example.org", "https://a.example.org", true);
        check("https://*.example.org", "https://a.b.example.org", true);
        check("https://*.example.org:8443", "https://a.example.org:8443", true);
        for origin in [
            "https://example.org",
            "https://.example.org",
            "https://a.example.org:8443",
            "https://evil.test/.example.org",
            "https://evil.test:1.example.org",
            "https://u@.example.org",
            "http://a.example.org",
            "null",
            "",
        ] {
            check("https://*.example.org", origin, false);
        }
        for origin in ["https://a.test", "HTTPS://B", "https://[::1]"] {
            check("https://*", origin, true);
            check("https://*:443", origin, true);
            check("https://*:8443", origin, false);
            check("https://*:8443", &format!("{origin}:8443"), true);
            check("https://*", &format!("{origin}:8443"), false);
        }
        for origin in ["http://a.test", "https://", "https://u@a", "https://a/b", "https://[a]:1", "null", ""]
        {
            check("https://*", origin, false);
        }
    }

    #[test]
    fn rejects_invalid_origins() {
        for wrong in [
            "",
            "example.org",
            "null",
            "https://",
            "https://a/",
            "https://u@a",
            "https://a:x",
            "1://a",
            "https://a:0",
            "https://a.*.b",
            "https://*a",
            "https://*:x",
        ] {
            assert!(OriginPattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
