//! How a gateway started, where a scenario asks for it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CpuSeconds, HostShare};

/// The start of a gateway, before any load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ColdStart {
    /// From the launch of its first process to the answer 200 to a first request, nanoseconds.
    pub first_answer_ns: u64,
    /// CPU time of the data plane until then.
    pub cpu_s: Option<CpuSeconds>,
    /// Memory of the data plane a moment later, without page cache, bytes.
    pub memory_bytes: Option<u64>,
    /// What others did to the host until the first answer.
    pub host: Option<HostShare>,
}
