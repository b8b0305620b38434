//! Charts of a report: their content, and how they are drawn.

pub(crate) mod added_chart;
pub(crate) mod axes;
pub(crate) mod change_marks;
pub(crate) mod colors;
pub(crate) mod data_table;
pub(crate) mod event_chart;
pub(crate) mod figures;
pub(crate) mod finding_charts;
pub(crate) mod headroom_chart;
pub(crate) mod heat;
pub(crate) mod pictures;
pub(crate) mod series;
pub(crate) mod svg;
pub(crate) mod sweep;
pub(crate) mod timelines;
