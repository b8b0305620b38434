//! Tells when files are other than they were when they were read.
//!
//! The kernel tells of changes in the folders that the files stand in, and in those that links on the way to them lead
//! through: Kubernetes swaps a link to a folder, `..data`. What it tells is only a reason to look. Where it tells
//! nothing, as for folders on other machines, the files are looked at now and then.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use crate::stamp::{Stamp, Stamps};

/// How often files are looked at where the kernel tells nothing.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// Who writes a certificate writes its key next: what comes within this time is read together.
const SETTLE: Duration = Duration::from_millis(100);

/// Links on the way to a file that are followed, as many as the kernel does.
const LINKS_MAX: usize = 40;

/// Watches files on a thread of its own until it is dropped.
#[derive(Debug)]
pub struct Watch(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// `None` where the kernel has no more of these; then files are only looked at.
    kernel: Option<OwnedFd>,
    wake: OwnedFd,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    files: Stamps,
    /// Folders that the kernel was asked to tell of.
    folders: BTreeMap<PathBuf, i32>,
    /// A change was told, and nobody has said yet what was read.
    is_told: bool,
    is_over: bool,
}

impl Watch {
    /// Calls `on_change` once for each time that files are other than what [`Watch::set`] said.
    ///
    /// # Errors
    /// When the thread or a descriptor can't be had.
    pub fn start(on_change: impl Fn() + Send + 'static) -> io::Result<Watch> {
        let kernel = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        let wake = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared { kernel, wake, state: Mutex::default() });
        let own = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weir-watch".to_owned());
        thread.spawn(move || own.run(&on_change))?;
        Ok(Watch(shared))
    }

    /// Watches these files in place of those before. Their stamps are from before they were read, so that no change is
    /// missed.
    pub fn set(&self, files: Stamps) {
        let mut state = self.0.state();
        self.0.follow(&mut state, &files);
        state.files = files;
        state.is_told = false;
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
            // Whatever else comes meanwhile is seen with this look.
            std::thread::sleep(SETTLE);
            self.take_events();
            let mut state = self.state();
            let is_other = |(path, stamp): (&PathBuf, &Option<Stamp>)| Stamp::of(path) != *stamp;
            if !state.is_told && state.files.iter().any(is_other) {
                state.is_told = true;
                drop(state);
                on_change();
            }
        }
    }

    /// Waits until the kernel or [`Watch`] tells something, or for so long.
    fn wait(&self, limit: Duration) {
        let mut awaited = vec![PollFd::new(&self.wake, PollFlags::IN)];
        awaited.extend(self.kernel.as_ref().map(|kernel| PollFd::new(kernel, PollFlags::IN)));
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: 0 };
        // An interruption is one more look.
        let _ = poll(&mut awaited, Some(&limit));
    }

    /// Takes what was told: which folder it is about does not matter.
    fn take_events(&self) {
        let mut events = [0_u8; 4096];
        let _ = rustix::io::read(&self.wake, &mut events[..8]);
        if let Some(kernel) = &self.kernel {
            while rustix::io::read(kernel, &mut events).is_ok_and(|bytes| bytes > 0) {}
        }
    }

    /// Asks the kernel to tell of the folders of `files`, and of no others.
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
            // A folder that is gone is seen to be by the next look. One that is known is asked for again: behind a link
            // there may be another one by now.
            if let Ok(watch) = inotify::add_watch(kernel, &folder, changes) {
                folders.insert(folder, watch);
            }
        }
        let kept: BTreeSet<i32> = folders.values().copied().collect();
        for watch in std::mem::replace(&mut state.folders, folders).into_values() {
            if !kept.contains(&watch) {
                // The kernel has forgotten folders that are gone.
                let _ = inotify::remove_watch(kernel, watch);
            }
        }
    }

    fn wake(&self) {
        // It fails only when it is about to wake already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The folders in which `file` and the links that it leads through stand.
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
    fn a_change_is_told_once_until_it_was_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, other) = (dir.path().join("a.pem"), dir.path().join("other"));
        std::fs::write(&file, "one").unwrap();
        let (watch, changes) = watch();
        watch.set(stamps(&[&file]));
        std::fs::write(&other, "nobody's").unwrap();
        assert!(changes.recv_timeout(4 * SETTLE).is_err(), "what nobody named is nothing");
        std::fs::write(&file, "two two").unwrap();
        changes.recv_timeout(PATIENCE).unwrap();
        std::fs::write(&file, "three three three").unwrap();
        assert!(changes.recv_timeout(4 * SETTLE).is_err(), "nobody has read it since");
        watch.set(stamps(&[&file]));
        std::fs::remove_file(&file).unwrap();
        changes.recv_timeout(PATIENCE).unwrap();
    }

    #[test]
    fn a_change_before_the_watch_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.pem");
        let before = stamps(&[&file]);
        std::fs::write(&file, "it came").unwrap();
        let (watch, changes) = watch();
        watch.set(before);
        changes.recv_timeout(PATIENCE).unwrap();
    }

    /// As Kubernetes does it: the file is a link into a folder behind a link, and the latter is replaced by a rename.
    #[test]
    fn swapped_links_are_seen() {
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
