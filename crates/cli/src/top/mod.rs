//! `reseq top`: a live view of the deployment in a terminal.

mod draw;
mod lane;
mod overview;
mod pods;
mod source;
mod state;
mod terminal;

use std::{io::IsTerminal, time::Duration};

use clap::Args;
use crossterm::event::{Event, EventStream};
use futures::StreamExt;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{mpsc, watch},
};
use tokio_util::task::AbortOnDropHandle;

use super::{client_args::ClientArgs, durations::duration_within};
use source::{Read, Source};
use state::{Next, Page, State};
use terminal::Screen;

/// At most this many reads wait to be shown. Only the newest one matters.
const READS_MAX: usize = 1;

/// The arguments of `reseq top`.
#[derive(Debug, Clone, Args)]
pub struct TopArgs {
    #[command(flatten)]
    client: ClientArgs,
    /// Time between two updates (500ms to 60s)
    #[arg(long, value_name = "DURATION", default_value = "1s",
        value_parser = duration_within("500ms", "60s"))]
    interval: Duration,
}

/// Shows the view until the user quits, or a signal ends it.
pub async fn run(args: TopArgs) -> anyhow::Result<()> {
    let service = args.client.service()?;
    anyhow::ensure!(
        std::io::stdout().is_terminal(),
        "top needs a terminal, and standard output is none; see reseq status -o json"
    );
    let mut state = State::new(service.url());
    let source = Source::new(service, args.interval);
    // Read first: an error now is clearer than an empty screen.
    let first = source.read(&Page::default()).await?;
    state.take(Page::default(), first);
    let (mut ends, mut hangs_up) =
        (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?);
    let mut screen = Screen::open()?;
    let (pages, wanted) = watch::channel(Page::default());
    let (reads, mut arriving) = mpsc::channel(READS_MAX);
    let _reading = AbortOnDropHandle::new(tokio::spawn(source.follow(wanted, reads)));
    let mut events = EventStream::new();
    loop {
        screen.draw(|frame| draw::draw(frame, &mut state))?;
        #[cfg(feature = "planted-bugs")]
        panic_if_planted();
        let next = tokio::select! {
            _ = ends.recv() => Next::Quit,
            _ = hangs_up.recv() => Next::Quit,
            event = events.next() => match event {
                Some(Ok(Event::Key(key))) => state.key(key),
                Some(Ok(_)) => Next::Draw,
                // The terminal is gone.
                Some(Err(_)) | None => Next::Quit,
            },
            read = arriving.recv() => match read {
                Some((page, Ok(read))) => {
                    state.take(page, read);
                    Next::Draw
                }
                Some((page, Err(error))) => {
                    state.failed(&page, format!("{error:#}"));
                    Next::Draw
                }
                None => Next::Quit,
            },
        };
        match next {
            Next::Quit => return Ok(()),
            Next::Draw => {}
            Next::Show => pages.send_modify(|page| page.clone_from(&state.page)),
        }
    }
}

/// For tests: panics while the program uses the whole screen.
#[cfg(feature = "planted-bugs")]
fn panic_if_planted() {
    assert!(std::env::var_os("RESEQ_TOP_PANICS").is_none(), "a planted panic");
}

/// The data of a page, or the error of its read.
type Arriving = (Page, anyhow::Result<Read>);
