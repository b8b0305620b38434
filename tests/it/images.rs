//! Gateways in containers of a real Docker engine, which the test starts. They are limited, sampled and reported like
//! processes, and nothing is left over. The image contains the nginx of `make peers` under a name that the host lacks.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::program::{json, text, the_host, until, wait};
use crate::run::{assert_reconciled, measurements};
use crate::yard::Yard;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The name of the program in the image.
const PROGRAM: &str = "boxed-nginx";
const IMAGE: &str = "weir-test/nginx:1";

/// A Docker engine for one test.
struct Engine {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl Engine {
    /// Starts an engine with the image. `None` without root rights.
    fn start() -> Option<Self> {
        if !geteuid().is_root() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        // The engine leaves mounts behind, so it gets a separate mount namespace.
        let mut command = with_path(Command::new("unshare"));
        command.args([
            "--mount",
            "dockerd",
            "--bridge=none",
            "--iptables=false",
            "--host",
            &format!("unix://{}", at("socket")),
        ]);
        command.args(["--data-root", &at("data"), "--exec-root", &at("exec"), "--pidfile", &at("pid")]);
        let log = fs::File::create(at("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut engine = Self { daemon: command.spawn().unwrap(), folder };
        until("an engine that responds", || {
            let ended = engine.daemon.try_wait().unwrap();
            assert!(
                ended.is_none(),
                "{ended:?}: {}",
                fs::read_to_string(engine.folder.path().join("log")).unwrap()
            );
            engine.docker(&["info"]).status.success()
        });
        engine.import();
        Some(engine)
    }

    fn host(&self) -> String {
        format!("unix://{}", self.folder.path().join("socket").display())
    }

    fn docker(&self, arguments: &[&str]) -> Output {
        let mut command = with_path(Command::new("docker"));
        command.args(arguments).env("DOCKER_HOST", self.host()).stdin(Stdio::null()).output().unwrap()
    }

    /// Imports the image: nginx, its libraries, /etc/passwd and /etc/group.
    fn import(&self) {
        let root = self.folder.path().join("root");
        let put = |from: &Path, to: &str| {
            let to = root.join(to.trim_start_matches('/'));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(from, to).unwrap();
        };
        let nginx = fs::canonicalize(Path::new(ROOT).join("target/peers/nginx/root/usr/sbin/nginx")).unwrap();
        put(&nginx, &format!("usr/sbin/{PROGRAM}"));
        let listed = text(&Command::new("ldd").arg(&nginx).output().unwrap().stdout);
        for library in listed.split_whitespace().filter(|word| word.starts_with('/')) {
            put(Path::new(library), library);
        }
        fs::create_dir_all(root.join("etc")).unwrap();
        fs::write(root.join("etc/passwd"), "root:x:0:0::/:\nnobody:x:65534:65534::/:\n").unwrap();
        fs::write(root.join("etc/group"), "root:x:0:\nnogroup:x:65534:\n").unwrap();
        let archive = self.folder.path().join("root.tar");
        let paths = [archive.to_str().unwrap(), root.to_str().unwrap()];
        assert!(Command::new("tar").args(["-cf", paths[0], "-C", paths[1], "."]).status().unwrap().success());
        let imported = self.docker(&["import", paths[0], IMAGE]);
        assert!(imported.status.success(), "{}", text(&imported.stderr));
    }

    /// A `weir` command in the yard that uses this engine.
    fn weir(&self, yard: &Yard, arguments: &[&str]) -> Command {
        let mut command = with_path(yard.weir(arguments));
        command.env("DOCKER_HOST", self.host());
        command
    }

    fn containers(&self) -> String {
        text(&self.docker(&["ps", "--all", "--quiet"]).stdout)
    }

    fn await_nothing_left(&self, yard: &Yard) {
        yard.await_nothing_left();
        until("no container", || self.containers().is_empty());
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.daemon), Signal::TERM);
        let _ = self.daemon.wait();
    }
}

/// Adds the engine's programs to PATH.
fn with_path(mut command: Command) -> Command {
    let folder = |name: &str| Path::new(ROOT).join("target/peers/dockerd/root/usr").join(name);
    let own = [folder("bin"), folder("sbin")];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all: Vec<PathBuf> = own.into_iter().chain(std::env::split_paths(&path)).collect();
    command.env("PATH", std::env::join_paths(all).unwrap());
    command
}

/// Writes a driver whose program exists only in the image.
fn driver(yard: &Yard) {
    let folder = yard.path().join("boxed");
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(Path::new(ROOT).join("drivers/nginx")).unwrap().flatten() {
        let said = fs::read_to_string(entry.path()).unwrap();
        let own = said
            .replace("binary:\n  name: nginx\n", &format!("binary:\n  name: {PROGRAM}\n"))
            .replace("image: nginx:1.29", &format!("image: {IMAGE}"));
        fs::write(folder.join(entry.file_name()), own).unwrap();
    }
}

fn scenario(yard: &Yard, gateways: &str, more: &str) {
    let scenario = format!(
        "name: it-images\nquestion: Does a container count like a process?\ngateways: {gateways}\n\
         limits: {{ data: {{ cpus: 0.5, memory: 128MiB }} }}\n\
         topology: {{ domains: 2, paths: [/ping] }}\norigin: {{ body: 64B }}\n\
         loads: {{ steady: {{ model: open, rate: 200/s, connections: 4 }} }}\n\
         warmup: 200ms\nduration: 1s\nrepeats: 1\nretries: 0\ntimeout: 10s\n{more}"
    );
    fs::write(yard.path().join("images.yaml"), scenario).unwrap();
}

const RUN: [&str; 9] =
    ["run", "images.yaml", "--drivers", "boxed", "--db", "weir.db", "--out", "out", "--json"];

fn cell<'a>(result: &'a Value, gateway: &str) -> &'a Value {
    let cells = result["cells"].as_array().unwrap();
    cells.iter().find(|cell| cell["key"]["gateway"] == gateway).unwrap()
}

#[test]
fn a_missing_program_runs_in_a_container_and_is_measured_like_a_process() {
    let Some(engine) = Engine::start() else { return };
    let _host = the_host();
    let yard = Yard::new();
    driver(&yard);
    let pinned = format!("{{ name: pinned, driver: nginx, image: {IMAGE}, binary: /usr/sbin/{PROGRAM} }}");
    scenario(&yard, &format!("[boxed, {pinned}, nginx]"), "");
    let output = wait(yard.start(engine.weir(&yard, &[&RUN[..], &["--images"]].concat())));
    let said = text(&output.stderr);
    assert!(
        said.contains(&format!("boxed runs in a container of image {IMAGE}, started by docker ")),
        "{said}"
    );
    let result = json(&output);
    let part_of = |gateway: &str| {
        let all = measurements(&result, gateway);
        let [steady] = all.as_slice() else { panic!("{gateway} has one load: {all:?}") };
        assert_reconciled(steady, gateway);
        let parts = cell(&result, gateway)["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["role"] == "data").unwrap();
        let usage = &steady["usage"][part["name"].as_str().unwrap()];
        for field in ["memory_bytes_peak", "threads_max", "open_files_max", "periods"] {
            assert!(usage[field].as_u64().unwrap() > 0, "{gateway}: {field}: {usage}");
        }
        // nginx runs two processes, a master and a worker, inside and outside of a container.
        assert_eq!(usage["pids_max"], 2, "{gateway}: {usage}");
        assert!(usage["cpu_share_of_limit"].as_f64().unwrap() > 0.0, "{gateway}: {usage}");
        part.clone()
    };
    let process = part_of("nginx");
    assert!(process.get("image").is_none(), "{process}");
    for gateway in ["boxed", "pinned"] {
        let part = part_of(gateway);
        for field in ["version", "limit_cpus", "limit_memory_bytes", "limits_applied", "limited_by"] {
            assert_eq!(part[field], process[field], "{gateway}: {field}");
        }
        let image = &part["image"];
        let id = format!("sha256:{}", part["binary_sha256"].as_str().unwrap());
        assert_eq!(
            (image["name"].as_str(), image["id"].as_str()),
            (Some(IMAGE), Some(id.as_str())),
            "{part}"
        );
        assert!(image["engine"].as_str().unwrap().starts_with("docker "), "{part}");
        let unequal = cell(&result, gateway)["unequal"].to_string();
        assert!(unequal.contains("runs in a container of docker "), "{unequal}");
    }
    let page = fs::read_to_string(yard.path().join("out/report.md")).unwrap();
    assert!(page.contains(&format!("in a container of image {IMAGE}, run by docker ")), "{page}");
    // The run stores the image, so --resume needs no --images.
    let again = ["run", "--resume", "last", "--repeats", "2", "--drivers", "boxed", "--db", "weir.db"];
    let output = wait(yard.start(engine.weir(&yard, &again)));
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    engine.await_nothing_left(&yard);
}

#[test]
fn gateways_that_cannot_run_in_a_container_fail_alone_with_a_remedy() {
    let Some(engine) = Engine::start() else { return };
    let _host = the_host();
    let yard = Yard::new();
    driver(&yard);
    let gateway = |name: &str, more: &str| format!("{{ name: {name}, driver: nginx, {more} }}");
    let all = [
        gateway("absent", "image: \"localhost:1/weir-test/absent:1\""),
        gateway("bare", &format!("image: {IMAGE}, binary: nope")),
        gateway("here", &format!("image: {IMAGE}, binary: {PROGRAM}")),
    ];
    scenario(&yard, &format!("[{}]", all.join(", ")), "");
    let result = json(&wait(yard.start(engine.weir(&yard, &RUN))));
    let check = |result: &Value, gateway: &str, message: &str, remedy: &str| {
        let outcome = &cell(result, gateway)["outcome"];
        let said = |field: &str| outcome[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(said("cause"), "binary-missing", "{outcome}");
        assert!(said("message").contains(message) && said("remedy").contains(remedy), "{outcome}");
    };
    check(&result, "absent", "cannot pull the image localhost:1/weir-test/absent:1: ", "docker load");
    check(&result, "bare", "does not contain the program `nope`", "`binary`");
    assert_eq!(cell(&result, "here")["outcome"]["kind"], "measured");

    // The gateway's cell fails in two cases: `network: namespaces` is set (Docker cannot join a namespace of weir), or
    // the Docker daemon does not respond.
    scenario(&yard, &format!("[{}, weir]", all[2]), "network: namespaces\n");
    let result = json(&wait(yard.start(engine.weir(&yard, &RUN))));
    check(&result, "here", "cannot run a container in a network namespace", "`network: loopback`");
    assert_eq!(cell(&result, "weir")["outcome"]["kind"], "measured");
    scenario(&yard, "[boxed, weir]", "");
    let mut nowhere = engine.weir(&yard, &[&RUN[..], &["--images", "--engine", "docker"]].concat());
    nowhere.env("DOCKER_HOST", format!("unix://{}", yard.path().join("nobody").display()));
    let result = json(&wait(yard.start(nowhere)));
    check(&result, "boxed", "no container engine responds: docker: ", "install and start Docker or Podman");
    assert_eq!(cell(&result, "weir")["outcome"]["kind"], "measured");

    // Rejected: a positive control of a gateway in a container (weir cannot run its burner there), and an image name
    // that the engine would parse as a flag.
    let refused = |arguments: &[&str], words: &str| {
        let output = wait(yard.start(engine.weir(&yard, arguments)));
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
        assert_eq!(output.status.code(), Some(2));
    };
    refused(&[&RUN[..], &["--images", "--control", "boxed=10%"]].concat(), "runs in a container");
    scenario(&yard, "[{ name: nginx, image: --privileged }]", "");
    refused(&RUN, "is not the name of an image");
    engine.await_nothing_left(&yard);
}

#[test]
fn a_lab_that_is_killed_or_interrupted_leaves_no_container() {
    let Some(engine) = Engine::start() else { return };
    let _host = the_host();
    let yard = Yard::new();
    driver(&yard);
    scenario(&yard, "[boxed]", "");
    for signal in [Signal::KILL, Signal::INT] {
        let slow = ["--images", "--set", "duration=3s", "--repeats", "2"];
        let lab = yard.start(engine.weir(&yard, &[&RUN[..], &slow].concat()));
        until("a running container", || {
            let running = engine.docker(&["ps", "--quiet", "--filter", "label=weir.run"]);
            !running.stdout.is_empty()
        });
        kill_process(Pid::from_child(&lab), signal).unwrap();
        wait(lab);
        engine.await_nothing_left(&yard);
    }
}

#[test]
fn a_gateway_that_dies_in_its_container_is_reported_with_its_log() {
    let Some(engine) = Engine::start() else { return };
    let _host = the_host();
    let yard = Yard::new();
    driver(&yard);
    let path = yard.path().join("boxed/nginx.conf");
    let wrong = fs::read_to_string(&path).unwrap() + "\nnonsense;\n";
    fs::write(&path, wrong).unwrap();
    scenario(&yard, "[boxed]", "");
    let died = |command: Command| {
        let result = json(&wait(yard.start(command)));
        let outcome = &cell(&result, "boxed")["outcome"];
        assert_eq!(outcome["cause"], "died", "{outcome}");
        assert!(
            outcome["log_tail"].as_str().unwrap().contains("unknown directive \"nonsense\""),
            "{outcome}"
        );
    };
    let run = || engine.weir(&yard, &[&RUN[..], &["--images"]].concat());
    died(run());

    // A `docker start` that keeps running after its container has exited.
    let slow = yard.path().join("slow");
    fs::create_dir(&slow).unwrap();
    let real = Path::new(ROOT).join("target/peers/dockerd/root/usr/bin/docker");
    let script = format!(
        "#!/bin/sh\n{} \"$@\"\ncode=$?\n[ \"$1\" != start ] || sleep 300\nexit $code\n",
        real.display()
    );
    fs::write(slow.join("docker"), script).unwrap();
    fs::set_permissions(slow.join("docker"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = run();
    let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap().to_owned();
    let all = [slow].into_iter().chain(std::env::split_paths(&path));
    command.env("PATH", std::env::join_paths(all).unwrap());
    died(command);
    engine.await_nothing_left(&yard);
}

#[test]
fn an_upstream_killed_in_its_container_returns_and_keeps_its_cpu_time() {
    let Some(engine) = Engine::start() else { return };
    let _host = the_host();
    let yard = Yard::new();
    driver(&yard);
    let faults =
        "faults:\n  - { at: 600ms, replica: 1, do: kill }\n  - { at: 1200ms, replica: 1, do: return }\n";
    scenario(&yard, "[nginx]", faults);
    let more = ["--images", "--set", "origin.driver=boxed", "--set", "duration=4s", "--set", "timeout=1s"];
    let result = json(&wait(yard.start(engine.weir(&yard, &[&RUN[..], &more].concat()))));
    let all = measurements(&result, "nginx");
    let [steady] = all.as_slice() else { panic!("one load: {all:?}") };
    let done: Vec<&str> =
        steady["faults"].as_array().unwrap().iter().map(|fault| fault["action"].as_str().unwrap()).collect();
    assert_eq!(done, ["kill", "return"]);
    // Requests fail only while the upstream is down.
    let whole = &steady["record"]["whole"];
    let of = |field: &str| whole[field].as_u64().unwrap();
    assert!(of("unexpected") > 0 && of("completed") > of("unexpected"), "{whole}");
    let usage = &steady["usage"]["origin"];
    assert!(usage["cpu_cores"].as_f64().unwrap() > 0.0, "{usage}");
    engine.await_nothing_left(&yard);
}
