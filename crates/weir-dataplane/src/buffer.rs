//! Read and write buffers. A connection owns them only while they contain data.
//!
//! An idle connection owns no buffer. Each read takes one from the worker's stock and returns it if no data arrived. So
//! memory grows with exchanges in progress, not with connections.

use std::cell::RefCell;

/// Initial size of a buffer in bytes. It may grow up to the header limit.
pub(crate) const BUFFER_BYTES: usize = 32 * 1024;

/// Size in bytes of a long buffer. Bodies use it if their reads fill normal buffers. A larger size means fewer pieces,
/// and each piece costs two system calls and often a wake-up of the receiver. More than 64 KiB saves nothing, because
/// the kernel passes at most 64 KiB at a time.
const PIECE_BYTES: usize = 64 * 1024;

/// A worker keeps at most this many unused read buffers of normal size, and as many unused output buffers.
const STOCK: usize = 64;
/// A worker keeps at most this many unused long buffers. Few are enough, because only bodies with a slow receiver hold
/// one for long.
const STOCK_OF_PIECES: usize = 16;

/// A worker's unused buffers.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    stores: RefCell<Vec<Vec<u8>>>,
    pieces: RefCell<Vec<Vec<u8>>>,
    outputs: RefCell<Vec<Vec<u8>>>,
}

/// Bytes that were read and are not yet consumed.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    /// Empty while the buffer owns no memory.
    store: Vec<u8>,
    start: usize,
    end: usize,
}

impl Buffers {
    /// An empty vector with capacity for output.
    pub(crate) fn output(&self) -> Vec<u8> {
        self.outputs.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
    }

    /// Provides memory for `output` if it has none.
    #[inline]
    pub(crate) fn fill_output(&self, output: &mut Vec<u8>) {
        if output.capacity() == 0 {
            *output = self.output();
        }
    }

    pub(crate) fn put_output(&self, mut output: Vec<u8>) {
        let mut outputs = self.outputs.borrow_mut();
        let is_worth_keeping = (1..=BUFFER_BYTES).contains(&output.capacity());
        if outputs.len() < STOCK && is_worth_keeping {
            output.clear();
            outputs.push(output);
        }
    }

    fn store(&self) -> Vec<u8> {
        self.stores.borrow_mut().pop().unwrap_or_else(|| vec![0; BUFFER_BYTES])
    }

    fn piece(&self) -> Vec<u8> {
        self.pieces.borrow_mut().pop().unwrap_or_else(|| vec![0; PIECE_BYTES])
    }

    fn put_store(&self, store: Vec<u8>) {
        let (stock, most) = match store.len() {
            BUFFER_BYTES => (&self.stores, STOCK),
            PIECE_BYTES => (&self.pieces, STOCK_OF_PIECES),
            _ => return,
        };
        let mut stock = stock.borrow_mut();
        if stock.len() < most {
            stock.push(store);
        }
    }
}

impl Buffer {
    #[inline]
    pub(crate) fn data(&self) -> &[u8] {
        &self.store[self.start..self.end]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.end
    }

    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        debug_assert!(bytes <= self.end - self.start);
        self.start += bytes;
    }

    /// The last `bytes` bytes that were consumed. They are valid until the next read or until the memory is released.
    #[inline]
    pub(crate) fn consumed(&self, bytes: usize) -> &[u8] {
        &self.store[self.start - bytes..self.start]
    }

    /// Free space to read into, never empty. If the buffer is full, moves the data to the front or grows the buffer.
    #[inline]
    pub(crate) fn room(&mut self, stock: &Buffers) -> &mut [u8] {
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
            if self.store.is_empty() {
                self.store = stock.store();
            }
        } else if self.end == self.store.len() {
            if self.start > 0 {
                self.store.copy_within(self.start..self.end, 0);
                (self.start, self.end) = (0, self.end - self.start);
            } else {
                self.store.resize(self.store.len() * 2, 0);
            }
        }
        &mut self.store[self.end..]
    }

    /// Makes this buffer a long one (`PIECE_BYTES`) for the next read. Does nothing if the buffer already owns memory.
    pub(crate) fn lengthen(&mut self, stock: &Buffers) {
        if self.store.is_empty() {
            self.store = stock.piece();
        }
    }

    /// Returns a long buffer to the stock after the end of a body. Bytes after the body move to a normal buffer; if
    /// they do not fit, the long buffer is kept.
    pub(crate) fn shorten(&mut self, stock: &Buffers) {
        self.release_if_empty(stock);
        let held = self.end - self.start;
        if self.store.len() == PIECE_BYTES && held <= BUFFER_BYTES {
            let mut store = stock.store();
            store[..held].copy_from_slice(self.data());
            stock.put_store(std::mem::replace(&mut self.store, store));
            (self.start, self.end) = (0, held);
        }
    }

    /// Records that `bytes` were read into the free space.
    #[inline]
    pub(crate) fn filled(&mut self, bytes: usize) {
        self.end += bytes;
    }

    /// Returns the memory to the stock if the buffer contains no data.
    #[inline]
    pub(crate) fn release_if_empty(&mut self, stock: &Buffers) {
        if self.is_empty() && !self.store.is_empty() {
            (self.start, self.end) = (0, 0);
            stock.put_store(std::mem::take(&mut self.store));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(buffer: &mut Buffer, stock: &Buffers, bytes: &[u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let room = buffer.room(stock);
            let taken = room.len().min(rest.len());
            room[..taken].copy_from_slice(&rest[..taken]);
            buffer.filled(taken);
            rest = &rest[taken..];
        }
    }

    #[test]
    fn keeps_bytes_in_order_while_it_moves_and_grows() {
        let (stock, mut buffer) = (Buffers::default(), Buffer::default());
        let bytes: Vec<u8> = (0..BUFFER_BYTES * 3).map(|n| (n % 251) as u8).collect();
        put(&mut buffer, &stock, &bytes[..BUFFER_BYTES]);
        buffer.consume(100);
        put(&mut buffer, &stock, &bytes[BUFFER_BYTES..]);
        assert!(buffer.data() == &bytes[100..]);
        buffer.consume(bytes.len() - 100);
        buffer.release_if_empty(&stock);
        assert!(stock.stores.borrow().is_empty(), "a buffer that has grown is freed, not kept for reuse");
    }

    #[test]
    fn outputs_without_memory_are_not_kept() {
        let stock = Buffers::default();
        stock.put_output(Vec::new());
        stock.put_output(Vec::with_capacity(BUFFER_BYTES + 1));
        assert!(stock.outputs.borrow().is_empty());
        stock.put_output(Vec::with_capacity(BUFFER_BYTES));
        assert_eq!(stock.outputs.borrow().len(), 1);
        assert!(stock.output().capacity() >= BUFFER_BYTES);
    }

    #[test]
    fn long_bodies_use_larger_buffers() {
        let (stock, mut buffer) = (Buffers::default(), Buffer::default());
        put(&mut buffer, &stock, b"a");
        buffer.lengthen(&stock);
        assert_eq!(buffer.data(), b"a", "buffered data stays");
        buffer.consume(1);
        buffer.release_if_empty(&stock);
        buffer.lengthen(&stock);
        assert_eq!(buffer.room(&stock).len(), PIECE_BYTES);
        buffer.release_if_empty(&stock);
        assert_eq!((stock.stores.borrow().len(), stock.pieces.borrow().len()), (1, 1));
        assert_eq!(buffer.room(&stock).len(), BUFFER_BYTES);
    }

    #[test]
    fn bytes_behind_a_long_body_move_to_a_normal_buffer() {
        let (stock, mut buffer) = (Buffers::default(), Buffer::default());
        buffer.lengthen(&stock);
        put(&mut buffer, &stock, b"bodyGET");
        buffer.consume(4);
        buffer.shorten(&stock);
        assert_eq!((buffer.data(), buffer.store.len()), (&b"GET"[..], BUFFER_BYTES));
        assert_eq!(stock.pieces.borrow().len(), 1);
        buffer.consume(3);
        buffer.shorten(&stock);
        assert_eq!((buffer.store.len(), stock.stores.borrow().len()), (0, 1));
        // Data that does not fit a normal buffer stays in the long one.
        buffer.lengthen(&stock);
        put(&mut buffer, &stock, &[b'x'; BUFFER_BYTES + 1]);
        buffer.shorten(&stock);
        assert_eq!((buffer.data().len(), buffer.store.len()), (BUFFER_BYTES + 1, PIECE_BYTES));
    }

    #[test]
    fn returns_memory_when_empty() {
        let (stock, mut buffer) = (Buffers::default(), Buffer::default());
        put(&mut buffer, &stock, b"ab");
        buffer.release_if_empty(&stock);
        assert_eq!(buffer.data(), b"ab");
        buffer.consume(2);
        buffer.release_if_empty(&stock);
        assert_eq!(stock.stores.borrow().len(), 1);
        put(&mut buffer, &stock, b"c");
        assert_eq!(buffer.data(), b"c");
        assert!(stock.stores.borrow().is_empty());
    }
}
