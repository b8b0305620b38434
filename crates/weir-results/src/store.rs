//! The SQLite store: runs, cells, histograms, manifests and verdicts, each cell committed on its own.
