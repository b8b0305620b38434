//! Session tickets. A ticket is an encrypted session that the client keeps, so that its next handshake needs no
//! signature.
//!
//! ```text
//! ticket = name of its key (16 bytes) | creation time in s (8) | nonce (12) | encrypted session | tag (16)
//! ```
//!
//! All workers share one ticketer per listener. Keys come from a file, which a fleet shares, or are random and rotate:
//! a key encrypts for half the lifetime of a ticket, and decrypts for a whole lifetime after that. Expired tickets are
//! never accepted, whatever their key. Keys are derived for one binding: the listener and its client authentication.
//! Tickets of another binding do not decrypt.

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, rand};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::pki_types::UnixTime;
use rustls::server::ProducesTickets;
use weir_document::Problem;

use crate::files::Line;

const NAME_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
/// Length of the part before the nonce. This part is authenticated, but not encrypted.
const START_BYTES: usize = NAME_BYTES + TIME_BYTES;
const KEY_BYTES: usize = 32;

/// Maximum clock skew among the gateways of a fleet, in seconds.
const SKEW_S: u64 = 300;

/// Allowed length of a secret in a file, in bytes: shorter ones can be guessed, longer ones are probably another file.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 32..=128;
/// Maximum number of secrets in a file. It is small, because the gateway searches all keys for the key of each ticket.
const SECRETS_MAX: usize = 16;

/// A digest of the listener and its client authentication. Each ticket key is derived from a secret and this digest.
pub(crate) type Binding = [u8; 32];

/// Encrypts and decrypts the tickets of one listener.
pub(crate) struct Ticketer {
    lifetime_s: u64,
    binding: Binding,
    keys: ArcSwap<Keys>,
}

/// The ticket keys that are valid at the same time.
struct Keys {
    /// The last key encrypts, all keys decrypt.
    all: Vec<Key>,
    /// The time, in seconds since 1970, at which a new key takes over encryption.
    next_s: u64,
}

#[derive(Clone)]
struct Key {
    name: [u8; NAME_BYTES],
    key: Arc<LessSafeKey>,
    /// The time, in seconds since 1970, from which the key no longer decrypts.
    end_s: u64,
}

/// Reads the secrets of a file, one per line in base64. Empty lines and lines that start with `#` are ignored.
pub(crate) fn read_secrets(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Problem<Line>> {
    let remedy = "write one key per line, as `openssl rand -base64 48` prints it; the first key encrypts tickets, all \
                  keys decrypt";
    let mut secrets = Vec::new();
    for (line, text) in (1..).zip(bytes.split(|&b| b == b'\n')) {
        let text = text.trim_ascii();
        if text.is_empty() || text.starts_with(b"#") {
            continue;
        }
        match STANDARD.decode(text) {
            Ok(secret) if SECRET_BYTES.contains(&secret.len()) => secrets.push(secret),
            Ok(_) => return Err(Problem::new("the key must have 32 to 128 bytes", remedy).at(Line(line))),
            Err(_) => return Err(Problem::new("the key is not base64", remedy).at(Line(line))),
        }
        if secrets.len() > SECRETS_MAX {
            let remedy = "remove the oldest keys: the gateway tries all keys for each ticket";
            return Err(Problem::new("too many keys; the limit is 16", remedy).at(Line(line)));
        }
    }
    match secrets.is_empty() {
        true => Err(Problem::new("the file contains no key", remedy).at(Line(1))),
        false => Ok(secrets),
    }
}

impl Ticketer {
    /// A ticketer with random keys that rotate.
    pub(crate) fn random(lifetime_s: u64, binding: Binding, now_s: u64) -> Result<Ticketer, Unspecified> {
        let ticketer = Ticketer {
            lifetime_s,
            binding,
            keys: ArcSwap::from_pointee(Keys { all: Vec::new(), next_s: 0 }),
        };
        ticketer.keys.store(Arc::new(ticketer.after(&ticketer.keys.load(), now_s)?));
        Ok(ticketer)
    }

    /// A ticketer with the secrets of a file. The first secret encrypts.
    pub(crate) fn shared(
        lifetime_s: u64,
        binding: Binding,
        secrets: &[Vec<u8>],
    ) -> Result<Ticketer, Unspecified> {
        let keys = secrets.iter().rev().map(|secret| Key::derive(secret, &binding, u64::MAX));
        let keys = Keys { all: keys.collect::<Result<_, _>>()?, next_s: u64::MAX };
        Ok(Ticketer { lifetime_s, binding, keys: ArcSwap::from_pointee(keys) })
    }

    /// The keys at `now_s`. Rotates them first if it is time.
    fn keys(&self, now_s: u64) -> Option<Guard<Arc<Keys>>> {
        let keys = self.keys.load();
        if now_s < keys.next_s {
            return Some(keys);
        }
        let after = Arc::new(self.after(&keys, now_s).ok()?);
        // If another worker rotated first, the gateway uses the keys of that worker and drops these.
        self.keys.compare_and_swap(&keys, after);
        Some(self.keys.load())
    }

    /// The keys that follow `keys`: a new one, and those that can still decrypt a valid ticket.
    fn after(&self, keys: &Keys, now_s: u64) -> Result<Keys, Unspecified> {
        let mut secret = [0; KEY_BYTES];
        rand::fill(&mut secret)?;
        let next_s = now_s + (self.lifetime_s / 2).max(1);
        let mut all: Vec<Key> = keys.all.iter().filter(|key| now_s < key.end_s).cloned().collect();
        all.push(Key::derive(&secret, &self.binding, next_s + self.lifetime_s)?);
        Ok(Keys { all, next_s })
    }

    fn seal(&self, now_s: u64, session: &[u8]) -> Option<Vec<u8>> {
        let keys = self.keys(now_s)?;
        let key = keys.all.last()?;
        let mut nonce = [0; NONCE_LEN];
        rand::fill(&mut nonce).ok()?;
        let tag_bytes = AES_256_GCM_SIV.tag_len();
        let mut ticket = Vec::with_capacity(START_BYTES + NONCE_LEN + session.len() + tag_bytes);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&now_s.to_be_bytes());
        ticket.extend_from_slice(&nonce);
        ticket.extend_from_slice(session);
        let (start, sealed) = ticket.split_at_mut(START_BYTES + NONCE_LEN);
        let start = Aad::from(&start[..START_BYTES]);
        let nonce = Nonce::assume_unique_for_key(nonce);
        let tag = key.key.seal_in_place_separate_tag(nonce, start, sealed).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, now_s: u64, ticket: &[u8]) -> Option<Vec<u8>> {
        let (start, rest) = ticket.split_at_checked(START_BYTES)?;
        let (name, made) = start.split_at(NAME_BYTES);
        let made_s = u64::from_be_bytes(made.try_into().ok()?);
        let is_good =
            made_s <= now_s.saturating_add(SKEW_S) && now_s.saturating_sub(made_s) < self.lifetime_s;
        let keys = self.keys(now_s)?;
        let key = keys.all.iter().rfind(|key| is_good && key.name == name && now_s < key.end_s)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut session = sealed.to_vec();
        let length = key.key.open_in_place(nonce, Aad::from(start), &mut session).ok()?.len();
        session.truncate(length);
        Some(session)
    }
}

impl Key {
    fn derive(secret: &[u8], binding: &Binding, end_s: u64) -> Result<Key, Unspecified> {
        struct Length;

        impl hkdf::KeyType for Length {
            fn len(&self) -> usize {
                NAME_BYTES + KEY_BYTES
            }
        }

        let mut bytes = [0; NAME_BYTES + KEY_BYTES];
        let derived = hkdf::Salt::new(hkdf::HKDF_SHA256, b"weir-gateway session tickets").extract(secret);
        derived.expand(&[binding.as_slice()], Length)?.fill(&mut bytes)?;
        let (name, key) = bytes.split_at(NAME_BYTES);
        let key = Arc::new(LessSafeKey::new(UnboundKey::new(&AES_256_GCM_SIV, key)?));
        Ok(Key { name: name.try_into().map_err(|_| Unspecified)?, key, end_s })
    }
}

impl ProducesTickets for Ticketer {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.lifetime_s).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.seal(UnixTime::now().as_secs(), session)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.open(UnixTime::now().as_secs(), ticket)
    }
}

impl fmt::Debug for Ticketer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys are never printed.
        f.debug_struct("Ticketer").field("lifetime_s", &self.lifetime_s).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: Binding = [1; 32];
    const NOW_S: u64 = 1_000_000;

    #[test]
    fn ticket_expires_after_its_lifetime() {
        let tickets = Ticketer::random(100, HERE, NOW_S).unwrap();
        for made_s in (NOW_S..NOW_S + 500).step_by(7) {
            let ticket = tickets.seal(made_s, b"session").unwrap();
            assert_eq!(tickets.open(made_s + 99, &ticket).as_deref(), Some(&b"session"[..]), "{made_s}");
            assert_eq!(tickets.open(made_s + 100, &ticket), None, "{made_s}");
            assert!(tickets.keys.load().all.len() <= 4, "old keys are dropped");
        }
    }

    #[test]
    fn keys_rotate() {
        let tickets = Ticketer::random(100, HERE, NOW_S).unwrap();
        let name = |at_s| tickets.seal(at_s, b"").unwrap()[..NAME_BYTES].to_vec();
        let names: Vec<_> = [0, 49, 50, 99, 100, 1000].map(|s| name(NOW_S + s)).into();
        assert_eq!((&names[0], &names[2]), (&names[1], &names[3]));
        let different: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(different.len(), 4);
        assert_eq!(tickets.keys.load().all.len(), 1, "after a long pause only the new key remains");
    }

    #[test]
    fn fleet_opens_tickets_of_all_members() {
        let secrets = [vec![1; 48], vec![2; 48]];
        let new = Ticketer::shared(100, HERE, &secrets).unwrap();
        let old = Ticketer::shared(100, HERE, &secrets[1..]).unwrap();
        let ticket = old.seal(NOW_S, b"session").unwrap();
        assert_eq!(new.open(NOW_S, &ticket).as_deref(), Some(&b"session"[..]));
        assert_eq!(old.open(NOW_S, &new.seal(NOW_S, b"session").unwrap()), None, "the first key seals");
        let elsewhere = Ticketer::shared(100, [2; 32], &secrets).unwrap();
        assert_eq!(elsewhere.open(NOW_S, &ticket), None, "another listener has other keys");
        assert_eq!(new.open(NOW_S + 100, &ticket), None);
        assert_eq!(new.open(NOW_S - SKEW_S - 1, &ticket), None, "the ticket is from the future");
    }

    #[test]
    fn rejects_tampered_tickets() {
        let tickets = Ticketer::random(100, HERE, NOW_S).unwrap();
        let good = tickets.seal(NOW_S, b"session").unwrap();
        for length in 0..good.len() {
            assert_eq!(tickets.open(NOW_S, &good[..length]), None, "{length}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(tickets.open(NOW_S, &bad), None, "{at}");
        }
    }

    #[test]
    fn reads_ticket_keys_and_reports_the_line_of_errors() {
        let good = STANDARD.encode([7; 48]);
        let text = format!("# of today\n{good}\n\n{good}\r\n");
        assert_eq!(read_secrets(text.as_bytes()).unwrap(), [[7; 48], [7; 48]]);
        let line = |text: &str| read_secrets(text.as_bytes()).unwrap_err().place.0;
        assert_eq!(line("# none\n"), 1);
        assert_eq!(line(&format!("{good}\nno key\n")), 2);
        assert_eq!(line(&format!("{good}\n\n{}\n", STANDARD.encode([7; 31]))), 3);
        assert_eq!(line(&format!("{good}\n").repeat(17)), 17);
    }
}
