//! CPU time that a worker's thread used in the sustained phase, as the kernel accounts it.

use weir_io::{thread_cpu_ns, thread_runqueue_ns};

/// CPU time of a thread in the sustained phase: the difference between readings at its end and its start.
#[derive(Debug, Default)]
pub(crate) struct PhaseUsage {
    begin: Option<Look>,
    end: Option<Look>,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    cpu_ns: u64,
    runqueue_ns: Option<u64>,
}

impl PhaseUsage {
    #[inline]
    pub(crate) fn observe(&mut self, now_ns: u64, sustain_ns: u64, end_ns: u64) {
        if self.begin.is_none() && now_ns >= sustain_ns {
            self.begin = Some(Look::now());
        }
        if self.end.is_none() && now_ns >= end_ns {
            self.end = Some(Look::now());
        }
    }

    /// If the CPU time was not read at the end of the phase, reads it now, at the end of the load.
    pub(crate) fn close(&mut self) {
        if self.end.is_none() {
            self.end = Some(Look::now());
        }
    }

    pub(crate) fn cpu_ns(&self) -> u64 {
        let (Some(begin), Some(end)) = (self.begin, self.end) else { return 0 };
        end.cpu_ns.saturating_sub(begin.cpu_ns)
    }

    pub(crate) fn runqueue_ns(&self) -> Option<u64> {
        Some(self.end?.runqueue_ns?.saturating_sub(self.begin?.runqueue_ns?))
    }
}

impl Look {
    fn now() -> Self {
        Self { cpu_ns: thread_cpu_ns(), runqueue_ns: thread_runqueue_ns() }
    }
}
