//! The engine against peers on loopback that behave well and badly. Counts and causes are asserted, never times.

mod behaviour;
mod books;
mod load;
mod peer;
