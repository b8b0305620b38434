//! `weir k8s`: renders, follows, fetches and removes runs in a cluster.

mod attach;
#[cfg(feature = "kubernetes")]
mod coordinate;
mod launch;
mod place;
mod render;

use std::path::PathBuf;

use weir_lab::pods::FileSet;

use super::database::Database;
use crate::failure::{Exit, Failure};

pub(super) use launch::{Launched, known_of_cluster, launch, node_cpus};
pub(super) use place::{ClusterArgs, On};
pub(super) use render::as_yaml;

/// Arguments of `weir k8s`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Print the manifests that `weir run SCENARIO --on k8s` applies, as YAML for `kubectl apply -f -`
    Render(Box<render::Args>),
    /// Follow a run in a cluster to its end, fetch its results, and remove it from the cluster
    Attach(RunArgs),
    /// Fetch the finished cells of a run in a cluster; the run continues
    Fetch(RunArgs),
    /// Stop a run in a cluster, undo its changes to gateways, and delete its objects
    Clean(RunArgs),
    #[cfg(feature = "kubernetes")]
    #[command(hide = true)]
    Coordinate(coordinate::Args),
    #[command(hide = true)]
    Unpack(UnpackArgs),
}

/// Arguments that select a run.
#[derive(Debug, clap::Args)]
struct RunArgs {
    /// Run: its ID, a unique prefix of the ID, or `last` for the latest
    run: String,
    /// Context of the kubeconfig [default: the current one]
    #[arg(long, value_name = "CONTEXT")]
    context: Option<String>,
    /// Namespace of the run; required if the namespace existed before the run
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    #[command(flatten)]
    database: Database,
}

/// Arguments of the container that writes the files of a pod.
#[derive(Debug, clap::Args)]
struct UnpackArgs {
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
}

pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    match args.command {
        Command::Render(args) => render::run(&args),
        Command::Attach(args) => attach::attach(&args),
        Command::Fetch(args) => attach::fetch(&args),
        Command::Clean(args) => attach::clean(&args),
        #[cfg(feature = "kubernetes")]
        Command::Coordinate(args) => coordinate::run(&args),
        Command::Unpack(UnpackArgs { from, to }) => {
            let written = FileSet::unpacked(&from).and_then(|files| files.write(&to));
            written.map(|()| Exit::Good).map_err(|error| {
                Failure::environment(format!("{}: {error}", from.display()), "report this as a bug")
            })
        }
    }
}

/// The error if weir was built without support for Kubernetes.
#[cfg(not(feature = "kubernetes"))]
fn without_feature() -> Failure {
    Failure::wrong_use(
        "this build of weir lacks the feature `kubernetes`",
        "build it with `cargo build --release -p weir -p weir-gateway --features weir/services`",
    )
}
