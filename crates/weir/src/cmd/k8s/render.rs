//! `weir k8s render`: prints the manifests that start a run in a cluster.

use serde_json::Value;
use weir_lab::pods::{GatewayRights, coordinator_manifests, grant_manifests, namespace_manifest};
use weir_lab::{Overrides, Source};
use weir_rig::{Drivers, Programs};

use super::ClusterArgs;
use super::launch::{archive_of, known_of_cluster};
use crate::cmd::output::{note, print};
use crate::failure::{Exit, Failure};

/// Arguments of `weir k8s render`.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Scenario: a built-in name or a file
    scenario: String,
    /// Run only this gateway: a name from the scenario, or the name of a driver; may be repeated
    #[arg(long = "gateway", value_name = "NAME")]
    gateways: Vec<String>,
    /// Override a field of the scenario, like limits.data.cpus=0.5; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Shorten all phases to a twentieth
    #[arg(long)]
    quick: bool,
    /// Number of repeats
    #[arg(long, value_name = "N")]
    repeats: Option<u32>,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Prints the manifests. It sends no request to a cluster.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let drivers = Drivers::load(&[])?;
    let agents = args.cluster.agents.unwrap_or(1);
    let overrides = Overrides {
        set: [format!("generator.on=pods:{agents}")].into_iter().chain(args.set.clone()).collect(),
        gateways: args.gateways.clone(),
        quick: args.quick,
        repeats: args.repeats,
        ..Overrides::default()
    };
    let source = Source::find(&args.scenario)?;
    let checked = weir_lab::read(&source, &overrides, &known_of_cluster(&drivers, None))?;
    let programs = Programs { pods: Some(args.cluster.image_name()?), ..Programs::default() };
    let prepared = weir_lab::prepare_with(checked, &drivers, &programs)?;
    for text in &prepared.notes {
        note(text);
    }
    let run = weir_lab::new_run(&prepared, std::env::args().collect());
    let site = args.cluster.site(&run.id, args.cluster.namespace.is_none());
    let rights = GatewayRights::of(&prepared.checked.scenario, &drivers, &run.id)?;
    let namespace = site.is_own.then(|| namespace_manifest(&site));
    let granted = if args.cluster.grant { grant_manifests(&site, &rights, None) } else { Vec::new() };
    let manifests = coordinator_manifests(&site, &archive_of(&run, &[])?, &rights);
    let manifests = namespace.into_iter().chain(granted).chain(manifests);
    print(as_yaml(&manifests.collect::<Vec<_>>())?.trim_end());
    Ok(Exit::Good)
}

/// Writes manifests as a stream of YAML documents.
pub(in crate::cmd) fn as_yaml(manifests: &[Value]) -> Result<String, Failure> {
    let mut all = String::new();
    for manifest in manifests {
        let text = serde_saphyr::to_string(manifest).map_err(|error| {
            Failure::environment(format!("cannot write a manifest: {error}"), "report this as a bug")
        })?;
        all.push_str(&format!("---\n{}\n", text.trim_end()));
    }
    Ok(all)
}
