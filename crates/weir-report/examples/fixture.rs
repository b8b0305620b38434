//! Prints and writes the reports of a run that never happened: `fixture DIR [good|mixed|single] [CPUS..]`.

#[path = "../tests/it/fixture.rs"]
mod fixture;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().expect("a directory");
    let scene = match arguments.next().as_deref() {
        Some("good") => fixture::Scene::Good,
        Some("single") => fixture::Scene::Single,
        _ => fixture::Scene::Mixed,
    };
    let mut cpus: Vec<f64> = arguments.filter_map(|cpus| cpus.parse().ok()).collect();
    if cpus.is_empty() {
        cpus.push(0.5);
    }
    let (run, cells) = fixture::run(scene, &cpus);
    let summary = weir_analysis::summarize(&run, &cells);
    let written =
        weir_report::write(&run, &cells, &summary, dir.as_ref()).expect("a directory that can be written");
    println!("{}", weir_report::terminal(&run, &cells, &summary, 120, false));
    println!("{}", written.html.display());
}
