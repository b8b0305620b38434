//! Memory in use and its limit, as reported by the kernel in procfs and cgroup files.

use std::path::{Path, PathBuf};

use weir_config::MemoryBound;

/// A limit of at least this value means "no limit": without a limit, cgroup v1 reports a very large number.
const UNLIMITED_BYTES: u64 = 1 << 60;

/// Memory in use, and its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    pub(crate) used_bytes: u64,
    pub(crate) limit_bytes: u64,
}

/// The procfs and cgroup files, and the unit of their page counts.
#[derive(Clone, Debug)]
pub(crate) struct MemoryFiles {
    root: PathBuf,
    page_bytes: u64,
}

/// The names of a cgroup's files.
struct GroupFiles {
    limit: &'static str,
    used: &'static str,
    /// The key for inactive file pages, which the kernel frees before it runs out of memory.
    cache: &'static str,
}

const V1: GroupFiles = GroupFiles {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: "total_inactive_file",
};
const V2: GroupFiles = GroupFiles { limit: "memory.max", used: "memory.current", cache: "inactive_file" };

impl Default for MemoryFiles {
    fn default() -> MemoryFiles {
        MemoryFiles { root: PathBuf::from("/"), page_bytes: rustix::param::page_size() as u64 }
    }
}

impl MemoryFiles {
    /// Memory in use, and the limit that results from `bound`. `None` if the kernel does not report memory use.
    pub(crate) fn read(&self, bound: MemoryBound) -> Option<Memory> {
        match bound {
            MemoryBound::Size(size) => {
                Some(Memory { used_bytes: self.resident_bytes()?, limit_bytes: size.0 })
            }
            MemoryBound::Share(share) => {
                let Memory { used_bytes, limit_bytes } = self.nearest_to_its_limit()?;
                // A cast from float saturates at the bounds of the integer.
                Some(Memory { used_bytes, limit_bytes: (limit_bytes as f64 * share.0) as u64 })
            }
        }
    }

    /// Memory of the host, of the process's cgroup or of a parent cgroup: whichever uses the largest share of its
    /// limit.
    fn nearest_to_its_limit(&self) -> Option<Memory> {
        let candidates = self.groups().into_iter().chain(self.host());
        let share = |memory: &Memory| memory.used_bytes as f64 / memory.limit_bytes.max(1) as f64;
        candidates.max_by(|a, b| share(a).total_cmp(&share(b)))
    }

    /// The memory that this process uses, with the host's total memory as the limit. Memory of other processes does not
    /// count.
    fn host(&self) -> Option<Memory> {
        let text = self.text("proc/meminfo")?;
        let total = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kib: u64 = total.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some(Memory { used_bytes: self.resident_bytes()?, limit_bytes: kib * 1024 })
    }

    fn resident_bytes(&self) -> Option<u64> {
        Some(self.resident_and_shared_pages()?.0 * self.page_bytes)
    }

    /// Resident memory, without file pages and shared memory.
    pub(crate) fn anonymous_bytes(&self) -> Option<u64> {
        let (resident, shared) = self.resident_and_shared_pages()?;
        Some(resident.saturating_sub(shared) * self.page_bytes)
    }

    fn resident_and_shared_pages(&self) -> Option<(u64, u64)> {
        let text = self.text("proc/self/statm")?;
        let mut pages = text.split_ascii_whitespace().skip(1).map_while(|pages| pages.parse().ok());
        Some((pages.next()?, pages.next()?))
    }

    /// Memory in use and limit of each cgroup that contains the process. Cgroups without a limit are left out.
    fn groups(&self) -> Vec<Memory> {
        let text = self.text("proc/self/cgroup").unwrap_or_default();
        let mut groups = Vec::new();
        for line in text.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let (folders, files): (&[&str], _) = match controllers {
                "" => (&["sys/fs/cgroup", "sys/fs/cgroup/unified"], V2),
                _ if controllers.split(',').any(|name| name == "memory") => (&["sys/fs/cgroup/memory"], V1),
                _ => continue,
            };
            for folder in folders {
                let top = self.root.join(folder);
                let own = top.join(path.trim_start_matches('/'));
                // In a container, `path` may be the path on the host. Its folders do not exist in the container and are
                // skipped. `top` is then the container's own cgroup.
                let up = own.ancestors().take_while(|folder| folder.starts_with(&top));
                groups.extend(up.filter_map(|folder| files.read(folder)));
            }
        }
        groups
    }

    fn text(&self, file: &str) -> Option<String> {
        std::fs::read_to_string(self.root.join(file)).ok()
    }
}

impl GroupFiles {
    /// Reads memory use and memory limit from the cgroup's folder. `None` if the cgroup has no limit.
    fn read(&self, folder: &Path) -> Option<Memory> {
        let number = |file: &str| -> Option<u64> {
            std::fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
        };
        let limit_bytes = number(self.limit).filter(|bytes| *bytes < UNLIMITED_BYTES)?;
        let stat = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
        let cache = stat.lines().find_map(|line| line.strip_prefix(self.cache)?.strip_prefix(' '));
        let cache_bytes: u64 = cache.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or_default();
        Some(Memory { used_bytes: number(self.used)?.saturating_sub(cache_bytes), limit_bytes })
    }
}

#[cfg(test)]
mod tests {
    use weir_document::{Share, Size};

    use super::*;

    const PAGE_BYTES: u64 = 4096;
    const HOST: [(&str, &str); 2] = [
        ("proc/self/statm", "900 100 50 1 0 60 0\n"),
        ("proc/meminfo", "MemTotal:    4000 kB\nMemFree: 1 kB\n"),
    ];

    /// Checks the results of `MemoryFiles` for `files` with two bounds: half of the memory limit, and a fixed size.
    fn check(files: &[(&str, &str)], used_bytes: u64, limit_bytes: u64) {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in HOST.iter().chain(files) {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let files = MemoryFiles { root: root.path().to_owned(), page_bytes: PAGE_BYTES };
        let expected = Memory { used_bytes, limit_bytes: limit_bytes / 2 };
        assert_eq!(files.read(MemoryBound::Share(Share(0.5))), Some(expected));
        let own = Memory { used_bytes: 100 * PAGE_BYTES, limit_bytes: 7 };
        assert_eq!(files.read(MemoryBound::Size(Size(7))), Some(own));
        assert_eq!(files.anonymous_bytes(), Some(50 * PAGE_BYTES));
    }

    #[test]
    fn without_a_limit_process_memory_counts_against_the_host() {
        check(&[], 100 * PAGE_BYTES, 4_096_000);
        let unlimited = [
            ("proc/self/cgroup", "3:cpu,memory:/a\n0::/a\n"),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "5000000\n"),
            ("sys/fs/cgroup/a/memory.max", "max\n"),
            ("sys/fs/cgroup/a/memory.current", "5000000\n"),
        ];
        check(&unlimited, 100 * PAGE_BYTES, 4_096_000);
    }

    #[test]
    fn the_cgroup_closest_to_its_limit_counts_without_inactive_file_pages() {
        let version_2 = [
            ("proc/self/cgroup", "0::/pod/gateway\n"),
            ("sys/fs/cgroup/pod/gateway/memory.max", "max\n"),
            ("sys/fs/cgroup/pod/gateway/memory.current", "700000\n"),
            ("sys/fs/cgroup/pod/memory.max", "1000000\n"),
            ("sys/fs/cgroup/pod/memory.current", "900000\n"),
            ("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file 100000\nactive_file 5\n"),
            ("sys/fs/cgroup/memory.max", "4000000\n"),
            ("sys/fs/cgroup/memory.current", "1000000\n"),
        ];
        check(&version_2, 800_000, 1_000_000);
    }

    #[test]
    fn in_a_container_the_path_may_be_the_hosts() {
        let version_1 = [
            ("proc/self/cgroup", "5:memory:/docker/0123\n4:pids:/docker/0123\n"),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000000\n"),
            ("sys/fs/cgroup/memory/memory.usage_in_bytes", "600000\n"),
            ("sys/fs/cgroup/memory/memory.stat", "inactive_file 9\ntotal_inactive_file 50000\n"),
        ];
        check(&version_1, 550_000, 1_000_000);
    }
}
