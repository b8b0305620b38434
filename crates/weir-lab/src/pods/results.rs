//! Stores the results of a run in Secrets of its namespace: each cell when it is finished, and how the run ended.
//!
//! The Secrets outlive the coordinator pod, so that the user can fetch the results later.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use weir_kube::{Cluster, Object, Selected};
use weir_results::{Cell, Run, Store, StoreError, read_archive, write_archive};

use super::chunks::DATA_LABEL;
use super::cluster::refused;
use super::gateway::restore;
use super::{PodError, Site, chunked, joined};

/// Name under which the [`Run`] is stored. Cells are stored separately.
const RUN: &str = "run";
/// Name under which the [`Ending`] of the run is stored.
const END: &str = "end";
/// Prefix of the name under which a cell is stored. The index of the cell follows.
const CELL: &str = "cell-";

/// How a run in a cluster ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// Whether every cell of the plan was measured.
    pub is_finished: bool,
    /// Why cells are missing; empty if there was no error.
    pub message: String,
    /// What the user can do about the error; empty if there was none.
    pub remedy: String,
}

/// The data of a run that was stored in its namespace.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The run; `None` before its first cell is finished.
    pub run: Option<Run>,
    /// The finished cells of the run.
    pub cells: Vec<Cell>,
    /// How the run ended; `None` while it runs, or if its coordinator was killed.
    pub ending: Option<Ending>,
}

/// Stores, reads and deletes the results of a run in its namespace.
#[derive(Debug)]
pub struct Results {
    cluster: Arc<Cluster>,
    site: Site,
}

impl Results {
    /// The results of the run of `site`.
    pub fn new(cluster: Arc<Cluster>, site: Site) -> Self {
        Self { cluster, site }
    }

    /// Stores a finished cell.
    ///
    /// # Errors
    /// [`PodError`] if the API rejects the data.
    pub fn keep_cell(&self, run: &Run, cell: &Cell) -> Result<(), PodError> {
        self.keep(&format!("{CELL}{}", cell.key.index), &packed(run, std::slice::from_ref(cell)))
    }

    /// Stores how the run ended; `run` is `None` if it has no cells.
    ///
    /// # Errors
    /// [`PodError`] if the API refuses it.
    pub fn keep_end(&self, run: Option<&Run>, ending: &Ending) -> Result<(), PodError> {
        if let Some(run) = run {
            self.keep(RUN, &packed(run, &[]))?;
        }
        self.keep(END, &serde_json::to_vec(ending).unwrap_or_default())
    }

    fn keep(&self, name: &str, data: &[u8]) -> Result<(), PodError> {
        let secrets = chunked(&self.site, name, data);
        self.cluster.apply(&secrets, Duration::ZERO).map_err(|error| refused(&error))
    }

    /// Reads how the run ended; `None` if it still runs. Does not retry if the API server is unreachable.
    ///
    /// # Errors
    /// [`PodError`] if the data cannot be read.
    pub fn ending(&self) -> Result<Option<Ending>, PodError> {
        let secrets = self.cluster.list_once(&self.selected(&format!("{DATA_LABEL}={END}")));
        ending_in(&secrets.map_err(|error| refused(&error))?)
    }

    /// Reads all stored data of the run.
    ///
    /// # Errors
    /// [`PodError`] if the data cannot be read.
    pub fn fetch(&self) -> Result<Fetched, PodError> {
        let secrets = self.cluster.list(&self.selected(DATA_LABEL)).map_err(|error| refused(&error))?;
        let mut by_name: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for secret in secrets {
            let name = secret["metadata"]["labels"][DATA_LABEL].as_str().unwrap_or_default().to_owned();
            by_name.entry(name).or_default().push(secret);
        }
        let mut fetched = Fetched::default();
        for (name, secrets) in &by_name {
            if name == END {
                fetched.ending = ending_in(secrets)?;
            } else if name == RUN || is_cell(name) {
                // If the last chunk of a cell is missing, the coordinator was killed while it wrote the cell.
                let Some(data) = joined(secrets).map_err(|why| damaged(name, &why))? else { continue };
                let archive =
                    read_archive(name, &data[..]).map_err(|error| damaged(name, &error.to_string()))?;
                fetched.cells.extend(archive.cells);
                if name == RUN || fetched.run.is_none() {
                    fetched.run = Some(archive.run);
                }
            }
        }
        Ok(fetched)
    }

    fn selected(&self, label: &str) -> Selected {
        Selected::new("v1", "Secret", &self.site.namespace, &format!("{},{label}", self.site.selector()))
    }

    /// Deletes all objects of the run, and waits until they are gone.
    ///
    /// # Errors
    /// [`PodError`] if an object cannot be deleted.
    pub fn clean(&self) -> Result<(), PodError> {
        const PATIENCE: Duration = Duration::from_secs(120);
        let Site { namespace, is_own, .. } = &self.site;
        let remove = |object: &Object| self.cluster.remove(object, PATIENCE).map_err(|error| refused(&error));
        // Removes the coordinator first: when it ends, it deletes its pods and restores what it has changed.
        remove(&Object::new("v1", "Pod", namespace, &self.site.coordinator()))?;
        // If the coordinator was killed before it restored everything that it had changed, this call restores the rest.
        restore(&self.cluster, &self.site)?;
        // Removes the granted Roles and their bindings now. If the namespace belongs to the run, Kubernetes would
        // delete them later, together with the namespace. Errors are ignored: a user without permission to list these
        // objects has not created any.
        for (kind, is_global) in
            [("RoleBinding", false), ("Role", false), ("ClusterRoleBinding", true), ("ClusterRole", true)]
        {
            let selected = Selected::everywhere("rbac.authorization.k8s.io/v1", kind, &self.site.selector());
            for object in self.cluster.list(&selected).unwrap_or_default() {
                let text =
                    |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let (place, name) = (text("/metadata/namespace"), text("/metadata/name"));
                let object = match is_global {
                    true => Object::global("rbac.authorization.k8s.io/v1", kind, name),
                    false => Object::new("rbac.authorization.k8s.io/v1", kind, place, name),
                };
                let _ = self.cluster.remove(&object, Duration::ZERO);
            }
        }
        if *is_own {
            return remove(&Object::global("v1", "Namespace", namespace));
        }
        for (api_version, kind) in KINDS {
            let selected = Selected::new(api_version, kind, namespace, &self.site.selector());
            for object in self.cluster.list(&selected).map_err(|error| refused(&error))? {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                remove(&Object::new(api_version, kind, namespace, name))?;
            }
        }
        Ok(())
    }
}

/// The kinds of objects that a run creates in a namespace, in order of deletion.
const KINDS: [(&str, &str); 9] = [
    ("batch/v1", "Job"),
    ("apps/v1", "Deployment"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("v1", "Secret"),
    ("v1", "ConfigMap"),
    ("rbac.authorization.k8s.io/v1", "RoleBinding"),
    ("rbac.authorization.k8s.io/v1", "Role"),
    ("v1", "ServiceAccount"),
];

impl Fetched {
    /// Adds the run and its cells to `store`, unless they are already there; returns the number of added cells.
    ///
    /// # Errors
    /// [`StoreError`] if the store cannot be read or written.
    pub fn store(&self, store: &mut Store) -> Result<usize, StoreError> {
        let Some(run) = &self.run else { return Ok(0) };
        if !store.runs()?.iter().any(|kept| kept.id == run.id) {
            store.begin_run(&Run { ended_unix_ms: None, ..run.clone() })?;
        }
        let finished = store.finished(&run.id)?;
        let new = self.cells.iter().filter(|cell| !finished.contains(&cell.key.index));
        let mut count = 0;
        for cell in new {
            store.add_cell(&run.id, cell)?;
            count += 1;
        }
        if let Some(ended_unix_ms) = run.ended_unix_ms
            && store.run(&run.id)?.ended_unix_ms.is_none()
        {
            store.end_run(&run.id, ended_unix_ms)?;
        }
        Ok(count)
    }
}

/// Whether the data called `name` is a cell. Requires a number after the prefix, because the files of a gateway named
/// `cell` have the same prefix.
fn is_cell(name: &str) -> bool {
    name.strip_prefix(CELL).is_some_and(|index| index.parse::<u32>().is_ok())
}

fn packed(run: &Run, cells: &[Cell]) -> Vec<u8> {
    let mut data = Vec::new();
    // Writing to memory cannot fail.
    let _ = write_archive(run, cells, &mut data);
    data
}

fn ending_in(secrets: &[Value]) -> Result<Option<Ending>, PodError> {
    let Some(data) = joined(secrets).map_err(|why| damaged(END, &why))? else { return Ok(None) };
    serde_json::from_slice(&data).map(Some).map_err(|error| damaged(END, &error.to_string()))
}

fn damaged(name: &str, why: &str) -> PodError {
    PodError::new("kubernetes", format!("the result `{name}` cannot be read: {why}"), "report this as a bug")
}
