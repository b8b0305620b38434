//! HTML pages besides that of the report: a page per cell, and the page of a comparison.

pub(crate) mod cell_page;
pub(crate) mod compare;
