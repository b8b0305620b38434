//! The metrics, each with its name in Prometheus and in OpenTelemetry.

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// Name in Prometheus.
    pub name: &'static str,
    /// Name in OpenTelemetry.
    pub otlp_name: &'static str,
    /// Unit, in the notation of OpenTelemetry (UCUM).
    pub unit: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Names of its labels, in addition to those of the load.
    pub labels: &'static [&'static str],
    /// Its meaning.
    pub help: &'static str,
}

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only increases; starts at 0 with each load.
    Counter,
    /// Increases and decreases.
    Gauge,
    /// A native histogram in Prometheus, an exponential one in OpenTelemetry.
    Histogram,
}

impl Kind {
    /// Its name in Prometheus.
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
    help: "Latency of complete responses; in open loop from the intended send time. Requests without a response are in no bucket.",
};

pub(crate) static OFFERED: Family = Family {
    name: "weir_load_offered_requests_per_second",
    otlp_name: "weir.load.offered",
    unit: "{request}/s",
    kind: Kind::Gauge,
    labels: &[],
    help: "Arrival rate of the schedule; only in open loop.",
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
    help: "CPU time over wall time of a part on this host.",
};

pub(crate) static MEMORY: Family = Family {
    name: "weir_part_memory_bytes",
    otlp_name: "weir.part.memory",
    unit: "By",
    kind: Kind::Gauge,
    labels: &["part", "role"],
    help: "Memory of a part on this host, without the page cache.",
};

pub(crate) static VALID: Family = Family {
    name: "weir_valid",
    otlp_name: "weir.valid",
    // With the unit of a ratio, an OTLP receiver in Prometheus would name it `weir_valid_ratio`.
    unit: "",
    kind: Kind::Gauge,
    labels: &["metric", "reason"],
    help: "Verdict on a metric of the load: 1 valid, 0.5 bounded, 0 invalid, with one series per reason. Written when the load is judged, for its whole time.",
};

static ALL: [&Family; 9] =
    [&SENT, &COMPLETED, &ERRORS, &DURATION, &OFFERED, &CONNECTIONS, &CPU_CORES, &MEMORY, &VALID];

/// Every metric, in the order of the reference.
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
