//! Draws the pages.

use std::sync::LazyLock;

use ratatui::{
    Frame,
    layout::{Constraint, Flex, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::{Block, Clear, Paragraph},
};

use super::{
    pods,
    state::{Page, Sort, State},
};
use crate::output::count_of;

/// For states that need an operator.
pub(super) const BAD: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
/// For less important text.
pub(super) const DIM: Style = Style::new().add_modifier(Modifier::DIM);

/// The keys, and the action of each.
const KEYS: [(&str, &str); 8] = [
    ("↑ ↓ j k", "select a destination; on a lane: the lane of another key"),
    ("enter", "show the lane of the destination"),
    ("esc ← d", "back to the destinations"),
    ("p", "show the pods"),
    ("s", "sort: stuck first, by backlog, by name"),
    ("g G", "first row, last row"),
    ("? h", "this help"),
    ("q ctrl-c", "quit"),
];

/// Without colours, only the letters show the states.
static HAS_COLOURS: LazyLock<bool> =
    LazyLock::new(|| std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()));

/// Draws the whole screen.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State) {
    let [top, title, page, bottom] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(Paragraph::new(numbers(state)), top);
    frame.render_widget(Paragraph::new(title_of(state)), title);
    match &state.page {
        Page::Destinations { .. } => state.overview.draw(frame, page, state.selected),
        Page::Lane { .. } => match &state.lane {
            Some(lane) => lane.draw(frame, page),
            None => frame.render_widget(Paragraph::new("reading …").style(DIM), page),
        },
        Page::Pods => pods::draw(&state.pods, frame, page, state.selected),
    }
    frame.render_widget(Paragraph::new(last_line(state)), bottom);
    if state.helps {
        help(frame);
    }
    if !*HAS_COLOURS {
        remove_colours(frame);
    }
}

/// The line with the numbers of the whole deployment.
fn numbers(state: &State) -> Line<'static> {
    let (overview, totals) = (&state.overview, &state.overview.totals);
    let halted = count_of(totals, "halted");
    let stuck = if halted > 0 { BAD } else { Style::new() };
    Line::from(vec![
        Span::styled("reseq top", Style::new().add_modifier(Modifier::BOLD)),
        Span::raw(format!(
            "  in {}/s  out {}/s  pending {}",
            rate(overview.in_per_second),
            rate(overview.out_per_second),
            count_of(totals, "pending"),
        )),
        Span::styled(format!("  halted {halted}"), stuck),
        Span::raw(format!("  dead letters {}", count_of(totals, "dead_letters"))),
    ])
}

fn title_of(state: &State) -> Line<'static> {
    let text = match &state.page {
        Page::Destinations { sort: Sort::Stuck } => "destinations, stuck ones first".to_owned(),
        Page::Destinations { sort: Sort::Pending } => "destinations by backlog".to_owned(),
        Page::Destinations { sort: Sort::Name } => "destinations by name".to_owned(),
        Page::Lane { destination, .. } => match &state.lane {
            Some(lane) => format!("lane of {}", lane.title(destination)),
            None => format!("lane of {destination}"),
        },
        Page::Pods => "pods".to_owned(),
    };
    Line::from(vec![Span::styled(text, DIM), Span::styled(format!("  {}", state.url), DIM)])
}

/// The last line: the keys of this page, or the error.
fn last_line(state: &State) -> Line<'static> {
    if let Some(error) = &state.error {
        return Line::styled(error.clone(), BAD);
    }
    let keys: &[(&str, &str)] = match &state.page {
        Page::Destinations { .. } => {
            &[("enter", "lane"), ("s", "sort"), ("p", "pods"), ("?", "help"), ("q", "quit")]
        }
        Page::Lane { .. } => {
            &[("↑↓", "other keys"), ("esc", "back"), ("p", "pods"), ("?", "help"), ("q", "quit")]
        }
        Page::Pods => &[("esc", "back"), ("?", "help"), ("q", "quit")],
    };
    let words = keys.iter().flat_map(|(key, what)| {
        let key = Span::styled((*key).to_owned(), Style::new().add_modifier(Modifier::BOLD));
        [key, Span::styled(format!(" {what}  "), DIM)]
    });
    Line::from(words.collect::<Vec<_>>())
}

fn help(frame: &mut Frame<'_>) {
    let lines: Vec<Line<'_>> = KEYS
        .iter()
        .map(|(keys, what)| {
            let keys = format!(" {keys:<10}");
            let keys = Span::styled(keys, Style::new().add_modifier(Modifier::BOLD));
            Line::from(vec![keys, Span::raw(*what)])
        })
        .collect();
    let area = centred(frame.area(), 74, lines.len() as u16 + 2);
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(" keys ")), area);
}

fn centred(area: Rect, width: u16, height: u16) -> Rect {
    let [row] = Layout::vertical([Constraint::Length(height)]).flex(Flex::Center).areas(area);
    let [area] = Layout::horizontal([Constraint::Length(width)]).flex(Flex::Center).areas(row);
    area
}

/// Removes all colours. Text stays bold, dim or reversed.
fn remove_colours(frame: &mut Frame<'_>) {
    for cell in &mut frame.buffer_mut().content {
        (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
    }
}

/// A rate in at most six characters.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        none if none < 0.05 => "0".to_owned(),
        few if few < 10.0 => format!("{few:.1}"),
        many if many < 10_000.0 => format!("{many:.0}"),
        lots => format!("{:.0}k", lots / 1e3),
    }
}

/// The letter of a state, for terminals without colours.
pub(super) fn state_letter(state: &str) -> char {
    match state {
        "waiting" => 'w',
        "processing" => 'p',
        "ready" => 'r',
        "delivering" => 'd',
        "halted" => 'H',
        "delayed" => 'y',
        "tombstone" => 't',
        _ => '.',
    }
}

/// The colour of a state.
pub(super) fn state_style(state: &str) -> Style {
    let colour = match state {
        "waiting" => Color::Gray,
        "processing" => Color::Cyan,
        "ready" => Color::Green,
        "delivering" => Color::LightGreen,
        "halted" => return BAD,
        "delayed" => Color::Yellow,
        "tombstone" => Color::Magenta,
        _ => return DIM,
    };
    Style::new().fg(colour)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ratatui::{Terminal, backend::TestBackend};
    use serde_json::{Value, json};

    use super::*;
    use crate::top::{
        source::{LaneRead, Read},
        state::Next,
    };

    /// What the screen shows at 80 columns and 24 rows.
    fn screen(state: &mut State) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        terminal.backend().to_string()
    }

    fn press(state: &mut State, code: crossterm::event::KeyCode) -> Next {
        state.key(crossterm::event::KeyEvent::from(code))
    }

    fn numbers_of(delivered: u64) -> Value {
        let item = |name: &str, pending: u64, halted: u64| {
            json!({"name": name, "pending": pending, "halted": halted,
                "waiting": pending - halted, "processing": 0, "ready": 0, "delivering": 0,
                "delayed": 0, "dead_letters": 2, "last_sequence": delivered + pending,
                "paused": {"ingest": false, "delivery": name == "crm"}})
        };
        json!({"items": [item("erp", 40, 1), item("crm", 10, 0)],
            "totals": {"pending": 50, "halted": 1, "dead_letters": 4, "delivered_total": 2 * delivered}})
    }

    #[test]
    fn screen_shows_rates_what_is_stuck_and_the_lane_behind_it() {
        let mut state = State::new("http://reseq:8080");
        let head = json!({"head": {"sequence": 7, "key": "a", "age_ms": 61_000}});
        let at = Instant::now();
        let read = |delivered, at| Read::Destinations {
            all: numbers_of(delivered),
            heads: vec![("erp".to_owned(), head.clone())],
            at,
        };
        state.take(Page::default(), read(100, at));
        state.take(Page::default(), read(200, at + Duration::from_secs(1)));
        let shown = screen(&mut state);
        for part in ["pending 50", "halted 1", "! erp", "no delivery crm", "Hwww", "1 min 1 s"] {
            assert!(shown.contains(part), "{part:?} is missing:\n{shown}");
        }
        // 100 messages in a second, of which a new rate counts in part.
        assert!(shown.contains("out 120/s") && shown.contains("  60"), "{shown}");
        assert_eq!(press(&mut state, crossterm::event::KeyCode::Char('?')), Next::Draw);
        assert!(screen(&mut state).contains("show the pods"), "{}", screen(&mut state));
        press(&mut state, crossterm::event::KeyCode::Esc);

        assert_eq!(press(&mut state, crossterm::event::KeyCode::Enter), Next::Show);
        let page = Page::Lane { destination: "erp".to_owned(), key: Some("a".to_owned()) };
        assert_eq!(state.page, page);
        let message = |sequence: u64, state: &str| json!({"sequence": sequence, "state": state});
        let read = LaneRead {
            stats: json!({"delivering": 0, "heads": [{"key": "a"}, {"key": "b"}]}),
            why: json!({"key": "a", "cause": "halted", "explanation": "Message 7 is halted.",
                "behind": 3, "head": {"sequence": 7, "id": "x", "age_ms": 1000},
                "actions": [{"when": "if the cause is gone", "command": "reseq lanes retry erp"}]}),
            messages: json!({"items": [message(7, "halted"), message(9, "ready"),
                message(8, "processing"), message(10, "cancelled")], "next_cursor": null}),
            log: json!({"items": [message(6, "delivered"), message(5, "delivered")]}),
        };
        state.take(page, Read::Lane(Box::new(read)));
        let shown = screen(&mut state);
        for part in [
            "lane of erp, key \"a\"",
            " 5.  6.  7H  8p  9r 10t",
            "Message 7 is halted.",
            "reseq lanes retry erp",
            "t tombstone",
        ] {
            assert!(shown.contains(part), "{part:?} is missing:\n{shown}");
        }
        assert_eq!(press(&mut state, crossterm::event::KeyCode::Down), Next::Show);
        assert!(matches!(&state.page, Page::Lane { key: Some(key), .. } if key == "b"));
        assert_eq!(press(&mut state, crossterm::event::KeyCode::Esc), Next::Show);
        assert_eq!(state.page, Page::default());
        state.failed(&Page::default(), "the service\u{1b} does not answer".to_owned());
        assert!(screen(&mut state).contains("the service\\u{1b} does not answer"));
        assert_eq!(press(&mut state, crossterm::event::KeyCode::Char('q')), Next::Quit);
    }

    #[test]
    fn a_rate_is_short() {
        assert_eq!([0.0, 0.25, 12.4, 123_456.0].map(rate), ["0", "0.2", "12", "123k"]);
    }
}
