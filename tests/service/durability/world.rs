//! A store, and one destination that the tests put messages into.

use std::time::Duration;

use domain::{
    Arrival, Body, Destination, DestinationName, Durability, Epoch, Message, Position,
    TransformKind,
};
use store::{
    CallSequence, CatalogEntry, Ingested, LaneRequest, Owned, Owner, OwnerToken, Paused, Settled,
    Store, StoreError,
};

use crate::support::wait::eventually;

/// Leases and takeover waits that outlast every test.
pub const LONG: Duration = Duration::from_secs(3600);

pub struct World {
    pub store: Store,
    pub known: CatalogEntry,
    pub token: OwnerToken,
    call_sequence: CallSequence,
    epoch: Epoch,
    /// All stamped positions, in order.
    pub places: Vec<Position>,
}

/// The definition of the tests' destination. Messages leave it only by a release.
pub fn destination(durability: Durability) -> Destination {
    let mut made = Destination::new("erp".parse().unwrap(), "http://127.0.0.1:9/in");
    made.durability = durability;
    made.transform.kind = TransformKind::None;
    made
}

pub async fn open(url: &str, replicas: u8, lease: Duration) -> Store {
    let settings = config::Redis {
        url: url.to_owned(),
        partitions: 1,
        replicas,
        timeout_ms: 20_000,
        ..config::Redis::default()
    };
    Store::open(&settings, lease).await.unwrap().0
}

fn arrival(number: usize, idempotency_key: Option<&str>) -> Arrival {
    let message = Message {
        id: format!("m{number}"),
        key: None,
        headers: Vec::new(),
        body: Body { content_type: "text/plain".into(), bytes: number.to_string().into() },
        received_ms: 0,
    };
    Arrival { idempotency_key: idempotency_key.map(str::to_owned), ..Arrival::of(message) }
}

impl World {
    /// A new pod, which has seen nothing yet, with partition leases of this length.
    pub async fn new(url: &str, lease: Duration) -> World {
        World::with(open(url, 0, lease).await, Durability::Memory).await
    }

    pub async fn with(store: Store, durability: Durability) -> World {
        let known = defined(&store, durability).await;
        let call_sequence = store.call_sequence("test");
        let token = OwnerToken::random();
        World { store, known, token, call_sequence, epoch: 0, places: Vec::new() }
    }

    /// Stamps one message, and checks that its position is above all earlier ones. Repeats
    /// interrupted calls.
    pub async fn stamp(&mut self) -> Position {
        let arrival = arrival(self.places.len(), None);
        let ingested = self.ingest(&arrival).await;
        let Ingested::Stamped(position) = ingested else { panic!("{ingested:?}") };
        let last = self.places.last().map(|last| (last.epoch, last.sequence));
        assert!(last < Some((position.epoch, position.sequence)), "{position:?} after {last:?}");
        self.places.push(position);
        position
    }

    /// Stamps one message under this idempotency key.
    pub async fn stamp_once(&mut self, key: &str) -> Ingested {
        self.ingest(&arrival(0, Some(key))).await
    }

    /// One attempt of the call with this number.
    pub async fn call(&self, sequence: &CallSequence, number: u64) -> Result<Ingested, StoreError> {
        sequence.set_number(number);
        let arrival = arrival(0, None);
        let all = self.store.ingest(sequence, &self.known, self.epoch, &[&arrival]).await?;
        Ok(all.into_iter().next().expect("an answer for each arrival"))
    }

    async fn ingest(&mut self, arrival: &Arrival) -> Ingested {
        let World { store, known, call_sequence, epoch, .. } = self;
        eventually("a message is stamped", async || {
            match store.ingest(call_sequence, known, *epoch, &[arrival]).await {
                Ok(mut ingested) => return Ok(ingested.remove(0)),
                Err(StoreError::StaleEpoch(now)) => *epoch = now,
                Err(StoreError::StaleDefinition | StoreError::UnknownDestination) => {
                    *known = defined(store, known.destination.durability).await;
                }
                Err(error) => return Err(error.to_string()),
            }
            Err("not in this epoch".to_owned())
        })
        .await
    }

    /// Acquires the partition or renews its lease.
    pub async fn acquire_partition(&self, lease: Duration) -> Owned {
        eventually("the partition is owned", async || {
            self.store
                .acquire_partition(0, &self.token, lease)
                .await
                .map_err(|error| error.to_string())
        })
        .await
    }

    /// Tries to release the destination's lane. Returns how many messages were released.
    pub async fn release(&self, epoch: Epoch) -> Result<usize, StoreError> {
        let owner = Owner { token: self.token.clone(), epoch };
        let lane = LaneRequest { key: None, settled: Settled::default(), held_upto: 0, limit: 100 };
        let released = self.store.release(&owner, &self.known, &[lane]).await?;
        Ok(released.runs[0].messages.len())
    }

    pub fn name(&self) -> &DestinationName {
        &self.known.destination.name
    }
}

async fn defined(store: &Store, durability: Durability) -> CatalogEntry {
    let destination = destination(durability);
    let defined = eventually("the destination is there", async || {
        store.define(&destination).await.map_err(|error| error.to_string())
    })
    .await;
    let (version, born, paused) = (defined.version, defined.born, Paused::default());
    CatalogEntry { destination, of_all_shards: None, version, partition: 0, paused, born }
}
