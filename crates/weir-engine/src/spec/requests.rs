//! Validates requests, without reading their files.

use weir_document::Size;

use super::bounds::{CHECKED_FIELDS_MAX, REQUESTS_MAX, ROUTE_NAME_BYTES_MAX, TOKEN_FIELD};
use super::{Body, ChecksSpec, LoadSpec, RequestSpec, invalid, out_of_range};
use crate::EngineError;
use crate::error::not_base64;
use crate::request::template::{Piece, Position, parse};
use crate::request::{LINES_BYTES_MAX, LINES_MAX};

/// Maximum length of a text that a response body must contain, in bytes.
const CHECKED_TEXT_BYTES_MAX: usize = 64 * 1024;
/// Maximum length of a domain name (RFC 1035, 2.3.4).
const DOMAIN_BYTES_MAX: usize = 253;

impl LoadSpec {
    pub(super) fn validate_requests(&self) -> Result<(), EngineError> {
        if self.requests.is_empty() && self.request_file.is_none() {
            return invalid("requests", "the load has no requests", "add at least one");
        }
        if self.requests.len() > REQUESTS_MAX {
            return invalid(
                "requests",
                "the load has too many requests",
                format!("use at most {REQUESTS_MAX}"),
            );
        }
        validate_list("domains", &self.domains)?;
        validate_list("tokens", &self.tokens)?;
        self.domains.iter().try_for_each(|domain| validate_domain(domain))?;
        self.validate_domain_weights()?;
        self.tokens.iter().zip(1..).try_for_each(|(token, number)| validate_token(token, number))?;
        // The requests of a file are validated when the file is read.
        let base = self.request_file.iter().map(|file| &file.base);
        self.requests.iter().chain(base).try_for_each(|request| {
            request.validate()?;
            self.validate_together(request)
        })
    }

    fn validate_domain_weights(&self) -> Result<(), EngineError> {
        let (weights, domains) = (self.domain_weights.len(), self.domains.len());
        if weights > 0 && weights != domains {
            return invalid(
                "domain_weights",
                format!("{weights} weights for {domains} domains"),
                "use one weight per domain",
            );
        }
        match self.domain_weights.iter().find(|weight| !(**weight > 0.0 && weight.is_finite())) {
            Some(weight) => out_of_range("domain_weights", weight, "use a number above 0"),
            None => Ok(()),
        }
    }

    /// Checks that a request fits the rest of the load: it has no `Authorization` header if the load has tokens,
    /// and no `{domain}` if the load has no domains.
    pub(crate) fn validate_together(&self, request: &RequestSpec) -> Result<(), EngineError> {
        let has_field =
            |name: &str| request.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        if !self.tokens.is_empty() && has_field(TOKEN_FIELD) {
            let message = format!("the request already has the header `{TOKEN_FIELD}`");
            return invalid("tokens", message, "remove this header, or remove the tokens");
        }
        if !self.domains.is_empty() {
            return Ok(());
        }
        for (text, position) in request.templates() {
            if pieces(text, position)?.contains(&Piece::Domain) {
                return invalid(
                    "domains",
                    format!("`{{domain}}` in `{text}` needs at least one domain"),
                    "add domains, or remove the placeholder",
                );
            }
        }
        Ok(())
    }
}

impl RequestSpec {
    /// Validates everything about a request that does not depend on the rest of the load.
    pub(crate) fn validate(&self) -> Result<(), EngineError> {
        if self.method.is_empty() || !self.method.bytes().all(is_token_byte) {
            return invalid(
                "method",
                format!("`{}` is not a method", self.method),
                "use a method like GET or POST",
            );
        }
        if self.method == "CONNECT" {
            return invalid(
                "method",
                "CONNECT opens a tunnel, which weir cannot measure",
                "use another method",
            );
        }
        if !self.path.starts_with('/') && self.path != "*" {
            return invalid(
                "path",
                format!("`{}` does not start with a slash", self.path),
                "use a path like /ping",
            );
        }
        self.headers.iter().try_for_each(|(name, value)| validate_field(name, value))?;
        if self.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count() > 1 {
            return invalid("header", "duplicate `Host` header", "remove one of the two");
        }
        for (text, position) in self.templates() {
            for piece in pieces(text, position)? {
                if let (Piece::Literal(literal), Position::Path) = (piece, position)
                    && let Some(fault) = position.fault(literal.as_bytes())
                {
                    return invalid("path", format!("`{text}` contains {fault}"), "percent-encode it");
                }
            }
        }
        if let Body::Base64(text) = &self.body {
            use base64::Engine as _;
            if let Err(error) = base64::engine::general_purpose::STANDARD.decode(text) {
                return Err(not_base64(&error));
            }
        }
        self.validate_results()
    }

    /// Validates the route name, the weight and the checks of responses.
    fn validate_results(&self) -> Result<(), EngineError> {
        if let Some(name) = &self.name {
            if name.is_empty() || name.len() > ROUTE_NAME_BYTES_MAX {
                return invalid(
                    "name",
                    "the name is empty or too long",
                    format!("use 1 to {ROUTE_NAME_BYTES_MAX} bytes"),
                );
            }
            if name.chars().any(char::is_control) {
                return invalid(
                    "name",
                    format!("`{}` contains a control character", name.escape_debug()),
                    "remove the control character",
                );
            }
        }
        if !(self.weight > 0.0 && self.weight.is_finite()) {
            return out_of_range("weight", self.weight, "use a number above 0");
        }
        self.checks.validate(self.method == "HEAD")
    }

    /// Returns all texts of the request that may contain placeholders.
    fn templates(&self) -> impl Iterator<Item = (&str, Position)> {
        let body = match &self.body {
            Body::Text(text) => Some((text.as_str(), Position::Body)),
            Body::Base64(_) => None,
        };
        let values = self.headers.iter().map(|(_, value)| (value.as_str(), Position::Value));
        std::iter::once((self.path.as_str(), Position::Path)).chain(values).chain(body)
    }
}

impl ChecksSpec {
    fn validate(&self, is_head: bool) -> Result<(), EngineError> {
        let headers = &self.headers.0;
        if headers.len() > CHECKED_FIELDS_MAX {
            return invalid(
                "check",
                format!("the check has {} headers", headers.len()),
                format!("use at most {CHECKED_FIELDS_MAX}"),
            );
        }
        if let Some((wrong, _)) = headers.iter().find(|(name, _)| !is_name(name)) {
            return invalid("check", format!("invalid header name `{wrong}`"), "use a name like X-Version");
        }
        match self.body.as_deref().map(str::len) {
            Some(0) => {
                return invalid(
                    "check",
                    "the text to find in the body is empty",
                    "use a text of at least 1 byte",
                );
            }
            Some(bytes) if bytes > CHECKED_TEXT_BYTES_MAX => {
                return invalid(
                    "check",
                    "the text to find in the body is too long",
                    format!("use at most {CHECKED_TEXT_BYTES_MAX} bytes"),
                );
            }
            _ => {}
        }
        if is_head && (self.body.is_some() || self.length.is_some_and(|Size(bytes)| bytes > 0)) {
            return invalid("check", "a response to HEAD has no body", "remove the check of the body");
        }
        Ok(())
    }
}

fn validate_list(field: &'static str, texts: &[String]) -> Result<(), EngineError> {
    if texts.len() > LINES_MAX {
        return invalid(
            field,
            format!("the list has {} entries", texts.len()),
            format!("use at most {LINES_MAX}"),
        );
    }
    if texts.iter().map(String::len).sum::<usize>() > LINES_BYTES_MAX {
        return invalid(
            field,
            format!("the list is larger than {} MiB", LINES_BYTES_MAX >> 20),
            "use fewer or shorter entries",
        );
    }
    Ok(())
}

fn validate_domain(domain: &str) -> Result<(), EngineError> {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    if domain.len() > DOMAIN_BYTES_MAX || !domain.split('.').all(is_label) {
        return invalid("domains", format!("`{domain}` is not a host name"), "use a name like a.example");
    }
    Ok(())
}

/// Validates a bearer token. Errors show its position in the list, from 1, because the token is a secret.
fn validate_token(token: &str, number: usize) -> Result<(), EngineError> {
    if token.is_empty() || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        let message = format!("token {number} is empty, or contains white space or a byte that is not ASCII");
        return invalid("tokens", message, "correct the token");
    }
    Ok(())
}

fn validate_field(name: &str, value: &str) -> Result<(), EngineError> {
    if !is_name(name) {
        return invalid("header", format!("invalid header name `{name}`"), "use a name like X-Version");
    }
    if let Some(fault) = Position::Value.fault(value.as_bytes()) {
        return invalid(
            "header",
            format!("the value of `{name}` contains {fault}"),
            "remove the control character",
        );
    }
    for owned in ["content-length", "transfer-encoding"] {
        if name.eq_ignore_ascii_case(owned) {
            return invalid("header", format!("weir sets `{name}` from the body"), "remove the header");
        }
    }
    Ok(())
}

fn pieces(text: &str, position: Position) -> Result<Vec<Piece<'_>>, EngineError> {
    parse(text, position).map_err(|problem| EngineError::Invalid(problem.at(position.field())))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token_byte)
}

/// Whether a byte is allowed in a token (RFC 9110, 5.6.2), such as a method or a header name.
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> LoadSpec {
        let request = RequestSpec {
            path: "/a?b={1..5}".into(),
            headers: vec![("Host".into(), "{domain}".into())],
            ..RequestSpec::default()
        };
        LoadSpec {
            connect: "127.0.0.1:80".into(),
            requests: vec![request],
            domains: vec!["a.example".into(), "xn--bcher-kva.example".into()],
            tokens: vec!["eyJ0.e30.x_-~+/==".into()],
            ..LoadSpec::default()
        }
    }

    /// Changes a valid load, and checks the error that validation then returns.
    #[track_caller]
    fn check(change: impl FnOnce(&mut LoadSpec), expected: &str) {
        let mut spec = good();
        spec.validate().unwrap();
        change(&mut spec);
        let error = spec.validate().unwrap_err();
        assert_eq!(format!("{error} | {}", error.remedy()), expected);
    }

    /// Changes the first request of a valid load, and checks the error that validation then returns.
    #[track_caller]
    fn check_request(change: impl FnOnce(&mut RequestSpec), expected: &str) {
        check(|spec| change(&mut spec.requests[0]), expected);
    }

    #[test]
    fn errors_of_requests_name_the_reason() {
        check_request(
            |request| request.path = "/{sec}".into(),
            "path: unknown placeholder `{sec}` | did you mean `{seq}`?",
        );
        check_request(
            |request| request.path = "/{seq}/\u{e9}".into(),
            "path: `/{seq}/\u{e9}` contains a byte that must be percent-encoded | percent-encode it",
        );
        check_request(
            |request| request.path = "{seq}".into(),
            "path: `{seq}` does not start with a slash | use a path like /ping",
        );
        check_request(
            |request| request.headers.push(("X".into(), "{9..1}".into())),
            "header: the range `{9..1}` ends before it starts | use `{1..9}`",
        );
        check_request(
            |request| request.headers.push(("host".into(), "b".into())),
            "header: duplicate `Host` header | remove one of the two",
        );
        check_request(
            |request| request.headers.push(("X".into(), "a\nb".into())),
            "header: the value of `X` contains a control character | remove the control character",
        );
        check_request(
            |request| request.body = Body::Text("{\"a\": {pick:}}".into()),
            "body: `{pick:}` has no file name | use `{pick:FILE}`",
        );
        check_request(
            |request| request.body = Body::Base64("a?".into()),
            "body: the body is not base64: Invalid symbol 63, offset 1. | encode the body as base64, or give it as text",
        );
        check_request(
            |request| request.name = Some(String::new()),
            "name: the name is empty or too long | use 1 to 200 bytes",
        );
        check_request(
            |request| request.name = Some("a\tb".into()),
            "name: `a\\tb` contains a control character | remove the control character",
        );
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let expected = format!("weight: `{weight}` is out of range | use a number above 0");
            check_request(|request| request.weight = weight, &expected);
        }
        check(|spec| spec.requests.clear(), "requests: the load has no requests | add at least one");
        check(
            |spec| spec.requests = vec![spec.requests[0].clone(); REQUESTS_MAX + 1],
            "requests: the load has too many requests | use at most 1000000",
        );
    }

    #[test]
    fn errors_of_checks_name_the_reason() {
        let check = |change: fn(&mut ChecksSpec), expected: &str| {
            check_request(|request| change(&mut request.checks), expected);
        };
        check(
            |checks| checks.headers.0 = vec![("a:".into(), String::new())],
            "check: invalid header name `a:` | use a name like X-Version",
        );
        check(
            |checks| checks.headers.0 = vec![("a".into(), String::new()); 65],
            "check: the check has 65 headers | use at most 64",
        );
        check(
            |checks| checks.body = Some(String::new()),
            "check: the text to find in the body is empty | use a text of at least 1 byte",
        );
        check(
            |checks| checks.body = Some("x".repeat(65_537)),
            "check: the text to find in the body is too long | use at most 65536 bytes",
        );
        check_request(
            |request| {
                request.method = "HEAD".into();
                request.checks.length = Some(Size(5));
            },
            "check: a response to HEAD has no body | remove the check of the body",
        );
    }

    #[test]
    fn domains_and_tokens_must_fit_the_requests() {
        check(
            |spec| spec.domains.clear(),
            "domains: `{domain}` in `{domain}` needs at least one domain | add domains, or remove the placeholder",
        );
        for wrong in ["", "a b", "a..b", ".a", "a/b", "a:80", "{seq}", &"a".repeat(254)] {
            let expected = format!("domains: `{wrong}` is not a host name | use a name like a.example");
            check(|spec| spec.domains.push(wrong.into()), &expected);
        }
        for wrong in ["", "a b", "a\r\nX: y", "\u{e9}"] {
            check(
                |spec| spec.tokens.push(wrong.into()),
                "tokens: token 2 is empty, or contains white space or a byte that is not ASCII | correct the token",
            );
        }
        check(
            |spec| spec.requests[0].headers.push(("authorization".into(), "Basic x".into())),
            "tokens: the request already has the header `Authorization` | remove this header, or remove the tokens",
        );
        check(
            |spec| spec.tokens = vec!["a".into(); LINES_MAX + 1],
            "tokens: the list has 1000001 entries | use at most 1000000",
        );
        check(
            |spec| spec.domain_weights = vec![1.0; 3],
            "domain_weights: 3 weights for 2 domains | use one weight per domain",
        );
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let expected = format!("domain_weights: `{wrong}` is out of range | use a number above 0");
            check(|spec| spec.domain_weights = vec![1.0, wrong], &expected);
        }
        check(
            |spec| spec.tokens = vec!["a".repeat(LINES_BYTES_MAX), "b".into()],
            "tokens: the list is larger than 64 MiB | use fewer or shorter entries",
        );
    }
}
