//! Lists with cheap versions: a new version shares all unchanged pages with the previous one.
//!
//! A change copies only the pages that it touches. An entry keeps its position until it is removed, so references by
//! position stay valid.

use std::ops::Index;
use std::sync::Arc;

/// Number of entries per page. A change copies each page that it touches, which takes microseconds. A new version also
/// increments the reference count of every page: 400 pages for 100,000 entries.
pub(crate) const PAGE: usize = 256;

/// A list with stable positions. There can be gaps between entries.
#[derive(Debug)]
pub struct Pages<T>(Vec<Arc<Page<T>>>);

type Page<T> = [Option<T>; PAGE];

/// Assigns positions; released positions are reused first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Slots {
    free: Vec<u32>,
    end: u32,
}

impl<T> Pages<T> {
    /// Number of entries per page; the last page can have fewer.
    pub const PAGE: usize = PAGE;

    /// The entry at this position, if any.
    #[inline]
    pub fn get(&self, position: usize) -> Option<&T> {
        self.0.get(position / PAGE)?[position % PAGE].as_ref()
    }

    /// All entries, by position.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|page| page.iter()).flatten()
    }

    /// The number of pages.
    pub fn page_count(&self) -> usize {
        self.0.len()
    }

    /// Whether both versions share this page, so that it did not change between them.
    pub fn shares_page(&self, other: &Pages<T>, page: usize) -> bool {
        matches!((self.0.get(page), other.0.get(page)), (Some(own), Some(others)) if Arc::ptr_eq(own, others))
    }

    /// Whether both versions share all pages, so that nothing changed between them.
    pub fn shares_all(&self, other: &Pages<T>) -> bool {
        self.0.len() == other.0.len() && (0..self.0.len()).all(|page| self.shares_page(other, page))
    }
}

impl<T: Clone> Pages<T> {
    /// Sets the entry at a position.
    pub(crate) fn put(&mut self, position: u32, entry: T) {
        let position = position as usize;
        while self.0.len() <= position / PAGE {
            self.0.push(Arc::new(std::array::from_fn(|_| None)));
        }
        Arc::make_mut(&mut self.0[position / PAGE])[position % PAGE] = Some(entry);
    }

    /// Removes the entry at a position.
    pub(crate) fn clear(&mut self, position: u32) {
        let position = position as usize;
        if self.get(position).is_some() {
            Arc::make_mut(&mut self.0[position / PAGE])[position % PAGE] = None;
        }
    }
}

impl<T> Index<usize> for Pages<T> {
    type Output = T;

    /// # Panics
    /// If the position has no entry. A position that is valid in one version can be empty in another.
    #[inline]
    fn index(&self, position: usize) -> &T {
        match self.get(position) {
            Some(entry) => entry,
            None => panic!("position {position} has no entry; the position may be from another version"),
        }
    }
}

impl<T> Clone for Pages<T> {
    fn clone(&self) -> Pages<T> {
        Pages(self.0.clone())
    }
}

impl<T> Default for Pages<T> {
    fn default() -> Pages<T> {
        Pages(Vec::new())
    }
}

impl Slots {
    /// Reserves a free position.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.end += 1;
            self.end - 1
        })
    }

    /// Releases a position.
    pub(crate) fn give_back(&mut self, position: u32) {
        self.free.push(position);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_copies_only_its_page() {
        let mut pages = Pages::default();
        for position in 0..3 * PAGE as u32 {
            pages.put(position, position);
        }
        let before = pages.clone();
        pages.put(PAGE as u32, 7);
        pages.clear(PAGE as u32 + 1);
        let shared = [0, 1, 2].map(|page| pages.shares_page(&before, page));
        assert_eq!((shared, pages.page_count()), ([true, false, true], 3));
        assert_eq!((before[PAGE], pages[PAGE], pages.get(PAGE + 1)), (PAGE as u32, 7, None));
        assert_eq!((before.iter().count(), pages.iter().count()), (3 * PAGE, 3 * PAGE - 1));
        assert_eq!(pages.get(3 * PAGE), None);
        assert!(!pages.shares_page(&before, 3));
        pages.clear(9_999);
        assert!(pages.shares_page(&before, 2));
        assert!(!pages.shares_all(&before) && pages.shares_all(&pages.clone()));
    }

    #[test]
    fn reuses_released_positions() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 2]);
        slots.give_back(1);
        slots.give_back(0);
        let mut next = [slots.take(), slots.take()];
        next.sort_unstable();
        assert_eq!((next, slots.take()), ([0, 1], 3));
    }
}
