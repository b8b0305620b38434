//! What scenarios are checked against: the drivers, and what this host has.

use weir_lab::Known;
use weir_rig::Drivers;

/// The names that a scenario may use, and the CPUs that it may ask for.
pub(crate) fn known(drivers: &Drivers) -> Known {
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    // What runs elsewhere needs no driver, and is named where one is.
    let names = drivers.names().into_iter().chain([weir_rig::REMOTE]).collect();
    Known {
        drivers: owned(names),
        origins: owned(drivers.origins()),
        cpus: weir_rig::usable_cpus().len().max(1),
    }
}
