//! Malformed and ambiguous requests. Each one hides a smuggled request, and a valid, marked request follows it on the
//! same connection. The gateway must reject the malformed request and close the connection. It must not panic, and the
//! smuggled request must not reach the origin.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::time::Duration;

mod classes;
mod client;
mod draft;
mod gateway;
mod lenient;
mod origin;

use classes::{First, all};
use client::Case;
use gateway::{Gateway, relay};
use origin::Origin;

/// Number of connections per class, enough to send every form of each class.
const VARIATIONS: usize = 10;

/// Timeout for a connection on which nothing arrives. A gateway rejects at once, so the timeout expires only if the
/// test fails.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn there_are_many_classes_with_unique_names() {
    let names: HashSet<_> = all().map(|class| class.name).collect();
    assert_eq!(names.len(), all().count());
    assert!(all().filter(|class| class.first != First::Served).count() >= 60);
}

#[test]
fn nothing_malformed_reaches_the_origin() {
    let origin = Origin::start();
    let gateway = Gateway::start(origin.address);
    let cases: Vec<Case> = all()
        .flat_map(|class| (0..VARIATIONS).map(move |variation| (class, variation)))
        .enumerate()
        .map(|(number, (class, variation))| Case::new(class, variation, number))
        .collect();
    let mut findings = run(&cases, gateway.address, PATIENCE);
    let (was_alive, messages) = gateway.stop();
    findings.extend(findings_at(origin, &cases));
    assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), findings.join("\n"));
    assert!(was_alive, "the gateway died: {messages}");
    assert!(!messages.contains("panicked"), "{messages}");
}

/// Tests the test: for each malformed class, a relay without checks must be reported.
#[test]
fn a_relay_is_detected() {
    for (number, class) in all().enumerate() {
        let origin = Origin::start();
        let relay = relay(origin.address);
        let cases = [Case::new(class, 0, number)];
        let expected = class.first != First::Served;
        // If findings are expected, a client timeout is one of them, so the timeout can be short. Otherwise, the
        // timeout is long, because the host may be busy.
        let patience = if expected { Duration::from_millis(50) } else { PATIENCE };
        let mut findings = run(&cases, relay, patience);
        findings.extend(findings_at(origin, &cases));
        assert_eq!(!findings.is_empty(), expected, "{}: {findings:?}", class.name);
    }
}

/// What the client finds wrong with the responses.
fn run(cases: &[Case], gateway: SocketAddr, patience: Duration) -> Vec<String> {
    cases.iter().filter_map(|case| case.run(gateway, patience)).collect()
}

/// What the origin finds wrong with the requests.
fn findings_at(origin: Origin, cases: &[Case]) -> Vec<String> {
    let served = cases.iter().flat_map(Case::served).collect();
    let cut_off = cases.iter().filter_map(Case::cut_off).collect();
    origin::findings(&origin.finish(), &served, &cut_off)
}
