//! The facts that weir uses to validate a scenario: the available drivers, and this host.

use std::sync::OnceLock;

use weir_lab::Known;
use weir_results::Plane;
use weir_rig::Drivers;

/// Collects the names that a scenario can use and the properties of this host.
pub(crate) fn known(drivers: &Drivers) -> Known {
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    // Remote gateways have a reserved driver name.
    let names = drivers.names().into_iter().chain([weir_rig::REMOTE]).collect();
    let needs = drivers.names().into_iter().filter_map(|name| {
        let needed = drivers.needed_by(name).ok()?;
        Some((name.to_owned(), needed.iter().map(|service| service.name().to_owned()).collect()))
    });
    let in_cluster = drivers.names().into_iter().filter_map(|name| {
        let of = drivers.driver(name).ok()?.kubernetes()?;
        let control = of.control.as_ref().map(|_| Plane::Control);
        Some((name.to_owned(), [Plane::Data].into_iter().chain(control).collect()))
    });
    Known {
        drivers: owned(names),
        origins: owned(drivers.origins()),
        services: owned(drivers.service_origins()),
        needs: needs.collect(),
        in_cluster: in_cluster.collect(),
        cpus: weir_rig::usable_cpus().len().max(1),
        namespaces,
    }
}

/// Checks whether this host can create network namespaces; the error says why not. The result is kept, because weir
/// needs it for each point of a run.
fn namespaces() -> Result<(), String> {
    static TRIED: OnceLock<Result<(), String>> = OnceLock::new();
    TRIED.get_or_init(weir_rig::try_namespaces).clone()
}
