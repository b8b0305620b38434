//! Cgroup v2: finds the cgroup below which this process can create cgroups with limits.
//!
//! Root uses the whole hierarchy. Any other user needs a delegated cgroup without other processes, because a cgroup
//! that enables controllers for its children cannot contain processes itself. Without delegation, the program starts
//! again in a scope of the user's service manager (`systemd-run --user --scope`).

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use procfs::process::Process;
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::hierarchy;
use super::version::CgroupVersion;
use crate::cleanup::pids_in;

/// weir moves its own process into this child cgroup, so that the parent cgroup can enable controllers for its
/// children.
const LEAF: &str = "weir-lab";
/// This environment variable marks a program that already restarted in a scope, so that it does not restart again.
const IN_SCOPE_VARIABLE: &str = "WEIR_IN_SCOPE";
/// The command that runs a program in a delegated scope of the user's service manager.
const SCOPE: [&str; 7] = ["systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes"];
/// Remedy for users other than root: how to get a delegated cgroup.
const DELEGATION: &str = "start weir with `systemd-run --user --scope -p Delegate=yes weir ..`, or let root give a \
                          cgroup to this user (chown its folder, cgroup.procs and cgroup.subtree_control)";
/// Remedy if the user's service manager has a delegated cgroup, but not all controllers.
const MORE_CONTROLLERS: &str = "as root, run `systemctl edit user@.service`, and add `Delegate=cpu memory pids` \
                                under `[Service]`";

/// The cgroup below which this process creates cgroups.
#[derive(Debug)]
struct Place {
    /// The path of the cgroup, relative to the root of the hierarchy.
    path: PathBuf,
    directory: PathBuf,
    /// Whether this process is in the cgroup itself, and not in its child [`LEAF`].
    is_inside: bool,
}

/// Finds the cgroup in which cgroups with `controllers` can be created, and enables these controllers for its
/// children. Moves this process into [`LEAF`] if the kernel requires that. Returns the path relative to the root of
/// the hierarchy, or the reason why there is no such cgroup.
pub(crate) fn base(controllers: &[&str]) -> Result<PathBuf, String> {
    let place = Place::of_this_process()?;
    if let Some(obstacle) = place.obstacle(controllers) {
        return Err(obstacle);
    }
    let refused =
        |error: io::Error| format!("{}: {error}; {}", place.directory.display(), remedy_for(DELEGATION));
    if place.must_be_left() {
        place.leave().map_err(refused)?;
    }
    enable(&place.directory, controllers).map_err(refused)?;
    Ok(place.path)
}

/// Enables `controllers` for the children of the cgroup at `directory`. Also enables `io`, which counts block I/O, if
/// it is available.
pub(crate) fn enable(directory: &Path, controllers: &[&str]) -> io::Result<()> {
    let path = directory.join("cgroup.subtree_control");
    let enabled = fs::read_to_string(&path)?;
    let ask = |wanted: &[&str]| {
        let missing: Vec<String> =
            missing_of(wanted, &enabled).iter().map(|controller| format!("+{controller}")).collect();
        if missing.is_empty() { Ok(()) } else { fs::write(&path, missing.join(" ")) }
    };
    ask(controllers)?;
    let _ = ask(&["io"]);
    Ok(())
}

/// Replaces this process with the same program in a scope of the user's service manager, because limits need a
/// delegated cgroup. Returns `Ok` if no scope is needed: for root, with cgroup v1, or in a cgroup that is already
/// delegated.
///
/// # Errors
/// The reason why the program cannot start in a scope. The caller can continue without a scope; [`crate::try_limits`]
/// then reports what is missing.
pub fn start_again_in_scope() -> Result<(), String> {
    let controllers = CgroupVersion::V2.controllers();
    let needed = !rustix::process::geteuid().is_root()
        && hierarchy::version() == CgroupVersion::V2
        && std::env::var_os(IN_SCOPE_VARIABLE).is_none()
        && Place::of_this_process().is_ok_and(|place| place.obstacle(controllers).is_some());
    if !needed {
        return Ok(());
    }
    let [program, arguments @ ..] = SCOPE;
    // First run the command `true` in the scope. If systemd-run replaced this process and then failed, the run would
    // end.
    let tried = Command::new(program)
        .args(arguments)
        .arg("true")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if !tried.status.success() {
        let output = String::from_utf8_lossy(&tried.stderr);
        return Err(format!("{}: {}", SCOPE[..3].join(" "), output.trim()));
    }
    let own =
        std::env::current_exe().map_err(|error| format!("cannot find weir's own executable: {error}"))?;
    let mut again = Command::new(program);
    again.args(arguments).arg(own).args(std::env::args_os().skip(1)).env(IN_SCOPE_VARIABLE, "1");
    Err(format!("{program}: {}", again.exec()))
}

impl Place {
    fn of_this_process() -> Result<Self, String> {
        let text = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let own = Path::new(own_group(&text).ok_or("/proc/self/cgroup lists no cgroup v2 for this process")?);
        // Root creates cgroups at the root of the hierarchy, even if its own cgroup is deeper.
        let path = if rustix::process::geteuid().is_root() { Path::new("") } else { above_leaf(own) };
        Ok(Self { path: path.to_owned(), directory: hierarchy::v2_root().join(path), is_inside: own == path })
    }

    /// Checks whether cgroups with `controllers` can be created here, and changes nothing. Returns the obstacle and its
    /// remedy, or `None` if there is no obstacle.
    fn obstacle(&self, controllers: &[&str]) -> Option<String> {
        let hindered =
            |what: String, users| Some(format!("{} {what}; {}", self.directory.display(), remedy_for(users)));
        let needed = ["", "cgroup.procs", "cgroup.subtree_control"].map(|name| self.directory.join(name));
        if let Some(error) = needed.iter().find_map(|path| access(path, Access::WRITE_OK).err()) {
            return match error {
                Errno::ACCESS | Errno::PERM => hindered("is not delegated to this user".into(), DELEGATION),
                other => hindered(format!("cannot be written: {other}"), DELEGATION),
            };
        }
        let present = fs::read_to_string(self.directory.join("cgroup.controllers")).unwrap_or_default();
        let missing = missing_of(controllers, &present);
        if !missing.is_empty() {
            return hindered(format!("lacks the controllers {}", missing.join(", ")), MORE_CONTROLLERS);
        }
        if self.may_hold_processes() {
            return None;
        }
        // `cgroup.procs` lists processes of other PID namespaces as 0; they count as other processes.
        match pids_in(&self.directory).into_iter().filter(|pid| !is_ours(*pid)).count() {
            0 => None,
            others => hindered(
                format!("contains other processes ({others}), so the kernel allows no child cgroups"),
                DELEGATION,
            ),
        }
    }

    /// Moves this process and its children, including the guard, into the child cgroup [`LEAF`].
    fn leave(&self) -> io::Result<()> {
        let leaf = self.directory.join(LEAF);
        fs::create_dir_all(&leaf)?;
        for pid in pids_in(&self.directory).into_iter().filter(|pid| is_ours(*pid)) {
            match fs::write(leaf.join("cgroup.procs"), pid.to_string()) {
                // The child has exited.
                Err(error) if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => {}
                other => other?,
            }
        }
        Ok(())
    }

    fn must_be_left(&self) -> bool {
        self.is_inside && !self.may_hold_processes()
    }

    /// Whether the cgroup can contain both processes and child cgroups with controllers. Only the root of the hierarchy
    /// can, and only the root has no file `cgroup.type`. The root that a container sees is an ordinary cgroup with this
    /// file.
    fn may_hold_processes(&self) -> bool {
        !self.directory.join("cgroup.type").exists()
    }
}

/// Whether the process is this one or a child of it.
fn is_ours(pid: i32) -> bool {
    let own = std::process::id() as i32;
    pid == own || Process::new(pid).and_then(|process| process.stat()).is_ok_and(|stat| stat.ppid == own)
}

/// The remedy for the current user: `users`, or for root a remedy for containers. Root fails only in containers,
/// because outside them nothing prevents root from setting limits.
fn remedy_for(users: &str) -> &str {
    match rustix::process::geteuid().is_root() {
        true => {
            "mount a writable cgroup hierarchy in this container, and move its other processes to child cgroups"
        }
        false => users,
    }
}

/// The cgroup v2 path of this process, relative to the root, parsed from the `text` of /proc/self/cgroup.
fn own_group(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("0::/"))
}

/// Returns the parent of `own` if `own` is the child cgroup [`LEAF`], into which weir moved itself; otherwise `own`.
fn above_leaf(own: &Path) -> &Path {
    own.parent().filter(|_| own.ends_with(LEAF)).unwrap_or(own)
}

fn missing_of<'a>(wanted: &[&'a str], present: &str) -> Vec<&'a str> {
    wanted.iter().copied().filter(|wanted| !present.split_whitespace().any(|name| name == *wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_group_is_read_from_the_v2_hierarchy() {
        assert_eq!(own_group("0::/user.slice/a.scope\n"), Some("user.slice/a.scope"));
        assert_eq!(own_group("0::/\n"), Some(""));
        assert_eq!(own_group("4:memory:/x\n1:name=systemd:/y\n0::/z\n"), Some("z"));
        assert_eq!(own_group("4:memory:/x\n"), None);
    }

    #[test]
    fn a_lab_in_its_leaf_uses_the_parent_group() {
        let above = |own| above_leaf(Path::new(own)).to_owned();
        assert_eq!(above("a/b.scope/weir-lab"), Path::new("a/b.scope"));
        assert_eq!(above("weir-lab"), Path::new(""));
        assert_eq!(above("a/not-weir-lab"), Path::new("a/not-weir-lab"));
        assert_eq!(above(""), Path::new(""));
    }

    #[test]
    fn controllers_are_compared_by_full_name() {
        assert_eq!(missing_of(&["cpu", "memory", "pids"], "cpuset memory pids\n"), ["cpu"]);
        assert!(missing_of(&["cpu"], "cpuset cpu io\n").is_empty());
        assert_eq!(missing_of(&["cpu"], ""), ["cpu"]);
    }

    #[test]
    fn a_delegated_group_without_other_processes_is_accepted() {
        let own = std::process::id();
        let check = |kind: &str, controllers: &str, procs: &str, expected: Option<&str>| {
            let folder = tempfile::tempdir().unwrap();
            let file = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
            file("cgroup.controllers", controllers);
            file("cgroup.procs", procs);
            file("cgroup.subtree_control", "");
            if !kind.is_empty() {
                file("cgroup.type", kind);
            }
            let place = Place { path: "x".into(), directory: folder.path().into(), is_inside: true };
            let obstacle = place.obstacle(CgroupVersion::V2.controllers());
            match expected {
                None => assert_eq!(obstacle, None),
                Some(words) => assert!(obstacle.as_ref().is_some_and(|o| o.contains(words)), "{obstacle:?}"),
            }
        };
        let all = "cpuset cpu io memory pids\n";
        let mut guard = Command::new("sleep").arg("60").spawn().unwrap();
        check("domain\n", all, &format!("{own}\n"), None);
        check("domain\n", all, &format!("{own}\n{}\n", guard.id()), None);
        guard.kill().unwrap();
        guard.wait().unwrap();
        check("domain\n", all, &format!("{own}\n1\n0\n"), Some("other processes (2)"));
        check("", all, &format!("{own}\n1\n"), None);
        check("domain\n", "memory pids\n", &format!("{own}\n"), Some("lacks the controllers cpu"));
    }

    #[test]
    fn enabled_controllers_are_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cgroup.subtree_control");
        let check = |before: &str, expected: &str| {
            fs::write(&path, before).unwrap();
            enable(folder.path(), &["cpu", "memory"]).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), expected);
        };
        check("cpu io memory\n", "cpu io memory\n");
        check("cpu memory\n", "+io");
        check("io memory pids\n", "+cpu");
        check("io\n", "+cpu +memory");
    }
}
