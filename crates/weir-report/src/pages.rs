//! HTML pages other than the report: one page per cell, and the page of a comparison.

pub(crate) mod cell_page;
pub(crate) mod compare;
