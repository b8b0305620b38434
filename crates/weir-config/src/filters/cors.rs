//! The CORS protocol of the Fetch standard: which pages of other origins may use a route's answers.

use super::forms::Cors;
use crate::host::HostPattern;

/// All of a kind.
pub(super) const EVERY: &str = "*";

/// What a route lets pages of other origins do, in the form that requests are answered from.
#[derive(Debug)]
pub struct CorsPolicy {
    /// `None`: every origin, told as `*`, or by its name with credentials.
    origins: Option<Box<[OriginPattern]>>,
    credentials: bool,
    methods: Leave,
    headers: Leave,
    expose: Option<Box<str>>,
    max_age_s: Option<Box<str>>,
}

/// What a preflight asks leave for.
#[derive(Clone, Copy, Debug)]
pub struct Preflight<'r> {
    /// `Origin`
    pub origin: &'r [u8],
    /// `Access-Control-Request-Method`
    pub method: &'r [u8],
    /// `Access-Control-Request-Headers`
    pub headers: Option<&'r [u8]>,
}

/// Who is allowed, in lower case.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OriginPattern {
    Exact(Box<str>),
    /// What stands before and behind the labels: `https://` and `.example.org`.
    Around(Box<str>, Box<str>),
    /// The same for every host: `https://` and `:8443`.
    EveryHost(Box<str>, Box<str>),
}

/// What is allowed beside what needs no leave.
#[derive(Debug)]
enum Leave {
    Nothing,
    /// As it stands in the answer.
    Listed(Box<str>),
    /// Whatever is asked for: with credentials, browsers take `*` for a name.
    AsAsked,
}

impl CorsPolicy {
    /// The policy of a configuration that was checked.
    pub(super) fn of(cors: &Cors) -> CorsPolicy {
        let is_every = cors.origins.iter().any(|origin| origin == EVERY);
        let patterns = cors.origins.iter().filter_map(|origin| OriginPattern::parse(origin).ok());
        let list = |names: &[String]| (!names.is_empty()).then(|| names.join(", ").into_boxed_str());
        let leave = |names: &[String]| match list(names) {
            Some(_) if cors.credentials && names.iter().any(|name| name == EVERY) => Leave::AsAsked,
            Some(names) => Leave::Listed(names),
            None => Leave::Nothing,
        };
        CorsPolicy {
            origins: (!is_every).then(|| patterns.collect()),
            credentials: cors.credentials,
            methods: leave(&cors.methods),
            headers: leave(&cors.headers),
            expose: list(&cors.expose),
            max_age_s: cors.max_age.map(|age| age.0.as_secs().to_string().into_boxed_str()),
        }
    }

    /// Hands over the fields of a response to a request from `origin`, `None` for one that names none.
    pub fn response(&self, origin: Option<&[u8]>, mut field: impl FnMut(&'static str, &[u8])) {
        if let Some(origin) = origin.filter(|origin| self.allows(origin)) {
            self.allow(origin, &mut field);
            if let Some(names) = &self.expose {
                field("Access-Control-Expose-Headers", names.as_bytes());
            }
        }
        self.vary(&mut field);
    }

    /// Hands over the fields of the answer to a preflight.
    pub fn preflight(&self, asked: &Preflight<'_>, mut field: impl FnMut(&'static str, &[u8])) {
        if self.allows(asked.origin) {
            self.allow(asked.origin, &mut field);
            self.methods.tell("Access-Control-Allow-Methods", Some(asked.method), &mut field);
            self.headers.tell("Access-Control-Allow-Headers", asked.headers, &mut field);
            if let Some(seconds) = &self.max_age_s {
                field("Access-Control-Max-Age", seconds.as_bytes());
            }
        }
        self.vary(&mut field);
        if matches!(self.methods, Leave::AsAsked) {
            field("Vary", b"Access-Control-Request-Method");
        }
        if matches!(self.headers, Leave::AsAsked) {
            field("Vary", b"Access-Control-Request-Headers");
        }
    }

    fn allows(&self, origin: &[u8]) -> bool {
        self.origins.as_ref().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(origin)))
    }

    fn allow(&self, origin: &[u8], field: &mut impl FnMut(&'static str, &[u8])) {
        let told = if self.names_origins() { origin } else { EVERY.as_bytes() };
        field("Access-Control-Allow-Origin", told);
        if self.credentials {
            field("Access-Control-Allow-Credentials", b"true");
        }
    }

    /// A cache must not hand what one origin was told to another, nor what was told to none.
    fn vary(&self, field: &mut impl FnMut(&'static str, &[u8])) {
        if self.names_origins() {
            field("Vary", b"Origin");
        }
    }

    /// Whether each origin is told by its name: with credentials, browsers take no `*`.
    fn names_origins(&self) -> bool {
        self.origins.is_some() || self.credentials
    }
}

impl Leave {
    fn tell(&self, name: &'static str, asked: Option<&[u8]>, field: &mut impl FnMut(&'static str, &[u8])) {
        match (self, asked) {
            (Leave::Listed(names), _) => field(name, names.as_bytes()),
            (Leave::AsAsked, Some(asked)) => field(name, asked),
            (Leave::AsAsked, None) | (Leave::Nothing, _) => {}
        }
    }
}

impl OriginPattern {
    /// The pattern in `text`, or what is wrong with it.
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
        // Browsers leave out the port that is the scheme's own.
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

    /// Whether pages of whatever host are let in.
    pub(super) fn has_every_host(&self) -> bool {
        matches!(self, OriginPattern::EveryHost(..))
    }

    fn matches(&self, origin: &[u8]) -> bool {
        match self {
            OriginPattern::Exact(exact) => origin.eq_ignore_ascii_case(exact.as_bytes()),
            OriginPattern::Around(before, behind) => between(origin, before, behind).is_some_and(are_labels),
            OriginPattern::EveryHost(before, behind) => {
                between(origin, before, behind).is_some_and(|host| are_labels(host) || is_address(host))
            }
        }
    }
}

/// What stands in `origin` between these two, whatever their case.
fn between<'o>(origin: &'o [u8], before: &str, behind: &str) -> Option<&'o [u8]> {
    let length = origin.len().checked_sub(before.len() + behind.len())?;
    let (start, rest) = origin.split_at(before.len());
    let (inner, end) = rest.split_at(length);
    let is_around =
        start.eq_ignore_ascii_case(before.as_bytes()) && end.eq_ignore_ascii_case(behind.as_bytes());
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
    fn what_is_no_origin_is_told() {
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
