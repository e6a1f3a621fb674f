//! What producers were promised.

use std::{
    collections::HashSet,
    sync::{Mutex, atomic::AtomicUsize, atomic::Ordering},
};

/// A message that was answered with its place.
#[derive(Debug, Clone)]
pub struct Promise {
    pub destination: String,
    /// Over TCP the answer names no epoch.
    pub epoch: Option<u64>,
    pub sequence: u64,
    pub id: Option<String>,
    pub key: Option<String>,
    /// As it was sent in.
    pub body: String,
    pub producer: String,
}

/// All promises, each producer's in the order of its messages.
#[derive(Default)]
pub struct Ledger {
    promises: Mutex<Vec<Promise>>,
    /// Bodies that were sent and not answered: they may be there.
    doubtful: Mutex<HashSet<String>>,
    /// Answers that said that the message had been there before.
    duplicates: AtomicUsize,
    /// Requests that were made again.
    again: AtomicUsize,
}

impl Ledger {
    pub fn promise(&self, promise: Promise) {
        self.promises.lock().unwrap().push(promise);
    }

    pub fn doubt(&self, body: &str) {
        self.doubtful.lock().unwrap().insert(body.to_owned());
    }

    pub fn is_doubtful(&self, body: &str) -> bool {
        self.doubtful.lock().unwrap().contains(body)
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
        self.promises.lock().unwrap().clone()
    }

    pub fn count(&self) -> usize {
        self.promises.lock().unwrap().len()
    }

    pub fn count_of(&self, destination: &str) -> usize {
        let promises = self.promises.lock().unwrap();
        promises.iter().filter(|promise| promise.destination == destination).count()
    }
}
