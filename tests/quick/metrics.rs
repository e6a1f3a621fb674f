//! docs/reference/metrics.md names exactly the metrics that the code has.

use std::{collections::BTreeSet, fs};

use crate::{structure::sources, support::source::root};

fn is_metric(name: &&str) -> bool {
    name.starts_with("reseq_") && name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_')
}

#[test]
fn the_reference_lists_exactly_the_metrics_of_the_code() {
    let code: Vec<String> =
        sources().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let literals = code.iter().flat_map(|text| text.split('"')).filter(is_metric);
    // Leaves out the metrics of unit tests, and the parts of histograms.
    let in_code: BTreeSet<&str> = literals
        .filter(|name| !name.starts_with("reseq_test_") && !name.ends_with("_seconds_count"))
        .collect();
    let page = fs::read_to_string(root().join("docs/reference/metrics.md")).unwrap();
    // The first column of each table.
    let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    let in_page: BTreeSet<&str> =
        rows.flat_map(|names| names.split('`')).filter(is_metric).collect();
    assert!(in_code.len() > 30, "{in_code:?}");
    assert_eq!(in_code.difference(&in_page).collect::<Vec<_>>(), [&""; 0], "missing in metrics.md");
    assert_eq!(in_page.difference(&in_code).collect::<Vec<_>>(), [&""; 0], "not in the code");
    // Without a row there, a metric has no text, and counts as a gauge.
    let names = fs::read_to_string(root().join("crates/telemetry/src/names.rs")).unwrap();
    let in_names: BTreeSet<&str> = names.split('"').filter(is_metric).collect();
    let of_reseq: BTreeSet<&str> =
        in_code.into_iter().filter(|name| !name.starts_with("reseq_connect_")).collect();
    assert_eq!(in_names, of_reseq, "names.rs");
}

/// The values of `name: value` in the alert rules, in order.
fn in_rules(rules: &str, name: &str) -> Vec<String> {
    let begin = format!("{name}: ");
    let lines = rules.lines().map(|line| line.trim_start().trim_start_matches("- "));
    lines.filter_map(|line| line.strip_prefix(&begin)).map(str::to_owned).collect()
}

#[test]
fn alerts_have_sections_and_only_existing_metrics_are_used() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let rules = read("deploy/prometheus/reseq.rules.yml");
    let (mut alerts, mut pages) = (in_rules(&rules, "alert"), in_rules(&rules, "runbook_url"));
    // An alert with two severities has a rule for each.
    [&mut alerts, &mut pages].into_iter().for_each(Vec::dedup);
    assert!(alerts.len() > 10);
    let expected =
        alerts.iter().map(|alert| format!("docs/how-to/alerts.md#{}", alert.to_ascii_lowercase()));
    assert_eq!(pages, expected.collect::<Vec<_>>());
    let page = read("docs/how-to/alerts.md");
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    assert_eq!(sections, alerts);

    let reference = read("docs/reference/metrics.md");
    let dashboard = read("deploy/grafana/reseq.json");
    let _: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    let words = |text: &str| -> BTreeSet<String> {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        words.filter(|word| word.starts_with("reseq_")).map(str::to_owned).collect()
    };
    let known = words(&reference);
    for metric in words(&rules).union(&words(&dashboard)) {
        let of_histogram = ["_bucket", "_sum", "_count"].iter();
        let base = of_histogram.filter_map(|part| metric.strip_suffix(part)).next();
        assert!(known.contains(base.unwrap_or(metric)), "{metric} does not exist");
    }
}
