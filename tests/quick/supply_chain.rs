//! Checks the sources and licences of dependencies against `deny.toml`, and that no code of the
//! project is unsafe. `make deny` runs cargo-deny itself, which also checks for vulnerabilities.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    process::Command,
};

use serde_json::Value;

use crate::support::source::root;

/// The only allowed registry.
const REGISTRY: &str = "https://github.com/rust-lang/crates.io-index";

/// The rules of cargo-deny.
fn rules() -> toml::Table {
    fs::read_to_string(root().join("deny.toml")).unwrap().parse().unwrap()
}

fn list(rules: &toml::Table, section: &str, field: &str) -> BTreeSet<String> {
    let values = rules[section][field].as_array().unwrap();
    values.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

/// All packages that the lock file names, with all features and for all systems.
fn packages() -> Vec<Value> {
    let mut metadata = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    metadata.args(["metadata", "--locked", "--all-features", "--format-version", "1"]);
    let output = metadata.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    metadata["packages"].as_array().unwrap().clone()
}

/// The versions of each dependency that the program or a test needs, on any system.
fn versions() -> BTreeMap<String, BTreeSet<String>> {
    let mut tree = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    tree.args(["tree", "--locked", "--workspace", "--all-features", "--target", "all"]);
    tree.args(["--edges", "normal,build,dev", "--prefix", "none", "--format", "{p}"]);
    let output = tree.current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let Some((name, rest)) = line.split_once(" v") else { continue };
        let version = rest.split([' ', '+']).next().unwrap();
        versions.entry(name.to_owned()).or_default().insert(version.to_owned());
    }
    versions
}

/// A licence in the words of SPDX: names, `AND`, `OR`, `WITH` and parentheses. `/` is an old form of `OR`.
struct Licence<'a> {
    words: std::iter::Peekable<std::vec::IntoIter<String>>,
    allowed: &'a BTreeSet<String>,
}

impl Licence<'_> {
    fn is_allowed(text: &str, allowed: &BTreeSet<String>) -> bool {
        let text = text.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        let mut licence = Licence { words: words.into_iter().peekable(), allowed };
        licence.any() && licence.words.next().is_none()
    }

    fn takes(&mut self, word: &str) -> bool {
        self.words.next_if(|next| next == word).is_some()
    }

    fn any(&mut self) -> bool {
        let mut is_allowed = self.all();
        while self.takes("OR") {
            is_allowed |= self.all();
        }
        is_allowed
    }

    fn all(&mut self) -> bool {
        let mut is_allowed = self.one();
        while self.takes("AND") {
            is_allowed &= self.one();
        }
        is_allowed
    }

    fn one(&mut self) -> bool {
        if self.takes("(") {
            return self.any() & self.takes(")");
        }
        let Some(mut name) = self.words.next() else { return false };
        if self.takes("WITH") {
            name = format!("{name} WITH {}", self.words.next().unwrap_or_default());
        }
        self.allowed.contains(&name)
    }
}

#[test]
fn licences_are_read_as_spdx_says() {
    let allowed = BTreeSet::from(["MIT", "ISC"].map(str::to_owned));
    let is_allowed = |text| Licence::is_allowed(text, &allowed);
    for good in ["MIT", "GPL-2.0-only OR MIT", "MIT/GPL", "MIT AND ISC", "(GPL OR ISC) AND MIT"] {
        assert!(is_allowed(good), "{good}");
    }
    for bad in ["", "GPL", "MIT AND GPL", "MIT WITH GPL", "(MIT", "MIT ISC", "GPL OR GPL AND MIT"] {
        assert!(!is_allowed(bad), "{bad}");
    }
}

#[test]
fn dependencies_keep_the_rules() {
    let (rules, packages) = (rules(), packages());
    let text =
        |package: &Value, field: &str| package[field].as_str().unwrap_or_default().to_owned();
    assert_eq!(list(&rules, "sources", "allow-registry"), BTreeSet::from([REGISTRY.to_owned()]));
    let allowed = list(&rules, "licenses", "allow");
    let mut wrong = Vec::new();
    for package in &packages {
        let (name, licence) = (text(package, "name"), text(package, "license"));
        match package["source"].as_str() {
            None => assert!(text(package, "manifest_path").starts_with(root().to_str().unwrap())),
            Some(source) if source == format!("registry+{REGISTRY}") => {}
            Some(source) => wrong.push(format!("{name} is from {source}")),
        }
        if !Licence::is_allowed(&licence, &allowed) {
            wrong.push(format!("{name} has the licence {licence:?}"));
        }
    }
    let skipped = list(&rules, "bans", "skip");
    for (name, versions) in versions().iter().filter(|(_, versions)| versions.len() > 1) {
        let named = versions.iter().map(|version| format!("{name}@{version}"));
        if named.filter(|one| !skipped.contains(one)).count() > 1 {
            wrong.push(format!("{name} is there in several versions: {versions:?}"));
        }
    }
    assert!(
        packages.len() > 200,
        "only {} packages: does this test still read them?",
        packages.len()
    );
    assert!(wrong.is_empty(), "see deny.toml:\n{}", wrong.join("\n"));
}

/// Each workspace has a lock file. All its packages are from the one registry, with a checksum.
#[test]
fn lock_files_name_nothing_without_a_checksum() {
    for folder in ["", "fuzz", "bench/rust"] {
        let path = root().join(folder).join("Cargo.lock");
        let lock: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        for package in lock["package"].as_array().unwrap() {
            let Some(source) = package.get("source") else { continue };
            assert_eq!(source.as_str(), Some(&*format!("registry+{REGISTRY}")), "{package}");
            assert!(package.get("checksum").is_some(), "{package}");
        }
    }
    let lock = fs::read_to_string(root().join("package-lock.json")).unwrap();
    let lock: Value = serde_json::from_str(&lock).unwrap();
    for (name, package) in lock["packages"].as_object().unwrap() {
        // An entry without `resolved` is a folder of the project.
        let Some(from) = package["resolved"].as_str() else { continue };
        if package["link"] == true {
            continue;
        }
        assert!(from.starts_with("https://registry.npmjs.org/"), "{name} is from {from}");
        assert!(package["integrity"].is_string(), "{name}");
    }
}

#[test]
fn the_compiler_refuses_unsafe_code_of_the_project() {
    let manifest = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let all = manifest("Cargo.toml");
    assert!(all.contains("[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"));
    let crates = fs::read_dir(root().join("crates")).unwrap();
    let names = crates.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let others = names.map(|name| manifest(&format!("crates/{name}/Cargo.toml")));
    for manifest in others {
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{manifest}");
    }
    // The tests of this package send signals.
    for path in ["src/lib.rs", "src/main.rs"] {
        assert!(manifest(path).contains("\n#![forbid(unsafe_code)]\n"), "{path}");
    }
}
