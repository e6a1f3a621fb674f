//! Bugs that are planted in the Lua scripts on purpose, one at a time, to see which test catches
//! each: one place of one file is replaced while the scripts are put together.
//!
//! `RESEQ_PLANTED_BUG` plants one in a process; [`plant`] in what a test puts together.

use std::borrow::Cow;

#[cfg(feature = "planted-bugs")]
mod table;
#[cfg(feature = "planted-bugs")]
pub use table::BUGS;

/// A bug in a script.
#[derive(Debug, Clone, Copy)]
pub struct Bug {
    /// What goes wrong.
    pub name: &'static str,
    /// The file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// What stands there, once in the file.
    pub right: &'static str,
    /// What takes its place.
    pub wrong: &'static str,
}

/// What is run in place of a file's text: the text.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub fn text_of<'a>(_file: &str, text: &'a str) -> Cow<'a, str> {
    Cow::Borrowed(text)
}

/// What is run in place of a file's text: the text, maybe with a bug planted.
#[cfg(feature = "planted-bugs")]
pub fn text_of<'a>(file: &str, text: &'a str) -> Cow<'a, str> {
    let here = HERE.get();
    let is_planted =
        |bug: &&Bug| here.map_or_else(|| super::planted::is(bug.name), |name| name == bug.name);
    match BUGS.iter().filter(|bug| bug.file == file).find(is_planted) {
        Some(bug) => Cow::Owned(bug.planted_in(text)),
        None => Cow::Borrowed(text),
    }
}

#[cfg(feature = "planted-bugs")]
impl Bug {
    /// The text with the bug. What it replaces must be there, and once: else the bug is out of date.
    fn planted_in(&self, text: &str) -> String {
        let Bug { name, file, right, .. } = self;
        let places = text.matches(right).count();
        assert_eq!(places, 1, "the planted bug {name:?}: lua/{file}.lua must have once: {right}");
        text.replace(right, self.wrong)
    }
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static HERE: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) };
}

/// While it lives, the scripts that this thread puts together have the bug.
#[cfg(feature = "planted-bugs")]
#[derive(Debug)]
pub struct Planted(());

/// Plants a bug in the scripts that this thread puts together from here on.
#[cfg(feature = "planted-bugs")]
#[must_use]
pub fn plant(name: &'static str) -> Planted {
    HERE.set(Some(name));
    Planted(())
}

#[cfg(feature = "planted-bugs")]
impl Drop for Planted {
    fn drop(&mut self) {
        HERE.set(None);
    }
}

#[cfg(all(test, feature = "planted-bugs"))]
mod tests {
    use super::*;

    #[test]
    fn every_bug_has_its_one_place() {
        for bug in BUGS {
            let path = format!("{}/lua/{}.lua", env!("CARGO_MANIFEST_DIR"), bug.file);
            let text = std::fs::read_to_string(&path).unwrap();
            assert_ne!(bug.planted_in(&text), text, "{}", bug.name);
        }
    }
}
