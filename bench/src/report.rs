//! A table for people and the same figures for machines.

use serde::Serialize;
use std::fmt::Write;

/// One line: what was measured, ours and a peer's, medians of so many runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What was measured.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Encore's median.
    pub ours: f64,
    /// The peer's median; nothing where there is no peer.
    pub peer: Option<f64>,
    /// Which peer.
    pub peer_name: Option<String>,
    /// Ours by the peer's.
    pub ratio: Option<f64>,
    /// How many runs each median is of.
    pub runs: usize,
}

impl Figure {
    /// A figure of these runs, ours and, if there is one, a peer's.
    pub fn new(name: &str, unit: &str, ours: &[f64], peer: Option<(&str, &[f64])>) -> Self {
        let our_median = median(ours);
        let peer_median = peer.map(|(_, runs)| median(runs));
        Self {
            name: name.to_owned(),
            unit: unit.to_owned(),
            ours: our_median,
            peer: peer_median,
            peer_name: peer.map(|(name, _)| name.to_owned()),
            ratio: peer_median.filter(|peer| *peer != 0.0).map(|peer| our_median / peer),
            runs: ours.len(),
        }
    }
}

/// All figures, and what must be said beside them.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The figures.
    pub figures: Vec<Figure>,
    /// Peers that were missing, failures that were counted, and on what it ran.
    pub remarks: Vec<String>,
}

impl Report {
    /// The table.
    pub fn table(&self) -> String {
        let mut text = String::new();
        let width = self.figures.iter().map(|figure| figure.name.chars().count()).max().unwrap_or(4);
        let header = ("what", "unit", "Encore", "peer", "ratio");
        let _ = writeln!(
            text,
            "{:<width$}  {:<10} {:>12} {:>12} {:>8}  peer's name",
            header.0, header.1, header.2, header.3, header.4
        );
        for figure in &self.figures {
            let peer = figure.peer.map(number).unwrap_or_default();
            let ratio = figure.ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default();
            let ours = number(figure.ours);
            let (name, unit) = (&figure.name, &figure.unit);
            let peer_name = figure.peer_name.as_deref().unwrap_or_default();
            let line = format!("{name:<width$}  {unit:<10} {ours:>12} {peer:>12} {ratio:>8}  {peer_name}");
            let _ = writeln!(text, "{}", line.trim_end());
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "- {remark}");
        }
        text
    }
}

/// The middle one; of an even number the lower of the two.
pub fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

fn number(value: f64) -> String {
    if value.abs() >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_medians() {
        let figure = Figure::new("holds", "1/s", &[10.0, 1_000.0, 30.0], Some(("a peer", &[10.0, 20.0, 15.0])));
        assert_eq!((figure.ours, figure.peer, figure.ratio, figure.runs), (30.0, Some(15.0), Some(2.0), 3));
    }

    #[test]
    fn a_table_names_peers_and_remarks() {
        let report = Report {
            figures: vec![
                Figure::new("holds", "1/s", &[3.0], None),
                Figure::new("more", "1/s", &[4.0], Some(("X", &[2.0]))),
            ],
            remarks: vec!["etcd is not installed".into()],
        };
        let table = report.table();
        assert!(table.contains("2.00  X"), "{table}");
        assert!(table.ends_with("- etcd is not installed\n"), "{table}");
    }
}
