//! Where agents run, as `--on` and scenarios name it: `local:N`, `netns:N`, `agents:N`, `ssh:HOST`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

/// Maximum number of agents of a run.
const AGENTS_MAX: u32 = 256;

const FORMS: &str = "use local:N, netns:N or agents:N with N agents (1 to 256), like netns:2; or list SSH hosts: \
ssh:HOST,HOST";

/// The name of [`Place::Pods`]; only `weir run --on k8s` writes it into a scenario.
const PODS: &str = "pods";

const LIST: &str = "use a list of SSH hosts, like [ssh:host1, ssh:host2]";

/// Where agents run, and how many. The agents generate load, or a single agent samples processes or runs an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Processes on this host: `local:18`.
    Local(u32),
    /// Processes on this host, each in its own network namespace with its own link: `netns:4`.
    Namespaces(u32),
    /// Agents that the user starts: `agents:4`.
    Own(u32),
    /// Hosts where weir starts one agent each over SSH: `ssh:host1,host2`.
    Ssh(Vec<String>),
    /// Pods in the cluster of the run: `pods:4`. Gateways and upstreams then run in the cluster too.
    Pods(u32),
}

impl Place {
    /// Number of agents.
    pub fn agents(&self) -> u32 {
        match self {
            Self::Local(count) | Self::Namespaces(count) | Self::Own(count) | Self::Pods(count) => *count,
            Self::Ssh(hosts) => hosts.len() as u32,
        }
    }

    /// Whether agents run on other machines.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Ssh(_) | Self::Pods(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(count) => write!(f, "local:{count}"),
            Self::Namespaces(count) => write!(f, "netns:{count}"),
            Self::Own(count) => write!(f, "agents:{count}"),
            Self::Ssh(hosts) => write!(f, "ssh:{}", hosts.join(",")),
            Self::Pods(count) => write!(f, "{PODS}:{count}"),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |what: String| format!("{what}; {FORMS}");
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let count = || match rest.parse() {
            Ok(count @ 1..=AGENTS_MAX) => Ok(count),
            _ => Err(wrong(format!("`{text}` needs a number of agents, from 1 to {AGENTS_MAX}"))),
        };
        match kind {
            "local" => Ok(Self::Local(count()?)),
            "netns" => Ok(Self::Namespaces(count()?)),
            "agents" => Ok(Self::Own(count()?)),
            "ssh" => hosts(rest).map(Self::Ssh).map_err(wrong),
            PODS => Ok(Self::Pods(count()?)),
            _ => Err(wrong(format!("agents cannot run on `{text}`"))),
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlaceVisitor)
    }
}

impl JsonSchema for Place {
    fn schema_name() -> Cow<'static, str> {
        "Place".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }],
            "description": "`local:N`, `netns:N` or `agents:N` with the number of agents, `ssh:HOST,HOST`, or a list of \
                `ssh:HOST`.",
        })
    }
}

/// Reads a [`Place`] from a string, or from a list of `ssh:HOST`.
struct PlaceVisitor;

impl<'de> Visitor<'de> for PlaceVisitor {
    type Value = Place;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("agents like `netns:2` or a list like [ssh:host1, ssh:host2]")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Place, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Place, A::Error> {
        let mut hosts = Vec::new();
        while let Some(word) = seq.next_element::<String>()? {
            match word.parse() {
                Ok(Place::Ssh(more)) => hosts.extend(more),
                Ok(other) => return Err(de::Error::custom(format!("`{other}` is not an SSH host; {LIST}"))),
                Err(_) => return Err(de::Error::custom(format!("`{word}` is not an SSH host; {LIST}"))),
            }
        }
        match hosts.is_empty() {
            true => Err(de::Error::custom(format!("the list has no SSH host; {LIST}"))),
            false => hosts_of(hosts).map(Place::Ssh).map_err(de::Error::custom),
        }
    }
}

/// Splits a comma-separated list of SSH hosts. A host must not look like an option of `ssh`, or contain spaces.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    hosts_of(text.split(',').map(|host| host.trim().to_owned()).collect())
}

fn hosts_of(hosts: Vec<String>) -> Result<Vec<String>, String> {
    let is_host = |host: &&String| {
        !host.is_empty()
            && !host.starts_with('-')
            && !host.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    match hosts.iter().find(|host| !is_host(host)) {
        Some(wrong) => Err(format!("`{wrong}` is not an SSH host")),
        None if hosts.len() > AGENTS_MAX as usize => {
            Err(format!("{} SSH hosts exceed the maximum of 256", hosts.len()))
        }
        None => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_parsed_and_errors_named() {
        let check = |text: &str, expected: Result<Place, &str>| match (text.parse::<Place>(), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(why), Err(expected)) => assert_eq!(why, format!("{expected}; {FORMS}")),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("local:18", Ok(Place::Local(18)));
        check("netns:4", Ok(Place::Namespaces(4)));
        check("agents:1", Ok(Place::Own(1)));
        check("pods:4", Ok(Place::Pods(4)));
        check("netns", Err("`netns` needs a number of agents, from 1 to 256"));
        check("local:0", Err("`local:0` needs a number of agents, from 1 to 256"));
        check("local:257", Err("`local:257` needs a number of agents, from 1 to 256"));
        let hosts = |hosts: &[&str]| Ok(Place::Ssh(hosts.iter().map(|host| (*host).to_owned()).collect()));
        check("ssh:me@a, b", hosts(&["me@a", "b"]));
        check("ssh:", Err("`` is not an SSH host"));
        check("ssh:a,-oProxyCommand=x", Err("`-oProxyCommand=x` is not an SSH host"));
        check("k8s", Err("agents cannot run on `k8s`"));
    }

    #[test]
    fn a_list_names_ssh_hosts() {
        let read = |text: &str| serde_json::from_str::<Place>(text).map_err(|error| error.to_string());
        let place = read(r#"["ssh:a", "ssh:me@b,c"]"#).unwrap();
        assert_eq!(place, Place::Ssh(["a", "me@b", "c"].map(str::to_owned).to_vec()));
        assert_eq!(serde_json::to_string(&place).unwrap(), r#""ssh:a,me@b,c""#);
        for (text, expected) in [
            (r#"["local:2", "ssh:a"]"#, "`local:2` is not an SSH host; "),
            (r#"["a", "b"]"#, "`a` is not an SSH host; "),
            ("[]", "the list has no SSH host; "),
        ] {
            let why = read(text).unwrap_err();
            assert!(why.starts_with(&format!("{expected}{LIST}")), "{why}");
        }
    }
}
