//! The table of open files of this process.

use rustix::event::epoll;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Reserves space for `files` open files in the file descriptor table of this process, up to the process limit.
///
/// The kernel doubles the table when more files are opened. In a process with several threads, each doubling waits
/// for an RCU grace period (`synchronize_rcu` in `expand_files`). The thread that opens a file or accepts a
/// connection is then blocked for about 10 ms. So call this function before threads start. The table never shrinks.
pub fn reserve_files(files: u64) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let Some(last) = files.min(limit).checked_sub(1).and_then(|last| i32::try_from(last).ok()) else {
        return;
    };
    // If this fails, the only harm is that threads may be blocked later.
    if let Ok(any) = epoll::create(epoll::CreateFlags::CLOEXEC) {
        let _ = fcntl_dupfd_cloexec(&any, last);
    }
}

/// Raises the soft limit of open files to the hard limit. Each connection needs an open file, so the usual soft
/// limit of 1,024 would be reached before any other limit.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // If this fails, the only harm is that the process can open fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of the table of open files of this process.
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
