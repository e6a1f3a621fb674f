//! The evidence of a clean stop: that nobody sends any more what this data is about, and that all of it
//! is on disk. The next start need then not wait for a forgotten sender.
//!
//! It is a file beside the data that names the files of the append-only directory as they are after the
//! stop, by device, inode, size and times. It is removed before a server starts on them. So a crash leaves none, and
//! one that was copied back from a backup, or that stands beside other data, says nothing: copies are
//! other inodes, and their change times cannot be set.

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where Redis keeps its append-only files.
const DATA: &str = "appendonlydir";
/// Files beyond so many are not looked at: there is no evidence then.
const FILES_MAX: usize = 1000;

fn mark_in(dir: &Path) -> PathBuf {
    dir.join("stopped-cleanly")
}

/// Notes that the server has ended, with all on disk, and that nobody sends.
pub(super) fn note(dir: &Path) -> io::Result<()> {
    let files = files_of(dir)?;
    let mark = mark_in(dir);
    std::fs::write(&mark, files)?;
    File::open(&mark)?.sync_all()?;
    File::open(dir)?.sync_all()
}

/// True if that was noted of the data as it is. The note is gone afterwards, on disk too.
pub(super) fn take(dir: &Path) -> bool {
    let Ok(noted) = std::fs::read_to_string(mark_in(dir)) else { return false };
    let is_same = files_of(dir).is_ok_and(|files| files == noted);
    let removed = std::fs::remove_file(mark_in(dir));
    let removed = removed.and_then(|()| File::open(dir)?.sync_all());
    if let Err(error) = &removed {
        tracing::warn!(%error, "the note of a clean stop cannot be removed, and counts for nothing");
    }
    is_same && removed.is_ok()
}

/// A line for each file: what cannot stay the same when it is written or copied.
fn files_of(dir: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(dir.join(DATA))?.take(FILES_MAX + 1) {
        let entry = entry?;
        let found = entry.metadata()?;
        let name = entry.file_name();
        lines.push(format!(
            "{} {} {} {}.{:09} {}.{:09} {}\n",
            found.dev(),
            found.ino(),
            found.size(),
            found.mtime(),
            found.mtime_nsec(),
            found.ctime(),
            found.ctime_nsec(),
            name.as_encoded_bytes().escape_ascii(),
        ));
    }
    if lines.is_empty() || lines.len() > FILES_MAX {
        return Err(io::Error::other("there are no append-only files, or too many"));
    }
    lines.sort_unstable();
    Ok(lines.concat())
}
