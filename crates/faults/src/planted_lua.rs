//! Replaces the texts of Lua files, for tests that plant a bug in a script. The bugs are in `tests/lua_bugs/`.
//!
//! [`plant`] replaces a file for the scripts that the current thread assembles. In a process,
//! `RESEQ_PLANTED_SCRIPTS` names a folder whose files replace those of the same path in `lua/`.

/// The text to use for a file: unchanged.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub fn text_of<'a>(_file: &str, text: &'a str) -> std::borrow::Cow<'a, str> {
    text.into()
}

#[cfg(feature = "planted-bugs")]
pub use with_bugs::{Planted, plant, text_of};

/// How far ahead the times of calls may be, for tests that may be slow. The product reads these values only with the
/// feature `planted-bugs`. They exist without it too, so that the tests compile with a release build.
pub static CALL_MS_MAX: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
/// After how long other suspects get their turn. See [`CALL_MS_MAX`].
pub static SUSPECT_DELAY_MS: std::sync::OnceLock<u64> = std::sync::OnceLock::new();
/// The length of the second of a rate. See [`CALL_MS_MAX`].
pub static SECOND_US: std::sync::OnceLock<u64> = std::sync::OnceLock::new();

#[cfg(feature = "planted-bugs")]
mod with_bugs {
    use std::{borrow::Cow, cell::RefCell, fs, path::PathBuf, sync::OnceLock};

    thread_local! {
        /// The name of a file in `lua/`, without `.lua`, and the text that replaces it.
        static HERE: RefCell<Option<(&'static str, String)>> = const { RefCell::new(None) };
    }

    /// The text to run for a file: its own text, or the planted one.
    pub fn text_of<'a>(file: &str, text: &'a str) -> Cow<'a, str> {
        let here = HERE.with_borrow(|here| {
            here.as_ref().filter(|(planted, _)| *planted == file).map(|(_, other)| other.clone())
        });
        here.or_else(|| in_folder(file)).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    fn in_folder(file: &str) -> Option<String> {
        static FOLDER: OnceLock<Option<PathBuf>> = OnceLock::new();
        let folder =
            FOLDER.get_or_init(|| std::env::var_os("RESEQ_PLANTED_SCRIPTS").map(PathBuf::from));
        fs::read_to_string(folder.as_ref()?.join(format!("{file}.lua"))).ok()
    }

    /// While this lives, the scripts that this thread assembles contain the planted text.
    #[derive(Debug)]
    pub struct Planted(());

    /// Replaces the text of a file in `lua/` (named without `.lua`) in the scripts that this thread assembles from now
    /// on.
    #[must_use]
    pub fn plant(file: &'static str, text: String) -> Planted {
        HERE.set(Some((file, text)));
        Planted(())
    }

    impl Drop for Planted {
        fn drop(&mut self) {
            HERE.set(None);
        }
    }
}
