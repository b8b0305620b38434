//! Start of a gateway, if the scenario measures it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CpuSeconds, HostShare};

/// The start of a gateway, before any load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// From the launch of its first process to the first response with status 200, nanoseconds.
    pub first_answer_ns: u64,
    /// CPU time of the data plane until then.
    pub cpu_s: Option<CpuSeconds>,
    /// Memory of the data plane shortly after, without page cache, bytes.
    pub memory_bytes: Option<u64>,
    /// CPU time that others took from the host until the first response.
    pub host: Option<HostShare>,
}
