//! Labels of series. Their number and length are limited, because each combination is a series in the receiver.

/// Maximum length of a label's value, characters; longer ones are truncated.
pub const LABEL_CHARS_MAX: usize = 64;

/// A label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its name in Prometheus.
    pub name: &'static str,
    /// Its name in OpenTelemetry.
    pub otlp_name: &'static str,
    /// Whether every series of a load has it.
    pub is_of_load: bool,
    /// The meaning of its values.
    pub meaning: &'static str,
}

/// Every label.
pub const LABELS: [Label; 12] = [
    of_load("run", "weir.run", "ID of the run; `load-..` for `weir load`."),
    of_load(
        "gateway",
        "weir.gateway",
        "Name of the gateway, or `direct`; for `weir load` the host of the URL.",
    ),
    of_load("load", "weir.load", "Name of the load."),
    of_load(
        "cell",
        "weir.cell",
        "Position of the cell in the run, with the values of its axes: `3 limits.data.cpus=0.5`.",
    ),
    of_load("repeat", "weir.repeat", "Repeat, from 1."),
    of_load(
        "attempt",
        "weir.attempt",
        "Missing for the first attempt. Counts from 2 if weir measures the load again after host noise.",
    ),
    of_load(
        "agent",
        "weir.agent",
        "Agent that generates this share of the load; missing for load from this host. The sum over agents is the load.",
    ),
    own(
        "class",
        "error.type",
        "`unexpected` (status 400 or above, or a failed check; also counted as completed), `failed`, `timed_out`, \
         `dropped` or `in_flight`.",
    ),
    own("part", "weir.part", "Name of the part."),
    own("role", "weir.role", "`data`, `control`, `origin`, `generator` or `service`."),
    own(
        "metric",
        "weir.metric",
        "`throughput`, `cpu` (CPU time per request), `latency` (all latencies together), `mean`, `p50`, `p90`, `p99` or \
         `p999`.",
    ),
    own("reason", "weir.reason", "Why the metric is not valid; missing if it is."),
];

const fn of_load(name: &'static str, otlp_name: &'static str, meaning: &'static str) -> Label {
    Label { name, otlp_name, is_of_load: true, meaning }
}

const fn own(name: &'static str, otlp_name: &'static str, meaning: &'static str) -> Label {
    Label { name, otlp_name, is_of_load: false, meaning }
}

/// Labels that identify a load. Empty values are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// ID of the run; `load-..` for `weir load`.
    pub run: String,
    /// Name of the gateway, or `direct`; the host of the URL for `weir load`.
    pub gateway: String,
    /// Name of the load.
    pub load: String,
    /// Position of the cell in the run, with the values of the axes: `3 limits.data.cpus=0.5`.
    pub cell: String,
    /// Repeat, from 1.
    pub repeat: String,
    /// Counts from 2 if weir repeats the load after host noise; empty for the first attempt.
    pub attempt: String,
    /// The agent that generated this share of the load; empty for load from this host.
    pub agent: String,
}

/// Attributes of requests in OpenTelemetry's HTTP client conventions. `None` if a value differs between requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// `server.address`.
    pub address: Option<String>,
    /// `server.port`.
    pub port: Option<u16>,
    /// `http.request.method`.
    pub method: Option<String>,
    /// `url.scheme`.
    pub scheme: Option<String>,
}

/// Names and values, sorted by name.
pub(crate) type Pairs = Vec<(&'static str, String)>;

impl Labels {
    /// Whether both are of the same load, for any agent.
    pub(crate) fn is_of_load(&self, load: &Labels) -> bool {
        let own = |labels: &Labels| Labels { agent: String::new(), ..labels.clone() };
        own(self) == own(load)
    }

    /// Its labels and `more`.
    pub(crate) fn with(&self, more: &[(&'static str, &str)]) -> Pairs {
        let own = [
            ("run", &self.run),
            ("gateway", &self.gateway),
            ("load", &self.load),
            ("cell", &self.cell),
            ("repeat", &self.repeat),
            ("attempt", &self.attempt),
            ("agent", &self.agent),
        ];
        let own = own.into_iter().filter(|(_, value)| !value.is_empty());
        let own = own.map(|(name, value)| (name, cut(value)));
        let mut pairs: Pairs = own.chain(more.iter().map(|(name, value)| (*name, cut(value)))).collect();
        pairs.sort_unstable();
        pairs
    }
}

fn cut(value: &str) -> String {
    value.chars().take(LABEL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_has_every_label_of_a_load() {
        let all = |name: &str| name.to_owned();
        let labels = Labels {
            run: all("run"),
            gateway: all("gateway"),
            load: all("load"),
            cell: all("cell"),
            repeat: all("repeat"),
            attempt: all("attempt"),
            agent: all("agent"),
        };
        let mut listed: Vec<&str> =
            LABELS.iter().filter(|label| label.is_of_load).map(|label| label.name).collect();
        listed.sort_unstable();
        assert_eq!(labels.with(&[]).iter().map(|(name, _)| *name).collect::<Vec<_>>(), listed);
    }

    #[test]
    fn labels_are_sorted_and_limited() {
        let labels = Labels { run: "r".into(), gateway: "g".repeat(1_000), ..Labels::default() };
        let pairs = labels.with(&[("class", "failed")]);
        let names: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.chars().count())).collect();
        assert_eq!(names, [("class", 6), ("gateway", LABEL_CHARS_MAX), ("run", 1)]);
    }
}
