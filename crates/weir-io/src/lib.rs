//! I/O with one thread per core: pinned worker threads, listeners that share a port, and timers with nanosecond
//! resolution.
//!
//! This crate wraps the operating system for code that runs per request: in the load engine, the origin and the
//! gateway's data plane. It contains no code for HTTP, for generating load or for gateways.

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
