//! Libraries loaded before the C library of a process (`LD_PRELOAD`).

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Compiles `src/support/<name>.c` into this file.
pub fn compile(name: &str, library: &Path) {
    let source = format!("{}/src/support/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"]).arg(library);
    let status = command.arg(&source).arg("-ldl").status().expect("a C compiler is installed");
    assert!(status.success(), "{source} does not compile");
}

/// The wall clock of a `redis-server`, which a test can move. The monotonic clock stays correct.
pub struct Clock(PathBuf);

impl Clock {
    /// The clock of a server with this directory.
    pub fn in_dir(dir: &Path) -> Clock {
        Clock(dir.join("clock"))
    }

    /// Makes the library and the file. Servers started later in this directory have the clock.
    pub fn make(&self) {
        compile("clock", &self.library());
        File::create(&self.0).unwrap().set_len(4096).unwrap();
    }

    /// True if the server's clock can be moved.
    pub fn is_there(&self) -> bool {
        self.0.exists()
    }

    /// The environment of a server, if its clock can be moved.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        match self.is_there() {
            true => vec![("LD_PRELOAD", self.library()), ("CLOCK_FILE", self.0.clone())],
            false => Vec::new(),
        }
    }

    /// Moves the clock forward, or back.
    pub fn step(&self, by: Duration, is_forward: bool) {
        let by = i64::try_from(by.as_nanos()).unwrap();
        self.set(0, self.ahead_ns() + if is_forward { by } else { -by });
    }

    /// From now on, the clock is faster by this many parts per million; slower if negative.
    pub fn drift(&self, parts: i64) {
        self.set(parts, self.ahead_ns());
    }

    /// How far it is ahead now, in ns.
    pub fn ahead(&self) -> i64 {
        self.ahead_ns()
    }

    fn set(&self, parts: i64, ahead_ns: i64) {
        let file = File::options().write(true).open(&self.0).expect("the server has such a clock");
        // Set the drift to 0 first, so that there is none while the other numbers change.
        for (at, number) in [(8, 0), (0, ahead_ns), (16, monotonic_ns()), (8, parts)] {
            file.write_all_at(&i64::to_ne_bytes(number), at).unwrap();
        }
    }

    fn ahead_ns(&self) -> i64 {
        let file = File::open(&self.0).expect("the server has such a clock");
        let number = |at| {
            let mut bytes = [0; 8];
            file.read_exact_at(&mut bytes, at).unwrap();
            i64::from_ne_bytes(bytes)
        };
        let drift = match number(8) {
            0 => 0,
            parts => (monotonic_ns() - number(16)) / 1_000_000 * parts,
        };
        number(0) + drift
    }

    fn library(&self) -> PathBuf {
        self.0.with_extension("so")
    }
}

/// Approximately the time that the library reads, to a hundredth of a second.
fn monotonic_ns() -> i64 {
    let text = std::fs::read_to_string("/proc/uptime").unwrap();
    let seconds: f64 = text.split(' ').next().and_then(|text| text.parse().ok()).unwrap();
    (seconds * 1e9) as i64
}
