//! `weir origin`.

use std::io::Write as _;
use std::net::SocketAddr;
use std::str::FromStr;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use weir_document::{Share, Size, Time};
use weir_origin::{Delay, OriginError, OriginSpec};

use crate::failure::{Exit, Failure};

/// Arguments of `weir origin`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one, which is then printed
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// Size of each body
    #[arg(long, value_name = "SIZE", default_value = "64B")]
    body: Size,
    /// How long each answer waits
    #[arg(long, value_name = "const:TIME", default_value = "none")]
    delay: DelayArg,
    /// Share of requests answered with 500
    #[arg(long, value_name = "SHARE", default_value = "0%")]
    errors: Share,
    /// Threads, each with a listening socket of its own
    #[arg(long, value_name = "N", default_value = "1")]
    workers: usize,
}

#[derive(Clone, Copy, Debug)]
struct DelayArg(Delay);

impl FromStr for DelayArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(Delay::None));
        }
        let time = text.strip_prefix("const:").ok_or_else(|| {
            format!("`{text}` is no delay; write `const:` and a time, like const:1ms, or none")
        })?;
        let time: Time = time.parse().map_err(|error| format!("{error}"))?;
        let ns =
            u64::try_from(time.0.as_nanos()).map_err(|_| format!("`{text}` is too long; write const:1ms"))?;
        Ok(Self(Delay::Const(ns)))
    }
}

/// Serves until SIGTERM, which is its usual end, or Ctrl-C.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let spec = OriginSpec {
        listen: args.listen,
        body_bytes: args.body.0,
        delay: args.delay.0,
        error_share: args.errors.0,
        workers: args.workers,
        cpus: Vec::new(),
    };
    // Before anything is printed: whoever reads that line may send a signal at once.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| {
        Failure::environment(
            format!("cannot wait for signals: {error}"),
            "raise the limit of open files (`ulimit -n`)",
        )
    })?;
    let origin = weir_origin::start(&spec).map_err(failure)?;
    // A reader that has gone away is no reason to end: the origin serves all the same.
    let _ = writeln!(std::io::stdout(), "listening on {}", origin.address());
    let _ = std::io::stdout().flush();
    let signal = signals.forever().next();
    origin.stop();
    origin.join().map_err(failure)?;
    Ok(if signal == Some(SIGINT) { Exit::Interrupted } else { Exit::Good })
}

fn failure(error: OriginError) -> Failure {
    let message = error.to_string();
    match error {
        OriginError::NoWorkers | OriginError::ErrorShare { .. } => {
            Failure::wrong_use(message, error.remedy())
        }
        _ => Failure::environment(message, error.remedy()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_and_refused_with_the_right_form() {
        let read = |text: &str| text.parse::<DelayArg>().map(|delay| delay.0);
        assert_eq!(read("const:1ms"), Ok(Delay::Const(1_000_000)));
        assert_eq!(read("none"), Ok(Delay::None));
        assert_eq!(
            read("1ms"),
            Err("`1ms` is no delay; write `const:` and a time, like const:1ms, or none".to_owned())
        );
        assert!(read("const:1").unwrap_err().starts_with("`1` has no unit"));
    }
}
