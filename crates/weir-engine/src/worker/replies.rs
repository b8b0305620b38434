//! Counts replies to PING and SETTINGS that a peer has not read yet (RFC 9113, 6.5.3 and 6.7), to detect a flood.

/// Length of a frame header (RFC 9113, 4.1).
const HEADER_BYTES: usize = 9;
/// Length of the connection preface, which a client sends before its first frame.
const PREFACE_BYTES: usize = 24;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const ACK: u8 = 1;
/// Maximum size of pending replies. It allows 3,855 replies to PING (17 bytes each), or 7,281 replies to SETTINGS (9
/// bytes each).
const WAITING_BYTES_MAX: usize = 64 * 1024;

/// Counts the bytes of replies in the pending output of a connection.
///
/// Single replies are not tracked: all replies before the position `mark` count as pending until everything before
/// `mark` is sent.
#[derive(Debug)]
pub(super) struct Replies {
    /// Number of bytes to skip before the next frame header: the rest of the preface, or of the current payload.
    until_frame: usize,
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Total number of bytes queued (`queued`) and sent (`sent`) so far.
    queued: u64,
    sent: u64,
    mark: u64,
    before_mark: usize,
    after_mark: usize,
}

impl Default for Replies {
    fn default() -> Self {
        Self {
            until_frame: PREFACE_BYTES,
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            queued: 0,
            sent: 0,
            mark: 0,
            before_mark: 0,
            after_mark: 0,
        }
    }
}

impl Replies {
    /// Records bytes that were added to the pending output.
    pub(super) fn queued(&mut self, mut bytes: &[u8]) {
        self.queued += bytes.len() as u64;
        loop {
            let skipped = self.until_frame.min(bytes.len());
            self.until_frame -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return;
            }
            let taken = (HEADER_BYTES - self.header_bytes).min(bytes.len());
            self.header[self.header_bytes..][..taken].copy_from_slice(&bytes[..taken]);
            self.header_bytes += taken;
            bytes = &bytes[taken..];
            if self.header_bytes == HEADER_BYTES {
                self.header_bytes = 0;
                self.frame();
            }
        }
    }

    fn frame(&mut self) {
        let [high, middle, low, kind, flags, ..] = self.header;
        self.until_frame = u32::from_be_bytes([0, high, middle, low]) as usize;
        if matches!(kind, SETTINGS | PING) && flags & ACK != 0 {
            self.after_mark += HEADER_BYTES + self.until_frame;
        }
    }

    /// Records that the first bytes of the pending output were sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
        if self.sent == self.queued {
            (self.before_mark, self.after_mark) = (0, 0);
        } else if self.sent >= self.mark {
            self.before_mark = std::mem::take(&mut self.after_mark);
        } else {
            return;
        }
        self.mark = self.queued;
    }

    /// Whether the pending replies exceed the maximum, which means that the peer does not read them.
    pub(super) fn are_too_many(&self) -> bool {
        self.before_mark + self.after_mark > WAITING_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PONG: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0PONGPONG";
    const SETTINGS_ACK: &[u8] = b"\0\0\0\x04\x01\0\0\0\0";
    /// A PING and a SETTINGS frame from this client, and a DATA frame whose content looks like a reply.
    const OTHERS: &[u8] = b"\0\0\x08\x06\0\0\0\0\0PINGPING\0\0\0\x04\0\0\0\0\0\
                            \0\0\x09\0\x01\0\0\0\x01\0\0\0\x04\x01\0\0\0\0";

    fn begun() -> Replies {
        let mut replies = Replies::default();
        replies.queued(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
        replies
    }

    #[test]
    fn only_replies_are_counted_in_any_segmentation() {
        for length in [1, 5, 9, 1_000] {
            let mut replies = begun();
            let all = [PONG, OTHERS, SETTINGS_ACK, OTHERS].concat();
            all.chunks(length).for_each(|piece| replies.queued(piece));
            assert_eq!(replies.after_mark, PONG.len() + SETTINGS_ACK.len(), "{length}");
        }
    }

    #[test]
    fn unread_replies_exceed_the_limit() {
        for (reply, most) in [(PONG, 3_855), (SETTINGS_ACK, 7_281)] {
            let mut replies = begun();
            (0..most).for_each(|_| replies.queued(reply));
            assert!(!replies.are_too_many(), "{most}");
            replies.queued(reply);
            assert!(replies.are_too_many(), "{most}");
            // The socket accepts everything, so no reply is pending any more.
            replies.sent(24 + (most + 1) * reply.len());
            assert!(!replies.are_too_many());
        }
    }

    #[test]
    fn a_peer_that_reads_with_a_delay_never_exceeds_the_limit() {
        let mut replies = begun();
        for _ in 0..1_000 {
            replies.queued(PONG);
        }
        for _ in 0..100_000 {
            // A thousand replies are pending all the time.
            replies.queued(PONG);
            replies.sent(PONG.len());
            assert!(!replies.are_too_many());
        }
    }

    #[test]
    fn replies_count_as_sent_during_an_endless_upload() {
        let mut replies = begun();
        let upload = [b"\0\x40\0\0\0\0\0\0\x01".as_slice(), &[0; 16_384]].concat();
        replies.queued(&upload);
        for _ in 0..100_000 {
            replies.queued(&upload);
            replies.queued(PONG);
            replies.sent(upload.len() + PONG.len());
            assert!(!replies.are_too_many());
        }
    }
}
