//! The state of the view, and the effects of keys. No I/O.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;

use super::{lane::Lane, overview::Overview, source::Read};
use crate::output::plain;

/// The most destinations to show.
pub(super) const SHOWN_MAX: usize = 200;

/// The order of the destinations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// First destinations with halted messages, then the longest backlogs.
    #[default]
    Stuck,
    /// The longest backlogs first.
    Pending,
    /// By name.
    Name,
}

impl Sort {
    /// The word for this order in the API.
    pub(super) fn word(self) -> &'static str {
        match self {
            Sort::Stuck => "stuck",
            Sort::Pending => "pending",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Sort {
        match self {
            Sort::Stuck => Sort::Pending,
            Sort::Pending => Sort::Name,
            Sort::Name => Sort::Stuck,
        }
    }
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Page {
    /// All destinations.
    Destinations { sort: Sort },
    /// A lane of a destination; without a key, the lane whose head is the oldest.
    Lane { destination: String, key: Option<String> },
    /// The pods.
    Pods,
}

impl Default for Page {
    fn default() -> Page {
        Page::Destinations { sort: Sort::default() }
    }
}

/// The next step after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    Quit,
    /// Draw again.
    Draw,
    /// Draw again, and read another page.
    Show,
}

/// The state of the view.
pub(super) struct State {
    /// The URL of the service.
    pub(super) url: String,
    pub(super) page: Page,
    pub(super) overview: Overview,
    pub(super) lane: Option<Lane>,
    pub(super) pods: Value,
    /// The selected row of the page.
    pub(super) selected: usize,
    /// The destination that was selected before its lane was shown.
    below: usize,
    /// Why the last read failed.
    pub(super) error: Option<String>,
    pub(super) helps: bool,
    sort: Sort,
}

impl State {
    pub(super) fn new(url: &str) -> State {
        State {
            url: url.to_owned(),
            page: Page::default(),
            overview: Overview::default(),
            lane: None,
            pods: Value::Null,
            selected: 0,
            below: 0,
            error: None,
            helps: false,
            sort: Sort::default(),
        }
    }

    /// Adopts the data of a page.
    pub(super) fn take(&mut self, page: Page, read: Read) {
        if page != self.page {
            return;
        }
        self.error = None;
        match read {
            Read::Destinations { all, heads, at } => self.overview.take(&all, &heads, at),
            Read::Lane(read) => self.lane = Some(Lane::of(&read)),
            Read::Pods(pods) => self.pods = pods,
        }
        self.selected = self.selected.min(self.rows().saturating_sub(1));
    }

    /// Notes that a page could not be read.
    pub(super) fn failed(&mut self, page: &Page, error: String) {
        if *page == self.page {
            self.error = Some(plain(&error));
        }
    }

    /// The number of rows that can be selected on the page.
    fn rows(&self) -> usize {
        match &self.page {
            Page::Destinations { .. } => self.overview.rows.len(),
            Page::Lane { .. } => self.lane.as_ref().map_or(0, |lane| lane.keys.len()),
            Page::Pods => self.pods["items"].as_array().map_or(0, Vec::len),
        }
    }

    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.kind == KeyEventKind::Release {
            return Next::Draw;
        }
        let with_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if with_control && key.code == KeyCode::Char('c') {
            return Next::Quit;
        }
        if std::mem::take(&mut self.helps) {
            // Any key ends the help.
            return if key.code == KeyCode::Char('q') { Next::Quit } else { Next::Draw };
        }
        let last = self.rows().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') => return Next::Quit,
            KeyCode::Char('?' | 'h') => self.helps = true,
            KeyCode::Down | KeyCode::Char('j') => {
                return self.select((self.selected + 1).min(last));
            }
            KeyCode::Up | KeyCode::Char('k') => {
                return self.select(self.selected.saturating_sub(1));
            }
            KeyCode::PageDown => return self.select((self.selected + 10).min(last)),
            KeyCode::PageUp => return self.select(self.selected.saturating_sub(10)),
            KeyCode::Home | KeyCode::Char('g') => return self.select(0),
            KeyCode::End | KeyCode::Char('G') => return self.select(last),
            KeyCode::Enter => return self.enter(),
            KeyCode::Esc | KeyCode::Backspace | KeyCode::Left => return self.back(),
            KeyCode::Char('d') => return self.show(Page::Destinations { sort: self.sort }),
            KeyCode::Char('p') => return self.show(Page::Pods),
            KeyCode::Char('s') if matches!(self.page, Page::Destinations { .. }) => {
                self.sort = self.sort.next();
                return self.show(Page::Destinations { sort: self.sort });
            }
            _ => {}
        }
        Next::Draw
    }

    /// Selects a row. On the page of a lane, this shows the lane of another key.
    fn select(&mut self, row: usize) -> Next {
        self.selected = row;
        if let (Page::Lane { destination, .. }, Some(lane)) = (&self.page, &self.lane)
            && let Some(key) = lane.keys.get(row)
        {
            let (destination, key) = (destination.clone(), Some(key.clone()));
            self.page = Page::Lane { destination, key };
            return Next::Show;
        }
        Next::Draw
    }

    /// Shows the lane of the selected destination.
    fn enter(&mut self) -> Next {
        if !matches!(self.page, Page::Destinations { .. }) {
            return Next::Draw;
        }
        let Some(row) = self.overview.rows.get(self.selected) else { return Next::Draw };
        let (destination, key) = (row.name.clone(), row.head_key.clone());
        self.below = self.selected;
        self.lane = None;
        self.show(Page::Lane { destination, key })
    }

    fn back(&mut self) -> Next {
        match self.page {
            Page::Destinations { .. } => Next::Draw,
            _ => {
                let next = self.show(Page::Destinations { sort: self.sort });
                self.selected = self.below;
                next
            }
        }
    }

    fn show(&mut self, page: Page) -> Next {
        (self.page, self.selected, self.error) = (page, 0, None);
        Next::Show
    }
}
