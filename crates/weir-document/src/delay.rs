//! Delays: `const:5ms`, `exp:5ms` and other distributions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::quantity::{Quantity, QuantityError, as_text};
use crate::{Share, Time};

/// Maximum delay that can be configured or generated.
pub const DELAY_MAX: Duration = Duration::from_secs(3_600);

/// Maximum sigma of a log-normal delay. With sigma 10, almost three values in a thousand differ from the median by a
/// factor of more than 10^13.
const SIGMA_MAX: f64 = 10.0;

/// The distribution of a delay: `none`, `const:5ms`, `uniform:1ms..9ms`, `exp:5ms`, `lognormal:5ms,0.5`,
/// `bimodal:1ms,20ms,10%`. Each time in it is at most [`DELAY_MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Delay {
    /// No delay.
    #[default]
    None,
    /// A constant delay.
    Const(Time),
    /// Uniformly distributed between two times.
    Uniform {
        /// The minimum.
        least: Time,
        /// The maximum.
        most: Time,
    },
    /// Exponentially distributed with this mean.
    Exp(Time),
    /// Log-normal: the logarithm of the delay has a normal distribution.
    Lognormal {
        /// The median.
        median: Time,
        /// The standard deviation of the natural logarithm of the delay.
        sigma: f64,
    },
    /// One of two times, chosen at random.
    Bimodal {
        /// The usual time.
        first: Time,
        /// The other time.
        second: Time,
        /// The probability of `second`.
        second_share: Share,
    },
}

impl Delay {
    /// Whether the delay is always zero, in whatever form it is written.
    pub fn is_none(&self) -> bool {
        match self {
            Self::None => true,
            Self::Const(time) | Self::Exp(time) => time.0.is_zero(),
            Self::Uniform { most, .. } => most.0.is_zero(),
            Self::Lognormal { median, .. } => median.0.is_zero(),
            Self::Bimodal { first, second, .. } => first.0.is_zero() && second.0.is_zero(),
        }
    }
}

impl Quantity for Delay {
    const KIND: &'static str = "a delay";
    const EXAMPLES: &'static str = "none, const:5ms, uniform:1ms..9ms, exp:5ms (its mean), lognormal:5ms,0.5 \
                                    (median and sigma) or bimodal:1ms,20ms,10% (two values, share of the second)";
}

impl FromStr for Delay {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let malformed = || Self::of_no_form(text);
        if text == "none" {
            return Ok(Self::None);
        }
        let (kind, values) = text.split_once(':').ok_or_else(malformed)?;
        match kind {
            "const" => Ok(Self::Const(time(text, values)?)),
            "exp" => Ok(Self::Exp(time(text, values)?)),
            "uniform" => {
                let (least, most) = values.split_once("..").ok_or_else(malformed)?;
                let (least, most) = (time(text, least)?, time(text, most)?);
                if least > most {
                    return Err(Self::out_of_range(text, "a range that ends before it starts"));
                }
                Ok(Self::Uniform { least, most })
            }
            "lognormal" => {
                let (median, sigma) = values.split_once(',').ok_or_else(malformed)?;
                let is_plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
                let sigma: f64 = Some(sigma)
                    .filter(|sigma| is_plain(sigma))
                    .ok_or_else(malformed)?
                    .parse()
                    .map_err(|_| malformed())?;
                if sigma > SIGMA_MAX {
                    return Err(Self::out_of_range(text, "too wide: the maximum sigma is 10"));
                }
                Ok(Self::Lognormal { median: time(text, median)?, sigma })
            }
            "bimodal" => {
                let values: Vec<&str> = values.split(',').collect();
                let [first, second, share] = values[..] else { return Err(malformed()) };
                let (first, second) = (time(text, first)?, time(text, second)?);
                Ok(Self::Bimodal { first, second, second_share: share.parse()? })
            }
            _ => Err(malformed()),
        }
    }
}

/// Parses one of the times of a delay. `whole` is the text of the delay, for errors.
fn time(whole: &str, text: &str) -> Result<Time, QuantityError> {
    let time: Time = text.parse()?;
    match time.0 <= DELAY_MAX {
        true => Ok(time),
        false => Err(Delay::out_of_range(whole, "longer than an hour")),
    }
}

impl fmt::Display for Delay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Const(time) => write!(f, "const:{time}"),
            Self::Uniform { least, most } => write!(f, "uniform:{least}..{most}"),
            Self::Exp(mean) => write!(f, "exp:{mean}"),
            Self::Lognormal { median, sigma } => write!(f, "lognormal:{median},{sigma}"),
            Self::Bimodal { first, second, second_share } => {
                write!(f, "bimodal:{first},{second},{second_share}")
            }
        }
    }
}

as_text!(
    Delay,
    r"^(none|(const|exp):[^,]+|uniform:.+\.\..+|lognormal:[^,]+,[0-9.]+|bimodal:[^,]+,[^,]+,[^,]+)$"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_read_and_printed_exactly() {
        let ms = |ms| Time(Duration::from_millis(ms));
        for (text, delay, printed) in [
            ("none", Delay::None, "none"),
            ("const:5ms", Delay::Const(ms(5)), "const:5ms"),
            ("const:1h", Delay::Const(Time(DELAY_MAX)), "const:1h"),
            ("uniform:1ms..9ms", Delay::Uniform { least: ms(1), most: ms(9) }, "uniform:1ms..9ms"),
            ("uniform:1.5s..2s", Delay::Uniform { least: ms(1_500), most: ms(2_000) }, "uniform:1500ms..2s"),
            ("exp:5ms", Delay::Exp(ms(5)), "exp:5ms"),
            ("lognormal:5ms,0.50", Delay::Lognormal { median: ms(5), sigma: 0.5 }, "lognormal:5ms,0.5"),
            (
                "bimodal:1ms,20ms,0.1",
                Delay::Bimodal { first: ms(1), second: ms(20), second_share: Share(0.1) },
                "bimodal:1ms,20ms,10%",
            ),
        ] {
            let read: Delay = text.parse().unwrap();
            assert_eq!((read, read.to_string().as_str()), (delay, printed), "{text}");
            assert_eq!(printed.parse::<Delay>().unwrap(), delay);
            assert_eq!(read.is_none(), text == "none");
        }
        for text in ["const:0", "exp:0s", "uniform:0..0", "lognormal:0,1", "bimodal:0,0,50%"] {
            assert!(text.parse::<Delay>().unwrap().is_none(), "{text}");
        }
    }

    #[test]
    fn invalid_delays_are_rejected_with_a_valid_form() {
        let said = |text: &str| text.parse::<Delay>().unwrap_err().to_string();
        assert_eq!(
            said("1ms"),
            "`1ms` is not a delay; write one like none, const:5ms, uniform:1ms..9ms, exp:5ms (its mean), \
             lognormal:5ms,0.5 (median and sigma) or bimodal:1ms,20ms,10% (two values, share of the second)"
        );
        assert!(said("const:5").starts_with("`5` has no unit; write a time with its unit"));
        assert!(
            said("uniform:9ms..1ms").starts_with("`uniform:9ms..1ms` is a range that ends before it starts;")
        );
        assert!(said("exp:2h").starts_with("`exp:2h` is longer than an hour;"));
        assert!(said("lognormal:1ms,11").contains("too wide: the maximum sigma is 10"));
        assert!(said("bimodal:1ms,2ms,200%").starts_with("`200%` is more than 100%;"));
        for text in [
            "",
            "const",
            "const:",
            "const:-1ms",
            "normal:5ms",
            "uniform:5ms",
            "uniform:1ms..",
            "lognormal:5ms",
            "lognormal:5ms,",
            "lognormal:5ms,nan",
            "lognormal:5ms,1e9",
            "lognormal:5ms,-1",
            "lognormal:5ms,1.2.3",
            "bimodal:1ms,2ms",
            "bimodal:1ms,2ms,10%,1",
        ] {
            assert!(text.parse::<Delay>().is_err(), "{text}");
        }
    }
}
