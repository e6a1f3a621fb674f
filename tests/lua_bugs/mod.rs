//! Bugs that are planted in the Lua scripts on purpose, one at a time, to see which test catches
//! each. Each replaces one place of one file.

mod table;

use std::fs;

use faults::planted_lua::{Planted, plant};

pub use table::BUGS;

/// A bug in a script.
#[derive(Debug, Clone, Copy)]
pub struct Bug {
    /// What is wrong with the file; each file has it once.
    pub name: &'static str,
    /// The file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// What stands there, once in the file.
    pub right: &'static str,
    /// What takes its place.
    pub wrong: &'static str,
}

impl Bug {
    /// The file as it is.
    pub fn whole_text(&self) -> String {
        let path = format!("{}/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), self.file);
        fs::read_to_string(path).unwrap()
    }

    /// The file with the bug. What it replaces must be there, and once: else the bug is out of date.
    pub fn planted_text(&self) -> String {
        let Bug { name, file, right, .. } = self;
        let text = self.whole_text();
        let places = text.matches(right).count();
        assert_eq!(places, 1, "the planted bug {name:?}: lua/{file}.lua must have once: {right}");
        text.replace(right, self.wrong)
    }

    /// Plants it in the scripts that this thread puts together while the result lives.
    #[must_use]
    pub fn plant(&self) -> Planted {
        plant(self.file, self.planted_text())
    }
}
