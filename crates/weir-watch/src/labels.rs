//! Labels of series. Their number and length are limited, since each combination is a series of the receiver.

/// Maximum length of a label's value, characters; longer ones are cut.
pub const LABEL_CHARS_MAX: usize = 64;

/// What identifies a load. Empty values are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// ID of the run.
    pub run: String,
    /// Name of the gateway, or `direct`.
    pub gateway: String,
    /// Name of the load.
    pub load: String,
    /// The cell: its place in the run, with the values of the axes.
    pub cell: String,
    /// Repeat, from 1.
    pub repeat: String,
    /// How often the load was measured, from 2 on; empty for the first time.
    pub attempt: String,
    /// The agent that generated the load; empty for this host.
    pub agent: String,
}

/// What OpenTelemetry's conventions for HTTP clients want to know of the requests; what differs between them is `None`.
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

/// Names and values in the order of the names.
pub(crate) type Pairs = Vec<(&'static str, String)>;

impl Labels {
    /// Whether both are of the same load, whichever agent generates it.
    pub(crate) fn is_of_load(&self, load: &Labels) -> bool {
        let own = |labels: &Labels| Labels { agent: String::new(), ..labels.clone() };
        own(self) == own(load)
    }

    /// Its labels together with `more`.
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
    fn labels_are_sorted_and_limited() {
        let labels = Labels { run: "r".into(), gateway: "g".repeat(1_000), ..Labels::default() };
        let pairs = labels.with(&[("class", "failed")]);
        let names: Vec<_> = pairs.iter().map(|(name, value)| (*name, value.chars().count())).collect();
        assert_eq!(names, [("class", 6), ("gateway", LABEL_CHARS_MAX), ("run", 1)]);
    }
}
