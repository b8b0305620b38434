//! Launching, and each way in which it fails.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, symlink};
use std::time::Duration;

use weir_rig::{Ready, Rig, RigError};

use crate::{Bench, PROBE, eventually, free_address, options};

/// Ready when `address` answers a GET.
fn ready_on(address: SocketAddr) -> Ready {
    let credentials = Box::default();
    Ready::Http { address, host: "x".into(), path: "/ready".into(), status: 200, credentials }
}

#[test]
fn a_listener_is_ready_when_it_accepts_and_gone_when_stopped() {
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
fn a_part_that_crashed_is_no_failure_and_starts_again() {
    for cgroups in [true, false] {
        let bench = Bench::with("crash", cgroups);
        let address = free_address();
        let mut spec = bench.probe("origin", &["listen", &address.to_string()]);
        spec.listens = vec![address];
        spec.ready = Ready::Tcp(address);
        let mut running = bench.rig().launch(&spec).unwrap();
        let first = running.pid();
        running.start_again(bench.rig()).unwrap();
        assert_eq!(running.pid(), first, "one that runs is left alone");
        for _ in 0..2 {
            let before = running.pid();
            running.crash();
            drop(TcpListener::bind(address).expect("nobody listens any more"));
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
fn a_stalled_part_stands_still_until_it_goes_on() {
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
    eventually("it stands still", stands_still);
    assert!(TcpStream::connect(address).is_ok(), "the kernel lets clients in");
    assert!(running.failure().is_none());
    running.go_on();
    eventually("it goes on", || !stands_still());
    // One that stands still is ended all the same.
    running.stall();
    running.stop(Duration::from_millis(1));
    drop(TcpListener::bind(address).unwrap());
    bench.close();
}

#[test]
fn a_taken_port_is_refused_before_the_start() {
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
fn a_port_that_was_taken_after_the_look_is_told_too() {
    let bench = Bench::new("late");
    let address = free_address();
    let sign = bench.rig().work_dir().join("taken");
    let mut spec = bench.probe("gateway", &["die-after", sign.to_str().unwrap()]);
    spec.listens = vec![address];
    // Whoever is faster accepts, and answers nothing.
    spec.ready = ready_on(address);
    let log = spec.log.clone();
    let faster = std::thread::spawn(move || {
        // The log is made when the look is over.
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
fn a_missing_binary_says_how_to_get_it() {
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
fn what_is_no_program_cannot_be_started() {
    let bench = Bench::new("noprogram");
    let mut spec = bench.probe("gateway", &[]);
    spec.command = vec!["/proc/version".into()];
    assert_eq!(bench.rig().launch(&spec).unwrap_err().cause(), "launch");
    bench.close();
}

#[test]
fn an_early_death_tells_its_status_and_the_end_of_the_log() {
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
fn a_death_after_the_start_is_a_failure_and_names_the_signal() {
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
fn a_process_that_never_gets_ready_is_ended() {
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
fn a_process_that_has_settled_elsewhere_says_where_and_is_not_waited_for() {
    for cgroups in [true, false] {
        let bench = Bench::with("elsewhere", cgroups);
        let (asked, other) = (free_address(), free_address());
        let mut spec = bench.probe("gateway", &["listen", &other.to_string()]);
        spec.listens = vec![asked];
        let error = bench.rig().launch(&spec).unwrap_err();
        assert_eq!(error.cause(), "never-ready");
        assert!(error.to_string().ends_with(&format!("(it listens on {other})")), "{error}");
        let RigError::NeverReady { waited, .. } = error else { panic!("{error:?}") };
        assert!(waited < spec.ready_timeout, "it was given up before its time");
        bench.close();
    }
}

#[test]
fn a_process_that_goes_into_the_background_is_told_and_ended() {
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
        eventually("it is ended", || !crate::cleaning::alive(pids[0]));
        bench.close();
    }
}

#[test]
fn a_log_that_is_filled_keeps_its_end_and_little_of_the_disk() {
    const MIB: u64 = 1 << 20;
    let bench = Bench::new("shouting");
    let spec = bench.probe("gateway", &["shout", &(64 * MIB).to_string()]);
    let running = bench.rig().launch(&spec).unwrap();
    eventually("it has said all", || running.log_tail().ends_with("again\nthat was all"));
    let on_disk = || std::fs::metadata(&spec.log).unwrap().blocks() * 512;
    eventually("the disk has its space back", || on_disk() < 4 * MIB);
    running.stop(Duration::ZERO);
    bench.close();
}

#[test]
fn a_full_disk_is_told_from_a_death() {
    let bench = Bench::new("full");
    let address = free_address();
    // As C libraries and as Go say it.
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
fn parts_of_one_name_exclude_each_other_where_they_would_share_a_group() {
    let bench = Bench::new("twins");
    let mut spec = bench.probe("twin", &["wait"]);
    // With a limit the part says whether it has a group.
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
fn a_second_run_on_the_host_is_refused_with_who_holds_it() {
    let bench = Bench::new("first");
    let error = Rig::open_with(&options("second", bench.folder.path(), true)).unwrap_err();
    let told = error.to_string();
    let database = bench.folder.path().join("weir.db");
    assert!(told.contains("run first (pid "), "{told}");
    assert!(told.contains(&format!("database {})", database.display())), "{told}");
    let RigError::HostBusy { occupant: Some(occupant), .. } = error else { panic!("{error:?}") };
    assert_eq!((occupant.pid, occupant.run_id.as_str()), (std::process::id(), "first"));
    assert!(occupant.since_unix_ms > 0);
    bench.close();
}
