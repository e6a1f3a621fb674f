//! Libraries that are put before the C library of a process (`LD_PRELOAD`).

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

/// Compiles `src/support/<name>.c` into this file.
pub fn compile(name: &str, library: &Path) {
    let source = format!("{}/src/support/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(library);
    let status = command.arg(&source).arg("-ldl").status().expect("a C compiler is installed");
    assert!(status.success(), "{source} does not compile");
}

/// The name that [`Rebinding`] resolves.
pub const REBINDING: &str = "rebinding.example";

/// A resolver of names for pods: the address of one name changes whenever a test wants it to (DNS rebinding).
pub struct Rebinding(TempDir);

impl Rebinding {
    /// The name has this address.
    pub fn to(address: &str) -> Rebinding {
        let rebinding = Rebinding(tempfile::tempdir().unwrap());
        compile("rebinding", &rebinding.library());
        rebinding.turn_to(address);
        rebinding
    }

    /// From now on, the name has this address.
    pub fn turn_to(&self, address: &str) {
        super::certificates::replace(&self.file(), address);
    }

    /// The environment of pods that use it.
    pub fn environment(&self) -> [(String, String); 2] {
        [("LD_PRELOAD", self.library()), ("REBINDING", self.file())]
            .map(|(name, path)| (name.to_owned(), path.to_str().unwrap().to_owned()))
    }

    fn library(&self) -> PathBuf {
        self.0.path().join("rebinding.so")
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("address")
    }
}
