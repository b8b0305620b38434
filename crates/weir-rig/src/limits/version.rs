//! Versions of Linux control groups (cgroups).

/// A version of Linux control groups (cgroups).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// One hierarchy per controller.
    V1,
    /// A single hierarchy.
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

    /// The target of weir's Makefile that tests limits with this version on a real kernel.
    pub fn tested_by(self) -> &'static str {
        match self {
            Self::V1 => "make test",
            Self::V2 => "make cgroup-v2",
        }
    }

    /// The `cgroup-..` name in the manifest, which states how a part was limited.
    pub(crate) fn limited_by(self) -> &'static str {
        match self {
            Self::V1 => "cgroup-v1",
            Self::V2 => "cgroup-v2",
        }
    }

    /// The controllers that weir needs. In v1, `cpuacct` counts CPU time separately from `cpu`.
    pub(crate) fn controllers(self) -> &'static [&'static str] {
        match self {
            Self::V1 => &["cpu", "cpuacct", "memory", "pids"],
            Self::V2 => &["cpu", "memory", "pids"],
        }
    }
}
