//! Reports when files differ from their state at the last read.
//!
//! inotify watches the directory of each file. If a file is a link, inotify also watches the directories of its
//! targets, because Kubernetes swaps a link to a directory, `..data`. An event only starts a check of the stamps.
//! inotify reports nothing for some directories, for example on network file systems. So the watch also checks the
//! files at a fixed interval.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::stamp::{Stamp, Stamps};

/// Interval of the checks without an inotify event.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The pause between an event and the check. A program that renews a certificate writes certificate and key one after
/// the other. With the pause, both writes usually cause only one report.
const SETTLE: Duration = Duration::from_millis(100);

/// Maximum number of links on the way to a file, as in the kernel.
const LINKS_MAX: usize = 40;

/// Watches files on its own thread until it is dropped.
#[derive(Debug)]
pub struct Watch(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The inotify instance; `None` if the kernel allows no more instances. Without inotify, only the interval triggers
    /// checks.
    kernel: Option<OwnedFd>,
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: Stamps,
    /// The watched directories, with the descriptors of their inotify watches.
    folders: BTreeMap<PathBuf, i32>,
    /// Whether a change was reported after the last call of [`Watch::set`].
    is_reported: bool,
    is_over: bool,
}

impl Watch {
    /// Starts a thread that compares the files with the stamps from the last call of [`Watch::set`]. Calls `on_change`
    /// if a file differs, at most once per call of `set`.
    ///
    /// # Errors
    /// If the system cannot provide the thread or a file descriptor.
    pub fn start(on_change: impl Fn() + Send + 'static) -> io::Result<Watch> {
        let kernel = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { kernel, wake, state: Mutex::default() });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weir-watch".to_owned());
        thread.spawn(move || own.run(&on_change))?;
        Ok(Watch(shared))
    }

    /// Watches these files instead of the previous ones. Take their stamps before reading them, so that no change is
    /// missed.
    pub fn set(&self, files: Stamps) {
        let mut state = self.0.state();
        self.0.follow(&mut state, &files);
        state.files = files;
        state.is_reported = false;
        drop(state);
        self.0.wake();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.state().is_over = true;
        self.0.wake();
    }
}

impl Shared {
    fn run(&self, on_change: &impl Fn()) {
        loop {
            self.wait(LOOK_EVERY);
            if self.state().is_over {
                return;
            }
            // The check below also covers changes during this pause.
            std::thread::sleep(SETTLE);
            self.take_events();
            let mut state = self.state();
            let is_other = |(path, stamp): (&PathBuf, &Option<Stamp>)| Stamp::of(path) != *stamp;
            if !state.is_reported && state.files.iter().any(is_other) {
                state.is_reported = true;
                drop(state);
                on_change();
            }
        }
    }

    /// Waits until inotify or [`Watch`] wakes the thread, or until `limit` has passed.
    fn wait(&self, limit: Duration) {
        let mut awaited = vec![PollFd::new(&self.wake, PollFlags::IN)];
        awaited.extend(self.kernel.as_ref().map(|kernel| PollFd::new(kernel, PollFlags::IN)));
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: 0 };
        // An interrupted wait only causes an additional check.
        let _ = poll(&mut awaited, Some(&limit));
    }

    /// Discards the events: any event causes a check of all files.
    fn take_events(&self) {
        let mut events = [0_u8; 4096];
        let _ = rustix::io::read(&self.wake, &mut events[..8]);
        if let Some(kernel) = &self.kernel {
            while rustix::io::read(kernel, &mut events).is_ok_and(|bytes| bytes > 0) {}
        }
    }

    /// Makes inotify watch the directories of `files`, and no other directories.
    fn follow(&self, state: &mut State, files: &Stamps) {
        let Some(kernel) = &self.kernel else { return };
        let changes = WatchFlags::CREATE
            | WatchFlags::MOVED_TO
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM;
        let wanted: BTreeSet<PathBuf> = files.keys().flat_map(|file| folders_of(file)).collect();
        let mut folders = BTreeMap::new();
        for folder in wanted {
            // Ignores errors: the next check reports that a directory is missing. Adds known directories again, because
            // a link in their path may now lead to another directory.
            if let Ok(watch) = inotify::add_watch(kernel, &folder, changes) {
                folders.insert(folder, watch);
            }
        }
        let kept: BTreeSet<i32> = folders.values().copied().collect();
        for watch in std::mem::replace(&mut state.folders, folders).into_values() {
            if !kept.contains(&watch) {
                // This fails for deleted directories: the kernel has already removed their watches.
                let _ = inotify::remove_watch(kernel, watch);
            }
        }
    }

    fn wake(&self) {
        // The write fails only if the counter is full. A full counter also wakes the thread.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory of `file` and, if `file` is a link, the directories of all targets on the way to the final file.
fn folders_of(file: &Path) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    let mut at = file.to_owned();
    for _ in 0..LINKS_MAX {
        let folder = match at.parent() {
            Some(folder) if folder.as_os_str().is_empty() => PathBuf::from("."),
            Some(folder) => folder.to_owned(),
            None => break,
        };
        let target = std::fs::read_link(&at);
        folders.push(folder.clone());
        match target {
            Ok(target) => at = folder.join(target),
            Err(_) => break,
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn watch() -> (Watch, Receiver<()>) {
        let (sender, changes) = channel();
        (Watch::start(move || sender.send(()).unwrap_or_default()).unwrap(), changes)
    }

    fn stamps(files: &[&Path]) -> Stamps {
        files.iter().map(|file| (file.to_path_buf(), Stamp::of(file))).collect()
    }

    #[test]
    fn reports_a_change_once_until_the_next_set() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("a.pem"), dir.path().join("other"));
        std::fs::write(&file, "one").unwrap();
        let (watch, changes) = watch();
        watch.set(stamps(&[&file]));
        std::fs::write(&other, "other").unwrap();
        assert!(changes.recv_timeout(4 * SETTLE).is_err(), "the file is not watched");
        std::fs::write(&file, "two two").unwrap();
        changes.recv_timeout(PATIENCE).unwrap();
        std::fs::write(&file, "three three three").unwrap();
        assert!(changes.recv_timeout(4 * SETTLE).is_err(), "the change was already reported");
        watch.set(stamps(&[&file]));
        std::fs::remove_file(&file).unwrap();
        changes.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn reports_a_change_before_the_watch() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.pem");
        let before = stamps(&[&file]);
        std::fs::write(&file, "new").unwrap();
        let (watch, changes) = watch();
        watch.set(before);
        changes.recv_timeout(PATIENCE).unwrap();
    }

    /// Like a Kubernetes volume: the file is a link to `..data/tls.crt`, and `..data` is a link to a directory. A
    /// rename replaces the link `..data`.
    #[test]
    fn reports_swapped_links() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        let put = |folder: &str, text: &str| {
            std::fs::create_dir(at(folder)).unwrap();
            std::fs::write(at(folder).join("tls.crt"), text).unwrap();
            symlink(folder, at("..data_tmp")).unwrap();
            std::fs::rename(at("..data_tmp"), at("..data")).unwrap();
        };
        put("..1", "one");
        symlink("..data/tls.crt", at("tls.crt")).unwrap();
        let file = at("tls.crt");
        assert_eq!(folders_of(&file), [dir.path().to_owned(), at("..data")]);
        let (watch, changes) = watch();
        for turn in 2..5 {
            watch.set(stamps(&[&file]));
            put(&format!("..{turn}"), "another");
            std::fs::remove_dir_all(at(&format!("..{}", turn - 1))).unwrap();
            changes.recv_timeout(PATIENCE).unwrap();
        }
    }
}
