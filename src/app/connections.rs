//! The slots for HTTP connections. When all are taken, a connection without a request in progress
//! yields its slot to a new one.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use crate::{
    telemetry,
    wire::peer::{Activity, Peer},
};

/// A limited number of slots. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connections(Arc<Inner>);

struct Inner {
    max: usize,
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// The number of the newest connection.
    last: u64,
    /// The connections that hold a slot. `None` for one that never yields it.
    peers: HashMap<u64, Option<Peer>>,
}

/// A connection's slot, released on drop.
pub(super) struct ConnectionSlot {
    connections: Connections,
    number: u64,
}

impl Connections {
    pub(super) fn new(max: usize) -> Connections {
        Connections(Arc::new(Inner { max, taken: Mutex::default() }))
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.0.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a slot for this connection. If none is free, closes the connection that has been
    /// without a request for longest and takes its slot. `None` if all have a request in progress.
    pub(super) fn take(&self, peer: &Peer) -> Option<ConnectionSlot> {
        self.add(Some(peer.clone()))
    }

    /// Takes a slot for one request, which never yields it.
    pub(super) fn take_for_request(&self) -> Option<ConnectionSlot> {
        self.add(None)
    }

    fn add(&self, peer: Option<Peer>) -> Option<ConnectionSlot> {
        let mut taken = self.taken();
        if taken.peers.len() >= self.0.max {
            let freed = taken.free_one()?;
            taken.peers.remove(&freed);
            telemetry::connection_closed("displaced");
        }
        taken.last += 1;
        let number = taken.last;
        taken.peers.insert(number, peer);
        Some(ConnectionSlot { connections: self.clone(), number })
    }
}

impl Taken {
    /// Closes the connection that has been without a request for longest.
    fn free_one(&self) -> Option<u64> {
        loop {
            let waiting = self.peers.iter().filter_map(|(number, peer)| {
                let peer = peer.as_ref()?;
                let (activity, since) = peer.activity();
                let is_waiting = matches!(activity, Activity::Idle | Activity::Head);
                is_waiting.then_some((since, *number, peer))
            });
            let (_, number, peer) = waiting.min_by_key(|(since, number, _)| (*since, *number))?;
            // It may just have begun a request.
            if peer.close_unless_busy() {
                return Some(number);
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.taken().peers.remove(&self.number);
    }
}
