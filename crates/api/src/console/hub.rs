//! Reads each view once for all browsers that watch it, and only while a browser watches it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{Sources, hour::Hour, numbers::Numbers, views::View};
use formats::code::Code;
use http_server::{
    principal::Principal,
    problem::Problem,
    shares::{Share, Shares},
};

/// The most views that this process reads at the same time.
const VIEWS_MAX: usize = 64;
/// The pause after a view was read: at least this many times as long as the read took, but not over 30 s for this
/// reason. So the views do not keep Redis busy.
const REST: u32 = 10;

/// A view as JSON; `None` before the first read.
pub(super) type Frame = Option<Arc<str>>;

/// The views that browsers watch. Each counts for the share of the token that began it.
type Views = HashMap<View, (watch::Sender<Frame>, Share)>;

/// The views that browsers watch. Cheap to clone.
#[derive(Clone)]
pub(super) struct Hub {
    sources: Sources,
    numbers: Numbers,
    pub(super) hour: Hour,
    views: Arc<Mutex<Views>>,
    shares: Shares,
}

impl Hub {
    pub(super) fn new(sources: Sources) -> Hub {
        let numbers = Numbers::new(sources.store.clone(), sources.catalog.clone());
        Hub {
            sources,
            numbers,
            hour: Hour::default(),
            views: Arc::default(),
            shares: Shares::of(VIEWS_MAX),
        }
    }

    /// Starts the task that keeps the last hour.
    pub(super) fn keep_hour(&self) {
        let hour = self.hour.clone().keep(self.numbers.clone(), self.stopping());
        self.sources.tasks.spawn(hour);
    }

    /// Cancelled when the process begins to stop.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.sources.stop.clone()
    }

    /// The frames of a view, for this caller. Refuses if this process already reads as many views as it may.
    pub(super) fn watch(
        &self,
        view: View,
        caller: &Principal,
    ) -> Result<watch::Receiver<Frame>, Problem> {
        let mut views = self.views.lock();
        if let Some((sender, _)) = views.get(&view) {
            return Ok(sender.subscribe());
        }
        if views.len() >= VIEWS_MAX {
            let detail = "this process shows as many different views as it can; close some pages";
            return Err(Problem::new(Code::ConnectionsFull, detail));
        }
        let share = self.shares.take(caller, "different views")?;
        let (sender, receiver) = watch::channel(None);
        views.insert(view.clone(), (sender.clone(), share));
        self.sources.tasks.spawn(self.clone().read(view, sender));
        Ok(receiver)
    }

    /// Reads a view at its interval, until no browser watches it.
    async fn read(self, view: View, sender: watch::Sender<Frame>) {
        loop {
            let begun = Instant::now();
            let frame = tokio::select! {
                () = self.sources.stop.cancelled() => break,
                frame = view.frame(&self.sources, &self.numbers) => frame,
            };
            sender.send_replace(Some(frame.into()));
            let rest = view.interval().max((begun.elapsed() * REST).min(Duration::from_secs(30)));
            tokio::select! {
                () = self.sources.stop.cancelled() => break,
                () = sender.closed() => {}
                () = tokio::time::sleep(rest) => {}
            }
            let mut views = self.views.lock();
            // No browser can begin to watch while the lock is held.
            if sender.receiver_count() == 0 {
                views.remove(&view);
                return;
            }
        }
        self.views.lock().remove(&view);
    }
}
