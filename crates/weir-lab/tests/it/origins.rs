//! Another server as upstream: valid and invalid fields.

use weir_document::Size;
use weir_lab::Checked;

use crate::read;

const HEAD: &str = "name: x\ngateways: [weir]\nloads: { full: { model: closed } }\n";

fn scenario(origin: &str) -> Result<Checked, String> {
    read(&format!("{HEAD}origin: {origin}\n")).map_err(|error| {
        assert!(error.is_wrong_use(), "{error:?}");
        format!("{error} | {}", error.remedy())
    })
}

#[track_caller]
fn check(origin: &str, expected: &str) {
    assert_eq!(scenario(origin).unwrap_err(), expected);
}

#[test]
fn replicas_work_with_another_server_and_with_the_built_in_origin() {
    let origin = scenario("{ driver: nginx, replicas: 3, body: 2KiB, workers: 2 }").unwrap().scenario.origin;
    assert_eq!(
        (origin.driver.as_deref(), origin.replica_count(), origin.body),
        (Some("nginx"), 3, Size(2048))
    );
    assert_eq!(scenario("{ driver: nginx }").unwrap().scenario.origin.replica_count(), 1);
    let own = scenario("{ replicas: 3, delay: exp:1ms }").unwrap().scenario.origin;
    assert_eq!((own.driver.as_deref(), own.replica_count()), (None, 3));
}

#[test]
fn the_number_of_replicas_can_vary() {
    let text = format!("{HEAD}origin: {{ driver: nginx }}\nvary: {{ origin.replicas: [1, 3] }}\n");
    let points = read(&text).unwrap().points;
    let counts: Vec<u32> = points.iter().map(|point| point.scenario.origin.replica_count()).collect();
    assert_eq!(counts, [1, 3]);
}

#[test]
fn unsupported_fields_of_another_server_are_rejected_by_name() {
    for (field, value) in [
        ("echo", "true"),
        ("delay", "exp:1ms"),
        ("service", "exp:1ms"),
        ("servers", "2"),
        ("stall", "1ms/1s"),
        ("drift", "1ms/10s"),
        ("seed", "7"),
        ("spin", "true"),
        ("errors", "1%"),
        ("faults", "{ silent: true }"),
        ("http1_only", "true"),
        ("http2", "{ goaway: 9 }"),
        ("tls", "{}"),
    ] {
        let column = "origin: { driver: nginx, ".len() + field.len() + ": ".len() + 1;
        check(
            &format!("{{ driver: nginx, {field}: {value} }}"),
            &format!(
                "side.yaml:4:{column}: origin.{field}: an origin with the driver `nginx` has no `{field}` | \
                 remove `{field}`, or remove `driver`: only the built-in origin has `{field}`"
            ),
        );
    }
}

#[test]
fn invalid_origins_have_a_remedy() {
    check(
        "{ driver: ngnix }",
        "side.yaml:4:19: origin.driver: driver `ngnix` cannot serve as the upstream | did you mean `nginx`?",
    );
    check(
        "{ driver: haproxy }",
        "side.yaml:4:19: origin.driver: driver `haproxy` cannot serve as the upstream | known origins: nginx; \
         without `driver`, weir starts its built-in origin",
    );
    check("{ replicas: 101 }", "side.yaml:4:21: origin.replicas: `101` is out of range | use 1 to 100");
    check(
        "{ driver: nginx, replicas: 0 }",
        "side.yaml:4:36: origin.replicas: `0` is out of range | use 1 to 100",
    );
    check(
        "{ driver: nginx, body: 1GiB }",
        "side.yaml:4:32: origin.body: a body of 1GiB is too large for an origin with a driver | use at most 64MiB",
    );
}
