//! Earlier spellings of commands. They still work, and no help shows them.

use std::ffi::OsString;

use clap::Subcommand;

use super::lanes;

/// Earlier commands, and their current names.
const EARLIER: [(&str, [&str; 2]); 5] = [
    ("pause", ["destinations", "pause"]),
    ("resume", ["destinations", "resume"]),
    ("purge", ["destinations", "purge"]),
    ("retry-head", ["lanes", "retry"]),
    ("skip-head", ["lanes", "skip"]),
];

/// Translates the arguments of the program into the current spelling.
pub fn of_today(mut args: Vec<OsString>) -> Vec<OsString> {
    let word = |at: usize| args.get(at).and_then(|word| word.to_str()).unwrap_or_default();
    let today = match (word(1), word(2)) {
        ("lanes", "" | "help" | "-h" | "--help") => None,
        // Without a verb, `lanes` once listed the lanes.
        ("lanes", verb) if !lanes::Command::has_subcommand(verb) => Some(["lanes", "list"]),
        (earlier, _) => EARLIER.iter().find(|(word, _)| *word == earlier).map(|(_, today)| *today),
    };
    if let Some(today) = today {
        args.splice(1..2, today.map(OsString::from));
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_spellings_become_those_of_today() {
        for (earlier, today) in [
            ("pause erp delivery", "destinations pause erp delivery"),
            ("retry-head erp --all", "lanes retry erp --all"),
            ("lanes erp", "lanes list erp"),
            ("lanes --limit 3 erp", "lanes list --limit 3 erp"),
            ("lanes why erp", "lanes why erp"),
            ("lanes --help", "lanes --help"),
            ("send pause", "send pause"),
            ("", ""),
        ] {
            let words = |line: &str| {
                let line = format!("reseq {line}");
                line.split_whitespace().map(OsString::from).collect::<Vec<_>>()
            };
            assert_eq!(of_today(words(earlier)), words(today));
        }
    }
}
