//! Measures axes and cases: each cell uses the limits and connections of its point.

use serde_json::Value;

use crate::program::{json, the_host};
use crate::run::{assert_reconciled, run};

const SWEEP: &str = "\
cases:
  - { limits: { data: { cpus: 0.25, memory: 64MiB } }, loads: { full: { connections: 2 } } }
  - { limits: { data: { cpus: 0.5, memory: 96MiB } }, loads: { full: { connections: 3 } } }
vary: { limits.origin.cpus: [0.5, 1] }
";

/// The (CPU, memory) limits of a part with this role.
fn limit<'a>(cell: &'a Value, role: &str) -> (&'a Value, &'a Value) {
    let part = cell["parts"].as_array().unwrap().iter().find(|part| part["role"] == role);
    let part = part.unwrap_or_else(|| panic!("no part with role {role}: {cell}"));
    (&part["limit_cpus"], &part["limit_memory_bytes"])
}

#[test]
fn each_cell_has_the_limits_and_connections_of_its_point() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let limits = ["--set", "limits.generator.cpus=1", "--repeats", "1"];
    let result = json(&run(folder.path(), "[nginx]", SWEEP, &limits));
    let cells = result["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8, "a gateway and the baseline at four points");
    let mut points = Vec::new();
    for cell in cells {
        let axes = &cell["key"]["axes"];
        let measurements = cell["outcome"]["measurements"].as_array().unwrap_or_else(|| panic!("{cell}"));
        assert_eq!(measurements[0]["connections"], axes["loads.full.connections"]);
        assert_eq!(limit(cell, "origin").0.as_f64(), axes["limits.origin.cpus"].as_f64());
        assert_eq!(limit(cell, "generator").0.as_f64(), Some(1.0));
        let gateway = cell["key"]["gateway"].as_str().unwrap();
        measurements.iter().for_each(|measurement| assert_reconciled(measurement, gateway));
        if gateway == "direct" {
            continue;
        }
        let (cpus, memory) = limit(cell, "data");
        assert_eq!(cpus, &axes["limits.data.cpus"]);
        let memory = format!("{}MiB", memory.as_u64().unwrap() >> 20);
        assert_eq!(memory, axes["limits.data.memory"].as_str().unwrap());
        points.push(format!("{cpus} {}", limit(cell, "origin").0));
    }
    points.sort_unstable();
    assert_eq!(points, ["0.25 0.5", "0.25 1.0", "0.5 0.5", "0.5 1.0"]);
}
