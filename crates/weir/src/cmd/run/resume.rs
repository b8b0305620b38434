//! The command that resumes a run, with all flags that it needs, so that users can paste it.

use clap::ValueEnum;

use super::super::hint::quoted;
use super::Args;

impl Args {
    /// Returns `weir run --resume ID` with the drivers, report paths and `--fail-on` of this run. The caller adds
    /// `--db`.
    pub(super) fn resume_command(&self, id: &str) -> String {
        let mut command = format!("weir run --resume {id}");
        let mut add = |flag: &str, value: &str| command.push_str(&format!(" {flag} {}", quoted(value)));
        self.drivers.iter().for_each(|folder| add("--drivers", &folder.to_string_lossy()));
        for (flag, path) in [("--out", &self.out), ("--junit", &self.junit)] {
            path.iter().for_each(|path| add(flag, &path.to_string_lossy()));
        }
        self.baseline.iter().for_each(|run| add("--baseline", run));
        let outcomes: Vec<_> = self.fail_on.iter().filter_map(ValueEnum::to_possible_value).collect();
        let outcomes: Vec<&str> = outcomes.iter().map(|value| value.get_name()).collect();
        if !outcomes.is_empty() {
            add("--fail-on", &outcomes.join(","));
        }
        self.engine.iter().for_each(|engine| add("--engine", engine.name()));
        if let Some(context) = self.context() {
            add("--on", &context.map_or_else(|| "k8s".to_owned(), |context| format!("k8s:{context}")));
            for (flag, value) in self.cluster.resume_flags() {
                let value = value.map_or_else(String::new, |value| format!(" {}", quoted(value)));
                command.push_str(&format!(" {flag}{value}"));
            }
        }
        if self.images {
            command.push_str(" --images");
        }
        if self.json {
            command.push_str(" --json");
        }
        command
    }
}
