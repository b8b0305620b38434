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
use crate::state::{Refused, State};
use crate::tokens::TokenSet;
use crate::transport::{Secure, Transport};
use crate::upstream_tls::UpstreamTls;

/// What was made of the files of a state. Versions that change nothing of one or the other share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sealed {
    tls: Arc<SealedTls>,
    tokens: Arc<SealedTokens>,
}

/// TLS of listeners and backends.
#[derive(Clone, Debug, Default)]
struct SealedTls {
    pairs: Pairs,
    /// By the listener's name.
    secure: BTreeMap<String, Arc<Secure>>,
    /// By the listener's name.
    by_name: BTreeMap<String, Arc<ByName>>,
    /// By the backend's name.
    upstreams: Arc<BTreeMap<String, Arc<UpstreamTls>>>,
}

/// By the file, beside what they were read from.
type SealedTokens = BTreeMap<String, (Content, Arc<TokenSet>)>;

/// What a batch touched, less what was refused of it already.
struct Suspects<'b> {
    touched: &'b BTreeSet<Key>,
    refused: &'b Refused,
}

impl Sealed {
    /// How clients of `listener`, called `name`, are spoken with.
    pub(crate) fn transport(&self, name: &str, listener: &Listener) -> Transport {
        let secure = self.tls.secure.get(name);
        assert_eq!(secure.is_some(), listener.tls.is_some(), "TLS is made before a table is");
        match (self.tls.by_name.get(name), secure) {
            (Some(by_name), _) => Transport::ByName(Arc::clone(by_name)),
            (None, Some(secure)) => Transport::Tls(Arc::clone(&secure.config)),
            (None, None) => Transport::Plain,
        }
    }

    /// TLS of the listener called `name`, where it speaks any.
    pub(crate) fn secure(&self, name: &str) -> Option<Arc<Secure>> {
        self.tls.secure.get(name).map(Arc::clone)
    }

    /// TLS with the backend `name`, unless it is spoken with in plain text.
    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<UpstreamTls>> {
        self.tls.upstreams.get(name).map(Arc::clone)
    }

    /// The certificates of the listener called `name`, in the order in which it names them.
    pub(crate) fn pairs_of(&self, name: &str) -> &[Arc<CertifiedKey>] {
        self.tls.secure.get(name).map(|secure| secure.pairs()).unwrap_or_default()
    }

    /// The tokens of `file`; without any, nobody is let in.
    pub(crate) fn tokens(&self, file: &str) -> Arc<TokenSet> {
        self.tokens.get(file).map(|(_, tokens)| Arc::clone(tokens)).unwrap_or_default()
    }

    /// Whether nothing of TLS has changed since `former`.
    pub(crate) fn has_tls_of(&self, former: &Sealed) -> bool {
        Arc::ptr_eq(&self.tls, &former.tls)
    }

    /// The backends whose TLS is not what it was in `former`.
    pub(crate) fn upstreams_changed_since<'s>(&'s self, former: &'s Sealed) -> Vec<&'s str> {
        if self.has_tls_of(former) {
            return Vec::new();
        }
        let (now, former) = (&self.tls.upstreams, &former.tls.upstreams);
        let is_changed =
            |name: &&String| now.get(*name).map(Arc::as_ptr) != former.get(*name).map(Arc::as_ptr);
        now.keys().chain(former.keys()).filter(is_changed).map(String::as_str).collect()
    }

    /// The files whose tokens are not what they were in `former`, and are there.
    pub(crate) fn tokens_changed_since<'s>(&'s self, former: &Sealed) -> Vec<&'s str> {
        if Arc::ptr_eq(&self.tokens, &former.tokens) {
            return Vec::new();
        }
        let was = |file: &str| former.tokens.get(file).map(|(_, tokens)| Arc::as_ptr(tokens));
        let is_changed = |(file, (_, tokens)): &(&'s String, &'s (Content, Arc<TokenSet>))| {
            was(file) != Some(Arc::as_ptr(tokens))
        };
        self.tokens.iter().filter(is_changed).map(|(file, _)| file.as_str()).collect()
    }
}

impl State {
    /// Makes what differs from what is in force; what cannot be made is told with keys that the batch touched. What was
    /// `tried` before is used again.
    pub(crate) fn seal(
        &self,
        tried: Option<&Sealed>,
        touched: &BTreeSet<Key>,
        refused: &Refused,
    ) -> (Sealed, Vec<(Key, Problem)>) {
        let suspects = Suspects { touched, refused };
        let mut found = Vec::new();
        let former = &self.sealed;
        let is_of_tls = |key: &Key| match key {
            Key::Listener(_) => true,
            Key::Backend(name) => {
                let is_sealed = self.backends.get(name).is_some_and(|backend| backend.tls.is_some());
                is_sealed || former.tls.upstreams.contains_key(name)
            }
            Key::Settings | Key::Route(_) | Key::File(_) => false,
        };
        let is_of_tokens = |key: &Key| match key {
            Key::File(_) => true,
            Key::Route(name) => self.routes.get(name.as_str()).is_some_and(|e| e.route.tokens.is_some()),
            Key::Settings | Key::Listener(_) | Key::Backend(_) => false,
        };
        let both = [&*former.tls, tried.map_or(&*former.tls, |tried| &*tried.tls)];
        let tls = if touched.iter().any(is_of_tls) {
            Arc::new(self.seal_tls(both, &suspects, &mut found))
        } else if touched.iter().any(|key| matches!(key, Key::File(_))) {
            Arc::new(self.seal_files(both, &suspects, &mut found))
        } else {
            Arc::clone(&former.tls)
        };
        let tokens = if touched.iter().any(is_of_tokens) {
            Arc::new(self.seal_tokens(&former.tokens, &suspects, &mut found))
        } else {
            Arc::clone(&former.tokens)
        };
        (Sealed { tls, tokens }, found)
    }

    fn seal_tls(
        &self,
        [former, tried]: [&SealedTls; 2],
        suspects: &Suspects<'_>,
        found: &mut Vec<(Key, Problem)>,
    ) -> SealedTls {
        let mut sealed = SealedTls::default();
        let mut pairs = MakingPairs::after([&former.pairs, &tried.pairs]);
        for (name, listener) in &self.listeners {
            let secure = listener
                .tls
                .as_deref()
                .map(|tls| Secure::make(name, (listener, tls), &self.files, &former.secure, &mut pairs));
            match secure.transpose() {
                Ok(secure) => {
                    if !listener.passthrough.is_empty() {
                        let config = secure.as_ref().map(|secure| &secure.config);
                        let by_name = ByName::make(&listener.passthrough, config, former.by_name.get(name));
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
        let mut upstreams = BTreeMap::new();
        for (name, backend) in &self.backends {
            let Some(tls) = &backend.tls else { continue };
            match UpstreamTls::make(name, tls, &self.files, former.upstreams.get(name), &mut pairs) {
                Ok(upstream) => drop(upstreams.insert(name.clone(), upstream)),
                Err(fault) => found.extend(suspects.blame(Key::Backend(name.clone()), *fault)),
            }
        }
        sealed.upstreams = Arc::new(upstreams);
        sealed.pairs = pairs.made;
        sealed
    }

    /// The same where files alone have changed, and nobody names others than before: what is made of them.
    fn seal_files(
        &self,
        [former, tried]: [&SealedTls; 2],
        suspects: &Suspects<'_>,
        found: &mut Vec<(Key, Problem)>,
    ) -> SealedTls {
        let changed: BTreeSet<&str> = suspects.touched.iter().filter_map(Key::file).collect();
        let mut sealed = former.clone();
        let mut pairs = MakingPairs::beside([&former.pairs, &tried.pairs]);
        for (name, secure) in &former.secure {
            let Some(listener) = self.listeners.get(name) else { continue };
            match secure.renewed(name, listener, (&changed, &self.files), &former.secure, &mut pairs) {
                Ok(same) if Arc::ptr_eq(secure, &same) => {}
                Ok(secure) => {
                    if !listener.passthrough.is_empty() {
                        let former = former.by_name.get(name);
                        let by_name = ByName::make(&listener.passthrough, Some(&secure.config), former);
                        sealed.by_name.insert(name.clone(), by_name);
                    }
                    sealed.secure.insert(name.clone(), secure);
                }
                Err(faults) => {
                    for fault in faults {
                        found.extend(suspects.blame(Key::Listener(name.clone()), fault));
                    }
                }
            }
        }
        for (name, upstream) in former.upstreams.iter().filter(|(_, upstream)| upstream.names_any(&changed)) {
            match upstream.renewed(name, &self.files, &mut pairs) {
                Ok(same) if Arc::ptr_eq(upstream, &same) => {}
                Ok(other) => drop(Arc::make_mut(&mut sealed.upstreams).insert(name.clone(), other)),
                Err(fault) => found.extend(suspects.blame(Key::Backend(name.clone()), *fault)),
            }
        }
        sealed.pairs = pairs.made;
        sealed
    }

    fn seal_tokens(
        &self,
        former: &SealedTokens,
        suspects: &Suspects<'_>,
        found: &mut Vec<(Key, Problem)>,
    ) -> SealedTokens {
        let mut sealed = SealedTokens::new();
        for (file, routes) in &self.uses.tokens {
            if suspects.is_unread(file) {
                continue;
            }
            for name in routes {
                match read_tokens(name, file, &self.files, former.get(file)) {
                    Ok(tokens) => {
                        sealed.insert(file.clone(), tokens);
                        break;
                    }
                    Err(problem) => {
                        let (own, of_file) = (Key::Route(name.to_string()), Key::File(file.clone()));
                        if suspects.has(&of_file) {
                            // It is told once, whoever else names it.
                            found.push((of_file, problem));
                            break;
                        }
                        found.push((own, problem));
                    }
                }
            }
        }
        sealed
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
