//! Tables of the reference that are generated from code. A test compares each with its page. With
//! `RESEQ_WRITE_DOCS=1` the test writes the table into the page instead.

use std::{fs, sync::Mutex};

use super::source::root;

/// Held while a page is read or written, because tests of two tables of a page may run in parallel.
static PAGES: Mutex<()> = Mutex::new(());

/// The text of a page, and the range between the marks of a table.
fn marked(page: &str, name: &str) -> (String, std::ops::Range<usize>) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let begin = text.find(&format!("<!-- generated: {name} ")).expect("the page has the mark");
    let begin = begin + text[begin..].find("-->\n").expect("the mark is a line") + 4;
    let end = begin + text[begin..].find(&format!("<!-- end: {name} -->")).expect("it has an end");
    (text, begin..end)
}

/// The cells of a table in its page, without the head.
pub fn rows(page: &str, name: &str) -> Vec<Vec<String>> {
    let _pages = PAGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (text, range) = marked(page, name);
    let lines = text[range].lines().filter_map(|line| line.strip_prefix('|')?.strip_suffix('|'));
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect();
    lines.skip(2).map(cells).collect()
}

/// Compares `table` with the text in `page` between `<!-- generated: NAME … -->` and `<!-- end:
/// NAME -->`, or writes it there.
pub fn check(page: &str, name: &str, table: &str) {
    let _pages = PAGES.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let (text, range) = marked(page, name);
    let written = format!("\n{}\n\n", table.trim_end());
    if text[range.clone()] == written {
        return;
    }
    if std::env::var("RESEQ_WRITE_DOCS").is_ok_and(|value| value == "1") {
        let page = root().join(page);
        fs::write(page, format!("{}{written}{}", &text[..range.start], &text[range.end..]))
            .unwrap();
        return;
    }
    let old: Vec<&str> = text[range].lines().collect();
    let new: Vec<&str> = written.lines().collect();
    let only_new = new.iter().filter(|line| !old.contains(line)).map(|line| format!("+ {line}"));
    let only_old = old.iter().filter(|line| !new.contains(line)).map(|line| format!("- {line}"));
    let differing: Vec<String> = only_new.chain(only_old).collect();
    panic!(
        "{page} is not what the code says: run this test with RESEQ_WRITE_DOCS=1 to write the table \
         {name} again.\n{}",
        differing.join("\n")
    );
}

/// A table in Markdown.
pub fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | ")).replace("|  |", "| |");
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule: Vec<String> = head.iter().map(|_| "---".to_owned()).collect();
    let mut table = line(&head) + &line(&rule);
    for row in rows {
        assert_eq!(row.len(), head.len(), "{row:?}");
        table += &line(&row);
    }
    table
}
