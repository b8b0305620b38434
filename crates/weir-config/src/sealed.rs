//! What is made of files: TLS of listeners, tokens of routes. It is made again only where something has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::change::Key;
use crate::files::{Content, content};
use crate::model::Listener;
use crate::problem::Problem;
use crate::state::State;
use crate::tokens::TokenSet;
use crate::transport::{Secure, Transport};

/// What was made of the files of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealed {
    /// By the listener's name.
    secure: BTreeMap<String, Arc<Secure>>,
    /// By the file, beside what they were read from.
    tokens: BTreeMap<String, (Content, Arc<TokenSet>)>,
}

impl Sealed {
    /// How clients of `listener`, called `name`, are spoken with.
    pub(crate) fn transport(&self, name: &str, listener: &Listener) -> Transport {
        let secure = self.secure.get(name);
        assert_eq!(secure.is_some(), listener.tls.is_some(), "TLS is made before a table is");
        secure.map_or(Transport::Plain, |secure| Transport::Tls(Arc::clone(&secure.config)))
    }

    /// The tokens of `file`; without any, nobody is let in.
    pub(crate) fn tokens(&self, file: &str) -> Arc<TokenSet> {
        self.tokens.get(file).map(|(_, tokens)| Arc::clone(tokens)).unwrap_or_default()
    }
}

impl State {
    /// Makes what has changed; what cannot be made is told with a key that the batch touched.
    pub(crate) fn seal(
        &mut self,
        touched: &BTreeSet<Key>,
        refused: &BTreeMap<Key, Problem>,
    ) -> Vec<(Key, Problem)> {
        let former = std::mem::take(&mut self.sealed);
        let mut sealed = Sealed::default();
        let mut found = Vec::new();
        let is_at_fault = |key: &Key| touched.contains(key) && !refused.contains_key(key);
        for (name, listener) in &self.listeners {
            let Some(tls) = &listener.tls else { continue };
            match Secure::make(name, tls, &self.files, former.secure.get(name)) {
                Ok(secure) => drop(sealed.secure.insert(name.clone(), secure)),
                Err(problem) => {
                    let own = Key::Listener(name.clone());
                    let files = tls.files().into_iter().map(|(_, file)| Key::File(file.to_owned()));
                    // What the batch did not touch held together before.
                    let key = [own.clone()].into_iter().chain(files).find(is_at_fault);
                    found.push((key.unwrap_or(own), problem));
                    // It is wanted again once what was at fault is put back.
                    sealed
                        .secure
                        .extend(former.secure.get(name).map(|secure| (name.clone(), Arc::clone(secure))));
                }
            }
        }
        let mut failed = BTreeSet::new();
        for (name, route) in &self.routes {
            let Some(file) = &route.tokens else { continue };
            if sealed.tokens.contains_key(file) || failed.contains(file.as_str()) {
                continue;
            }
            match read_tokens(name, file, &self.files, former.tokens.get(file)) {
                Ok(tokens) => drop(sealed.tokens.insert(file.clone(), tokens)),
                Err(problem) => {
                    let (own, of_file) = (Key::Route(name.clone()), Key::File(file.clone()));
                    let is_files = is_at_fault(&of_file);
                    found.push((if is_files { of_file } else { own }, problem));
                    if is_files {
                        // It is told once, whoever else names it.
                        failed.insert(file.as_str());
                    }
                }
            }
        }
        for (file, tokens) in former.tokens.into_iter().filter(|_| !found.is_empty()) {
            sealed.tokens.entry(file).or_insert(tokens);
        }
        self.sealed = sealed;
        found
    }
}

fn read_tokens(
    route: &str,
    file: &str,
    files: &BTreeMap<String, Content>,
    former: Option<&(Content, Arc<TokenSet>)>,
) -> Result<(Content, Arc<TokenSet>), Problem> {
    let place = format!("{route}.tokens");
    let content = content(files, &place, file)?;
    match former {
        Some((same, tokens)) if same == content => Ok((same.clone(), Arc::clone(tokens))),
        _ => match TokenSet::read(content.bytes()) {
            Ok(tokens) => Ok((content.clone(), Arc::new(tokens))),
            Err(fault) => {
                let message = format!("`{file}`, line {}: {}", fault.line, fault.message);
                Err(Problem::new(place, message).help(fault.remedy))
            }
        },
    }
}

#[cfg(test)]
mod tests;
