//! The metrics that are written, each with its name in Prometheus and in OpenTelemetry.

/// A metric.
#[derive(Debug)]
pub(crate) struct Family {
    /// In Prometheus.
    pub(crate) name: &'static str,
    /// In OpenTelemetry.
    pub(crate) otlp_name: &'static str,
    /// In the notation of OpenTelemetry (UCUM).
    pub(crate) unit: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

pub(crate) static SENT: Family = Family {
    name: "weir_load_requests_sent_total",
    otlp_name: "weir.load.requests.sent",
    unit: "{request}",
    kind: Kind::Counter,
    help: "Requests that the load generator sent, warm-up and drain included.",
};

pub(crate) static COMPLETED: Family = Family {
    name: "weir_load_requests_completed_total",
    otlp_name: "weir.load.requests.completed",
    unit: "{request}",
    kind: Kind::Counter,
    help: "Whole responses, with any status.",
};

pub(crate) static ERRORS: Family = Family {
    name: "weir_load_errors_total",
    otlp_name: "weir.load.errors",
    unit: "{request}",
    kind: Kind::Counter,
    help: "Errors by class: unexpected (status 400 or above, or a failed check), failed, timed_out, dropped, in_flight.",
};

pub(crate) static DURATION: Family = Family {
    name: "weir_load_request_duration_seconds",
    otlp_name: "http.client.request.duration",
    unit: "s",
    kind: Kind::Histogram,
    help: "Latency of whole responses; in open loop from the intended send time.",
};

pub(crate) static OFFERED: Family = Family {
    name: "weir_load_offered_requests_per_second",
    otlp_name: "weir.load.offered",
    unit: "{request}/s",
    kind: Kind::Gauge,
    help: "Arrival rate of the schedule; only in open loop.",
};

pub(crate) static CONNECTIONS: Family = Family {
    name: "weir_load_connections",
    otlp_name: "weir.load.connections",
    unit: "{connection}",
    kind: Kind::Gauge,
    help: "Connections that the load uses.",
};

pub(crate) static CPU_CORES: Family = Family {
    name: "weir_part_cpu_cores",
    otlp_name: "weir.part.cpu",
    unit: "{cpu}",
    kind: Kind::Gauge,
    help: "CPU time over wall time, by part and role.",
};

pub(crate) static MEMORY: Family = Family {
    name: "weir_part_memory_bytes",
    otlp_name: "weir.part.memory",
    unit: "By",
    kind: Kind::Gauge,
    help: "Memory without the page cache, by part and role.",
};

pub(crate) static VALID: Family = Family {
    name: "weir_valid",
    otlp_name: "weir.valid",
    // By the unit of a ratio, a Prometheus that receives OTLP would call it `weir_valid_ratio`.
    unit: "",
    kind: Kind::Gauge,
    help: "Verdict on a metric of a load: 1 valid, 0.5 bounded, 0 invalid. Written once the load is judged.",
};

#[cfg(test)]
pub(crate) static ALL: [&Family; 9] =
    [&SENT, &COMPLETED, &ERRORS, &DURATION, &OFFERED, &CONNECTIONS, &CPU_CORES, &MEMORY, &VALID];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_every_metric() {
        let page = include_str!("../../../docs/watching.md");
        for family in ALL {
            assert!(page.contains(&format!("`{}`", family.name)), "docs/watching.md has no {}", family.name);
            assert!(page.contains(&format!("`{}`", family.otlp_name)), "no {}", family.otlp_name);
        }
    }

    #[test]
    fn counters_end_with_total_and_others_do_not() {
        for family in ALL {
            assert_eq!(family.kind == Kind::Counter, family.name.ends_with("_total"), "{}", family.name);
        }
    }
}
