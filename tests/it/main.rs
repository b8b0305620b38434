//! End to end: the programs as a user starts them. Asserts counts, books, exit codes and what is left over;
//! never how long something took.

#![allow(unreachable_pub)]

mod crash;
mod load;
mod program;
mod run;
mod wrong_use;
