//! Bugs to plant in the Lua scripts, one at a time, to see which test catches each. Each bug
//! replaces one place in one file.

mod table;

use std::fs;

use faults::planted_lua::{Planted, plant};

pub use table::BUGS;

/// A bug in a script.
#[derive(Debug, Clone, Copy)]
pub struct Bug {
    /// Describes the bug. Unique within its file.
    pub name: &'static str,
    /// The file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// The correct text, which occurs once in the file.
    pub right: &'static str,
    /// The wrong text that replaces it.
    pub wrong: &'static str,
}

impl Bug {
    /// The correct file.
    pub fn whole_text(&self) -> String {
        let path = format!("{}/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), self.file);
        fs::read_to_string(path).unwrap()
    }

    /// The file with the bug. The correct text must occur exactly once, otherwise the bug is outdated.
    pub fn planted_text(&self) -> String {
        let Bug { name, file, right, .. } = self;
        let text = self.whole_text();
        let places = text.matches(right).count();
        assert_eq!(places, 1, "the planted bug {name:?}: lua/{file}.lua must have once: {right}");
        text.replace(right, self.wrong)
    }

    /// Plants the bug in the scripts that this thread composes until the result is dropped.
    #[must_use]
    pub fn plant(&self) -> Planted {
        plant(self.file, self.planted_text())
    }
}
