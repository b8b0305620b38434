//! Helpers for tests of gateways that weir does not start: a real Prometheus, real gateways, and an exporter of the
//! metrics that a kubelet would report.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use serde_json::Value;

use crate::program::{free_port, get, text, until};

/// The path of a peer program.
pub fn peer(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/peers/bin").join(name);
    assert!(path.exists(), "{} is missing; `make peers` fetches it", path.display());
    path
}

/// A program that is killed when dropped.
pub struct Started {
    child: Child,
    /// Listen address.
    pub address: SocketAddr,
}

impl Started {
    fn new(mut command: Command, address: SocketAddr) -> Self {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        until("the program listens", || {
            if let Some(status) = child.try_wait().unwrap() {
                let mut said = Vec::new();
                std::io::copy(child.stderr.as_mut().unwrap(), &mut said).unwrap();
                panic!("{command:?} ended with {status}: {}", text(&said));
            }
            TcpStream::connect(address).is_ok()
        });
        // An unread pipe would fill up and block the program.
        let errors = child.stderr.take().unwrap();
        thread::spawn(move || std::io::copy(&mut BufReader::new(errors), &mut std::io::sink()));
        Self { child, address }
    }

    /// Process ID.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Caddy in front of `origin`. Returns the program and the address of its metrics.
pub fn caddy(folder: &Path, origin: SocketAddr) -> (Started, SocketAddr) {
    let (listen, admin) = (loopback(free_port()), loopback(free_port()));
    let config = folder.join("caddy.json");
    let text = serde_json::json!({
        "admin": { "listen": admin.to_string() },
        "logging": { "logs": { "default": { "level": "ERROR" } } },
        "apps": { "http": { "servers": { "data": {
            "listen": [listen.to_string()],
            "automatic_https": { "disable": true },
            "routes": [{ "handle": [
                { "handler": "reverse_proxy", "upstreams": [{ "dial": origin.to_string() }] }
            ] }]
        } } } }
    });
    std::fs::write(&config, text.to_string()).unwrap();
    let mut command = Command::new(peer("caddy"));
    command.args(["run", "--config"]).arg(config);
    for variable in ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME"] {
        command.env(variable, folder);
    }
    let caddy = Started::new(command, listen);
    until("caddy has metrics", || TcpStream::connect(admin).is_ok());
    (caddy, admin)
}

/// weir-gateway in front of `origin`. Returns the program and the address of its metrics.
pub fn weir_gateway(folder: &Path, origin: SocketAddr) -> (Started, SocketAddr) {
    gateway_with(folder, origin, "")
}

/// Like [`weir_gateway`], with a second listener for TLS.
pub fn weir_gateway_with_tls(folder: &Path, origin: SocketAddr) -> (Started, SocketAddr) {
    let own = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    std::fs::write(folder.join("own.pem"), own.cert.pem()).unwrap();
    std::fs::write(folder.join("own.key"), own.signing_key.serialize_pem()).unwrap();
    let tls = loopback(free_port());
    let listener = format!(", {{ address: '{tls}', tls: {{ certificate: own.pem, key: own.key }} }}");
    gateway_with(folder, origin, &listener)
}

fn gateway_with(folder: &Path, origin: SocketAddr, more: &str) -> (Started, SocketAddr) {
    let (listen, admin) = (loopback(free_port()), loopback(free_port()));
    let config = folder.join("gateway.yaml");
    let text = format!(
        "listeners: [{{ address: '{listen}' }}{more}]\nroutes: [{{ path: /, backend: origin }}]\n\
         backends: {{ origin: {{ endpoints: ['{origin}'] }} }}\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new(Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("weir-gateway"));
    command.arg("--config").arg(config).args(["--admin", &admin.to_string()]);
    (Started::new(command, listen), admin)
}

/// A Prometheus that scrapes itself and `targets` five times a second. Each target is (job, address).
pub fn prometheus(folder: &Path, targets: &[(&str, SocketAddr)]) -> Started {
    scraping(launch(&peer("prometheus"), folder, targets, &[], &[]), targets)
}

/// A Prometheus that also receives remote writes, and evaluates `rules` every second.
pub fn receiver(folder: &Path, targets: &[(&str, SocketAddr)], rules: &[PathBuf]) -> Started {
    let flags = ["--web.enable-remote-write-receiver", "--enable-feature=native-histograms"];
    scraping(launch(&peer("prometheus"), folder, targets, rules, &flags), targets)
}

/// A Prometheus 3 that receives remote writes up to version 2.0, and OTLP below `/api/v1/otlp`.
pub fn receiver_3(folder: &Path) -> Started {
    let folder = folder.join("prometheus-3");
    std::fs::create_dir(&folder).unwrap();
    let flags = ["--web.enable-remote-write-receiver", "--web.enable-otlp-receiver"];
    scraping(launch(&peer("prometheus-3"), &folder, &[], &[], &flags), &[])
}

/// A Prometheus that receives remote writes only from the user `weir` with the password `a`.
pub fn receiver_with_password(folder: &Path) -> Started {
    let web = folder.join("web.yml");
    // The password's bcrypt hash.
    let users = "basic_auth_users: { weir: $2a$06$m0CrhHm10qJ3lXRY.5zDGO3rS2KdeeWLuGmsfGlMfOxih58VYVfxe }\n";
    std::fs::write(&web, users).unwrap();
    let web = format!("--web.config.file={}", web.display());
    let flags = ["--web.enable-remote-write-receiver", "--enable-feature=native-histograms", &web];
    let prometheus = launch(&peer("prometheus"), folder, &[], &[], &flags);
    until("Prometheus", || get(prometheus.address, "/-/ready").contains("Unauthorized"));
    prometheus
}

/// Waits until Prometheus has scraped itself and `targets` three times. Two scrapes are needed to derive the interval.
fn scraping(prometheus: Started, targets: &[(&str, SocketAddr)]) -> Started {
    for job in targets.iter().map(|(job, _)| *job).chain(["prometheus"]) {
        let query = format!("/api/v1/query?query=count_over_time(up%7Bjob=%22{job}%22%7D%5B1m%5D)");
        until(&format!("Prometheus scrapes {job}"), || {
            let answer: Value = serde_json::from_str(&get(prometheus.address, &query)).unwrap_or_default();
            let count = answer.pointer("/data/result/0/value/1").and_then(Value::as_str);
            count.is_some_and(|count| count.parse::<u32>().unwrap() >= 3)
        });
    }
    prometheus
}

fn launch(
    program: &Path,
    folder: &Path,
    targets: &[(&str, SocketAddr)],
    rules: &[PathBuf],
    flags: &[&str],
) -> Started {
    let address = loopback(free_port());
    let mut config = String::from(
        "global: { scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 1s }\nrule_files:\n",
    );
    rules.iter().for_each(|file| config += &format!("  - {}\n", file.display()));
    config += "scrape_configs:\n";
    for (job, target) in targets.iter().chain([&("prometheus", address)]) {
        config += &format!("  - {{ job_name: {job}, static_configs: [{{ targets: ['{target}'] }}] }}\n");
    }
    let file = folder.join("prometheus.yml");
    std::fs::write(&file, config).unwrap();
    let mut command = Command::new(program);
    command
        .args(flags)
        .arg(format!("--config.file={}", file.display()))
        .arg(format!("--storage.tsdb.path={}", folder.join("prometheus").display()))
        .arg(format!("--web.listen-address={address}"))
        .arg("--log.level=error");
    Started::new(command, address)
}

/// Exports cAdvisor's container metrics for a process, with CPU time from the kernel's accounting of its threads.
pub struct Exporter {
    /// Scrape address.
    pub address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Exports the process `pid` as the container `gateway` of the pod `gw-1` in the namespace `shop`.
    pub fn start(pid: u32) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    break;
                }
                let _ = stream.and_then(|stream| answer(stream, &page(pid)));
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn answer(stream: TcpStream, page: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(&stream);
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    write!(
        &stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{page}",
        page.len()
    )
}

/// A page with the series of the container and of its pod. CPU time and memory are the same in both.
fn page(pid: u32) -> String {
    let cpu_s = cpu_ns(pid) as f64 / 1e9;
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    let resident = pages * rustix::param::page_size() as u64;
    let mut text = String::new();
    for (container, quota) in [("gateway", true), ("", false)] {
        let labels = format!("namespace=\"shop\",pod=\"gw-1\",container=\"{container}\"");
        text += &format!("container_cpu_usage_seconds_total{{{labels}}} {cpu_s}\n");
        text += &format!("container_memory_working_set_bytes{{{labels}}} {resident}\n");
        if quota {
            text += &format!("container_spec_cpu_quota{{{labels}}} 400000\n");
            text += &format!("container_spec_cpu_period{{{labels}}} 100000\n");
        }
    }
    text
}

/// CPU time of the live threads of a process. Threads that have ended are not included.
pub fn cpu_ns(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let account = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("schedstat")).ok();
    let ran = |text: String| text.split(' ').next()?.parse::<u64>().ok();
    tasks.filter_map(account).filter_map(ran).sum()
}

fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}
