//! The paths of one set of routes: whole paths by hash, then prefixes by a tree of segments.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use foldhash::fast::RandomState;

/// A map for keys that the configuration chose; its seed is the process's own.
pub(crate) type FastMap<K, V> = HashMap<K, V, RandomState>;

/// Where paths lead, as positions in the table's targets.
#[derive(Debug, Default)]
pub(crate) struct PathTable {
    exact: FastMap<Box<str>, u32>,
    /// The first is the root, for the prefix `/`; empty without prefixes.
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    target: Option<u32>,
    children: FastMap<Box<str>, u32>,
}

impl PathTable {
    /// Adds a whole path; an earlier target for it is the error.
    pub(crate) fn add_exact(&mut self, path: &str, target: u32) -> Result<(), u32> {
        match self.exact.entry(path.into()) {
            Entry::Occupied(taken) => Err(*taken.get()),
            Entry::Vacant(free) => {
                free.insert(target);
                Ok(())
            }
        }
    }

    /// Adds a prefix, closing slash or not; an earlier target for it is the error.
    pub(crate) fn add_prefix(&mut self, prefix: &str, target: u32) -> Result<(), u32> {
        if self.nodes.is_empty() {
            self.nodes.push(Node::default());
        }
        let mut at = 0;
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        for segment in prefix.split('/').skip(1) {
            let next = self.nodes.len() as u32;
            let child = *self.nodes[at].children.entry(segment.into()).or_insert(next);
            if child == next {
                self.nodes.push(Node::default());
            }
            at = child as usize;
        }
        match &mut self.nodes[at].target {
            Some(taken) => Err(*taken),
            free => {
                *free = Some(target);
                Ok(())
            }
        }
    }

    /// The target for `path`, and how many of its bytes a rewrite replaces.
    pub(crate) fn find(&self, path: &str) -> Option<(u32, usize)> {
        if !self.exact.is_empty()
            && let Some(&target) = self.exact.get(path)
        {
            return Some((target, path.len()));
        }
        let mut node = self.nodes.first()?;
        let mut best = node.target.map(|t| (t, 0));
        let mut matched = 0;
        for segment in path.split('/').skip(1) {
            let Some(&child) = node.children.get(segment) else { break };
            node = &self.nodes[child as usize];
            matched += 1 + segment.len();
            if let Some(target) = node.target {
                best = Some((target, matched));
            }
        }
        best
    }
}
