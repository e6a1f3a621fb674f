//! Tests completions for shells, and man pages.

use super::run_at;

#[tokio::test]
async fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run_at("", &["completions", shell], &[], "").await.ended(0);
        for word in ["dead-letters", "redrive", "--from-sequence", "discard"] {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.contains(word), "{shell} has no {word}");
        }
    }
    run_at("", &["completions", "sh"], &[], "").await.ended(2);
}

#[tokio::test]
async fn there_is_a_man_page_for_each_command() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man/man1");
    run_at("", &["man", pages.to_str().unwrap()], &[], "").await.ended(0);
    let read = |page: &str| std::fs::read_to_string(pages.join(page)).unwrap();
    assert!(read("reseq.1").contains("the service cannot be reached"));
    assert!(read("reseq-destinations-apply.1").contains("TOML or JSON"));
    assert!(read("reseq-destinations-purge.1").contains("RESEQ_URL"));
    for noun in ["destinations", "topics"] {
        for verb in ["list", "show", "apply", "delete"] {
            read(&format!("reseq-{noun}-{verb}.1"));
        }
    }
    assert!(!pages.join("reseq-jq-runner.1").exists());
}
