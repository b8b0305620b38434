//! The gateway's configuration model, its validation and the immutable compiled table.
