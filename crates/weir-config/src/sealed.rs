//! What is made of files: TLS of listeners and backends, tokens of routes. It is made again only where something has
//! changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustls::sign::CertifiedKey;

use crate::change::Key;
use crate::files::{Content, Fault, content};
use crate::model::Listener;
use crate::pairs::{MakingPairs, Pairs};
use crate::passthrough::ByName;
use crate::problem::Problem;
use crate::shown::ShownCertificate;
use crate::state::{Refused, State};
use crate::tokens::TokenSet;
use crate::transport::{Secure, Transport};
use crate::upstream_tls::UpstreamTls;

/// What was made of the files of a state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealed {
    pairs: Arc<Pairs>,
    /// By the listener's name.
    secure: BTreeMap<String, Arc<Secure>>,
    /// By the listener's name.
    by_name: BTreeMap<String, Arc<ByName>>,
    /// By the backend's name.
    upstreams: BTreeMap<String, Arc<UpstreamTls>>,
    /// By the file, beside what they were read from.
    tokens: BTreeMap<String, (Content, Arc<TokenSet>)>,
}

/// What a batch touched, less what was refused of it already.
struct Suspects<'b> {
    touched: &'b BTreeSet<Key>,
    refused: &'b Refused,
}

impl Sealed {
    /// How clients of `listener`, called `name`, are spoken with.
    pub(crate) fn transport(&self, name: &str, listener: &Listener) -> Transport {
        let secure = self.secure.get(name);
        assert_eq!(secure.is_some(), listener.tls.is_some(), "TLS is made before a table is");
        match (self.by_name.get(name), secure) {
            (Some(by_name), _) => Transport::ByName(Arc::clone(by_name)),
            (None, Some(secure)) => Transport::Tls(Arc::clone(&secure.config)),
            (None, None) => Transport::Plain,
        }
    }

    /// The certificates of `listener`, called `name`.
    pub(crate) fn certificates(&self, name: &str, listener: &Listener) -> Vec<ShownCertificate> {
        let told = || listener.name.clone().unwrap_or_else(|| listener.address.to_string());
        let pairs = self.secure.get(name).into_iter().flat_map(|secure| secure.certificates());
        let shown = |(file, certified): (&str, &Arc<CertifiedKey>)| ShownCertificate {
            listener: told(),
            file: file.to_owned(),
            certified: Arc::clone(certified),
        };
        pairs.map(shown).collect()
    }

    /// TLS with the backend `name`, unless it is spoken with in plain text.
    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<UpstreamTls>> {
        self.upstreams.get(name).map(Arc::clone)
    }

    /// The certificates of the listener called `name`, in the order in which it names them.
    pub(crate) fn pairs_of(&self, name: &str) -> &[Arc<CertifiedKey>] {
        self.secure.get(name).map(|secure| secure.pairs()).unwrap_or_default()
    }

    /// The tokens of `file`; without any, nobody is let in.
    pub(crate) fn tokens(&self, file: &str) -> Arc<TokenSet> {
        self.tokens.get(file).map(|(_, tokens)| Arc::clone(tokens)).unwrap_or_default()
    }
}

impl State {
    /// Makes what differs from `before`; what cannot be made is told with keys that the batch touched.
    pub(crate) fn seal(
        &mut self,
        before: &Sealed,
        touched: &BTreeSet<Key>,
        refused: &Refused,
    ) -> Vec<(Key, Problem)> {
        let suspects = Suspects { touched, refused };
        let mut found = Vec::new();
        let mut sealed = Sealed::default();
        let is_of_tls = |key: &Key| match key {
            Key::Listener(_) | Key::File(_) => true,
            Key::Backend(name) => {
                let is_sealed = self.backends.get(name).is_some_and(|backend| backend.tls.is_some());
                is_sealed || before.upstreams.contains_key(name)
            }
            Key::Settings | Key::Route(_) => false,
        };
        if touched.iter().any(is_of_tls) {
            self.seal_tls(before, &mut sealed, &suspects, &mut found);
        } else {
            sealed = Sealed { tokens: BTreeMap::new(), ..before.clone() };
        }
        self.seal_tokens(before, &mut sealed, &suspects, &mut found);
        self.sealed = sealed;
        found
    }

    fn seal_tls(
        &self,
        before: &Sealed,
        sealed: &mut Sealed,
        suspects: &Suspects<'_>,
        found: &mut Vec<(Key, Problem)>,
    ) {
        let mut pairs = MakingPairs::after([&before.pairs, &self.sealed.pairs]);
        for (name, listener) in &self.listeners {
            let secure = listener
                .tls
                .as_deref()
                .map(|tls| Secure::make(name, (listener, tls), &self.files, &before.secure, &mut pairs));
            match secure.transpose() {
                Ok(secure) => {
                    if !listener.passthrough.is_empty() {
                        let config = secure.as_ref().map(|secure| &secure.config);
                        let by_name = ByName::make(&listener.passthrough, config, before.by_name.get(name));
                        sealed.by_name.insert(name.clone(), by_name);
                    }
                    sealed.secure.extend(secure.map(|secure| (name.clone(), secure)));
                }
                Err(faults) => {
                    for fault in faults {
                        found.extend(suspects.blame(Key::Listener(name.clone()), fault));
                    }
                }
            }
        }
        for (name, backend) in &self.backends {
            let Some(tls) = &backend.tls else { continue };
            match UpstreamTls::make(name, tls, &self.files, before.upstreams.get(name), &mut pairs) {
                Ok(upstream) => drop(sealed.upstreams.insert(name.clone(), upstream)),
                Err(fault) => found.extend(suspects.blame(Key::Backend(name.clone()), *fault)),
            }
        }
        sealed.pairs = Arc::new(pairs.made);
    }

    fn seal_tokens(
        &self,
        before: &Sealed,
        sealed: &mut Sealed,
        suspects: &Suspects<'_>,
        found: &mut Vec<(Key, Problem)>,
    ) {
        let mut failed = BTreeSet::new();
        for (name, route) in &self.routes {
            let Some(file) = &route.tokens else { continue };
            let is_told = failed.contains(file.as_str()) || suspects.is_unread(file);
            if is_told || sealed.tokens.contains_key(file) {
                continue;
            }
            match read_tokens(name, file, &self.files, before.tokens.get(file)) {
                Ok(tokens) => drop(sealed.tokens.insert(file.clone(), tokens)),
                Err(problem) => {
                    let (own, of_file) = (Key::Route(name.clone()), Key::File(file.clone()));
                    let is_files = suspects.has(&of_file);
                    found.push((if is_files { of_file } else { own }, problem));
                    if is_files {
                        // It is told once, whoever else names it.
                        failed.insert(file.as_str());
                    }
                }
            }
        }
    }
}

impl Suspects<'_> {
    fn has(&self, key: &Key) -> bool {
        self.touched.contains(key) && !self.refused.contains_key(key)
    }

    /// Whether the source has told of this file itself.
    fn is_unread(&self, file: &str) -> bool {
        self.refused.get(&Key::File(file.to_owned())).is_some_and(Vec::is_empty)
    }

    /// Whom a fault is told of: nobody if it comes of a file that could not be read; the resource if the batch touched it, else each of its files that it did, else all files
    /// that it did. What the batch did not touch held together before.
    fn blame(&self, own: Key, fault: Fault) -> Vec<(Key, Problem)> {
        let Fault { problem, files } = fault;
        if files.iter().any(|file| self.is_unread(file)) {
            return Vec::new();
        }
        let mut at_fault: Vec<Key> = files.into_iter().map(Key::File).filter(|key| self.has(key)).collect();
        if at_fault.is_empty() {
            let is_suspect = |key: &&Key| matches!(key, Key::File(_)) && self.has(key);
            at_fault = self.touched.iter().filter(is_suspect).cloned().collect();
        }
        if self.has(&own) || at_fault.is_empty() {
            return vec![(own, problem)];
        }
        at_fault.into_iter().map(|key| (key, problem.clone())).collect()
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
            Err(fault) => Err(fault.problem(place, file)),
        },
    }
}

#[cfg(test)]
mod tests;
