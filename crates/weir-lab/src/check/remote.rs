//! Checks remote gateways.

use weir_document::Problem;
use weir_rig::REMOTE;

use super::problem::Problems;
use crate::agents::Place;
use crate::scenario::{Gateway, Origin, PrometheusSource, SamplerSource, Scenario};

/// Names of other parts of a cell. A remote gateway must not use them as its name.
const PARTS: [&str; 2] = ["generator", "origin"];

/// Checks the URL of each remote gateway, and that all of them have the same upstream.
pub(super) fn check_remote(scenario: &Scenario, found: &mut Problems) {
    for (place, gateway) in scenario.gateways.iter().enumerate() {
        let at = |field: &str| {
            let names = ["gateways", &place.to_string()].map(str::to_owned);
            let fields = field.split('.').filter(|name| !name.is_empty()).map(str::to_owned);
            names.into_iter().chain(fields).collect::<Vec<_>>()
        };
        let mut of_gateway = Fields::default();
        if gateway.is_remote() {
            check_gateway(gateway, &mut of_gateway);
        } else if let Some(field) = gateway.remote.given() {
            let message = format!("`{}` is not remote: weir starts it", gateway.name);
            of_gateway.add(field, message, format!("remove `{field}`, or use `driver: {REMOTE}`"));
        }
        let placed = |problem: Problem<&str>| {
            let path = at(problem.place);
            problem.at(path).into()
        };
        found.0.extend(of_gateway.0.into_iter().map(placed));
    }
    if scenario.gateways.iter().any(Gateway::is_remote) {
        check_upstream(scenario, found);
    }
}

/// Errors of one gateway, each with the invalid field of the gateway.
#[derive(Default)]
struct Fields(Vec<Problem<&'static str>>);

impl Fields {
    fn add(&mut self, field: &'static str, message: impl Into<String>, remedy: impl Into<String>) {
        self.0.push(Problem::new(message, remedy).at(field));
    }
}

fn check_gateway(gateway: &Gateway, found: &mut Fields) {
    let remote = &gateway.remote;
    let Some(url) = &remote.url else {
        let message = format!("the remote gateway `{}` has no `url`", gateway.name);
        return found.add("", message, "add a URL, like `url: https://gw.example`");
    };
    if PARTS.contains(&gateway.name.as_str()) {
        let message = format!("`{}` is a reserved name", gateway.name);
        found.add("", message, "choose another name");
    }
    let of_drivers = [
        ("binary", gateway.binary.is_some()),
        ("image", gateway.image.is_some()),
        ("config", gateway.config.is_some()),
        ("listen", gateway.listen.is_some()),
        ("set", !gateway.set.is_empty()),
        ("optional", gateway.optional),
    ];
    for (field, _) in of_drivers.into_iter().filter(|(_, is_given)| *is_given) {
        let message = format!("`{}` is remote: weir does not start it", gateway.name);
        found.add(field, message, format!("remove `{field}`"));
    }
    for (field, url) in [("url", Some(url)), ("direct", remote.direct.as_ref())] {
        if let Some(url) = url.filter(|url| !url.path.is_empty()) {
            found.add(field, format!("`{url}` contains a path"), "move the path to `topology.paths`");
        }
    }
    let is_secure = url.is_secure || remote.direct.as_ref().is_some_and(|direct| direct.is_secure);
    if remote.tls.is_some() && !is_secure {
        found.add("tls", format!("{url} does not use TLS"), "use https://, or remove `tls`");
    }
    if let Some(limits) = remote.limits {
        if let Some(cpus) = limits.cpus.filter(|cpus| !(*cpus > 0.0 && cpus.is_finite())) {
            let remedy = "write the CPU limit that the gateway has on its own host, in cores and above 0, like 2; \
                or remove `cpus`";
            found.add("limits.cpus", format!("`{cpus}` is out of range"), remedy);
        }
        if limits.memory.is_some_and(|memory| memory.0 == 0) {
            let remedy = "write the memory limit that the gateway has on its own host, above 0, like 512MiB; or \
                remove `memory`";
            found.add("limits.memory", "the memory limit is zero", remedy);
        }
    }
    let host = remote.host.as_deref();
    if let Some(host) = host.filter(|host| host.is_empty() || !host.bytes().all(|b| b.is_ascii_graphic())) {
        let remedy = "use a name like shop.example, or remove `host`";
        found.add("host", format!("`{host}` is not a valid value of the Host header"), remedy);
    }
    if let Some(prometheus) = &remote.prometheus {
        check_prometheus(prometheus, found);
    }
    if let Some(sampler) = &remote.sampler {
        check_sampler(sampler, found);
        if remote.prometheus.is_some() {
            let message = "`sampler` and `prometheus` cannot be combined";
            found.add("sampler", message, "remove one of the two");
        }
    }
    let mut remote = remote.clone();
    for (field, path) in remote.files_mut() {
        if let Err(error) = std::fs::File::open(&path) {
            let message = format!("cannot read {}: {error}", path.display());
            found.add(field, message, "correct the path; it is relative to the scenario's folder");
        }
    }
}

fn check_sampler(sampler: &SamplerSource, found: &mut Fields) {
    let SamplerSource { on, program, pid, cgroup } = sampler;
    if matches!(on, Place::Namespaces(_)) || on.agents() != 1 {
        let message = format!("{on}: the sampler must be one agent, on the host of the gateway");
        found.add("sampler.on", message, "use ssh:HOST, agents:1, or local:1 for the host where weir runs");
    }
    let given = [program.is_some(), pid.is_some(), cgroup.is_some()];
    if given.into_iter().filter(|is_given| *is_given).count() != 1 {
        let message = "a sampler needs exactly one of `program`, `pid` and `cgroup`";
        found.add("sampler", message, "name the processes of the gateway, like `program: nginx`");
    }
    if pid.is_some_and(|pid| pid <= 0) {
        found.add(
            "sampler.pid",
            "the process ID is not positive",
            "use the ID of the gateway's first process",
        );
    }
    if cgroup.as_ref().is_some_and(|path| !path.starts_with("/") || path.iter().any(|part| part == "..")) {
        let remedy = "use the path that /proc/PID/cgroup shows, like /system.slice/nginx.service";
        found.add(
            "sampler.cgroup",
            "the path of a control group must begin with / and must not contain `..`",
            remedy,
        );
    }
}

fn check_prometheus(source: &PrometheusSource, found: &mut Fields) {
    let is_blank =
        source.selector.as_deref().is_some_and(|selector| selector.trim_matches(['{', '}', ' ']).is_empty());
    if is_blank || (source.selector.is_none() && source.queries.cpu.is_none()) {
        let remedy = "add a `selector` like namespace=\"shop\",pod=~\"gw-.*\", or your own query as `queries: { cpu: .. }`";
        found.add(
            "prometheus",
            "`selector` is missing or empty, so weir cannot select the series of the gateway",
            remedy,
        );
    }
    match (&source.token_file, &source.user, &source.password_file) {
        (Some(_), Some(_), _) => {
            found.add(
                "prometheus.user",
                "`user` and `token_file` cannot be combined",
                "remove one of the two",
            );
        }
        (_, Some(_), None) => found.add("prometheus.user", "the user has no password", "add `password_file`"),
        (_, None, Some(_)) => {
            found.add("prometheus.password_file", "`password_file` requires `user`", "add `user`")
        }
        _ => {}
    }
}

/// Rejects remote gateways with different upstreams, because they share one direct baseline. Rejects `origin`, and
/// limits for gateway and upstream, because weir starts neither of them.
fn check_upstream(scenario: &Scenario, found: &mut Problems) {
    let gateways = &scenario.gateways;
    if let Some(place) = gateways.iter().position(|gateway| !gateway.is_remote()) {
        let name = &gateways[place].name;
        let message = format!("`{name}` is not remote, but other gateways of this scenario are remote");
        let remedy = "make two runs: gateways with different upstreams cannot share a direct baseline";
        return found.add(&["gateways", &place.to_string()], message, remedy);
    }
    let direct = |gateway: &Gateway| gateway.remote.direct.as_ref().map(|url| (url.is_secure, url.connect()));
    for place in (1..gateways.len()).filter(|place| direct(&gateways[*place]) != direct(&gateways[0])) {
        let message =
            format!("`{}` and `{}` have different `direct` URLs", gateways[0].name, gateways[place].name);
        let remedy =
            "use the same URL for both, or make two runs: the gateways of a run share one direct baseline";
        found.add(&["gateways", &place.to_string()], message, remedy);
    }
    if scenario.origin != Origin::default() {
        let message = "remote gateways do not use the origin of the scenario";
        found.add(
            &["origin"],
            message,
            "remove `origin`; for a direct baseline, set `direct` of each gateway to the URL of its upstream",
        );
    }
    let limits = &scenario.limits;
    let roles = [("data", limits.data), ("control", limits.control), ("origin", limits.origin)];
    for (role, _) in roles.into_iter().filter(|(_, limit)| limit.is_some()) {
        let message = "this limit has no effect: weir starts neither a remote gateway nor its upstream";
        let remedy =
            "remove this limit; to state the limits of a remote gateway, set `limits` of that gateway";
        found.add(&["limits", role], message, remedy);
    }
}
