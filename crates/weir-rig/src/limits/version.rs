//! The versions of control groups.

/// The kernel's form of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A hierarchy per controller.
    V1,
    /// One hierarchy.
    V2,
}

impl CgroupVersion {
    /// `v1` or `v2`.
    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V2 => "v2",
        }
    }

    /// The target of weir's Makefile whose tests hold limits against this form on a real kernel.
    pub fn tested_by(self) -> &'static str {
        match self {
            Self::V1 => "make test",
            Self::V2 => "make cgroup-v2",
        }
    }

    /// How a part says that it was limited.
    pub(crate) fn limited_by(self) -> &'static str {
        match self {
            Self::V1 => "cgroup-v1",
            Self::V2 => "cgroup-v2",
        }
    }

    /// CPU time is a controller of its own in v1.
    pub(crate) fn controllers(self) -> &'static [&'static str] {
        match self {
            Self::V1 => &["cpu", "cpuacct", "memory", "pids"],
            Self::V2 => &["cpu", "memory", "pids"],
        }
    }
}
