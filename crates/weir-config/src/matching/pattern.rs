//! Regular expressions that match whole values.
//!
//! Each pattern is compiled into one automaton, which reads a value byte by byte. A match needs no cache, no lock and
//! no allocation, and takes time proportional to the length of the value. Patterns whose automaton needs too much
//! memory are rejected.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use regex_automata::dfa::{Automaton, StartKind, dense};
use regex_automata::nfa::thompson::{self, WhichCaptures};
use regex_automata::{Anchored, Input};
use regex_syntax::hir::{Hir, HirKind, Literal, Look};
use regex_syntax::{Error, ParserBuilder};
use weir_document::Problem;

use crate::model::{PATTERN_BYTES_MAX, Route};

/// Maximum size of an automaton, and maximum memory to build it, in bytes.
const AUTOMATON_BYTES_MAX: usize = 1 << 20;

/// A compiled pattern.
pub(crate) struct Pattern {
    text: Box<str>,
    automaton: dense::DFA<Vec<u32>>,
    /// The complete segments that all matching paths start with: `/a/b` for `/a/b/[0-9]+`.
    leading_segments: Box<str>,
}

/// The compiled patterns of all routes, by text. Routes with the same pattern text share one compiled pattern.
#[derive(Clone, Debug, Default)]
pub(crate) struct Patterns {
    known: BTreeMap<String, Known>,
    /// Patterns that may be unused by now.
    doubtful: Vec<String>,
}

#[derive(Clone, Debug)]
struct Known {
    pattern: Arc<Pattern>,
    /// Number of route fields that use the pattern.
    uses: usize,
}

impl Pattern {
    /// Compiles `text`. The error consists of a message and a remedy.
    fn new(text: &str) -> Result<Pattern, (String, &'static str)> {
        if text.len() > PATTERN_BYTES_MAX {
            let message = format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes");
            return Err((message, "shorten the pattern, or split it into several routes"));
        }
        // Values are bytes, so classes like `\w` are ASCII.
        let mut parser = ParserBuilder::new().unicode(false).utf8(false).build();
        let inner =
            parser.parse(text).map_err(|error| (parse_error(text, &error), "fix the regular expression"))?;
        let leading_segments = leading_segments(&inner).into();
        let whole = Hir::concat(vec![Hir::look(Look::Start), inner, Hir::look(Look::End)]);
        let too_large = || {
            let message =
                format!("`{text}` is too complex: it compiles to more than {AUTOMATON_BYTES_MAX} bytes");
            (message, "simplify the pattern: in `.*a.{20}`, each of the 20 repetitions doubles the size")
        };
        let config = thompson::Config::new()
            .utf8(false)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(AUTOMATON_BYTES_MAX));
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(&whole);
        let nfa = nfa.map_err(|_| too_large())?;
        let config = dense::Config::new()
            .start_kind(StartKind::Anchored)
            .dfa_size_limit(Some(AUTOMATON_BYTES_MAX))
            .determinize_size_limit(Some(AUTOMATON_BYTES_MAX));
        // Without Unicode, the automaton supports every assertion of the syntax.
        let automaton =
            dense::Builder::new().configure(config).build_from_nfa(&nfa).map_err(|_| too_large())?;
        Ok(Pattern { text: text.into(), automaton, leading_segments })
    }

    /// Whether the pattern matches the whole `value`.
    pub(crate) fn matches(&self, value: &[u8]) -> bool {
        let input = Input::new(value).anchored(Anchored::Yes);
        matches!(self.automaton.try_search_fwd(&input), Ok(Some(_)))
    }

    /// Whether the pattern can match at least one path. Paths start with a slash.
    pub(crate) fn may_match_a_path(&self) -> bool {
        let start = self.automaton.start_state_forward(&Input::new("/").anchored(Anchored::Yes));
        start.is_ok_and(|start| !self.automaton.is_dead_state(self.automaton.next_state(start, b'/')))
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn leading_segments(&self) -> &str {
        &self.leading_segments
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Pattern) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl Hash for Pattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl Patterns {
    /// Compiles the patterns of `route` that are not known yet. `key` names the route in messages.
    pub(crate) fn learn(&mut self, key: &str, route: &Route) -> Result<(), Problem> {
        for (field, text) in route.patterns() {
            if !self.known.contains_key(text) {
                let problem = |(message, remedy): (String, &str)| {
                    Problem::of(format!("{key}.{field}"), message).help(remedy)
                };
                let pattern = Arc::new(Pattern::new(text).map_err(problem)?);
                self.known.insert(text.to_owned(), Known { pattern, uses: 0 });
                self.doubtful.push(text.to_owned());
            }
        }
        Ok(())
    }

    /// Increments the use counts of the patterns of `route`. They must be compiled.
    pub(crate) fn hold(&mut self, route: &Route) {
        for (_, text) in route.patterns() {
            self.known.get_mut(text).into_iter().for_each(|known| known.uses += 1);
        }
    }

    /// Decrements the use counts of the patterns of `route`.
    pub(crate) fn release(&mut self, route: &Route) {
        for (_, text) in route.patterns() {
            let Some(known) = self.known.get_mut(text) else { continue };
            known.uses -= 1;
            if known.uses == 0 {
                self.doubtful.push(text.to_owned());
            }
        }
    }

    /// Removes unused patterns. [`release`](Self::release) does not remove them yet, because a refused batch restores
    /// the routes that use them.
    pub(crate) fn forget_unused(&mut self) {
        for text in std::mem::take(&mut self.doubtful) {
            if self.known.get(&text).is_some_and(|known| known.uses == 0) {
                self.known.remove(&text);
            }
        }
    }

    /// The compiled pattern `text` of a valid route.
    pub(crate) fn find(&self, text: &str) -> Arc<Pattern> {
        Arc::clone(&self.known[text].pattern)
    }
}

fn parse_error(text: &str, error: &Error) -> String {
    let at = |kind: &dyn fmt::Display, column: usize| format!("`{text}`: {kind}, at character {column}");
    match error {
        Error::Parse(error) => at(error.kind(), error.span().start.column),
        Error::Translate(error) => at(error.kind(), error.span().start.column),
        _ => format!("`{text}` is not a regular expression"),
    }
}

fn leading_segments(pattern: &Hir) -> String {
    let parts = match pattern.kind() {
        HirKind::Concat(parts) => parts.as_slice(),
        _ => std::slice::from_ref(pattern),
    };
    let mut literal = Vec::new();
    for part in parts {
        match part.kind() {
            HirKind::Literal(Literal(bytes)) => literal.extend_from_slice(bytes),
            HirKind::Look(Look::Start) => {}
            _ => break,
        }
    }
    // Drop the last segment, because the rest of the pattern can continue it.
    let end = literal.iter().rposition(|&byte| byte == b'/').unwrap_or(0);
    literal.truncate(end);
    String::from_utf8(literal).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pattern_matches_the_whole_value() {
        let check = |text: &str, good: &[&str], bad: &[&str]| {
            let pattern = Pattern::new(text).unwrap();
            for (values, expected) in [(good, true), (bad, false)] {
                for value in values {
                    assert_eq!(pattern.matches(value.as_bytes()), expected, "{text} {value}");
                }
            }
        };
        check("/a/[0-9]+", &["/a/1", "/a/42"], &["/a/", "/a/1/", "x/a/1", "/a/1x", ""]);
        check("a|ab", &["a", "ab"], &["b", "abb", "aab"]);
        check("(?i)gold|silver", &["GOLD", "Silver"], &["golden", "x-gold"]);
        check("^a$", &["a"], &["aa"]);
        check("", &[""], &["a"]);
        check("\\w+\\b.*", &["word", "a b"], &[" a", ""]);
        check(".*", &["", "ä", "\u{1}"], &[]);
        check("ä", &["ä"], &["a"]);
    }

    #[test]
    fn pattern_without_leading_slash_matches_no_path() {
        let may = |text: &str| Pattern::new(text).unwrap().may_match_a_path();
        for text in ["/a", ".*", "[^a].*", "(a|/b)", "/", "/?a?"] {
            assert!(may(text), "{text}");
        }
        for text in ["a", "a.*", "[a-z]+", "", "(a|b)/.*", "^a"] {
            assert!(!may(text), "{text}");
        }
    }

    #[test]
    fn finds_the_leading_segments_of_a_pattern() {
        let check = |text: &str, expected: &str| {
            assert_eq!(&*Pattern::new(text).unwrap().leading_segments, expected, "{text}");
        };
        check("/a/b/[0-9]+", "/a/b");
        check("^/a/b", "/a");
        check("/a/?", "");
        check("/a/b(/.*)?", "/a");
        check("/(a|b)/c", "");
        check("(?i)/a/b/", "");
        check("/a/|/b/", "");
        check(".*", "");
        check("//x/.*", "//x");
    }

    #[test]
    fn rejects_invalid_and_too_complex_patterns() {
        let check = |text: &str, message: &str| {
            assert_eq!(Pattern::new(text).err().map(|(message, _)| message).as_deref(), Some(message));
        };
        check("/a(", "`/a(`: unclosed group, at character 3");
        check("*a", "`*a`: repetition operator missing expression, at character 1");
        check("[a", "`[a`: unclosed character class, at character 1");
        check("\\pL", "`\\pL`: Unicode not allowed here, at character 1");
        check("(a)\\1", "`(a)\\1`: backreferences are not supported, at character 4");
        for large in [".*a.{20}", "(a{100}){1000}", "[a-z]*x[a-z]{15}"] {
            let message = format!("`{large}` is too complex: it compiles to more than 1048576 bytes");
            check(large, &message);
        }
        check(&"a".repeat(1025), "the pattern is longer than 1024 bytes");
    }
}
