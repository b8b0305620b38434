//! HTTP/1.1 message framing over byte slices: parse, serialize, body framing. No I/O, no clock.
