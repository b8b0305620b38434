//! One pinned thread a worker: current-thread runtimes, shared-port listeners, a nanosecond timer in the same poll.
//!
//! This is the corner where weir meets the operating system on the hot paths: the load engine, the
//! origin and the data plane stand on it. It knows nothing of HTTP, load or gateways.

mod alarm;
mod clock;
mod files;
mod inherited;
mod listen;
mod memory;
mod passing;
mod poll;
mod reserve;
mod socket;
mod timer;
mod usage;
mod wake;
mod worker;

pub use alarm::{Alarms, Timer};
pub use clock::mono_ns;
pub use files::{raise_open_files, reserve_files};
pub use inherited::{inherited_sockets, listening_socket};
pub use listen::{begin_listening, bind_shared, listen_shared, pass_over_newcomers};
pub use memory::{allocated_bytes, trim_memory};
pub use passing::{Peer, receive_descriptors, send_descriptor};
pub use poll::{Poll, Readiness};
pub use reserve::{Reserve, try_in_turn};
pub use socket::{connect, realtime_offset_ns, recv_stamped, stamp_arrivals};
pub use socket2::{SockAddr, Socket};
pub use timer::PreciseTimer;
pub use usage::{CpuTime, process_cpu_time, thread_cpu_ns, thread_runqueue_ns};
pub use worker::{
    JoinHandle, WorkerOptions, available_cpus, bind_thread, spawn_thread, spawn_worker, worth_cpus,
};
