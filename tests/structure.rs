//! The shape of the project, held by tests: which module may know which, how long a file may be, and
//! where the links of the documentation lead.

mod support;

use std::{
    collections::{BTreeSet, HashMap},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use support::source::{code_of, files, root, shown};

/// The modules, and what each may import of the others. Arrows point down only.
const ARROWS: [(&str, &[&str]); 15] = [
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
    ("harness", &["config", "store"]),
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
            "harness",
        ],
    ),
    ("main", &["cli"]),
    ("bench", &["domain", "config", "wire", "processor", "app", "cli", "harness"]),
];

/// The stages never import each other: they meet in Redis.
const STAGE: &[&str] = &["store", "domain", "wire", "config", "telemetry", "faults"];

/// The most lines of a file, tests aside.
const LINES_MAX: usize = 450;

/// The crates: the product and the bench.
const SOURCES: [&str; 2] = ["src", BENCH];
const BENCH: &str = "crates/bench/src";

/// All source files, without tests.
fn sources() -> Vec<PathBuf> {
    SOURCES.iter().flat_map(|folder| files(folder, "rs")).collect()
}

/// The module that a file belongs to: `sender` for `src/sender/lane.rs`. The bench is one module.
fn module_of(path: &Path) -> String {
    if path.starts_with(root().join(BENCH)) {
        return "bench".to_owned();
    }
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
    for path in sources() {
        let (module, code) = (module_of(&path), code_of(&path));
        if module == "lib" {
            continue;
        }
        let allowed = ARROWS.iter().find(|(name, _)| *name == module);
        let (_, allowed) = allowed.unwrap_or_else(|| panic!("{module} is not in ARROWS"));
        let is_outside = module == "main" || module == "bench";
        let prefix = if is_outside { "reseq::" } else { "crate::" };
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
    for path in sources().iter().filter(|path| module_of(path) != "store") {
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
    for path in sources() {
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
    let tests = [("tests", "rs"), ("crates/bench/tests", "rs")];
    let folders = [("scripts", "sh"), ("bench/harness", "py")].into_iter().chain(tests);
    paths.extend(folders.flat_map(|(folder, extension)| files(folder, extension)));
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

    let mut make = Command::new("make");
    make.args(["-n", "demo", "bench", "release-clean"])
        .env("CARGO_TARGET_DIR", "/else where/built");
    let said = make.current_dir(root()).output().expect("make runs");
    let said = String::from_utf8_lossy(&said.stdout);
    for command in [
        r#""/else where/built/release/reseq" demo"#,
        r#""/else where/built/release/reseq-bench" --"#,
        r#"$name "/else where/built/"#,
    ] {
        assert!(said.contains(command), "{command} is not in:\n{said}");
    }
}

/// The dependencies that cargo compiles for these packages, each with its features.
fn dependencies(packages: &[&str]) -> BTreeSet<String> {
    let mut tree = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    tree.args(["tree", "--locked", "--offline", "--edges", "normal,build"]).args(packages);
    tree.args(["--prefix", "none", "--format", "{p} {f}"]).current_dir(root());
    let output = tree.output().expect("cargo runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    // `(*)` marks a line that cargo printed before; an empty line separates two packages.
    let lines = text.lines().filter(|line| !line.is_empty());
    lines.map(|line| line.trim_end_matches("(*)").trim_end().to_owned()).collect()
}

/// Nothing that only the bench needs is compiled for the product. And the bench turns on no feature
/// of the product's dependencies: cargo would compile them once more for each of the two.
#[test]
fn the_bench_adds_nothing_to_the_product() {
    let (product, both) = (dependencies(&["--package", "reseq"]), dependencies(&["--workspace"]));
    let other: Vec<&String> = product.difference(&both).collect();
    assert!(other.is_empty(), "with the bench, these have other features: {other:#?}");
    let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let added: Vec<String> = both.difference(&product).map(name).collect();
    assert_eq!(added, ["plotters", "plotters-backend", "plotters-svg", "reseq-bench"]);
}

/// The links of a page, without code: what stands in parentheses right after a closing bracket.
fn links_of(page: &str) -> Vec<String> {
    let mut prose = String::new();
    for paragraph in without_fences(page).split("\n\n") {
        // Every second part stands between backticks.
        prose.extend(paragraph.split('`').step_by(2));
        prose.push('\n');
    }
    let targets = prose.split("](").skip(1);
    targets.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned())).collect()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors_of(page: &str) -> Vec<String> {
    let mut times: HashMap<String, usize> = HashMap::new();
    let page = without_fences(page);
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let texts = headings.filter_map(|line| line.trim_start_matches('#').strip_prefix(' '));
    let anchors = texts.map(|text| {
        let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
        let lower = text.trim().to_lowercase();
        let anchor: String = lower.chars().filter(kept).collect::<String>().replace(' ', "-");
        let before = times.entry(anchor.clone()).or_default();
        *before += 1;
        if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
    });
    anchors.collect()
}

/// A page without its blocks of code between fences.
fn without_fences(page: &str) -> String {
    let mut is_code = false;
    let mut left = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            left += line;
            left.push('\n');
        }
    }
    left
}

/// Links lead to files and headings that exist. The book holds docs/ only, so its pages link to
/// nothing outside.
#[test]
fn every_link_of_the_documentation_leads_somewhere() {
    let docs = root().join("docs").canonicalize().unwrap();
    let beside = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"];
    let mut pages: Vec<PathBuf> = beside.iter().map(|name| root().join(name)).collect();
    pages.extend(files("docs", "md"));
    let (mut links, mut wrong) = (0, Vec::new());
    for page in &pages {
        let is_in_book = page.starts_with(root().join("docs"));
        for link in links_of(&fs::read_to_string(page).unwrap()) {
            if link.contains("://") {
                continue;
            }
            links += 1;
            let (path, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let target = match path {
                "" => page.clone(),
                path => page.parent().unwrap().join(path),
            };
            let problem = match target.canonicalize() {
                Err(_) => "there is no such file",
                Ok(target) if is_in_book && !target.starts_with(&docs) => "it leaves docs/",
                Ok(_) if anchor.is_empty() => continue,
                Ok(target) => {
                    let headings = anchors_of(&fs::read_to_string(target).unwrap());
                    if headings.iter().any(|heading| heading == anchor) {
                        continue;
                    }
                    "there is no such heading"
                }
            };
            wrong.push(format!("{}: ({link}): {problem}", shown(page)));
        }
    }
    assert!(links > 300, "only {links} links were found: does this test still read the pages?");
    assert!(wrong.is_empty(), "broken links:\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_once_in_the_table_of_contents() {
    let summary = root().join("docs/SUMMARY.md");
    let listed = links_of(&fs::read_to_string(&summary).unwrap());
    let listed: Vec<PathBuf> = listed.iter().map(|link| root().join("docs").join(link)).collect();
    let mut wrong = Vec::new();
    for page in files("docs", "md").iter().filter(|page| **page != summary) {
        let times = listed.iter().filter(|other| *other == page).count();
        if times != 1 {
            wrong.push(format!("{}: {times} times", shown(page)));
        }
    }
    assert!(listed.len() > 50, "only {} pages are listed", listed.len());
    assert!(wrong.is_empty(), "not once in docs/SUMMARY.md:\n{}", wrong.join("\n"));
}
