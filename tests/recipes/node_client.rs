//! The tests of the Node.js client, with this build of Reseq.

use std::process::Command;

use crate::{
    sandbox::{Sandbox, node_client},
    support::source::{program, root},
};

/// The number that follows this label in a summary of `node --test`.
fn number_after(label: &str, summary: &str) -> u64 {
    let rest = summary.rsplit_once(label).unwrap_or_else(|| panic!("no {label}: {summary}")).1;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

#[tokio::test]
async fn the_tests_of_the_node_client_pass() {
    let _turn = Sandbox::turn().await;
    node_client();
    let mut command = Command::new("npm");
    command.current_dir(root().join("clients/node"));
    command.args(["test", "--silent"]).env("RESEQ_BIN", program());
    // Ignores stderr, where npm may print messages of its own.
    let run = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(run.status.success(), "{text}\n{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(number_after("# fail ", &text), 0, "{text}");
    let skipped = u64::from(text.contains("# SKIP there is no PostgreSQL"));
    assert_eq!(number_after("# skipped ", &text), skipped, "{text}");
    assert!(number_after("# pass ", &text) > 40, "{text}");
}
