//! Where and with what it ran: the inventory of the rig and the manifest (METHOD 16).

use weir_analysis::{Summary, quantity};
use weir_results::{Manifest, Part, Role, Run};

use crate::model::{Column, Entry, Fact, KEEP, Table};
use crate::tables::role_name;

/// The objects of the rig: a row per part of each gateway, and each part of origin and generator once.
pub(crate) fn inventory(summary: &Summary) -> Table {
    let columns = [
        "Part",
        "Role",
        "Version",
        "CPU limit",
        "Memory limit",
        "Limited by",
        "Binary",
        "Configuration",
        "Command",
    ]
    .map(|title| Column::text(title, KEEP))
    .to_vec();
    let mut rows = Vec::new();
    let mut shared: Vec<&Part> = Vec::new();
    for gateway in &summary.gateways {
        for part in &gateway.parts {
            // Two gateways may be the same program; origin and generator are those of the whole run.
            let is_own = matches!(part.role, Role::Data | Role::Control);
            let name = match is_own && part.name != gateway.name {
                true => format!("{}: {}", gateway.name, part.name),
                false => part.name.clone(),
            };
            if !is_own && shared.iter().any(|known| known.name == part.name && known.role == part.role) {
                continue;
            }
            shared.extend(Some(part).filter(|_| !is_own));
            rows.push(part_row(part, name));
        }
    }
    Table { caption: "Inventory".into(), columns, rows }
}

/// The environment, line by line; what could not be read is `n/a`.
pub(crate) fn manifest(run: &Run) -> Vec<Fact> {
    let Manifest {
        weir_version,
        command_line,
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
        Fact::new("TLS", tls.clone().unwrap_or_else(|| "none: plain text".into())),
        Fact::new("Mitigations", if mitigated.is_empty() { "n/a".into() } else { mitigated.join("; ") }),
    ];
    facts.extend(configurations.iter().map(|(name, file)| {
        let hash = short(&file.sha256);
        Fact::new(format!("Configuration of {name}"), format!("{}, SHA-256 {hash}", file.path))
    }));
    facts
}

/// A moment in UTC.
pub(crate) fn when(unix_ms: u64) -> String {
    let moment = i64::try_from(unix_ms).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
    moment.map_or_else(|| "n/a".into(), |moment| moment.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

/// As much of a hash as tells it from every other.
fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}

fn part_row(part: &Part, name: String) -> Vec<Entry> {
    let limited = if part.limits_applied { part.limited_by.clone() } else { "not applied".into() };
    vec![
        Entry::text(name),
        Entry::text(role_name(part.role)),
        Entry::text(part.version.clone()),
        Entry::text(part.limit_cpus.map_or("none".into(), |cpus| format!("{} cores", quantity::cores(cpus)))),
        Entry::text(part.limit_memory_bytes.map_or("none".into(), |bytes| quantity::bytes(bytes as f64))),
        Entry::text(limited),
        Entry::text(short(&part.binary_sha256)),
        Entry::text(part.config_sha256.as_deref().map_or("–".into(), short)),
        Entry::text(part.command.join(" ")),
    ]
}
