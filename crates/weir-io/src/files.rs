//! The process's table of open files.

use rustix::event::epoll;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Has the kernel make room for `files` open files at once, as far as the process's limit allows.
///
/// The table doubles as files are opened, and in a process with several threads each time waits until every CPU has
/// passed a quiet point (`synchronize_rcu` in `expand_files`): some 10 ms in which the thread that opens a file or
/// takes a connection does nothing else. So it is to be called before the threads start; the table never shrinks.
pub fn reserve_files(files: u64) {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let Some(last) = files.min(limit).checked_sub(1).and_then(|last| i32::try_from(last).ok()) else {
        return;
    };
    // Without it all works too, with the waits.
    if let Ok(any) = epoll::create(epoll::CreateFlags::CLOEXEC) {
        let _ = fcntl_dupfd_cloexec(&any, last);
    }
}

/// Raises the process's limit of open files as far as it may. Every connection takes one, and the usual 1,024 would be
/// the lowest limit of all.
pub fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    // Without it all works too, with fewer connections.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size of this process's table of open files.
    fn table() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("FDSize:")).unwrap();
        line.trim().parse().unwrap()
    }

    #[test]
    fn the_table_holds_as_many_as_asked_and_no_file_stays_open() {
        let wanted = table() * 4;
        reserve_files(wanted);
        assert!(table() >= wanted);
        let highest = std::fs::read_dir("/proc/self/fd")
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_str().unwrap().parse::<u64>().unwrap());
        assert!(highest.max().unwrap() < wanted - 1);
    }
}
