//! One pinned thread a worker: current-thread runtimes, shared-port listeners, a nanosecond timer in the same poll.
