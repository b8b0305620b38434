//! What each gateway has to keep at each load point: the scenario's objective, and over it that of its case, of the load,
//! and of the gateway, bound by bound.

use weir_results::{Objective, OwnObjective};

use crate::read::Checked;
use crate::scenario::{ObjectiveSpec, Scenario};

impl Checked {
    /// The objective of a run, with what single load points have to keep instead.
    pub fn objective(&self) -> Option<Objective> {
        let base = self.scenario.objective.unwrap_or_default();
        let mut own = Vec::new();
        for point in &self.points {
            for gateway in &point.scenario.gateways {
                for load in point.scenario.loads.names() {
                    let spec = point.scenario.objective_of(&gateway.name, load);
                    if spec == base {
                        continue;
                    }
                    let Objective { latency_ns, errors, .. } = spec.objective();
                    let (gateway, load) = (gateway.name.clone(), load.to_owned());
                    own.push(OwnObjective { gateway, axes: point.axes.clone(), load, latency_ns, errors });
                }
            }
        }
        let is_given = self.scenario.objective.is_some() || !own.is_empty();
        is_given.then(|| Objective { own, ..base.objective() })
    }
}

impl Scenario {
    /// What `gateway` has to keep at `load`; of the direct baseline, what any gateway has to.
    pub fn objective_of(&self, gateway: &str, load: &str) -> ObjectiveSpec {
        let of_gateway = self.gateways.iter().find(|known| known.name == gateway);
        of_gateway.and_then(|gateway| gateway.objective).unwrap_or_default().over(self.objective_at(load))
    }

    /// What any gateway has to keep at `load`.
    pub(crate) fn objective_at(&self, load: &str) -> ObjectiveSpec {
        let of_load = self.loads.named(load).and_then(|load| load.objective).unwrap_or_default();
        of_load.over(self.objective.unwrap_or_default())
    }

    /// The scenario without any objective: what is measured.
    pub(crate) fn without_objectives(&self) -> Self {
        let mut bare = self.clone();
        bare.objective = None;
        bare.gateways.iter_mut().for_each(|gateway| gateway.objective = None);
        bare.loads.0.iter_mut().for_each(|(_, load)| load.objective = None);
        bare
    }
}
