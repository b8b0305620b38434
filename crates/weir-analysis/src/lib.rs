//! Pure statistics over results: quantiles, intervals, verdicts, comparison.
