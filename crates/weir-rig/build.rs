//! The library embeds the drivers, so cargo must rebuild it when a driver's file changes.

fn main() {
    println!("cargo::rerun-if-changed=../../drivers");
}
