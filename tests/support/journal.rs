//! What receivers accepted, in the order in which they did.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::Write,
    path::Path,
    sync::Mutex,
    time::Instant,
};

use super::wait::eventually;

/// One accepted delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub destination: String,
    pub body: String,
    /// What the headers said; nothing over TCP.
    pub headers: Option<Headers>,
}

/// What tells a delivery over HTTP from all others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    pub epoch: u64,
    pub sequence: u64,
    pub previous: u64,
    pub id: String,
    pub key: Option<String>,
    pub attempt: u64,
}

impl Delivery {
    fn line(&self) -> String {
        let Delivery { destination, body, headers } = self;
        match headers {
            None => format!("{destination} - {body}\n"),
            Some(Headers { epoch, sequence, previous, id, key, attempt }) => format!(
                "{destination} {epoch}/{sequence} after {previous} {id} {key:?} {attempt} {body}\n"
            ),
        }
    }
}

#[derive(Default)]
struct Pages {
    deliveries: Vec<Delivery>,
    /// When each was noted.
    times: Vec<Instant>,
    /// How many different messages of each destination.
    counts: HashMap<String, usize>,
    /// Where each is written to, if anywhere.
    file: Option<File>,
    /// Destination and body of each: bodies are never the same.
    first: HashSet<(String, String)>,
}

/// Written before the sender is answered.
#[derive(Default)]
pub struct Journal {
    pages: Mutex<Pages>,
}

impl Journal {
    /// One that is in a file, too, so that it can be looked at after the test.
    pub fn in_file(path: &Path) -> std::io::Result<Journal> {
        let journal = Journal::default();
        journal.pages.lock().unwrap().file = Some(File::create(path)?);
        Ok(journal)
    }

    /// Writes one down.
    pub fn note(&self, delivery: Delivery) {
        let mut pages = self.pages.lock().unwrap();
        if let Some(file) = &mut pages.file {
            // In one write, so that a line is in the file as a whole or not at all.
            file.write_all(delivery.line().as_bytes()).expect("the journal can be written");
        }
        if pages.first.insert((delivery.destination.clone(), delivery.body.clone())) {
            *pages.counts.entry(delivery.destination.clone()).or_default() += 1;
        }
        pages.deliveries.push(delivery);
        pages.times.push(Instant::now());
    }

    /// When each of [`Journal::all`] was noted.
    pub fn times(&self) -> Vec<Instant> {
        self.pages.lock().unwrap().times.clone()
    }

    /// Everything so far.
    pub fn all(&self) -> Vec<Delivery> {
        self.pages.lock().unwrap().deliveries.clone()
    }

    /// How many different messages it holds.
    pub fn messages(&self) -> usize {
        self.pages.lock().unwrap().first.len()
    }

    /// How many different messages of this destination it holds.
    pub fn messages_of(&self, destination: &str) -> usize {
        self.pages.lock().unwrap().counts.get(destination).copied().unwrap_or_default()
    }

    /// Waits until it holds so many different messages.
    pub async fn reaches(&self, count: usize) {
        eventually(&format!("{count} messages in the journal"), async || match self.messages() {
            now if now >= count => Ok(()),
            now => Err(format!("{now}")),
        })
        .await;
    }
}
