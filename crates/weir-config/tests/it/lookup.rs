//! Compares the routing table with the oracle, a simple reference implementation, on random input from many seeds. A
//! fuzz target does the same with the bytes of the fuzzer.

use crate::draw::Draw;
use crate::routing::check;

#[test]
fn table_agrees_with_the_oracle() {
    let (mut routed, mut stopped) = (0, 0);
    for seed in 0..400 {
        let (of_routes, of_paths) = check(&mut Draw::from_seed(seed), 60);
        routed += of_routes;
        stopped += of_paths;
    }
    assert!(
        routed > 2000 && stopped > 1000,
        "{routed} of 24000 matched a route, {stopped} paths rejected: too few"
    );
}

#[test]
fn table_agrees_with_the_oracle_on_fuzzer_input() {
    for length in 0..300 {
        let bytes: Vec<u8> = (0..length).map(|at: usize| (at * at + 7 * length) as u8).collect();
        check(&mut Draw::from_bytes(&bytes), 3);
    }
}
