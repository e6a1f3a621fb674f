//! Publishes deliveries while somebody watches (`reseq tail`). Deliveries never wait for this:
//! beyond the limits, they are only counted.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use domain::{AttemptError, DestinationName, Stamped, excerpt::excerpt};
use store::{Delivery, Outcome, Store, Told};

/// A watcher's request counts for this long. Watchers repeat it more often.
const WANTED_FOR: Duration = Duration::from_secs(10);
/// The most destinations to watch individually. With more, all destinations count as watched.
const NAMES_MAX: usize = 64;
/// Deliveries that wait to be published.
const QUEUE_MAX: usize = 1_000;
/// The most deliveries in one call.
const BATCH_MAX: usize = 500;
/// The pause after each call. With it, a sender publishes at most 5,000 deliveries a second.
const PAUSE: Duration = Duration::from_millis(100);

/// The destinations that somebody watches, and the deliveries to publish.
pub(super) struct Tail {
    /// True while somebody may watch. While it is false, a delivery checks nothing else.
    is_on: AtomicBool,
    wanted: Mutex<Wanted>,
    queue: mpsc::Sender<Told>,
    missed: AtomicU64,
}

/// The watched destinations, each with the end of its watch.
#[derive(Default)]
struct Wanted {
    all: Option<Instant>,
    of: HashMap<DestinationName, Instant>,
}

impl Wanted {
    fn drop_expired(&mut self, now: Instant) {
        self.all = self.all.filter(|until| *until > now);
        self.of.retain(|_, until| *until > now);
    }

    fn is_empty(&self) -> bool {
        self.all.is_none() && self.of.is_empty()
    }
}

impl Tail {
    /// Starts without watchers. Pass the receiver to [`Tail::publish`].
    pub(super) fn new() -> (Arc<Tail>, mpsc::Receiver<Told>) {
        let (queue, queued) = mpsc::channel(QUEUE_MAX);
        let (is_on, wanted, missed) = Default::default();
        (Arc::new(Tail { is_on, wanted, queue, missed }), queued)
    }

    /// Notes that somebody watches this destination, or all destinations, for the next seconds.
    pub(super) fn wants(&self, of: Option<DestinationName>, now: Instant) {
        let until = now + WANTED_FOR;
        let mut wanted = self.wanted.lock();
        wanted.drop_expired(now);
        match of {
            Some(name) if wanted.of.contains_key(&name) || wanted.of.len() < NAMES_MAX => {
                wanted.of.insert(name, until);
            }
            _ => wanted.all = Some(until),
        }
        self.is_on.store(true, Ordering::Relaxed);
    }

    /// True if somebody watches this destination.
    pub(super) fn is_wanted(&self, name: &DestinationName, now: Instant) -> bool {
        if !self.is_on.load(Ordering::Relaxed) {
            return false;
        }
        let mut wanted = self.wanted.lock();
        wanted.drop_expired(now);
        self.is_on.store(!wanted.is_empty(), Ordering::Relaxed);
        wanted.all.is_some() || wanted.of.contains_key(name)
    }

    /// Queues a delivery to publish it soon. If the queue is full, only counts it.
    pub(super) fn note(&self, delivery: Delivery) {
        if self.queue.try_send(Told::Delivery(Box::new(delivery))).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Publishes the noted deliveries, until `stop`.
    pub(super) async fn publish(
        self: Arc<Self>,
        mut queued: mpsc::Receiver<Told>,
        store: Store,
        stop: CancellationToken,
    ) {
        let mut batch = Vec::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                count = queued.recv_many(&mut batch, BATCH_MAX) => if count == 0 { return },
            }
            match self.missed.swap(0, Ordering::Relaxed) {
                0 => {}
                missed => batch.push(Told::Missed(missed)),
            }
            if let Err(error) = store.publish_deliveries(&batch).await {
                // The next successful call reports the missed deliveries to the watchers.
                self.missed.fetch_add(batch.len() as u64, Ordering::Relaxed);
                tracing::debug!(%error, "deliveries cannot be shown to those who watch");
            }
            batch.clear();
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}

/// A request that has ended.
pub(super) struct Ended<'a> {
    pub(super) destination: &'a DestinationName,
    pub(super) pod: &'a str,
    pub(super) messages: &'a [Arc<Stamped>],
    pub(super) took: Duration,
    pub(super) now_ms: u64,
}

impl Ended<'_> {
    /// The end of the request, as `reseq tail` shows it for one of its messages.
    pub(super) fn of(&self, message: &Stamped, error: Option<&AttemptError>) -> Delivery {
        let shown = |error: &AttemptError| AttemptError {
            detail: excerpt(error.detail.as_bytes()),
            ..error.clone()
        };
        Delivery {
            destination: self.destination.clone(),
            key: message.message.key.clone(),
            epoch: message.position.epoch,
            sequence: message.position.sequence,
            id: message.message.id.clone(),
            outcome: if error.is_some() { Outcome::Refused } else { Outcome::Accepted },
            attempt: message.attempts.failed + 1,
            batch: self.messages.len(),
            took_ms: self.took.as_millis() as u64,
            age_ms: message.message.age_ms(self.now_ms).unwrap_or_default(),
            at_ms: self.now_ms,
            error: error.map(shown),
            pod: self.pod.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn delivery_is_published_only_while_destination_is_watched() {
        let (tail, mut queued) = Tail::new();
        let [erp, crm] = ["erp", "crm"].map(|name| name.parse::<DestinationName>().unwrap());
        let now = Instant::now();
        assert!(!tail.is_wanted(&erp, now));
        tail.wants(Some(erp.clone()), now);
        assert!(tail.is_wanted(&erp, now) && !tail.is_wanted(&crm, now));
        tail.wants(None, now);
        assert!(tail.is_wanted(&crm, now));
        assert!(!tail.is_wanted(&erp, now + WANTED_FOR) && !tail.is_on.load(Ordering::Relaxed));
        let delivery = |sequence| Delivery {
            destination: erp.clone(),
            key: None,
            epoch: 1,
            sequence,
            id: String::new(),
            outcome: Outcome::Accepted,
            attempt: 1,
            batch: 1,
            took_ms: 0,
            age_ms: 0,
            at_ms: 0,
            error: None,
            pod: String::new(),
        };
        (0..QUEUE_MAX as u64 + 3).for_each(|sequence| tail.note(delivery(sequence)));
        assert_eq!(tail.missed.load(Ordering::Relaxed), 3, "what is too much is counted");
        assert!(matches!(queued.recv().await, Some(Told::Delivery(one)) if one.sequence == 0));
    }
}
