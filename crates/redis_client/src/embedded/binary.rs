//! Finds the server program and checks its version.

use std::{
    ffi::OsStr,
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

/// Finds a server program that is new enough: in the directories of `search_path`, then where a package puts the one
/// that comes along, beside this program or in `../lib/reseq/bin`. If there are only others, returns what is wrong with
/// the first.
pub(super) async fn find(search_path: &OsStr) -> Result<PathBuf, EmbeddedError> {
    let on_path = NAMES.iter().flat_map(|name| {
        std::env::split_paths(search_path).map(move |directory| directory.join(name))
    });
    let along = NAMES.iter().flat_map(|name| packaged().map(move |directory| directory.join(name)));
    let mut first_problem = None;
    for path in on_path.chain(along).filter(|path| is_executable(path)) {
        match check(&path).await {
            Ok(()) => return Ok(path),
            Err(problem) => drop(first_problem.get_or_insert(problem)),
        }
    }
    Err(first_problem.unwrap_or(EmbeddedError::MissingBinary))
}

/// The directories where a package puts the server program.
fn packaged() -> impl Iterator<Item = PathBuf> {
    let program = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
    let beside = program.parent().map(Path::to_owned);
    let library = beside.as_ref().and_then(|beside| Some(beside.parent()?.join("lib/reseq/bin")));
    [beside, library].into_iter().flatten()
}

async fn check(binary: &Path) -> Result<(), EmbeddedError> {
    let said = ask_version(binary).await?;
    match version(&said) {
        Some((major, _)) if major >= MAJOR_MIN => Ok(()),
        Some((_, found)) => {
            Err(EmbeddedError::OldVersion { found: found.into(), binary: binary.into() })
        }
        None => Err(unusable(binary, format!("its --version is {:?}", said.trim()))),
    }
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

async fn ask_version(binary: &Path) -> Result<String, EmbeddedError> {
    let mut command = Command::new(binary);
    command.arg("--version").kill_on_drop(true);
    match timeout(VERSION_MAX, command.output()).await {
        Ok(Ok(output)) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        Ok(Err(error)) => Err(unusable(binary, error.to_string())),
        Err(_) => Err(unusable(binary, "its --version does not answer".into())),
    }
}

pub(super) fn unusable(binary: &Path, problem: String) -> EmbeddedError {
    EmbeddedError::UnusableBinary { binary: binary.into(), problem }
}

/// The major number and the whole version in `Redis server v=7.0.15 sha=…`.
fn version(said: &str) -> Option<(u32, &str)> {
    let version = said.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
    Some((version.split('.').next()?.parse().ok()?, version))
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn the_version_is_read_from_what_either_program_says() {
        let redis = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64\n";
        assert_eq!(version(redis), Some((7, "7.0.15")));
        assert_eq!(version("Valkey server v=8.1.0 sha=0 malloc=libc\n"), Some((8, "8.1.0")));
        assert_eq!(version("Redis server v=255.255.255 sha=0\n"), Some((255, "255.255.255")));
        assert_eq!(version("bash: no such thing"), None);
    }
}
