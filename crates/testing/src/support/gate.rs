//! A gate at which a test can hold requests, inspect them and release them.

use std::sync::{Mutex, atomic::AtomicUsize, atomic::Ordering};

use tokio::sync::watch;

use super::wait::eventually;

/// The point at which a request is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// The request was read, but not handled.
    Arrived,
    /// The request was accepted (journalled, transformed), but not answered.
    Accepted,
}

/// Holds requests at a point: all requests, or requests for some destinations.
#[derive(Default)]
pub struct Gate {
    holds: Mutex<Option<(Point, Vec<String>)>>,
    held: AtomicUsize,
    opened: watch::Sender<usize>,
}

impl Gate {
    /// Holds requests at this point from now on.
    pub fn hold(&self, point: Point) {
        *self.holds.lock().unwrap() = Some((point, Vec::new()));
    }

    /// Like `hold`, only for these destinations.
    pub fn hold_only(&self, destinations: &[&str], point: Point) {
        let only = destinations.iter().map(|name| (*name).to_owned()).collect();
        *self.holds.lock().unwrap() = Some((point, only));
    }

    /// Lets new requests pass. Held requests stay held.
    pub fn pass(&self) {
        *self.holds.lock().unwrap() = None;
    }

    /// Lets all requests pass, including held ones.
    pub fn let_go(&self) {
        self.pass();
        self.opened.send_modify(|times| *times += 1);
    }

    /// The number of held requests.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::SeqCst)
    }

    /// Waits until this many requests are held.
    pub async fn holds(&self, count: usize) {
        eventually(&format!("{count} held requests"), async || match self.held() {
            held if held >= count => Ok(()),
            held => Err(format!("{held} are held")),
        })
        .await;
    }

    /// Waits while requests are held at this point.
    pub async fn at(&self, point: Point, destination: &str) {
        let mut opened = self.opened.subscribe();
        let is_held = self.holds.lock().unwrap().as_ref().is_some_and(|(held_at, only)| {
            *held_at == point && (only.is_empty() || only.iter().any(|name| name == destination))
        });
        if is_held {
            self.held.fetch_add(1, Ordering::SeqCst);
            // The sender of the channel lives as long as this value.
            opened.changed().await.unwrap();
            self.held.fetch_sub(1, Ordering::SeqCst);
        }
    }
}
