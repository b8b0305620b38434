//! Follows a run in a cluster, fetches its results, and removes it from the cluster.

use crate::failure::{Exit, Failure};

#[cfg(not(feature = "kubernetes"))]
mod without {
    use super::*;
    use crate::cmd::k8s::{RunArgs, without_feature};

    pub(in crate::cmd::k8s) fn attach(_: &RunArgs) -> Result<Exit, Failure> {
        Err(without_feature())
    }

    pub(in crate::cmd::k8s) fn fetch(_: &RunArgs) -> Result<Exit, Failure> {
        Err(without_feature())
    }

    pub(in crate::cmd::k8s) fn clean(_: &RunArgs) -> Result<Exit, Failure> {
        Err(without_feature())
    }
}

#[cfg(not(feature = "kubernetes"))]
pub(super) use without::{attach, clean, fetch};

#[cfg(feature = "kubernetes")]
mod with_cluster {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::{Duration, Instant};

    use serde_json::Value;
    use weir_kube::{Cluster, LogLines, Object, PodState, Selected, pod_state};
    use weir_lab::pods::{Ending, PodError, Results, Site};
    use weir_results::Store;

    use super::*;
    use crate::cmd::generate::until_signalled;
    use crate::cmd::k8s::RunArgs;
    use crate::cmd::k8s::launch::{connect, failure_of};
    use crate::cmd::output::{note, print};

    /// How often weir checks whether the run has ended.
    const LOOK_EVERY: Duration = Duration::from_secs(1);

    /// How long the coordinator pod may wait for a node and for its image.
    const START_MAX: Duration = Duration::from_secs(60);

    /// How long weir waits for the report of the run's end after the coordinator pod has gone.
    const END_MAX: Duration = Duration::from_secs(5);

    /// The label that contains the ID of the run to which an object belongs.
    const RUN_LABEL: &str = "weir/run";

    /// The result of [`follow`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::cmd::k8s) enum Attached {
        /// The run has ended, and its results are in the database.
        Finished,
        /// The user stopped the run with Ctrl-C.
        Interrupted,
    }

    /// Follows the run of `site` until it ends, writes its results to `store`, and removes the run from the
    /// cluster.
    pub(in crate::cmd::k8s) fn follow(
        cluster: &Arc<Cluster>,
        site: &Site,
        results: &Results,
        store: &mut Store,
    ) -> Result<Attached, Failure> {
        let stop = until_signalled()?;
        let ended = Follower::new(cluster, site, results).watch(&stop);
        if ended == End::Interrupted {
            note("stopping the run in the cluster ...");
            // Before it exits, the coordinator restores what the run changed in the cluster, and stores the
            // finished cells.
            let coordinator = Object::new("v1", "Pod", &site.namespace, &Follower::pod(site));
            cluster.remove(&coordinator, Duration::from_secs(90)).map_err(|error| failure_of(&error))?;
        }
        let fetched = results.fetch().map_err(|error| failed(&error))?;
        fetched.store(store)?;
        let cleaned = results.clean().map_err(|error| failed(&error));
        match ended {
            End::Interrupted => cleaned.map(|()| Attached::Interrupted),
            End::Ended(Ending { is_finished: true, .. }) => cleaned.map(|()| Attached::Finished),
            End::Ended(ending) => Err(Failure::environment(ending.message, ending.remedy)),
            End::Failed(error) => Err(failed(&error)),
        }
    }

    /// How a run has ended.
    #[derive(Debug, PartialEq, Eq)]
    enum End {
        /// The coordinator has reported the end.
        Ended(Ending),
        /// The coordinator pod ended or was deleted without a report, could not start, or could not be read.
        Failed(PodError),
        /// The user interrupted this process.
        Interrupted,
    }

    struct Follower<'a> {
        cluster: &'a Cluster,
        results: &'a Results,
        object: Object,
        lines: Option<LogLines>,
        /// Number of lines of the coordinator's log that were printed.
        printed: usize,
        /// Since when the coordinator pod cannot start; `None` if it can.
        waits_since: Option<Instant>,
        /// When the end of the coordinator pod was noticed; `None` while it runs.
        gone_since: Option<Instant>,
        /// Whether the user has been informed that the API does not respond.
        is_unreachable: bool,
        has_started: bool,
    }

    impl<'a> Follower<'a> {
        fn new(cluster: &'a Cluster, site: &Site, results: &'a Results) -> Self {
            Self {
                cluster,
                results,
                object: Object::new("v1", "Pod", &site.namespace, &Self::pod(site)),
                lines: None,
                printed: 0,
                waits_since: None,
                gone_since: None,
                is_unreachable: false,
                has_started: false,
            }
        }

        /// Name of the coordinator pod.
        fn pod(site: &Site) -> String {
            site.coordinator()
        }

        fn watch(mut self, stop: &AtomicBool) -> End {
            loop {
                let looked = Instant::now();
                self.print_log(stop);
                if stop.load(Ordering::Relaxed) {
                    return End::Interrupted;
                }
                match self.results.ending() {
                    Ok(Some(ending)) => {
                        self.print_log(stop);
                        return End::Ended(ending);
                    }
                    Ok(None) => {}
                    Err(_) => self.unreachable(),
                }
                if let Some(error) = self.look() {
                    return End::Failed(error);
                }
                std::thread::sleep(LOOK_EVERY.saturating_sub(looked.elapsed()).min(LOOK_EVERY / 2));
            }
        }

        /// Prints new lines of the coordinator's log for at most `LOOK_EVERY`, the time between two checks.
        fn print_log(&mut self, stop: &AtomicBool) {
            if self.lines.is_none() {
                let Object { namespace, name, .. } = &self.object;
                let namespace = namespace.as_deref().unwrap_or_default();
                self.lines = self.cluster.follow(namespace, name, "coordinator", self.printed).ok();
            }
            let deadline = Instant::now() + LOOK_EVERY;
            while let Some(lines) = &self.lines {
                match lines.next(Duration::from_millis(100)) {
                    Ok(Some(line)) => {
                        note(line);
                        self.printed += 1;
                    }
                    Ok(None) => {}
                    // If the run is resumed, another pod continues the log.
                    Err(_) => self.lines = None,
                }
                if stop.load(Ordering::Relaxed) || Instant::now() >= deadline {
                    return;
                }
            }
        }

        fn unreachable(&mut self) {
            if !self.is_unreachable {
                note("the Kubernetes API does not respond; the run continues, and weir waits for the API");
                self.is_unreachable = true;
            }
        }

        /// Checks the coordinator pod. Returns an error if the pod can no longer report the end of the run.
        fn look(&mut self) -> Option<PodError> {
            let pod = match self.cluster.get_once(&self.object) {
                Ok(pod) => pod,
                Err(error) if error.is_transient() => {
                    self.unreachable();
                    return None;
                }
                Err(error) => {
                    let remedy =
                        "check that you may read the pods of the run: kubectl get pods -A -l weir/run";
                    return Some(PodError::new("kubernetes", error.to_string(), remedy));
                }
            };
            if self.is_unreachable {
                note("the Kubernetes API responds again");
                self.is_unreachable = false;
            }
            let Some(pod) = pod else {
                return self.gone("the coordinator pod was deleted".into());
            };
            match pod_state(&pod) {
                PodState::Waiting(_) => {
                    self.gone_since = None;
                    None
                }
                PodState::Running(_) => {
                    (self.has_started, self.waits_since, self.gone_since) = (true, None, None);
                    None
                }
                PodState::Failed(failure) if failure.may_start && !self.has_started => {
                    let since = *self.waits_since.get_or_insert_with(Instant::now);
                    let message = format!("the coordinator pod cannot start: {failure}");
                    let remedy = match failure.reason.contains("Image") {
                        true => "push the image, or name another one with --image",
                        false => {
                            "add a node, or free resources on a node; the coordinator requests 0.2 cores and 512 MiB"
                        }
                    };
                    (since.elapsed() > START_MAX).then(|| PodError::new("pod", message, remedy))
                }
                PodState::Failed(failure) => self.gone(format!("the coordinator pod has failed: {failure}")),
                PodState::Succeeded => self.gone("the coordinator pod has ended".into()),
            }
        }

        /// The error `message`, once the coordinator pod has been gone for more than [`END_MAX`].
        fn gone(&mut self, message: String) -> Option<PodError> {
            let since = *self.gone_since.get_or_insert_with(Instant::now);
            let remedy = "resume the run with `weir run --resume RUN --on k8s`; finished cells are stored";
            (since.elapsed() > END_MAX).then(|| PodError::new("pod", message, remedy))
        }
    }

    /// Follows the run that the arguments select.
    pub(in crate::cmd::k8s) fn attach(args: &RunArgs) -> Result<Exit, Failure> {
        let (cluster, site) = found(args)?;
        let results = Results::new(Arc::clone(&cluster), site.clone());
        let mut store = args.database.open_or_make()?;
        match follow(&cluster, &site, &results, &mut store)? {
            Attached::Interrupted => Ok(Exit::Interrupted),
            Attached::Finished => {
                print(format_args!(
                    "run {} is finished; `weir report {}` prints its report",
                    site.run, site.run
                ));
                Ok(Exit::Good)
            }
        }
    }

    /// Writes the finished cells of the run to the database.
    pub(in crate::cmd::k8s) fn fetch(args: &RunArgs) -> Result<Exit, Failure> {
        let (cluster, site) = found(args)?;
        let fetched = Results::new(cluster, site.clone()).fetch().map_err(|error| failed(&error))?;
        let mut store = args.database.open_or_make()?;
        let new = fetched.store(&mut store)?;
        let planned = fetched.run.as_ref().map_or(0, |run| run.plan.len());
        let state = match &fetched.ending {
            None => "the run continues".to_owned(),
            Some(Ending { is_finished: true, .. }) => {
                format!("the run is finished; `weir k8s clean {}` removes it from the cluster", site.run)
            }
            Some(ending) => format!("the run ended early: {}", ending.message),
        };
        print(format_args!(
            "run {}: {} of {planned} cells finished, {new} of them fetched now; {state}",
            site.run,
            fetched.cells.len()
        ));
        Ok(Exit::Good)
    }

    /// Removes the run from the cluster.
    pub(in crate::cmd::k8s) fn clean(args: &RunArgs) -> Result<Exit, Failure> {
        let (cluster, site) = found(args)?;
        Results::new(cluster, site.clone()).clean().map_err(|error| failed(&error))?;
        print(format_args!("run {} is removed from the cluster", site.run));
        Ok(Exit::Good)
    }

    /// Connects to the cluster, and finds the run that the arguments select.
    fn found(args: &RunArgs) -> Result<(Arc<Cluster>, Site), Failure> {
        let cluster = Arc::new(connect(args.context.as_deref())?);
        let site = |object: &Value, namespace: &str, is_own: bool| {
            let run = object["metadata"]["labels"][RUN_LABEL].as_str()?;
            let run = run.to_owned();
            Some(Site {
                namespace: namespace.to_owned(),
                is_own,
                run,
                image: String::new(),
                has_samplers: false,
            })
        };
        let label = RUN_LABEL;
        let mut sites: Vec<Site> = match &args.namespace {
            None => {
                let spaces = cluster.list(&Selected::everywhere("v1", "Namespace", label));
                let spaces = spaces.map_err(|error| failure_of(&error))?;
                let of = |space: &Value| site(space, space["metadata"]["name"].as_str()?, true);
                spaces.iter().filter_map(of).collect()
            }
            Some(namespace) => {
                let is_own = cluster.get(&Object::global("v1", "Namespace", namespace)).ok().flatten();
                let is_own = is_own.is_some_and(|space| !space["metadata"]["labels"][label].is_null());
                // The service account of a run is deleted last. So it exists as long as any object of the run.
                let accounts = cluster.list(&Selected::new("v1", "ServiceAccount", namespace, label));
                let accounts = accounts.map_err(|error| failure_of(&error))?;
                accounts.iter().filter_map(|account| site(account, namespace, is_own)).collect()
            }
        };
        sites.sort_by(|one, other| one.run.cmp(&other.run));
        let there: Vec<String> = sites.iter().map(|site| site.run.clone()).collect();
        let mut matching: Vec<Site> = match args.run.as_str() {
            "last" => sites.pop().into_iter().collect(),
            prefix => sites.into_iter().filter(|site| site.run.starts_with(prefix)).collect(),
        };
        match (matching.pop(), matching.is_empty()) {
            (Some(site), true) => Ok((cluster, site)),
            (Some(_), false) => {
                let message = format!("{}: the prefix matches several runs in the cluster", args.run);
                let remedy = format!("use a longer prefix; the cluster has these runs: {}", there.join(", "));
                Err(Failure::wrong_use(message, remedy))
            }
            (None, _) => {
                let remedy = match there.is_empty() {
                    true => {
                        "weir found no runs; if the run uses an existing namespace, add --namespace NAMESPACE"
                            .to_owned()
                    }
                    false => format!("runs in the cluster: {}", there.join(", ")),
                };
                Err(Failure::wrong_use(format!("{}: no such run in the cluster", args.run), remedy))
            }
        }
    }

    fn failed(error: &PodError) -> Failure {
        let mut failure = Failure::environment(error.message.clone(), error.remedy.clone());
        if !error.log_tail.trim().is_empty() {
            failure.problem.message = format!("{}\n{}", failure.problem.message, error.log_tail.trim_end());
        }
        failure
    }
}

#[cfg(feature = "kubernetes")]
pub(super) use with_cluster::{Attached, attach, clean, fetch, follow};
