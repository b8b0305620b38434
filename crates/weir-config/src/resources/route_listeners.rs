//! Checks that the listeners named by routes exist.

use std::borrow::Cow;
use std::collections::BTreeSet;

use weir_document::{Problem, nearest};

use super::Resources;
use super::consistency::Trial;
use crate::change::Key;
use crate::model::Listener;

impl Resources {
    /// Finds routes that name unknown listeners. Reports the route, or the removed listener if the route did not
    /// change.
    pub(super) fn contradictions_of_route_listeners(&self, trial: Trial<'_>) -> Vec<(Key, Problem)> {
        // If the whole batch is refused because of a listener, the routes that name it are not reported.
        if trial.refuses_a_listener() {
            return Vec::new();
        }
        let labels: BTreeSet<Cow<'_, str>> = self.listeners.values().map(Listener::label).collect();
        let mut found = Vec::new();
        if self.uses.listeners.names().all(|name| labels.contains(name)) {
            return found;
        }
        for (key, entry) in &self.routes {
            let route = &entry.route;
            let is_missing = |(_, name): &(usize, &String)| !labels.contains(name.as_str());
            let Some((index, name)) = route.listeners.iter().enumerate().find(is_missing) else { continue };
            let had_name = |former: &&Listener| former.label() == name.as_str();
            let gone =
                trial.before.listeners.iter().find(|(_, former)| former.as_ref().filter(had_name).is_some());
            found.push(match gone {
                Some((listener, _)) if !trial.before.is_changed(entry) => {
                    let message = format!("listener `{name}` is still used by {key}");
                    let problem = Problem::of("listeners", message).help("remove the route first");
                    (Key::Listener(listener.clone()), problem)
                }
                _ => (
                    Key::Route(key.to_string()),
                    no_such_listener(format!("{key}.listeners[{index}]"), name, &labels),
                ),
            });
        }
        found
    }
}

/// The problem to report for the field `place`, which names the unknown listener `wanted`. `labels` are the known
/// listeners.
fn no_such_listener(place: String, wanted: &str, labels: &BTreeSet<Cow<'_, str>>) -> Problem {
    let problem = Problem::of(place, format!("unknown listener `{wanted}`"));
    match nearest(wanted, labels.iter().map(|label| &**label)) {
        Some(label) => problem.help(format!("did you mean `{label}`?")),
        None => {
            let labels: Vec<&str> = labels.iter().map(|label| &**label).take(8).collect();
            problem.help(format!("known listeners: {}", labels.join(", ")))
        }
    }
}
