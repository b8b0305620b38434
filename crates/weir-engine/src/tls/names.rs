//! Server names (SNI) of the TLS connections of a load. Either a connection always has the same name, or each TLS
//! session gets a random one.

use std::sync::Arc;

use rustls::pki_types::ServerName;
use weir_document::Problem;

use crate::EngineError;
use crate::pacing::schedule::seed_of_shard;
use crate::request::Choice;
use crate::spec::{LoadSpec, ShardSpec, TlsSpec};

/// Changes the seed (XOR), so that the choice of server names does not repeat other random choices of the load.
const NAME: u64 = 0x9e6c_63d0_a3c1_97b5;
/// Bit position of the worker's index in the number from which a server name is drawn. The lower bits contain the
/// number of the session.
const WORKER_SHIFT: u32 = 40;

/// The server names of a load. Cloning is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Names {
    names: Arc<[ServerName<'static>]>,
    /// The random choice of a name; `None` if connections use the names in round robin.
    draw: Option<Arc<Choice>>,
    /// Index of the worker. Each worker makes its own random choices of names.
    worker: u32,
    shard: ShardSpec,
}

impl Names {
    /// The names of a load: its domains, else the name in `tls`, else the host.
    ///
    /// # Errors
    /// If one of them is neither a host name nor an address.
    pub(crate) fn new(spec: &LoadSpec, tls: &TlsSpec) -> Result<Self, EngineError> {
        let names: Vec<_> = match spec.domains.as_slice() {
            [] => vec![server_name(tls.sni.as_deref().unwrap_or(&spec.host))?],
            domains => domains.iter().map(|domain| server_name(domain)).collect::<Result<_, _>>()?,
        };
        let is_drawn = !spec.domain_weights.is_empty();
        let shard = spec.shard.unwrap_or_default();
        let seed = seed_of_shard(spec.seed, shard) ^ NAME;
        let draw = is_drawn.then(|| Arc::new(Choice::new(seed, &spec.domain_weights)));
        Ok(Self { names: names.into(), draw, worker: 0, shard })
    }

    /// Copies these server names for the connections of `worker`.
    pub(crate) fn of_worker(&self, worker: u32) -> Self {
        Self { worker, ..self.clone() }
    }

    /// Number of names.
    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the server name for a TLS session, and its index. `place` is the index of the connection, and
    /// `session` counts the sessions of the worker.
    pub(crate) fn pick(&self, place: usize, session: u64) -> (u32, ServerName<'static>) {
        let at = match &self.draw {
            Some(draw) => draw.of(u64::from(self.worker) << WORKER_SHIFT | session) as usize,
            None => (self.shard.number(place as u64) % self.names.len() as u64) as usize,
        };
        (at as u32, self.names[at].clone())
    }
}

fn server_name(name: &str) -> Result<ServerName<'static>, EngineError> {
    ServerName::try_from(name.to_owned()).map_err(|_| {
        let message = format!("`{name}` is neither a host name nor an IP address");
        EngineError::Invalid(Problem::new(message, "use a name like shop.example").at("sni"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(weights: &[f64]) -> Names {
        let domains = ["a.test", "b.test", "c.test", "d.test"].map(str::to_owned).to_vec();
        let spec = LoadSpec { domains, domain_weights: weights.to_vec(), ..LoadSpec::default() };
        Names::new(&spec, &tls("other.test")).unwrap()
    }

    fn tls(sni: &str) -> TlsSpec {
        TlsSpec { sni: Some(sni.into()), ..TlsSpec::default() }
    }

    #[test]
    fn without_weights_each_connection_keeps_its_name() {
        let names = names(&[]);
        let of = |place, session| names.pick(place, session);
        for session in 1..5 {
            assert_eq!([of(0, session).0, of(3, session).0, of(6, session).0], [0, 3, 2]);
        }
        assert_eq!(of(1, 1).1, ServerName::try_from("b.test").unwrap());
        let one = Names::new(&LoadSpec::default(), &tls("other.test")).unwrap();
        assert_eq!((one.len(), one.pick(7, 1).1), (1, ServerName::try_from("other.test").unwrap()));
        let of_host = LoadSpec { host: "host.test".into(), ..LoadSpec::default() };
        let host = Names::new(&of_host, &TlsSpec::default()).unwrap();
        assert_eq!(host.pick(0, 1).1, ServerName::try_from("host.test").unwrap());
    }

    #[test]
    fn with_weights_each_session_draws_a_name_in_proportion() {
        let weights = [1.0, 1.0 / 2.0, 1.0 / 3.0, 1.0 / 4.0];
        let names = names(&weights);
        let (workers, sessions) = (2, 50_000);
        let mut counts = [0_u32; 4];
        for worker in 0..workers {
            let names = names.of_worker(worker);
            for session in 1..=sessions {
                counts[names.pick(0, session).0 as usize] += 1;
            }
        }
        let draws = f64::from(workers) * sessions as f64;
        for (count, weight) in counts.into_iter().zip(weights) {
            let share = weight / weights.iter().sum::<f64>();
            let sigma = (draws * share * (1.0 - share)).sqrt();
            let off = (f64::from(count) - draws * share).abs();
            assert!(off <= 4.0 * sigma, "{count} of weight {weight}: {off} off, sigma {sigma}");
        }
        // Two workers make different choices. The same worker makes the same choices again.
        let drawn =
            |worker| (1..100).map(|session| names.of_worker(worker).pick(0, session).0).collect::<Vec<_>>();
        assert_eq!(drawn(0), drawn(0));
        assert_ne!(drawn(0), drawn(1));
    }

    #[test]
    fn machines_use_names_in_round_robin_and_draw_independently() {
        let domains = ["a.test", "b.test", "c.test"].map(str::to_owned).to_vec();
        let names = |index, weights: &[f64]| {
            let shard = Some(ShardSpec { index, of: 2 });
            let (domains, domain_weights) = (domains.clone(), weights.to_vec());
            let spec = LoadSpec { domains, domain_weights, shard, ..LoadSpec::default() };
            Names::new(&spec, &tls("other.test")).unwrap()
        };
        let picked = |names: &Names| (0..3).map(|place| names.pick(place, 1).0).collect::<Vec<_>>();
        // The first machine has the connections 0, 2 and 4 of the load; the second has 1, 3 and 5.
        assert_eq!([0, 1].map(|index| picked(&names(index, &[]))), [[0, 2, 1], [1, 0, 2]]);
        let drawn = |index| {
            let names = names(index, &[1.0, 2.0, 3.0]);
            (1..100).map(|session| names.pick(0, session).0).collect::<Vec<_>>()
        };
        assert_ne!(drawn(0), drawn(1));
    }
}
