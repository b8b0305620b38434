//! `weir-gateway explain`: shows what the gateway does with a request.

use std::path::PathBuf;

use weir_config::{Listener, ListenerId, Table, host_and_port};
use weir_control::FileSource;
use weir_document::Problem;

use crate::{Failure, print};

/// Arguments of `explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Configuration: a YAML or JSON file, or a directory of such files
    path: PathBuf,
    /// Request method, for example GET
    method: String,
    /// Request URL: http://HOST/PATH?QUERY, or only the path if -H 'Host: HOST' is set. For the method CONNECT, write
    /// HOST:PORT
    url: String,
    /// Request header; can be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// Listener that receives the request: its name, or its address if it has no name
    ///
    /// Default: the listener that matches the scheme and port of the URL. Required if several listeners match and their
    /// routes differ. With this option, TLS depends on the listener, not on the scheme of the URL.
    #[arg(long, value_name = "LISTENER")]
    listener: Option<String>,
}

/// Prints what the gateway does with the request.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let table =
        FileSource::new(&arguments.path).load().map_err(|error| Failure::Configuration(error.lines()))?;
    let request = request(&arguments.method, &arguments.url, &arguments.headers).map_err(Failure::Command)?;
    let listener = listener_of(&table, arguments).map_err(Failure::Command)?;
    let scope = listener.map(|(id, _)| table.scope(id)).unwrap_or_default();
    let is_secure = match (&arguments.listener, listener) {
        (Some(_), Some((_, listener))) => listener.tls.is_some(),
        _ => is_https(&arguments.url),
    };
    match weir_dataplane::explain(&table, request.as_bytes(), scope, is_secure) {
        Some(explanation) => {
            print(explanation.to_string().trim_end());
            Ok(())
        }
        None => Err(Failure::Command(Problem::new(
            "the request headers contain an empty line",
            "write each header as -H 'NAME: VALUE'",
        ))),
    }
}

/// The request headers as a client would send them.
fn request(method: &str, url: &str, headers: &[String]) -> Result<String, Problem<()>> {
    if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::new(
            format!("invalid method `{}`", method.escape_debug()),
            "use a method such as GET",
        ));
    }
    if let Some(wrong) = url.chars().find(|c| !c.is_ascii_graphic()) {
        let message = format!("the URL contains `{}`, which must be percent-encoded", wrong.escape_debug());
        return Err(Problem::new(message, "write a space as %20, for example"));
    }
    if url.contains('#') {
        return Err(Problem::new(
            "the URL contains a fragment, which clients do not send",
            "remove `#` and the text after it",
        ));
    }
    if let Some(scheme) = foreign_scheme(url) {
        return Err(Problem::new(format!("unsupported URL scheme `{scheme}`"), "use http:// or https://"));
    }
    let (authority, target) = match method {
        "CONNECT" => tunnel(url),
        _ => {
            let (authority, target) = parts(url);
            (authority.to_owned(), target)
        }
    };
    let is_host =
        |header: &&String| header.split(':').next().is_some_and(|name| name.eq_ignore_ascii_case("host"));
    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    match (authority.as_str(), headers.iter().find(is_host)) {
        (_, Some(_)) => {}
        ("", None) => {
            return Err(Problem::new(
                "the request has no host",
                "write http://HOST/PATH, or add -H 'Host: HOST'",
            ));
        }
        (authority, None) => head += &format!("Host: {authority}\r\n"),
    }
    for header in headers {
        if !header.contains(':') || header.contains(['\r', '\n']) {
            let message = format!("invalid header `{}`", header.escape_debug());
            return Err(Problem::new(message, "write -H 'NAME: VALUE'"));
        }
        head += &format!("{header}\r\n");
    }
    Ok(head + "\r\n")
}

/// The scheme of a URL, if it is neither `http` nor `https`.
fn foreign_scheme(url: &str) -> Option<&str> {
    let (scheme, _) = url.split_once("://")?;
    let is_scheme = scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    let is_known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    (is_scheme && !is_known).then_some(scheme)
}

/// The authority and the target of a CONNECT request, both with a port. If the URL has no host, the authority is empty;
/// otherwise both are equal.
fn tunnel(url: &str) -> (String, String) {
    let (authority, target) = parts(url);
    match host_and_port(authority) {
        ("", _) => (String::new(), target),
        (_, Some(_)) => (authority.to_owned(), authority.to_owned()),
        (host, None) => {
            let authority = format!("{host}:{}", default_port(url));
            (authority.clone(), authority)
        }
    }
}

/// The default port of the URL's scheme.
fn default_port(url: &str) -> u16 {
    if is_https(url) { 443 } else { 80 }
}

fn is_https(url: &str) -> bool {
    url.get(..8).is_some_and(|start| start.eq_ignore_ascii_case("https://"))
}

/// A listener of the configuration, with its ID in the table.
type Known<'t> = (ListenerId, &'t Listener);

/// The listener that receives the request: the one that `--listener` names, or one that matches the URL. `None` if
/// there are no listeners.
fn listener_of<'t>(table: &'t Table, arguments: &Arguments) -> Result<Option<Known<'t>>, Problem<()>> {
    let all: Vec<Known<'t>> = table.listener_ids().into_iter().zip(table.listeners.iter()).collect();
    let Some(name) = &arguments.listener else { return by_url(table, all, &arguments.url) };
    let found = all.iter().find(|(_, listener)| listener.label() == name.as_str());
    let unknown =
        || Problem::new(format!("unknown listener `{name}`"), format!("the listeners are: {}", names(&all)));
    found.copied().map(Some).ok_or_else(unknown)
}

/// The first listener that matches the URL's scheme and port. Ignores the scheme or the port if no listener matches it.
/// Fails if several listeners match and their routes differ.
fn by_url<'t>(table: &Table, all: Vec<Known<'t>>, url: &str) -> Result<Option<Known<'t>>, Problem<()>> {
    let is_secure = is_https(url);
    let port = host_and_port(parts(url).0).1.unwrap_or(default_port(url));
    let speaking = only(all, |listener| listener.tls.is_some() == is_secure);
    let candidates = only(speaking, |listener| listener.address.port() == port);
    let mut scopes = candidates.iter().map(|(id, _)| table.scope(*id));
    let first = scopes.next();
    if scopes.all(|scope| Some(scope) == first) {
        return Ok(candidates.first().copied());
    }
    let message = "several listeners match this URL, and their routes differ";
    Err(Problem::new(message, format!("choose one with --listener: {}", names(&candidates))))
}

/// The listeners for which `holds` is true. If there are none, all listeners.
fn only<'t>(all: Vec<Known<'t>>, holds: impl Fn(&Listener) -> bool) -> Vec<Known<'t>> {
    let some: Vec<Known<'t>> = all.iter().copied().filter(|(_, listener)| holds(listener)).collect();
    if some.is_empty() { all } else { some }
}

fn names(listeners: &[Known<'_>]) -> String {
    let names: Vec<String> =
        listeners.iter().map(|(_, listener)| format!("`{}`", listener.label())).collect();
    names.join(", ")
}

/// The authority of a URL, which may be empty, and its target.
fn parts(url: &str) -> (&str, String) {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        let (start, rest) = url.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let rest = rest.unwrap_or(url);
    if rest == "*" {
        return ("", rest.to_owned());
    }
    let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let slash = if target.starts_with('/') { "" } else { "/" };
    (authority, format!("{slash}{target}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_becomes_what_a_client_sends() {
        let check = |url: &str, headers: &[&str], expected: &str| {
            let headers: Vec<String> = headers.iter().map(|header| (*header).to_owned()).collect();
            assert_eq!(request("GET", url, &headers).unwrap(), expected, "{url}");
        };
        check("http://a.test:80/b?c", &["X: y"], "GET /b?c HTTP/1.1\r\nHost: a.test:80\r\nX: y\r\n\r\n");
        check("HTTPS://a.test", &[], "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        check("a.test?b", &[], "GET /?b HTTP/1.1\r\nHost: a.test\r\n\r\n");
        check("/b", &["host: a"], "GET /b HTTP/1.1\r\nhost: a\r\n\r\n");
        check("http://a.test/b", &["Host: c"], "GET /b HTTP/1.1\r\nHost: c\r\n\r\n");
        check("a.test/http://b", &[], "GET /http://b HTTP/1.1\r\nHost: a.test\r\n\r\n");
        check("*", &["Host: c"], "GET * HTTP/1.1\r\nHost: c\r\n\r\n");
    }

    #[test]
    fn connect_asks_for_an_authority() {
        let check = |url: &str, expected: &str| assert_eq!(request("CONNECT", url, &[]).unwrap(), expected);
        check("a.test:443", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n");
        check("https://a.test/", "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n");
        check("[::1]", "CONNECT [::1]:80 HTTP/1.1\r\nHost: [::1]:80\r\n\r\n");
    }

    #[test]
    fn invalid_requests_are_rejected() {
        let check = |method: &str, url: &str, header: &str, message: &str| {
            assert_eq!(request(method, url, &[header.to_owned()]).unwrap_err().message, message);
        };
        check("G T", "a", "X: y", "invalid method `G T`");
        check("GET", "a/b c", "X: y", "the URL contains ` `, which must be percent-encoded");
        check("GET", "a/ä", "X: y", "the URL contains `ä`, which must be percent-encoded");
        check("GET", "a#b", "X: y", "the URL contains a fragment, which clients do not send");
        check("GET", "/b", "X: y", "the request has no host");
        check("GET", "ftp://a/b", "X: y", "unsupported URL scheme `ftp`");
        check("GET", "ws://a/b", "X: y", "unsupported URL scheme `ws`");
        check("GET", "a", "X", "invalid header `X`");
        check("GET", "a", "X: y\r\nZ: y", "invalid header `X: y\\r\\nZ: y`");
    }
}
