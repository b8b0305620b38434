//! Columns for limits and resources of the rig's parts, summed by role.

use weir_analysis::role_usage;
use weir_results::{NetworkUsage, Part, Role, Usage};

use super::Column;
use crate::entry::Entry;

/// The roles that have columns. Each entry contains the prefix of the columns, the role, and a description of the
/// role's parts.
const ROLES: [(&str, Role, &str); 5] = [
    ("data", Role::Data, "the gateway's data plane"),
    ("control", Role::Control, "the gateway's control plane"),
    ("origin", Role::Origin, "the upstream"),
    ("generator", Role::Generator, "the load generator"),
    ("service", Role::Service, "the gateway's services"),
];

/// A column: its name, its meaning, and the function that returns its value. In the meaning, WHO stands for the parts
/// of a role.
type Described<T, V> = (&'static str, &'static str, fn(&T) -> Option<V>);

/// The columns of all roles, one role after the other.
pub(super) fn columns() -> Vec<Column> {
    ROLES.into_iter().flat_map(|(name, role, who)| of_role(name, role, who)).collect()
}

fn of_role(name: &str, role: Role, who: &str) -> Vec<Column> {
    let mut columns = identity(name, role, who);
    columns.extend(processor(name, role, who));
    columns.extend(counts(name, role, who));
    columns.extend(network(name, role, who));
    columns
}

fn identity(name: &str, role: Role, who: &str) -> Vec<Column> {
    vec![
        Column::text(
            format!("{name}_version"),
            format!("Version of {who}; the versions of several parts are joined by `;`."),
            move |entry| {
                let parts: Vec<&str> = parts(entry, role)?.map(|part| part.version.as_str()).collect();
                (!parts.is_empty()).then(|| parts.join(";"))
            },
        ),
        Column::float(
            format!("{name}_limit_cpus"),
            format!("CPU limit of {who}, cores; missing if there is no limit."),
            move |entry| limits(entry, role, |part| part.limit_cpus, |a, b| a + b),
        ),
        Column::integer(
            format!("{name}_limit_memory_bytes"),
            format!("Memory limit of {who}, bytes; missing if there is no limit."),
            move |entry| limits(entry, role, |part| part.limit_memory_bytes, u64::saturating_add),
        ),
    ]
}

/// Columns for the CPU time in the sustained phase.
fn processor(name: &str, role: Role, who: &str) -> Vec<Column> {
    const VALUES: [Described<Usage, f64>; 5] = [
        (
            "cpu_s_user",
            "CPU time in user mode of WHO in the sustained phase, seconds; missing if it cannot be separated from system \
             time.",
            |usage| (!usage.cpu_is_unsplit).then_some(usage.cpu_s.user),
        ),
        (
            "cpu_s_system",
            "CPU time in system mode of WHO in the sustained phase, seconds; missing if it cannot be separated from user \
             time.",
            |usage| (!usage.cpu_is_unsplit).then_some(usage.cpu_s.system),
        ),
        ("cpu_cores", "Cores that WHO used: CPU time divided by wall time.", |usage| Some(usage.cpu_cores)),
        ("cpu_share_of_limit", "Cores that WHO used, divided by the CPU limit of WHO.", |usage| {
            usage.cpu_share_of_limit
        }),
        ("throttled_s", "Time in which the CPU quota throttled WHO, seconds.", |usage| usage.throttled_s),
    ];
    let column = |(what, meaning, of): Described<Usage, f64>| {
        let value = move |entry: &Entry<'_>| usage(entry, role).as_ref().and_then(of);
        Column::float(format!("{name}_{what}"), meaning.replace("WHO", who), value)
    };
    VALUES.into_iter().map(column).collect()
}

/// Columns for counts and bytes in the sustained phase.
fn counts(name: &str, role: Role, who: &str) -> Vec<Column> {
    const VALUES: [Described<Usage, u64>; 12] = [
        ("periods", "Number of quota periods of WHO in the sustained phase.", |usage| usage.periods),
        ("periods_throttled", "Number of quota periods in which the CPU quota throttled WHO.", |usage| {
            usage.periods_throttled
        }),
        ("memory_bytes_mean", "Mean memory of WHO without the page cache, bytes.", |usage| {
            usage.memory_bytes_mean
        }),
        ("memory_bytes_peak", "Maximum memory of WHO without the page cache, bytes.", |usage| {
            usage.memory_bytes_peak
        }),
        ("threads_max", "Maximum number of threads of WHO.", |usage| usage.threads_max),
        ("pids_max", "Maximum number of processes of WHO.", |usage| usage.pids_max),
        ("open_files_max", "Maximum number of open files of WHO.", |usage| usage.open_files_max),
        ("sockets_max", "Maximum number of open sockets of WHO.", |usage| usage.sockets_max),
        (
            "block_read_bytes",
            "Bytes that WHO read from block devices; reads from the page cache are not counted.",
            |usage| usage.block_read_bytes,
        ),
        (
            "block_written_bytes",
            "Bytes that WHO wrote to block devices; writes that stay in the page cache are not counted.",
            |usage| usage.block_written_bytes,
        ),
        ("switches_voluntary", "Voluntary context switches of WHO.", |usage| usage.switches_voluntary),
        ("switches_involuntary", "Involuntary context switches of WHO.", |usage| usage.switches_involuntary),
    ];
    let column = |(what, meaning, of): Described<Usage, u64>| {
        let value = move |entry: &Entry<'_>| usage(entry, role).as_ref().and_then(of);
        Column::integer(format!("{name}_{what}"), meaning.replace("WHO", who), value)
    };
    VALUES.into_iter().map(column).collect()
}

/// Columns for the run-queue delay, and for the traffic of the network namespace.
fn network(name: &str, role: Role, who: &str) -> Vec<Column> {
    const VALUES: [Described<NetworkUsage, u64>; 5] = [
        ("received_bytes", "Bytes that WHO received, with Ethernet headers", |usage| {
            Some(usage.received_bytes)
        }),
        ("sent_bytes", "Bytes that WHO sent, with Ethernet headers", |usage| Some(usage.sent_bytes)),
        ("received_packets", "Packets that WHO received", |usage| Some(usage.received_packets)),
        ("sent_packets", "Packets that WHO sent", |usage| Some(usage.sent_packets)),
        ("retransmitted_segments", "TCP segments that WHO retransmitted", |usage| {
            usage.retransmitted_segments
        }),
    ];
    let column = |(what, meaning, of): Described<NetworkUsage, u64>| {
        let meaning = format!("{}; missing with `network: loopback`.", meaning.replace("WHO", who));
        Column::integer(format!("{name}_network_{what}"), meaning, move |entry| {
            usage(entry, role)?.network.as_ref().and_then(of)
        })
    };
    let runqueue = Column::float(
        format!("{name}_runqueue_s"),
        format!(
            "Run-queue delay of {who}, seconds: time in which threads were ready and waited for a CPU, summed over all \
             threads. It includes throttling by the quota."
        ),
        move |entry| usage(entry, role)?.runqueue_s,
    );
    [runqueue].into_iter().chain(VALUES.into_iter().map(column)).collect()
}

fn usage(entry: &Entry<'_>, role: Role) -> Option<Usage> {
    role_usage(&entry.cell.parts, &entry.whole()?.usage, role)
}

/// The parts that have this role; `None` unless the row shows a whole load.
fn parts<'a>(entry: &Entry<'a>, role: Role) -> Option<impl Iterator<Item = &'a Part>> {
    entry.whole()?;
    Some(entry.cell.parts.iter().filter(move |part| part.role == role))
}

/// The sum of the limits of all parts with this role; `None` if there are no parts, or if one of them has no limit.
fn limits<T>(entry: &Entry<'_>, role: Role, of: fn(&Part) -> Option<T>, add: fn(T, T) -> T) -> Option<T> {
    let mut parts = parts(entry, role)?;
    let first = of(parts.next()?)?;
    parts.try_fold(first, |sum, part| Some(add(sum, of(part)?)))
}
