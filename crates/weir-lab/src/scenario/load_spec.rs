//! Converts a load, from flags or a scenario, into the specification for the engine.

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use weir_document::{AskedRate, Levels, Problem, Rate, Time};
use weir_engine::{Body, EngineError, LoadSpec, ModelSpec, RequestFileSpec, RequestSpec, StepSpec};
use weir_results::ArrivalModel;

use super::setting::Setting;
use super::{Load, Popularity, Request};

/// Maximum size of a file with a body or tokens.
const FILE_MAX_BYTES: u64 = 64 << 20;
/// Maximum number of tokens.
const TOKENS_MAX: usize = 1_000_000;

/// Converts an error of the load engine about an invalid value to a problem at a field of [`Load`], such as `tls.cert`
/// or `mix.path`. Returns `None` for other errors.
pub fn load_problem(error: &EngineError) -> Option<Problem> {
    let EngineError::Invalid(Problem { place, message, remedy }) = error else { return None };
    let field = match *place {
        "per-connection" => "per_connection".to_owned(),
        "sni" | "resumption" | "cert" | "key" => format!("tls.{place}"),
        "cacert" => "tls.ca".to_owned(),
        "method" | "path" | "body" | "name" | "weight" => format!("mix.{place}"),
        "header" => "mix.headers".to_owned(),
        "check" => "mix.checks".to_owned(),
        other => other.to_owned(),
    };
    Some(problem(&field, message, remedy))
}

fn problem(field: &str, message: impl Into<String>, remedy: impl Into<String>) -> Problem {
    Problem::of(field, message).help(remedy)
}

/// Connections and rate of a load, in the form of the load engine.
struct Shape {
    connections: u32,
    connections_from: Option<u32>,
    rate_per_s: Option<f64>,
    rate_to_per_s: Option<f64>,
    steps: Vec<StepSpec>,
}

impl Load {
    /// The specification for the load engine, checked as far as possible without a network.
    ///
    /// # Errors
    /// If fields of the load contradict each other, or one of its files cannot be read. The place of the problem is the
    /// field.
    pub fn spec(&self, setting: Setting) -> Result<LoadSpec, Problem> {
        let shape = self.shape()?;
        if self.requests.is_some() && self.duration.is_some() {
            let remedy = "remove one of the two";
            return Err(problem("requests", "`requests` and `duration` cannot be combined", remedy));
        }
        let duration_ns = match self.requests {
            Some(_) => None,
            None => self.duration.map(Time::as_ns).or(setting.spec.duration_ns),
        };
        let Requests { mix: requests, file: request_file, domains } = self.requests_of(&setting)?;
        let spec = LoadSpec {
            tls: self.tls.clone(),
            protocol: self.protocol.unwrap_or_default(),
            streams: self.streams,
            requests,
            request_file,
            domain_weights: self.domain_weights(&domains),
            domains,
            tokens: self.tokens.as_deref().map(tokens).transpose()?.unwrap_or(setting.spec.tokens),
            model: self.model_spec(&shape)?,
            connections: shape.connections,
            connections_from: shape.connections_from,
            requests_per_connection: self.per_connection,
            duration_ns,
            request_count: self.requests,
            steps: shape.steps,
            spin: self.spin,
            ..setting.spec
        };
        match spec.validate() {
            Ok(()) => Ok(spec),
            Err(error) => {
                Err(load_problem(&error).unwrap_or_else(|| problem("", error.to_string(), error.remedy())))
            }
        }
    }

    /// The weight of each domain, with which TLS connections choose domains at random. Empty if no popularity is set:
    /// connections then use the domains in round robin.
    fn domain_weights(&self, domains: &[String]) -> Vec<f64> {
        let weights = |popularity: Popularity| (0..domains.len()).map(move |rank| popularity.weight(rank));
        self.popularity.map(weights).into_iter().flatten().collect()
    }

    /// Length of the sustained phase, including all steps; `None` for a closed load that ends after a number of
    /// requests. `otherwise` is the length if the load sets none.
    pub(crate) fn sustained(&self, otherwise: Duration) -> Option<Duration> {
        let rate_steps = self.rate.as_ref().map_or(0, |rate| rate.steps().len());
        let steps = self.steps.len().max(self.connections.steps().len()).max(rate_steps).max(1);
        match self.requests {
            None => Some(self.duration.map_or(otherwise, |duration| duration.0) * steps as u32),
            Some(_) if self.model == ArrivalModel::Closed => None,
            Some(count) => {
                let rates = self.rates();
                let once = steps / rates.len().max(1);
                let each = rates.iter().map(|rate_per_s| count as f64 / rate_per_s * once as f64);
                Duration::try_from_secs_f64(each.sum()).ok()
            }
        }
    }

    /// Whether the load engine may extend the warm-up of this load. The answer does not depend on the rate, so it is
    /// known even while rates are shares of an unknown capacity.
    pub(crate) fn may_warm_up_longer(&self) -> bool {
        let trial = self.search.as_ref().map(|_| self.trial(self.first_per_s()));
        let load = trial.as_ref().unwrap_or(self).at_capacity(1.0);
        let spec = load.shape().and_then(|shape| {
            Ok(LoadSpec {
                model: load.model_spec(&shape)?,
                connections_from: shape.connections_from,
                steps: shape.steps,
                request_count: load.requests,
                ..LoadSpec::default()
            })
        });
        spec.is_ok_and(|spec| spec.may_warm_up_longer())
    }

    /// Mean offered rate including bursts; `None` in closed loop.
    pub(crate) fn mean_rate_per_s(&self) -> Option<f64> {
        let rates = self.rates();
        let mean_per_s = rates.iter().sum::<f64>() / rates.len() as f64;
        let burst = |burst: weir_document::Burst| {
            let share = burst.length.0.as_secs_f64() / burst.every.0.as_secs_f64();
            mean_per_s * (1.0 - share) + burst.rate.0 * share
        };
        (!rates.is_empty()).then(|| self.burst.map_or(mean_per_s, burst))
    }

    /// The rates of all steps, or both ends of a ramp; empty while the rates are shares.
    fn rates(&self) -> Vec<f64> {
        let rates: Vec<AskedRate> = match &self.rate {
            None => self.steps.iter().filter_map(|step| step.rate).map(AskedRate::Rate).collect(),
            Some(Levels::Steps(steps)) => steps.clone(),
            Some(Levels::Ramp(from, to)) => vec![*from, *to],
            Some(Levels::Constant(rate)) if self.steps.is_empty() => vec![*rate],
            Some(Levels::Constant(rate)) => {
                self.steps.iter().map(|step| step.rate.map_or(*rate, AskedRate::Rate)).collect()
            }
        };
        rates.into_iter().filter_map(AskedRate::per_s).collect()
    }

    fn shape(&self) -> Result<Shape, Problem> {
        let (rate_per_s, rate_to_per_s) = match &self.rate {
            None => (self.steps.iter().find_map(|step| step.rate).map(|Rate(per_s)| per_s), None),
            Some(Levels::Constant(rate)) => (Some(per_s(*rate)?), None),
            Some(Levels::Ramp(from, to)) => (Some(per_s(*from)?), Some(per_s(*to)?)),
            Some(Levels::Steps(steps)) => (Some(per_s(steps[0])?), None),
        };
        let connections_from = match &self.connections {
            Levels::Ramp(from, _) => Some(*from),
            _ => None,
        };
        let widest = self.steps.iter().filter_map(|step| step.connections).max().unwrap_or(0);
        let connections = match &self.connections {
            Levels::Ramp(_, to) => *to,
            levels => levels.greatest().max(widest),
        };
        Ok(Shape { connections, connections_from, rate_per_s, rate_to_per_s, steps: self.step_specs()? })
    }

    fn step_specs(&self) -> Result<Vec<StepSpec>, Problem> {
        let connections = self.connections.steps();
        let rates = self.rate.as_ref().map_or(&[][..], Levels::steps);
        let rates: Vec<f64> = rates.iter().map(|rate| per_s(*rate)).collect::<Result<_, _>>()?;
        if !self.steps.is_empty() {
            if !connections.is_empty() || !rates.is_empty() {
                let remedy = "write the connections and the rate of each step only in `steps`";
                return Err(problem(
                    "steps",
                    "`steps` cannot be combined with steps in `connections` or `rate`",
                    remedy,
                ));
            }
            let own = match &self.connections {
                Levels::Constant(connections) => Some(*connections),
                _ => None,
            };
            let spec = |step: &StepSpec| StepSpec { connections: step.connections.or(own), rate: step.rate };
            return Ok(self.steps.iter().map(spec).collect());
        }
        if !connections.is_empty() && !rates.is_empty() && connections.len() != rates.len() {
            let message =
                format!("`connections` has {} steps, but `rate` has {}", connections.len(), rates.len());
            return Err(problem(
                "rate",
                message,
                "use the same number of steps in both fields, or a single value in one of them",
            ));
        }
        let spec = |at: usize| StepSpec {
            connections: connections.get(at).copied(),
            rate: rates.get(at).copied().map(Rate),
        };
        Ok((0..connections.len().max(rates.len())).map(spec).collect())
    }

    fn model_spec(&self, shape: &Shape) -> Result<ModelSpec, Problem> {
        match (self.model, shape.rate_per_s) {
            (ArrivalModel::Open, None) => {
                let remedy = "add a rate, like `rate: 5000/s`, or use a closed load";
                Err(problem("rate", "an open load needs a rate", remedy))
            }
            (ArrivalModel::Open, Some(rate_per_s)) => {
                if self.think.is_some() {
                    let remedy = "remove `think`: an open load does not wait for responses";
                    return Err(problem("think", "an open load cannot have think time", remedy));
                }
                Ok(ModelSpec::Open {
                    rate_per_s,
                    rate_to_per_s: shape.rate_to_per_s,
                    burst: self.burst,
                    spacing: self.spacing.unwrap_or_default(),
                })
            }
            (ArrivalModel::Closed, _) => {
                let remedy = "remove the field, or use an open load: `model: open`";
                let open = [
                    ("rate", self.rate.is_some()),
                    ("burst", self.burst.is_some()),
                    ("spacing", self.spacing.is_some()),
                ];
                if let Some((field, _)) = open.into_iter().find(|(_, is_given)| *is_given) {
                    return Err(problem(field, format!("a closed load cannot have a {field}"), remedy));
                }
                if self.spin {
                    let remedy = "remove `spin`, or use an open load";
                    return Err(problem(
                        "spin",
                        "a closed load cannot use `spin`: it does not wait for arrivals",
                        remedy,
                    ));
                }
                Ok(ModelSpec::Closed { think: self.think })
            }
        }
    }

    /// The requests or the request file, and the values of `{domain}`.
    fn requests_of(&self, setting: &Setting) -> Result<Requests, Problem> {
        if self.shuffle && self.file.is_none() {
            let remedy = "add `file`, or remove `shuffle`: a mix is always drawn at random";
            return Err(problem("shuffle", "`shuffle` needs a request file", remedy));
        }
        match (&self.file, self.mix.is_empty()) {
            (Some(_), false) => {
                return Err(problem("file", "`mix` and `file` cannot be combined", "remove one of the two"));
            }
            (None, true) => {
                let (mix, domains) = (setting.spec.requests.clone(), self.domains.clone());
                return Ok(Requests { mix, file: None, domains });
            }
            _ => {}
        }
        let domains = if self.domains.is_empty() { &setting.domains } else { &self.domains };
        let authority = setting.authority.as_str();
        // A colon before `]` is part of an IPv6 address, and does not separate the port.
        let port = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        let port = port.map_or("", |at| &authority[at..]);
        let host = if domains.is_empty() { authority.to_owned() } else { format!("{{domain}}{port}") };
        let spec = |request: &Request| {
            let mut spec = request.spec(&host)?;
            if let Some(rewrite) = &setting.rewrite {
                spec.path.clone_from(rewrite);
            }
            Ok(spec)
        };
        let mix = self.mix.iter().map(spec).collect::<Result<_, _>>()?;
        let file = self.file.as_ref().map(|path| {
            let (base, is_method_given) = (setting.base.spec(&host)?, setting.base.method.is_some());
            Ok(RequestFileSpec { path: path.clone(), base, is_method_given, shuffle: self.shuffle })
        });
        Ok(Requests { mix, file: file.transpose()?, domains: domains.clone() })
    }
}

/// The rate in requests per second, or an error if it is a share.
fn per_s(rate: AskedRate) -> Result<f64, Problem> {
    rate.per_s().ok_or_else(|| {
        let message = format!("{rate} is a share of a capacity that was not measured");
        problem("rate", message, "use a rate like 5000/s")
    })
}

/// The requests of a load: a mix or a file, and the values of `{domain}`.
struct Requests {
    mix: Vec<RequestSpec>,
    file: Option<RequestFileSpec>,
    domains: Vec<String>,
}

impl Request {
    /// The request in the form of the load engine; `host` is the default of the Host header.
    fn spec(&self, host: &str) -> Result<RequestSpec, Problem> {
        let mut headers = self.headers.0.clone();
        match headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host")).count() {
            0 => headers.insert(0, ("Host".into(), host.to_owned())),
            1 => {}
            _ => {
                let remedy = "remove one of the two";
                return Err(problem("mix.headers", "duplicate `Host` header", remedy));
            }
        }
        let by_body = if self.body.is_some() { "POST" } else { "GET" };
        Ok(RequestSpec {
            method: self.method.clone().unwrap_or_else(|| by_body.into()),
            path: self.path.clone(),
            headers,
            body: self.body.as_deref().map_or(Ok(Body::Text(String::new())), body)?,
            name: self.name.clone(),
            weight: self.weight.unwrap_or(1.0),
            checks: self.checks.clone().unwrap_or_default(),
        })
    }
}

/// The body of a request: the text `written`, or for `@FILE` the content of the file.
fn body(written: &str) -> Result<Body, Problem> {
    let Some(path) = written.strip_prefix('@') else { return Ok(Body::Text(written.to_owned())) };
    let bytes = bounded("mix.body", Path::new(path))?;
    // Placeholders are replaced only in text; other bodies are sent unchanged.
    Ok(String::from_utf8(bytes)
        .map_or_else(|error| Body::Base64(STANDARD.encode(error.as_bytes())), Body::Text))
}

/// Reads tokens, one per line.
fn tokens(path: &Path) -> Result<Vec<String>, Problem> {
    let place = path.display();
    let text = String::from_utf8(bounded("tokens", path)?)
        .map_err(|_| problem("tokens", format!("{place} is not UTF-8 text"), "write one token per line"))?;
    let tokens: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    match tokens.len() {
        0 => Err(problem("tokens", format!("{place} has no tokens"), "write one token per line")),
        1..=TOKENS_MAX => Ok(tokens),
        _ => Err(problem("tokens", format!("{place} has more than {TOKENS_MAX} tokens"), "use fewer tokens")),
    }
}

/// Reads the file that `field` names; an error if it is larger than [`FILE_MAX_BYTES`].
fn bounded(field: &str, path: &Path) -> Result<Vec<u8>, Problem> {
    let place = path.display();
    let wrong =
        |error: std::io::Error| problem(field, format!("cannot read {place}: {error}"), "correct the path");
    if std::fs::metadata(path).map_err(wrong)?.len() > FILE_MAX_BYTES {
        return Err(problem(field, format!("{place} is larger than 64 MiB"), "use a smaller file"));
    }
    std::fs::read(path).map_err(wrong)
}
