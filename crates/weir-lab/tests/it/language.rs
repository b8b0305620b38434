//! The scenario language, overrides and axes.

use std::time::Duration;

use serde_json::json;
use weir_document::{AskedRate, Levels, Rate, Time};
use weir_engine::{LoadSpec, ModelSpec, RequestSpec, StepSpec};
use weir_lab::scenario::{CertificateScope, Scenario};
use weir_lab::{Checked, Overrides, Source, built_in_names, plan};
use weir_results::ArrivalModel;

use crate::{EXAMPLE, known, read, read_with, run_of};

fn scenario(text: &str, overrides: &Overrides) -> Scenario {
    read_with(text, overrides).unwrap().scenario
}

fn cpus(checked: &Checked) -> Vec<Option<f64>> {
    checked.points.iter().map(|point| point.scenario.limits.data.and_then(|limit| limit.cpus)).collect()
}

#[test]
fn the_example_of_the_design_is_valid() {
    let Checked { scenario, points, .. } = read(EXAMPLE).unwrap();
    assert_eq!(scenario.gateways.len(), 4);
    assert_eq!(scenario.loads.names().collect::<Vec<_>>(), ["full", "tail"]);
    assert_eq!(scenario.loads.named("full").unwrap().connections, Levels::Constant(10));
    assert_eq!(scenario.loads.named("tail").unwrap().model, ArrivalModel::Open);
    assert_eq!(scenario.duration.0, Duration::from_secs(60));
    assert_eq!(scenario.limits.data.unwrap().memory.unwrap().0, 128 << 20);
    assert_eq!(scenario.objective.unwrap().objective().latency_ns["p99"], 20_000_000);
    assert_eq!(points.len(), 2);
    assert_eq!(points[0].axes["limits.data.cpus"], json!(0.25));
    assert_eq!(points[0].scenario.limits.data.unwrap().cpus, Some(0.25));
}

#[test]
fn built_in_scenarios_are_valid() {
    assert_eq!(
        built_in_names(),
        [
            "added-latency",
            "capacity",
            "change-under-load",
            "connection-storm",
            "failover",
            "headroom",
            "headroom-ramp",
            "headroom-registered",
            "ingress-sizing",
            "kubernetes-api",
            "many-domains",
            "quickstart",
            "side-by-side",
            "slow-clients"
        ]
    );
    for name in built_in_names() {
        weir_lab::read(&Source::find(name).unwrap(), &Overrides::default(), &known()).unwrap();
    }
}

#[test]
fn a_stored_scenario_is_equal_after_reading() {
    let once = read(EXAMPLE).unwrap();
    assert_eq!(weir_lab::read_again(&run_of(&once, 1), None, &known()).unwrap(), once);
}

#[test]
fn json_and_yaml_are_equivalent() {
    let yaml = read(EXAMPLE).unwrap();
    let json: serde_json::Value = weir_document::read("side.yaml", EXAMPLE).unwrap();
    assert_eq!(read(&json.to_string()).unwrap(), yaml);
}

#[test]
fn axes_form_a_cross_product_with_cases() {
    let text = "name: x\ngateways: [weir]\nloads: { full: { model: closed } }\n\
        vary: { limits.data.cpus: [0.25, 0.5, 1], loads.full.connections: [1, 10] }\n\
        cases: [{ topology: { domains: 1 } }, { topology.domains: 10, origin: { body: 1KiB } }]\n";
    let checked = read(text).unwrap();
    assert_eq!(checked.points.len(), 12);
    let last = checked.points.last().unwrap();
    assert_eq!(
        serde_json::to_value(&last.axes).unwrap(),
        json!({"limits.data.cpus": 1, "loads.full.connections": 10, "origin.body": "1KiB", "topology.domains": 10})
    );
    assert_eq!(last.scenario.topology.domains, 10);
    assert_eq!(last.scenario.loads.named("full").unwrap().connections, Levels::Constant(10));
    assert_eq!(cpus(&checked)[..2], [Some(0.25), Some(0.25)]);
}

#[test]
fn fitted_limits_fit_the_host_and_stay_in_the_run() {
    let text =
        "name: x\ngateways: [weir]\nloads: { full: { model: closed } }\nvary: { limits.data.cpus: fitted }\n";
    let checked = read(text).unwrap();
    assert_eq!(cpus(&checked), [0.25, 0.5, 0.75, 1.0].map(Some));
    let larger = weir_lab::Known { cpus: 12, ..known() };
    let of = |known: &weir_lab::Known| {
        cpus(&weir_lab::read(&crate::source(text), &Overrides::default(), known).unwrap())
    };
    assert_eq!(of(&larger), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(Some));
    // A run that is resumed on a larger host keeps the limits that fitted the first host.
    let run = run_of(&checked, 1);
    assert_eq!(run.scenario["vary"], json!({"limits.data.cpus": [0.25, 0.5, 0.75, 1]}));
    assert_eq!(weir_lab::read_again(&run, None, &larger).unwrap(), checked);
}

#[test]
fn ingress_sizing_combines_limits_and_delays() {
    let checked =
        weir_lab::read(&Source::find("ingress-sizing").unwrap(), &Overrides::default(), &known()).unwrap();
    let names: Vec<_> = checked.scenario.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
    assert_eq!(names, ["weir", "envoy", "nginx", "haproxy"]);
    let users = checked.scenario.loads.iter().filter(|(_, load)| load.model == ArrivalModel::Closed);
    let users: Vec<u32> = users.map(|(_, load)| load.connections.greatest()).collect();
    assert_eq!(users, [4, 8, 12, 16]);
    assert_eq!(checked.scenario.loads.iter().filter(|(_, load)| load.model == ArrivalModel::Open).count(), 1);
    assert_eq!(checked.scenario.origin.replicas, Some(3));
    assert_eq!(cpus(&checked), [0.25, 0.5, 0.75, 1.0].map(Some));
}

#[test]
fn many_domains_measures_both_forms_at_doubled_limits() {
    let of = |overrides: &Overrides| {
        weir_lab::read(&Source::find("many-domains").unwrap(), overrides, &known()).unwrap()
    };
    let whole = of(&Overrides::default());
    let form = |point: &weir_lab::Point| {
        let topology = &point.scenario.topology;
        (topology.domains, topology.paths().len(), point.scenario.limits.data.unwrap().cpus.unwrap())
    };
    let (one, many) = (|cpus| (1, 50, cpus), |cpus| (1000, 100, cpus));
    let expected = [one(0.25), one(0.5), one(1.0), many(0.25), many(0.5), many(1.0)];
    assert_eq!(whole.points.iter().map(form).collect::<Vec<_>>(), expected);
    let secured = |point: &weir_lab::Point| {
        point.scenario.topology.tls && point.scenario.topology.certificates == CertificateScope::Each
    };
    assert!(whole.points.iter().all(secured) && whole.scenario.cold_start);
    let quick = of(&Overrides { quick: true, ..Overrides::default() });
    let domains =
        |checked: &Checked| checked.points.iter().map(|point| point.scenario.topology.domains).max();
    assert_eq!((domains(&quick), quick.points.len()), (Some(100), whole.points.len()));
}

#[test]
fn headroom_registered_has_registrations_in_its_steady_load() {
    let of = |quick: bool| {
        let overrides = Overrides { quick, ..Overrides::default() };
        weir_lab::read(&Source::find("headroom-registered").unwrap(), &overrides, &known()).unwrap()
    };
    for (checked, domains) in [(of(false), [1, 100_000]), (of(true), [1, 100])] {
        let found: Vec<u32> = checked.points.iter().map(|point| point.scenario.topology.domains).collect();
        assert_eq!(found, domains);
        for scenario in checked.points.iter().map(|point| &point.scenario) {
            let names: Vec<&str> = scenario.gateways.iter().map(|gateway| gateway.name.as_str()).collect();
            assert_eq!(names, ["gorouter", "weir"]);
            let every = scenario.gateways[0].set.named("every").unwrap().as_str().unwrap();
            let every: Time = every.parse().unwrap();
            let length = |name: &str| {
                let load = scenario.loads.named(name).unwrap();
                load.duration.unwrap().0 * load.connections.steps().len().max(1) as u32
            };
            // The load must last at least two registration intervals plus 1 s.
            assert!(length("steady") >= 2 * every.0 + Duration::from_secs(1), "{every:?}");
            assert!(length("ramp") < every.0 || domains == [1, 100]);
            let rates = scenario.loads.names().filter(|name| name.starts_with("curve-")).count();
            assert!(rates >= 8, "a curve needs five valid rates: {rates}");
            assert!(
                length("capacity") < every.0 && scenario.loads.named("capacity").unwrap().search.is_some()
            );
            assert!(
                scenario.loads.named("ramp").unwrap().connections.steps().len() >= 6,
                "the law needs six"
            );
            assert!(scenario.limits.data.unwrap().memory.unwrap().0 >= 2 << 30);
        }
    }
    let cells = plan::plan(&of(false), 1).cells;
    // The full run has 3 repeats of 3 cells (two gateways and the direct baseline) at 2 numbers of routes. A quick run
    // has 1 repeat.
    assert_eq!(cells.len(), 18);
    let minutes = |checked: &Checked| {
        let time = plan::time(checked, &plan::plan(checked, 1).cells);
        time.min.as_secs_f64() / 60.0
    };
    let (whole, quick) = (minutes(&of(false)), minutes(&of(true)));
    assert!(whole < 25.0 && quick < 4.0, "{whole} and {quick} minutes");
}

#[test]
fn quick_shortens_registration_intervals_like_loads() {
    let text = |every: &str| {
        format!(
            "name: x\ngateways: [weir, {{ name: bus, driver: gorouter, set: {{ every: {every} }} }}]\n\
             loads: {{ steady: {{ model: open, rate: 10/s, duration: 60s }} }}\n"
        )
    };
    let of = |every: &str| {
        let scenario = scenario(&text(every), &Overrides { quick: true, ..Overrides::default() });
        let duration = scenario.loads.named("steady").unwrap().duration.unwrap().0;
        (scenario.gateways[1].set.named("every").unwrap().clone(), duration)
    };
    assert_eq!(of("20s"), (json!("4s"), Duration::from_secs(12)));
    // An empty setting means no interval, so `quick` divides the phase by 20, not by 5.
    assert_eq!(of("\"\""), (json!(""), Duration::from_secs(3)));
    let set =
        Overrides { quick: true, set: vec!["gateways.bus.set.every=20s".into()], ..Overrides::default() };
    assert_eq!(scenario(&text("20s"), &set).gateways[1].set.named("every"), Some(&json!("20s")));
}

#[test]
fn quick_runs_merge_points_with_too_many_domains() {
    let text = "name: x\ngateways: [weir]\ntopology: { domains: 500 }\nloads: { full: { model: closed } }\n\
        vary: { topology.domains: [1, 200, 1000], limits.data.cpus: [0.5, 1] }\n";
    let domains = |quick: bool| {
        let checked = read_with(text, &Overrides { quick, ..Overrides::default() }).unwrap();
        checked.points.iter().map(|point| point.scenario.topology.domains).collect::<Vec<_>>()
    };
    assert_eq!(domains(false), [1, 1, 200, 200, 1000, 1000]);
    assert_eq!(domains(true), [1, 1, 100, 100]);
}

#[test]
fn cases_list_single_combinations() {
    let case = |cpus: f64, memory: &str, users: u32| {
        format!(
            "  - {{ limits: {{ data: {{ cpus: {cpus}, memory: {memory} }} }}, loads.full.connections: {users} }}\n"
        )
    };
    let wanted =
        [(0.5, "1GiB", 4), (0.5, "1GiB", 8), (0.5, "1GiB", 16), (2.0, "2GiB", 12), (2.0, "2GiB", 16)];
    let cases: String = wanted.iter().map(|(cpus, memory, users)| case(*cpus, memory, *users)).collect();
    let text = format!(
        "name: x\ngateways: [nginx]\nloads: {{ full: {{ model: closed }}, tail: {{ model: open, rate: 9/s }} }}\n\
         cases:\n{cases}"
    );
    let checked = read(&text).unwrap();
    let points = checked.points.iter().map(|point| {
        let limit = point.scenario.limits.data.unwrap();
        let memory = limit.memory.unwrap().to_string();
        (limit.cpus.unwrap(), memory, point.scenario.loads.named("full").unwrap().connections.greatest())
    });
    assert_eq!(
        points.collect::<Vec<_>>(),
        wanted.map(|(cpus, memory, users)| (cpus, memory.to_owned(), users))
    );
    // At each point, the number of workers is the CPU limit, rounded up.
    let workers: Vec<u32> = checked.points.iter().map(|point| point.scenario.data_workers()).collect();
    assert_eq!(workers, [1, 1, 1, 2, 2]);
}

#[test]
fn settings_of_gateways_can_vary() {
    let text = "name: x\ngateways: [weir, nginx]\nloads: { full: { model: closed } }\n\
        vary: { gateways.nginx.set.buffering: [true, false] }\n";
    let checked = read(text).unwrap();
    let settings =
        checked.points.iter().map(|point| point.scenario.gateways[1].set.named("buffering").cloned());
    assert_eq!(settings.collect::<Vec<_>>(), [Some(json!(true)), Some(json!(false))]);
}

#[test]
fn set_applies_to_every_field_before_axes() {
    let set = [
        "limits.data.memory=1GiB",
        "topology.paths=[/a, /b]",
        "loads.tail.rate=100/s",
        "vary={}",
        "gateways.nginx.set.worker_connections=7",
        "seed=9",
    ];
    let overrides = Overrides { set: set.map(str::to_owned).to_vec(), ..Overrides::default() };
    let Checked { scenario, points, .. } = read_with(EXAMPLE, &overrides).unwrap();
    assert_eq!(scenario.limits.data.unwrap().memory.unwrap().0, 1 << 30);
    assert_eq!(scenario.limits.data.unwrap().cpus, Some(0.5));
    assert_eq!(scenario.topology.paths(), ["/a", "/b"]);
    assert_eq!(
        scenario.loads.named("tail").unwrap().rate,
        Some(Levels::Constant(AskedRate::Rate(Rate(100.0))))
    );
    assert_eq!(scenario.gateways[2].set.named("worker_connections"), Some(&json!(7)));
    assert_eq!(scenario.seed, Some(9));
    assert_eq!(points.len(), 1);
}

#[test]
fn gateways_are_filtered_or_added_in_the_order_given() {
    let text = "name: x\ngateways: [{ name: old, driver: nginx, optional: true }, weir]\nloads: { full: { \
        model: closed } }\n";
    let overrides = Overrides { gateways: vec!["envoy".into(), "old".into()], ..Overrides::default() };
    let gateways = scenario(text, &overrides).gateways;
    let names: Vec<_> = gateways.iter().map(|g| (g.name.as_str(), g.driver.as_str(), g.optional)).collect();
    // A gateway that is selected by name is no longer optional.
    assert_eq!(names, [("envoy", "envoy", false), ("old", "nginx", false)]);
}

#[test]
fn quick_shortens_and_never_lengthens() {
    let quick = Overrides { quick: true, ..Overrides::default() };
    let long = scenario(EXAMPLE, &quick);
    assert_eq!((long.duration.0, long.warmup.0), (Duration::from_secs(3), Duration::from_millis(500)));
    let short = EXAMPLE.replace("duration: 60s", "duration: 100ms").replace("warmup: 5s", "warmup: 0s");
    let short = scenario(&short, &quick);
    assert_eq!((short.duration.0, short.warmup.0), (Duration::from_millis(100), Duration::ZERO));
    assert_eq!(scenario(EXAMPLE, &Overrides { repeats: Some(6), ..quick }).repeats, 6);
}

const FAULTS: &str = "name: x\ngateways: [weir, gorouter]\nloads: { tail: { model: open, rate: 9/s } }\nduration: 20s\n\
    faults: [{ at: 4s, do: stall }, { at: 6s, service: nats, do: kill }, { at: 8s, service: nats, do: return }]\n";

#[test]
fn faults_of_services_are_read_stored_and_shortened() {
    let whole = scenario(FAULTS, &Overrides::default());
    assert_eq!(
        read_with(&serde_json::to_string(&whole).unwrap(), &Overrides::default()).unwrap().scenario,
        whole
    );
    let times =
        |scenario: &Scenario| scenario.faults.iter().map(|fault| fault.at.0.as_secs()).collect::<Vec<_>>();
    assert_eq!(times(&whole), [4, 6, 8]);
    assert_eq!(times(&scenario(FAULTS, &Overrides { quick: true, ..Overrides::default() })), [2, 3, 4]);
    // Earlier versions stored `replica: 1` for the first replica.
    let earlier = FAULTS.replace("{ at: 4s, do", "{ at: 4s, replica: 1, do");
    assert_eq!(scenario(&earlier, &Overrides::default()).faults[0].replica, Some(1));
}

#[test]
fn removing_gateways_removes_the_faults_of_their_services() {
    let services = |gateway: &str| -> Vec<Option<String>> {
        let overrides = Overrides { gateways: vec![gateway.to_owned()], ..Overrides::default() };
        scenario(FAULTS, &overrides).faults.into_iter().map(|fault| fault.service).collect()
    };
    assert_eq!(services("weir"), [None]);
    assert_eq!(services("gorouter").len(), 3);
    let wrong = FAULTS.replace("service: nats", "service: nast");
    let overrides = Overrides { gateways: vec!["weir".to_owned()], ..Overrides::default() };
    let error = read_with(&wrong, &overrides).unwrap_err();
    assert!(error.to_string().contains("needs a service `nast`"), "{error}");
}

#[test]
fn hosts_and_paths_are_numbered() {
    let text = "name: x\ngateways: [weir]\nloads: { full: { model: closed } }\ntopology: { domains: 3, paths: \
        2, rewrite: / }\n";
    let topology = read(text).unwrap().scenario.topology;
    assert_eq!(topology.hosts(), ["d0001.gateway.test", "d0002.gateway.test", "d0003.gateway.test"]);
    assert_eq!(topology.paths(), ["/get/1", "/get/2"]);
    assert_eq!(topology.rewrite.as_deref(), Some("/"));
}

#[test]
fn workers_are_the_cpu_limit_rounded_up() {
    let of = |limits: &str| {
        let text =
            format!("name: x\ngateways: [weir]\nloads: {{ full: {{ model: closed }} }}\nlimits: {limits}\n");
        let scenario = read(&text).unwrap().scenario;
        (scenario.data_workers(), scenario.origin_workers())
    };
    assert_eq!(of("{}"), (1, 1));
    assert_eq!(of("{ data: { cpus: 0.5 }, origin: { cpus: 1.5 } }"), (1, 2));
}

#[test]
fn a_load_has_a_field_for_every_flag() {
    let text = "name: x\ngateways: [weir]\ntopology: { paths: [/, /b] }\nloads:
  shop:
    { model: open, rate: 100/s..500/s, spacing: even, burst: 900/s:100ms/1s, duration: 3s, per_connection: 9, spin: true,
      domains: [a.test, b.test], mix: [ { path: '/b?n={seq}', method: PUT, headers: { X-A: b }, body: hi, weight: 3,
      name: put, checks: { status: [2xx], length: 2B } }, { path: / } ] }
  users: { model: closed, connections: 1..60..20, requests: 100, think: 'exp:5ms' }
  both: { model: open, steps: [ { connections: 4, rate: 10/s }, { connections: 8, rate: 30/s } ] }\n";
    let scenario = read(text).unwrap().scenario;
    let spec = |name: &str| {
        let setting = weir_lab::Setting {
            spec: LoadSpec {
                connect: "127.0.0.1:1".into(),
                host: "gateway.test".into(),
                requests: vec![RequestSpec::default()],
                ..LoadSpec::default()
            },
            authority: "gateway.test".into(),
            base: weir_lab::scenario::Request::default(),
            domains: vec![],
            rewrite: None,
        };
        scenario.loads.named(name).unwrap().spec(setting).unwrap()
    };
    let shop = spec("shop");
    let model = ModelSpec::Open {
        rate_per_s: 100.0,
        rate_to_per_s: Some(500.0),
        burst: "900/s:100ms/1s".parse().ok(),
        spacing: weir_engine::Spacing::Even,
    };
    assert_eq!((shop.model, shop.duration_ns, shop.spin), (model, Some(3_000_000_000), true));
    assert_eq!((shop.requests_per_connection, shop.domains.len()), (Some(9), 2));
    let put = &shop.requests[0];
    assert_eq!(put.headers, [("Host", "{domain}"), ("X-A", "b")].map(|(n, v)| (n.to_owned(), v.to_owned())));
    assert_eq!((put.method.as_str(), put.weight, put.name.as_deref()), ("PUT", 3.0, Some("put")));
    assert_eq!(
        (put.checks.status.as_slice(), put.checks.length),
        (&["2xx".parse().unwrap()][..], "2B".parse().ok())
    );
    let users = spec("users");
    assert_eq!((users.connections, users.request_count, users.duration_ns), (41, Some(100), None));
    let connections: Vec<_> = users.steps.iter().map(|step| step.connections).collect();
    assert_eq!(connections, [Some(1), Some(21), Some(41)]);
    assert_eq!(users.model, ModelSpec::Closed { think: "exp:5ms".parse().ok() });
    let both = spec("both");
    assert_eq!(both.steps[1], StepSpec { connections: Some(8), rate: Some(Rate(30.0)) });
    assert_eq!(both.model, ModelSpec::open(10.0, weir_engine::Spacing::Poisson));
}
