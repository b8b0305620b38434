//! Invalid faults of the upstream and of services: each gives one error with its location and a remedy.

use crate::errors::{LOADS, check, check_loads, said};
use crate::read;

#[test]
fn invalid_faults_are_rejected() {
    const REPLICAS: &str = "origin: { replicas: 2 }\n";
    // The scenario starts with two other lines, so the upstream is on line 3, and the faults are on line 4.
    let check_faults =
        |faults: &str, expected: &str| check(&format!("{REPLICAS}faults: [{faults}]\n"), expected);
    check(
        "faults: [{ at: 1s, replica: 2, do: kill }]\n",
        "side.yaml:3:29: faults[0].replica: the upstream has no replica 2 | set `origin.replicas`, or remove \
         `replica`",
    );
    check_faults(
        "{ at: 1s, replica: 3, do: kill }",
        "side.yaml:4:29: faults[0].replica: the upstream has no replica 3 | use 1 to 2",
    );
    check_faults(
        "{ at: 1s, replica: 0, do: kill }",
        "side.yaml:4:29: faults[0].replica: the upstream has no replica 0 | use 1 to 2",
    );
    check_faults("{ at: 1s, do: klil }", "side.yaml:4:24: unknown value `klil` | did you mean `kill`?");
    check_faults(
        "{ at: 1s, do: return }",
        "side.yaml:4:24: faults[0].do: replica 1 cannot return: no earlier fault stops it | remove this fault, \
         or add an earlier fault that stops the replica",
    );
    check_faults(
        "{ at: 1s, do: kill }, { at: 2s, do: stall }",
        "side.yaml:4:46: faults[1].do: replica 1 is already stopped by `kill` | add a `return` of this \
         replica before this fault",
    );
    check_faults(
        "{ at: 2s, do: kill }, { at: 1s, do: return }",
        "side.yaml:4:38: faults[1].at: the fault at 1s is listed after a fault at 2s | sort the faults by time",
    );
    check_faults(
        "{ at: 60s, do: kill }",
        "side.yaml:4:16: faults[0].at: the fault at 1m is after the end of load `full`, which lasts 1m | use an \
         earlier time, or a longer load",
    );
    check(
        "origin: { driver: nginx }\nfaults: [{ at: 1s, do: reset }]\n",
        "side.yaml:4:24: faults[0].do: an upstream with the driver `nginx` cannot reset connections | remove \
         `origin.driver`: the built-in origin can reset connections",
    );
    check_loads(
        "loads: { x: { model: closed, requests: 100 } }\nfaults: [{ at: 1s, do: kill }]\n",
        "side.yaml:3:40: loads.x.requests: a load with `requests` can end before the last fault | set \
         `duration` instead",
    );
    check(
        "origin: { replicas: 2 }\nchanges: { every: 1s, of: [endpoints] }\nfaults: [{ at: 1s, do: kill }]\n",
        "side.yaml:4:28: changes.of[0]: changes of `endpoints` cannot be combined with `faults` | remove \
         `endpoints` from this list, or remove `faults`",
    );
    said(
        read(&format!(
            "name: x\ngateways: [{{ name: prod, driver: remote, url: 'http://127.0.0.1:1' }}]\n\
             faults: [{{ at: 1s, do: kill }}]\n{LOADS}"
        )),
        "side.yaml:3:9: faults: weir cannot stop the upstream or a service of a remote gateway | remove the faults: weir \
         stops only processes that it started",
    );
}

#[test]
fn invalid_faults_of_services_are_rejected() {
    let check_faults = |gateways: &str, faults: &str, expected: &str| {
        let text = format!("name: x\ngateways: [{gateways}]\nfaults: [{faults}]\n{LOADS}");
        said(read(&text), expected);
    };
    let nats = "weir, gorouter";
    check_faults(
        nats,
        "{ at: 1s, service: nast, do: kill }",
        "side.yaml:3:29: faults[0].service: no gateway of this scenario needs a service `nast` | did you mean \
         `nats`?",
    );
    check_faults(
        "weir",
        "{ at: 1s, service: nats, do: kill }",
        "side.yaml:3:29: faults[0].service: no gateway of this scenario needs a service `nats` | add a gateway \
         that needs this service, like `gorouter`, or remove the fault",
    );
    check_faults(
        "weir",
        "{ at: 1s, service: message-bus, do: kill }",
        "side.yaml:3:29: faults[0].service: no gateway of this scenario needs a service `message-bus` | remove \
         the fault, or add a gateway whose driver lists the service in `needs`",
    );
    check_faults(
        nats,
        "{ at: 1s, service: kubernetes-api, do: kill }",
        "side.yaml:3:29: faults[0].service: no gateway of this scenario needs a service `kubernetes-api` | \
         services of this scenario: nats",
    );
    check_faults(
        nats,
        "{ at: 1s, service: nats, replica: 1, do: kill }",
        "side.yaml:3:44: faults[0].replica: `replica` and `service` cannot be combined | remove one of the two",
    );
    check_faults(
        nats,
        "{ at: 1s, service: nats, do: reset }",
        "side.yaml:3:39: faults[0].do: weir cannot make the service `nats` reset connections | use `kill` or \
         `stall`",
    );
    check_faults(
        nats,
        "{ at: 1s, do: kill }, { at: 2s, service: nats, do: return }",
        "side.yaml:3:61: faults[1].do: nats cannot return: no earlier fault stops it | remove this fault, or \
         add an earlier fault that stops the service",
    );
    check_faults(
        nats,
        "{ at: 1s, service: nats, do: stall }, { at: 2s, service: nats, do: kill }",
        "side.yaml:3:77: faults[1].do: nats is already stopped by `stall` | add a `return` of this \
         service before this fault",
    );
    let of_upstream = |faults: &str| {
        format!(
            "name: x\ngateways: [weir]\norigin: {{ service: kubernetes-api }}\n\
             topology: {{ tls: true, client_certificate: required, paths: [/api] }}\nfaults: [{faults}]\n{LOADS}"
        )
    };
    read(&of_upstream("{ at: 1s, service: kubernetes-api, do: kill }")).unwrap();
    said(
        read(&of_upstream("{ at: 1s, replica: 1, do: kill }")),
        "side.yaml:5:29: faults[0].replica: the upstream is the service `kubernetes-api`, which has no replicas | \
         use `service: kubernetes-api`, without `replica`",
    );
    check_faults(
        nats,
        "{ at: 1s, servce: nats, do: kill }",
        "side.yaml:3:20: unknown field `servce` | did you mean `service`?",
    );
    said(
        read(&format!(
            "name: x\ngateways: [gorouter]\nchanges: {{ every: 1s, of: [routes] }}\n\
             faults: [{{ at: 1s, service: nats, do: kill }}]\n{LOADS}"
        )),
        "side.yaml:3:10: changes: `changes` cannot be combined with faults of a service | remove one of the two",
    );
}
