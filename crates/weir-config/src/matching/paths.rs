//! Lookup of a path among a set of routes. It tries exact paths by hash, then prefixes by a tree of segments, then
//! regular expressions, and last the prefix `/`.
//!
//! Most paths have one candidate without conditions, so the lookup alone finds the route. Several candidates are tried
//! in order, those with most conditions first. A regular expression is stored at the node of its fixed leading
//! segments, so that requests for other paths never run it.

use std::cmp::Ordering;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use crate::collections::FastMap;
use crate::matching::Values;
use crate::matching::conditions::{Conditions, ValueConditions, Weight};
use crate::matching::pattern::Pattern;

/// The node for the prefix `/`.
const ROOT: u32 = 0;

/// Maps paths to positions of the table's routes.
#[derive(Debug, Default)]
pub(crate) struct PathTable {
    /// The positions of all routes in the table, in order.
    members: Box<[u32]>,
    exact: FastMap<Box<str>, Choices>,
    /// The first node is the root, for the prefix `/`. The list is empty if there are no prefixes and no patterns.
    nodes: Vec<Node>,
    has_patterns: bool,
}

/// A route for a given path, and the route's conditions other than the path.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) target: u32,
    pub(crate) conditions: Option<Arc<Conditions>>,
}

/// Two routes that match the same requests.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Clash {
    /// The later of the two routes.
    pub(crate) target: u32,
    pub(crate) taken_by: u32,
    /// The path, if both routes match the same exact path; `None` for a prefix or a pattern.
    pub(crate) exact: Option<Box<str>>,
}

/// The route that matches a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) target: u32,
    /// Number of bytes of the path that a rewrite replaces.
    pub(crate) matched: usize,
}

/// Compares two targets by their order in the source.
pub(crate) type SourceOrder<'o> = &'o dyn Fn(u32, u32) -> Ordering;

/// The candidates for one path.
#[derive(Debug, Default)]
enum Choices {
    #[default]
    None,
    /// One candidate without conditions.
    Only(u32),
    /// Candidates in the order in which they are tried.
    Ranked(Vec<Candidate>),
}

#[derive(Debug, Default)]
struct Node {
    parent: u32,
    /// Length of the path up to this node, in bytes.
    matched: u32,
    choices: Choices,
    /// Sorted by rank.
    patterns: Vec<PatternChoice>,
    children: FastMap<Box<str>, u32>,
}

#[derive(Debug)]
struct PatternChoice {
    pattern: Arc<Pattern>,
    candidate: Candidate,
    /// Position in the order in which the patterns of the table are tried.
    rank: u32,
}

impl PathTable {
    /// A table for these routes, in order of their positions. Their paths are added later.
    pub(crate) fn of(members: &[u32]) -> PathTable {
        PathTable { members: members.into(), ..PathTable::default() }
    }

    /// The positions of the routes in the table, in order.
    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// Adds an exact path.
    pub(crate) fn add_exact(&mut self, path: &str, candidate: Candidate) {
        match self.exact.entry(path.into()) {
            Entry::Occupied(mut occupied) => occupied.get_mut().add(candidate),
            Entry::Vacant(free) => free.insert(Choices::None).add(candidate),
        }
    }

    /// Adds a prefix; a trailing slash is ignored.
    pub(crate) fn add_prefix(&mut self, prefix: &str, candidate: Candidate) {
        let node = self.node_at(prefix.strip_suffix('/').unwrap_or(prefix));
        node.choices.add(candidate);
    }

    /// Adds a regular expression.
    pub(crate) fn add_pattern(&mut self, pattern: Arc<Pattern>, candidate: Candidate) {
        self.has_patterns = true;
        let node = self.node_at(pattern.leading_segments());
        node.patterns.push(PatternChoice { pattern, candidate, rank: 0 });
    }

    /// Sorts candidates into the order in which they are tried. Returns pairs of candidates that match the same
    /// requests.
    pub(crate) fn settle(&mut self, order: SourceOrder<'_>) -> Vec<Clash> {
        let mut clashes = Vec::new();
        for (path, choices) in &mut self.exact {
            let found = choices.settle(order).into_iter();
            clashes.extend(found.map(|clash| Clash { exact: Some(path.clone()), ..clash }));
        }
        for node in &mut self.nodes {
            clashes.extend(node.choices.settle(order));
        }
        if self.has_patterns {
            clashes.extend(self.settle_patterns(order));
        }
        // The order of the hash map is random.
        clashes.sort();
        clashes
    }

    /// Finds the route that matches the path and the other values of a request.
    #[inline]
    pub(crate) fn find(&self, values: &Values<'_, '_>) -> Option<Found> {
        let path = values.request.path;
        if !self.exact.is_empty()
            && let Some(choices) = self.exact.get(path)
            && let Some(target) = choices.choose(values)
        {
            return Some(Found { target, matched: path.len() });
        }
        let mut node = self.nodes.first()?;
        let mut deepest = ROOT;
        for segment in path.split('/').skip(1) {
            let Some(&child) = node.children.get(segment) else { break };
            node = &self.nodes[child as usize];
            deepest = child;
        }
        let mut at = deepest;
        while at != ROOT {
            let node = &self.nodes[at as usize];
            if let Some(target) = node.choices.choose(values) {
                return Some(Found { target, matched: node.matched as usize });
            }
            at = node.parent;
        }
        let by_pattern = if self.has_patterns { self.find_pattern(deepest, values) } else { None };
        by_pattern.or_else(|| {
            let target = self.nodes[ROOT as usize].choices.choose(values)?;
            Some(Found { target, matched: 0 })
        })
    }

    /// Of the matching patterns at the nodes from `deepest` to the root, the one with the lowest rank.
    #[inline(never)]
    fn find_pattern(&self, deepest: u32, values: &Values<'_, '_>) -> Option<Found> {
        // `*` (OPTIONS) is not a path.
        if !values.request.path.starts_with('/') {
            return None;
        }
        let mut best: Option<&PatternChoice> = None;
        let mut at = deepest;
        loop {
            let node = &self.nodes[at as usize];
            let end = best.map_or(u32::MAX, |best| best.rank);
            let mut better = node.patterns.iter().take_while(|choice| choice.rank < end);
            best = better.find(|choice| choice.matches(values)).or(best);
            if at == ROOT {
                let target = best?.candidate.target;
                return Some(Found { target, matched: values.request.path.len() });
            }
            at = node.parent;
        }
    }

    /// The node for this path, which has no trailing slash. Adds missing nodes.
    fn node_at(&mut self, path: &str) -> &mut Node {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = ROOT;
        for segment in path.split('/').skip(1) {
            let next = self.nodes.len() as u32;
            let node = &mut self.nodes[at as usize];
            let matched = node.matched + 1 + segment.len() as u32;
            let child = *node.children.entry(segment.into()).or_insert(next);
            if child == next {
                self.nodes.push(Node { parent: at, matched, ..Node::default() });
            }
            at = child;
        }
        &mut self.nodes[at as usize]
    }

    fn settle_patterns(&mut self, order: SourceOrder<'_>) -> Vec<Clash> {
        let mut all: Vec<&mut PatternChoice> =
            self.nodes.iter_mut().flat_map(|node| node.patterns.iter_mut()).collect();
        all.sort_by(|a, b| {
            let by_length = b.pattern.text().len().cmp(&a.pattern.text().len());
            by_length.then_with(|| a.candidate.before(&b.candidate, order))
        });
        for (rank, choice) in (0..).zip(&mut all) {
            choice.rank = rank;
        }
        let clashes = clashes(all.iter().map(|choice| (choice.pattern.text(), &choice.candidate)));
        for node in &mut self.nodes {
            node.patterns.sort_by_key(|choice| choice.rank);
        }
        clashes
    }
}

impl Candidate {
    #[inline]
    fn matches(&self, values: &Values<'_, '_>) -> bool {
        self.conditions.as_ref().is_none_or(|conditions| conditions.hold(values))
    }

    fn weight(&self) -> Weight {
        self.conditions.as_ref().map(|conditions| conditions.weight()).unwrap_or_default()
    }

    /// Compares two candidates for the same path by the order in which they are tried.
    fn before(&self, other: &Candidate, order: SourceOrder<'_>) -> Ordering {
        self.weight().cmp(&other.weight()).then_with(|| order(self.target, other.target))
    }
}

impl PatternChoice {
    fn matches(&self, values: &Values<'_, '_>) -> bool {
        self.pattern.matches(values.request.path.as_bytes()) && self.candidate.matches(values)
    }
}

impl Choices {
    fn add(&mut self, candidate: Candidate) {
        *self = match std::mem::take(self) {
            Choices::None if candidate.conditions.is_none() => Choices::Only(candidate.target),
            Choices::None => Choices::Ranked(vec![candidate]),
            Choices::Only(target) => Choices::Ranked(vec![Candidate { target, conditions: None }, candidate]),
            Choices::Ranked(mut candidates) => {
                candidates.push(candidate);
                Choices::Ranked(candidates)
            }
        };
    }

    fn settle(&mut self, order: SourceOrder<'_>) -> Vec<Clash> {
        let Choices::Ranked(candidates) = self else { return Vec::new() };
        candidates.sort_by(|a, b| a.before(b, order));
        clashes(candidates.iter().map(|candidate| ("", candidate)))
    }

    #[inline]
    fn choose(&self, values: &Values<'_, '_>) -> Option<u32> {
        match self {
            Choices::None => None,
            Choices::Only(target) => Some(*target),
            Choices::Ranked(candidates) => {
                candidates.iter().find(|candidate| candidate.matches(values)).map(|found| found.target)
            }
        }
    }
}

/// Finds each candidate that clashes with an earlier one: both have the same pattern and share a claim
/// ([`Conditions::claims`]). `candidates` are in the order in which they are tried, each with its pattern.
fn clashes<'c>(candidates: impl Iterator<Item = (&'c str, &'c Candidate)>) -> Vec<Clash> {
    let mut taken: FastMap<(&str, Option<&str>, Option<&ValueConditions>), u32> = FastMap::default();
    let mut clashes = Vec::new();
    for (pattern, Candidate { target, conditions }) in candidates {
        let claims = conditions.as_ref().map_or(vec![(None, None)], |conditions| conditions.claims());
        let taken_by =
            claims.into_iter().find_map(|(method, values)| match taken.entry((pattern, method, values)) {
                Entry::Occupied(occupied) => Some(*occupied.get()),
                Entry::Vacant(free) => {
                    free.insert(*target);
                    None
                }
            });
        clashes.extend(taken_by.map(|taken_by| Clash { target: *target, taken_by, exact: None }));
    }
    clashes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matching::RequestView;
    use crate::matching::pattern::Patterns;
    use crate::model::Route;

    #[test]
    fn tries_only_patterns_with_the_same_leading_segments() {
        let mut paths = PathTable::default();
        let mut patterns = Patterns::default();
        for target in 0..1000 {
            let text = format!("/p{target}/[0-9]+/.*");
            let route = Route { regex: Some(text.clone()), ..Route::default() };
            patterns.learn("routes[0]", &route).unwrap();
            paths.add_pattern(patterns.find(&text), Candidate { target, conditions: None });
        }
        assert_eq!(paths.settle(&|a, b| a.cmp(&b)), []);
        assert_eq!(paths.nodes.iter().map(|node| node.patterns.len()).max(), Some(1));
        assert!(paths.nodes[ROOT as usize].patterns.is_empty());
        let find = |path| paths.find(&Values::of(&RequestView::get("h", path)));
        let found = find("/p777/42/x");
        assert_eq!(found, Some(Found { target: 777, matched: 10 }));
        assert_eq!(find("/p777/x/x"), None);
    }
}
