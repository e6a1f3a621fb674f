//! Bugs planted in the Lua scripts, one at a time, to see which tests catch each: one place of one
//! file is replaced when the scripts are assembled.
//!
//! `RESEQ_PLANTED_BUG` plants one in a process, [`plant`] in the scripts that a test assembles.

use std::borrow::Cow;

#[cfg(feature = "planted-bugs")]
mod table;
#[cfg(feature = "planted-bugs")]
pub use table::BUGS;

/// A bug in a script.
#[derive(Debug, Clone, Copy)]
pub struct Bug {
    /// The bug's name: what goes wrong.
    pub name: &'static str,
    /// The file in `lua/`, without `.lua`.
    pub file: &'static str,
    /// The original text, which occurs once in the file.
    pub right: &'static str,
    /// The text that replaces it.
    pub wrong: &'static str,
}

/// The text to use for a file: unchanged.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub fn text_of<'a>(_file: &str, text: &'a str) -> Cow<'a, str> {
    Cow::Borrowed(text)
}

/// The text to use for a file, perhaps with a bug planted.
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
    /// The text with the bug. Fails if the original text does not occur exactly once: the bug is
    /// outdated.
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

/// While this value lives, scripts that this thread assembles have the bug.
#[cfg(feature = "planted-bugs")]
#[derive(Debug)]
pub struct Planted(());

/// Plants a bug in the scripts that this thread assembles from now on.
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
