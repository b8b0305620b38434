//! `--on k8s`: the cluster of a run, and what its pods are made of.

use std::str::FromStr;

use weir_lab::agents::Place;
use weir_lab::pods::Site;
use weir_rig::ImageName;

use crate::failure::Failure;

/// Where `weir run` generates load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cmd) enum On {
    /// From agents; gateways run on this host.
    Agents(Place),
    /// Everything runs in pods of the cluster of this context; `None` is the current one.
    Cluster(Option<String>),
}

impl FromStr for On {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "k8s" => Ok(Self::Cluster(None)),
            Some(("k8s", "")) => Err("`k8s:` has no context; use k8s for the current one".into()),
            Some(("k8s", context)) => Ok(Self::Cluster(Some(context.to_owned()))),
            _ => match text.parse::<Place>() {
                Ok(Place::Pods(count)) => {
                    Err(format!("`{text}` is no place for agents; use k8s with --agents {count}"))
                }
                Ok(place) => Ok(Self::Agents(place)),
                Err(why) => Err(format!("{why}, or k8s for a Kubernetes cluster")),
            },
        }
    }
}

/// What a run in a cluster is made of.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cmd) struct ClusterArgs {
    /// With k8s: number of agents that generate the load, each in a pod of its own [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(in crate::cmd) agents: Option<u32>,
    /// With k8s: namespace; a missing one is created for the run and removed with it [default: weir-RUN]
    #[arg(long, value_name = "NAMESPACE")]
    pub(in crate::cmd) namespace: Option<String>,
    /// With k8s: image that contains weir; weir-gateway comes from the image `weir-gateway` beside it
    #[arg(long, value_name = "IMAGE", value_parser = image, default_value_t = own_image())]
    pub(in crate::cmd) image: String,
    /// With k8s: let the run change limits of gateways that are in the cluster already, restart their pods, and read
    /// CPU and memory from the kubelets, by Roles that are removed with the run. weir restores the limits at the end. You
    /// need these rights yourself
    #[arg(long)]
    pub(in crate::cmd) grant: bool,
    /// With k8s: start an agent on the node of each gateway that is in the cluster already, which sees the processes of
    /// that node (hostPID, Pod Security `privileged`) and reads CPU and memory ten times a second; a kubelet updates them
    /// every 10 to 20 s only
    #[arg(long)]
    pub(in crate::cmd) samplers: bool,
    /// With k8s: return once the run has started; `weir k8s attach` follows it. Results that nobody fetches are deleted
    /// 24 h after the end
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
    /// The first of the flags that is given, but means nothing outside of a cluster.
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

    /// The image of weir.
    pub(in crate::cmd) fn image_name(&self) -> Result<ImageName, Failure> {
        ImageName::try_from(self.image.clone())
            .map_err(|why| Failure::wrong_use(why, "use a form like weir:1"))
    }

    /// The site of the run `id`. `is_own` is whether its namespace is made for it.
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
        assert_eq!(on("k8s:").unwrap_err(), "`k8s:` has no context; use k8s for the current one");
        assert_eq!(on("pods:4").unwrap_err(), "`pods:4` is no place for agents; use k8s with --agents 4");
        assert!(on("x").unwrap_err().ends_with(", or k8s for a Kubernetes cluster"));
    }
}
