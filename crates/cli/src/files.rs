//! Reads files that arguments name.

use std::path::Path;

use anyhow::Context;
use tokio::io::AsyncReadExt;

/// The content of a file; `-` is standard input.
pub async fn read(file: &Path) -> anyhow::Result<Vec<u8>> {
    if file == Path::new("-") {
        let mut bytes = Vec::new();
        tokio::io::stdin().read_to_end(&mut bytes).await.context("reading standard input")?;
        return Ok(bytes);
    }
    tokio::fs::read(file).await.with_context(|| format!("reading {}", file.display()))
}
