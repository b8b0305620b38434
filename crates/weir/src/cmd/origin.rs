//! `weir origin`: a test upstream with configurable responses, delays and faults.

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_document::{Delay, Drift, Share, Size, Slow, Stall};
use weir_origin::{FaultSpec, Http2Spec, OriginError, OriginSpec, ServiceSpec, TlsSpec};

use crate::failure::{Exit, Failure};

/// Arguments of `weir origin`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Address to listen on; with port 0, weir chooses a free port and prints it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// Size of the response body
    #[arg(long, value_name = "SIZE", default_value = "64B")]
    body: Size,
    /// Respond with the body of the request
    #[arg(long, conflicts_with = "body")]
    echo: bool,
    /// Number of threads; each has its own listening socket
    #[arg(long, value_name = "N", default_value = "1")]
    workers: usize,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    faults: Faults,
    #[command(flatten)]
    http2: Http2,
    #[command(flatten)]
    tls: Tls,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Times")]
struct Times {
    /// Delay of each response: const:5ms, uniform:1ms..9ms, exp:5ms (mean), lognormal:5ms,0.5 (median and
    /// sigma), bimodal:1ms,20ms,10% (two values, share of the second)
    #[arg(long, value_name = "DELAY", default_value = "none", conflicts_with = "service")]
    delay: Delay,
    /// Use one FIFO queue for all requests, with this service time, instead of --delay
    #[arg(long, value_name = "DELAY")]
    service: Option<Delay>,
    /// Number of requests that the queue serves at the same time
    #[arg(long, value_name = "N", default_value = "1", requires = "service", value_parser = from_one())]
    servers: u32,
    /// Increase the delay over time: 1ms/10s adds 1 ms every 10 s
    #[arg(long, value_name = "TIME/TIME")]
    drift: Option<Drift>,
    /// Stall periodically: 200ms/1s stops all responses for the first 200 ms of each second
    #[arg(long, value_name = "TIME/TIME")]
    stall: Option<Stall>,
    /// Seed of the random delays and service times
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Busy-wait for more precise delays; uses a whole core per worker
    #[arg(long)]
    spin: bool,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Faults (shares are exact, not random)")]
struct Faults {
    /// Share of requests that get status 500
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    errors: Share,
    /// Share of requests whose connection is reset (HTTP/2: whose stream is reset)
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    resets: Share,
    /// Share of responses that end after half of the body
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    half: Share,
    /// Share of responses whose body is sent in ten pieces over TIME, like 1%:2s
    #[arg(long, value_name = "SHARE:TIME")]
    slow: Option<Slow>,
    /// Accept connections and read requests, but never respond
    #[arg(long)]
    silent: bool,
    /// Close an HTTP/1.1 connection after N responses
    #[arg(long, value_name = "N", value_parser = from_one())]
    close_after: Option<u32>,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "HTTP/2 (by ALPN or prior knowledge)")]
struct Http2 {
    /// Disable HTTP/2
    #[arg(long, conflicts_with_all = ["goaway", "max_streams", "refuse"])]
    http1_only: bool,
    /// Send GOAWAY after N requests on a connection
    #[arg(long, value_name = "N", value_parser = from_one())]
    goaway: Option<u32>,
    /// Maximum number of concurrent streams per connection [default: 256]
    #[arg(long, value_name = "N", value_parser = from_one())]
    max_streams: Option<u32>,
    /// Share of requests that get REFUSED_STREAM
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    refuse: Share,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "TLS")]
struct Tls {
    /// Use TLS with a certificate for localhost, created at start
    #[arg(long, conflicts_with = "cert")]
    tls: bool,
    /// Additional name in the certificate; may be repeated
    #[arg(long = "domain", value_name = "NAME", requires = "tls")]
    domains: Vec<String>,
    /// Write the CA certificate (PEM) to this file
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca_out: Option<PathBuf>,
    /// Use an expired certificate
    #[arg(long, requires = "tls")]
    expired: bool,
    /// Use TLS with this certificate chain (PEM)
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

fn from_one() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..)
}

impl Args {
    fn spec(&self) -> OriginSpec {
        let (times, faults, http2) = (&self.times, &self.faults, &self.http2);
        let servers = NonZeroUsize::new(times.servers as usize).unwrap_or(NonZeroUsize::MIN);
        OriginSpec {
            body_bytes: self.body.0,
            is_echo: self.echo,
            delay: times.delay,
            service: times.service.filter(|time| !time.is_none()).map(|time| ServiceSpec { time, servers }),
            drift: times.drift,
            stall: times.stall,
            seed: times.seed,
            spin: times.spin,
            faults: FaultSpec {
                errors: faults.errors,
                resets: faults.resets,
                half: faults.half,
                slow: faults.slow,
                refuse: http2.refuse,
            },
            is_silent: faults.silent,
            close_after: faults.close_after.and_then(NonZeroU32::new),
            http2: Http2Spec {
                is_off: http2.http1_only,
                goaway_after: http2.goaway.and_then(NonZeroU32::new),
                max_streams: http2.max_streams.and_then(NonZeroU32::new),
            },
            tls: self.tls.spec(),
            workers: self.workers,
            ..OriginSpec::at(self.listen)
        }
    }
}

impl Tls {
    fn spec(&self) -> Option<TlsSpec> {
        match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => Some(TlsSpec::Given { cert: cert.clone(), key: key.clone() }),
            _ => self.tls.then(|| TlsSpec::Made { domains: self.domains.clone(), is_expired: self.expired }),
        }
    }
}

/// Serves until Ctrl-C or SIGTERM.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    // Signal handlers are registered before the first output, because a program that reads it may send a signal
    // immediately.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| {
        Failure::environment(
            format!("cannot wait for signals: {error}"),
            "raise the limit of open files (`ulimit -n`)",
        )
    })?;
    let origin = weir_origin::start(&args.spec()).map_err(failure)?;
    if let (Some(path), Some(pem)) = (&args.tls.ca_out, origin.ca_pem()) {
        std::fs::write(path, pem).map_err(|error| {
            let message = format!("cannot write `{}`: {error}", path.display());
            Failure::environment(message, "use --ca-out with a file in a writable folder")
        })?;
    }
    // Errors are ignored, because the origin must serve even if standard output is closed.
    let _ = writeln!(std::io::stdout(), "listening on {}", origin.address());
    let _ = std::io::stdout().flush();
    let signal = signals.forever().next();
    origin.stop();
    origin.join().map_err(failure)?;
    Ok(if signal == Some(SIGINT) { Exit::Interrupted } else { Exit::Good })
}

fn failure(error: OriginError) -> Failure {
    let message = error.to_string();
    match error.is_wrong_use() {
        true => Failure::wrong_use(message, error.remedy()),
        false => Failure::environment(message, error.remedy()),
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};
    use weir_lab::scenario::{Origin, OriginFaults, OriginHttp2, OriginService, OriginTls};

    use super::*;

    fn command() -> clap::Command {
        Args::augment_args(clap::Command::new("origin").no_binary_name(true))
    }

    fn read(arguments: &[impl AsRef<str>]) -> Result<Args, String> {
        let arguments = arguments.iter().map(|argument| argument.as_ref().to_owned());
        command()
            .try_get_matches_from(arguments)
            .and_then(|matches| Args::from_arg_matches(&matches))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn invalid_values_name_their_argument_and_the_right_form() {
        for (arguments, expected) in [
            (&["--delay", "1ms"][..], "invalid value '1ms' for '--delay <DELAY>': `1ms` is not a delay"),
            (&["--delay", "const:1"], "for '--delay <DELAY>': `1` has no unit"),
            (&["--drift", "1ms"], "for '--drift <TIME/TIME>': `1ms` is not a drift"),
            (&["--stall", "1s/200ms"], "for '--stall <TIME/TIME>': `1s/200ms` is a stall that never ends"),
            (&["--slow", "1%"], "for '--slow <SHARE:TIME>': `1%` is not a share followed by a time"),
            (&["--resets", "200%"], "for '--resets <SHARE>': `200%` is more than 100%"),
            (&["--close-after", "0"], "invalid value '0' for '--close-after <N>'"),
            (&["--delay", "exp:1ms", "--service", "exp:1ms"], "cannot be used with"),
            (&["--servers", "2"], "--service <DELAY>"),
            (&["--http1-only", "--goaway", "5"], "cannot be used with"),
            (&["--expired"], "--tls"),
            (&["--cert", "a.pem"], "--key <FILE>"),
            (&["--tls", "--cert", "a.pem", "--key", "a.key"], "cannot be used with"),
        ] {
            let said = read(arguments).unwrap_err();
            assert!(said.contains(expected), "{arguments:?} said {said}");
        }
    }

    /// A configuration in which every field is set.
    fn full() -> Origin {
        let tls = OriginTls {
            domains: vec!["a.example".into(), "b.example".into()],
            ca_out: Some("ca.pem".into()),
            expired: true,
            ..OriginTls::default()
        };
        Origin {
            body: "1KiB".parse().unwrap(),
            service: OriginService::Time("lognormal:5ms,0.5".parse().unwrap()),
            servers: Some(3),
            drift: Some("1ms/10s".parse().unwrap()),
            stall: Some("200ms/1s".parse().unwrap()),
            seed: Some(7),
            errors: "1%".parse().unwrap(),
            faults: OriginFaults {
                resets: "2%".parse().unwrap(),
                half: "3%".parse().unwrap(),
                slow: Some("4%:2s".parse().unwrap()),
                silent: true,
                close_after: Some(8),
            },
            http2: OriginHttp2 { goaway: Some(9), max_streams: Some(10), refuse: "5%".parse().unwrap() },
            tls: Some(tls),
            ..Origin::default()
        }
    }

    #[test]
    fn every_field_of_a_scenario_reaches_the_origin() {
        let spec = read(&full().arguments()).unwrap().spec();
        let Origin { service, drift, stall, errors, faults, http2, .. } = full();
        assert_eq!((spec.body_bytes, spec.seed), (1_024, 7));
        assert_eq!(
            spec.service,
            Some(ServiceSpec { time: service.time(), servers: NonZeroUsize::new(3).unwrap() })
        );
        assert_eq!((spec.drift, spec.stall), (drift, stall));
        let OriginFaults { resets, half, slow, .. } = faults;
        assert_eq!(spec.faults, FaultSpec { errors, resets, half, slow, refuse: http2.refuse });
        assert!(spec.is_silent && spec.close_after == NonZeroU32::new(8));
        let [goaway_after, max_streams] = [9, 10].map(NonZeroU32::new);
        assert_eq!(spec.http2, Http2Spec { is_off: false, goaway_after, max_streams });
        let domains = vec!["a.example".into(), "b.example".into()];
        assert_eq!(spec.tls, Some(TlsSpec::Made { domains, is_expired: true }));

        let given =
            OriginTls { cert: Some("a.pem".into()), key: Some("a.key".into()), ..OriginTls::default() };
        let other = Origin {
            delay: "bimodal:1ms,20ms,10%".parse().unwrap(),
            echo: true,
            http1_only: true,
            tls: Some(given),
            ..Origin::default()
        };
        let spec = read(&other.arguments()).unwrap().spec();
        assert_eq!((spec.delay, spec.http2.is_off, spec.is_echo), (other.delay, true, true));
        assert_eq!(spec.tls, Some(TlsSpec::Given { cert: "a.pem".into(), key: "a.key".into() }));
        assert_eq!(read(&Origin::default().arguments()).unwrap().spec().body_bytes, 64);
    }

    #[test]
    fn every_argument_has_a_field_in_the_schema() {
        let schema = serde_json::to_value(schemars::schema_for!(Origin)).unwrap().to_string();
        for argument in command().get_arguments() {
            let name = argument.get_id().as_str();
            // The schema has no `listen`, because a run chooses the address. The TLS arguments are fields of the map
            // `tls`.
            if name != "listen" {
                assert!(schema.contains(&format!("\"{name}\":")), "{name} is not in the schema");
            }
        }
    }
}
