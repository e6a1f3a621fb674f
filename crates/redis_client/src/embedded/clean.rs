//! The record of a clean stop: no process sends any more, and all data is on disk. The next start
//! then needs no takeover wait.
//!
//! It is a file next to the data. It lists the append-only files after the stop by device, inode,
//! size and times. It is removed before a server starts, so a crash leaves none. A copy from a
//! backup, or one next to other data, does not match: copies have other inodes, and change times
//! cannot be set.

use std::{
    fs::File,
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// The directory of Redis's append-only files.
const DATA: &str = "appendonlydir";
/// With more files than this, there is no record.
const FILES_MAX: usize = 1000;

fn mark_in(dir: &Path) -> PathBuf {
    dir.join("stopped-cleanly")
}

/// Records that the server has ended with all data on disk, and that no process sends.
pub(super) fn note(dir: &Path) -> io::Result<()> {
    let files = files_of(dir)?;
    let mark = mark_in(dir);
    std::fs::write(&mark, files)?;
    File::open(&mark)?.sync_all()?;
    File::open(dir)?.sync_all()
}

/// True if there is a record that matches the data. Removes it, on disk too.
pub(super) fn take(dir: &Path) -> bool {
    let Ok(noted) = std::fs::read_to_string(mark_in(dir)) else { return false };
    let is_same = files_of(dir).is_ok_and(|files| files == noted);
    let removed = std::fs::remove_file(mark_in(dir));
    let removed = removed.and_then(|()| File::open(dir)?.sync_all());
    if let Err(error) = &removed {
        tracing::warn!(%error, "ignoring the record of a clean stop, because it cannot be removed");
    }
    is_same && removed.is_ok()
}

/// One line per file, with attributes that change when it is written or copied.
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
