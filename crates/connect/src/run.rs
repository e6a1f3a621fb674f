//! Copies one source: reads its marks, reads the source from there, and sends. It does not depend on the kind of
//! source.

use std::{collections::HashMap, sync::Arc, time::Duration};

use client::Service;
use futures::FutureExt;
use metrics::{counter, gauge};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    board::Board,
    outlet::{Line, Outlet, all_or_none, is_not_replaced, may_send},
    settings::SourceSettings,
    source::{Content, Event, Fault, Health, Source, Unfit},
};

/// The most messages of one batch.
const BATCH_MAX: usize = 1_000;
/// A batch of at least this many bytes takes no further message.
const BATCH_BYTES_MAX: usize = 2 << 20;
/// How often to move or compare the marks, to confirm, and to measure.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a stopping process waits for answers.
const DRAIN_MAX: Duration = Duration::from_secs(10);

/// The state that all sources and sinks of the process share.
#[derive(Clone)]
pub struct Shared {
    pub service: Arc<Service>,
    pub board: Arc<Board>,
    pub shutdown: CancellationToken,
    pub tasks: TaskTracker,
}

impl Shared {
    /// Waits for this long, or until the process stops.
    pub async fn pause(&self, wait: Duration) {
        let _ = self.shutdown.run_until_cancelled(sleep(wait)).await;
    }
}

/// Starts the sources of a section.
pub struct Launch {
    pub settings: SourceSettings,
    pub shared: Shared,
    /// The positions that the user gave with `--begin-at`, by the name of the section or of a source.
    pub begins: Arc<HashMap<String, String>>,
}

impl Launch {
    /// Starts to copy this source.
    pub fn start(&self, label: String, source: Box<dyn Source>) {
        let SourceSettings { name, destinations, on_refused, .. } = &self.settings;
        let begin_at = self.begins.get(&label).or_else(|| self.begins.get(name)).cloned();
        self.shared.board.add(&label);
        let outlet = Outlet {
            shared: self.shared.clone(),
            label,
            source: String::new(),
            destinations: destinations.clone(),
            marks: Vec::new(),
            on_refused: *on_refused,
            refused: None,
        };
        let run = Run {
            source,
            outlet,
            begin_at,
            has_stood_by: false,
            read: String::new(),
            is_busy: false,
        };
        self.shared.tasks.spawn(run.run());
    }
}

/// A running source.
struct Run {
    source: Box<dyn Source>,
    outlet: Outlet,
    /// The position that the user gave with `--begin-at`, until the source has begun there.
    begin_at: Option<String>,
    /// True if another process has read the source meanwhile.
    has_stood_by: bool,
    /// All messages up to this position are read and sent.
    read: String,
    /// True if messages were sent since the last look.
    is_busy: bool,
}

impl Run {
    /// Runs until the process stops.
    async fn run(mut self) {
        let (shared, label) = (self.outlet.shared.clone(), self.outlet.label.clone());
        for name in ["accepted", "duplicates", "refused", "rewinds"] {
            let name = format!("reseq_connect_{name}_total");
            counter!(name, "source" => label.clone()).increment(0);
        }
        while !shared.shutdown.is_cancelled() {
            let late = async {
                shared.shutdown.cancelled().await;
                sleep(DRAIN_MAX).await;
            };
            // Messages that are cut off here are sent again by the next process: the marks tell it where to begin.
            let fault = tokio::select! {
                ended = self.pass() => match ended {
                    Ok(()) => break,
                    Err(fault) => fault,
                },
                () = late => {
                    tracing::warn!(source = label, position = self.read, "ends before it has drained");
                    return;
                }
            };
            if shared.shutdown.is_cancelled() {
                break;
            }
            let wait = fault.wait();
            if let Fault::Rewind(why) = fault {
                counter!("reseq_connect_rewinds_total", "source" => label.clone()).increment(1);
                tracing::warn!(source = label, why, "rewinding");
            } else {
                self.has_stood_by |= matches!(fault, Fault::Standby(_));
                shared.board.set(&label, Err(fault));
            }
            shared.pause(wait).await;
        }
        tracing::info!(source = label, position = self.read, "drained");
    }

    /// Copies from the marks on, until there is a fault or the process stops.
    async fn pass(&mut self) -> Result<(), Fault> {
        self.outlet.source = self.source.name().await?;
        // Measure even if nothing can be sent, or if the source halts later.
        self.measure().await?;
        self.outlet.marks = self.outlet.read_marks().await?;
        self.begin().await?;
        let oldest = self.outlet.marks.iter().flatten().min().cloned();
        let oldest = oldest.ok_or_else(|| Fault::Later("no destination has a mark".to_owned()))?;
        self.source.open(&oldest).await?;
        self.read = oldest;
        self.stream().await
    }

    /// Gives a mark to destinations without one, if the user says where to begin or no process has ever read the
    /// source.
    async fn begin(&mut self) -> Result<(), Fault> {
        let Outlet { marks, destinations, source, .. } = &self.outlet;
        if self.has_stood_by && self.begin_at.is_some() {
            // A jump, perhaps much later, would skip messages that the other process has not read yet.
            if marks.iter().any(Option::is_some) {
                tracing::warn!(source, "--begin-at does not count here: another process has begun");
                self.begin_at = None;
            } else {
                // Fails if another process has read the source.
                self.source.begin(None).await?;
            }
        }
        if self.begin_at.is_none() {
            if marks.iter().all(Option::is_some) {
                return Ok(());
            }
            all_or_none(source, destinations, marks)?;
        }
        let Shared { service, .. } = &self.outlet.shared;
        for destination in destinations {
            // Create no slot if a destination accepts no messages.
            may_send(service, destination).await?;
            if self.begin_at.is_none() {
                is_not_replaced(service, destination, source).await?;
            }
        }
        let position = self.source.begin(self.begin_at.as_deref()).await?;
        // If this process does not finish, the next pass begins at the same position.
        self.begin_at.get_or_insert_with(|| position.clone());
        let lines = self.outlet.behind(&position);
        for line in &lines {
            // Without `after`, the mark may jump.
            self.outlet.marks[line.destination] = None;
        }
        self.outlet.send(lines).await?;
        tracing::info!(source = self.outlet.label, position, "begins");
        self.begin_at = None;
        Ok(())
    }

    async fn stream(&mut self) -> Result<(), Fault> {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looked = Instant::now();
        loop {
            let event = tokio::select! {
                biased;
                () = self.outlet.shared.shutdown.cancelled() => return self.look().await,
                event = self.source.next() => Some(event?),
                _ = ticks.tick() => None,
            };
            if let Some(event) = event {
                self.batch(event).await?;
            }
            if looked.elapsed() >= LOOK_EVERY {
                self.look().await?;
                looked = Instant::now();
            }
        }
    }

    /// Sends this event, and the events that are already available behind it.
    async fn batch(&mut self, first: Event) -> Result<(), Fault> {
        let (mut lines, mut bytes, mut held) = (Vec::new(), 0, Vec::new());
        let (mut next, mut fault) = (Some(first), None);
        let mut read = self.read.clone();
        while let Some(Event { position, content, held: permit }) = next.take() {
            held.extend(permit);
            match content.map_or(Ok(None), |content| self.line(&position, content)) {
                Ok(line) => {
                    let content = line.as_ref().and_then(|line| line.content.as_ref());
                    bytes += content.map_or(0, Content::bytes);
                    lines.extend(line);
                }
                Err(problem) => {
                    fault = Some(problem);
                    break;
                }
            }
            read = position;
            if lines.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
                match self.source.next().now_or_never().transpose() {
                    Ok(event) => next = event,
                    // First send the events that were read before the fault.
                    Err(problem) => fault = Some(problem),
                }
            }
        }
        self.is_busy |= !lines.is_empty();
        self.outlet.send(lines).await?;
        self.read = read;
        fault.map_or(Ok(()), Err)
    }

    /// The line for a message. `None` if its destination has it already, or it is skipped.
    fn line(
        &mut self,
        position: &str,
        content: Result<Content, Unfit>,
    ) -> Result<Option<Line>, Fault> {
        let Outlet { destinations, marks, .. } = &self.outlet;
        let has = |mark: &Option<String>| mark.as_deref().is_some_and(|mark| position <= mark);
        let known = content.and_then(|content| {
            let index = match &content.destination {
                None if destinations.len() == 1 => 0,
                None => return Err(Unfit::Message("it names no destination".to_owned())),
                Some(name) => {
                    let none = || Unfit::Settings(format!("destinations does not have {name:?}"));
                    destinations.iter().position(|known| known == name).ok_or_else(none)?
                }
            };
            Ok((index, content))
        });
        match known {
            Ok((index, _)) if has(&marks[index]) => Ok(None),
            Ok((destination, content)) => {
                let position = position.to_owned();
                Ok(Some(Line { destination, position, content: Some(content) }))
            }
            Err(_) if marks.iter().all(has) => Ok(None),
            Err(unfit) => {
                let why = format!("the message at {position}: {unfit}");
                match unfit {
                    Unfit::Settings(_) => Err(Fault::Halted(why)),
                    // The next look moves all marks past this message.
                    Unfit::Message(_) => self.outlet.refused(position, why).map_or(Ok(None), Err),
                }
            }
        }
    }

    /// Moves all marks to the position that was read, and confirms it. If there is nothing to move, compares the marks.
    async fn look(&mut self) -> Result<(), Fault> {
        let read = self.read.clone();
        let lines = self.outlet.behind(&read);
        if lines.is_empty() && !self.is_busy {
            let marks = self.outlet.read_marks().await?;
            if marks != self.outlet.marks {
                let why = format!("marks: {marks:?}; expected {:?}", self.outlet.marks);
                return Err(Fault::Rewind(why));
            }
        }
        self.outlet.send(lines).await?;
        self.is_busy = false;
        // Measure before the confirmation: the measurement may show that messages are missing.
        self.measure().await?;
        self.outlet.shared.board.set(&self.outlet.label, Ok(()));
        self.source.confirm(&read);
        Ok(())
    }

    /// Reports the state of the source. Fails if the source must not continue.
    async fn measure(&mut self) -> Result<(), Fault> {
        let Health { lag, at, problem, halted, .. } = self.source.health(&self.read).await?;
        let label = &self.outlet.label;
        gauge!("reseq_connect_lag", "source" => label.clone()).set(lag as f64);
        gauge!("reseq_connect_position", "source" => label.clone()).set(at);
        self.outlet.shared.board.note(label, problem);
        halted.map_or(Ok(()), |why| Err(Fault::Halted(why)))
    }
}
