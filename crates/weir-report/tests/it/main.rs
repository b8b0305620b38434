//! Every format of a report, from a synthetic run.

mod added;
mod browser;
mod capacity;
mod comparisons;
mod domains;
mod faults;
mod figures;
mod fixture;
mod formats;
mod gates;
mod headroom;
mod odd;
mod offline;
mod pages;
mod sizing;
mod unequal;
