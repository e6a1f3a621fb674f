//! Reads each view once for all who watch it, and only while somebody does.

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

/// The most views that are read at the same time.
const VIEWS_MAX: usize = 64;
/// After a view was read, it rests for at least this many times as long as that took. So all views
/// together cannot keep Redis busy.
const REST: u32 = 10;

/// A view as JSON; `None` before the first read.
pub(super) type Frame = Option<Arc<str>>;

/// Each view that is read, and the share of the token that began it.
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

    /// Begins to keep the last hour.
    pub(super) fn keep_hour(&self) {
        let hour = self.hour.clone().keep(self.numbers.clone(), self.stopping());
        self.sources.tasks.spawn(hour);
    }

    /// Cancelled when the process begins to stop.
    pub(super) fn stopping(&self) -> CancellationToken {
        self.sources.stop.clone()
    }

    /// The frames of a view, for this caller. Refuses if too many are being read.
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

    /// Reads a view again and again until nobody watches it.
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
            // Nobody can begin to watch while the lock is held.
            if sender.receiver_count() == 0 {
                views.remove(&view);
                return;
            }
        }
        self.views.lock().remove(&view);
    }
}
