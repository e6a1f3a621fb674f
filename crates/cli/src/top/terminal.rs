//! The screen of a terminal. However the command ends, the terminal is as it was before: at the end, after a
//! panic (a hook restores it), and after a signal (the command then ends in order).

use ratatui::{DefaultTerminal, Frame};

/// A screen that is drawn on.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the whole screen. Its content comes back at the end.
    pub(super) fn open() -> std::io::Result<Screen> {
        // This also sets a hook that restores the terminal before a panic is printed.
        ratatui::try_init().map(Screen)
    }

    /// Draws.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> std::io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        ratatui::restore();
    }
}
