//! The environment of the run, as the manifest records it (`docs/method.md#manifest`).

use std::collections::BTreeSet;

use weir_analysis::quantity;
use weir_results::{Cell, CellOutcome, Manifest, Pilot, Run};

use crate::model::Fact;

/// The facts of the environment. Values that could not be read are `n/a`.
pub(crate) fn manifest(run: &Run, cells: &[Cell]) -> Vec<Fact> {
    let Manifest {
        weir_version,
        command_line,
        repeats_were_added,
        kernel,
        os,
        cpu_model,
        cpus,
        cpu_governor,
        memory_bytes,
        mitigations,
        clock_source,
        virtualized,
        cgroup,
        open_files_max,
        network,
        tls,
        configurations,
        pilot,
    } = &run.manifest;
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "n/a".into());
    let mitigated: Vec<String> = mitigations.iter().map(|(name, state)| format!("{name}: {state}")).collect();
    let mut facts = vec![
        Fact::new("Run", run.id.clone()),
        Fact::new("Command line", command_line.join(" ")),
        Fact::new("Seed", run.seed.to_string()),
        Fact::new("Started", when(run.started_unix_ms)),
        Fact::new("weir", weir_version.clone()),
        Fact::new("Operating system", text(os)),
        Fact::new("Kernel", text(kernel)),
        Fact::new("CPU", text(cpu_model)),
        Fact::new("Logical CPUs", cpus.map_or("n/a".into(), |cpus| cpus.to_string())),
        Fact::new("CPU governor", text(cpu_governor)),
        Fact::new("Virtualized", virtualized.map_or("n/a", |yes| if yes { "yes" } else { "no" })),
        Fact::new("Memory", memory_bytes.map_or("n/a".into(), |bytes| quantity::bytes(bytes as f64))),
        Fact::new("Clock source", text(clock_source)),
        Fact::new("Cgroups", text(cgroup)),
        Fact::new("Open files", open_files_max.map_or("n/a".into(), quantity::count)),
        Fact::new("Network", network.clone()),
        Fact::new(
            "TLS",
            negotiated(cells).or_else(|| tls.clone()).unwrap_or_else(|| "none: plain text".into()),
        ),
        Fact::new("Mitigations", if mitigated.is_empty() { "n/a".into() } else { mitigated.join("; ") }),
    ];
    if *repeats_were_added {
        facts.push(Fact::new(
            "Repeats",
            "added after earlier results of the run were seen; intervals remain valid",
        ));
    }
    facts.extend(pilot.iter().flat_map(pilot_facts));
    facts.extend(configurations.iter().map(|(name, file)| {
        let hash = short(&file.sha256);
        Fact::new(format!("Configuration of {name}"), format!("{}, SHA-256 {hash}", file.path))
    }));
    facts
}

/// Formats a time in UTC.
pub(crate) fn when(unix_ms: u64) -> String {
    let moment = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment.map_or_else(|| "n/a".into(), |moment| moment.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// The TLS parameters that connections negotiated in the run; `None` if no connection used TLS.
fn negotiated(cells: &[Cell]) -> Option<String> {
    let measured = cells.iter().filter_map(|cell| match &cell.outcome {
        CellOutcome::Measured { measurements } => Some(measurements),
        CellOutcome::Failed { .. } => None,
    });
    let all = measured.flatten().filter_map(|measurement| measurement.record.result.tls.as_ref());
    let suites: BTreeSet<&str> = all.flat_map(|tls| tls.negotiated.keys().map(String::as_str)).collect();
    (!suites.is_empty()).then(|| suites.into_iter().collect::<Vec<_>>().join(", "))
}

/// The first 12 digits of a hash, which are enough to distinguish it from others.
pub(crate) fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

/// Load rates that weir derived from the result of a pilot load before the run.
fn pilot_facts(pilot: &Pilot) -> Vec<Fact> {
    pilot.rates.iter().map(|rate| Fact::new("Pilot", rate.words())).collect()
}
