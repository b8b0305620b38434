//! TLS settings and tokens, loaded from the files that a configuration names. Unchanged files are not loaded again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustls::sign::CertifiedKey;
use weir_document::Problem;

use crate::change::Key;
use crate::files::{Content, FileProblem, content, line_problem};
use crate::model::Listener;
use crate::resources::Resources;
use crate::resources::consistency::Trial;
use crate::tls::pairs::{PairLoader, Pairs};
use crate::tls::transport::{ListenerTls, ServerTls};
use crate::tls::{ByName, Transport, UpstreamTls};

pub(crate) mod tokens;

pub use tokens::TokenSet;

/// The contents of a configuration's files, in the form that workers use. Versions share unchanged parts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Credentials {
    tls: Arc<TlsCredentials>,
    tokens: Arc<Tokens>,
}

/// TLS of all listeners and backends.
#[derive(Clone, Debug, Default)]
struct TlsCredentials {
    pairs: Pairs,
    /// TLS of each listener, by its key.
    servers: BTreeMap<String, Arc<ServerTls>>,
    /// TLS passthrough of each listener, by its key.
    by_name: BTreeMap<String, Arc<ByName>>,
    /// TLS of each backend, by its name.
    upstreams: Arc<BTreeMap<String, Arc<UpstreamTls>>>,
}

/// Token sets by file name, each with the file content that it was read from.
type Tokens = BTreeMap<String, (Content, Arc<TokenSet>)>;

impl Credentials {
    /// The transport of `listener`, whose key is `name`.
    pub(crate) fn transport(&self, name: &str, listener: &Listener) -> Transport {
        let server = self.tls.servers.get(name);
        assert_eq!(server.is_some(), listener.tls.is_some(), "credentials are loaded before a table is made");
        match (self.tls.by_name.get(name), server) {
            (Some(by_name), _) => Transport::ByName(Arc::clone(by_name)),
            (None, Some(server)) => Transport::Tls(Arc::clone(&server.config)),
            (None, None) => Transport::Plain,
        }
    }

    /// TLS of the listener `name`; `None` without TLS.
    pub(crate) fn server(&self, name: &str) -> Option<Arc<ServerTls>> {
        self.tls.servers.get(name).map(Arc::clone)
    }

    /// TLS of the backend `name`; `None` without TLS.
    pub(crate) fn upstream(&self, name: &str) -> Option<Arc<UpstreamTls>> {
        self.tls.upstreams.get(name).map(Arc::clone)
    }

    /// The certificates of the listener with the key `name`, in the order of its configuration.
    pub(crate) fn pairs_of(&self, name: &str) -> &[Arc<CertifiedKey>] {
        self.tls.servers.get(name).map(|server| server.pairs()).unwrap_or_default()
    }

    /// The tokens in `file`. For an unknown file the set is empty, so every request is rejected.
    pub(crate) fn tokens(&self, file: &str) -> Arc<TokenSet> {
        self.tokens.get(file).map(|(_, tokens)| Arc::clone(tokens)).unwrap_or_default()
    }

    /// Whether the TLS credentials are the same as in `former`.
    pub(crate) fn has_tls_of(&self, former: &Credentials) -> bool {
        Arc::ptr_eq(&self.tls, &former.tls)
    }

    /// The backends whose TLS changed since `former`.
    pub(crate) fn upstreams_changed_since<'s>(&'s self, former: &'s Credentials) -> Vec<&'s str> {
        if self.has_tls_of(former) {
            return Vec::new();
        }
        let (now, former) = (&self.tls.upstreams, &former.tls.upstreams);
        let is_changed =
            |name: &&String| now.get(*name).map(Arc::as_ptr) != former.get(*name).map(Arc::as_ptr);
        now.keys().chain(former.keys()).filter(is_changed).map(String::as_str).collect()
    }

    /// The files whose tokens changed since `former`, without removed files.
    pub(crate) fn tokens_changed_since<'s>(&'s self, former: &Credentials) -> Vec<&'s str> {
        if Arc::ptr_eq(&self.tokens, &former.tokens) {
            return Vec::new();
        }
        let was = |file: &str| former.tokens.get(file).map(|(_, tokens)| Arc::as_ptr(tokens));
        let is_changed = |(file, (_, tokens)): &(&'s String, &'s (Content, Arc<TokenSet>))| {
            was(file) != Some(Arc::as_ptr(tokens))
        };
        self.tokens.iter().filter(is_changed).map(|(file, _)| file.as_str()).collect()
    }

    /// Returns the credentials for `resources`. Unchanged ones are reused from `self` or from `tried`, an earlier
    /// attempt for the same batch; the others are loaded. Each problem is returned with the key of the resource to
    /// refuse.
    pub(crate) fn next(
        &self,
        resources: &Resources,
        tried: Option<&Credentials>,
        trial: Trial<'_>,
    ) -> (Credentials, Vec<(Key, Problem)>) {
        let touched = trial.touched;
        let affects_tls = |key: &Key| match key {
            Key::Listener(_) => true,
            Key::Backend(name) => {
                let has_tls = resources.backends.get(name).is_some_and(|backend| backend.tls.is_some());
                has_tls || self.tls.upstreams.contains_key(name)
            }
            Key::Settings | Key::Route(_) | Key::File(_) => false,
        };
        let affects_tokens = |key: &Key| match key {
            Key::File(_) => true,
            Key::Route(name) => resources.routes.get(name.as_str()).is_some_and(|e| e.route.tokens.is_some()),
            Key::Settings | Key::Listener(_) | Key::Backend(_) => false,
        };
        let pairs = [&self.tls.pairs, tried.map_or(&self.tls.pairs, |tried| &tried.tls.pairs)];
        let mut loader = Loader { resources, former: self, trial, found: Vec::new() };
        let tls = if touched.iter().any(affects_tls) {
            Arc::new(loader.load_tls(PairLoader::new(pairs)))
        } else if touched.iter().any(|key| matches!(key, Key::File(_))) {
            Arc::new(loader.reload_tls(PairLoader::extending(pairs)))
        } else {
            Arc::clone(&self.tls)
        };
        let tokens = match touched.iter().any(affects_tokens) {
            true => Arc::new(loader.load_tokens()),
            false => Arc::clone(&self.tokens),
        };
        (Credentials { tls, tokens }, loader.found)
    }
}

/// Loads the credentials for a batch.
struct Loader<'b> {
    resources: &'b Resources,
    /// The credentials before the batch.
    former: &'b Credentials,
    trial: Trial<'b>,
    found: Vec<(Key, Problem)>,
}

impl Loader<'_> {
    fn load_tls(&mut self, mut pairs: PairLoader<'_>) -> TlsCredentials {
        let (resources, former) = (self.resources, &*self.former.tls);
        let mut tls = TlsCredentials::default();
        for (name, listener) in &resources.listeners {
            let server = listener.tls.as_deref().map(|tls| {
                let of = ListenerTls { key: name, listener, tls };
                ServerTls::load(of, &resources.files, &former.servers, &mut pairs)
            });
            match server.transpose() {
                Ok(server) => {
                    if !listener.passthrough.is_empty() {
                        let config = server.as_ref().map(|server| &server.config);
                        let by_name = ByName::make(&listener.passthrough, config, former.by_name.get(name));
                        tls.by_name.insert(name.clone(), by_name);
                    }
                    tls.servers.extend(server.map(|server| (name.clone(), server)));
                }
                Err(problems) => self.report_all(&Key::Listener(name.clone()), problems),
            }
        }
        let mut upstreams = BTreeMap::new();
        for (name, backend) in &resources.backends {
            let Some(tls) = &backend.tls else { continue };
            match UpstreamTls::load(name, tls, &resources.files, former.upstreams.get(name), &mut pairs) {
                Ok(upstream) => drop(upstreams.insert(name.clone(), upstream)),
                Err(problem) => self.report_all(&Key::Backend(name.clone()), vec![*problem]),
            }
        }
        tls.upstreams = Arc::new(upstreams);
        tls.pairs = pairs.loaded;
        tls
    }

    /// Loads TLS for a batch that changed only contents of files: every resource names the same files as before.
    fn reload_tls(&mut self, mut pairs: PairLoader<'_>) -> TlsCredentials {
        let (files, former) = (&self.resources.files, &*self.former.tls);
        let changed: BTreeSet<&str> = self.trial.touched.iter().filter_map(Key::file).collect();
        let mut tls = former.clone();
        for (name, server) in &former.servers {
            let Some(listener) = self.resources.listeners.get(name) else { continue };
            match server.reload(name, listener, &changed, files, &former.servers, &mut pairs) {
                Ok(same) if Arc::ptr_eq(server, &same) => {}
                Ok(server) => {
                    if !listener.passthrough.is_empty() {
                        let former = former.by_name.get(name);
                        let by_name = ByName::make(&listener.passthrough, Some(&server.config), former);
                        tls.by_name.insert(name.clone(), by_name);
                    }
                    tls.servers.insert(name.clone(), server);
                }
                Err(problems) => self.report_all(&Key::Listener(name.clone()), problems),
            }
        }
        for (name, upstream) in former.upstreams.iter().filter(|(_, upstream)| upstream.names_any(&changed)) {
            match upstream.reload(name, files, &mut pairs) {
                Ok(same) if Arc::ptr_eq(upstream, &same) => {}
                Ok(other) => drop(Arc::make_mut(&mut tls.upstreams).insert(name.clone(), other)),
                Err(problem) => self.report_all(&Key::Backend(name.clone()), vec![*problem]),
            }
        }
        tls.pairs = pairs.loaded;
        tls
    }

    fn load_tokens(&mut self) -> Tokens {
        let mut loaded = Tokens::new();
        for (file, routes) in &self.resources.uses.tokens {
            if self.is_unread(file) {
                continue;
            }
            for name in routes {
                match read_tokens(name, file, &self.resources.files, self.former.tokens.get(file)) {
                    Ok(tokens) => {
                        loaded.insert(file.clone(), tokens);
                        break;
                    }
                    Err(problem) => {
                        let (own, of_file) = (Key::Route(name.to_string()), Key::File(file.clone()));
                        if self.trial.is_suspect(&of_file) {
                            // An invalid file is reported once, even if many routes name it.
                            self.found.push((of_file, problem));
                            break;
                        }
                        self.found.push((own, problem));
                    }
                }
            }
        }
        loaded
    }

    /// Whether the source failed to read this file, and reports the error itself.
    fn is_unread(&self, file: &str) -> bool {
        self.trial.refused.get(&Key::File(file.to_owned())).is_some_and(Vec::is_empty)
    }

    fn report_all(&mut self, own: &Key, problems: Vec<FileProblem>) {
        for problem in problems {
            let blamed = self.blame(own, problem);
            self.found.extend(blamed);
        }
    }

    /// Selects the resources to refuse because of `problem`. The problem concerns files that the resource `own` names.
    /// The first case that applies decides:
    ///
    /// - The source could not read one of `problem.files`: no resource, because the source reports this itself.
    /// - The batch touched `own`, or touched no file: only `own`.
    /// - The batch touched some of `problem.files`: those that it touched.
    /// - Otherwise: all files that the batch touched.
    fn blame(&self, own: &Key, problem: FileProblem) -> Vec<(Key, Problem)> {
        let FileProblem { problem, files } = problem;
        if files.iter().any(|file| self.is_unread(file)) {
            return Vec::new();
        }
        let is_suspect = |key: &Key| self.trial.is_suspect(key);
        let mut at_fault: Vec<Key> = files.into_iter().map(Key::File).filter(is_suspect).collect();
        if at_fault.is_empty() {
            let is_file = |key: &&Key| matches!(key, Key::File(_)) && is_suspect(key);
            at_fault = self.trial.touched.iter().filter(is_file).cloned().collect();
        }
        if is_suspect(own) || at_fault.is_empty() {
            return vec![(own.clone(), problem)];
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
            Err(wrong) => Err(line_problem(wrong, place, file)),
        },
    }
}

#[cfg(test)]
mod tests;
