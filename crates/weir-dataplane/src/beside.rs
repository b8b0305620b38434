//! What a worker keeps beside the entries of a table's list, by their positions.
//!
//! It stands in pages as the list does. Where a page of the next version is the same, so is what is kept beside it: a
//! new version costs a worker what has changed, and a pointer for each page.

use std::rc::Rc;

use weir_config::Pages;

/// Something beside each entry, made as empty as it can be.
#[derive(Debug)]
pub(crate) struct Beside<T>(Vec<Rc<[T]>>);

impl<T: Default> Beside<T> {
    /// Beside the entries of `list`.
    pub(crate) fn new<E>(list: &Pages<E>) -> Beside<T> {
        Beside((0..list.page_count()).map(|_| empty_page()).collect())
    }

    /// Beside the entries of `now`, where this is beside those of `former`. On pages that are not the same, `goes_on` says
    /// what becomes of that at a position.
    pub(crate) fn renewed<E>(
        &self,
        (former, now): (&Pages<E>, &Pages<E>),
        goes_on: impl Fn(usize, &T) -> Option<T>,
    ) -> Beside<T> {
        self.renewed_where(now.page_count(), |page| !now.shares_page(former, page), goes_on)
    }

    /// The same for so many pages, of which these are not the same.
    pub(crate) fn renewed_where(
        &self,
        count: usize,
        is_other: impl Fn(usize) -> bool,
        goes_on: impl Fn(usize, &T) -> Option<T>,
    ) -> Beside<T> {
        let page = |number: usize| match self.0.get(number) {
            None => empty_page(),
            Some(same) if !is_other(number) => Rc::clone(same),
            Some(former) => {
                let first = number * Pages::<T>::PAGE;
                let kept = (first..).zip(former.iter());
                kept.map(|(position, kept)| goes_on(position, kept).unwrap_or_default()).collect()
            }
        };
        Beside((0..count).map(page).collect())
    }

    /// What is kept at this position.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        self.0.get(position / Pages::<T>::PAGE)?.get(position % Pages::<T>::PAGE)
    }

    /// All of it.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|page| page.iter())
    }
}

fn empty_page<T: Default>() -> Rc<[T]> {
    (0..Pages::<T>::PAGE).map(|_| T::default()).collect()
}

#[cfg(test)]
impl<T> Beside<T> {
    /// How many pages are one with those of `other`, and how many there are.
    pub(crate) fn shared_with(&self, other: &Beside<T>) -> (usize, usize) {
        let is_one = |(own, others): &(&Rc<[T]>, &Rc<[T]>)| Rc::ptr_eq(own, others);
        (self.0.iter().zip(&other.0).filter(is_one).count(), self.0.len())
    }
}
