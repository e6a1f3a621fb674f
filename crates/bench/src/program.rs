//! The programs that the bench starts.

use std::{
    env,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// The `reseq` at this path; without a path, the `reseq` beside this program.
pub fn reseq(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let path = match named {
        Some(path) => path.to_owned(),
        None => this()?.with_file_name("reseq"),
    };
    // Use the absolute path: the system would search PATH for a bare name.
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
