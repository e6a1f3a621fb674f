//! Takes a destination through every verb of the store.

use std::{ops::RangeInclusive, time::Duration};

use domain::{
    Arrival, AttemptError, Body, DeliveryKind, Destination, Disposition, Due, ErrorKind, Grant,
    Message, MessageIds, Ordering, Processing, Redrive, Sequence, Stage, Stamped, Token, Tombstone,
    Topic, TransformKind,
};
use redis::aio::MultiplexedConnection;
use store::{
    CallSequence, Catalog, CatalogEntry, Claimed, Claimers, Completion, Extension, Failed,
    Ingested, LaneRequest, LogEntry, Owner, OwnerToken, Paused, RefusedHead, Retry, Settled,
    Status, Store, Which, Who, Withdrawal, Withdrawn,
};

const MANY: RangeInclusive<usize> = 1..=10;

struct Life<'a> {
    store: &'a Store,
    known: CatalogEntry,
    owner: Owner,
    call_sequence: CallSequence,
    lease: Duration,
}

fn arrival(key: &str, idempotency_key: Option<&str>) -> Arrival {
    let message = Message {
        id: "m".into(),
        key: Some(key.to_owned()),
        headers: Vec::new(),
        body: Body { content_type: "text/plain".into(), bytes: "body".into() },
        received_ms: 0,
    };
    Arrival { idempotency_key: idempotency_key.map(str::to_owned), ..Arrival::of(message) }
}

fn error(stage: Stage) -> AttemptError {
    AttemptError::new(stage, ErrorKind::Failed, "no")
}

/// Calls every verb, each with work to do.
pub async fn through_the_store(
    store: &Store,
    connection: &mut MultiplexedConnection,
    destination: Destination,
    lease: Duration,
) {
    let topic =
        Topic { name: "orders".parse().unwrap(), destinations: vec![destination.name.clone()] };
    assert!(store.define_topic(&topic).await.unwrap());
    assert!(store.remove_topic(&topic.name).await.unwrap());
    let token = Token {
        id: "abcdefghijkl".into(),
        name: "a test".into(),
        grant: Grant::all(),
        created_ms: 1,
        expires_ms: None,
        sha256: String::new(),
    };
    store.make_token(&token).await.unwrap();
    assert!(store.revoke_token(&token.id).await.unwrap());
    assert!(!store.revoke_token(&token.id).await.unwrap());
    store.init_epoch().await.unwrap();
    assert_eq!(store.heartbeat("sender", lease).await.unwrap(), (1, lease));
    let defined = store.define(&destination).await.unwrap();
    let partition = store.keys().partition_of(&destination.name);
    let call_sequence = store.call_sequence(destination.name.as_str());
    let paused = Paused::default();
    let known = CatalogEntry {
        destination,
        of_all_shards: None,
        version: defined.version,
        partition,
        paused,
        born: defined.born,
    };
    let token = OwnerToken::random();
    let epoch = store.acquire_partition(partition, &token, lease).await.unwrap().epoch;
    let mut life = Life { store, known, owner: Owner { token, epoch }, call_sequence, lease };
    life.ingest(&[
        arrival("a", None),
        arrival("b", Some("once")),
        arrival("a", Some("twice")),
        Arrival { due: Some(Due::After(3_600_000)), ..arrival("a", None) },
    ])
    .await;
    let kind = life.known.destination.transform.kind;
    if kind != TransformKind::None {
        life.process(connection).await;
    }
    life.deliver().await;
    life.set_aside().await;
    life.operate().await;
    let repair = store.repair(&life.known, false, &|_, _| true).await.unwrap();
    assert_eq!((repair.items, repair.counters_verified), (Vec::new(), true));
    store.resign_partition(partition, &life.owner.token, None).await.unwrap();
    store.migrate(partition).await.unwrap();

    // Removes the destination with a pending message, and with a lease if there are leases.
    life.ingest(&[arrival("a", None)]).await;
    if kind != TransformKind::None {
        let waiting = store.keys().destination(&life.known.destination.name).waiting();
        redis::cmd("DEL").arg(waiting).exec_async(connection).await.unwrap();
        let repair = store.repair(&life.known, false, &|_, _| true).await.unwrap();
        assert!(repair.counters_verified && repair.matched() == repair.affected(), "{repair:?}");
        life.claim().await;
        let leases = store.overdue(&[partition]).await.unwrap();
        assert!(leases[0].by_destination.is_empty(), "none is over");
    }
    let known = &life.known;
    assert!(
        store.delete_destination(&known.destination.name, true).await.unwrap().removed_messages > 0
    );
    assert!(store.active_of_all(&[partition], Claimers::Builtin, 10).await.unwrap().is_empty());
    Catalog::load(store.clone()).await.unwrap();
}

impl Life<'_> {
    async fn ingest(&self, arrivals: &[Arrival]) -> Vec<Ingested> {
        let all: Vec<&Arrival> = arrivals.iter().collect();
        // The epoch of a destination created after a removal may be above the partition's.
        let epoch = self.owner.epoch.max(self.known.born);
        self.store.ingest(&self.call_sequence, &self.known, epoch, &all).await.unwrap()
    }

    async fn claim(&self) -> Claimed {
        self.store.claim(&self.call_sequence, &self.known, MANY, self.lease).await.unwrap()
    }

    /// The key of the lane of a message with this ordering key.
    fn lane(&self, key: &str, sequence: Sequence) -> Option<String> {
        match self.known.destination.ordering {
            Ordering::Destination => None,
            Ordering::Key => Some(key.to_owned()),
            Ordering::None => Some(sequence.to_string()),
        }
    }

    /// Processes all messages. The first two attempts fail. One message is halted and retried.
    async fn process(&self, connection: &mut MultiplexedConnection) {
        let (store, known, call_sequence) = (self.store, &self.known, &self.call_sequence);
        let claimed = self.claim().await;
        let tokens: Vec<_> = claimed.messages.iter().map(|(token, _)| token.clone()).collect();
        let serial = known.destination.processing == Processing::Serial;
        assert_eq!(tokens.len(), if serial { 2 } else { 3 });
        let extend =
            |token: &_| Extension { token: Clone::clone(token), checkpoint: Some("{}".to_owned()) };
        let extensions: Vec<_> = tokens.iter().map(extend).collect();
        store.extend(known, &extensions, self.lease).await.unwrap();
        let failed = |at: usize, disposition| {
            let error = error(Stage::Transform);
            let ids = MessageIds::default();
            Failed { token: tokens[at].clone(), disposition, is_later: false, error, ids }
        };
        let failed = [failed(0, Disposition::Halt), failed(1, Disposition::Postpone(self.lease))];
        let statuses = store.fail(call_sequence, known, &failed).await.unwrap();
        assert_eq!(statuses, [Status::Halted, Status::Ok]);
        if !serial {
            store.requeue(call_sequence, known, &tokens[2..]).await.unwrap();
        }
        let body = Body { content_type: "text/plain".into(), bytes: "other".into() };
        let retry = Retry { lane: self.lane("a", 1), sequence: 1, repaired: Some(body) };
        store.retry(known, &retry).await.unwrap();
        let partition = known.partition;
        let delayed = store.keys().partition(partition).delayed();
        let member = format!("{}/2", known.destination.name);
        let past = redis::cmd("ZADD").arg(delayed).arg(1).arg(member).to_owned();
        past.exec_async(connection).await.unwrap();
        assert_eq!(store.recover(&[partition]).await.unwrap().delays, 1);
        let mut left = 3;
        while left > 0 {
            let done = completions(&self.claim().await);
            assert!(!done.is_empty());
            let together = if known.destination.ordering == Ordering::Destination { 1 } else { 3 };
            for some in done.chunks(together) {
                let statuses = store.complete(known, some).await.unwrap();
                assert!(statuses.iter().all(|status| *status == Status::Ok));
                left -= statuses.len();
            }
        }
    }

    fn request(&self, key: &str, sequence: Sequence, settled: Settled) -> LaneRequest {
        LaneRequest { key: self.lane(key, sequence), settled, held_upto: 0, limit: 2 }
    }

    /// Postpones, halts, retries and delivers the head.
    async fn deliver(&self) {
        let (store, known, owner) = (self.store, &self.known, &self.owner);
        let mut all = vec![self.request("a", 1, Settled::default())];
        if all[0].key.is_some() {
            all.push(self.request("b", 2, Settled::default()));
        }
        let is_pulled = known.destination.delivery.kind == DeliveryKind::Pull;
        if is_pulled {
            self.consume().await;
        }
        let runs = store.release(owner, known, &all).await.unwrap().runs;
        assert!(
            runs.iter()
                .skip(usize::from(is_pulled))
                .all(|run| run.messages.is_empty() == is_pulled)
        );
        let first = runs[0].messages[0].clone();
        let (lane, why) = (self.lane("a", 1), error(Stage::Delivery));
        let lane = lane.as_deref();
        let head = RefusedHead { lane, sequence: 1, failed: 1, error: &why };
        store.postpone(owner, known, head, Duration::ZERO).await.unwrap();
        store.halt(owner, known, RefusedHead { failed: 2, ..head }).await.unwrap();
        assert_eq!(store.stats(known).await.unwrap().halted, 1);
        let retry = Retry { lane: self.lane("a", 1), sequence: 1, repaired: None };
        store.retry(known, &retry).await.unwrap();
        let settled = Settled {
            upto: 1,
            bytes: first.accounted_bytes,
            log: vec![(1, LogEntry::of(&first, 1, 1, true))],
            idempotency_keys: vec!["once".to_owned()],
            ..Settled::default()
        };
        store.release(owner, known, &[self.request("a", 1, settled)]).await.unwrap();
        assert_eq!(store.log_newest(known, None, 9).await.unwrap().sequences, [1]);
    }

    /// A consumer takes the ready messages and gives them back. Then it takes one message, and accepts it.
    async fn consume(&self) {
        let (store, known, call_sequence) = (self.store, &self.known, &self.call_sequence);
        let lanes = store.lanes_to_consume(known, 9).await.unwrap();
        let consumed = store.consume(None, call_sequence, known, &lanes, 9).await.unwrap();
        let tokens: Vec<_> = consumed.messages.iter().map(|(token, _)| token.clone()).collect();
        store.extend_deliveries(known, &tokens).await.unwrap();
        store.give_back(known, &tokens).await.unwrap();
        assert_eq!(store.accept(known, &tokens[..1]).await.unwrap(), [Status::StaleLease]);
        let first = [self.lane("a", 1).unwrap_or_default()];
        let consumed = store.consume(None, call_sequence, known, &first, 1).await.unwrap();
        let token = [consumed.messages[0].0.clone()];
        assert_eq!(store.accept(known, &token).await.unwrap(), [Status::Ok]);
        assert_eq!(store.accept(known, &token).await.unwrap(), [Status::Settled]);
    }

    /// Withdraws and redrives messages, and pauses.
    async fn set_aside(&mut self) {
        let (store, known) = (self.store, self.known.clone());
        let both = [(self.lane("b", 2), 2), (self.lane("a", 3), 3), (self.lane("a", 4), 4)];
        let why = error(Stage::Delivery);
        let withdrawal = Withdrawal {
            how: Tombstone::DeadLettered,
            reason: "why",
            error: Some((1, &why)),
            messages: &both,
        };
        let ordered = store.withdraw(&known, Who::Operator, &withdrawal).await.unwrap();
        let ordered = ordered.iter().filter(|outcome| **outcome == Withdrawn::Withdrawing).count();
        assert!(ordered > 0);
        let orders = store.withdrawals(&known).await.unwrap();
        assert_eq!(orders.len(), ordered);
        assert!(orders.iter().all(|order| both.contains(&(order.lane.clone(), order.sequence))));
        store.withdraw(&known, Who::Owner(&self.owner), &withdrawal).await.unwrap();
        assert!(store.withdrawals(&known).await.unwrap().is_empty());
        let letters = store.dead_letters(&known, 0, 9).await.unwrap();
        assert_eq!(letters.len(), 3);
        let letter = letters[0].message.clone();
        let redrive = Redrive { letter: letter.position, processed: Some(Box::new(letter)) };
        let again = Arrival { redrive: Some(redrive), ..arrival("b", Some("thrice")) };
        assert!(matches!(self.ingest(&[again]).await[..], [Ingested::Stamped(_)]));
        assert_eq!(store.discard(&known, &[3]).await.unwrap(), 1);
        assert_eq!(store.expire(&known).await.unwrap(), 0, "they are too young");
        assert!(
            !store
                .pending(&known, &Which { limit: 9, ..Which::default() })
                .await
                .unwrap()
                .items
                .is_empty()
        );
        let name = &known.destination.name;
        store.pause(name, None, None, Some(true)).await.unwrap();
        let catalog = Catalog::load(store.clone()).await.unwrap();
        self.known = CatalogEntry::clone(&catalog.get(name.as_str()).unwrap());
        assert!(self.known.paused.delivery && self.known.version > known.version);
    }
}

impl Life<'_> {
    /// Notes a bulk operation, and cancels it.
    async fn operate(&self) {
        let (store, known) = (self.store, &self.known);
        assert!(!store.note_operation(known, "one", "begun").await.unwrap());
        assert_eq!(store.cancel_operation(known, "one").await.unwrap().as_deref(), Some("begun"));
        assert_eq!(store.cancel_operation(known, "other").await.unwrap(), None);
        assert!(store.note_operation(known, "one", "going on").await.unwrap(), "it is cancelled");
        assert_eq!(store.operations(known).await.unwrap(), ["going on"]);
        assert_eq!(store.operation(known, "one").await.unwrap().as_deref(), Some("going on"));
    }
}

fn completions(claimed: &Claimed) -> Vec<Completion> {
    let complete = |(token, message): &(_, Stamped)| Completion {
        token: Clone::clone(token),
        output: message.clone(),
        is_unchanged: false,
    };
    claimed.messages.iter().map(complete).collect()
}
