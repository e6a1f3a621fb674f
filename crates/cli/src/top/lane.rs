//! The page of a lane: a strip of sequences, and the cause that blocks it.

use ratatui::{
    Frame,
    layout::{Constraint, Layout, Rect},
    style::{Modifier, Style},
    text::{Line, Span},
    widgets::{Paragraph, Wrap},
};
use serde_json::Value;

use super::{
    draw::{BAD, DIM, state_letter, state_style},
    source::LaneRead,
};
use crate::output::{count_of, counted, human_age, plain, text_of};

/// The states in the legend of a strip.
const STATES: [&str; 8] =
    ["left", "delivering", "ready", "processing", "waiting", "delayed", "halted", "tombstone"];

/// The data of the page.
pub(super) struct Lane {
    /// With ordering by key: the keys of the lanes with the oldest heads.
    pub(super) keys: Vec<String>,
    cells: Vec<Cell>,
    has_more: bool,
    why: Value,
}

/// A message in the strip.
struct Cell {
    sequence: u64,
    state: &'static str,
}

impl Lane {
    pub(super) fn of(read: &LaneRead) -> Lane {
        let LaneRead { stats, why, messages, log } = read;
        let items = |page: &Value| page["items"].as_array().cloned().unwrap_or_default();
        let mut pending: Vec<Cell> = items(messages).iter().map(cell).collect();
        pending.sort_by_key(|cell| cell.sequence);
        pending.dedup_by_key(|cell| cell.sequence);
        mark_delivering(&mut pending, stats, why["key"].is_string());
        // The log has the newest entries first. A message may have left between the two reads.
        let left = items(log);
        let left = left.iter().rev().filter(|one| !one["sequence"].is_null());
        let mut cells: Vec<Cell> =
            left.map(|one| Cell { sequence: count_of(one, "sequence"), state: "left" }).collect();
        pending.retain(|cell| !cells.iter().any(|left| left.sequence == cell.sequence));
        cells.extend(pending);
        let heads = stats["heads"].as_array().map(Vec::as_slice).unwrap_or_default();
        Lane {
            keys: heads.iter().filter_map(|head| head["key"].as_str().map(str::to_owned)).collect(),
            cells,
            has_more: !messages["next_cursor"].is_null(),
            why: why.clone(),
        }
    }

    /// Draws the strip, and the cause that blocks the lane.
    pub(super) fn draw(&self, frame: &mut Frame<'_>, area: Rect) {
        let [strip, legend, why] =
            Layout::vertical([Constraint::Min(4), Constraint::Length(2), Constraint::Length(9)])
                .areas(area);
        frame.render_widget(Paragraph::new(self.strip(strip)), strip);
        frame.render_widget(Paragraph::new(legend_lines()), legend);
        frame.render_widget(Paragraph::new(self.reason()).wrap(Wrap { trim: false }), why);
    }

    /// The sequences in rows. If there are too many, the messages that left first are not shown.
    fn strip(&self, area: Rect) -> Vec<Line<'static>> {
        let longest = self.cells.iter().map(|cell| cell.sequence.to_string().len()).max();
        let width = longest.unwrap_or(1) + 2;
        let per_row = (usize::from(area.width) / width).max(1);
        let rows = usize::from(area.height).max(1);
        let left = self.cells.iter().filter(|cell| cell.state == "left").count();
        let too_many = self.cells.len().saturating_sub(per_row * rows);
        let shown = &self.cells[too_many.min(left.saturating_sub(per_row))..];
        let mut lines: Vec<Line<'static>> = shown
            .chunks(per_row)
            .take(rows)
            .map(|cells| {
                let span = |cell: &Cell| {
                    let letter = state_letter(cell.state);
                    let text = format!("{:>1$}{letter} ", cell.sequence, width - 2);
                    Span::styled(text, state_style(cell.state))
                };
                Line::from(cells.iter().map(span).collect::<Vec<_>>())
            })
            .collect();
        if self.cells.is_empty() {
            lines.push(Line::styled("nothing is pending", DIM));
        }
        let is_cut = shown.len() > per_row * rows || self.has_more;
        if is_cut && let Some(last) = lines.last_mut() {
            last.spans.truncate(per_row.saturating_sub(1));
            last.push_span(Span::styled("…", DIM));
        }
        lines
    }

    fn reason(&self) -> Vec<Line<'static>> {
        let (why, head) = (&self.why, &self.why["head"]);
        if head.is_null() {
            return Vec::new();
        }
        let name = |text: &str| {
            Span::styled(format!("{text:<8}"), Style::new().add_modifier(Modifier::BOLD))
        };
        let age = human_age(count_of(head, "age_ms"));
        let behind = counted(count_of(why, "behind"), "message");
        let cause = text_of(why, "cause");
        let style = if matches!(cause.as_str(), "halted" | "damaged") { BAD } else { Style::new() };
        let head = format!("{}, id {}, {age} old", text_of(head, "sequence"), text_of(head, "id"));
        let since = why["blocked_ms"].as_u64().map(|ms| format!(" for {}", human_age(ms)));
        let since = since.unwrap_or_default();
        let mut lines = vec![
            Line::from(vec![name("head"), Span::raw(head)]),
            Line::from(vec![name("why"), Span::styled(text_of(why, "explanation"), style)]),
            Line::from(vec![name("behind"), Span::raw(format!("{behind}{since}"))]),
        ];
        for action in why["actions"].as_array().into_iter().flatten().take(3) {
            let (when, command) = (text_of(action, "when"), text_of(action, "command"));
            let words =
                vec![name("do"), Span::raw(command), Span::styled(format!("  {when}"), DIM)];
            lines.push(Line::from(words));
        }
        lines
    }

    /// The name of the lane for the title.
    pub(super) fn title(&self, destination: &str) -> String {
        match self.why["key"].as_str() {
            Some(key) => format!("{destination}, key {:?}", plain(key)),
            None => destination.to_owned(),
        }
    }
}

fn cell(item: &Value) -> Cell {
    let state = match item["state"].as_str().unwrap_or_default() {
        "delivering" => "delivering",
        "ready" => "ready",
        "processing" => "processing",
        "delayed" => "delayed",
        "halted" | "damaged" => "halted",
        "dropped" | "cancelled" | "dead_lettered" => "tombstone",
        _ => "waiting",
    };
    Cell { sequence: count_of(item, "sequence"), state }
}

/// Marks the messages in delivery. Redis knows only how many ready messages are in delivery: they are at the front.
fn mark_delivering(cells: &mut [Cell], stats: &Value, is_one_of_many: bool) {
    let all = count_of(stats, "delivering");
    // With many lanes, this is the number of all lanes together.
    let most = if is_one_of_many { all.min(1) } else { all };
    let front = cells.iter_mut().take_while(|cell| matches!(cell.state, "ready" | "tombstone"));
    for cell in front.filter(|cell| cell.state == "ready").take(most as usize) {
        cell.state = "delivering";
    }
}

/// The legend of the letters, in two lines: one line would be too long for 80 columns.
fn legend_lines() -> Vec<Line<'static>> {
    let words = |state: &&str| {
        let letter = Span::styled(state_letter(state).to_string(), state_style(state));
        [letter, Span::styled(format!(" {state}  "), DIM)]
    };
    let line = |states: &[&str]| Line::from(states.iter().flat_map(words).collect::<Vec<_>>());
    STATES.chunks(STATES.len() / 2).map(line).collect()
}
