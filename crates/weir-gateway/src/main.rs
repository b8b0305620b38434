//! The `weir-gateway` program.

fn main() {}
