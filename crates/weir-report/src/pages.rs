//! Pages beside the report: one per cell, and that of a comparison.

pub(crate) mod cell_page;
pub(crate) mod compare;
