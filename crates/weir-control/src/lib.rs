//! Configuration sources; so far a file.
