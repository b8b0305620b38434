//! Parses the URLs of `weir load`.

use http::uri::Authority;
use weir_engine::UNIX;

use crate::failure::Failure;

const FORM: &str = "write it as http://HOST[:PORT]/PATH";
const UNIX_FORM: &str = "write it as unix:/SOCKET or unix:/SOCKET:/PATH; for TLS, put https:// before it";

/// Maximum length of the path of a Unix socket, in bytes.
const SOCKET_BYTES_MAX: usize = 107;
/// Host name in requests to a Unix socket.
const UNIX_HOST: &str = "localhost";

/// The server and the path that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// Whether the scheme is https.
    pub(super) is_secure: bool,
    /// Where to connect: `host:port`, or `unix:` and the path of a Unix socket.
    pub(super) connect: String,
    /// The host name, or the IP address without brackets.
    pub(super) host: String,
    /// The value of the Host header field, which is the authority of the URL.
    pub(super) authority: String,
    /// Path and query, starting with `/`. Templates are not changed.
    pub(super) path: String,
}

impl Target {
    /// Parses `http[s]://HOST[:PORT][/PATH][?QUERY]`, or the URL of a Unix socket.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        let wrong = |what: &str, remedy: &str| Err(Failure::wrong_use(format!("{url}: {what}"), remedy));
        if let Some((is_secure, place)) = unix(url) {
            return Self::at_unix(url, is_secure, place);
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return wrong("the URL has no scheme", &format!("write http://{}", url.trim_start_matches('/')));
        };
        let (is_secure, default_port) = match scheme {
            "http" => (false, "80"),
            "https" => (true, "443"),
            _ => return wrong(&format!("unsupported scheme `{scheme}`"), "use http:// or https://"),
        };
        // The URL is split here and not by a library, because templates in the path are not valid in a URI.
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        if authority.is_empty() {
            return wrong("the URL has no host", FORM);
        }
        if authority.contains('@') {
            return wrong(
                "user and password in a URL are not supported",
                "send them as -H 'Authorization: Basic ..'",
            );
        }
        let Ok(authority) = authority.parse::<Authority>() else {
            return wrong(&format!("`{authority}` is not a valid host"), FORM);
        };
        if authority.host().is_empty() {
            return wrong("the URL has no host", FORM);
        }
        let port = match (authority.port(), authority.as_str().rsplit_once(':')) {
            (Some(port), _) => match port.as_str().parse::<u16>() {
                Ok(1..) => port.as_str().to_owned(),
                _ => return wrong("the port is not between 1 and 65535", "correct the port"),
            },
            (None, Some((_, after))) if !after.ends_with(']') => {
                return wrong("the port is not between 1 and 65535", "correct the port");
            }
            (None, _) => default_port.to_owned(),
        };
        if path.contains('#') {
            return wrong(
                "the URL has a fragment, which is never sent to a server",
                "remove the fragment, or write %23 for `#`",
            );
        }
        // A query may follow the authority directly, but the path of a request needs a slash.
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            is_secure,
            connect: format!("{}:{port}", authority.host()),
            host: authority.host().trim_matches(['[', ']']).to_owned(),
            authority: authority.as_str().to_owned(),
            path: format!("{slash}{path}"),
        })
    }

    /// Parses `SOCKET[:/PATH][?QUERY]`, which nginx also uses in `proxy_pass http://unix:/SOCKET:/PATH`.
    fn at_unix(url: &str, is_secure: bool, place: &str) -> Result<Self, Failure> {
        let wrong = |what: &str, remedy: &str| Err(Failure::wrong_use(format!("{url}: {what}"), remedy));
        let (socket, path) = match place.find(":/") {
            Some(at) => (&place[..at], &place[at + 1..]),
            None => (place, "/"),
        };
        if !socket.starts_with('/') {
            return wrong("the path of a Unix socket must begin with `/`", UNIX_FORM);
        }
        if socket.len() > SOCKET_BYTES_MAX {
            let what = format!(
                "the socket's path has {} bytes, but the maximum is {SOCKET_BYTES_MAX}",
                socket.len()
            );
            return wrong(
                &what,
                "configure a shorter path in the server, or use a symbolic link to the socket",
            );
        }
        if socket.chars().any(char::is_control) {
            return wrong(
                "the socket's path contains a control character",
                "use a path without control characters",
            );
        }
        if socket.contains('?') {
            return wrong("the query has no path before it", "write it as unix:/SOCKET:/?QUERY");
        }
        if path.contains('#') {
            return wrong(
                "the URL has a fragment, which is never sent to a server",
                "remove the fragment, or write %23 for `#`",
            );
        }
        Ok(Self {
            is_secure,
            connect: format!("{UNIX}{socket}"),
            host: UNIX_HOST.to_owned(),
            authority: UNIX_HOST.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Parses several URLs. All of them must name the same server.
    pub(super) fn parse_all(urls: &[String]) -> Result<Vec<Self>, Failure> {
        let targets: Vec<Self> = urls.iter().map(|url| Self::parse(url)).collect::<Result<_, _>>()?;
        let place = |target: &Self| (target.is_secure, target.connect.clone());
        match (1..targets.len()).find(|&at| place(&targets[at]) != place(&targets[0])) {
            Some(at) => {
                let message = format!("{} and {} go to different servers", urls[0], urls[at]);
                Err(Failure::wrong_use(
                    message,
                    "give URLs with the same scheme, host and port, or run two loads",
                ))
            }
            None => Ok(targets),
        }
    }
}

/// Returns the text after `unix:`, and whether to use TLS. Returns `None` if the URL names a host.
fn unix(url: &str) -> Option<(bool, &str)> {
    let (is_secure, rest) = match url.split_once("://") {
        Some(("http", rest)) => (false, rest),
        Some(("https", rest)) => (true, rest),
        _ => (false, url),
    };
    rest.strip_prefix(UNIX).map(|place| (is_secure, place))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (url, connect, host, authority, path) in [
            ("http://a", "a:80", "a", "a", "/"),
            ("https://a", "a:443", "a", "a", "/"),
            ("http://a.example:8080/x/y?z=1", "a.example:8080", "a.example", "a.example:8080", "/x/y?z=1"),
            ("http://[::1]:90/", "[::1]:90", "::1", "[::1]:90", "/"),
            ("https://[::1]", "[::1]:443", "::1", "[::1]", "/"),
            ("http://a?q", "a:80", "a", "a", "/?q"),
            ("http://a/get/{1..50}?d={domain}", "a:80", "a", "a", "/get/{1..50}?d={domain}"),
        ] {
            let expected = Target {
                is_secure: url.starts_with("https"),
                connect: connect.into(),
                host: host.into(),
                authority: authority.into(),
                path: path.into(),
            };
            assert_eq!(Target::parse(url).unwrap(), expected);
        }
    }

    #[test]
    fn unix_sockets_and_request_paths_are_separated() {
        for (url, socket, path) in [
            ("unix:/run/app.sock", "/run/app.sock", "/"),
            ("unix:/run/app.sock:/api/{1..50}?a=b:/c", "/run/app.sock", "/api/{1..50}?a=b:/c"),
            ("http://unix:/run/app.sock:/", "/run/app.sock", "/"),
            ("https://unix:/run/app:1.sock:/x", "/run/app:1.sock", "/x"),
        ] {
            let expected = Target {
                is_secure: url.starts_with("https"),
                connect: format!("unix:{socket}"),
                host: "localhost".into(),
                authority: "localhost".into(),
                path: path.into(),
            };
            assert_eq!(Target::parse(url).unwrap(), expected);
        }
        let long = format!("unix:/{}", "x".repeat(107));
        for (url, said) in [
            ("unix:", "begin with `/`"),
            ("unix:run/app.sock", "begin with `/`"),
            ("unix:/run/app.sock?q", "query"),
            ("unix:/run/app.sock:/x#y", "fragment"),
            ("https://unix:app.sock", "begin with `/`"),
            ("unix:/a\nb", "control character"),
            (&long, "108 bytes"),
        ] {
            let failure = Target::parse(url).unwrap_err();
            assert!(
                failure.problem.message.starts_with(url) && failure.problem.message.contains(said),
                "{}",
                failure.problem.message
            );
            assert!(!failure.problem.remedy.is_empty());
        }
    }

    #[test]
    fn invalid_urls_have_a_remedy() {
        for (url, said) in [
            ("localhost:8080", "no scheme"),
            ("", "no scheme"),
            ("ftp://a/", "scheme"),
            ("http://", ""),
            ("http://:80/", ""),
            ("http://a:0/", "port"),
            ("https://a:99999/", "port"),
            ("http://a:x/", ""),
            ("http://a b/", ""),
            ("http://u:p@a/", "user"),
            ("http://a/#b", "fragment"),
        ] {
            let failure = Target::parse(url).unwrap_err();
            assert!(
                failure.problem.message.starts_with(url) && failure.problem.message.contains(said),
                "{}",
                failure.problem.message
            );
            assert!(!failure.problem.remedy.is_empty());
        }
    }

    #[test]
    fn several_urls_must_have_one_server() {
        let parse =
            |urls: &[&str]| Target::parse_all(&urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>());
        assert_eq!(parse(&["http://a/x", "http://a:80/y"]).unwrap().len(), 2);
        for other in ["https://a/x", "http://b/x", "http://a:81/x"] {
            assert!(parse(&["http://a/x", other]).unwrap_err().problem.message.contains("different servers"));
        }
    }
}
