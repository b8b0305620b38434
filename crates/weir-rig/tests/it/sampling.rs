//! Checks samples of single processes: context switches, block I/O, sockets, memory.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::Duration;

use weir_results::Usage;
use weir_rig::{Ready, Running, Sampler};

use crate::{Bench, eventually, free_address, mono_ns};

const MIB: u64 = 1 << 20;

/// Reads `files`, and adds up the numbers in lines that begin with `name`.
fn reported(files: impl Iterator<Item = String>, name: &str) -> u64 {
    let numbers = files.map(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0)
    });
    numbers.sum()
}

/// Bytes that the process has written, as counted by the kernel.
fn written(running: &Running) -> u64 {
    reported([format!("/proc/{}/io", running.pid())].into_iter(), "write_bytes:")
}

/// Voluntary context switches of the first thread, which outlives the other threads.
fn switches(running: &Running) -> u64 {
    reported([format!("/proc/{}/status", running.pid())].into_iter(), "voluntary_ctxt_switches:")
}

/// Lets the process work once, and waits until it has finished.
fn work(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

#[test]
fn samples_of_a_span_contain_only_its_work() {
    for cgroups in [true, false] {
        let bench = Bench::with("sampling", cgroups);
        let address = free_address();
        let mut spec = bench.probe("worker", &["work", &address.to_string()]);
        spec.listens = vec![address];
        spec.ready = Ready::Tcp(address);
        let worker = bench.rig().launch(&spec).unwrap();
        // Readiness checks also connect, and each connection causes work. The process handles connections in order, so
        // after this call the earlier work is complete.
        work(address);
        let sampler = Sampler::start(&[&worker]);
        let before = (written(&worker), switches(&worker));
        let from = mono_ns();
        for _ in 0..8 {
            work(address);
        }
        let to = mono_ns();
        let (pages, waits) = (written(&worker) - before.0, switches(&worker) - before.1);
        let samples = sampler.finish();
        let end = mono_ns();
        let Usage { block_written_bytes, switches_voluntary, sockets_max, .. } =
            samples.usage("worker", from, to).unwrap();
        // All writes were inside the span, so interpolation at its borders can only lower the result.
        let block = block_written_bytes.unwrap();
        assert!(block <= pages && (block > 0 || pages == 0), "{block} of {pages}");
        let voluntary = switches_voluntary.unwrap();
        assert!(voluntary > 0, "threads waited, and the first waited {waits} times for them");
        assert!(sockets_max.is_none_or(|sockets| (1..=2).contains(&sockets)), "{sockets_max:?}");
        let usage = samples.host_usage(from, to).unwrap();
        assert!(usage.core_busy_shares.iter().all(|share| (0.0..=1.0).contains(share)), "{usage:?}");
        assert!(usage.retransmitted_segments.is_some());
        assert_eq!(samples.host_usage(from, end), None, "after the last sample");
        drop(worker);
        bench.close();
    }
}

#[test]
fn file_pages_do_not_count_as_memory() {
    let bench = Bench::new("cached");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("read-often");
    let arguments = ["cache", file.to_str().unwrap(), &(32 * MIB).to_string()];
    let reader = bench.rig().launch(&bench.probe("reader", &arguments)).unwrap();
    eventually("the file is read", || reader.log_tail().contains("cached"));
    let sampler = Sampler::start(&[&reader]);
    let from = mono_ns();
    thread::sleep(Duration::from_millis(300));
    let to = mono_ns();
    let usage = sampler.finish().usage("reader", from, to).unwrap();
    assert!((1..16 * MIB).contains(&usage.memory_bytes_peak.unwrap()), "{usage:?}");
    drop(reader);
    bench.close();
}

/// A shell that counts for some seconds under the name `weir-neighbour`, and then exits.
const COUNTS: &str = "i=0; while [ $i -lt 30000000 ]; do i=$((i+1)); done";

/// CPU time that the process has used, in ticks.
fn ticks(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    number(11) + number(12)
}

#[test]
fn a_busy_neighbour_is_named_and_processes_of_the_rig_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let shell = folder.path().join("weir-neighbour");
    std::os::unix::fs::symlink("/bin/sh", &shell).unwrap();
    // `sh` starts the neighbour and exits at once, so that the neighbour is not a descendant of this process.
    let start = format!("{} -c '{COUNTS}' >/dev/null 2>&1 & echo $!", shell.display());
    let between = Command::new("sh").args(["-c", &start]).output().unwrap();
    let neighbour: u32 = String::from_utf8(between.stdout).unwrap().trim().parse().unwrap();
    let mut own = Command::new(&shell).args(["-c", COUNTS]).spawn().unwrap();
    let sampler = Sampler::start(&[]);
    let (from, before) = (mono_ns(), [ticks(neighbour), ticks(own.id())]);
    eventually("both have used 20 ticks", || {
        ticks(neighbour) >= before[0] + 20 && ticks(own.id()) >= before[1] + 20
    });
    let to = mono_ns();
    let samples = sampler.finish();
    let neighbours = samples.neighbours(from, to);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(neighbour as i32).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    own.kill().unwrap();
    own.wait().unwrap();
    let found = neighbours.iter().find(|process| process.pid == neighbour).expect("the neighbour is named");
    assert!(found.name == "weir-neighbour" && found.cores > 0.0, "{found:?}");
    assert!(neighbours.is_sorted_by(|one, next| one.cores >= next.cores), "{neighbours:?}");
    let of_the_rig = [own.id(), std::process::id()];
    assert!(neighbours.iter().all(|process| !of_the_rig.contains(&process.pid)), "{neighbours:?}");
    assert_eq!(samples.host_usage(from, to).unwrap().busiest, neighbours[..3.min(neighbours.len())]);
}
