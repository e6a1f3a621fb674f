//! Checks of the project's structure that cargo does not make: circular imports inside the store
//! and the client, the length of files, and the links of the documentation.

use crate::support;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use formats::code::Code;
use support::{
    generated,
    source::{code_of, files, root, shown},
};

/// The most lines of a file that is not a test.
const LINES_MAX: usize = 450;

/// All source files that are not tests: of the program, of its parts, and of the bench.
pub(super) fn sources() -> Vec<PathBuf> {
    let all = ["src", "crates"].into_iter().flat_map(|folder| files(folder, "rs"));
    let tests = ["crates/testing", "crates/bench/tests"].map(|folder| root().join(folder));
    all.filter(|path| !tests.iter().any(|folder| path.starts_with(folder))).collect()
}

/// The modules right after a `crate::` in `text`: one, or each of a group in braces.
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

/// The public names of a crate that is split into parts, each with its part: `Which` is in
/// `queries` because of `pub use queries::{messages::Which}` in `lib.rs`.
fn public_names(module: &str) -> HashMap<String, String> {
    let code = code_of(&root().join(format!("crates/{module}/src/lib.rs")));
    let mut names = HashMap::new();
    for line in code.split("pub use ").skip(1) {
        let Some((text, _)) = line.split_once(';') else { continue };
        let Some((part, rest)) = text.split_once("::") else { continue };
        let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_');
        names.extend(words.map(|word| (word.to_owned(), part.trim().to_owned())));
    }
    names
}

/// The part of a crate to which a file belongs: `record` for `crates/store/src/record/prefix.rs`.
/// Also returns whether `super` in that file is the crate itself.
fn part_of(module: &str, path: &Path) -> Option<(String, bool)> {
    let inside = path.strip_prefix(root().join(format!("crates/{module}/src"))).ok()?;
    let parts: Vec<&str> = inside.iter().filter_map(|part| part.to_str()).collect();
    let is_top = parts.len() == 1 || (parts.len() == 2 && parts[1] == "mod.rs");
    Some((parts.first()?.trim_end_matches(".rs").to_owned(), is_top))
}

/// The imports between the parts of a module, each with one place.
fn imports_inside(module: &str) -> BTreeMap<(String, String), String> {
    let public = public_names(module);
    let paths = files(&format!("crates/{module}/src"), "rs");
    let parts: BTreeSet<String> =
        paths.iter().filter_map(|path| Some(part_of(module, path)?.0)).collect();
    let mut imports = BTreeMap::new();
    for path in &paths {
        let (part, is_top) = part_of(module, path).unwrap();
        if part == "lib" {
            continue;
        }
        let code = code_of(path);
        let code = code.split("#[cfg(test)]").next().unwrap_or_default();
        let mut prefixes = vec!["crate::"];
        prefixes.extend(is_top.then_some("super::"));
        for prefix in prefixes {
            for (at, _) in code.match_indices(prefix) {
                // In an inner module, `super` is the file itself.
                if code[..at].ends_with("super::") || code[..at].ends_with('$') {
                    continue;
                }
                for name in named(&code[at + prefix.len()..]) {
                    let other = match parts.contains(&name) {
                        true => name,
                        false => public.get(&name).cloned().unwrap_or_default(),
                    };
                    if !other.is_empty() && other != part {
                        imports.insert((part.clone(), other), shown(path));
                    }
                }
            }
        }
    }
    imports
}

/// Words of the codes' sentences, and the pages that explain them.
const EXPLAINED: [(&str, &str); 6] = [
    ("`/readyz`", "http-api.md#health"),
    ("`reseq repair`", "http-api.md#repair"),
    ("a right", "redis-requirements.md"),
    ("upgrade this one", "../how-to/upgrade.md"),
    ("its durability", "http-api.md#durability"),
    ("raw route", "http-api.md#send-a-raw-body"),
];

#[test]
fn the_reference_lists_the_codes_of_errors_as_the_code_has_them() {
    let cell = |sentences: &str| {
        let mut cell = sentences.trim_end_matches('.').to_owned();
        for (words, page) in EXPLAINED {
            cell = cell.replacen(words, &format!("[{words}]({page})"), 1);
        }
        cell
    };
    let rows = Code::ALL.iter().map(|code| {
        let name = format!("`{code}`");
        vec![name, code.shown_status(), cell(code.meaning()), cell(code.remedy())]
    });
    let table = generated::table(&["code", "status", "meaning", "what to do"], rows);
    generated::check("docs/reference/errors.md", "codes", &table);
}

/// In the two crates with the most parts, imports must not be circular: no part may depend on itself through others.
#[test]
fn no_circle_of_imports_is_inside_the_store_and_the_client() {
    for module in ["redis_client", "store"] {
        let mut imports = imports_inside(module);
        assert!(imports.len() > 25, "only {} imports inside {module}: {imports:?}", imports.len());
        // Removes parts that import no remaining part, until no part is left, or only a circle.
        loop {
            let users: BTreeSet<String> = imports.keys().map(|(user, _)| user.clone()).collect();
            let before = imports.len();
            imports.retain(|(_, used), _| users.contains(used));
            if imports.len() == before {
                break;
            }
        }
        assert!(imports.is_empty(), "circles inside {module}:\n{imports:#?}");
    }
}

/// The layers of the store, the highest first. Parts outside the layers are the base.
#[test]
fn layers_of_the_store_import_only_what_is_below_them() {
    let layers = [
        &["due", "exhausted", "group", "on_arrival", "rights"][..],
        &["catalog", "scripts"],
        &["queries", "transitions"],
    ];
    let layer = |part: &str| layers.iter().position(|layer| layer.contains(&part));
    let imports = imports_inside("store");
    let is_wrong = |user: &str, used: &str| match (layer(user), layer(used)) {
        (_, None) => false,
        (None, Some(_)) => true,
        (Some(user), Some(used)) => used <= user,
    };
    let wrong: Vec<_> = imports.iter().filter(|((user, used), _)| is_wrong(user, used)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Each script has a Rust file with its name, and each such file has a script.
#[test]
fn transitions_have_the_names_of_their_scripts() {
    let names = |paths: Vec<PathBuf>, parent: &str| -> BTreeSet<String> {
        let own = paths.into_iter().filter(|path| path.parent().unwrap().ends_with(parent));
        let names = own.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
        names.filter(|name| name != "mod").collect()
    };
    let files_of_rust = names(files("crates/store/src/transitions", "rs"), "transitions");
    assert_eq!(files_of_rust, names(files("lua", "lua"), "lua"));
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

/// Cargo builds in CARGO_TARGET_DIR or its configured folder, so no file may assume `target/`.
#[test]
fn nothing_counts_on_the_folder_in_which_cargo_builds() {
    let mut paths: Vec<_> = ["Makefile", ".ci/run", "bench/run", "bench/setup.sh"]
        .iter()
        .map(|path| root().join(path))
        .collect();
    let tests = [("tests", "rs"), ("crates/testing/src", "rs"), ("crates/bench/tests", "rs")];
    let folders = [("scripts", "sh"), ("bench/harness", "py")].into_iter().chain(tests);
    paths.extend(folders.flat_map(|(folder, extension)| files(folder, extension)));
    let usual = concat!("target", "/");
    let mut wrong = Vec::new();
    for path in &paths {
        for (number, line) in fs::read_to_string(path).unwrap().lines().enumerate() {
            // Ignores Maven's folder. Comments and the texts of `make help` may name the default.
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

/// Places for pause points and planted bugs are at few seams, so that the code of the product is read without them.
#[test]
fn few_files_of_the_product_name_the_crate_faults() {
    let others = ["crates/faults/", "crates/testing/", "crates/tools/"];
    let all = files("src", "rs").into_iter().chain(files("crates", "rs"));
    let product = all.filter(|path| !others.iter().any(|other| shown(path).starts_with(other)));
    let naming: Vec<_> = product.filter(|path| code_of(path).contains("use faults::")).collect();
    assert!((1..=15).contains(&naming.len()), "{naming:#?}");
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

/// Dependencies of only the bench are not compiled for the product. And the bench enables no
/// features of the product's dependencies: cargo would compile them twice.
#[test]
fn the_bench_adds_nothing_to_the_product() {
    let (product, both) = (dependencies(&["--package", "reseq"]), dependencies(&["--workspace"]));
    let other: Vec<&String> = product.difference(&both).collect();
    assert!(other.is_empty(), "with the bench, these have other features: {other:#?}");
    let name = |line: &String| line.split(' ').next().unwrap_or_default().to_owned();
    let added: Vec<String> = both.difference(&product).map(name).collect();
    // The tests make certificates with rcgen; the bench shares their crate.
    let plots = ["plotters", "plotters-backend", "plotters-svg"];
    // What only reseq-connect needs: the program reads no database and no broker.
    let connect = ["hmac", "pgwire-replication", "reseq-connect", "thiserror", "thiserror-impl"];
    let others = ["pem", "rcgen", "reseq-bench", "reseq-testing"];
    let mut expected = [&plots[..], &connect, &others].concat();
    expected.sort_unstable();
    assert_eq!(added, expected);
}

/// The links of a page, without code: the text in parentheses right after a closing bracket.
fn links_of(page: &str) -> Vec<String> {
    let mut prose = String::new();
    for paragraph in without_fences(page).split("\n\n") {
        // Every second part is inside backticks.
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

/// A page without its fenced blocks of code.
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

/// Links lead to files and headings that exist. The book contains only docs/, so its pages link to
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

/// Paths of this project that pages name exist.
#[test]
fn every_file_that_the_documentation_names_is_there() {
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md"].iter().map(|name| root().join(name)).collect();
    pages.extend(files("docs", "md"));
    let (mut count, mut wrong) = (0, Vec::new());
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for path in text.split('`').skip(1).step_by(2) {
            let is_ours = ["src/", "lua/", "tests/", "crates/", "scripts/", "examples/"];
            let is_path = is_ours.iter().any(|folder| path.starts_with(folder))
                && path.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
            if is_path {
                count += 1;
                // The example in CONTRIBUTING is a transition that does not exist.
                if !root().join(path).exists() && !path.contains("snooze") {
                    wrong.push(format!("{}: {path}", shown(page)));
                }
            }
        }
    }
    assert!(count > 60, "only {count} paths were found: does this test still read the pages?");
    assert!(wrong.is_empty(), "there are no such files:\n{}", wrong.join("\n"));
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

#[test]
fn documentation_lists_every_bug_planted_in_a_script() {
    let table = fs::read_to_string(root().join("tests/lua_bugs/table.rs")).unwrap();
    let page = "docs/explanation/testing.md";
    let rows = generated::rows(page, "bugs in scripts");
    let planted = table.matches("\n    bug(").count();
    assert_eq!(rows.len(), planted, "{page}: run scripts_planted with RESEQ_WRITE_DOCS=1");
    for row in rows {
        let [file, name, found_by] = &row[..] else { panic!("{row:?}") };
        assert!(table.contains(&format!("\"{name}\"")), "{page}: there is no bug {name:?}");
        assert!(table.contains(&format!("\"{}\"", file.trim_matches('`'))), "{page}: {file}");
        assert_ne!(found_by, "nothing", "{page}: {name}");
    }
}
