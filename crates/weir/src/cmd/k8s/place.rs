//! `--on`: where a run generates its load, and the settings of its pods if that is a cluster.

use std::str::FromStr;

use weir_lab::agents::Place;
use weir_lab::pods::Site;
use weir_rig::ImageName;

use crate::failure::Failure;

/// Where `weir run` generates its load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cmd) enum On {
    /// Agents generate the load. The gateways run on this host.
    Agents(Place),
    /// In pods of a cluster, together with everything else of the run. The text is a kubeconfig context; `None` is
    /// the current one.
    Cluster(Option<String>),
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "k8s" => Ok(Self::Cluster(None)),
            Some(("k8s", "")) => Err("`k8s:` has no context; use k8s for the current context".into()),
            Some(("k8s", context)) => Ok(Self::Cluster(Some(context.to_owned()))),
            _ => match text.parse::<Place>() {
                Ok(Place::Pods(count)) => {
                    Err(format!("agents cannot run on `{text}`; use k8s with --agents {count}"))
                }
                Ok(place) => Ok(Self::Agents(place)),
                Err(why) => Err(format!("{why}, or k8s for a Kubernetes cluster")),
            },
        }
    }
}

/// Flags of a run in a cluster.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cmd) struct ClusterArgs {
    /// With k8s: number of agents that generate the load, each in its own pod [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(in crate::cmd) agents: Option<u32>,
    /// With k8s: namespace of the run. If the namespace does not exist, weir creates it, and deletes it with the run
    /// [default: weir-RUN]
    #[arg(long, value_name = "NAMESPACE")]
    pub(in crate::cmd) namespace: Option<String>,
    /// With k8s: image that contains weir. For weir-gateway, weir uses the image `weir-gateway` with the same registry,
    /// path and tag
    #[arg(long, value_name = "IMAGE", value_parser = image, default_value_t = own_image())]
    pub(in crate::cmd) image: String,
    /// With k8s: create Roles for the run. They allow the run to change limits of gateways that already run in the
    /// cluster, to restart their pods, and to read CPU and memory from the kubelets. At the end, weir restores the
    /// limits and deletes the Roles. You need these permissions yourself
    #[arg(long)]
    pub(in crate::cmd) grant: bool,
    /// With k8s: start an agent on the node of each gateway that already runs in the cluster. The agent sees all
    /// processes of the node (hostPID, Pod Security `privileged`), and reads CPU and memory ten times per second. A
    /// kubelet updates these values only every 10 to 20 s
    #[arg(long)]
    pub(in crate::cmd) samplers: bool,
    /// With k8s: exit once the run has started; `weir k8s attach` follows the run. If weir created the namespace, it
    /// deletes the namespace, with the results, 24 h after the end
    #[arg(long)]
    pub(in crate::cmd) detach: bool,
}

fn image(text: &str) -> Result<String, String> {
    ImageName::try_from(text.to_owned()).map(String::from)
}

fn own_image() -> String {
    format!("weir:{}", env!("CARGO_PKG_VERSION"))
}

impl ClusterArgs {
    /// The first flag that the user gave although it is only valid for a cluster; `None` if there is none.
    pub(in crate::cmd) fn given(&self) -> Option<&'static str> {
        let flags = [
            ("--agents", self.agents.is_some()),
            ("--namespace", self.namespace.is_some()),
            ("--detach", self.detach),
            ("--grant", self.grant),
            ("--samplers", self.samplers),
            ("--image", self.image != own_image()),
        ];
        flags.into_iter().find(|(_, is_given)| *is_given).map(|(flag, _)| flag)
    }

    /// The flags that `weir run --resume` needs to measure under the same conditions. `--agents` is not needed, because
    /// agents are part of the scenario.
    pub(in crate::cmd) fn resume_flags(&self) -> Vec<(&'static str, Option<&str>)> {
        let image = (self.image != own_image()).then_some(self.image.as_str());
        let with_value = [("--namespace", self.namespace.as_deref()), ("--image", image)];
        let switches = [("--grant", self.grant), ("--samplers", self.samplers)];
        let given = with_value.into_iter().filter(|(_, value)| value.is_some());
        given.chain(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| (flag, None))).collect()
    }

    /// The image with weir, in its parsed form.
    pub(in crate::cmd) fn image_name(&self) -> Result<ImageName, Failure> {
        ImageName::try_from(self.image.clone())
            .map_err(|why| Failure::wrong_use(why, "use a form like weir:1"))
    }

    /// The place of the run `id` in the cluster. `is_own`: whether weir creates the namespace for the run.
    pub(super) fn site(&self, id: &str, is_own: bool) -> Site {
        Site {
            namespace: self.namespace.clone().unwrap_or_else(|| Site::own_namespace(id)),
            is_own,
            run: id.to_owned(),
            image: self.image.clone(),
            has_samplers: self.samplers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_clusters_or_agents() {
        let on = |text: &str| text.parse::<On>();
        assert_eq!(on("k8s"), Ok(On::Cluster(None)));
        assert_eq!(on("k8s:kind-weir"), Ok(On::Cluster(Some("kind-weir".into()))));
        assert_eq!(on("local:2"), Ok(On::Agents(Place::Local(2))));
        assert_eq!(on("k8s:").unwrap_err(), "`k8s:` has no context; use k8s for the current context");
        assert_eq!(on("pods:4").unwrap_err(), "agents cannot run on `pods:4`; use k8s with --agents 4");
        assert!(on("x").unwrap_err().ends_with(", or k8s for a Kubernetes cluster"));
    }
}
