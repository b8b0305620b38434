//! An oracle for routes and paths: a straightforward, slow implementation of the rules.

use std::cmp::Reverse;

use weir_config::{EscapedSlashes, OneOrMany, PathParameters, PathRules, Route, ValueMatch};

use crate::draw::{Drawn, PATH_PATTERNS, VALUE_PATTERNS};

/// The result of path normalization.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Becomes {
    /// The path that routes match, and the path that upstreams get.
    Path {
        matched: String,
        sent: String,
    },
    Refused,
    Led(String),
}

/// How specific a route is for a request; the largest rank wins. The parts, in order: kind of host (exact, wildcard,
/// every) and its length; kind of path (exact, prefix, regular expression, the prefix `/`) and its length; whether it
/// requires a method; number of headers; number of query parameters; position in the file, the first wins.
type Rank = ((u8, usize), (u8, usize), bool, usize, usize, Reverse<usize>);

/// The number of the route that matches a request with this normal path, and the length of the matched part in bytes.
pub(crate) fn find(routes: &[(usize, Route)], request: &Drawn, path: &str) -> Option<(usize, usize)> {
    let ranked = routes.iter().filter_map(|(number, route)| rank(*number, route, request, path));
    ranked.max_by_key(|(rank, _)| *rank).map(|((.., Reverse(number)), matched)| (number, matched))
}

fn rank(number: usize, route: &Route, request: &Drawn, path: &str) -> Option<(Rank, usize)> {
    let host = request.host.split(':').next()?.to_lowercase();
    let by_host = match route.hosts.is_empty() {
        true => (0, 0),
        false => route.hosts.iter().filter_map(|pattern| host_rank(pattern, &host)).max()?,
    };
    let (by_path, matched) = path_rank(route, path)?;
    let is_met = (route.methods.is_empty() || route.methods.iter().any(|method| method == request.method))
        && route.headers.iter().all(|(name, wanted)| is_value(wanted, header(request, name)))
        && route.query.iter().all(|(name, wanted)| is_value(wanted, parameter(request, name)));
    let conditions = (!route.methods.is_empty(), route.headers.len(), route.query.len());
    let rank = (by_host, by_path, conditions.0, conditions.1, conditions.2, Reverse(number));
    is_met.then_some((rank, matched))
}

fn host_rank(pattern: &str, host: &str) -> Option<(u8, usize)> {
    match pattern.strip_prefix('*') {
        None => (pattern == host).then_some((2, host.len())),
        Some(suffix) => (host.ends_with(suffix) && host.len() > suffix.len()).then_some((1, suffix.len())),
    }
}

fn path_rank(route: &Route, path: &str) -> Option<((u8, usize), usize)> {
    if let Some(exact) = &route.exact {
        return exact.as_slice().iter().any(|e| e == path).then_some(((3, path.len()), path.len()));
    }
    if let Some(regex) = &route.regex {
        let (text, means) = PATH_PATTERNS.into_iter().find(|(text, _)| text == regex)?;
        return means(path).then_some(((1, text.len()), path.len()));
    }
    let prefix = route.path.as_deref()?;
    let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
    let rest = path.strip_prefix(prefix)?;
    let class = if prefix.is_empty() { 0 } else { 2 };
    (rest.is_empty() || rest.starts_with('/')).then_some(((class, prefix.len()), prefix.len()))
}

fn is_value(wanted: &ValueMatch, value: Option<String>) -> bool {
    let Some(value) = value else { return false };
    match wanted {
        ValueMatch::Value(exact) | ValueMatch::Exact { exact } => *exact == value,
        ValueMatch::Present { .. } => true,
        ValueMatch::Regex { regex } => {
            VALUE_PATTERNS.into_iter().any(|(text, means)| text == regex && means(&value))
        }
    }
}

fn header(request: &Drawn, name: &str) -> Option<String> {
    let fields = request.fields.iter();
    let values: Vec<&str> =
        fields.filter(|(n, _)| n.to_lowercase() == name.to_lowercase()).map(|(_, value)| *value).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn parameter(request: &Drawn, name: &str) -> Option<String> {
    let (_, query) = request.target.split_once('?')?;
    let pairs = query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    let decoded = |text: &str| text.replace("%20", " ").replace("%70", "p").replace('+', " ");
    pairs.map(|(key, value)| (decoded(key), decoded(value))).find(|(key, _)| key == name).map(|(_, v)| v)
}

/// A character of a path: plain, or one that normalization leaves percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Letter {
    Plain(char),
    Escaped(u8),
}

/// Normalizes the path of a request.
pub(crate) fn normal(path: &str, rules: &PathRules) -> Becomes {
    let Some(mut letters) = letters(path) else { return Becomes::Refused };
    let is_hidden_slash =
        |letter: &Letter| matches!(letter, Letter::Escaped(b'/' | b'\\') | Letter::Plain('\\'));
    let has_hidden_slash = letters.iter().any(is_hidden_slash);
    let is_led = rules.escaped_slashes == EscapedSlashes::Redirect && has_hidden_slash;
    if letters.first() != Some(&Letter::Plain('/'))
        || letters.contains(&Letter::Escaped(0))
        || (rules.escaped_slashes == EscapedSlashes::Reject && has_hidden_slash)
    {
        return Becomes::Refused;
    }
    if is_led {
        for letter in letters.iter_mut().filter(|letter| is_hidden_slash(letter)) {
            *letter = Letter::Plain('/');
        }
    }
    let segments: Vec<&[Letter]> = letters[1..].split(|letter| *letter == Letter::Plain('/')).collect();
    let hides = |segment: &&[Letter]| {
        segment.iter().any(is_hidden_slash) && segment.split(is_hidden_slash).any(|piece| dots(piece) > 0)
    };
    if segments.iter().any(hides) {
        return Becomes::Refused;
    }
    let kept = resolved(&segments, rules.merge_slashes);
    let path = text(&kept);
    if is_led {
        let names_a_host = path.starts_with("//");
        return Becomes::Led(if names_a_host { format!("/.{path}") } else { path });
    }
    let is_semicolon = |letter: &Letter| matches!(letter, Letter::Plain(';') | Letter::Escaped(b';'));
    let has_parameters = kept.iter().any(|segment| segment.iter().any(is_semicolon));
    if rules.path_parameters == PathParameters::Keep || !has_parameters {
        return Becomes::Path { matched: path.clone(), sent: path };
    }
    let pieces: Vec<&[Letter]> = kept.iter().flat_map(|segment| segment.split(is_hidden_slash)).collect();
    let is_in_hiding = |(index, piece): (usize, &&[Letter])| {
        let name = piece.split(is_semicolon).next().unwrap_or_default();
        let is_cut = name.len() < piece.len();
        is_cut && (dots(name) > 0 || name.is_empty() && index + 1 < pieces.len())
    };
    if rules.path_parameters == PathParameters::Reject || pieces.iter().enumerate().any(is_in_hiding) {
        return Becomes::Refused;
    }
    let bare: Vec<&[Letter]> =
        kept.iter().map(|segment| segment.split(is_semicolon).next().unwrap_or_default()).collect();
    let matched = text(&bare);
    match rules.path_parameters {
        PathParameters::Strip => Becomes::Path { sent: matched.clone(), matched },
        _ => Becomes::Path { matched, sent: path },
    }
}

/// Splits a path into characters. `None` if a percent sign is not followed by two hexadecimal digits.
fn letters(path: &str) -> Option<Vec<Letter>> {
    let mut letters = Vec::new();
    let mut rest = path.chars();
    while let Some(letter) = rest.next() {
        if letter != '%' {
            letters.push(Letter::Plain(letter));
            continue;
        }
        let digits: Vec<u32> = rest.by_ref().take(2).map_while(|digit| digit.to_digit(16)).collect();
        let [high, low] = digits[..] else { return None };
        let byte = (high * 16 + low) as u8;
        let is_unreserved = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~');
        letters.push(if is_unreserved { Letter::Plain(byte.into()) } else { Letter::Escaped(byte) });
    }
    Some(letters)
}

/// The number of dots in a dot segment; 0 for other segments.
fn dots(segment: &[Letter]) -> usize {
    let is_dots = segment.len() <= 2 && segment.iter().all(|letter| *letter == Letter::Plain('.'));
    if is_dots { segment.len() } else { 0 }
}

fn resolved<'l>(segments: &[&'l [Letter]], merges: bool) -> Vec<&'l [Letter]> {
    let mut kept: Vec<&'l [Letter]> = Vec::new();
    for (index, segment) in segments.iter().enumerate() {
        let is_last = index + 1 == segments.len();
        match dots(segment) {
            0 if merges && segment.is_empty() && !is_last => {}
            0 => kept.push(segment),
            count => {
                if count == 2 {
                    kept.pop();
                }
                if is_last {
                    kept.push(&[]);
                }
            }
        }
    }
    kept
}

fn text(segments: &[&[Letter]]) -> String {
    let letter = |letter: &Letter| match letter {
        Letter::Plain(plain) => plain.to_string(),
        Letter::Escaped(byte) => format!("%{byte:02X}"),
    };
    segments.iter().map(|segment| format!("/{}", segment.iter().map(letter).collect::<String>())).collect()
}

/// Whether requests can match every path of the route. This requires that normalization with `rules` leaves each path
/// unchanged.
pub(crate) fn reachable(route: &Route, rules: &PathRules) -> bool {
    let exact = route.exact.iter().flat_map(OneOrMany::as_slice);
    exact
        .chain(&route.path)
        .all(|path| normal(path, rules) == Becomes::Path { matched: path.clone(), sent: path.clone() })
}
