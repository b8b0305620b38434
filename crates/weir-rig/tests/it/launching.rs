//! Launches processes, and causes every error that a launch can have.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use weir_rig::{Ready, Rig, RigError};

use crate::{Bench, PROBE, eventually, free_address, options};

/// A readiness check that waits until `address` responds to a GET with 200.
fn ready_on(address: SocketAddr) -> Ready {
    let credentials = Box::default();
    Ready::Http { address, host: "x".into(), path: "/ready".into(), status: 200, credentials }
}

#[test]
fn a_listener_is_ready_when_it_accepts_connections_and_closed_when_stopped() {
    let bench = Bench::new("listener");
    let address = free_address();
    let mut spec = bench.probe("listener", &["listen", &address.to_string()]);
    spec.listens = vec![address];
    spec.ready = Ready::Tcp(address);
    let mut running = bench.rig().launch(&spec).unwrap();
    assert!(running.failure().is_none());
    let part = running.part();
    assert_eq!(
        (part.name.as_str(), part.binary.as_str(), part.limited_by.as_str()),
        ("listener", PROBE, "none")
    );
    assert!(part.limits_applied);
    running.stop(Duration::from_secs(10));
    TcpListener::bind(address).unwrap();
    bench.close();
}

#[test]
fn a_crashed_part_is_no_failure_and_restarts() {
    for cgroups in [true, false] {
        let bench = Bench::with("crash", cgroups);
        let address = free_address();
        let mut spec = bench.probe("origin", &["listen", &address.to_string()]);
        spec.listens = vec![address];
        spec.ready = Ready::Tcp(address);
        let mut running = bench.rig().launch(&spec).unwrap();
        let first = running.pid();
        running.start_again(bench.rig()).unwrap();
        assert_eq!(running.pid(), first, "a running part is not restarted");
        for _ in 0..2 {
            let before = running.pid();
            running.crash();
            drop(TcpListener::bind(address).expect("the address is free"));
            assert!(running.failure().is_none());
            running.start_again(bench.rig()).unwrap();
            assert_ne!(running.pid(), before);
            assert!(TcpStream::connect(address).is_ok());
            assert!(running.failure().is_none());
        }
        running.crash();
        running.stop(Duration::from_secs(10));
        drop(TcpListener::bind(address).unwrap());
        bench.close();
    }
}

#[test]
fn a_stalled_part_stops_until_it_continues() {
    let bench = Bench::new("stall");
    let address = free_address();
    let mut spec = bench.probe("origin", &["listen", &address.to_string()]);
    spec.listens = vec![address];
    spec.ready = Ready::Tcp(address);
    let mut running = bench.rig().launch(&spec).unwrap();
    let stat = format!("/proc/{}/stat", running.pid());
    let stands_still = || {
        let text = std::fs::read_to_string(&stat).unwrap();
        text.rsplit_once(") ").unwrap().1.starts_with('T')
    };
    assert!(!stands_still());
    running.stall();
    eventually("the process is stopped", stands_still);
    assert!(TcpStream::connect(address).is_ok(), "the kernel still accepts connections");
    assert!(running.failure().is_none());
    running.go_on();
    eventually("the process continues", || !stands_still());
    // A process that SIGSTOP has paused can still be stopped.
    running.stall();
    running.stop(Duration::from_millis(1));
    drop(TcpListener::bind(address).unwrap());
    bench.close();
}

#[test]
fn a_taken_port_is_rejected_before_the_start() {
    let bench = Bench::new("taken");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let mut spec = bench.probe("gateway", &["listen", &address.to_string()]);
    spec.listens = vec![address];
    let error = bench.rig().launch(&spec).unwrap_err();
    assert_eq!(error.cause(), "port-taken");
    let own = std::process::id().to_string();
    assert!(error.to_string().contains(&address.to_string()) && error.remedy().contains(&own), "{error}");
    assert!(!spec.log.exists());
    bench.close();
}

#[test]
fn a_port_that_is_taken_after_the_check_is_reported() {
    let bench = Bench::new("late");
    let address = free_address();
    let sign = bench.rig().work_dir().join("taken");
    let mut spec = bench.probe("gateway", &["die-after", sign.to_str().unwrap()]);
    spec.listens = vec![address];
    // The thread below takes the part's port. Its listener never responds, so the readiness check does not succeed.
    spec.ready = ready_on(address);
    let log = spec.log.clone();
    let faster = std::thread::spawn(move || {
        // The rig checks the port before it creates the log, so take the port only once the log exists.
        eventually("the part starts", || log.exists());
        let listener = TcpListener::bind(address).unwrap();
        std::fs::write(sign, "").unwrap();
        listener
    });
    let error = bench.rig().launch(&spec).unwrap_err();
    assert_eq!(error.cause(), "port-taken", "{error}");
    assert!(error.to_string().contains(&address.to_string()), "{error}");
    drop(faster.join().unwrap());
    bench.close();
}

#[test]
fn a_missing_binary_error_has_install_instructions() {
    let bench = Bench::new("missing");
    let mut spec = bench.probe("gateway", &[]);
    spec.command = vec!["/nowhere/gateway".into()];
    let error = bench.rig().launch(&spec).unwrap_err();
    assert_eq!(error.cause(), "binary-missing");
    assert_eq!(error.to_string(), "gateway: program `/nowhere/gateway` not found");
    assert!(error.remedy().contains("make peers"), "{}", error.remedy());
    bench.close();
}

#[test]
fn a_file_that_is_no_program_cannot_be_started() {
    let bench = Bench::new("noprogram");
    let mut spec = bench.probe("gateway", &[]);
    spec.command = vec!["/proc/version".into()];
    assert_eq!(bench.rig().launch(&spec).unwrap_err().cause(), "launch");
    bench.close();
}

#[test]
fn an_early_exit_reports_its_status_and_the_log_tail() {
    let bench = Bench::new("early");
    let address = free_address();
    let mut spec = bench.probe("gateway", &["die", "bad line 7", "3"]);
    spec.listens = vec![address];
    let error = bench.rig().launch(&spec).unwrap_err();
    assert_eq!(error.cause(), "died");
    assert!(error.to_string().contains("exit status: 3"), "{error}");
    assert_eq!(error.log_tail(), "bad line 7");
    bench.close();
}

#[test]
fn a_later_exit_is_a_failure_with_the_signal() {
    let bench = Bench::new("late");
    let mut running = bench.rig().launch(&bench.probe("gateway", &["wait"])).unwrap();
    assert!(running.failure().is_none());
    let pid = rustix::process::Pid::from_raw(running.pid() as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::ABORT).unwrap();
    running.wait(crate::PATIENCE).unwrap().unwrap();
    let error = running.failure().unwrap();
    assert_eq!(error.cause(), "died");
    assert!(error.to_string().contains("SIGABRT"), "{error}");
    drop(running);
    bench.close();
}

#[test]
fn a_process_that_is_never_ready_is_killed() {
    let bench = Bench::new("never");
    let address = free_address();
    let mut spec = bench.probe("gateway", &["wait"]);
    spec.ready = ready_on(address);
    spec.ready_timeout = Duration::from_millis(50);
    let error = bench.rig().launch(&spec).unwrap_err();
    assert_eq!(error.cause(), "never-ready");
    assert!(error.to_string().contains("refused"), "{error}");
    bench.close();
}

#[test]
fn a_process_that_listens_on_a_wrong_address_is_reported_before_the_timeout() {
    for cgroups in [true, false] {
        let bench = Bench::with("elsewhere", cgroups);
        let (asked, other) = (free_address(), free_address());
        let mut spec = bench.probe("gateway", &["listen", &other.to_string()]);
        spec.listens = vec![asked];
        let error = bench.rig().launch(&spec).unwrap_err();
        assert_eq!(error.cause(), "never-ready");
        assert!(error.to_string().ends_with(&format!("(it listens on {other})")), "{error}");
        let RigError::NeverReady { waited, .. } = error else { panic!("{error:?}") };
        assert!(waited < spec.ready_timeout, "the error comes before the timeout");
        bench.close();
    }
}

#[test]
fn a_process_that_moves_to_the_background_is_reported_and_killed() {
    for cgroups in [true, false] {
        let bench = Bench::with("background", cgroups);
        let mut spec = bench.probe("gateway", &["away"]);
        spec.listens = vec![free_address()];
        let error = bench.rig().launch(&spec).unwrap_err();
        assert_eq!(error.cause(), "died");
        assert!(error.to_string().starts_with("gateway moved to the background"), "{error}");
        assert!(error.remedy().contains("foreground"), "{}", error.remedy());
        let RigError::Background { pids, .. } = error else { panic!("{error:?}") };
        assert_eq!(pids.len(), 1);
        eventually("the process is killed", || !crate::cleaning::alive(pids[0]));
        bench.close();
    }
}

#[test]
fn a_large_log_keeps_its_tail_and_releases_disk_space() {
    const MIB: u64 = 1 << 20;
    let bench = Bench::new("shouting");
    let spec = bench.probe("gateway", &["shout", &(64 * MIB).to_string()]);
    let running = bench.rig().launch(&spec).unwrap();
    eventually("the log is complete", || running.log_tail().ends_with("again\nthat was all"));
    let on_disk = || std::fs::metadata(&spec.log).unwrap().blocks() * 512;
    eventually("the disk space is released", || on_disk() < 4 * MIB);
    running.stop(Duration::ZERO);
    bench.close();
}

#[test]
fn a_full_disk_is_reported_instead_of_an_exit() {
    let bench = Bench::new("full");
    let address = free_address();
    // The first message is that of C libraries, the second that of Go.
    for words in ["write: No space left on device", "write wal: no space left on device"] {
        let mut spec = bench.probe("gateway", &["die", words, "1"]);
        spec.listens = vec![address];
        let error = bench.rig().launch(&spec).unwrap_err();
        assert_eq!(error.cause(), "disk-full");
        assert!(error.remedy().contains("TMPDIR"), "{}", error.remedy());
    }
    bench.close();
}

#[test]
fn rendering_onto_a_full_disk_names_the_file() {
    let bench = Bench::new("fullrender");
    let dir = bench.rig().work_dir().join("weir");
    std::fs::create_dir(&dir).unwrap();
    symlink("/dev/full", dir.join("weir.yaml")).unwrap();
    let drivers = weir_rig::Drivers::load(&[]).unwrap();
    let error = drivers.driver("weir").unwrap().render(&crate::gateways::binding(), &dir).unwrap_err();
    assert_eq!(error.cause(), "disk-full");
    assert!(error.to_string().contains("weir.yaml"), "{error}");
    bench.close();
}

#[test]
fn parts_with_the_same_name_cannot_share_a_group() {
    let bench = Bench::new("twins");
    let mut spec = bench.probe("twin", &["wait"]);
    // With a limit, `limits_applied` shows whether the part has a cgroup.
    spec.limits.cpus = Some(0.5);
    let first = bench.rig().launch(&spec).unwrap();
    let second = bench.rig().launch(&spec);
    match bench.rig().cgroups() {
        Ok(_) if first.part().limits_applied => assert_eq!(second.unwrap_err().cause(), "launch"),
        _ => drop(second.unwrap()),
    }
    drop(first);
    bench.rig().launch(&spec).unwrap().stop(Duration::ZERO);
    bench.close();
}

#[test]
fn a_second_run_on_the_host_is_rejected_with_the_holder() {
    let bench = Bench::new("first");
    let error = Rig::open_with(&options("second", bench.folder.path(), true)).unwrap_err();
    let reported = error.to_string();
    let database = bench.folder.path().join("weir.db");
    assert!(reported.contains("run first (pid "), "{reported}");
    assert!(reported.contains(&format!("database {})", database.display())), "{reported}");
    let RigError::HostBusy { occupant: Some(occupant), .. } = error else { panic!("{error:?}") };
    assert_eq!((occupant.pid, occupant.run_id.as_str()), (std::process::id(), "first"));
    assert!(occupant.since_unix_ms > 0);
    bench.close();
}
