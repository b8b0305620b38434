//! Measurement of a gateway's start, if the scenario asks for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CpuSeconds, HostShare};

/// Measurements of the start of a gateway, before any load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// Time from the launch of the gateway's first process to the first response with status 200, nanoseconds.
    pub first_answer_ns: u64,
    /// CPU time that the data plane used until the first response with status 200.
    pub cpu_s: Option<CpuSeconds>,
    /// Memory of the data plane shortly after the first response with status 200, without page cache, bytes.
    pub memory_bytes: Option<u64>,
    /// Shares of the host's CPU time until the first response with status 200: steal, other processes, idle.
    pub host: Option<HostShare>,
}
