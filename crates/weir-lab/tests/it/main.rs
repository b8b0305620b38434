//! The scenario language and the plan, from outside.

#![allow(clippy::unwrap_used)]

mod errors;
mod language;
mod order;

use weir_lab::{Checked, Known, LabError, Overrides, Source};

/// A host with two cores, and the drivers that weir comes with.
fn known() -> Known {
    Known { drivers: ["envoy", "haproxy", "nginx", "weir"].map(str::to_owned).to_vec(), cpus: 2 }
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

/// The example of the design, word for word.
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
