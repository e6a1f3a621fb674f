//! The promises that producers got.

use std::{
    collections::{HashMap, HashSet},
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
    time::Instant,
};

/// A message whose answer named its position.
#[derive(Debug, Clone)]
pub struct Promise {
    /// The destination, or the shard of it that holds the message.
    pub destination: String,
    /// `None` over TCP, where the answer names no epoch.
    pub epoch: Option<u64>,
    pub sequence: u64,
    pub id: Option<String>,
    pub key: Option<String>,
    /// The body as it was sent.
    pub body: String,
    pub producer: String,
}

/// The destination of which this is a shard.
pub fn base_of(destination: &str) -> &str {
    destination.split('~').next().unwrap_or_default()
}

#[derive(Default)]
struct Pages {
    promises: Vec<Promise>,
    /// The time at which each promise was recorded.
    times: Vec<Instant>,
    /// The number of promises per destination.
    counts: HashMap<String, usize>,
}

/// All promises. Those of one producer are in the order of its messages.
#[derive(Default)]
pub struct Ledger {
    pages: Mutex<Pages>,
    /// Bodies sent without an answer: they may be stored.
    doubtful: Mutex<HashSet<String>>,
    /// Destination, epoch and sequence of messages destroyed in Redis on purpose.
    destroyed: Mutex<HashSet<(String, u64, u64)>>,
    /// Answers that reported a duplicate.
    duplicates: AtomicUsize,
    /// Requests that were repeated.
    again: AtomicUsize,
}

impl Ledger {
    pub fn promise(&self, promise: Promise) {
        let mut pages = self.pages.lock().unwrap();
        *pages.counts.entry(base_of(&promise.destination).to_owned()).or_default() += 1;
        pages.promises.push(promise);
        pages.times.push(Instant::now());
    }

    pub fn doubt(&self, body: &str) {
        self.doubtful.lock().unwrap().insert(body.to_owned());
    }

    pub fn is_doubtful(&self, body: &str) -> bool {
        self.doubtful.lock().unwrap().contains(body)
    }

    /// Notes that this message may be lost, because the test destroyed it in Redis.
    pub fn destroy(&self, destination: &str, epoch: u64, sequence: u64) {
        let position = (destination.to_owned(), epoch, sequence);
        self.destroyed.lock().unwrap().insert(position);
    }

    /// Destination, epoch and sequence of the messages that may be lost.
    pub fn destroyed(&self) -> HashSet<(String, u64, u64)> {
        self.destroyed.lock().unwrap().clone()
    }

    pub fn note_duplicate(&self) {
        self.duplicates.fetch_add(1, Ordering::SeqCst);
    }

    pub fn note_again(&self) {
        self.again.fetch_add(1, Ordering::SeqCst);
    }

    pub fn duplicates(&self) -> usize {
        self.duplicates.load(Ordering::SeqCst)
    }

    pub fn again(&self) -> usize {
        self.again.load(Ordering::SeqCst)
    }

    pub fn all(&self) -> Vec<Promise> {
        self.pages.lock().unwrap().promises.clone()
    }

    /// When each of [`Ledger::all`] was recorded.
    pub fn times(&self) -> Vec<Instant> {
        self.pages.lock().unwrap().times.clone()
    }

    pub fn count(&self) -> usize {
        self.pages.lock().unwrap().promises.len()
    }

    pub fn count_of(&self, destination: &str) -> usize {
        self.pages.lock().unwrap().counts.get(destination).copied().unwrap_or_default()
    }
}
