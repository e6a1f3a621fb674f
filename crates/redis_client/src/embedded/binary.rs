//! Finds the server program and checks its version.

use std::{
    ffi::OsStr,
    fmt::Display,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{process::Command, time::timeout};

use super::EmbeddedError;

/// The supported programs, the preferred one first.
const NAMES: [&str; 2] = ["redis-server", "valkey-server"];
/// Redis 7.0 introduced scripts with flags (`#!lua`), which every script of Reseq uses.
const MAJOR_MIN: u32 = 7;
/// Time limit for `--version`.
const VERSION_MAX: Duration = Duration::from_secs(10);

/// Finds a server program that is new enough. Looks in the directories of `search_path`, then where a package of
/// Reseq puts its own server program: beside this program, or in `../lib/reseq/bin`. If it finds only unusable
/// programs, returns what is wrong with the first one.
pub(super) async fn find(search_path: &OsStr) -> Result<PathBuf, EmbeddedError> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    let beside = program.parent();
    let library = beside.and_then(|beside| Some(beside.parent()?.join("lib/reseq/bin")));
    let packaged: Vec<PathBuf> = beside.map(Path::to_owned).into_iter().chain(library).collect();
    let mut first_problem = None;
    for directories in [std::env::split_paths(search_path).collect(), packaged] {
        let paths = NAMES.iter().flat_map(|name| directories.iter().map(move |dir| dir.join(name)));
        for path in paths.filter(|path| is_executable(path)) {
            match check(&path).await {
                Ok(()) => return Ok(path),
                Err(problem) => drop(first_problem.get_or_insert(problem)),
            }
        }
    }
    Err(first_problem.unwrap_or_else(|| {
        EmbeddedError(
            "neither redis-server nor valkey-server is on the PATH or beside this program; install one (on Debian: \
             `apt-get install redis-server`), or set redis.url to a Redis that already runs"
                .into(),
        )
    }))
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

/// Checks the version, which Redis prints like this: `Redis server v=7.0.15 sha=…`.
async fn check(binary: &Path) -> Result<(), EmbeddedError> {
    let mut command = Command::new(binary);
    command.arg("--version").kill_on_drop(true);
    let output = timeout(VERSION_MAX, command.output()).await;
    let output = output.map_err(|_| unusable(binary, "its --version does not answer"))?;
    let output = output.map_err(|error| unusable(binary, error))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="));
    let major = version.and_then(|version| version.split('.').next()?.parse::<u32>().ok());
    match (major, version) {
        (Some(major), _) if major >= MAJOR_MIN => Ok(()),
        (Some(_), Some(found)) => Err(EmbeddedError(format!(
            "{} is version {found}; Reseq needs {MAJOR_MIN}.0 or newer: install a newer one, or set redis.url to a \
             Redis that already runs",
            binary.display()
        ))),
        _ => Err(unusable(binary, format!("its --version is {:?}", said.trim()))),
    }
}

pub(super) fn unusable(binary: &Path, problem: impl Display) -> EmbeddedError {
    EmbeddedError(format!(
        "{} cannot be used: {problem}; reinstall it, or set redis.url",
        binary.display()
    ))
}
