//! Reads the project's own files, for tests of its structure.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::LazyLock,
};

static ROOT: LazyLock<PathBuf> =
    LazyLock::new(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap());

/// The folder of the project.
pub fn root() -> &'static Path {
    &ROOT
}

/// The program `reseq`, which cargo builds beside the tests of its package.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let built = tests.ancestors().nth(2).unwrap().join("reseq");
    assert!(built.is_file(), "there is no {}: run the tests of the package reseq", built.display());
    built
}

pub fn files(under: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(under)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// A Rust file with its comments blanked out, so that lines keep their numbers.
pub fn code_of(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let line = |line: &str| match line.trim_start().starts_with("//") {
        true => String::new(),
        false => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
