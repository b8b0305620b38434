//! The model of a chart, which all formats draw: panels with lines. The panels share both scales.

use weir_analysis::{Figure, bounds_words, quantity, reason_name};

use crate::model::scale::{Scale, Unit};

/// A chart.
#[derive(Clone, Debug)]
pub(crate) struct Plot {
    /// The ID of the chart's element in the page, and the chart's file name in `charts/`.
    pub(crate) id: String,
    /// The section of the report that shows the chart; empty for the section of the axes.
    pub(crate) section: &'static str,
    /// Explains how to read the chart. It is printed below all charts of the section.
    pub(crate) note: &'static str,
    pub(crate) title: String,
    /// The load, and the values of axes that are the same in the whole chart.
    pub(crate) setting: String,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
    pub(crate) marks: Marks,
    /// The end of the warm-up, if the horizontal scale is time. The background is shaded up to there.
    pub(crate) shade_to: Option<f64>,
    pub(crate) panels: Vec<Panel>,
}

/// How the values of a chart are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Each value as a dot with its confidence interval, and a line through the dots.
    Dots,
    /// A line without dots.
    Lines,
    /// Adjacent bars. Each is as wide as its range on the horizontal scale.
    Bars,
}

/// One of the diagrams of a chart.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// What distinguishes this panel from the others; empty if the chart has only one panel.
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

/// A line of a chart. It shows a gateway, a part of the rig, or a quantile.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Name of a colour of the palette.
    pub(crate) color: &'static str,
    /// Whether the line is dashed: it shows the direct baseline, excluded values, an ideal or fitted line, or an event.
    pub(crate) dashed: bool,
    /// Whether the line shows measured values, not an ideal line or an event. Measured values are drawn as marks.
    pub(crate) marked: bool,
    pub(crate) spots: Vec<Spot>,
}

/// The values of all lines of a panel at one position of the horizontal scale.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) at: f64,
    /// For each line with [`Line::marked`]: its value at this position, if it has one.
    pub(crate) spots: Vec<Option<&'a Spot>>,
}

/// A value and its position on the horizontal scale.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Spot {
    pub(crate) x: f64,
    /// The value; `None` if it is beyond the time-out or was not measured.
    pub(crate) y: Option<f64>,
    /// The lower and the upper end of the confidence interval.
    pub(crate) interval: Option<[f64; 2]>,
    /// Whether the value is valid. Invalid values are drawn as rings.
    pub(crate) counts: bool,
    /// Whether a lower or an upper bound of the value is known. Lines skip values that are neither valid nor
    /// bounded.
    pub(crate) bounded: bool,
    /// Whether the quantile falls on a request without a response. Such a quantile is only known to be above the
    /// time-out.
    pub(crate) beyond_timeout: bool,
    /// The text of the tooltip.
    pub(crate) words: String,
}

impl Panel {
    /// Returns one step per position on the x-axis, with the value of each marked line, in the order of the lines.
    ///
    /// Gateways are measured at slightly different times, so the positions of their values differ slightly. Positions
    /// are merged if they are closer than half of the smallest gap between neighbouring values of any line.
    pub(crate) fn steps(&self) -> Vec<Step<'_>> {
        let lines: Vec<&Line> = self.marked().collect();
        let gaps = lines.iter().flat_map(|line| line.spots.windows(2)).map(|pair| pair[1].x - pair[0].x);
        let near = gaps.filter(|gap| *gap > 0.0).fold(f64::INFINITY, f64::min) / 2.0;
        let mut places: Vec<f64> =
            lines.iter().flat_map(|line| line.spots.iter().map(|spot| spot.x)).collect();
        places.sort_by(f64::total_cmp);
        let mut steps: Vec<Step<'_>> = Vec::new();
        for at in places {
            if steps.last().is_none_or(|step| at - step.at >= near) {
                steps.push(Step { at, spots: vec![None; lines.len()] });
            }
        }
        for (place, line) in lines.into_iter().enumerate() {
            for spot in &line.spots {
                let step = steps.partition_point(|step| step.at <= spot.x).saturating_sub(1);
                steps[step].spots[place].get_or_insert(spot);
            }
        }
        steps
    }

    /// The lines that show measured values.
    pub(crate) fn marked(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.marked)
    }
}

impl Plot {
    /// Returns one line per name, for the names and colours in the legend.
    pub(crate) fn legend(&self) -> Vec<&Line> {
        let mut known: Vec<&Line> = Vec::new();
        for line in self.panels.iter().flat_map(|panel| &panel.lines) {
            if !known.iter().any(|other| other.name == line.name) {
                known.push(line);
            }
        }
        known
    }

    /// The index of the line's name in the legend.
    pub(crate) fn series_of(&self, line: &Line) -> Option<usize> {
        self.legend().iter().position(|known| known.name == line.name)
    }

    /// The index of the shape that distinguishes the line from lines of similar colour. `None` if the values are
    /// drawn as dots or bars, or if there is only one line.
    pub(crate) fn symbol_of(&self, line: &Line) -> Option<usize> {
        let named: Vec<&Line> = self.legend().into_iter().filter(|known| known.marked).collect();
        let place = named.iter().position(|known| known.name == line.name)?;
        (self.marks == Marks::Lines && named.len() > 1 && line.marked).then_some(place)
    }
}

impl Spot {
    /// A valid value without a confidence interval and without a tooltip.
    pub(crate) fn at(x: f64, y: Option<f64>) -> Self {
        Self { x, y, counts: true, ..Self::default() }
    }

    /// The value of a metric from all repeats; `None` if it was not measured. `place` describes its position in words.
    pub(crate) fn of(x: f64, figure: &Figure, unit: Unit, place: &str) -> Option<Self> {
        if figure.mean.is_none() && !figure.beyond_timeout {
            return None;
        }
        let value = value_words(figure, unit);
        let repeats = match (figure.valid, figure.repeats.len()) {
            (1, 1) => "1 repeat".to_owned(),
            (valid, all) if valid == all => format!("{all} repeats"),
            (valid, all) => {
                let why: Vec<&str> =
                    figure.reasons().into_iter().map(|(reason, _)| reason_name(reason)).collect();
                let all = quantity::counted(all as u64, "repeat");
                let valid = format!("{valid} of {all} valid");
                if why.is_empty() { valid } else { format!("{}; {valid}", why.join(", ")) }
            }
        };
        let noise = if figure.noise.is_some() { ", noisy" } else { "" };
        Some(Self {
            x,
            y: figure.mean,
            interval: figure.ends(),
            counts: figure.is_valid(),
            bounded: figure.is_bounded(),
            beyond_timeout: figure.beyond_timeout,
            words: format!("{place}: {value}; {repeats}{noise}"),
        })
    }

    /// Whether the value is valid, or a bound of it is known.
    pub(crate) fn is_known(&self) -> bool {
        self.counts || self.bounded
    }

    /// The values that a scale must include: the value and the ends of its confidence interval. Distant ends are
    /// limited to half and twice the value, because they would flatten everything else.
    pub(crate) fn reach(&self) -> impl Iterator<Item = f64> + use<> {
        const FARTHEST: f64 = 2.0;
        let Some(mean) = self.y else { return Vec::new().into_iter() };
        let [low, high] = self.interval.unwrap_or([mean, mean]);
        vec![low.max(mean / FARTHEST), mean, high.min(mean * FARTHEST)].into_iter()
    }
}

/// The value with its confidence interval or its bounds, like `1.24 ms (1.20 .. 1.29)` or `≤ 1.50 ms`.
pub(crate) fn value_words(figure: &Figure, unit: Unit) -> String {
    if figure.is_bounded() {
        return bounds_words(&figure.bounds, |value| unit.words(value));
    }
    let value = figure.mean.map_or_else(|| "> timeout".into(), |mean| unit.words(mean));
    match figure.interval {
        Some([low, high]) => {
            let range = quantity::range(&value, &unit.words(low), &unit.words(high));
            format!("{value} ({range})")
        }
        None => value,
    }
}

/// The values that a scale for `panels` must include. Only valid and bounded values are used; if there are none, all
/// values.
pub(crate) fn reach(panels: &[Panel]) -> Vec<f64> {
    let spots = || panels.iter().flat_map(|panel| &panel.lines).flat_map(|line| &line.spots);
    let counting: Vec<f64> = spots().filter(|spot| spot.is_known()).flat_map(Spot::reach).collect();
    if counting.is_empty() { spots().flat_map(Spot::reach).collect() } else { counting }
}

#[cfg(test)]
mod tests {
    use weir_analysis::{Repeated, Sample};
    use weir_results::Reason;

    use super::*;

    fn figure(mean: f64, reasons: &[&[Reason]]) -> Figure {
        let repeated = |(repeat, reasons): (usize, &&[Reason])| Repeated {
            repeat: repeat as u32,
            sample: Sample::Value(mean),
            reasons: reasons.to_vec(),
            ..Repeated::default()
        };
        let valid = reasons.iter().filter(|reasons| reasons.is_empty()).count();
        let repeats = reasons.iter().enumerate().map(repeated).collect();
        Figure {
            mean: Some(mean),
            interval: Some([mean * 0.9, mean * 4.0]),
            valid,
            repeats,
            ..Figure::default()
        }
    }

    #[test]
    fn a_spot_says_where_it_is_and_why_it_does_not_count() {
        let words =
            |figure: &Figure| Spot::of(0.5, figure, Unit::PerSecond, "nginx at 0.5").map(|spot| spot.words);
        assert_eq!(
            words(&figure(1_000.0, &[&[], &[]])).unwrap(),
            "nginx at 0.5: 1,000/s (900 .. 4,000); 2 repeats"
        );
        assert_eq!(
            words(&figure(1_000.0, &[&[], &[Reason::HostNoise]])).unwrap(),
            "nginx at 0.5: 1,000/s (900 .. 4,000); host-noise; 1 of 2 repeats valid"
        );
        let beyond = Figure { beyond_timeout: true, valid: 1, ..Figure::default() };
        assert!(words(&beyond).unwrap().contains("> timeout"));
        assert_eq!(words(&Figure::default()), None);
    }

    #[test]
    fn a_scale_is_that_of_the_figures_that_count() {
        let line = |figures: &[Figure]| Line {
            name: "nginx".into(),
            color: "green",
            dashed: false,
            marked: true,
            spots: figures.iter().filter_map(|figure| Spot::of(0.0, figure, Unit::PerSecond, "")).collect(),
        };
        let panel = |figures: &[Figure]| [Panel { title: String::new(), lines: vec![line(figures)] }];
        let invalid: &[&[Reason]] = &[&[Reason::Errors]];
        let both = [figure(10.0, &[&[]]), figure(1e6, invalid)];
        assert_eq!(reach(&panel(&both)), [9.0, 10.0, 20.0], "an interval may be wider than the chart");
        assert_eq!(reach(&panel(&both[1..])).len(), 3);
        assert!(reach(&panel(&[])).is_empty());
    }
}
