//! The drivers are built into the library, so a change of a template must build it anew.

fn main() {
    println!("cargo::rerun-if-changed=../../drivers");
}
