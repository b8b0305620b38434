//! Limits and use of the parts of the rig, summed by role.

use weir_analysis::role_usage;
use weir_results::{NetworkUsage, Part, Role, Usage};

use super::Column;
use crate::entry::Entry;

const ROLES: [(&str, Role); 5] = [
    ("data", Role::Data),
    ("control", Role::Control),
    ("origin", Role::Origin),
    ("generator", Role::Generator),
    ("service", Role::Service),
];

/// The columns of every role.
pub(super) fn columns() -> Vec<Column> {
    ROLES.into_iter().flat_map(|(name, role)| of_role(name, role)).collect()
}

fn of_role(name: &str, role: Role) -> Vec<Column> {
    let float = |what: &str, of: fn(&Usage) -> Option<f64>| {
        Column::float(format!("{name}_{what}"), move |entry| usage(entry, role).as_ref().and_then(of))
    };
    let integer = |what: &str, of: fn(&Usage) -> Option<u64>| {
        Column::integer(format!("{name}_{what}"), move |entry| usage(entry, role).as_ref().and_then(of))
    };
    let network = |what: &str, of: fn(&NetworkUsage) -> u64| {
        Column::integer(format!("{name}_network_{what}"), move |entry| {
            usage(entry, role)?.network.as_ref().map(of)
        })
    };
    vec![
        Column::text(format!("{name}_version"), move |entry| {
            let parts: Vec<&str> = parts(entry, role)?.map(|part| part.version.as_str()).collect();
            (!parts.is_empty()).then(|| parts.join(";"))
        }),
        Column::float(format!("{name}_limit_cpus"), move |entry| {
            limits(entry, role, |part| part.limit_cpus, |a, b| a + b)
        }),
        Column::integer(format!("{name}_limit_memory_bytes"), move |entry| {
            limits(entry, role, |part| part.limit_memory_bytes, u64::saturating_add)
        }),
        float("cpu_s_user", |usage| (!usage.cpu_is_unsplit).then_some(usage.cpu_s.user)),
        float("cpu_s_system", |usage| (!usage.cpu_is_unsplit).then_some(usage.cpu_s.system)),
        float("cpu_cores", |usage| Some(usage.cpu_cores)),
        float("cpu_share_of_limit", |usage| usage.cpu_share_of_limit),
        float("throttled_s", |usage| usage.throttled_s),
        integer("periods", |usage| usage.periods),
        integer("periods_throttled", |usage| usage.periods_throttled),
        integer("memory_bytes_mean", |usage| usage.memory_bytes_mean),
        integer("memory_bytes_peak", |usage| usage.memory_bytes_peak),
        integer("threads_max", |usage| usage.threads_max),
        integer("pids_max", |usage| usage.pids_max),
        integer("open_files_max", |usage| usage.open_files_max),
        integer("sockets_max", |usage| usage.sockets_max),
        integer("block_read_bytes", |usage| usage.block_read_bytes),
        integer("block_written_bytes", |usage| usage.block_written_bytes),
        integer("switches_voluntary", |usage| usage.switches_voluntary),
        integer("switches_involuntary", |usage| usage.switches_involuntary),
        float("runqueue_s", |usage| usage.runqueue_s),
        network("received_bytes", |network| network.received_bytes),
        network("sent_bytes", |network| network.sent_bytes),
        network("received_packets", |network| network.received_packets),
        network("sent_packets", |network| network.sent_packets),
        network("retransmitted_segments", |network| network.retransmitted_segments),
    ]
}

fn usage(entry: &Entry<'_>, role: Role) -> Option<Usage> {
    role_usage(&entry.cell.parts, &entry.whole()?.usage, role)
}

/// The parts of a role, in rows of whole loads.
fn parts<'a>(entry: &Entry<'a>, role: Role) -> Option<impl Iterator<Item = &'a Part>> {
    entry.whole()?;
    Some(entry.cell.parts.iter().filter(move |part| part.role == role))
}

/// The sum of the limits of a role's parts; missing where there is no part, or one without a limit.
fn limits<T>(entry: &Entry<'_>, role: Role, of: fn(&Part) -> Option<T>, add: fn(T, T) -> T) -> Option<T> {
    let mut parts = parts(entry, role)?;
    let first = of(parts.next()?)?;
    parts.try_fold(first, |sum, part| Some(add(sum, of(part)?)))
}
