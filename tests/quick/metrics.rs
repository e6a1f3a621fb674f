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
    // Without those of unit tests, and the parts that a histogram has.
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
}
