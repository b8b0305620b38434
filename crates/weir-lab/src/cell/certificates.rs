//! Certificates for each domain. All cells of a run share them, because creating a thousand keys takes time, and all
//! gateways must have the same certificates.

use std::cell::RefCell;
use std::collections::BTreeMap;

use weir_rig::{Certificates, Rig, RigError};

use crate::scenario::{CertificateScope, Topology};

/// The certificates that were created so far, by number of domains.
#[derive(Debug, Default)]
pub(crate) struct SharedCertificates(RefCell<BTreeMap<u32, Certificates>>);

impl SharedCertificates {
    /// The certificates for `topology`, created in the work folder of `rig` on first use; `None` if each cell creates
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
