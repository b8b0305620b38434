//! Random bytes for request and trace IDs, generated in portions.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

use rustls::crypto::{SecureRandom, aws_lc_rs};
use weir_io::mono_ns;

const PORTION_BYTES: usize = 512;

/// The random bytes of one worker.
#[derive(Debug)]
pub(crate) struct Entropy {
    source: &'static dyn SecureRandom,
    stock: RefCell<[u8; PORTION_BYTES]>,
    /// Bytes of `stock` already used.
    used: Cell<usize>,
}

impl Default for Entropy {
    fn default() -> Self {
        Entropy {
            source: aws_lc_rs::default_provider().secure_random,
            stock: RefCell::new([0; PORTION_BYTES]),
            used: Cell::new(PORTION_BYTES),
        }
    }
}

impl Entropy {
    /// Takes random bytes that were not used before. They are never all 0, because trace IDs must not be 0.
    pub(crate) fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut stock = self.stock.borrow_mut();
        loop {
            if self.used.get() + N > PORTION_BYTES {
                self.refill(&mut stock);
            }
            let mut bytes = [0; N];
            bytes.copy_from_slice(&stock[self.used.get()..self.used.get() + N]);
            self.used.set(self.used.get() + N);
            if bytes.iter().any(|&byte| byte != 0) {
                return bytes;
            }
        }
    }

    /// `N` random bytes as hexadecimal digits, two per byte.
    pub(crate) fn hex<const N: usize>(&self) -> String {
        hex(&self.bytes::<N>())
    }

    /// A random UUID (RFC 9562, version 4).
    pub(crate) fn uuid(&self) -> String {
        let mut bytes = self.bytes::<16>();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex(&bytes);
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        parts.join("-")
    }

    fn refill(&self, stock: &mut [u8; PORTION_BYTES]) {
        if self.source.fill(stock).is_err() {
            // Without a random source, the clock still gives distinct IDs. IDs are not secrets.
            for chunk in stock.chunks_exact_mut(8) {
                chunk.copy_from_slice(&mono_ns().to_le_bytes());
            }
        }
        self.used.set(0);
    }
}

fn hex(bytes: &[u8]) -> String {
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a string cannot fail.
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn uuids_are_unique_and_well_formed() {
        let entropy = Entropy::default();
        let names: HashSet<String> = (0..1_000).map(|_| entropy.uuid()).collect();
        assert_eq!(names.len(), 1_000);
        for name in &names {
            let is_dash = |(at, byte): (usize, u8)| matches!(at, 8 | 13 | 18 | 23) == (byte == b'-');
            assert!(name.len() == 36 && name.bytes().enumerate().all(is_dash), "{name}");
            assert!(name.as_bytes()[14] == b'4' && b"89ab".contains(&name.as_bytes()[19]), "{name}");
        }
        assert_eq!(entropy.hex::<8>().len(), 16);
    }
}
