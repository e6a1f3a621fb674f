//! The screen of a terminal. Restores the terminal at the end of the command, after a panic (a hook does it), and after
//! a signal (the command then ends in order).

use ratatui::{DefaultTerminal, Frame};

/// The screen to draw on.
pub(super) struct Screen(DefaultTerminal);

impl Screen {
    /// Takes the whole screen. The terminal's earlier content returns at the end.
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
