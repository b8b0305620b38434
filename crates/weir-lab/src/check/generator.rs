//! Checks the agents that generate load.

use super::problem::Problems;
use crate::agents::Place;
use crate::scenario::{Network, Scenario};

/// Checks that the agents reach the gateways, and that every load has at least one connection per agent.
pub(super) fn check_generator(scenario: &Scenario, found: &mut Problems) {
    let Some(place) = &scenario.generator.on else { return };
    let at = ["generator", "on"];
    match place {
        Place::Namespaces(_) if scenario.is_elsewhere() => {
            let message = format!("{place}: agents in network namespaces cannot reach remote gateways");
            found.add(&at, message, "use local:N, agents:N or ssh:HOST");
        }
        Place::Local(_) | Place::Own(_) | Place::Ssh(_) if scenario.network == Network::Namespaces => {
            let message = format!("{place}: these agents do not reach gateways in network namespaces");
            found.add(&at, message, "use netns:N, or `network: loopback`");
        }
        _ => {}
    }
    for (name, load) in scenario.loads.iter() {
        let (connections, agents) = (load.connections.least(), place.agents());
        if connections < agents {
            let message = format!("{connections} connections cannot be shared by {agents} agents");
            let remedy = format!("use at least {agents} connections, or fewer agents");
            found.add(&["loads", name, "connections"], message, remedy);
        }
    }
}
