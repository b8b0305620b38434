//! The public API of the scenario language and the plan.

#![allow(clippy::unwrap_used)]

mod configurations;
mod errors;
mod faults;
mod language;
mod objectives;
mod order;
mod origins;
mod rates;
mod remotes;
mod searches;
mod shares;

use weir_lab::{Checked, Known, LabError, Overrides, Source, plan};
use weir_results::{Manifest, Plane, Run, SCHEMA_VERSION};

/// What weir and the host offer in these tests: two cores, some drivers, and no network namespaces.
fn known() -> Known {
    Known {
        drivers: ["contour", "envoy", "gorouter", "haproxy", "kubegateway", "nginx", "weir"]
            .map(str::to_owned)
            .to_vec(),
        origins: vec!["nginx".into()],
        services: vec!["kubernetes-api".into()],
        needs: [("gorouter".to_owned(), vec!["nats".to_owned()])].into(),
        in_cluster: [("contour".to_owned(), vec![Plane::Data, Plane::Control])].into(),
        cpus: 2,
        namespaces: || Err("this user is not allowed to create network namespaces".into()),
    }
}

fn source(text: &str) -> Source {
    Source { name: "side.yaml".into(), text: text.into() }
}

fn read(text: &str) -> Result<Checked, LabError> {
    weir_lab::read(&source(text), &Overrides::default(), &known())
}

fn read_with(text: &str, overrides: &Overrides) -> Result<Checked, LabError> {
    weir_lab::read(&source(text), overrides, &known())
}

/// A stored run of the scenario `checked`.
fn run_of(checked: &Checked, seed: u64) -> Run {
    Run {
        schema_version: SCHEMA_VERSION,
        id: "20261121-0210-aaaa".into(),
        name: checked.scenario.name.clone(),
        question: checked.scenario.question.clone(),
        scenario: serde_json::to_value(&checked.scenario).unwrap(),
        seed,
        started_unix_ms: 1,
        ended_unix_ms: Some(2),
        plan: plan::plan(checked, seed).cells,
        objective: None,
        thresholds: checked.scenario.thresholds.clone(),
        manifest: Manifest { configurations: checked.configurations.clone(), ..Manifest::default() },
    }
}

/// A scenario that uses most of the language.
const EXAMPLE: &str = "\
name: side-by-side
question: Which proxy carries more on one core, at what tail latency and memory?
gateways: [weir, envoy, nginx, haproxy]      # or { name: old, driver: nginx, binary: /opt/nginx-1.20, set: {..} }
limits: { data: { cpus: 0.5, memory: 128MiB }, control: { cpus: 1 }, origin: { cpus: 1 } }   # by role
topology: { domains: 1, paths: [/ping] }     # or domains: 1000, paths: 100, tls: true, rewrite: /
origin: { body: 64B }                        # or { driver: nginx, replicas: 3 }
loads:
  full: { model: closed, connections: 10 }         # throughput and CPU per request
  tail: { model: open, rate: 5000/s }              # latency, at a rate equal for all
warmup: 5s
duration: 60s
vary: { limits.data.cpus: [0.25, 0.5] }      # axes, any field; or cases: [ {..}, {..} ], a list of partial maps
repeats: 3
objective: { p99: 20ms, errors: 0.1% }
";
