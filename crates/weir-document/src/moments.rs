//! When requests are sent: bursts `5000/s:200ms/1s`, and pauses `20ms` or `exp:20ms`.

use std::fmt;
use std::str::FromStr;

use crate::quantity::{Quantity, QuantityError, as_text};
use crate::{Rate, Time};

/// Periodic bursts, in which the rate differs from the usual one: `RATE:LENGTH/EVERY`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// The rate during a burst.
    pub rate: Rate,
    /// Duration of a burst.
    pub length: Time,
    /// The time from the start of one burst to the start of the next.
    pub every: Time,
}

/// A pause between requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// `20ms`: a constant pause.
    Const(Time),
    /// `exp:20ms`: exponentially distributed with this mean.
    Exp(Time),
}

impl Quantity for Burst {
    const KIND: &'static str = "a burst";
    const EXAMPLES: &'static str = "5000/s:200ms/1s (this rate for 200 ms of each second)";
}

impl Quantity for Pause {
    const KIND: &'static str = "a pause";
    const EXAMPLES: &'static str = "20ms, exp:20ms";
}

impl FromStr for Burst {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (rate, times) = text.split_once(':').ok_or_else(|| Self::malformed(text))?;
        let (length, every) = times.split_once('/').ok_or_else(|| Self::malformed(text))?;
        Ok(Self { rate: rate.trim().parse()?, length: length.trim().parse()?, every: every.trim().parse()? })
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}/{}", self.rate, self.length, self.every)
    }
}

impl FromStr for Pause {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        match text.split_once(':') {
            None => Ok(Self::Const(text.parse()?)),
            Some(("const", time)) => Ok(Self::Const(time.trim().parse()?)),
            Some(("exp", time)) => Ok(Self::Exp(time.trim().parse()?)),
            Some(_) => Err(Self::malformed(text)),
        }
    }
}

impl fmt::Display for Pause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Const(time) => time.fmt(f),
            Self::Exp(time) => write!(f, "exp:{time}"),
        }
    }
}

as_text!(Burst, r"^[^:]+:[^/]+/[^/]+$");
as_text!(Pause, r"^(exp:|const:)?[0-9]+(\.[0-9]+)? *(ns|us|µs|ms|s|m|h)$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_and_pauses_are_read_and_printed_exactly() {
        for (text, printed) in [("5000/s:200ms/1s", "5000/s:200ms/1s"), ("60/m : 0.5s / 2s", "1/s:500ms/2s")]
        {
            let burst: Burst = text.parse().unwrap();
            assert_eq!(burst.to_string(), printed);
            assert_eq!(printed.parse::<Burst>().unwrap(), burst);
        }
        for (text, printed) in [("20ms", "20ms"), ("const:20ms", "20ms"), ("exp: 1.5s", "exp:1500ms")] {
            let pause: Pause = text.parse().unwrap();
            assert_eq!(pause.to_string(), printed);
            assert_eq!(printed.parse::<Pause>().unwrap(), pause);
        }
    }

    #[test]
    fn invalid_bursts_and_pauses_are_rejected_with_a_valid_form() {
        for text in ["", "5000/s", "5000/s:200ms", "5000:200ms/1s", "5000/s:200/1s", "5000/s:200ms/1"] {
            let said = text.parse::<Burst>().unwrap_err().to_string();
            assert!(said.contains("like"), "{said}");
        }
        assert!("5000/s".parse::<Burst>().unwrap_err().to_string().contains("5000/s:200ms/1s"));
        for text in ["", "20", "exp:", "exp:20", "lognormal:5ms,1"] {
            let said = text.parse::<Pause>().unwrap_err().to_string();
            assert!(said.contains("like"), "{said}");
        }
    }
}
