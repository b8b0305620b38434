//! Gateways that already run in a cluster: renders the objects that define their routes, and names their workloads.

use std::collections::BTreeMap;
use std::path::Path;

use minijinja::context;
use serde::Serialize;
use serde_json::Value;

use super::action::manifests;
use super::form::{AcceptedFile, DataServiceFile, KubernetesFile, Step, WorkloadFile, WorkloadKind};
use super::templates::{Templates, environment, template_error};
use super::{Binding, Driver};
use crate::{Certificates, RigError};

/// Values about the gateway's cluster. Templates read them as `pods`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PodBinding {
    /// The namespace of the run.
    pub namespace: String,
    /// The run's name. It is part of the names of objects.
    pub run: String,
    /// The name of the upstream's Service, in `namespace`.
    pub service: String,
    /// The port of the upstream's Service.
    pub port: u16,
    /// The resources (limits) of the data plane's container, for gateways whose control plane sets them; null without
    /// limits.
    pub resources: Value,
}

/// A Deployment or DaemonSet of a gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// The kind of the workload.
    pub kind: WorkloadKind,
    /// The namespace of the workload.
    pub namespace: String,
    /// The name of the workload.
    pub name: String,
    /// The container that weir measures and limits.
    pub container: String,
}

/// The routes and the workloads of a gateway that runs in a cluster.
#[derive(Clone, Debug)]
pub struct ClusterRoutes {
    /// The objects that define the routes, in the order in which they are applied.
    pub objects: Vec<Value>,
    /// The condition that objects of one kind must meet before the load.
    pub accepted: Option<AcceptedFile>,
    /// The data plane: the workload that proxies the load.
    pub data: Workload,
    /// The control plane: the workload that configures the data plane.
    pub control: Option<Workload>,
    /// The Service of the data plane; `None` if the driver names no Service, or the Service has no port for this
    /// topology.
    pub service: Option<DataService>,
}

/// The Service of a data plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataService {
    /// The namespace of the Service.
    pub namespace: String,
    /// The name of the Service.
    pub name: String,
    /// The Service's port for this topology: the port for TLS or for plain HTTP.
    pub port: u16,
}

impl WorkloadKind {
    /// The name of the kind in Kubernetes.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
        }
    }
}

impl Driver {
    /// The driver's section `kubernetes`; `None` unless its gateway already runs in a cluster.
    pub fn kubernetes(&self) -> Option<&KubernetesFile> {
        self.file.kubernetes.as_ref()
    }

    /// Checks that the section `kubernetes`, if there is one, does not contradict the rest of the file.
    pub(super) fn check_kubernetes(&self) -> Result<(), RigError> {
        let Some(of) = &self.file.kubernetes else { return Ok(()) };
        if !self.file.processes.is_empty() || self.file.binary.is_some() {
            let message = "a gateway that runs in a cluster has no `binary` and no `processes`";
            return Err(self.wrong(message, "remove `binary` and `processes`, or remove `kubernetes`"));
        }
        self.check_template(&of.routes)?;
        let is_allowed = |step: &&Step| !matches!(step, Step::Certificate { .. });
        match self.file.steps.iter().find(is_allowed) {
            None => Ok(()),
            Some(step) => {
                Err(self.unsupported(format!("the step `{}` together with `kubernetes`", step.name())))
            }
        }
    }

    /// Returns the namespaces of the gateway's workloads in the run `run`, and for each namespace the names of its
    /// workloads. The data plane's namespace comes first. `set` overrides settings of the driver.
    ///
    /// # Errors
    /// [`RigError::Driver`] if the driver does not have a setting in `set`; [`RigError::Render`] for an invalid
    /// template.
    pub fn cluster_workloads(
        &self,
        set: &BTreeMap<String, Value>,
        run: &str,
    ) -> Result<Vec<(String, Vec<String>)>, RigError> {
        let Some(of) = &self.file.kubernetes else { return Ok(Vec::new()) };
        let values = context! { set => self.settings(set)?, pods => context! { run } };
        let text = |text: &String| {
            environment().render_str(text, &values).map_err(|error| template_error(&self.place, &error))
        };
        let mut found: Vec<(String, Vec<String>)> = Vec::new();
        for workload in [Some(&of.data), of.control.as_ref()].into_iter().flatten() {
            let (namespace, name) = (text(&workload.namespace)?, text(&workload.name)?);
            match found.iter_mut().find(|(known, _)| *known == namespace) {
                Some((_, names)) => names.push(name),
                None => found.push((namespace, vec![name])),
            }
        }
        Ok(found)
    }

    /// Renders the objects that define the routes of `binding`. `certificates` come from [`Driver::render`].
    ///
    /// # Errors
    /// [`RigError::Render`] or [`RigError::Driver`] for an invalid template, or a driver without a section
    /// `kubernetes`.
    pub fn cluster_routes(
        &self,
        binding: &Binding,
        certificates: Option<&Certificates>,
        dir: &Path,
    ) -> Result<ClusterRoutes, RigError> {
        let Some(of) = &self.file.kubernetes else {
            return Err(self.wrong("the driver has no section `kubernetes`", "add `kubernetes`"));
        };
        let templates = Templates::of_gateway(self, binding, certificates, dir)?;
        let workload = |file: &WorkloadFile| -> Result<Workload, RigError> {
            let text = |text: &String| templates.text("kubernetes", text);
            Ok(Workload {
                kind: file.kind,
                namespace: text(&file.namespace)?,
                name: text(&file.name)?,
                container: text(&file.container)?,
            })
        };
        let data = workload(&of.data)?;
        let port = |of: &DataServiceFile| if certificates.is_some() { of.tls_port } else { Some(of.port) };
        let service = of.service.as_ref().and_then(|of| Some((of, port(of)?)));
        let service = service.map(|(of, port)| {
            let name = templates.text("kubernetes", &of.name)?;
            Ok::<_, RigError>(DataService { namespace: data.namespace.clone(), name, port })
        });
        Ok(ClusterRoutes {
            objects: manifests(&of.routes, &templates.file(&of.routes)?)?,
            accepted: of.accepted.clone(),
            data,
            control: of.control.as_ref().map(workload).transpose()?,
            service: service.transpose()?,
        })
    }
}
