//! The programs that the bench starts.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// The `reseq` that this path names; without one, the `reseq` beside this program.
pub fn reseq(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => this()?.with_file_name("reseq"),
    };
    // As a whole path, or a bare name would be searched for in PATH.
    let found = path.canonicalize().ok().filter(|path| path.is_file());
    found.with_context(|| {
        format!(
            "there is no program {}; run `cargo build --release` (for a debug build without \
             `--release`), or name a reseq binary with --reseq PATH",
            path.display()
        )
    })
}

/// This program.
pub fn this() -> anyhow::Result<PathBuf> {
    env::current_exe().context("finding the bench's own program")
}
