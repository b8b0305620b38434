//! Random routes and requests, from a seed or from a fuzzer's bytes. They use few words, so that many routes match.

use std::collections::BTreeMap;

use weir_config::{EscapedSlashes, OneOrMany, PathParameters, PathRules, Route, ValueMatch};

/// A regular expression, and a function that accepts exactly the texts that it matches.
type Meaning = (&'static str, fn(&str) -> bool);

/// Regular expressions for paths.
pub(crate) const PATH_PATTERNS: [Meaning; 6] = [
    ("/a/[ab]+", |path| path.strip_prefix("/a/").is_some_and(|rest| is_some_of(rest, b"ab"))),
    ("/.*b", |path| path.len() > 1 && path.starts_with('/') && path.ends_with('b')),
    ("/(a|b)/?", |path| ["/a", "/b", "/a/", "/b/"].contains(&path)),
    ("/a/.*", |path| path.starts_with("/a/")),
    ("/a/b(/.*)?", |path| path == "/a/b" || path.starts_with("/a/b/")),
    (".*", |_| true),
];

/// Regular expressions for values of headers and parameters.
pub(crate) const VALUE_PATTERNS: [Meaning; 3] = [
    ("[0-9]+", |value| is_some_of(value, b"0123456789")),
    ("1|.*, 2", |value| value == "1" || value.ends_with(", 2")),
    (".?", |value| value.len() <= 1),
];

const SEGMENTS: [&str; 7] = ["a", "b", "ab", "", "a%2Fb", "a%5Cb", "b;a=1"];
/// Segments that normalization changes or rejects.
const UNUSUAL_SEGMENTS: [&str; 18] = [
    ".", "..", "%2e", "%2E.", "%61", "a%2fb", "..%2F", "%5c.", "b\\a", "\\..", "%7E%c3", "%00", ";", "..;",
    ".;b", "a%3bb;", "%2e.%3B", "b;%2F.;a",
];
const LABELS: [&str; 3] = ["x", "y", "com"];
const METHODS: [&str; 3] = ["GET", "POST", "M-SEARCH"];
const HEADERS: [&str; 3] = ["x-a", "X-B", "accept"];
const HEADER_VALUES: [&str; 4] = ["1", "2", "1, 2", ""];
const PARAMETERS: [&str; 3] = ["p", "q r", "s"];
const PARAMETER_VALUES: [&str; 4] = ["1", "2", "a b", ""];
const PAIRS: [&str; 9] = ["p=1", "p=2", "p", "q+r=1", "q%20r=a+b", "%70=a%20b", "s=%", "", "s=1=2"];

/// A sequence of random choices.
pub(crate) struct Draw<'s>(Box<dyn FnMut() -> u64 + 's>);

/// A request as the client sends it.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) method: &'static str,
    pub(crate) host: String,
    pub(crate) target: String,
    pub(crate) fields: Vec<(&'static str, &'static str)>,
}

impl<'s> Draw<'s> {
    /// The same seed gives the same choices on every machine.
    pub(crate) fn from_seed(seed: u64) -> Draw<'s> {
        let mut state = seed;
        Draw(Box::new(move || {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// Each byte makes one choice; after the last byte, all choices are 0.
    pub(crate) fn from_bytes(bytes: &'s [u8]) -> Draw<'s> {
        let mut bytes = bytes.iter();
        Draw(Box::new(move || bytes.next().copied().unwrap_or_default().into()))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        ((self.0)() % end as u64) as usize
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == times - 1
    }

    pub(crate) fn rules(&mut self) -> PathRules {
        let escaped_slashes = match self.below(4) {
            0 | 1 => EscapedSlashes::Keep,
            2 => EscapedSlashes::Reject,
            _ => EscapedSlashes::Redirect,
        };
        let path_parameters = match self.below(5) {
            0 | 1 => PathParameters::Keep,
            2 => PathParameters::Ignore,
            3 => PathParameters::Strip,
            _ => PathParameters::Reject,
        };
        PathRules { merge_slashes: self.once_in(3), escaped_slashes, path_parameters }
    }

    /// A random route to the backend `b`.
    pub(crate) fn route(&mut self) -> Route {
        let hosts = (0..self.below(3)).map(|_| {
            let wildcard = if self.once_in(3) { "*." } else { "" };
            format!("{wildcard}{}", self.host())
        });
        let mut route = Route { hosts: hosts.collect(), backend: Some("b".to_owned()), ..Route::default() };
        match self.below(5) {
            0 => route.exact = Some(OneOrMany::One(self.path())),
            1 => route.exact = Some(OneOrMany::Many(vec![self.path(), self.path() + "/2"])),
            2 => route.regex = Some(self.pick(&PATH_PATTERNS.map(|(text, _)| text)).to_owned()),
            _ => route.path = Some(self.path()),
        }
        if self.once_in(3) {
            let first = self.below(METHODS.len());
            let count = 1 + self.below(2);
            route.methods = (0..count).map(|n| METHODS[(first + n) % METHODS.len()].to_owned()).collect();
        }
        if self.once_in(3) {
            route.headers = self.conditions(&HEADERS, &HEADER_VALUES);
        }
        if self.once_in(4) {
            route.query = self.conditions(&PARAMETERS, &PARAMETER_VALUES);
        }
        route
    }

    pub(crate) fn request(&mut self) -> Drawn {
        let mut target: String = (0..1 + self.below(4)).map(|_| format!("/{}", self.segment())).collect();
        if self.once_in(3) {
            let pairs: Vec<&str> = (0..1 + self.below(3)).map(|_| self.pick(&PAIRS)).collect();
            target = format!("{target}?{}", pairs.join("&"));
        }
        let host = if self.once_in(8) { format!("{}:8080", self.host().to_uppercase()) } else { self.host() };
        let fields = (0..self.below(4)).map(|_| (self.pick(&HEADERS), self.pick(&HEADER_VALUES))).collect();
        Drawn { method: self.pick(&METHODS), host, target, fields }
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.below(words.len())]
    }

    fn segment(&mut self) -> &'static str {
        if self.once_in(8) { self.pick(&UNUSUAL_SEGMENTS) } else { self.pick(&SEGMENTS) }
    }

    fn path(&mut self) -> String {
        let segments = self.below(4);
        let mut path: String = (0..segments).map(|_| format!("/{}", self.pick(&SEGMENTS))).collect();
        if path.is_empty() || self.once_in(4) {
            path.push('/');
        }
        path
    }

    fn host(&mut self) -> String {
        let labels = 1 + self.below(4);
        (0..labels).map(|_| self.pick(&LABELS)).collect::<Vec<_>>().join(".")
    }

    fn conditions(&mut self, names: &[&str], values: &[&str]) -> BTreeMap<String, ValueMatch> {
        let count = 1 + self.below(2);
        (0..count).map(|_| (self.pick(names).to_owned(), self.value(values))).collect()
    }

    fn value(&mut self, values: &[&str]) -> ValueMatch {
        match self.below(6) {
            0 => ValueMatch::Present { present: true },
            1 => ValueMatch::Regex { regex: self.pick(&VALUE_PATTERNS.map(|(text, _)| text)).to_owned() },
            2 => ValueMatch::Exact { exact: self.pick(values).to_owned() },
            _ => ValueMatch::Value(self.pick(values).to_owned()),
        }
    }
}

/// Whether the text is not empty and contains only these bytes.
fn is_some_of(text: &str, bytes: &[u8]) -> bool {
    !text.is_empty() && text.bytes().all(|byte| bytes.contains(&byte))
}
