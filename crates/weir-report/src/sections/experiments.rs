//! Tables over load points: users at a limit, limits beside each other, and the share of direct.

use weir_analysis::{DataLimit, Experiment, Point, Row, Summary, axes_words, quantity};

use crate::model::{Column, Entry, KEEP, Section, Table};
use crate::sections::tables::{cost, counts, figure, latency_entry, microseconds, of_direct};

/// Columns of a number of users: what the closed load gave.
const USER_COLUMNS: [(&str, u8); 7] = [
    ("Users", KEEP),
    ("RPS", KEEP),
    ("CPU % range", KEEP),
    ("CPU per request", 3),
    ("p99", 2),
    ("Of direct", 7),
    ("Valid repeats", 6),
];

/// The sections of every experiment; `full_share` is the share of its limit from which a gateway is fully loaded.
pub(crate) fn sections(summary: &Summary, full_share: f64) -> Vec<Section> {
    let several = summary.experiments.len() > 1;
    let drawn = summary.experiments.iter().enumerate().flat_map(|(place, experiment)| {
        let drawing = Drawing { experiment, points: &summary.points, full_share };
        let about = if several { drawing.at_axes() } else { String::new() };
        let sections =
            [("users", drawing.users()), ("limits", drawing.limits()), ("direct", drawing.direct())];
        sections.into_iter().filter_map(move |(name, section)| {
            let section = section?;
            let title = format!("{}{about}", section.title);
            Some(Section { id: format!("{name}-{place}"), title, ..section })
        })
    });
    drawn.collect()
}

struct Drawing<'a> {
    experiment: &'a Experiment,
    points: &'a [Point],
    full_share: f64,
}

impl Drawing<'_> {
    /// What tells the experiment from the others of the run.
    fn at_axes(&self) -> String {
        let axes = axes_words(&self.experiment.axes);
        let loads = self.experiment.loads.join(", ");
        if axes.is_empty() { format!(": {loads}") } else { format!(": {loads}; {axes}") }
    }

    /// More and more users at the greatest limit; `None` where there is one number of them.
    fn users(&self) -> Option<Section> {
        let limit = self.experiment.limits.last().filter(|limit| limit.closed.len() > 1)?;
        let place = self.experiment.limits.len() - 1;
        let groups =
            self.gateways().into_iter().map(|gateway| self.group(gateway, place, Entry::gateway(gateway)));
        let table = self.table("Users".into(), "Gateway", groups.collect());
        Some(Section {
            id: String::new(),
            title: format!("Users with {}", limit_words(limit)),
            intro: format!(
                "A rising number of closed-loop connections at the highest limit. {}",
                self.how_to_read()
            ),
            conclusions: self.experiment.users_conclusions.clone(),
            tables: vec![table],
        })
    }

    /// Every limit with every number of users; `None` where there is one limit.
    fn limits(&self) -> Option<Section> {
        if self.experiment.limits.len() < 2 {
            return None;
        }
        let mut tables = vec![self.per_core()];
        for gateway in self.gateways() {
            let limits = self.experiment.limits.iter().enumerate();
            let groups =
                limits.map(|(place, limit)| self.group(gateway, place, Entry::text(limit_words(limit))));
            tables.push(self.table(
                format!("{gateway}: data-plane limit and users"),
                "Limit",
                groups.collect(),
            ));
        }
        let conclusions =
            self.experiment.per_core.iter().map(|per_core| per_core.conclusion.clone()).collect();
        Some(Section {
            id: String::new(),
            title: "Data-plane limit and users".into(),
            intro: format!("All limits of the data plane with all numbers of users. {}", self.how_to_read()),
            conclusions,
            tables,
        })
    }

    /// Through the gateway over direct; `None` where no pair was measured.
    fn direct(&self) -> Option<Section> {
        let limits = &self.experiment.limits;
        let places = || limits.iter().flat_map(|limit| &limit.closed);
        let is_paired =
            |place: &usize| self.points[*place].gateways().any(|row| row.ratio_to_direct.is_some());
        if !places().any(is_paired) {
            return None;
        }
        let gateways = self.gateways();
        let mut columns =
            vec![Column::text("Limit", KEEP), Column::number("Users", KEEP), Column::number("Direct RPS", 8)];
        columns.extend(gateways.iter().map(|gateway| Column::number(gateway, KEEP)));
        let groups = limits.iter().map(|limit| {
            let row = |place: &usize| {
                let point = &self.points[*place];
                let direct = point.direct().map(|row| figure(&row.throughput_per_s, quantity::rate));
                let mut entries = vec![
                    Entry::text(limit_words(limit)),
                    Entry::text(point.connections.to_string()),
                    direct.unwrap_or_else(|| Entry::text("–")),
                ];
                let of = |gateway: &&str| row_of(point, gateway).map_or_else(|| Entry::text("–"), of_direct);
                entries.extend(gateways.iter().map(of));
                entries
            };
            limit.closed.iter().map(row).collect()
        });
        let rows = Table::merged(groups.collect(), &[0]);
        Some(Section {
            id: String::new(),
            title: "Throughput as share of direct".into(),
            intro:
                "Throughput through each gateway, as share of the same load sent straight to the upstream \
                in the same repeat. If the rig limits direct, the share is an upper bound (≤)."
                    .into(),
            conclusions: self.experiment.direct_conclusions.clone(),
            tables: vec![Table { caption: "Share of direct".into(), columns, rows }],
        })
    }

    fn how_to_read(&self) -> String {
        format!(
            "Full load is at least {} of the CPU limit; throughput there is the maximum for that limit. CPU % \
            range is the minimum and maximum per second of the sustained phases, as share of the limit.",
            quantity::percent(self.full_share)
        )
    }

    fn gateways(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for saturation in &self.experiment.saturations {
            if !names.contains(&saturation.gateway.as_str()) {
                names.push(&saturation.gateway);
            }
        }
        names
    }

    /// A table of groups whose first entry, open loads and analysis are those of the group as a whole.
    fn table(&self, caption: String, first: &str, groups: Vec<Vec<Vec<Entry>>>) -> Table {
        let mut columns = vec![Column::text(first, KEEP)];
        columns.extend(USER_COLUMNS.map(|(title, keep)| match title {
            "Valid repeats" => Column::text(title, keep),
            _ => Column::number(title, keep),
        }));
        let own = columns.len();
        for (_, rate) in self.open_loads() {
            columns.push(Column::number(&format!("p50{rate}"), 1));
            columns.push(Column::number(&format!("p99{rate}"), 5));
        }
        columns.push(Column::prose("Analysis"));
        let merged: Vec<usize> = std::iter::once(0).chain(own..columns.len()).collect();
        Table { caption, columns, rows: Table::merged(groups, &merged) }
    }

    /// A gateway at a limit: a row for each number of users.
    fn group(&self, gateway: &str, place: usize, first: Entry) -> Vec<Vec<Entry>> {
        let limit = &self.experiment.limits[place];
        let analysis =
            self.experiment.saturation(gateway, place).map(|saturation| saturation.analysis.clone());
        let mut latencies = Vec::new();
        for (load, _) in self.open_loads() {
            let point = limit.open.iter().map(|place| &self.points[*place]).find(|point| point.load == load);
            let row = point.and_then(|point| row_of(point, gateway));
            let of = |name: &str| row.map_or_else(|| Entry::text("–"), |row| latency_entry(row, name));
            latencies.extend([of("p50"), of("p99")]);
        }
        let row = |place: &usize| {
            let point = &self.points[*place];
            let mut entries = vec![first.clone(), Entry::text(point.connections.to_string())];
            match row_of(point, gateway) {
                Some(row) => entries.extend(user_entries(row)),
                None => {
                    let missing = USER_COLUMNS.len() - 1;
                    entries.extend(std::iter::repeat_with(|| Entry::text("–")).take(missing));
                }
            }
            entries.extend(latencies.iter().cloned());
            entries.push(Entry::text(analysis.clone().unwrap_or_default()));
            entries
        };
        limit.closed.iter().map(row).collect()
    }

    /// The open loads that every limit may have, with their rate in words.
    fn open_loads(&self) -> Vec<(&str, String)> {
        let mut loads: Vec<(&str, String)> = Vec::new();
        let places = self.experiment.limits.iter().flat_map(|limit| &limit.open);
        for point in places.map(|place| &self.points[*place]) {
            if !loads.iter().any(|(known, _)| *known == point.load) {
                let rate = point.rate_per_s.map(|per_s| format!(" at {}", quantity::rate(per_s)));
                loads.push((point.load.as_str(), rate.unwrap_or_default()));
            }
        }
        loads
    }

    fn per_core(&self) -> Table {
        let limits = &self.experiment.limits;
        let mut columns = vec![Column::text("Gateway", KEEP)];
        columns.extend(limits.iter().map(|limit| Column::number(&limit.words(), KEEP)));
        columns.push(Column::number("Highest / lowest limit", KEEP));
        let rows = self.experiment.per_core.iter().map(|per_core| {
            let mut entries = vec![Entry::gateway(&per_core.gateway)];
            entries.extend(per_core.per_core_per_s.iter().enumerate().map(|(place, of)| {
                let saturation = self.experiment.saturation(&per_core.gateway, place);
                let counts = saturation.is_some_and(|saturation| !saturation.counted_at.is_empty());
                match of {
                    Some(of) => figure(of, quantity::rate),
                    None if counts => Entry::text("not full"),
                    None => Entry::text("n/a"),
                }
            }));
            entries.push(match &per_core.efficiency {
                Some(efficiency) => figure(efficiency, quantity::percent),
                None => Entry::text("–"),
            });
            entries
        });
        Table { caption: "Throughput per core at full load".into(), columns, rows: rows.collect() }
    }
}

/// What a closed load gave, in the order of [`USER_COLUMNS`] after the users.
fn user_entries(row: &Row) -> Vec<Entry> {
    let range = row.cpu_share_range.map(|range| {
        let [least, greatest] = [range.least, range.greatest].map(quantity::percent_of_limit);
        let text = match least == greatest {
            true => least,
            false => format!("{} %", quantity::range(&greatest, &least, &greatest)),
        };
        Entry { text, void: !range.counts, ..Entry::default() }
    });
    vec![
        figure(&row.throughput_per_s, quantity::rate),
        range.unwrap_or_else(|| Entry::text("n/a")),
        cost(row, &row.cpu_us_per_request, microseconds),
        latency_entry(row, "p99"),
        of_direct(row),
        counts(row, &row.throughput_per_s, true),
    ]
}

fn row_of<'a>(point: &'a Point, gateway: &str) -> Option<&'a Row> {
    point.rows.iter().find(|row| row.gateway == gateway)
}

/// `0.5 cores, 1.00 GiB`.
fn limit_words(limit: &DataLimit) -> String {
    match limit.memory_bytes {
        Some(bytes) => format!("{}, {}", limit.words(), quantity::bytes(bytes as f64)),
        None => limit.words(),
    }
}
