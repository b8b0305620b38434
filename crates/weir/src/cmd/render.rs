//! `weir render`: writes the configuration files and commands that a run would use for a gateway.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use weir_lab::pods::resources_of;
use weir_lab::scenario::Scenario;
use weir_lab::{Addresses, Overrides, Source, binding, secure_origin, service_binding};
use weir_results::Role;
use weir_rig::{
    Apply, Binary, BinaryFile, Binding, Certificates, Driver, Drivers, KubeApi, KubeService, PodBinding,
    ProcessSpec, Ready, RenderedService, RigError, Service,
};

use crate::cmd::k8s;
use crate::cmd::known::known;
use crate::cmd::output::{note, print};
use crate::failure::{Exit, Failure};

/// Arguments of `weir render`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Scenario: a built-in name or a file
    scenario: String,
    /// Gateway of the scenario, or any driver
    #[arg(long, value_name = "NAME")]
    gateway: String,
    /// Directory to write to
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Override a field of the scenario, like limits.data.cpus=0.5; may be repeated
    #[arg(long, value_name = "PATH=VALUE")]
    set: Vec<String>,
    /// Address that receives the load
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Address of the gateway's admin interface
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    admin: SocketAddr,
    /// Address of the upstream; additional replicas use the next ports
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9000")]
    origin: SocketAddr,
    /// Additional driver directory: one driver, or one directory per driver; may be repeated
    #[arg(long, value_name = "DIR")]
    drivers: Vec<PathBuf>,
    /// Print the manifest as JSON
    #[arg(long)]
    json: bool,
}

/// Writes the configuration files of the gateway, `commands.txt` and `manifest.json`.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    if args.out == Path::new("-") {
        let message = "--out -: standard output cannot hold several files";
        return Err(Failure::wrong_use(message, "give a directory with --out DIR"));
    }
    let drivers = Drivers::load(&args.drivers)?;
    let overrides =
        Overrides { set: args.set.clone(), gateways: vec![args.gateway.clone()], ..Overrides::default() };
    let checked = weir_lab::read(&Source::find(&args.scenario)?, &overrides, &known(&drivers))?;
    // If the scenario has several points (combinations of axes and cases), weir renders the first one. The manifest
    // names it.
    let Some(point) = checked.points.first() else { return Err(nothing(&args)) };
    let Some(gateway) = point.scenario.gateways.first() else { return Err(nothing(&args)) };
    if gateway.is_remote() {
        let message = format!("gateway `{}` is remote, so weir renders no files for it", gateway.name);
        return Err(Failure::wrong_use(message, "select another gateway with --gateway"));
    }
    let driver = drivers.driver(&gateway.driver)?;
    let binary = match &gateway.image {
        _ if driver.kubernetes().is_some() => Binary::default(),
        Some(_) => unlocated(driver, gateway.binary.as_deref()),
        None => binary(driver, gateway.binary.as_deref())?,
    };
    let listen = gateway.listen.unwrap_or(args.listen);
    let config = checked.configurations.get(&gateway.name).cloned();
    if let Some(config) = &config {
        // The address is fixed, as if the scenario set `listen`.
        driver.check_configuration(config, true)?;
    }
    let origins = origins(args.origin, point.scenario.origin.replica_count())?;
    // If the scenario has no seed, a run uses a random seed. Its tokens then differ from the rendered tokens.
    let seed = point.scenario.seed.unwrap_or_default();
    let addresses = Addresses { listen, admin: args.admin, origins: &origins };
    // Additional addresses and the addresses of services use the ports after the admin port.
    let mut ports = args.admin.port().saturating_add(1)..;
    let mut addressed = |names: &[String]| -> BTreeMap<String, SocketAddr> {
        let with_ports = names.iter().zip(&mut ports);
        with_ports.map(|(name, port)| (name.clone(), SocketAddr::new(args.admin.ip(), port))).collect()
    };
    let further = addressed(&driver.file().addresses);
    let services = services(&drivers, driver.name(), &point.scenario, &args.out, addressed)?;
    let outputs = services.iter().map(|(name, service)| (name.clone(), service.outputs.clone()));
    let upstream =
        services.iter().find(|(name, _)| Some(name.as_str()) == point.scenario.origin.service.name());
    let upstream = upstream.and_then(|(_, service)| service.origin.as_ref());
    let upstream_certificates = upstream.and_then(|origin| origin.certificates.as_ref());
    let bound = Binding {
        config,
        addresses: further,
        services: outputs.collect(),
        secure_origin: secure_origin(&point.scenario, upstream_certificates),
        pods: driver.kubernetes().map(|_| example_pods(&point.scenario)),
        ..binding(&point.scenario, gateway, binary, &addresses, seed)
    };
    let rendered = driver.render(&bound, &args.out)?;
    if driver.kubernetes().is_some() {
        let certificates = rendered.credentials.certificates.as_ref();
        let routes = driver.cluster_routes(&bound, certificates, &args.out)?;
        write(&args.out, "routes.yaml", &k8s::as_yaml(&routes.objects)?)?;
    }
    let certificates = rendered.credentials.certificates.as_ref().map(Certificates::paths);
    let certificates = certificates.iter().flatten().collect::<Vec<_>>();
    let manifest = json!({
        "scenario": point.scenario.name,
        "axes": point.axes,
        "gateway": gateway.name,
        "driver": driver.name(),
        "binary": bound.binary.path,
        "image": gateway.image,
        "version": bound.binary.version,
        "binary_sha256": bound.binary.sha256,
        "config": bound.config,
        "config_sha256": rendered.config_sha256,
        "files": rendered.files,
        "certificates": certificates,
        "services": services.iter().map(|(name, service)| json!({
            "service": name,
            "processes": service.processes.iter().map(process).collect::<Vec<_>>(),
            "outputs": service.outputs,
        })).collect::<Vec<_>>(),
        "processes": rendered.processes.iter().map(process).collect::<Vec<_>>(),
        "apply": driver.file().apply.as_ref().map(apply),
        "unequal": rendered.unequal,
    });
    let text = format!("{manifest:#}\n");
    write(&args.out, "manifest.json", &text)?;
    let of_services = services.iter().flat_map(|(_, service)| &service.processes);
    let all: Vec<&ProcessSpec> = of_services.chain(&rendered.processes).collect();
    write(&args.out, "commands.txt", &commands(&all))?;
    if args.json {
        print(text.trim_end());
    } else {
        for name in ["commands.txt", "manifest.json"] {
            print(args.out.join(name).display());
        }
        rendered.files.iter().for_each(|file| print(file.display()));
        certificates.iter().for_each(|file| print(file.display()));
    }
    Ok(Exit::Good)
}

/// Renders the service that acts as the upstream, and the services that the driver needs. Each gets a folder in
/// `out`. `addressed` returns addresses for a list of names.
fn services(
    drivers: &Drivers,
    driver: &str,
    scenario: &Scenario,
    out: &Path,
    mut addressed: impl FnMut(&[String]) -> BTreeMap<String, SocketAddr>,
) -> Result<Vec<(String, RenderedService)>, Failure> {
    let mut rendered = Vec::new();
    let upstream = scenario.origin.service.name();
    let mut wanted: Vec<&Service> =
        upstream.map(|name| drivers.service(name)).transpose()?.into_iter().collect();
    wanted.extend(drivers.needed_by(driver)?.into_iter().filter(|service| Some(service.name()) != upstream));
    for service in wanted {
        let file = service.file();
        let bare = |binary: &BinaryFile| {
            (binary.name.clone(), Binary { path: PathBuf::from(&binary.name), ..Binary::default() })
        };
        let binaries = service.locate().or_else(|error| match error {
            RigError::BinaryMissing { .. } => {
                note(format_args!("note: {error}; {}", error.remedy()));
                Ok(file.binaries.iter().map(bare).collect())
            }
            error => Err(error),
        })?;
        let addresses = addressed(&file.addresses);
        let role = if Some(service.name()) == upstream { Role::Origin } else { Role::Service };
        let binding = service_binding(scenario, addresses, binaries, role);
        rendered.push((service.name().to_owned(), service.render(&binding, &out.join(service.name()))?));
    }
    Ok(rendered)
}

fn nothing(args: &Args) -> Failure {
    Failure::wrong_use(format!("{}: no gateway to render", args.scenario), "select a gateway with --gateway")
}

/// The addresses of the servers of the upstream, with consecutive ports.
fn origins(first: SocketAddr, replicas: u32) -> Result<Vec<SocketAddr>, Failure> {
    let port = |place: u32| u16::try_from(u32::from(first.port()) + place).ok();
    let of = |place| port(place).map(|port| SocketAddr::new(first.ip(), port));
    (0..replicas).map(of).collect::<Option<_>>().ok_or_else(|| {
        let message = format!(
            "--origin {first}: the upstream needs {replicas} consecutive ports from this port, but the \
            highest port is 65535"
        );
        Failure::wrong_use(message, "use a lower port")
    })
}

/// Finds the program of the gateway. If it is missing, returns only its name, because the files are useful without
/// it.
fn binary(driver: &Driver, given: Option<&Path>) -> Result<Binary, Failure> {
    match driver.locate(given) {
        Ok(binary) => Ok(binary),
        Err(error @ RigError::BinaryMissing { .. }) => {
            note(format_args!("note: {error}; {}", error.remedy()));
            Ok(unlocated(driver, given))
        }
        Err(error) => Err(error.into()),
    }
}

/// Example values for templates of manifests, with the names of a run whose ID is `run`.
fn example_pods(scenario: &Scenario) -> PodBinding {
    PodBinding {
        namespace: "weir-run".into(),
        run: "run".into(),
        service: "weir-run-upstream".into(),
        port: 8080,
        resources: resources_of(scenario.limits_of(Role::Data)),
    }
}

/// A program of which only the name is known: it is in an image, or missing.
fn unlocated(driver: &Driver, given: Option<&Path>) -> Binary {
    let name = driver.file().binary.as_ref().map_or_else(String::new, |binary| binary.name.clone());
    Binary { path: given.map_or_else(|| name.into(), Path::to_owned), ..Binary::default() }
}

fn process(process: &ProcessSpec) -> Value {
    json!({
        "name": process.name,
        "role": process.role,
        "command": process.command,
        "env": process.env,
        "dir": process.dir,
        "limit_cpus": process.limits.cpus,
        "limit_memory_bytes": process.limits.memory_bytes,
        "listens": process.listens,
        "ready": ready(&process.ready),
        "ready_timeout_s": process.ready_timeout.as_secs_f64(),
    })
}

fn ready(ready: &Ready) -> String {
    match ready {
        Ready::None => "when it listens".into(),
        Ready::Tcp(address) => format!("when {address} accepts connections"),
        Ready::Http { address, path, status, .. } => {
            format!("when http://{address}{path} returns status {status}")
        }
    }
}

fn apply(apply: &Apply) -> String {
    match apply {
        Apply::Files { templates, signal: Some(signal), .. } => {
            format!("{} and SIG{signal}", templates.join(", "))
        }
        Apply::Files { templates, signal: None, .. } => {
            format!("{}, which the gateway watches", templates.join(", "))
        }
        Apply::Kubernetes { api: KubeApi::Service(KubeService { service }), template } => {
            format!("manifests from {template}, applied to {service}")
        }
        Apply::Kubernetes { api: KubeApi::Own(own), template } => {
            format!("manifests from {template}, applied to the gateway's address `{}`", own.on.0)
        }
        Apply::Nats { service, added, removed, .. } => format!("{added} and {removed} to {service}"),
        Apply::Xds {} => "xDS (not supported yet)".into(),
    }
}

/// The commands in the order in which they are started, written for a shell.
fn commands(processes: &[&ProcessSpec]) -> String {
    let mut text = String::new();
    for process in processes {
        let limit = |limit: Option<String>| limit.unwrap_or_else(|| "no limit".into());
        let cpus = limit(process.limits.cpus.map(|cpus| cpus.to_string()));
        let memory = limit(process.limits.memory_bytes.map(|bytes| format!("{bytes} bytes")));
        let env = process.env.iter().map(|(name, value)| format!("{name}={} ", quoted(value)));
        let command: Vec<String> = process.command.iter().map(|word| quoted(word)).collect();
        text += &format!(
            "# {} (CPUs: {cpus}, memory: {memory}), ready {}\n",
            process.name,
            ready(&process.ready)
        );
        text += &format!("{}{}\n", env.collect::<String>(), command.join(" "));
    }
    text
}

/// Quotes a word for a shell, if it needs quotes.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-:=,+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

fn write(dir: &Path, name: &str, text: &str) -> Result<(), Failure> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(|error| {
        let message = format!("{}: cannot write the file: {error}", path.display());
        Failure::environment(message, "use a writable folder with --out")
    })
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_are_quoted_if_a_shell_would_split_them() {
        assert_eq!(quoted("/opt/nginx-1.2/nginx"), "/opt/nginx-1.2/nginx");
        assert_eq!(quoted("two words"), "'two words'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
