//! Prints the report of a synthetic run, and writes its files:
//! `fixture DIR [good|mixed|single|axes|large] [CPUS..]`.

#[path = "../tests/it/fixture.rs"]
mod fixture;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().expect("a directory");
    let kind = arguments.next();
    let mut cpus: Vec<f64> = arguments.filter_map(|cpus| cpus.parse().ok()).collect();
    if cpus.is_empty() {
        cpus.push(0.5);
    }
    let (run, cells) = match kind.as_deref() {
        Some("good") => fixture::run(fixture::Scene::Good, &cpus),
        Some("single") => fixture::run(fixture::Scene::Single, &cpus),
        Some("axes") => fixture::run_over(&[0.25, 0.5, 1.0], &[4, 8, 16]),
        Some("large") => {
            let (run, mut cells) = fixture::run(fixture::Scene::Good, &[0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0]);
            fixture::lengthen(&mut cells, 62);
            (run, cells)
        }
        _ => fixture::run(fixture::Scene::Mixed, &cpus),
    };
    let summary = weir_analysis::summarize(&run, &cells);
    let written = weir_report::write(&run, &cells, &summary, dir.as_ref()).expect("a writable directory");
    println!("{}", weir_report::terminal(&run, &cells, &summary, 120, false));
    println!("{}", written.html.display());
}
