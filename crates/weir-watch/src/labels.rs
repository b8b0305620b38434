//! Labels of series. weir uses a fixed set of labels and limits the length of their values, because each combination of
//! values is a series in the receiver.

/// Maximum number of characters in the value of a label. Longer values are truncated.
pub const LABEL_CHARS_MAX: usize = 64;

/// A label and its description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Name of the label in Prometheus.
    pub name: &'static str,
    /// Name of the label in OpenTelemetry.
    pub otlp_name: &'static str,
    /// Whether all series of a load have this label.
    pub is_of_load: bool,
    /// What the label's values mean.
    pub meaning: &'static str,
}

/// All labels.
pub const LABELS: [Label; 12] = [
    of_load("run", "weir.run", "ID of the run; `load-..` for `weir load`."),
    of_load(
        "gateway",
        "weir.gateway",
        "Name of the gateway, or `direct`; for `weir load`, the host of the URL.",
    ),
    of_load("load", "weir.load", "Name of the load."),
    of_load(
        "cell",
        "weir.cell",
        "Position of the cell in the run and the values of its axes, like `3 limits.data.cpus=0.5`.",
    ),
    of_load("repeat", "weir.repeat", "Repeat, from 1."),
    of_load(
        "attempt",
        "weir.attempt",
        "Number of the attempt, 2 or more: weir re-measures a load after host noise. Missing for the first attempt.",
    ),
    of_load(
        "agent",
        "weir.agent",
        "Agent that generates this share of the load; missing for load from this host. The sum over all agents is \
        the whole load.",
    ),
    own(
        "class",
        "error.type",
        "`unexpected` (status 400 or above, or a failed check; also counted as completed), `failed`, `timed_out`, \
         `dropped` or `in_flight`.",
    ),
    own("part", "weir.part", "Name of the part of the rig, like `nginx`, `origin` or `generator`."),
    own("role", "weir.role", "`data`, `control`, `origin`, `generator` or `service`."),
    own(
        "metric",
        "weir.metric",
        "`throughput`, `cpu` (CPU time per request), `latency` (all latencies together), `mean`, `p50`, `p90`, `p99` or \
         `p999`.",
    ),
    own("reason", "weir.reason", "Why the metric is not valid; missing if the metric is valid."),
];

const fn of_load(name: &'static str, otlp_name: &'static str, meaning: &'static str) -> Label {
    Label { name, otlp_name, is_of_load: true, meaning }
}

const fn own(name: &'static str, otlp_name: &'static str, meaning: &'static str) -> Label {
    Label { name, otlp_name, is_of_load: false, meaning }
}

/// The labels that identify a load, or one shard of it. Labels with an empty value are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// ID of the run; `load-..` for `weir load`.
    pub run: String,
    /// Name of the gateway, or `direct`. For `weir load`, the host of the URL.
    pub gateway: String,
    /// Name of the load.
    pub load: String,
    /// Index of the cell in the run, and the values of the axes: `3 limits.data.cpus=0.5`.
    pub cell: String,
    /// Number of the repeat, from 1.
    pub repeat: String,
    /// Number of the attempt, from 2, if weir measures a load again after host noise. Empty for the first attempt.
    pub attempt: String,
    /// The agent that generated this shard of the load. Empty for the whole load.
    pub agent: String,
}

/// Properties that all requests of a load have in common. OTLP sends them as OpenTelemetry's attributes of HTTP
/// clients. A field is `None` if its value differs between requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Target {
    /// The attribute `server.address`.
    pub address: Option<String>,
    /// The attribute `server.port`.
    pub port: Option<u16>,
    /// The attribute `http.request.method`.
    pub method: Option<String>,
    /// The attribute `url.scheme`.
    pub scheme: Option<String>,
}

/// Names and values of labels, sorted by name.
pub(crate) type Pairs = Vec<(&'static str, String)>;

impl Labels {
    /// Whether `self` and `load` identify the same load. Ignores the agent.
    pub(crate) fn is_of_load(&self, load: &Labels) -> bool {
        let own = |labels: &Labels| Labels { agent: String::new(), ..labels.clone() };
        own(self) == own(load)
    }

    /// Returns these labels and `more`, sorted by name.
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
