//! Checks that the kernel enforces limits, and that samples show their effect.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use weir_rig::{CgroupVersion, Limits, ProcessSpec, Running, Sampler, usable_cpus};

use crate::{Bench, eventually, mono_ns};

const MIB: u64 = 1 << 20;

/// The cgroup folder of a process in the hierarchy of `controller`, read from `/proc/PID/cgroup`.
fn group_of(running: &Running, controller: &str) -> PathBuf {
    let text = fs::read_to_string(format!("/proc/{}/cgroup", running.pid())).unwrap();
    let path = text
        .lines()
        .map(|line| line.splitn(3, ':').collect::<Vec<_>>())
        .find(|line| {
            line[1].split(',').any(|name| name == controller) || line[0] == "0" && controller.is_empty()
        })
        .map(|line| line[2].trim_start_matches('/').to_owned())
        .unwrap();
    Path::new("/sys/fs/cgroup").join(controller).join(path)
}

fn number(path: PathBuf) -> u64 {
    fs::read_to_string(&path).unwrap().trim().parse().unwrap_or_else(|_| panic!("{}", path.display()))
}

/// Number of quota periods in which the kernel throttled the process; `None` if no cgroup limits it.
fn periods_throttled(running: &Running) -> Option<u64> {
    let controller = match running.part().limited_by.as_str() {
        "cgroup-v1" => "cpu",
        "cgroup-v2" => "",
        _ => return None,
    };
    let text = fs::read_to_string(group_of(running, controller).join("cpu.stat")).unwrap();
    text.lines().find_map(|line| line.strip_prefix("nr_throttled ")?.parse().ok())
}

#[test]
fn limits_apply_before_the_first_instruction() {
    let bench = Bench::new("limits");
    let mut spec = bench.probe("limited", &["wait"]);
    spec.limits = Limits { cpus: Some(0.25), memory_bytes: Some(64 * MIB) };
    let running = bench.rig().launch(&spec).unwrap();
    let part = running.part();
    assert_eq!((part.limit_cpus, part.limit_memory_bytes), (Some(0.25), Some(64 * MIB)));
    match bench.rig().cgroups() {
        Ok(CgroupVersion::V1) if part.limits_applied => {
            assert_eq!(part.limited_by, "cgroup-v1");
            let cpu = group_of(&running, "cpu");
            assert_eq!(number(cpu.join("cpu.cfs_quota_us")), 25_000);
            assert_eq!(number(cpu.join("cpu.cfs_period_us")), 100_000);
            assert_eq!(number(group_of(&running, "memory").join("memory.limit_in_bytes")), 64 * MIB);
            assert_eq!(number(group_of(&running, "cpuacct").join("cgroup.procs")), u64::from(running.pid()));
        }
        Ok(CgroupVersion::V2) if part.limits_applied => {
            assert_eq!(part.limited_by, "cgroup-v2");
            let group = group_of(&running, "");
            assert_eq!(fs::read_to_string(group.join("cpu.max")).unwrap().trim(), "25000 100000");
            assert_eq!(number(group.join("memory.max")), 64 * MIB);
            assert_eq!(number(group.join("cgroup.procs")), u64::from(running.pid()));
        }
        // This user cannot create cgroups.
        _ => assert_eq!((part.limits_applied, part.limited_by.as_str()), (false, "none")),
    }
    running.stop(Duration::ZERO);
    bench.close();
}

#[test]
fn urgent_parts_have_more_weight_than_others() {
    let bench = Bench::new("urgent");
    let check = |is_urgent, [shares, weight]: [u64; 2]| {
        let spec = ProcessSpec { is_urgent, ..bench.probe("part", &["wait"]) };
        let running = bench.rig().launch(&spec).unwrap();
        match weight_of(&bench, &running, "") {
            Some((CgroupVersion::V1, found)) => assert_eq!(found, shares),
            Some((CgroupVersion::V2, found)) => assert_eq!(found, weight),
            // This user cannot create cgroups.
            None => assert_eq!(running.part().limited_by, "none"),
        }
        running.stop(Duration::ZERO);
    };
    check(false, [1024, 100]);
    check(true, [88_761, 8668]);
    bench.close();
}

/// The CPU weight of the cgroup at `path`, a path relative to the part's cgroup; `None` without cgroups.
fn weight_of(bench: &Bench, running: &Running, path: &str) -> Option<(CgroupVersion, u64)> {
    let version = bench.rig().cgroups().ok()?;
    let (controller, name) = match version {
        CgroupVersion::V1 => ("cpu", "cpu.shares"),
        CgroupVersion::V2 => ("", "cpu.weight"),
    };
    Some((version, number(group_of(running, controller).join(path).join(name))))
}

#[test]
fn a_run_with_priority_has_more_weight_than_the_host() {
    let bench = Bench::new("first");
    let running = bench.rig().launch(&bench.probe("part", &["wait"])).unwrap();
    let of_run = || weight_of(&bench, &running, "..").map(|(_, weight)| weight);
    let before = of_run();
    bench.rig().put_first();
    assert!(matches!(
        (before, of_run()),
        (Some(1024), Some(88_761)) | (Some(100), Some(8668)) | (None, None)
    ));
    running.stop(Duration::ZERO);
    bench.close();
}

#[test]
fn without_groups_only_whole_cpus_are_limited_by_affinity() {
    let bench = Bench::with("affinity", false);
    let limited = |cpus, memory_bytes| {
        let mut spec = bench.probe("part", &["wait"]);
        spec.limits = Limits { cpus, memory_bytes };
        let running = bench.rig().launch(&spec).unwrap();
        let part = running.part();
        let allowed = fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
        let allowed = allowed.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        (part.limits_applied, part.limited_by, allowed.trim().to_owned())
    };
    let first = usable_cpus()[0].to_string();
    assert_eq!(limited(Some(1.0), None), (true, "affinity".into(), first.clone()));
    assert_eq!(limited(Some(1.0), Some(MIB)), (false, "affinity".into(), first));
    assert!(!limited(Some(0.5), None).0);
    assert!(!limited(None, Some(64 * MIB)).0);
    assert!(!limited(Some(4096.0), None).0);
    assert!(limited(None, None).0);
    bench.close();
}

#[test]
fn an_out_of_memory_kill_is_reported_instead_of_an_exit() {
    let bench = Bench::new("oom");
    let mut spec = bench.probe("gateway", &["eat", &(64 * MIB).to_string()]);
    spec.limits.memory_bytes = Some(16 * MIB);
    let mut running = bench.rig().launch(&spec).unwrap();
    if !running.part().limits_applied {
        eventually("without a limit, it allocates everything", || running.log_tail().contains("ate"));
        assert!(running.failure().is_none());
        return;
    }
    running.wait(crate::PATIENCE).unwrap().unwrap();
    let error = running.failure().unwrap();
    assert_eq!(error.cause(), "out-of-memory");
    assert!(error.to_string().contains("limit: 16MiB"), "{error}");
    drop(running);
    bench.close();
}

#[test]
fn samples_contain_the_usage_of_a_process() {
    for cgroups in [true, false] {
        let bench = Bench::with("samples", cgroups);
        let eater = bench.rig().launch(&bench.probe("eater", &["eat", &(32 * MIB).to_string()])).unwrap();
        eventually("the memory is allocated", || eater.log_tail().contains("ate"));
        let mut spec = bench.probe("burner", &["burn"]);
        spec.limits.cpus = Some(0.2);
        let burner = bench.rig().launch(&spec).unwrap();
        let sampler = Sampler::start(&[&eater, &burner]);
        let from = mono_ns();
        let before = periods_throttled(&burner);
        thread::sleep(Duration::from_secs(1));
        // On a busy host, a process can take a while to reach its quota.
        let is_held_back = || periods_throttled(&burner) >= before.map(|periods| periods + 3);
        eventually("the process is throttled", is_held_back);
        thread::sleep(Duration::from_millis(500));
        let to = mono_ns();
        let samples = sampler.finish();

        let eaten = samples.usage("eater", from, to).unwrap();
        let memory = eaten.memory_bytes_mean.unwrap();
        assert!((32 * MIB..64 * MIB).contains(&memory), "{eaten:?}");
        assert!(eaten.memory_bytes_peak.unwrap() >= memory, "{eaten:?}");
        assert_eq!((eaten.threads_max, eaten.pids_max), (Some(1), Some(1)), "{eaten:?}");
        assert!(eaten.open_files_max.unwrap() >= 3, "{eaten:?}");
        assert_eq!((eaten.throttled_s, eaten.periods), (None, None), "no quota, so no periods: {eaten:?}");
        let burnt = samples.usage("burner", from, to).unwrap();
        assert!(burnt.cpu_s.total() > 0.0, "{burnt:?}");
        assert!(burnt.cpu_s.total() >= eaten.cpu_s.total(), "{burnt:?} {eaten:?}");
        if burner.part().limits_applied {
            assert!(burnt.periods.unwrap() > 0 && burnt.periods_throttled.unwrap() > 0, "{burnt:?}");
            assert!(burnt.throttled_s.unwrap() > 0.0, "{burnt:?}");
            // The process has one thread, which either runs or is throttled. The kernel can count the first and the
            // last period late.
            let wall_s = (to - from) as f64 / 1e9;
            assert!(burnt.cpu_s.total() + burnt.throttled_s.unwrap() <= wall_s + 0.2, "{burnt:?}");
            // If the host pauses this machine, a process can exceed its quota; it gets less in the next periods.
            assert!(burnt.cpu_s.total() <= wall_s / 2.0, "{burnt:?}");
        }
        let host = samples.host(from, to).unwrap();
        for share in [host.steal, host.others, host.idle] {
            assert!((0.0..=1.0).contains(&share), "{host:?}");
        }
        let seconds = samples.seconds(from, to);
        assert_eq!(seconds.len() as u64, (to - from).div_ceil(1_000_000_000));
        assert!(seconds.iter().all(|second| second.cpu_cores.len() == 2), "{seconds:?}");
        drop((eater, burner));
        bench.close();
    }
}

#[test]
fn a_part_launched_after_the_sampler_is_sampled_from_its_launch() {
    for cgroups in [true, false] {
        let bench = Bench::with("joining", cgroups);
        let sampler = Sampler::start(&[]);
        let from = mono_ns();
        let burner = bench.rig().launch(&bench.probe("burner", &["burn"])).unwrap();
        sampler.join(&burner);
        thread::sleep(Duration::from_millis(300));
        let to = mono_ns();
        let samples = sampler.finish();
        burner.stop(Duration::ZERO);
        assert!(samples.usage("burner", from, to).unwrap().cpu_s.total() > 0.0, "cgroups: {cgroups}");
        assert!(samples.host(from, to).is_some(), "cgroups: {cgroups}");
        bench.close();
    }
}
