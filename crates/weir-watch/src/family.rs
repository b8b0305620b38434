//! All metrics, with their names in Prometheus and in OpenTelemetry.

/// A metric and its description.
#[derive(Debug)]
pub struct Family {
    /// Name of the metric in Prometheus.
    pub name: &'static str,
    /// Name of the metric in OpenTelemetry.
    pub otlp_name: &'static str,
    /// Unit of the values, in the notation of OpenTelemetry (UCUM).
    pub unit: &'static str,
    /// Type of the metric.
    pub kind: Kind,
    /// Names of the labels that the metric has in addition to those of the load.
    pub labels: &'static [&'static str],
    /// What the metric means.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A counter, which only increases and starts at 0 with each load.
    Counter,
    /// A gauge, which increases and decreases.
    Gauge,
    /// A histogram: a native one in Prometheus, an exponential one in OpenTelemetry.
    Histogram,
}

impl Kind {
    /// The name of the type in Prometheus.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

pub(crate) static SENT: Family = Family {
    name: "weir_load_requests_sent_total",
    otlp_name: "weir.load.requests.sent",
    unit: "{request}",
    kind: Kind::Counter,
    labels: &[],
    help: "Requests sent.",
};

pub(crate) static COMPLETED: Family = Family {
    name: "weir_load_requests_completed_total",
    otlp_name: "weir.load.requests.completed",
    unit: "{request}",
    kind: Kind::Counter,
    labels: &[],
    help: "Complete responses, with any status.",
};

pub(crate) static ERRORS: Family = Family {
    name: "weir_load_errors_total",
    otlp_name: "weir.load.errors",
    unit: "{request}",
    kind: Kind::Counter,
    labels: &["class"],
    help: "Errors by class.",
};

pub(crate) static DURATION: Family = Family {
    name: "weir_load_request_duration_seconds",
    otlp_name: "http.client.request.duration",
    unit: "s",
    kind: Kind::Histogram,
    labels: &[],
    help: "Latency of complete responses; in an open loop, measured from the intended send time. Requests without a \
    response are in no bucket.",
};

pub(crate) static OFFERED: Family = Family {
    name: "weir_load_offered_requests_per_second",
    otlp_name: "weir.load.offered",
    unit: "{request}/s",
    kind: Kind::Gauge,
    labels: &[],
    help: "Arrival rate of the schedule; only for open loops.",
};

pub(crate) static CONNECTIONS: Family = Family {
    name: "weir_load_connections",
    otlp_name: "weir.load.connections",
    unit: "{connection}",
    kind: Kind::Gauge,
    labels: &[],
    help: "Connections that the load uses.",
};

pub(crate) static CPU_CORES: Family = Family {
    name: "weir_part_cpu_cores",
    otlp_name: "weir.part.cpu",
    unit: "{cpu}",
    kind: Kind::Gauge,
    labels: &["part", "role"],
    help: "CPU cores that a part of the rig on this host uses: CPU time divided by wall-clock time.",
};

pub(crate) static MEMORY: Family = Family {
    name: "weir_part_memory_bytes",
    otlp_name: "weir.part.memory",
    unit: "By",
    kind: Kind::Gauge,
    labels: &["part", "role"],
    help: "Memory of a part of the rig on this host, without the page cache.",
};

pub(crate) static VALID: Family = Family {
    name: "weir_valid",
    otlp_name: "weir.valid",
    // The unit is empty: with the unit of a ratio, Prometheus would name this metric `weir_valid_ratio` when it
    // receives OTLP.
    unit: "",
    kind: Kind::Gauge,
    labels: &["metric", "reason"],
    help: "Verdict on a metric of the load: 1 is valid, 0.5 is bounded (only a bound of the value is known), 0 is \
    invalid. Each reason has a separate series. weir writes the verdict after the load, with timestamps from the \
    start to the end of the load.",
};

static ALL: [&Family; 9] =
    [&SENT, &COMPLETED, &ERRORS, &DURATION, &OFFERED, &CONNECTIONS, &CPU_CORES, &MEMORY, &VALID];

/// All metrics, in the order of the reference page.
pub fn families() -> &'static [&'static Family] {
    &ALL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::LABELS;

    #[test]
    fn every_label_has_a_meaning() {
        let mut own: Vec<&str> = ALL.iter().flat_map(|family| family.labels.iter().copied()).collect();
        own.sort_unstable();
        own.dedup();
        let mut known: Vec<&str> =
            LABELS.iter().filter(|label| !label.is_of_load).map(|label| label.name).collect();
        known.sort_unstable();
        assert_eq!(own, known);
    }

    #[test]
    fn counters_end_with_total_and_others_do_not() {
        for family in ALL {
            assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        }
    }
}
