//! The objectives of a run, by gateway and load point.

use weir_results::{Objective, OwnObjective};

use super::Checked;

impl Checked {
    /// The objective of the run, with the objectives that override it for individual gateways and load points; `None`
    /// if there are none.
    pub fn objective(&self) -> Option<Objective> {
        let base = self.scenario.objective.clone().unwrap_or_default();
        let mut own = Vec::new();
        for point in &self.points {
            for gateway in &point.scenario.gateways {
                for load in point.scenario.loads.names() {
                    let spec = point.scenario.objective_of(&gateway.name, load);
                    if spec == base {
                        continue;
                    }
                    let Objective { latency_ns, errors, findings, .. } = spec.objective();
                    let (gateway, load) = (gateway.name.clone(), load.to_owned());
                    let axes = point.axes.clone();
                    own.push(OwnObjective { gateway, axes, load, latency_ns, errors, findings });
                }
            }
        }
        let is_given = self.scenario.objective.is_some() || !own.is_empty();
        is_given.then(|| Objective { own, ..base.objective() })
    }
}
