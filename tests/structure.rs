//! The shape of the project, held by tests: which module may know which, and how long a file may
//! be.

mod support;

use std::{fs, path::Path};

use support::source::{code_of, files, root, shown};

/// The modules, and what each may import of the others. Arrows point down only.
const ARROWS: [(&str, &[&str]); 13] = [
    ("domain", &[]),
    ("faults", &[]),
    ("telemetry", &[]),
    ("config", &["domain"]),
    ("wire", &["domain"]),
    ("store", &["domain", "config", "telemetry", "faults"]),
    ("ingest", STAGE),
    ("processor", STAGE),
    ("sender", STAGE),
    ("api", STAGE),
    (
        "app",
        &[
            "domain",
            "telemetry",
            "config",
            "wire",
            "store",
            "ingest",
            "processor",
            "sender",
            "api",
            "faults",
        ],
    ),
    (
        "cli",
        &[
            "domain",
            "telemetry",
            "config",
            "wire",
            "store",
            "ingest",
            "processor",
            "sender",
            "api",
            "app",
        ],
    ),
    ("main", &["cli"]),
];

/// The stages never import each other: they meet in Redis.
const STAGE: &[&str] = &["store", "domain", "wire", "config", "telemetry", "faults"];

/// The most lines of a file, tests aside.
const LINES_MAX: usize = 450;

/// The module of the crate that a file belongs to: `sender` for `src/sender/lane.rs`.
fn module_of(path: &Path) -> String {
    let inside = path.strip_prefix(root().join("src")).unwrap();
    let first = inside.components().next().unwrap();
    first.as_os_str().to_str().unwrap().trim_end_matches(".rs").to_owned()
}

/// What `text` names right after a `crate::`: one module, or each of a group in braces.
fn named(text: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = text.strip_prefix('{') else { return vec![word(text)] };
    let (mut depth, mut start, mut names) = (0, 0, Vec::new());
    for (at, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

#[test]
fn modules_import_only_what_is_below_them() {
    let mut arrows = 0;
    let mut wrong = Vec::new();
    for path in files("src", "rs") {
        let (module, code) = (module_of(&path), code_of(&path));
        if module == "lib" {
            continue;
        }
        let allowed = ARROWS.iter().find(|(name, _)| *name == module);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{module} is not in ARROWS"));
        let prefix = if module == "main" { "reseq::" } else { "crate::" };
        for (at, _) in code.match_indices(prefix) {
            // `$crate::` and `some_crate::` are others.
            if code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') {
                continue;
            }
            for name in named(&code[at + prefix.len()..]) {
                arrows += 1;
                if name != module && !allowed.contains(&name.as_str()) {
                    let line = code[..at].lines().count().max(1);
                    wrong.push(format!("{}:{line}: {module} -> {name}", shown(&path)));
                }
            }
        }
    }
    assert!(arrows > 50, "only {arrows} arrows were found: does this test still read the code?");
    assert!(wrong.is_empty(), "arrows that point up or across:\n{}", wrong.join("\n"));
}

#[test]
fn only_the_store_knows_redis() {
    let mut wrong = Vec::new();
    for path in files("src", "rs").iter().filter(|path| module_of(path) != "store") {
        for (number, line) in code_of(path).lines().enumerate() {
            let names = ["redis::", "use redis"];
            let is_named = |name: &&str| {
                line.match_indices(*name).any(|(at, _)| !line[..at].ends_with([':', '_', '.']))
            };
            if names.iter().any(is_named) {
                wrong.push(format!("{}:{}: {}", shown(path), number + 1, line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "redis outside of store:\n{}", wrong.join("\n"));
}

#[test]
fn files_are_short_and_say_what_they_are_for() {
    let mut wrong = Vec::new();
    for path in files("src", "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let is_tests = path.ends_with("tests.rs");
        let lines = text.lines().take_while(|line| line.trim() != "#[cfg(test)]").count();
        if lines > LINES_MAX && !is_tests {
            wrong.push(format!("{}: {lines} lines, more than {LINES_MAX}", shown(&path)));
        }
        if !text.starts_with("//!") && !is_tests {
            wrong.push(format!("{}: no `//!` at its top", shown(&path)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Cargo builds where CARGO_TARGET_DIR or its configuration says: nothing may count on `target/`.
#[test]
fn nothing_counts_on_the_folder_in_which_cargo_builds() {
    let mut paths: Vec<_> = ["Makefile", ".ci/run", "bench/run", "bench/setup.sh"]
        .iter()
        .map(|path| root().join(path))
        .collect();
    let folders = [("scripts", "sh"), ("bench/harness", "py"), ("tests", "rs")];
    paths.extend(folders.iter().flat_map(|(folder, extension)| files(folder, extension)));
    let usual = concat!("target", "/");
    let mut wrong = Vec::new();
    for path in &paths {
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            // Maven's is its own; comments and the texts of `make help` say where it is as a rule.
            let is_said = line.trim_start().starts_with(['#', '/']) || line.contains(": ## ");
            if line.replace("java/target/", "").contains(usual) && !is_said {
                wrong.push(format!("{}:{}: {}", shown(path), number + 1, line.trim()));
            }
        }
    }
    assert!(paths.len() > 50, "only {} files were looked at", paths.len());
    assert!(wrong.is_empty(), "use what scripts/target-dir.sh says:\n{}", wrong.join("\n"));

    let mut make = std::process::Command::new("make");
    make.args(["-n", "demo", "release-clean"]).env("CARGO_TARGET_DIR", "/else where/built");
    let said = make.current_dir(root()).output().expect("make runs");
    let said = String::from_utf8_lossy(&said.stdout);
    for command in [r#""/else where/built/release/reseq" demo"#, r#"$name "/else where/built/"#] {
        assert!(said.contains(command), "{command} is not in:\n{said}");
    }
}
