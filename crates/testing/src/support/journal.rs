//! The deliveries that receivers accepted, in order.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::Write,
    path::Path,
    sync::Mutex,
    time::Instant,
};

use super::{ledger::base_of, wait::eventually};

/// One accepted delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub destination: String,
    pub body: String,
    /// The headers; `None` over TCP.
    pub headers: Option<Headers>,
}

/// The headers that identify a delivery over HTTP.
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
    /// The time at which each delivery was recorded.
    times: Vec<Instant>,
    /// The number of distinct messages per destination.
    counts: HashMap<String, usize>,
    /// The file for the deliveries, if any.
    file: Option<File>,
    /// Destination and body of each message. Bodies are unique.
    first: HashSet<(String, String)>,
}

/// The journal. A delivery is recorded before the sender gets its answer.
#[derive(Default)]
pub struct Journal {
    pages: Mutex<Pages>,
}

impl Journal {
    /// A journal that is also written to a file, for inspection after the test.
    pub fn in_file(path: &Path) -> std::io::Result<Journal> {
        let journal = Journal::default();
        journal.pages.lock().unwrap().file = Some(File::create(path)?);
        Ok(journal)
    }

    /// Records a delivery.
    pub fn note(&self, delivery: Delivery) {
        let mut pages = self.pages.lock().unwrap();
        if let Some(file) = &mut pages.file {
            // Write once, so that the file contains only complete lines.
            file.write_all(delivery.line().as_bytes()).expect("the journal can be written");
        }
        if pages.first.insert((delivery.destination.clone(), delivery.body.clone())) {
            *pages.counts.entry(base_of(&delivery.destination).to_owned()).or_default() += 1;
        }
        pages.deliveries.push(delivery);
        pages.times.push(Instant::now());
    }

    /// When each of [`Journal::all`] was recorded.
    pub fn times(&self) -> Vec<Instant> {
        self.pages.lock().unwrap().times.clone()
    }

    /// All deliveries so far.
    pub fn all(&self) -> Vec<Delivery> {
        self.pages.lock().unwrap().deliveries.clone()
    }

    /// The number of distinct messages.
    pub fn messages(&self) -> usize {
        self.pages.lock().unwrap().first.len()
    }

    /// The number of distinct messages for this destination.
    pub fn messages_of(&self, destination: &str) -> usize {
        self.pages.lock().unwrap().counts.get(destination).copied().unwrap_or_default()
    }

    /// Waits until it has this many distinct messages.
    pub async fn reaches(&self, count: usize) {
        eventually(&format!("{count} messages in the journal"), async || match self.messages() {
            now if now >= count => Ok(()),
            now => Err(format!("{now}")),
        })
        .await;
    }
}
