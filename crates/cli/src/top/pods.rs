//! The page of the pods, with the partitions that each pod owns.

use ratatui::{
    Frame,
    layout::{Constraint, Rect},
    style::{Modifier, Style},
    widgets::{Row, Table, TableState},
};
use serde_json::Value;

use crate::pods::row;

/// Draws the table.
pub(super) fn draw(pods: &Value, frame: &mut Frame<'_>, area: Rect, selected: usize) {
    let items = pods["items"].as_array().map(Vec::as_slice).unwrap_or_default();
    let header = Row::new(["pod", "host", "roles", "version", "partitions"])
        .style(Style::new().add_modifier(Modifier::BOLD));
    let rows = items.iter().map(|pod| Row::new(row(pod).into_iter().take(5)));
    let widths = [
        Constraint::Length(13),
        Constraint::Min(10),
        Constraint::Length(24),
        Constraint::Length(7),
        Constraint::Fill(1),
    ];
    let table = Table::new(rows, widths)
        .header(header)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = TableState::new().with_selected(Some(selected));
    frame.render_stateful_widget(table, area, &mut state);
}
