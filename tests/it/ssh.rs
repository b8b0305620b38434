//! Agents that `ssh` starts, with a real sshd in a separate network namespace and mount namespace.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::geteuid;
use serde_json::Value;
use weir_rig::{Namespace, Rig, RigOptions};

use crate::agents::agents_of;
use crate::crash::is_there;
use crate::program::{get, json, text, the_host, until, wait};
use crate::prometheus::peer;
use crate::run::measurements;
use crate::yard::Yard;

/// Port of the sshd. It is not the default port, so weir reaches the sshd only if it uses the user's ssh configuration.
const PORT: u16 = 2022;

/// Two hosts: a near host with the run, and a far host that is reachable only by `ssh`.
struct Far {
    yard: Yard,
    /// The host of the run.
    near: Namespace,
    /// The far host's folder.
    home: PathBuf,
    sshd: Child,
    origin: Child,
    origin_address: SocketAddr,
    rig: Option<Rig>,
    /// IDs of the processes that start with the hosts.
    own: Vec<i32>,
}

impl Far {
    /// Starts both hosts. `None` if not root: namespaces require root.
    fn start() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let yard = Yard::new();
        let elsewhere = yard.path().join("rig");
        fs::create_dir(&elsewhere).unwrap();
        let guard = [env!("CARGO_BIN_EXE_weir"), "guard", "--ledger"].map(str::to_owned);
        let rig = Rig::open_with(&RigOptions {
            run_id: format!("ssh-{}", std::process::id()),
            state_dir: elsewhere.clone(),
            temp_dir: elsewhere,
            guard: guard.to_vec(),
            cgroups: false,
            database: None,
            host_name: None,
        })
        .unwrap();
        let (near, far) = (rig.namespace().unwrap(), rig.namespace().unwrap());
        let [near_address, far_address] = rig.link(&near, &far).unwrap();
        let home = yard.path().join("far");
        let sshd = sshd(&home, far_address, &far);
        client(&yard, &home, far_address);
        let (origin, origin_address) = origin(&near, near_address);
        let own = yard.processes().into_iter().map(|(pid, _)| pid).collect();
        Some(Self { yard, near, home, sshd, origin, origin_address, rig: Some(rig), own })
    }

    /// Starts `weir` on the near host, with the user's `ssh` and configuration.
    fn weir(&self, arguments: &[&str]) -> Child {
        let path = format!("{}:{}", self.yard.path().join("bin").display(), std::env::var("PATH").unwrap());
        let mut command = self.yard.weir(arguments);
        command.env("PATH", path).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn_in(&self.near, command)
    }

    /// Sends load to the origin from `hosts`.
    fn load(&self, hosts: &str, more: &[&str]) -> Output {
        let (url, on) = (format!("http://{}/x", self.origin_address), format!("ssh:{hosts}"));
        wait(self.weir(&[&["load", &url, "--json", "--on", &on], more].concat()))
    }

    fn requests(&self) -> u64 {
        let address = self.origin_address;
        let stats = self.near.within(|| get(address, "/__weir/stats")).unwrap();
        serde_json::from_str::<Value>(&stats).unwrap()["requests"].as_u64().unwrap()
    }

    /// Puts a program into the PATH of the far host.
    fn install(&self, name: &str, script: &str) {
        let path = self.home.join("bin").join(name);
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Puts `weir` into the PATH of the far host.
    fn install_weir(&self) {
        symlink(env!("CARGO_BIN_EXE_weir"), self.home.join("bin/weir")).unwrap();
    }

    /// Waits until no process and no file of an agent is left over.
    fn await_nothing_left(&self) {
        let temporary = self.home.join("tmp");
        // `processes()` finds agents, load generators, guards, shells and `ssh`, because their command lines contain a
        // folder of the test.
        until("the end of all processes", || {
            self.yard.processes().iter().all(|(pid, _)| self.own.contains(pid))
        });
        until("an empty temporary folder on the far host", || {
            fs::read_dir(&temporary).unwrap().next().is_none()
        });
        let folders = ["tmp", "state"].map(|name| self.yard.path().join(name));
        until("no leftover files on the near host", || {
            folders.iter().all(|folder| {
                let mut left = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.file_name());
                left.all(|name| name == "host.lock")
            })
        });
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        for child in [&mut self.sshd, &mut self.origin] {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(rig) = self.rig.take() {
            let _ = rig.close();
        }
    }
}

fn spawn_in(namespace: &Namespace, mut command: Command) -> Child {
    namespace.within(|| command.spawn()).unwrap().unwrap()
}

/// Starts an sshd with one user and one key in `namespace`.
fn sshd(home: &Path, address: Ipv4Addr, namespace: &Namespace) -> Child {
    for name in ["bin", "tmp", "etc"] {
        fs::create_dir_all(home.join(name)).unwrap();
    }
    for key in ["host", "user"] {
        let mut made = Command::new(peer("ssh-keygen"));
        let made = made.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(home.join("etc").join(key));
        assert!(made.status().unwrap().success());
    }
    let etc = home.join("etc").display().to_string();
    let home = home.display();
    let config = format!(
        "Port {PORT}\nListenAddress {address}\nHostKey {etc}/host\nAuthorizedKeysFile {etc}/user.pub\n\
         StrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\nPermitRootLogin yes\n\
         SetEnv TMPDIR={home}/tmp PATH={home}/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    );
    fs::write(format!("{etc}/sshd_config"), config).unwrap();
    let users = format!("root:x:0:0::{home}:/bin/sh\nsshd:x:65500:65534::/run/sshd:/usr/sbin/nologin\n");
    fs::write(format!("{etc}/passwd"), users).unwrap();
    fs::write(format!("{etc}/shadow"), "root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n").unwrap();
    // As root, sshd requires the user `sshd` and the folder /run/sshd.
    let script = format!(
        "mount --bind {etc}/passwd /etc/passwd && mount --bind {etc}/shadow /etc/shadow && mount -t tmpfs none /run && \
         mkdir -m 755 /run/sshd && exec {} -D -E {etc}/log -f {etc}/sshd_config",
        peer("sshd").display()
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).stdin(Stdio::null());
    let mut child = spawn_in(namespace, command);
    until("the sshd", || {
        assert!(
            child.try_wait().unwrap().is_none(),
            "{}",
            fs::read_to_string(format!("{etc}/log")).unwrap_or_default()
        );
        namespace.within(|| TcpStream::connect((address, PORT)).is_ok()).unwrap()
    });
    child
}

/// Writes the ssh configuration for the near host, and an `ssh` wrapper that uses it.
fn client(yard: &Yard, home: &Path, address: Ipv4Addr) {
    let (bin, etc) = (yard.path().join("bin"), home.join("etc").display().to_string());
    fs::create_dir(&bin).unwrap();
    let key = fs::read_to_string(format!("{etc}/host.pub")).unwrap();
    fs::write(format!("{etc}/known"), format!("[{address}]:{PORT} {key}")).unwrap();
    let config = format!(
        "Host first second\n Port {PORT}\n IdentityFile {etc}/user\nHost closed\n Port 1\n\
         Host stranger\n Port {PORT}\n IdentityFile {etc}/host\nHost *\n HostName {address}\n User root\n \
         IdentitiesOnly yes\n UserKnownHostsFile {etc}/known\n"
    );
    fs::write(format!("{etc}/ssh_config"), config).unwrap();
    let ssh = bin.join("ssh");
    // `ssh` ignores HOME, so a wrapper passes the configuration.
    fs::write(&ssh, format!("#!/bin/sh\nexec {} -F {etc}/ssh_config \"$@\"\n", peer("ssh").display()))
        .unwrap();
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
}

fn origin(namespace: &Namespace, address: Ipv4Addr) -> (Child, SocketAddr) {
    let address = SocketAddr::from((address, 8080));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(["origin", "--listen", &address.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = spawn_in(namespace, command);
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("listening on"), "the origin printed {line:?}");
    (child, address)
}

#[test]
fn ssh_hosts_receive_weir_generate_one_load_and_keep_no_files() {
    let Some(far) = Far::start() else { return };
    let _host = the_host();
    far.install("weir", "#!/bin/sh\necho weir 0.0.1\n");
    let output = far.load("first,second", &["-n", "501", "-c", "4"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&output);
    let shards = result["shards"].as_array().unwrap();
    let by_agent: Vec<_> =
        shards.iter().map(|shard| (&shard["agent"], &shard["requests"]["completed"])).collect();
    assert_eq!(by_agent, [(&"first".into(), &251.into()), (&"second".into(), &250.into())]);
    assert_eq!(far.requests(), 501);
    far.await_nothing_left();
}

#[test]
fn an_installed_weir_is_used_and_a_killed_run_leaves_nothing_behind() {
    let Some(far) = Far::start() else { return };
    let _host = the_host();
    far.install_weir();
    let (url, temporary) = (format!("http://{}/x", far.origin_address), far.home.join("tmp"));
    let mut load = far.weir(&["load", &url, "--on", "ssh:first", "-c", "2", "-d", "60s"]);
    until("a load that runs", || {
        assert!(load.try_wait().unwrap().is_none(), "it ended early");
        far.requests() > 0
    });
    assert_eq!(agents_of(&temporary).len(), 1);
    let folder = fs::read_dir(&temporary).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("ticket").exists() && !folder.join("weir").exists(), "weir was copied");
    load.kill().unwrap();
    load.wait().unwrap();
    far.await_nothing_left();
}

#[test]
fn a_run_killed_while_weir_is_copied_leaves_nothing_behind() {
    let Some(far) = Far::start() else { return };
    let _host = the_host();
    let (url, temporary) = (format!("http://{}/x", far.origin_address), far.home.join("tmp"));
    let mut load = far.weir(&["load", &url, "--on", "ssh:first", "-c", "2", "-d", "60s"]);
    until("a copy under way", || is_there(&temporary, &["*", "weir"]));
    load.kill().unwrap();
    load.wait().unwrap();
    far.await_nothing_left();
}

#[test]
fn ssh_hosts_generate_load_for_and_sample_a_remote_gateway() {
    let Some(far) = Far::start() else { return };
    let _host = the_host();
    far.install_weir();
    // Both hosts share the process IDs of this machine.
    let scenario = format!(
        "name: far\nquestion: What does it cost there?\ngateways:\n\
         - {{ name: shop, driver: remote, url: 'http://{}', sampler: {{ on: 'ssh:second', pid: {} }} }}\n\
         topology: {{ paths: [/x] }}\nloads:\n  tail: {{ model: open, rate: 300/s, connections: 4 }}\n\
         generator: {{ on: 'ssh:first,second' }}\nwarmup: 200ms\nduration: 1s\nrepeats: 1\nretries: 0\n",
        far.origin_address,
        far.origin.id()
    );
    fs::write(far.yard.path().join("far.yaml"), scenario).unwrap();
    let output = wait(far.weir(&["run", "far.yaml", "--db", "weir.db", "--out", "out", "--json"]));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    let [measurement] = measurements(&result, "shop")[..] else { panic!("one load: {result}") };
    let shards = measurement["record"]["shards"].as_array().unwrap();
    let names: Vec<_> = shards.iter().map(|shard| &shard["agent"]).collect();
    assert_eq!(names, ["first", "second"]);
    assert!(measurement["usage"]["shop"]["cpu_cores"].as_f64().unwrap() > 0.0, "{measurement}");
    let evidence = measurement["judgement"]["evidence"].to_string();
    assert!(evidence.contains("sampled by the agent second"), "{evidence}");
    far.await_nothing_left();
}

#[test]
fn an_unusable_host_is_reported_with_a_remedy() {
    let Some(far) = Far::start() else { return };
    let _host = the_host();
    let refused = |hosts: &str, why: &[&str]| {
        let output = far.load(hosts, &["-n", "10", "-c", "2"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{said}");
        for words in why {
            assert!(said.contains(words), "{hosts}: {words} in {said}");
        }
    };
    refused(
        "first,closed",
        &["ssh closed:", "Connection refused", "make `ssh closed true` work without a password"],
    );
    refused("stranger", &["ssh stranger:", "Permission denied"]);
    far.install("uname", "#!/bin/sh\necho Plan9 mips\n");
    refused("second", &["does not run on Plan9 mips", "install weir", "on second"]);
    assert_eq!(far.requests(), 0);
    far.await_nothing_left();
}
