//! The transport of a listener: plain HTTP, TLS, or TLS passthrough.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::UnixTime;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{Error, ServerConfig};
use weir_document::Problem;

use crate::files::{Content, FileProblem, Files, line_problem};
use crate::model::{ClientAuth, Listener, Tls};
use crate::tls::certificates::{Named, Names};
use crate::tls::digest::sha256_of;
use crate::tls::pairs::{PairLoader, authorities, no_authorities};
use crate::tls::passthrough::ByName;
use crate::tls::policy;
use crate::tls::tickets::{Binding, Ticketer, read_secrets};

/// How a listener handles a connection.
#[derive(Clone, Debug, Default)]
pub enum Transport {
    /// Plain HTTP.
    #[default]
    Plain,
    /// TLS with this configuration.
    Tls(Arc<ServerConfig>),
    /// Passthrough or TLS, depending on the server name.
    ByName(Arc<ByName>),
}

/// TLS of a listener, with the settings and files that it was made from. Versions of the configuration share it until
/// one of these settings or files changes.
#[derive(Debug)]
pub(crate) struct ServerTls {
    tls: Arc<Tls>,
    pairs: Vec<Arc<CertifiedKey>>,
    names: Arc<Names>,
    secrets: Option<Content>,
    binding: Binding,
    /// Configuration versions share this ticketer as long as `binding` and the ticket keys stay the same, even if
    /// certificates change.
    ticketer: Option<Arc<Ticketer>>,
    pub(crate) config: Arc<ServerConfig>,
}

/// A listener with its TLS settings.
#[derive(Clone, Copy)]
pub(crate) struct ListenerTls<'l> {
    /// The key of the listener.
    pub(crate) key: &'l str,
    pub(crate) listener: &'l Listener,
    pub(crate) tls: &'l Tls,
}

impl ServerTls {
    /// The certificates, each with its file name.
    pub(crate) fn certificates(&self) -> impl Iterator<Item = (&str, &Arc<CertifiedKey>)> {
        self.tls.pairs().map(|pair| pair.certificate).zip(&self.pairs)
    }

    /// Loads the TLS configuration of a listener. Reuses the parts in `former` that did not change.
    pub(crate) fn load(
        of: ListenerTls<'_>,
        contents: &BTreeMap<String, Content>,
        former: &BTreeMap<String, Arc<ServerTls>>,
        pairs: &mut PairLoader<'_>,
    ) -> Result<Arc<ServerTls>, Vec<FileProblem>> {
        let files = Files { place: format!("{}.tls", of.key), contents };
        let (mut made, mut faults) = (Vec::new(), Vec::new());
        for pair in of.tls.pairs() {
            match pairs.pair(&pair, &files) {
                Ok(pair) => made.push(pair),
                Err(fault) => faults.push(*fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        ServerTls::of_pairs(of, made, &files, former).map_err(|fault| vec![*fault])
    }

    /// The certificates, in the order of the configuration.
    pub(crate) fn pairs(&self) -> &[Arc<CertifiedKey>] {
        &self.pairs
    }

    fn of_pairs(
        of: ListenerTls<'_>,
        made: Vec<Arc<CertifiedKey>>,
        files: &Files<'_>,
        former: &BTreeMap<String, Arc<ServerTls>>,
    ) -> Result<Arc<ServerTls>, Box<FileProblem>> {
        let ListenerTls { key, listener, tls } = of;
        let content = |field: &str, file: Option<&str>| {
            file.map(|file| files.content(field, file).cloned()).transpose()
        };
        let keys = tls.tickets.keys();
        let secrets = content("tickets.file", keys.and_then(|keys| keys.file.as_deref()))?;
        let binding = binding(listener, tls, content("client_ca", tls.client_ca.as_deref())?.as_ref());
        if let Some(same) = former.get(key).filter(|former| {
            let is_same = |(a, b): (&Arc<CertifiedKey>, &Arc<CertifiedKey>)| Arc::ptr_eq(a, b);
            *former.tls == *tls
                && former.binding == binding
                && former.secrets == secrets
                && former.pairs.len() == made.len()
                && former.pairs.iter().zip(&made).all(is_same)
        }) {
            return Ok(Arc::clone(same));
        }
        let goes_on = |former: &&Arc<ServerTls>| {
            former.binding == binding && former.tls.tickets == tls.tickets && former.secrets == secrets
        };
        let ticketer = match former.values().find(goes_on) {
            Some(former) => former.ticketer.clone(),
            None => ticketer(tls, files, secrets.as_ref(), binding)?,
        };
        let named: Vec<Named<'_>> =
            made.iter().enumerate().map(|(position, pair)| Named::new(pair, tls.hosts(position))).collect();
        let names = Names::new(&named, tls.strict_sni).map_err(|position| unused(files, tls, position))?;
        let names = Arc::new(names);
        let config = server_config(tls, files, Arc::clone(&names), ticketer.clone())?;
        Ok(Arc::new(ServerTls {
            tls: Arc::new(tls.clone()),
            pairs: made,
            names,
            secrets,
            binding,
            ticketer,
            config: Arc::new(config),
        }))
    }

    /// Loads the new contents of the files `changed`. Replaces only the renewed certificates if possible. Otherwise
    /// loads the whole TLS configuration again.
    pub(crate) fn reload(
        self: &Arc<ServerTls>,
        key: &str,
        listener: &Listener,
        changed: &BTreeSet<&str>,
        contents: &BTreeMap<String, Content>,
        former: &BTreeMap<String, Arc<ServerTls>>,
        pairs: &mut PairLoader<'_>,
    ) -> Result<Arc<ServerTls>, Vec<FileProblem>> {
        let tls = &*self.tls;
        let keys = tls.tickets.keys().and_then(|keys| keys.file.as_deref());
        if [tls.client_ca.as_deref(), keys].into_iter().flatten().any(|file| changed.contains(file)) {
            return ServerTls::load(ListenerTls { key, listener, tls }, contents, former, pairs);
        }
        let files = Files { place: format!("{key}.tls"), contents };
        let (mut made, mut faults) = (Vec::new(), Vec::new());
        for position in (0..self.pairs.len()).filter(|position| tls.names_any(*position, changed)) {
            let Some(pair) = tls.pair(position) else { continue };
            let former = &self.pairs[position];
            match pairs.pair(&pair, &files) {
                Ok(now) if Arc::ptr_eq(former, &now) => {}
                Ok(now) => {
                    made.push((position, now));
                }
                Err(fault) => faults.push(*fault),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        if made.is_empty() {
            return Ok(Arc::clone(self));
        }
        let renewals = made
            .iter()
            .map(|(position, now)| (&self.pairs[*position], Named::new(now, tls.hosts(*position))));
        let Some(names) = self.names.renewed(renewals).map(Arc::new) else {
            return ServerTls::load(ListenerTls { key, listener, tls }, contents, former, pairs);
        };
        let config = server_config(tls, &files, Arc::clone(&names), self.ticketer.clone());
        let config = Arc::new(config.map_err(|fault| vec![*fault])?);
        let mut all = self.pairs.clone();
        made.into_iter().for_each(|(position, pair)| all[position] = pair);
        Ok(Arc::new(ServerTls {
            tls: Arc::clone(&self.tls),
            pairs: all,
            names,
            secrets: self.secrets.clone(),
            binding: self.binding,
            ticketer: self.ticketer.clone(),
            config,
        }))
    }
}

/// The binding of `listener`: a digest of the listener and its client authentication. If one of them changes, earlier
/// sessions must not be resumed.
fn binding(listener: &Listener, tls: &Tls, ca: Option<&Content>) -> Binding {
    // If ticket keys are shared and the listener has a name, use its name instead of its address: the gateways of a
    // fleet have different addresses.
    let is_shared = tls.tickets.keys().is_some_and(|keys| keys.file.is_some());
    let name = listener.name.clone().filter(|_| is_shared).unwrap_or_else(|| listener.address.to_string());
    let policy = match (ca, tls.client_auth) {
        (None, _) => 0,
        (Some(_), Some(ClientAuth::Optional)) => 1,
        (Some(_), _) => 2,
    };
    // The length of the name comes first, so that two different listeners never give the same digest input.
    let length = (name.len() as u64).to_be_bytes();
    sha256_of([&length, name.as_bytes(), &[policy], ca.map_or(&[][..], Content::bytes)])
}

fn ticketer(
    tls: &Tls,
    files: &Files<'_>,
    secrets: Option<&Content>,
    binding: Binding,
) -> Result<Option<Arc<Ticketer>>, Box<FileProblem>> {
    let Some(keys) = tls.tickets.keys() else { return Ok(None) };
    let lifetime_s = keys.lifetime.0.as_secs();
    let made = match (&keys.file, secrets) {
        (Some(file), Some(secrets)) => {
            let secrets = read_secrets(secrets.bytes()).map_err(|fault| {
                FileProblem::new(line_problem(fault, files.place("tickets.file"), file), [file.as_str()])
            })?;
            Ticketer::shared(lifetime_s, binding, &secrets)
        }
        _ => Ticketer::random(lifetime_s, binding, UnixTime::now().as_secs()),
    };
    match made {
        Ok(ticketer) => Ok(Some(Arc::new(ticketer))),
        Err(_) => {
            let problem = Problem::of(
                files.place("tickets"),
                "the system returned no random bytes for the ticket keys",
            );
            Err(FileProblem::new(problem.help("write `tickets: off` to run without tickets"), []))
        }
    }
}

fn server_config(
    tls: &Tls,
    files: &Files<'_>,
    names: Arc<Names>,
    ticketer: Option<Arc<Ticketer>>,
) -> Result<ServerConfig, Box<FileProblem>> {
    let provider = Arc::new(policy::provider(tls));
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&policy::versions(tls))
        .map_err(|error: Error| FileProblem::new(Problem::of(files.place.clone(), error.to_string()), []))?;
    let builder = match &tls.client_ca {
        Some(ca) => builder.with_client_cert_verifier(verifier(tls, ca, files, &provider)?),
        None => builder.with_no_client_auth(),
    };
    let mut config = builder.with_cert_resolver(names);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.ignore_client_order = true;
    // Tickets contain the whole session. A session store would need a lock that all workers take in every handshake.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match ticketer {
        Some(ticketer) => config.ticketer = ticketer,
        None => config.send_tls13_tickets = 0,
    }
    Ok(config)
}

fn verifier(
    tls: &Tls,
    ca: &str,
    files: &Files<'_>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Box<FileProblem>> {
    let field = "client_ca";
    let roots = authorities(files, field, ca)?;
    let builder = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider));
    let builder = match tls.client_auth {
        Some(ClientAuth::Optional) => builder.allow_unauthenticated(),
        _ => builder,
    };
    builder.build().map_err(|error| no_authorities(files, field, ca, &error))
}

/// The problem to report if no client would get the certificate at `position`.
fn unused(files: &Files<'_>, tls: &Tls, position: usize) -> Box<FileProblem> {
    let (field, file) = tls
        .pairs()
        .nth(position)
        .map_or_else(|| (String::new(), ""), |pair| (pair.field("certificate"), pair.certificate));
    let message = "no client gets this certificate, because it has no names or because other certificates take \
                   precedence (same key type, and earlier or with `hosts`)";
    files.problem(&field, file, message.to_owned(), "remove the certificate, or use one for other hosts")
}
