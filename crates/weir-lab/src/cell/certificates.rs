//! Certificates for each domain, which the cells of a run share: a thousand keys take time to make, and gateways are
//! compared by the same ones.

use std::cell::RefCell;
use std::collections::BTreeMap;

use weir_rig::{Certificates, Rig, RigError};

use crate::scenario::{CertificateScope, Topology};

/// Certificates by the number of domains that they are for.
#[derive(Debug, Default)]
pub(crate) struct Shared(RefCell<BTreeMap<u32, Certificates>>);

impl Shared {
    /// Those for `topology`, made in the work folder of `rig` where no cell needed them before; `None` where a cell makes
    /// its own.
    ///
    /// # Errors
    /// As [`Certificates::make_each`].
    pub(crate) fn of(&self, rig: &Rig, topology: &Topology) -> Result<Option<Certificates>, RigError> {
        if !topology.tls || topology.certificates == CertificateScope::One {
            return Ok(None);
        }
        let mut known = self.0.borrow_mut();
        if let Some(made) = known.get(&topology.domains) {
            return Ok(Some(made.clone()));
        }
        let folder = rig.work_dir().join(format!("certificates-{}", topology.domains));
        let made = Certificates::make_each(&folder, &topology.hosts())?;
        known.insert(topology.domains, made.clone());
        Ok(Some(made))
    }
}
