//! The table of `reseq status`.

use super::{Seen, Stats};
use crate::{
    output::{human_age, table},
    style,
};

/// The names of the columns.
const COLUMNS: [&str; 14] = [
    "destination",
    "last",
    "waiting",
    "processing",
    "ready",
    "delivering",
    "delayed",
    "halted",
    "dead_letters",
    "delivered",
    "paused",
    "head",
    "age",
    "blocked by",
];

/// Each destination's line of the table, followed by the causes that block it.
pub(super) fn shown(all: &[Seen], all_blocks: &[Vec<String>]) -> String {
    let mut rows = vec![COLUMNS.map(str::to_owned).to_vec()];
    rows.extend(all.iter().map(|seen| row(&seen.name, &seen.stats)));
    let table = match all.is_empty() {
        true => String::new(),
        false => table(&rows),
    };
    let mut lines = table.lines();
    let mut text: String = lines.next().map(|head| format!("{head}\n")).unwrap_or_default();
    for (line, blocks) in lines.zip(all_blocks) {
        text += &format!("{line}\n");
        let mark = style::paint(style::BAD, "!");
        text.extend(blocks.iter().map(|block| format!("  {mark} {block}\n")));
    }
    text
}

/// The line of a destination.
fn row(name: &str, stats: &Stats) -> Vec<String> {
    let (mut head, mut age, mut blocked_by) = ("-".to_owned(), "-".to_owned(), "-".to_owned());
    if let Some(oldest) = &stats.head {
        let of_key = oldest.key.as_ref().map(|key| format!(" of {key:?}")).unwrap_or_default();
        head = format!("{} ({}){of_key}", oldest.sequence, oldest.state);
        age = human_age(oldest.age_ms);
        blocked_by = oldest.blocked_by.clone().unwrap_or(blocked_by);
    }
    let numbers = [
        stats.last_sequence,
        stats.waiting,
        stats.processing,
        stats.ready,
        stats.delivering,
        stats.delayed,
        stats.halted,
        stats.dead_letters,
        stats.delivered_total,
    ];
    let mut row = vec![name.to_owned()];
    row.extend(numbers.map(|number| number.to_string()));
    row.extend([stats.paused.shown(), head, age, blocked_by]);
    row
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_table_is_aligned_and_shows_why_a_destination_waits() {
        let seen = |name: &str, json: Value| Seen {
            name: name.to_owned(),
            stats: Stats::deserialize(&json).unwrap(),
            json,
        };
        let erp = json!({"last_sequence": 1042, "waiting": 3, "ready": 2, "delivering": 1,
            "delivered_total": 32, "a_new_field": 1,
            "head": {"sequence": 33, "key": null, "state": "processing", "age_ms": 61_812,
                     "blocked_by": "transform"}});
        let all = [seen("erp", erp), seen("quite-a-long-name", json!({}))];
        let text = shown(&all, &[vec!["why".to_owned()], Vec::new()]);
        let text = anstream::adapter::strip_str(&text).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("33 (processing)  1 min 1 s  transform"), "{text}");
        let end_of = |line: &str, word: &str| line.find(word).map(|at| at + word.len());
        assert_eq!(end_of(lines[0], "last"), end_of(lines[1], "1042"));
        assert_eq!(lines[0].find("head"), lines[1].find("33 ("));
        assert_eq!((lines[2], lines.len()), ("  ! why", 4));
        assert_eq!(shown(&[], &[]), "");
    }
}
