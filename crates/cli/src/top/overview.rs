//! The page of the destinations: their rates, backlogs and heads.

use std::{collections::HashMap, time::Instant};

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Cell, Row, Table, TableState},
};
use serde_json::Value;

use super::draw::{BAD, DIM, rate, state_letter, state_style};
use crate::output::{count_of, human_age, text_of};

/// The width of the longest bar.
const BAR_WIDTH: u64 = 18;
/// The states of a backlog, in the order of its bar.
const STATES: [&str; 6] = ["halted", "delayed", "waiting", "processing", "ready", "delivering"];
/// The weight of a new rate in the average. The rest is the previous rate, so that numbers do not jump.
const NEW: f64 = 0.6;

/// The data of the page: the destinations, and the sums over all.
#[derive(Default)]
pub(super) struct Overview {
    pub(super) rows: Vec<DestinationRow>,
    /// How many messages all destinations hold, by state.
    pub(super) totals: Value,
    pub(super) in_per_second: f64,
    pub(super) out_per_second: f64,
    before: HashMap<String, Before>,
    before_of_all: Option<Before>,
}

/// The numbers of a destination.
#[derive(Default)]
pub(super) struct DestinationRow {
    pub(super) name: String,
    /// With ordering by key: the key of the oldest head.
    pub(super) head_key: Option<String>,
    counts: [u64; STATES.len()],
    pending: u64,
    dead_letters: u64,
    paused: String,
    in_per_second: f64,
    out_per_second: f64,
    /// The age of the oldest head, if it was read.
    head_age_ms: Option<u64>,
    is_damaged: bool,
}

/// The counters at an earlier time.
#[derive(Clone, Copy)]
struct Before {
    at: Instant,
    came: u64,
    left: u64,
    in_per_second: f64,
    out_per_second: f64,
}

impl Before {
    /// The counters at this time, with the rates since `before`.
    fn now(before: Option<Before>, at: Instant, came: u64, left: u64) -> Before {
        let mut now = Before { at, came, left, in_per_second: 0.0, out_per_second: 0.0 };
        if let Some(before) = before {
            let seconds = at.duration_since(before.at).as_secs_f64().max(0.001);
            let rate = |now: u64, then: u64, before: f64| {
                NEW * (now.saturating_sub(then) as f64 / seconds) + (1.0 - NEW) * before
            };
            now.in_per_second = rate(came, before.came, before.in_per_second);
            now.out_per_second = rate(left, before.left, before.out_per_second);
        }
        now
    }
}

impl Overview {
    /// Adopts new numbers.
    pub(super) fn take(&mut self, all: &Value, heads: &[(String, Value)], at: Instant) {
        let totals = &all["totals"];
        let gone = ["delivered_total", "dropped_total", "dead_lettered_total", "cancelled_total"];
        let left: u64 = gone.iter().map(|name| count_of(totals, name)).sum();
        let came = left + count_of(totals, "pending");
        let now = Before::now(self.before_of_all, at, came, left);
        (self.in_per_second, self.out_per_second) = (now.in_per_second, now.out_per_second);
        self.before_of_all = Some(now);
        self.totals = totals.clone();
        let heads: HashMap<&str, &Value> =
            heads.iter().map(|(name, stats)| (name.as_str(), &stats["head"])).collect();
        let items = all["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        let before = std::mem::take(&mut self.before);
        self.rows =
            items.iter().map(|item| row(item, heads.get(&*text_of(item, "name")))).collect();
        for (row, item) in self.rows.iter_mut().zip(items) {
            let came = count_of(item, "last_sequence");
            let left = came.saturating_sub(row.pending);
            let now = Before::now(before.get(&row.name).copied(), at, came, left);
            (row.in_per_second, row.out_per_second) = (now.in_per_second, now.out_per_second);
            self.before.insert(row.name.clone(), now);
        }
    }

    /// Draws the table.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect, selected: usize) {
        let titles = ["destination", "in/s", "out/s", "backlog", "pending", "dead", "head age"];
        let header = Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD));
        let widths = [
            Constraint::Min(14),
            Constraint::Length(7),
            Constraint::Length(7),
            Constraint::Length(BAR_WIDTH as u16),
            Constraint::Length(8),
            Constraint::Length(6),
            Constraint::Length(12),
        ];
        let most = self.rows.iter().map(|row| row.pending).max().unwrap_or(1);
        let rows = self.rows.iter().map(|row| row.shown(most));
        let table = Table::new(rows, widths)
            .header(header)
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        let mut state = TableState::new().with_selected(Some(selected));
        frame.render_stateful_widget(table, area, &mut state);
    }
}

fn row(item: &Value, head: Option<&&Value>) -> DestinationRow {
    let paused = &item["paused"];
    DestinationRow {
        name: text_of(item, "name"),
        head_key: head.and_then(|head| head["key"].as_str().map(str::to_owned)),
        counts: STATES.map(|state| count_of(item, state)),
        pending: count_of(item, "pending"),
        dead_letters: count_of(item, "dead_letters"),
        paused: ["delivery", "ingest", "processing"]
            .into_iter()
            .filter(|what| paused[what] == true)
            .map(|what| format!("no {what} "))
            .collect(),
        head_age_ms: head.and_then(|head| head["age_ms"].as_u64()),
        is_damaged: !item["damaged"].is_null(),
        ..DestinationRow::default()
    }
}

impl DestinationRow {
    fn shown(&self, most: u64) -> Row<'static> {
        let is_stuck = self.counts[0] > 0 || self.is_damaged;
        let mark = match (self.is_damaged, is_stuck) {
            (true, _) => "! damaged ",
            (false, true) => "! ",
            (false, false) => "",
        };
        let name = Line::from(vec![
            Span::styled(mark, BAD),
            Span::styled(self.paused.clone(), DIM),
            Span::raw(self.name.clone()),
        ]);
        let age = self.head_age_ms.map(human_age).unwrap_or_default();
        let number = |text: String| Cell::from(Line::from(text).right_aligned());
        Row::new([
            Cell::from(name),
            number(rate(self.in_per_second)),
            number(rate(self.out_per_second)),
            Cell::from(self.bar(most)),
            number(self.pending.to_string()),
            number(self.dead_letters.to_string()),
            Cell::from(Line::from(age).right_aligned().style(if is_stuck {
                BAD
            } else {
                Style::new()
            })),
        ])
    }

    /// The backlog as a bar of letters, one for each part of its states. Its length is relative to the longest backlog.
    fn bar(&self, most: u64) -> Line<'static> {
        let width = (self.pending * BAR_WIDTH).div_ceil(most.max(1)).min(BAR_WIDTH);
        let mut left = width;
        let mut spans = Vec::new();
        for (state, count) in STATES.iter().zip(self.counts) {
            // Show at least one letter of each state that has messages.
            let part = (count * width).div_ceil(self.pending.max(1)).min(left);
            left -= part;
            let text = state_letter(state).to_string().repeat(part as usize);
            spans.push(Span::styled(text, state_style(state)));
        }
        Line::from(spans)
    }
}
