//! False positives and power of comparisons, measured with many random datasets.

use weir_analysis::compare::{
    Dataset, FigureComparison, Measure, Question, RunSource, Series, Source, Verdict, compare,
};
use weir_analysis::{Figure, Range, Repeated, Sample, interval};
use weir_results::Reason;

use crate::runs::run;

/// The number of datasets for each property.
const SETS: u64 = 1_000;
/// Number of pairs of gateway and load point in a dataset. Each pair has four values.
const CELLS: usize = 4;

/// Variation of the rig's CPU time per request that the speed of the host does not explain.
const RIG_SIGMA: f64 = 0.01;
/// Exponent that relates the slowdowns of gateway and rig: `gateway = rig ^ SPEED_POWER`.
const SPEED_POWER: f64 = 1.15;

/// The share of repeats with host noise.
const NOISY_SHARE: f64 = 0.7;

/// SplitMix64 (Steele, Lea and Flood 2014), so that every test run draws the same values.
struct Draws(u64);

impl Draws {
    fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// A factor whose logarithm is normal with the standard deviation `sigma` (Box and Muller 1958).
    fn factor(&mut self, sigma: f64) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        (sigma * radius * (std::f64::consts::TAU * self.uniform()).cos()).exp()
    }
}

/// The parameters of a random pair of datasets.
struct Drawing {
    repeats: usize,
    sigma: f64,
    /// How much the host's influence varies between blocks. In each block, it is the same for A and B.
    block_sigma: f64,
    /// How much the speed of the host varies between cells. With zero, the speed is constant, and the datasets contain
    /// no CPU time of the rig.
    speed_sigma: f64,
    /// The effect of host noise on a value in [`NOISY_SHARE`] of the repeats; zero on a quiet host.
    noise_sigma: f64,
    /// The true ratio of B to A.
    ratio: f64,
    cells: usize,
    measures: Vec<Measure>,
}

pub(crate) fn foreign(label: &str, series: Vec<Series>) -> Dataset {
    let (notes, warnings) = (Vec::new(), Vec::new());
    let source = Source::Foreign { program: "a formula", files: vec![label.into()], notes, warnings };
    Dataset { label: label.into(), source, series }
}

pub(crate) fn gateway_of_a_run(gateway: &str, series: Vec<Series>) -> Dataset {
    let source = RunSource {
        run: run(&["old", "new"], None),
        gateway: Some(gateway.into()),
        gateways: Vec::new(),
        cells_missing: 0,
        failed: Vec::new(),
    };
    Dataset { label: gateway.into(), source: Source::Run(Box::new(source)), series }
}

fn drawn(draws: &mut Draws, drawing: &Drawing) -> [Vec<Series>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for at in 0..drawing.cells {
        let mut figures = [Vec::new(), Vec::new()];
        let speeds = |draws: &mut Draws| -> Vec<f64> {
            match drawing.speed_sigma {
                0.0 => vec![1.0; drawing.repeats],
                sigma => (0..drawing.repeats).map(|_| draws.factor(sigma)).collect(),
            }
        };
        let speeds = [speeds(draws), speeds(draws)];
        for measure in &drawing.measures {
            let typical = draws.between(10.0, 1e6);
            let blocks: Vec<f64> = (0..drawing.repeats).map(|_| draws.factor(drawing.block_sigma)).collect();
            for (side, ratio) in [1.0, drawing.ratio].into_iter().enumerate() {
                let repeated =
                    (0_u32..).zip(blocks.iter().zip(&speeds[side])).map(|(repeat, (block, speed))| {
                        let value =
                            typical * ratio * block * speed.powf(SPEED_POWER) * draws.factor(drawing.sigma);
                        disturbed(draws, repeat, value, drawing.noise_sigma)
                    });
                figures[side].push((*measure, Figure::of(repeated.collect())));
            }
        }
        for ((side, figures), speeds) in sides.iter_mut().zip(figures).zip(speeds) {
            let rig = speeds.iter().map(|speed| Some(30.0 * speed * draws.factor(RIG_SIGMA)));
            let rig_cpu = match drawing.speed_sigma {
                0.0 => Figure::default(),
                _ => Figure::of_valid(rig.collect::<Vec<_>>()),
            };
            side.push(Series { load: format!("load {at}"), figures, rig_cpu, ..Series::default() });
        }
    }
    sides
}

/// Returns a repeat with `value`, which host noise may raise. The lower bound of a raised value comes from an estimate
/// of the noise, which may be too high or too low. A raised value is valid if its lower bound is at least 90 % of the
/// value.
fn disturbed(draws: &mut Draws, repeat: u32, value: f64, sigma: f64) -> Repeated {
    if sigma == 0.0 || draws.uniform() > NOISY_SHARE {
        return Repeated { repeat, sample: Sample::Value(value), ..Repeated::default() };
    }
    let rise = draws.factor(sigma);
    let rise = rise.max(rise.recip());
    let raised = value * rise;
    let low = raised / (rise * draws.factor(0.1));
    let range = Range { low: Some(low.min(raised)), high: Some(raised * 1.04) };
    let is_valid = low >= raised * 0.9;
    let reasons = if is_valid { Vec::new() } else { vec![Reason::HostNoise] };
    Repeated { repeat, sample: Sample::Value(raised), reasons, range }
}

/// Draws and compares [`SETS`] pairs of datasets. Returns the number of pairs for which `is_meant` accepts at least one
/// compared value.
fn count(
    seed: u64,
    of: impl Fn(&mut Draws) -> Drawing,
    question: &Question,
    paired: bool,
    is_meant: impl Fn(&FigureComparison) -> bool,
) -> u64 {
    let mut draws = Draws(seed);
    let hits = (0..SETS).filter(|_| {
        let drawing = of(&mut draws);
        let [a, b] = drawn(&mut draws, &drawing);
        let (a, b) = match paired {
            true => (gateway_of_a_run("old", a), gateway_of_a_run("new", b)),
            false => (foreign("A", a), foreign("B", b)),
        };
        let comparison = compare(&a, &b, question).expect("they have the same loads");
        assert_eq!(comparison.is_paired, paired);
        comparison.points.iter().flat_map(|point| &point.figures).any(&is_meant)
    });
    hits.count() as u64
}

fn is_claimed(of: &FigureComparison) -> bool {
    matches!(of.verdict, Some(Verdict::Better | Verdict::Worse))
}

/// Two measurements of the same gateway, with the noise and the repeats of real runs.
fn the_same_twice(draws: &mut Draws) -> Drawing {
    Drawing {
        repeats: 6 + (draws.uniform() * 5.0) as usize,
        sigma: draws.between(0.02, 0.10),
        block_sigma: draws.between(0.0, 0.10),
        speed_sigma: 0.0,
        noise_sigma: 0.0,
        ratio: 1.0,
        cells: CELLS,
        measures: Measure::JUDGED.to_vec(),
    }
}

#[test]
fn at_most_one_percent_of_equal_pairs_is_called_different() {
    for paired in [false, true] {
        let wrong = count(1, the_same_twice, &Question::default(), paired, is_claimed);
        assert!(wrong <= SETS / 100, "{wrong} of {SETS}, paired: {paired}");
    }
}

/// Like [`the_same_twice`], but with host noise. Its effect on CPU time per request and latencies is as large as the
/// measured effect of a process that uses a tenth of a core (`docs/decisions/0024-noise-by-effect.md`).
fn the_same_twice_beside_noise(draws: &mut Draws) -> Drawing {
    let noise_sigma = draws.between(0.05, 0.6);
    Drawing { noise_sigma, ..the_same_twice(draws) }
}

#[test]
fn at_most_one_percent_of_equal_noisy_pairs_is_called_different() {
    for paired in [false, true] {
        let wrong = count(11, the_same_twice_beside_noise, &Question::default(), paired, is_claimed);
        assert!(wrong <= SETS / 100, "{wrong} of {SETS}, paired: {paired}");
    }
    let sequential = Question { is_sequential: true, ..Question::default() };
    let wrong = count(12, the_same_twice_beside_noise, &sequential, true, is_claimed);
    assert!(wrong <= SETS / 100, "{wrong} of {SETS} with repeated looks");
}

#[test]
fn without_margins_the_family_error_rate_is_the_nominal_one() {
    let mut question = Question::default();
    for measure in Measure::JUDGED {
        question.margins.set(measure, 1e-9);
    }
    for paired in [false, true] {
        let wrong = count(2, the_same_twice, &question, paired, is_claimed);
        // The expected count is at most ten, with a standard deviation of about three.
        assert!((1..=20).contains(&wrong), "{wrong} of {SETS}, paired: {paired}");
    }
}

pub(crate) fn only_cpu() -> Question {
    Question { measures: vec![Measure::CpuPerRequest], ..Question::default() }
}

fn cpu_times(repeats: usize, sigma: f64, ratio: f64) -> impl Fn(&mut Draws) -> Drawing {
    move |_| Drawing {
        repeats,
        sigma,
        block_sigma: 0.0,
        speed_sigma: 0.0,
        noise_sigma: 0.0,
        ratio,
        cells: 1,
        measures: vec![Measure::CpuPerRequest],
    }
}

#[test]
fn ten_percent_more_cpu_per_request_is_found_more_often_with_more_repeats() {
    let is_worse = |of: &FigureComparison| of.verdict == Some(Verdict::Worse);
    // The power of the t test with a margin of 5 % at these numbers of repeats: 0.78, 0.98, 0.998.
    for (repeats, least) in [(6, 700), (10, 960), (12, 985)] {
        let found = count(3, cpu_times(repeats, 0.02, 1.1), &only_cpu(), false, is_worse);
        assert!(found >= least, "{found} of {SETS} with {repeats} repeats");
    }
    let wrong = |of: &FigureComparison| matches!(of.verdict, Some(Verdict::Better | Verdict::Same));
    assert_eq!(count(3, cpu_times(6, 0.02, 1.1), &only_cpu(), false, wrong), 0);
}

/// A run on a host whose speed varies by 10 % between cells.
fn on_a_host_that_wanders(repeats: usize, ratio: f64) -> impl Fn(&mut Draws) -> Drawing {
    move |draws| Drawing { speed_sigma: 0.10, ..cpu_times(repeats, 0.02, ratio)(draws) }
}

#[test]
fn the_rig_separates_the_speed_of_the_host_from_the_gateway() {
    let is_worse = |of: &FigureComparison| of.verdict == Some(Verdict::Worse);
    let is_corrected = |of: &FigureComparison| of.host_speed.is_some();
    assert_eq!(count(8, on_a_host_that_wanders(10, 1.1), &only_cpu(), true, is_corrected), SETS);
    // In 5 % of the datasets, the rig's CPU time differs significantly by chance. *Worse* must then also hold without
    // the correction, so it is found less often.
    for (repeats, least) in [(10, 550), (20, 950)] {
        let found = count(8, on_a_host_that_wanders(repeats, 1.1), &only_cpu(), true, is_worse);
        assert!(found >= least, "{found} of {SETS} with {repeats} repeats");
    }
    for repeats in [6, 10, 20] {
        let wrong = count(9, on_a_host_that_wanders(repeats, 1.0), &only_cpu(), true, is_claimed);
        assert_eq!(wrong, 0, "{repeats} repeats");
    }
    // Without the margin, the intervals have their nominal coverage.
    let mut question = only_cpu();
    question.margins.set(Measure::CpuPerRequest, 1e-9);
    let wrong = count(10, on_a_host_that_wanders(10, 1.0), &question, true, is_claimed);
    assert!((1..=20).contains(&wrong), "{wrong} of {SETS}");
}

#[test]
fn three_percent_more_is_never_worse() {
    for repeats in [6, 10] {
        assert_eq!(count(4, cpu_times(repeats, 0.02, 1.03), &only_cpu(), false, is_claimed), 0);
    }
}

#[test]
fn the_smallest_effect_is_detected_with_a_probability_of_80_percent() {
    let smallest = {
        let [a, b] = drawn(&mut Draws(5), &cpu_times(400, 0.03, 1.0)(&mut Draws(0)));
        // The noise is estimated from 400 repeats, and applied to 8 repeats.
        let spread = |series: &Series| {
            let logs: Vec<f64> =
                series.figures[0].1.repeats.iter().map(|of| of.value().unwrap().ln()).collect();
            let [low, high] = interval::of_differences(&logs).unwrap().interval.unwrap();
            (high - low) / 2.0 / 1.966 * 20.0
        };
        let error = ((spread(&a[0]).powi(2) + spread(&b[0]).powi(2)) / 8.0).sqrt();
        // Quantiles of t with 14 degrees of freedom: 2.9768 for 99 %, and 0.8681 for a power of 0.8.
        (1.05_f64.ln() + (2.976_8 + 0.868_1) * error).exp()
    };
    let found = count(6, cpu_times(8, 0.03, smallest), &only_cpu(), false, is_claimed);
    assert!((740..=860).contains(&found), "{found} of {SETS} at a ratio of {smallest}");
    let mut sum = 0.0;
    let mut draws = Draws(7);
    for _ in 0..SETS {
        let [a, b] = drawn(&mut draws, &cpu_times(8, 0.03, 1.0)(&mut Draws(0)));
        let comparison = compare(&foreign("A", a), &foreign("B", b), &only_cpu()).unwrap();
        sum += comparison.points[0].figures[0].smallest_effect.unwrap();
    }
    let reported = 1.0 + sum / SETS as f64;
    assert!((reported / smallest - 1.0).abs() < 0.01, "reported {reported}, true {smallest}");
}
