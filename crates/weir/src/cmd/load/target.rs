//! The URL of a load, taken apart.

use http::Uri;

use crate::failure::Failure;

/// Where requests go and what they say about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// `host:port` to connect to.
    pub(super) connect: String,
    /// The value of Host: the URL's authority.
    pub(super) host: String,
    /// Path and query, from `/` on.
    pub(super) path: String,
}

impl Target {
    /// Reads `http://HOST[:PORT][/PATH][?QUERY]`.
    pub(super) fn parse(url: &str) -> Result<Self, Failure> {
        let wrong = |what: &str, remedy: &str| Err(Failure::wrong_use(format!("{url}: {what}"), remedy));
        if !url.contains("://") {
            return wrong("the URL has no scheme", &format!("write http://{}", url.trim_start_matches('/')));
        }
        if url.ends_with("://") {
            return wrong("the URL has no host", "write it as http://HOST[:PORT]/PATH");
        }
        let uri: Uri = match url.parse() {
            Ok(uri) => uri,
            Err(error) => return wrong(&error.to_string(), "write it as http://HOST[:PORT]/PATH"),
        };
        match uri.scheme_str() {
            Some("http") => {}
            Some("https") => return wrong("TLS is not yet served", "use http://"),
            _ => return wrong("the scheme is not served", "use http://"),
        }
        let Some(authority) = uri.authority() else {
            return wrong("the URL has no host", "write it as http://HOST[:PORT]/PATH");
        };
        if authority.as_str().contains('@') {
            return wrong("a user in the URL is not sent", "give it as -H 'Authorization: ..'");
        }
        if authority.host().is_empty() {
            return wrong("the URL has no host", "write it as http://HOST[:PORT]/PATH");
        }
        let port = match (authority.port(), authority.as_str().rsplit_once(':')) {
            (Some(port), _) => match port.as_str().parse::<u16>() {
                Ok(1..) => port.as_str().to_owned(),
                _ => return wrong("the port is not between 1 and 65535", "correct the port"),
            },
            (None, Some((_, after))) if !after.ends_with(']') => {
                return wrong("the port is not between 1 and 65535", "correct the port");
            }
            (None, _) => "80".to_owned(),
        };
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        // A query may follow the authority at once; a request target needs the slash.
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Self {
            connect: format!("{}:{port}", authority.host()),
            host: authority.as_str().to_owned(),
            path: format!("{slash}{path}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (url, connect, host, path) in [
            ("http://a", "a:80", "a", "/"),
            ("http://a.example:8080/x/y?z=1", "a.example:8080", "a.example:8080", "/x/y?z=1"),
            ("http://[::1]:90/", "[::1]:90", "[::1]:90", "/"),
            ("http://[::1]", "[::1]:80", "[::1]", "/"),
            ("http://a?q", "a:80", "a", "/?q"),
        ] {
            let target = Target::parse(url).unwrap();
            assert_eq!(
                (target.connect.as_str(), target.host.as_str(), target.path.as_str()),
                (connect, host, path)
            );
        }
    }

    #[test]
    fn wrong_urls_are_named_with_a_way_out() {
        for (url, said) in [
            ("localhost:8080", "no scheme"),
            ("", "no scheme"),
            ("https://a/", "TLS is not yet served"),
            ("ftp://a/", "scheme"),
            ("http://", ""),
            ("http://:80/", ""),
            ("http://a:0/", "port"),
            ("http://a:99999/", "port"),
            ("http://a:x/", ""),
            ("http://a b/", ""),
            ("http://u:p@a/", "user"),
        ] {
            let failure = Target::parse(url).unwrap_err();
            assert!(
                failure.message.starts_with(url) && failure.message.contains(said),
                "{}",
                failure.message
            );
            assert!(!failure.remedy.is_empty());
        }
    }
}
