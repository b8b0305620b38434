//! Expands loads with several rates to one load per rate.

use weir_document::{AskedRate, Levels, Named};

use super::{Load, Scenario};

impl Load {
    /// One load per rate in `rates`, in ascending order; the load itself if it has no `rates`. `name` is the name of
    /// the load.
    pub(crate) fn at_each_rate(&self, name: &str) -> Vec<(String, Self)> {
        let Some(list) = &self.rates else { return vec![(name.to_owned(), self.clone())] };
        let one = |rate: &AskedRate| {
            let rate = *rate;
            let one_of = Some(name.to_owned());
            let load = Self { rate: Some(Levels::Constant(rate)), rates: None, one_of, ..self.clone() };
            (name_at(name, rate), load)
        };
        list.rates().iter().map(one).collect()
    }
}

impl Scenario {
    /// The scenario as it runs: each load with several rates is replaced by one load per rate.
    #[must_use]
    pub(crate) fn expanded(mut self) -> Self {
        let loads = self.loads.clone();
        let names = |name: &String| match loads.named(name) {
            Some(load) => load.at_each_rate(name).into_iter().map(|(name, _)| name).collect(),
            None => vec![name.clone()],
        };
        for list in self.disturbed_loads_mut() {
            *list = list.iter().flat_map(names).collect();
        }
        self.loads = Named(self.loads.iter().flat_map(|(name, load)| load.at_each_rate(name)).collect());
        self
    }
}

/// The name of the load `name` at `rate`: `curve-500`, or `curve-30pct` for a share.
pub(crate) fn name_at(name: &str, rate: AskedRate) -> String {
    let rate = match rate {
        AskedRate::Rate(rate) => rate.0.to_string(),
        AskedRate::Share(_) => rate.to_string().replace('%', "pct"),
    };
    format!("{name}-{}", rate.replace('.', "_"))
}
