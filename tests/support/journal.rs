//! What receivers accepted, in the order in which they did.

use std::{collections::HashSet, sync::Mutex};

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

#[derive(Default)]
struct Pages {
    deliveries: Vec<Delivery>,
    /// Destination and body of each: bodies are never the same.
    first: HashSet<(String, String)>,
}

/// Written before the sender is answered.
#[derive(Default)]
pub struct Journal {
    pages: Mutex<Pages>,
}

impl Journal {
    /// Writes one down.
    pub fn note(&self, delivery: Delivery) {
        let mut pages = self.pages.lock().unwrap();
        pages.first.insert((delivery.destination.clone(), delivery.body.clone()));
        pages.deliveries.push(delivery);
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
        let pages = self.pages.lock().unwrap();
        pages.first.iter().filter(|(name, _)| name == destination).count()
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
