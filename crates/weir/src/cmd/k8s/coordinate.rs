//! The coordinator pod of a run in a cluster. It does what `weir run` does on a host, but with pods instead of
//! processes.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use weir_kube::{Cluster, Context, Object};
use weir_lab::pods::{Ending, PodHost, Pods, Results, Site};
use weir_lab::{AgentsOptions, Bench, Ended, Observer, Progress};
use weir_results::{Cell, CellKey, Measurement, Run, Store, read_archive};
use weir_rig::{Binary, Drivers, ImageName, Programs};

use super::launch::known_of_cluster;
use crate::cmd::generate::until_signalled;
use crate::cmd::output::note;
use crate::cmd::run::watcher_of;
use crate::failure::{Exit, Failure};

/// How long results can be fetched after the end of the run. Then the namespace is deleted.
const KEPT_FOR: Duration = Duration::from_secs(24 * 3600);

/// Arguments of the coordinator.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Folder with the run
    #[arg(long, value_name = "DIR")]
    from: PathBuf,
}

/// Measures the remaining cells of the run. Afterwards, waits until the results are fetched.
pub(super) fn run(args: &Args) -> Result<Exit, Failure> {
    let stop = until_signalled()?;
    let site = Site {
        namespace: variable("WEIR_POD_NAMESPACE")?,
        is_own: variable("WEIR_OWN_NAMESPACE")? == "true",
        run: variable("WEIR_RUN")?,
        image: variable("WEIR_IMAGE")?,
        has_samplers: variable("WEIR_SAMPLERS")? == "true",
    };
    let address: IpAddr = variable("WEIR_POD_ADDRESS")?
        .parse()
        .map_err(|_| Failure::environment("WEIR_POD_ADDRESS is not an address", "report this as a bug"))?;
    let failed = |message: String| {
        Failure::environment(message, "check the permissions of the coordinator's service account")
    };
    let cluster = Cluster::of(&Context::Inside).map_err(|error| failed(error.to_string()))?;
    let pods = Arc::new(Pods::new(cluster, site.clone(), address).map_err(|error| failed(error.message))?);
    let results = Results::new(Arc::clone(pods.cluster()), site.clone());
    let database = std::env::temp_dir().join("weir.db");
    let measured = measure(&args.from, &database, &pods, &results, &stop);
    let ending = match &measured {
        Ok(Ended::Finished) => Ending { is_finished: true, message: String::new(), remedy: String::new() },
        Ok(Ended::Interrupted) => Ending {
            is_finished: false,
            message: "the run was stopped in the cluster".into(),
            remedy: "`weir run --resume RUN --on k8s` measures the remaining cells".into(),
        },
        Err(failure) => Ending {
            is_finished: false,
            message: failure.problem.message.clone(),
            remedy: failure.problem.remedy.clone(),
        },
    };
    let ending = match pods.restore() {
        Ok(()) => ending,
        Err(error) => Ending { is_finished: false, message: error.message, remedy: error.remedy },
    };
    let run = Store::open_existing(&database).ok().and_then(|store| store.run(&site.run).ok());
    results.keep_end(run.as_ref(), &ending).map_err(|error| failed(error.message))?;
    let waits_until = Instant::now() + KEPT_FOR;
    while !stop.load(Ordering::Relaxed) && Instant::now() < waits_until {
        std::thread::sleep(Duration::from_millis(200));
    }
    if !stop.load(Ordering::Relaxed) && site.is_own {
        note("the results were not fetched within 24 hours, so weir deletes the namespace");
        let namespace = Object::global("v1", "Namespace", &site.namespace);
        pods.cluster().remove(&namespace, Duration::ZERO).map_err(|error| failed(error.to_string()))?;
    }
    measured.map(|ended| if ended == Ended::Finished { Exit::Good } else { Exit::Interrupted })
}

fn measure(
    from: &Path,
    database: &Path,
    pods: &Arc<Pods>,
    results: &Results,
    stop: &Arc<AtomicBool>,
) -> Result<Ended, Failure> {
    let data = weir_lab::pods::joined_files(from).map_err(|error| {
        Failure::environment(format!("{}: {error}", from.display()), "report this as a bug")
    })?;
    let archive = read_archive("the run", &data[..])?;
    let run = archive.run;
    let mut store = Store::open(database)?;
    if !archive.cells.is_empty() {
        store.import(&run, &archive.cells)?;
    }
    let drivers = Drivers::load(&[])?;
    let checked = weir_lab::read_again(&run, None, &known_of_cluster(&drivers, None))?;
    let image = ImageName::try_from(pods.site().image.clone());
    let image = image.map_err(|why| Failure::environment(why, "report this as a bug"))?;
    let programs = Programs { pods: Some(image), ..Programs::default() };
    let prepared = weir_lab::prepare_with(checked, &drivers, &programs)?;
    let observer = watcher_of(&prepared.checked.scenario, run.plan.len());
    let weir = Binary::own()?;
    let agents = AgentsOptions { pods: Some(Arc::clone(pods) as _), ..AgentsOptions::default() };
    let keeper = Keeper { inner: observer.as_ref(), results, database, run: &run };
    let bench =
        Bench { drivers: &drivers, weir: &weir, stop, observer: &keeper, agents: &agents, watcher: None };
    Ok(weir_lab::execute(&run, &prepared, &mut store, &bench)?)
}

/// Stores each finished cell in the cluster immediately.
struct Keeper<'a> {
    inner: &'a dyn Observer,
    results: &'a Results,
    database: &'a Path,
    run: &'a Run,
}

impl Observer for Keeper<'_> {
    fn note(&self, text: &str) {
        self.inner.note(text);
    }

    fn cell_started(&self, key: &CellKey, progress: Progress) {
        self.inner.cell_started(key, progress);
    }

    fn load_started(&self, key: &CellKey, load: &str, takes: Duration) {
        self.inner.load_started(key, load, takes);
    }

    fn load_retried(&self, key: &CellKey, load: &str, cause: &str) {
        self.inner.load_retried(key, load, cause);
    }

    fn load_measured(&self, key: &CellKey, measurement: &Measurement) {
        self.inner.load_measured(key, measurement);
    }

    fn cell_finished(&self, cell: &Cell, progress: Progress) {
        // A pilot load may have changed the stored run, so weir reads it again.
        let store = Store::open_existing(self.database).ok();
        let run = store.and_then(|store| store.run(&self.run.id).ok()).unwrap_or_else(|| self.run.clone());
        if let Err(error) = self.results.keep_cell(&run, cell) {
            self.inner.note(&format!("cannot store a finished cell in the cluster: {error}"));
        }
        self.inner.cell_finished(cell, progress);
    }
}

fn variable(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|_| {
        Failure::wrong_use(
            format!("{name} is not set"),
            "this command works only in the coordinator pod of a run",
        )
    })
}
