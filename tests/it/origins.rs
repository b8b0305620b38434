//! Upstreams with the driver nginx instead of weir's origin: several replicas, and rejected options.

use crate::program::{json, text, the_host};
use crate::run::{assert_reconciled, measurements, run};

#[test]
fn every_gateway_and_the_baseline_use_all_replicas_and_the_counts_agree() {
    let _host = the_host();
    let folder = tempfile::tempdir().unwrap();
    let origin =
        ["--set", "origin.driver=nginx", "--set", "origin.replicas=3", "--set", "limits.origin.cpus=0.5"];
    let arguments = [&origin[..], &["--repeats", "1"]].concat();
    let result = json(&run(folder.path(), "[weir, nginx, haproxy, envoy]", "", &arguments));
    for gateway in ["weir", "nginx", "haproxy", "envoy", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 2, "two loads of {gateway}");
        for measurement in all {
            assert_reconciled(measurement, gateway);
            assert_eq!(measurement["record"]["result"]["requests"]["unexpected"], 0, "{gateway}");
            // A kernel that counts CPU time in ticks may report none for the light open load.
            if measurement["load"] != "full" {
                continue;
            }
            for replica in ["origin-1", "origin-2", "origin-3"] {
                let used = &measurement["usage"][replica]["cpu_s"];
                let total = used["user"].as_f64().unwrap() + used["system"].as_f64().unwrap();
                assert!(total > 0.0, "{gateway} does not use {replica}: {used}");
            }
        }
    }
    let parts = result["cells"][0]["parts"].as_array().unwrap();
    let origins: Vec<_> = parts.iter().filter(|part| part["role"] == "origin").collect();
    assert_eq!(origins.len(), 3);
    for origin in origins {
        assert!(
            origin["limit_cpus"] == 0.5 && origin["binary"].as_str().unwrap().contains("nginx"),
            "{origin}"
        );
    }
}

#[test]
fn options_that_the_origin_driver_lacks_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(
        folder.path(),
        "[weir]",
        "",
        &["--set", "origin.driver=nginx", "--set", "origin.delay=exp:1ms", "--plan"],
    );
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("driver `nginx` has no `delay`"), "{error}");
}
