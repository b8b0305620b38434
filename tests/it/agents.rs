//! Load from several agents: exact counts, one merged result, and a clear error when an agent is lost.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use serde_json::Value;

use crate::crash::is_there;
use crate::load::assert_balanced;
use crate::program::{Origin, finish, free_port, json, scenario, text, the_host, until, wait, weir};
use crate::run::{assert_reconciled, measurements};
use crate::yard::Yard;

/// The processes `weir COMMAND`: (process ID, words of the command line).
fn processes(command: &str) -> Vec<(Pid, Vec<String>)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let of = |entry: fs::DirEntry| {
        let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
        let words = String::from_utf8(fs::read(entry.path().join("cmdline")).ok()?).ok()?;
        let words: Vec<String> = words.split('\0').map(str::to_owned).collect();
        (words.get(1).is_some_and(|word| word == command)).then_some((pid, words))
    };
    processes.filter_map(of).collect()
}

/// The value of a flag among the words of a command line.
fn value<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let place = words.iter().position(|word| word == flag)?;
    words.get(place + 1).map(String::as_str)
}

/// The agents whose ticket is below `folder`: (process ID, name).
pub fn agents_of(folder: &Path) -> Vec<(Pid, String)> {
    let of = |(pid, words): (Pid, Vec<String>)| {
        let is_ours = Path::new(value(&words, "--ticket")?).starts_with(folder);
        is_ours.then(|| (pid, value(&words, "--name").unwrap_or_default().to_owned()))
    };
    let mut found: Vec<_> = processes("agent").into_iter().filter_map(of).collect();
    found.sort_by(|one, other| one.1.cmp(&other.1));
    found
}

/// The load generators of the agent `name` below `folder`.
fn generators_of(folder: &Path, name: &str) -> Vec<Pid> {
    let is_ours = |words: &[String]| {
        let spec = value(words, "--spec").map(Path::new);
        spec.is_some_and(|spec| spec.starts_with(folder) && spec.iter().any(|part| part == name))
    };
    processes("generate").into_iter().filter(|(_, words)| is_ours(words)).map(|(pid, _)| pid).collect()
}

/// Runs `weir load --on local:N` against a new origin. Returns (JSON, counters of the origin).
fn loaded(agents: u32, arguments: &[&str]) -> (Value, Value) {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::start(folder.path(), free_port(), &[]);
    let (url, on) = (format!("http://{}/x", origin.address), format!("local:{agents}"));
    let mut all = vec!["load", &url, "--json", "--on", &on];
    all.extend(arguments);
    let output = finish(weir(folder.path(), &all));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&output);
    assert_balanced(&result["requests"]);
    (result, origin.stats())
}

fn shards(result: &Value) -> &Vec<Value> {
    result["shards"].as_array().unwrap_or_else(|| panic!("no shards: {result}"))
}

#[test]
fn four_agents_together_send_the_exact_number_of_requests() {
    let _host = the_host();
    let (result, origin) = loaded(4, &["--requests", "4001", "--connections", "10"]);
    assert_eq!(result["requests"]["completed"], 4001, "{result}");
    assert_eq!(origin["requests"], 4001);
    let sent: Vec<u64> =
        shards(&result).iter().map(|shard| shard["requests"]["sent"].as_u64().unwrap()).collect();
    assert_eq!(sent, [1001, 1000, 1000, 1000]);
    let names: Vec<&str> = shards(&result).iter().map(|shard| shard["agent"].as_str().unwrap()).collect();
    assert_eq!(names, ["agent-1", "agent-2", "agent-3", "agent-4"]);
}

#[test]
fn several_agents_together_send_the_rate_of_one_open_load() {
    let _host = the_host();
    let (result, origin) = loaded(3, &["--rate", "900/s", "--duration", "1s", "--warmup", "200ms"]);
    let scheduled = result["requests"]["scheduled"].as_u64().unwrap();
    // 150 is five standard deviations of a Poisson count with mean 900.
    assert!(scheduled.abs_diff(900) < 150, "{result}");
    assert_eq!(result["requests"]["completed"], scheduled);
    assert!(origin["requests"].as_u64().unwrap() > scheduled, "no warm-up was sent");
    let of_shards: u64 =
        shards(&result).iter().map(|shard| shard["requests"]["sent"].as_u64().unwrap()).sum();
    assert_eq!(of_shards, scheduled);
}

#[test]
fn a_file_of_the_load_is_sent_to_agents() {
    let _host = the_host();
    let (yard, elsewhere) = (Yard::new(), tempfile::tempdir().unwrap());
    let origin = Origin::start(elsewhere.path(), free_port(), &[]);
    fs::write(yard.path().join("ids.txt"), "red\ngreen\n").unwrap();
    let url = format!("http://{}/{{pick:ids.txt}}/{{seq}}", origin.address);
    let output = yard.run(&["load", &url, "--on", "local:3", "-n", "300", "-c", "6", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(json(&output)["requests"]["completed"], 300);
    assert_eq!(origin.stats()["requests"], 300);
    yard.await_nothing_left();
}

#[test]
fn ctrl_c_ends_a_load_of_agents_with_a_partial_result() {
    let _host = the_host();
    let (yard, elsewhere) = (Yard::new(), tempfile::tempdir().unwrap());
    let origin = Origin::start(elsewhere.path(), free_port(), &[]);
    let url = format!("http://{}/x", origin.address);
    let shape = ["--rate", "300/s", "--duration", "60s", "--warmup", "0s"];
    let arguments = [&["load", &url, "--on", "local:3", "--json"][..], &shape].concat();
    let child = yard.start(yard.weir(&arguments));
    until("requests", || origin.stats()["requests"].as_u64() > Some(100));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let result = json(&output);
    assert_balanced(&result["requests"]);
    assert_eq!(shards(&result).len(), 3);
    assert_eq!(origin.stats()["requests"], result["requests"]["sent"]);
    yard.await_nothing_left();
}

/// Runs a scenario whose load comes from `place`, and calls `disturb` during its first load.
fn disturbed(place: &str, disturb: impl FnOnce(&Yard, &mut Child)) -> (Yard, Value) {
    let yard = Yard::new();
    let path = scenario(yard.path(), "[weir]", "");
    let calm = "thresholds={ disturbed_share: 1 }";
    // While an agent is paused, its requests become overdue. There are more connections than overdue requests, so no
    // request waits for a connection.
    let many = "loads.tail.connections=400";
    let set = ["--set", "duration=3s", "--set", "repeats=1", "--set", calm, "--set", many, "--on", place];
    let mut arguments = vec!["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--json"];
    arguments.extend(set);
    let mut child = yard.start(yard.weir(&arguments));
    until("a running load", || {
        assert!(child.try_wait().unwrap().is_none(), "the run ended early");
        is_there(&yard.tmp(), &["*weir", "agent-2", "*agent", "load-1", "gate"])
    });
    disturb(&yard, &mut child);
    let output = wait(child);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    yard.await_nothing_left();
    (yard, result)
}

/// Takes down every link of the network namespace of a process.
const LINKS_DOWN: &str = r#"
import ctypes, fcntl, os, socket, struct, sys
space = os.open(f"/proc/{sys.argv[1]}/ns/net", os.O_RDONLY)
assert ctypes.CDLL(None, use_errno=True).setns(space, 0) == 0, ctypes.get_errno()
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
    for _, name in socket.if_nameindex():
        if name != "lo":
            fcntl.ioctl(asked, 0x8914, struct.pack("16sH14x", name.encode(), 0))
"#;

#[test]
fn a_cell_that_loses_an_agent_is_re_measured_with_new_agents() {
    let _host = the_host();
    let by_signal = |pid: Pid, signal: Signal| kill_process(pid, signal).unwrap();
    let by_network = |pid: Pid| {
        let pid = pid.as_raw_nonzero().to_string();
        let taken_down = Command::new("python3").args(["-c", LINKS_DOWN, &pid]).status().unwrap();
        assert!(taken_down.success());
    };
    type Lose<'a> = &'a dyn Fn(Pid);
    let ways: [(&str, &str, Lose<'_>); 3] = [
        ("killed", "local:2", &|pid| by_signal(pid, Signal::KILL)),
        ("stopped", "local:2", &|pid| by_signal(pid, Signal::STOP)),
        ("partitioned", "netns:2", &by_network),
    ];
    for (way, place, lose) in ways {
        if place.starts_with("netns") && !geteuid().is_root() {
            continue;
        }
        let (_, result) = disturbed(place, |yard, _| {
            let agents = agents_of(yard.path());
            assert_eq!(agents.len(), 2, "{agents:?}");
            lose(agents[1].0);
        });
        let cells = result["cells"].as_array().unwrap();
        let attempts: Vec<u64> = cells.iter().map(|cell| cell["attempts"].as_u64().unwrap_or(1)).collect();
        assert_eq!(attempts.iter().filter(|attempts| **attempts == 2).count(), 1, "{way}: {attempts:?}");
        let measured = ["weir", "direct"].map(|gateway| measurements(&result, gateway).len());
        assert_eq!(measured, [2, 2], "{way}: a load is missing");
    }
}

#[test]
fn an_upstream_on_an_agent_is_counted_and_sampled() {
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(yard.path(), "[weir]", "");
    let arguments =
        ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--json", "--repeats", "1"];
    let output =
        yard.run(&[&arguments[..], &["--set", "origin.on=local:1", "--set", "topology.tls=true"]].concat());
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    for gateway in ["weir", "direct"] {
        let all = measurements(&result, gateway);
        assert_eq!(all.len(), 2, "{gateway}");
        let cores = |measurement: &&Value| measurement["usage"]["origin"]["cpu_cores"].as_f64().unwrap();
        // The open load may use less CPU time than a tick of the kernel.
        assert!(all.iter().any(|measurement| cores(measurement) > 0.0), "{all:?}");
        for measurement in all {
            assert_reconciled(measurement, gateway);
            let evidence = measurement["judgement"]["evidence"].to_string();
            assert!(evidence.contains("agent beside-origin-1 runs the upstream"), "{evidence}");
        }
    }
    yard.await_nothing_left();
}

/// Stops the load generators of agent-2 for 80 ms of every 100 ms, until the agent's folder is removed.
fn slow_down(folder: &Path) {
    while is_there(folder, &["*weir", "agent-2"]) {
        let generators = generators_of(folder, "agent-2");
        for signal in [Signal::STOP, Signal::CONT] {
            for pid in &generators {
                // The generator may have ended.
                let _ = kill_process(*pid, signal);
            }
            let part = if signal == Signal::STOP { 80 } else { 20 };
            std::thread::sleep(Duration::from_millis(part));
        }
    }
}

#[test]
fn a_slow_agent_makes_the_load_invalid_and_is_named() {
    let _host = the_host();
    let (_, result) = disturbed("local:2", |yard, _| {
        let folder = yard.tmp();
        std::thread::spawn(move || slow_down(&folder));
    });
    for measurement in ["weir", "direct"].map(|gateway| measurements(&result, gateway)).concat() {
        // A closed load has no schedule, so no agent sends late.
        if measurement["load"] != "tail" {
            continue;
        }
        let said = measurement["judgement"]["evidence"].to_string();
        // The agent sends late, or drops requests if all connections are busy after a pause.
        assert!(said.contains("agent agent-2 sent late") || said.contains("at agent agent-2"), "{said}");
        let reasons = measurement["judgement"]["verdicts"]["latency"].to_string();
        assert!(reasons.contains("generator-limited"), "{reasons}");
    }
}

#[test]
fn agents_in_namespaces_share_a_run() {
    if !geteuid().is_root() {
        return;
    }
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(yard.path(), "[weir, nginx]", "");
    let arguments = [
        "run",
        path.to_str().unwrap(),
        "--db",
        "weir.db",
        "--out",
        "out",
        "--json",
        "--on",
        "netns:2",
        "--repeats",
        "1",
    ];
    let output = yard.run(&arguments);
    assert!(matches!(output.status.code(), Some(0 | 1 | 4)), "{}", text(&output.stderr));
    let result = json(&output);
    assert_eq!(result["run"]["manifest"]["network"], "namespaces");
    let gateways = ["weir", "nginx", "direct"];
    let measured =
        gateways.map(|gateway| measurements(&result, gateway).into_iter().map(move |of| (gateway, of)));
    let measured: Vec<(&str, &Value)> = measured.into_iter().flatten().collect();
    assert_eq!(measured.len(), 6);
    for (gateway, measurement) in measured {
        assert_reconciled(measurement, gateway);
        let shards = measurement["record"]["shards"].as_array().unwrap();
        assert_eq!(shards.len(), 2, "{shards:?}");
        for name in ["agent-1", "agent-2"] {
            assert!(measurement["usage"][name]["cpu_cores"].as_f64().unwrap() > 0.0, "{name} is sampled");
        }
    }
    yard.await_nothing_left();
}

#[test]
fn a_killed_run_leaves_no_agent() {
    let _host = the_host();
    let yard = Yard::new();
    let path = scenario(yard.path(), "[weir]", "");
    let arguments = ["run", path.to_str().unwrap(), "--db", "weir.db", "--out", "out", "--on", "local:3"];
    let upstream = ["--set", "origin.on=local:1"];
    let mut child = yard.start(yard.weir(&[&arguments[..], &upstream].concat()));
    until("four agents", || agents_of(yard.path()).len() == 4);
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of all agents", || agents_of(yard.path()).is_empty());
    yard.await_nothing_left();
}

/// Starts `weir load --on agents:N`, and waits until the ticket exists. Returns (process, listen address).
fn waiting(yard: &Yard, origin: &Origin, agents: u32) -> (Child, String) {
    let (url, on) = (format!("http://{}/x", origin.address), format!("agents:{agents}"));
    let listen = format!("127.0.0.1:{}", free_port());
    let arguments = ["load", &url, "--on", &on, "--listen", &listen, "-n", "1000", "-c", "4", "--json"];
    let child = yard.start(yard.weir(&arguments));
    until("the ticket", || yard.path().join("weir.ticket").exists());
    (child, listen)
}

fn agent(yard: &Yard, join: &str, ticket: &str, name: &str) -> Child {
    let mut command: Command = yard.weir(&["agent", "--join", join, "--ticket", ticket, "--name", name]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn agents_join_only_with_the_ticket_of_the_run() {
    let _host = the_host();
    let (yard, elsewhere) = (Yard::new(), tempfile::tempdir().unwrap());
    let origin = Origin::start(elsewhere.path(), free_port(), &[]);
    let (run, join) = waiting(&yard, &origin, 2);
    // An agent with the ticket of another run cannot join.
    let other = Yard::new();
    let (mut other_run, _) = waiting(&other, &origin, 1);
    let stranger = agent(&yard, &join, other.path().join("weir.ticket").to_str().unwrap(), "stranger");
    let output = wait(stranger);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("error: ") && said.contains("help: "), "{said}");
    kill_process(Pid::from_child(&other_run), Signal::INT).unwrap();
    other_run.wait().unwrap();

    // Two machines may have the same name.
    let agents: Vec<Child> = (0..2).map(|_| agent(&yard, &join, "weir.ticket", "load")).collect();
    let output = wait(run);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let result = json(&output);
    let names: BTreeSet<&str> =
        shards(&result).iter().map(|shard| shard["agent"].as_str().unwrap()).collect();
    assert_eq!(names, BTreeSet::from(["load", "load-2"]));
    assert_eq!(origin.stats()["requests"], 1000);
    for agent in agents {
        let output = wait(agent);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
    yard.await_nothing_left();
}

#[test]
fn the_generator_of_a_stopped_agent_ends() {
    let _host = the_host();
    let (yard, elsewhere) = (Yard::new(), tempfile::tempdir().unwrap());
    let origin = Origin::start(elsewhere.path(), free_port(), &[]);
    let (url, listen) = (format!("http://{}/x", origin.address), format!("127.0.0.1:{}", free_port()));
    let shape = ["--rate", "100/s", "--duration", "60s", "--warmup", "0s"];
    let run = yard
        .start(yard.weir(&[&["load", &url, "--on", "agents:1", "--listen", &listen][..], &shape].concat()));
    until("the ticket", || yard.path().join("weir.ticket").exists());
    let mut agent = agent(&yard, &listen, "weir.ticket", "alone");
    until("requests", || origin.stats()["requests"].as_u64() > Some(20));
    kill_process(Pid::from_child(&agent), Signal::STOP).unwrap();
    let output = wait(run);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    until("the end of its generator", || generators_of(yard.path(), "load-1").is_empty());
    agent.kill().unwrap();
    agent.wait().unwrap();
    yard.await_nothing_left();
}

#[test]
fn an_agent_without_disk_ends_the_load_with_its_reason() {
    if !geteuid().is_root() {
        return;
    }
    let _host = the_host();
    let (yard, elsewhere) = (Yard::new(), tempfile::tempdir().unwrap());
    let origin = Origin::start(elsewhere.path(), free_port(), &[]);
    let (run, join) = waiting(&yard, &origin, 2);
    let whole = agent(&yard, &join, "weir.ticket", "whole");
    // A separate file system. It is full, but the agent can still create its folder there.
    let full = yard.path().join("full");
    fs::create_dir(&full).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=8k none {full} && head -c 8192 /dev/zero >{full}/fill; \
         exec {weir} agent --join {join} --ticket weir.ticket --name full",
        full = full.display(),
        weir = env!("CARGO_BIN_EXE_weir")
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script]).current_dir(yard.path());
    command.env("TMPDIR", &full).env("WEIR_STATE_DIR", yard.path().join("state"));
    let full = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = wait(run);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("agent full: ") && said.contains("No space left on device"), "{said}");
    for agent in [whole, full] {
        wait(agent);
    }
    yard.await_nothing_left();
}

#[test]
fn invalid_arguments_are_reported_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let check = |arguments: &[&str], code: i32, expected: &[&str]| {
        let output = finish(weir(folder.path(), arguments));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        for words in expected {
            assert!(said.contains(words), "{words}: {said}");
        }
    };
    check(&["load", "http://127.0.0.1:1/", "--on", "local:0"], 2, &["needs a number of agents", "netns:2"]);
    check(&["load", "http://127.0.0.1:1/", "--on", "netns:2"], 2, &["network namespaces", "use local:N"]);
    check(
        &["load", "http://127.0.0.1:1/", "--on", "local:4", "-c", "2"],
        2,
        &["--on: ", "at least 4 connections"],
    );
    fs::write(folder.path().join("t"), "{}").unwrap();
    check(&["agent", "--join", "127.0.0.1:1", "--ticket", "t"], 2, &["t: not a ticket", "unchanged"]);
    check(&["agent", "--join", "127.0.0.1:1", "--ticket", "none"], 2, &["none: No such file"]);
    let path = scenario(folder.path(), "[weir]", "");
    let path = path.to_str().unwrap();
    check(
        &["run", path, "--set", "origin.on=local:2", "--plan"],
        2,
        &["local:2: an upstream runs on exactly one agent"],
    );
    check(
        &["run", path, "--set", "origin.on=netns:1", "--plan"],
        2,
        &["netns:1: an upstream cannot run on an agent in a network namespace"],
    );
    check(
        &["run", path, "--set", "origin={ on: local:1, replicas: 2 }", "--plan"],
        2,
        &["`origin.on` and `origin.replicas` cannot be combined"],
    );
    check(&["run", path, "--on", "local:9", "--plan"], 2, &["4 connections cannot be shared by 9 agents"]);
    check(
        &["run", path, "--on", "local:2", "--set", "network=namespaces", "--plan"],
        2,
        &["do not reach gateways in network namespaces", "netns:N"],
    );
}
