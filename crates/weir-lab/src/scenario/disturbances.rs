//! Operations on all disturbances of a scenario. Each kind of disturbance is listed only here, so that reading,
//! planning and the pilot do not depend on individual kinds.

use weir_document::Time;

use super::Scenario;

impl Scenario {
    /// The services with faults.
    pub(crate) fn faulted_services(&self) -> impl Iterator<Item = &str> {
        self.faults.iter().filter_map(|fault| fault.service.as_deref())
    }

    /// Removes the faults of each service for which `is_needed` returns false. Keeps the faults of the upstream, even if
    /// it is a service.
    pub(crate) fn keep_faults_of(&mut self, is_needed: impl Fn(&str) -> bool) {
        let upstream = self.origin.service.name();
        self.faults.retain(|fault| match fault.service.as_deref() {
            None => true,
            Some(service) => upstream == Some(service) || is_needed(service),
        });
    }

    /// The scenario without any disturbance.
    #[must_use]
    pub(crate) fn without_disturbances(self) -> Self {
        Self { changes: None, faults: Vec::new(), slow: None, silent: None, ..self }
    }

    /// For each kind of disturbance: the list of loads that it applies to. An empty list means all loads.
    pub(crate) fn disturbed_loads_mut(&mut self) -> Vec<&mut Vec<String>> {
        let changes = self.changes.as_mut().map(|changes| &mut changes.loads);
        let slow = self.slow.as_mut().map(|slow| &mut slow.loads);
        let silent = self.silent.as_mut().map(|silent| &mut silent.loads);
        changes.into_iter().chain(slow).chain(silent).collect()
    }

    /// The times and lengths of disturbances, relative to the start of the sustained phase.
    pub(crate) fn schedule_mut(&mut self) -> Vec<&mut Time> {
        let silent = self.silent.iter_mut().flat_map(|silent| [&mut silent.at, &mut silent.hold]);
        self.faults.iter_mut().map(|fault| &mut fault.at).chain(silent).collect()
    }

    /// Whether any disturbance is scheduled for a time in the sustained phase. If so, the warm-up must not grow.
    pub(crate) fn has_schedule(&self) -> bool {
        !self.faults.is_empty() || self.silent.is_some()
    }
}
