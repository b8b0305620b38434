//! The open file table of the process.

use rustix::event::epoll;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserves table space in the kernel for `files` open files, up to the process limit.
///
/// The kernel doubles the table as files are opened. In a multi-threaded process each doubling waits for an RCU grace
/// period (`synchronize_rcu` in `expand_files`). The thread that opens a file or accepts a connection then blocks for
/// about 10 ms. Call this function before threads start. The table never shrinks.
pub fn reserve_files(files: u64) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let Some(last) = files.min(limit).checked_sub(1).and_then(|last| i32::try_from(last).ok()) else {
        return;
    };
    // A failure costs only the waits.
    if let Ok(any) = epoll::create(epoll::CreateFlags::CLOEXEC) {
        let _ = fcntl_dupfd_cloexec(&any, last);
    }
}

/// Raises the soft limit of open files to the hard limit. Every connection needs one file, so the usual 1,024 would be
/// the lowest limit of all.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // A failure costs only connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of this process's open file table.
    fn table() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn the_table_grows_to_the_requested_size_and_no_file_stays_open() {
        let wanted = table() * 4;
        reserve_files(wanted);
        assert!(table() >= wanted);
        let highest = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap());
        assert!(highest.max().unwrap() < wanted - 1);
    }
}
