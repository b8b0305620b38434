//! Data that a worker keeps for each entry of a list in the table, by position.
//!
//! The data is stored in pages, as the list is. If the next version of the table shares a page of the list, the data of
//! that page is shared too. So a new version costs a worker only the changed pages and one pointer per page.

use std::rc::Rc;

use weir_config::Pages;

/// One value per entry of a list, initially the default.
#[derive(Debug)]
pub(crate) struct Beside<T>(Vec<Rc<[T]>>);

impl<T: Default> Beside<T> {
    /// Default values for the entries of `list`.
    pub(crate) fn new<E>(list: &Pages<E>) -> Beside<T> {
        Beside((0..list.page_count()).map(|_| empty_page()).collect())
    }

    /// Returns the values for the list `now`; `self` contains the values for the list `former`. Values on unchanged
    /// pages are kept. For each value on a changed page, `goes_on` gets its position and the old value, and returns the
    /// new value. If it returns `None`, the new value is the default.
    pub(crate) fn renewed<E>(
        &self,
        (former, now): (&Pages<E>, &Pages<E>),
        goes_on: impl Fn(usize, &T) -> Option<T>,
    ) -> Beside<T> {
        self.renewed_where(now.page_count(), |page| !now.shares_page(former, page), goes_on)
    }

    /// Like [`Beside::renewed`], for a list with `count` pages. `is_other` selects the pages whose values are computed
    /// again.
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

    /// The value at this position.
    #[inline]
    pub(crate) fn get(&self, position: usize) -> Option<&T> {
        self.0.get(position / Pages::<T>::PAGE)?.get(position % Pages::<T>::PAGE)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flat_map(|page| page.iter())
    }
}

fn empty_page<T: Default>() -> Rc<[T]> {
    (0..Pages::<T>::PAGE).map(|_| T::default()).collect()
}

#[cfg(test)]
impl<T> Beside<T> {
    /// The number of pages that are shared with `other`, and the number of all pages.
    pub(crate) fn shared_with(&self, other: &Beside<T>) -> (usize, usize) {
        let is_one = |(own, others): &(&Rc<[T]>, &Rc<[T]>)| Rc::ptr_eq(own, others);
        (self.0.iter().zip(&other.0).filter(is_one).count(), self.0.len())
    }
}
