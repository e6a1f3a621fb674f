//! The slots for HTTP connections. When all are taken, a connection without a request in progress, or without a
//! credential where one is needed, yields its slot to a new one.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;

use http_server::client_connection::ClientConnection;

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
    /// The connections that hold a slot. `None` for a connection that never yields it.
    clients: HashMap<u64, Option<ClientConnection>>,
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

    /// Takes a slot for this connection. If none is free, closes the connection that yields first
    /// and takes its slot. `None` if all connections have a credential and a request in progress.
    pub(super) fn take(&self, client: &ClientConnection) -> Option<ConnectionSlot> {
        self.add(Some(client.clone()))
    }

    /// Takes a slot for one request, which never yields it.
    pub(super) fn take_for_request(&self) -> Option<ConnectionSlot> {
        self.add(None)
    }

    fn add(&self, client: Option<ClientConnection>) -> Option<ConnectionSlot> {
        let mut taken = self.0.taken.lock();
        if taken.clients.len() >= self.0.max {
            let freed = taken.free_one()?;
            taken.clients.remove(&freed);
            telemetry::connection_closed("displaced");
        }
        taken.last += 1;
        let number = taken.last;
        taken.clients.insert(number, client);
        Some(ConnectionSlot { connections: self.clone(), number })
    }
}

impl Taken {
    /// Closes the connection that yields first.
    fn free_one(&self) -> Option<u64> {
        loop {
            let yielding = self.clients.iter().filter_map(|(number, client)| {
                let client = client.as_ref()?;
                Some((client.yields()?, *number, client))
            });
            let (_, number, client) = yielding.min_by_key(|(rank, number, _)| (*rank, *number))?;
            // The client may just have begun a request, or shown its credential. Then try the next one.
            if client.displace() {
                return Some(number);
            }
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.connections.0.taken.lock().clients.remove(&self.number);
    }
}
