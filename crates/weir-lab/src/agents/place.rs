//! Where load comes from: `--on`.

use std::fmt;
use std::str::FromStr;

use weir_document::as_word;

/// The most agents of a run.
const AGENTS_MAX: u32 = 256;

const FORMS: &str =
    "use local:N, netns:N or agents:N with 1 to 256 agents, like netns:2, or ssh:HOST,HOST with SSH hosts";

/// Where load comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Processes of this host: `local:18`.
    Local(u32),
    /// Network namespaces of this host, with a link each: `netns:4`.
    Namespaces(u32),
    /// Agents that the user starts: `agents:4`.
    Own(u32),
    /// SSH hosts, with an agent each: `ssh:host1,host2`.
    Ssh(Vec<String>),
}

impl Place {
    /// How many agents there are.
    pub fn agents(&self) -> u32 {
        match self {
            Self::Local(count) | Self::Namespaces(count) | Self::Own(count) => *count,
            Self::Ssh(hosts) => hosts.len() as u32,
        }
    }

    /// Whether agents run on other machines.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Own(_) | Self::Ssh(_))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Local(count) => write!(f, "local:{count}"),
            Self::Namespaces(count) => write!(f, "netns:{count}"),
            Self::Own(count) => write!(f, "agents:{count}"),
            Self::Ssh(hosts) => write!(f, "ssh:{}", hosts.join(",")),
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
            _ => Err(wrong(format!("`{text}` has no number of agents from 1 to {AGENTS_MAX}"))),
        };
        match kind {
            "local" => Ok(Self::Local(count()?)),
            "netns" => Ok(Self::Namespaces(count()?)),
            "agents" => Ok(Self::Own(count()?)),
            "ssh" => hosts(rest).map(Self::Ssh).map_err(wrong),
            _ => Err(wrong(format!("`{text}` is no place for agents"))),
        }
    }
}

as_word!(Place, "`local:N`, `netns:N` or `agents:N`, with the number of agents, or `ssh:HOST,HOST`");

/// SSH hosts; none may look like an option of it, or like several words.
fn hosts(text: &str) -> Result<Vec<String>, String> {
    let hosts: Vec<String> = text.split(',').map(|host| host.trim().to_owned()).collect();
    let is_host = |host: &&String| {
        !host.is_empty()
            && !host.starts_with('-')
            && !host.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    match hosts.iter().find(|host| !is_host(host)) {
        Some(wrong) => Err(format!("`{wrong}` is not an SSH host")),
        None if hosts.len() > AGENTS_MAX as usize => Err(format!("{} hosts are too many", hosts.len())),
        None => Ok(hosts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_and_mistakes_named() {
        let check = |text: &str, expected: Result<Place, &str>| match (text.parse::<Place>(), expected) {
            (Ok(found), Ok(expected)) => assert_eq!(found, expected),
            (Err(why), Err(expected)) => assert_eq!(why, format!("{expected}; {FORMS}")),
            (found, _) => panic!("{text}: {found:?}"),
        };
        check("local:18", Ok(Place::Local(18)));
        check("netns:4", Ok(Place::Namespaces(4)));
        check("agents:1", Ok(Place::Own(1)));
        check("netns", Err("`netns` has no number of agents from 1 to 256"));
        check("local:0", Err("`local:0` has no number of agents from 1 to 256"));
        check("local:257", Err("`local:257` has no number of agents from 1 to 256"));
        let hosts = |hosts: &[&str]| Ok(Place::Ssh(hosts.iter().map(|host| (*host).to_owned()).collect()));
        check("ssh:me@a, b", hosts(&["me@a", "b"]));
        check("ssh:", Err("`` is not an SSH host"));
        check("ssh:a,-oProxyCommand=x", Err("`-oProxyCommand=x` is not an SSH host"));
        check("k8s", Err("`k8s` is no place for agents"));
    }
}
