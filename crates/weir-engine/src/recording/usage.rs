//! CPU use of a worker's thread in the sustained phase, from the kernel's accounting.

use weir_io::{thread_cpu_ns, thread_runqueue_ns};

/// Use of the thread in the sustained phase: the difference of two readings.
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

    /// The load has ended, and the phase with it.
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
