//! One pinned thread a worker: current-thread runtimes, shared-port listeners, a nanosecond timer in the same poll.
//!
//! This is the corner where weir meets the operating system on the hot paths: the load engine, the
//! origin and the data plane stand on it. It knows nothing of HTTP, load or gateways.

mod clock;
mod listen;
mod timer;
mod usage;
mod worker;

pub use clock::mono_ns;
pub use listen::listen_shared;
pub use timer::PreciseTimer;
pub use usage::{CpuTime, process_cpu_time, thread_cpu_ns, thread_runqueue_ns};
pub use worker::{JoinHandle, WorkerOptions, available_cpus, spawn_worker};
