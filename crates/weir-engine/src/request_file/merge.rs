//! Merges equal requests into one whose weight is the sum of their weights.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hash, RandomState};

use crate::spec::RequestSpec;
use weir_document::Problem;

/// Collects requests one by one.
#[derive(Debug, Default)]
pub(super) struct Merger {
    requests: Vec<RequestSpec>,
    /// For each hash, the index of the first request with this hash. The hash covers everything except the weight.
    /// Requests that differ but have the same hash are not merged.
    by_hash: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Merger {
    pub(super) fn push(&mut self, request: RequestSpec) -> Result<(), Problem<()>> {
        let next = self.requests.len() as u32;
        let first = *self.by_hash.entry(self.hasher.hash_one(all_but_the_weight(&request))).or_insert(next);
        match self.requests.get_mut(first as usize) {
            Some(earlier) if all_but_the_weight(earlier) == all_but_the_weight(&request) => {
                earlier.weight += request.weight
            }
            _ => self.requests.push(request),
        }
        Ok(())
    }

    pub(super) fn into_requests(self) -> Vec<RequestSpec> {
        self.requests
    }
}

fn all_but_the_weight(request: &RequestSpec) -> impl Hash + PartialEq {
    let RequestSpec { method, path, headers, body, name, weight: _, checks } = request;
    (method, path, headers, body, name, checks)
}
