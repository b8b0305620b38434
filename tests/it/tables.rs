//! Tables of a run that compares a custom configuration and two versions of one gateway, at several numbers of users and
//! CPU limits. Every column exists and agrees with the cells.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::pages::blocks;
use crate::program::{finish, json, scenario, text, the_host, weir};
use crate::run::{assert_reconciled, measurements};

const GATEWAYS: [&str; 3] = ["now", "before", "mine"];

/// A wrapper of weir-gateway that reports version 0.0.9.
fn other_version(folder: &Path) -> PathBuf {
    let gateway = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("weir-gateway");
    let path = folder.join("weir-gateway-0.0.9");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo weir-gateway 0.0.9 && exit 0\nexec {} \"$@\"\n",
        gateway.display()
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A scenario with two numbers of users, an open load, two limits and one repeat.
fn compared(folder: &Path) -> PathBuf {
    let own = blocks("scenarios.md").into_iter().find(|block| block.language == "nginx").unwrap().text;
    std::fs::write(folder.join("my.conf"), own).unwrap();
    let gateways = format!(
        "[{{ name: now, driver: weir }}, {{ name: before, driver: weir, binary: {} }}, \
         {{ name: mine, driver: nginx, config: ./my.conf }}]",
        other_version(folder).display()
    );
    let path = scenario(folder, &gateways, "vary: { limits.data.cpus: [0.25, 0.5] }\n");
    let written = std::fs::read_to_string(&path).unwrap();
    let full = "  full: { model: closed, connections: 4 }\n";
    let users =
        "  users-2: { model: closed, connections: 2 }\n  users-4: { model: closed, connections: 4 }\n";
    assert!(written.contains(full), "{written}");
    std::fs::write(&path, written.replace(full, users).replace("repeats: 2", "repeats: 1")).unwrap();
    path
}

/// (Ended requests, failed requests) over the cells of a gateway at a load point.
fn counted(result: &Value, gateway: &str, point: &Value) -> (u64, u64) {
    let (mut requests, mut fails) = (0, 0);
    for cell in result["cells"].as_array().unwrap() {
        if cell["key"]["gateway"] != gateway || cell["key"]["axes"] != point["axes"] {
            continue;
        }
        let loads = cell["outcome"]["measurements"].as_array().unwrap();
        let books =
            &loads.iter().find(|load| load["load"] == point["load"]).unwrap()["record"]["result"]["requests"];
        let of = |name: &str| books[name].as_u64().unwrap();
        let lost = of("failed") + of("timed_out") + of("dropped");
        requests += of("completed") + lost;
        fails += of("unexpected") + lost;
    }
    (requests, fails)
}

#[test]
fn a_user_configuration_and_two_versions_are_compared_over_users_and_limits() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let path = compared(folder.path());
    let arguments = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--json"];
    let output = finish(weir(folder.path(), &arguments));
    let result = json(&output);
    for gateway in GATEWAYS.into_iter().chain(["direct"]) {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 6, "three loads at two limits of {gateway}");
        all.into_iter().for_each(|measurement| assert_reconciled(measurement, gateway));
    }

    let summary = &result["summary"];
    let points = summary["points"].as_array().unwrap();
    for point in points {
        for row in point["rows"].as_array().unwrap() {
            let requests = &row["requests"];
            let said = (requests["requests"].as_u64().unwrap(), requests["fails"].as_u64().unwrap());
            assert_eq!(said, counted(&result, row["gateway"].as_str().unwrap(), point), "{row}");
        }
    }
    let experiments = summary["experiments"].as_array().unwrap();
    assert_eq!(experiments.len(), 1, "{experiments:?}");
    let limits: Vec<_> =
        experiments[0]["limits"].as_array().unwrap().iter().map(|limit| &limit["cpus"]).collect();
    assert_eq!(limits, [0.25, 0.5]);
    let saturations = experiments[0]["saturations"].as_array().unwrap();
    assert_eq!(saturations.len(), GATEWAYS.len() * limits.len());
    // One repeat is too few for a headline, so the report draws no conclusion.
    for saturation in saturations {
        assert_eq!(
            (saturation["counted_at"].as_array().unwrap().len(), &saturation["maximum"]),
            (0, &Value::Null)
        );
        assert!(saturation["analysis"].as_str().unwrap().starts_with("No conclusion about"), "{saturation}");
    }

    let report = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    for columns in [
        "| Gateway | Limit | Users | RPS | CPU % range | CPU per request | p99 | Of direct | Valid repeats | Analysis |",
        "| Limit | Offered | Gateway | p50 | p99 | Valid repeats |",
        "| Limit | Users | Direct RPS | Gateway | Share of direct |",
        "| Gateway | Mean RPS, users-4 | CPU % of limit | CPU per request | Peak memory | p50 at 300/s | p99 at 300/s |",
        "| Gateway | Requests | Fails | Avg | Min | Max | Med | Req/s | Failures/s |",
        "| Gateway | 50 % | 66 % | 75 % | 80 % | 90 % | 95 % | 98 % | 99 % | 99.9 % | 99.99 % | 100 % |",
        "| CPU % of limit | Throttled | Memory | Limit | Memory % | Peak | Network in | Network out | Block in | \
         Block out | PIDs |",
        "| Object | Role | Description | Version |",
        "| before: weir | data plane | gateway under test, driver weir, binary",
        "| 0.0.9 |",
        "| mine: nginx | data plane | gateway under test, driver nginx, configuration",
        "| 0.250 cores to 0.500 cores |",
    ] {
        assert!(report.contains(columns), "no `{columns}` in\n{report}\n{}", text(&output.stderr));
    }
}
