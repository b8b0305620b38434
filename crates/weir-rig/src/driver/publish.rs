//! NATS messages that register routes with a gateway.

use std::collections::HashSet;
use std::str::FromStr;
use std::time::Duration;

use minijinja::context;
use weir_document::Time;

use super::templates::Templates;
use super::{Binding, Driver, Step};
use crate::RigError;

/// A NATS message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The subject to which the message is published.
    pub subject: String,
    /// The content of the message.
    pub payload: String,
}

/// The messages of a step `nats_publish`, and when to publish them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publication {
    /// The name of the service that is the NATS server.
    pub service: String,
    /// The messages, one for each route.
    pub messages: Vec<Message>,
    /// The time between two messages.
    pub gap: Duration,
    /// The interval at which all messages are published again; `None` publishes them once.
    pub every: Option<Duration>,
}

impl Driver {
    /// The messages of the step `nats_publish`; `None` for other steps.
    pub(super) fn publication(
        &self,
        step: &Step,
        binding: &Binding,
        templates: &Templates<'_>,
    ) -> Result<Option<Publication>, RigError> {
        let Step::NatsPublish { service, subject, template, gap, every } = step else { return Ok(None) };
        let time = |text: &Option<String>| self.time(text.as_deref(), templates);
        Ok(Some(Publication {
            service: service.clone(),
            messages: messages(binding, templates, template, subject)?,
            gap: time(gap)?.unwrap_or_default(),
            every: time(every)?,
        }))
    }

    /// Renders the template `text` and parses the result as a time; `None` if it is absent or renders empty.
    fn time(&self, text: Option<&str>, templates: &Templates<'_>) -> Result<Option<Duration>, RigError> {
        let Some(text) = text else { return Ok(None) };
        let text = templates.text("nats_publish", text)?;
        if text.trim().is_empty() {
            return Ok(None);
        }
        let time = Time::from_str(text.trim());
        time.map(|time| Some(time.0))
            .map_err(|error| self.wrong(&format!("`nats_publish`: {error}"), "write a time like 50us or 60s"))
    }
}

/// Renders one message for each combination of host, path and upstream address.
pub(super) fn messages(
    binding: &Binding,
    templates: &Templates<'_>,
    template: &str,
    subject: &str,
) -> Result<Vec<Message>, RigError> {
    let mut messages = Vec::with_capacity(binding.hosts.len() * binding.paths.len() * binding.origins.len());
    for host in &binding.hosts {
        for path in &binding.paths {
            for origin in &binding.origins {
                let route = context! {
                    host, path,
                    origin_ip => origin.ip().to_string(),
                    origin_port => origin.port(),
                };
                let payload = templates.file_with(template, context! { route })?;
                messages
                    .push(Message { subject: subject.to_owned(), payload: payload.trim_end().to_owned() });
            }
        }
    }
    Ok(messages)
}

/// The messages of `before` for removed routes, then the messages of `after` for added routes. A message that is in
/// both is left out, because its route stays.
pub(super) fn difference(before: Vec<Message>, after: Vec<Message>) -> Vec<Message> {
    let contents = |messages: &[Message]| -> HashSet<String> {
        messages.iter().map(|message| message.payload.clone()).collect()
    };
    let (had, has) = (contents(&before), contents(&after));
    let removed = before.into_iter().filter(|message| !has.contains(&message.payload));
    let added = after.into_iter().filter(|message| !had.contains(&message.payload));
    removed.chain(added).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changed_routes_are_published() {
        let of = |subject: &str, contents: &[&str]| -> Vec<Message> {
            let message = |content: &&str| Message { subject: subject.into(), payload: (*content).into() };
            contents.iter().map(message).collect()
        };
        let messages = difference(of("gone", &["a", "b"]), of("new", &["b", "c"]));
        assert_eq!(messages, [of("gone", &["a"]), of("new", &["c"])].concat());
    }
}
