//! Tests which messages the wake-ups of ready messages carry.

use std::time::Duration;

use domain::{
    Arrival, AttemptError, Body, DeliveryKind, Destination, Disposition, ErrorKind, LeaseToken,
    Message, MessageIds, Stage, Stamped, Tombstone, TransformKind,
};
use store::{
    CallSequence, CatalogEntry, Completion, Failed, HandOver, LaneRequest, Owner, OwnerToken,
    Paused, Settled, Store, Wake, WakeKind, Who, Withdrawal,
};
use tokio::sync::broadcast::Receiver;
use tokio_util::task::AbortOnDropHandle;

use crate::support::{redis::TestRedis, wait::PATIENCE, wakes::listen};

const LONG: Duration = Duration::from_secs(3600);
/// The length of a header that makes a record too long for a hand-over.
const LONG_HEADER: usize = 3000;
/// The length of a body that is stored in the record, and makes the record too long for a hand-over.
const LONG_BODY: usize = 2040;

struct Case {
    redis: TestRedis,
    store: Store,
    known: CatalogEntry,
    owner: Owner,
    heard: Receiver<Wake>,
    ingests: CallSequence,
    claims: CallSequence,
    _listening: AbortOnDropHandle<()>,
}

/// Makes messages ready in all ways that matter for a hand-over. An error says what is wrong.
pub async fn wake_ups_carry_heads() -> Result<(), String> {
    processed_heads().await?;
    heads_without_processing().await?;
    halted_messages().await
}

async fn processed_heads() -> Result<(), String> {
    let mut case = Case::start().await;
    let epoch = case.owner.epoch;

    // The wake-up carries a head, with the body from processing or the unchanged body.
    let first = case.claimed("first").await;
    let handed = case.completed(&first, Some("changed")).await?.ok_or("nothing was handed over")?;
    case.check(&handed, epoch, 1, "changed")?;
    case.settled(1).await;
    let second = case.claimed("second").await;
    let handed = case.completed(&second, None).await?.ok_or("no unchanged message")?;
    case.check(&handed, epoch, 2, "second")?;
    case.settled(2).await;

    // A message behind the head causes no wake-up. The wake-up of the head carries no message,
    // because both leave together.
    let (third, fourth) = (case.claimed("third").await, case.claimed("fourth").await);
    case.complete(&fourth, None).await;
    case.carries_nothing(&third, None, "a head before others that are ready").await?;
    case.settled(4).await;

    // Wake-ups without a message: for a long record, a pending withdrawal, a destination that is being removed.
    let header = ("x-long".to_owned(), "x".repeat(LONG_HEADER));
    let mut long = case.claimed_with("long", vec![header.clone()]).await;
    case.carries_nothing(&long, None, "a long record that stays as it is").await?;
    case.settled(5).await;
    long = case.claimed("long").await;
    long.1.message.headers.push(header);
    case.carries_nothing(&long, Some("changed"), "a long record").await?;
    case.settled(6).await;
    let withdrawn = case.claimed("withdrawn").await;
    case.withdraw(7).await?;
    case.carries_nothing(&withdrawn, Some("changed"), "a withdrawn message").await?;

    // In another epoch, and in the last version.
    let mut case = Case::start().await;
    let message = case.claimed("first").await;
    let key = case.store.keys().partition(0).epoch();
    let next = epoch + 1_000_000;
    case.redis.ask::<u64>(&["HSET", &key, "epoch", &next.to_string()]).await.unwrap();
    let handed = case.completed(&message, None).await?.ok_or("nothing in another epoch")?;
    case.check(&handed, next, 1, "first")?;
    let mut case = Case::start().await;
    let message = case.claimed("first").await;
    let hash = case.store.keys().destination(&case.known.destination.name).hash();
    case.redis.ask::<u64>(&["HSET", &hash, "deleted", "1"]).await.unwrap();
    case.carries_nothing(&message, Some("changed"), "a destination that is being removed").await
}

/// A message that needs no processing is ready when it arrives.
async fn heads_without_processing() -> Result<(), String> {
    let mut case = Case::start_with(TransformKind::None, DeliveryKind::Push).await;
    let epoch = case.owner.epoch;
    let handed = case.arrived(&["first"]).await?.ok_or("an arrival was not handed over")?;
    case.check(&handed, epoch, 1, "first")?;

    // A message behind a head causes no wake-up. Several messages leave together, so their wake-up carries none.
    case.ingest("second", Vec::new()).await;
    case.settled(2).await;
    nothing(case.arrived(&["third", "fourth"]).await?, "the first of several arrivals")?;
    case.settled(4).await;
    let handed = case.arrived(&["fifth"]).await?.ok_or("nothing after a run")?;
    case.check(&handed, epoch, 5, "fifth")?;
    case.settled(5).await;
    let long = "x".repeat(LONG_BODY);
    nothing(case.arrived(&[&long]).await?, "a long arrival")?;

    let mut case = Case::start_with(TransformKind::None, DeliveryKind::Pull).await;
    nothing(case.arrived(&["first"]).await?, "a message for consumers")
}

/// The owner hears of a message that halts in processing: it reports the message, and perhaps withdraws it.
async fn halted_messages() -> Result<(), String> {
    let mut case = Case::start().await;
    let (token, _) = case.claimed("fails for good").await;
    let failed = Failed {
        token,
        disposition: Disposition::Halt,
        is_later: false,
        error: AttemptError::new(Stage::Transform, ErrorKind::Status, "400"),
        ids: MessageIds::default(),
    };
    let calls = case.store.call_sequence("fail");
    case.store.fail(&calls, &case.known, &[failed]).await.unwrap();
    nothing(case.next_wake().await?, "a halted message")?;

    let mut case = Case::start().await;
    case.known.destination.transform.stalls_max = 1;
    let defined = case.store.define(&case.known.destination).await.unwrap();
    case.known.version = defined.version;
    case.ingest("its lease ends", Vec::new()).await;
    let short = Duration::from_millis(1);
    case.store.claim(&case.claims, &case.known, 1..=1, short).await.unwrap();
    while case.store.recover(&[0]).await.unwrap().halted == 0 {}
    nothing(case.next_wake().await?, "a message that halted with its lease")
}

impl Case {
    async fn start() -> Case {
        Case::start_with(TransformKind::Http, DeliveryKind::Push).await
    }

    async fn start_with(transform: TransformKind, delivery: DeliveryKind) -> Case {
        let redis = TestRedis::start().await;
        let settings = config::Redis {
            url: redis.url().to_owned(),
            partitions: 1,
            ..config::Redis::default()
        };
        let (store, _) = Store::open(&settings, LONG).await.unwrap();
        let mut destination = Destination::new("erp".parse().unwrap(), "tcp://127.0.0.1:1");
        destination.transform.kind = transform;
        destination.delivery.kind = delivery;
        let defined = store.define(&destination).await.unwrap();
        let (version, born, paused) = (defined.version, defined.born, Paused::default());
        let known =
            CatalogEntry { destination, of_all_shards: None, version, partition: 0, paused, born };
        let token = OwnerToken::random();
        let epoch = store.acquire_partition(0, &token, LONG).await.unwrap().epoch;
        let (heard, _listening) = listen(&store, WakeKind::Releasable).await;
        let (ingests, claims) = (store.call_sequence("ingest"), store.call_sequence("claim"));
        let owner = Owner { token, epoch };
        Case { redis, store, known, owner, heard, ingests, claims, _listening }
    }

    async fn ingest(&self, body: &str, headers: Vec<(String, String)>) {
        self.ingest_all(&[arrival(body, headers)]).await;
    }

    async fn ingest_all(&self, arrivals: &[Arrival]) {
        let Case { store, known, owner, .. } = self;
        let arrivals: Vec<_> = arrivals.iter().collect();
        store.ingest(&self.ingests, known, owner.epoch, &arrivals).await.unwrap();
    }

    /// Stores messages that need no processing. The first is a head. Returns the content of its wake-up.
    async fn arrived(&mut self, bodies: &[&str]) -> Result<Option<HandOver>, String> {
        let arrivals: Vec<_> = bodies.iter().map(|body| arrival(body, Vec::new())).collect();
        self.ingest_all(&arrivals).await;
        self.next_wake().await
    }

    /// Leases a waiting message.
    async fn claim(&self) -> Option<(LeaseToken, Stamped)> {
        let claimed = self.store.claim(&self.claims, &self.known, 1..=1, LONG).await.unwrap();
        claimed.messages.into_iter().next()
    }

    /// Stores a message and leases it.
    async fn claimed(&self, body: &str) -> (LeaseToken, Stamped) {
        self.claimed_with(body, Vec::new()).await
    }

    async fn claimed_with(
        &self,
        body: &str,
        headers: Vec<(String, String)>,
    ) -> (LeaseToken, Stamped) {
        self.ingest(body, headers).await;
        self.claim().await.unwrap()
    }

    async fn complete(&self, (token, message): &(LeaseToken, Stamped), body: Option<&str>) {
        let mut output = message.clone();
        output.message.body = body.map_or(output.message.body, body_of);
        let completion = Completion { token: token.clone(), output, is_unchanged: body.is_none() };
        self.store.complete(&self.known, &[completion]).await.unwrap();
    }

    /// Completes a head. Returns the content of its wake-up.
    async fn completed(
        &mut self,
        claimed: &(LeaseToken, Stamped),
        body: Option<&str>,
    ) -> Result<Option<HandOver>, String> {
        self.complete(claimed, body).await;
        self.next_wake().await
    }

    /// The content of the next wake-up of the destination.
    async fn next_wake(&mut self) -> Result<Option<HandOver>, String> {
        let heard = async {
            loop {
                match self.heard.recv().await {
                    Ok(Wake::Releasable(name, handed)) if name == self.known.destination.name => {
                        return Ok(handed);
                    }
                    Ok(_) => {}
                    Err(error) => return Err(error.to_string()),
                }
            }
        };
        tokio::time::timeout(PATIENCE, heard).await.map_err(|_| "no wake-up came".to_owned())?
    }

    /// Completes a head, whose wake-up must not carry it.
    async fn carries_nothing(
        &mut self,
        claimed: &(LeaseToken, Stamped),
        body: Option<&str>,
        what: &str,
    ) -> Result<(), String> {
        nothing(self.completed(claimed, body).await?, what)
    }

    fn check(
        &self,
        handed: &HandOver,
        epoch: u64,
        sequence: u64,
        body: &str,
    ) -> Result<(), String> {
        let message = handed.message(&self.known).ok_or("its record cannot be read")?;
        let is_right = (handed.version, handed.epoch, handed.sequence)
            == (self.known.version, epoch, sequence)
            && message.position.sequence == sequence
            && message.message.body.bytes == body.as_bytes();
        if is_right { Ok(()) } else { Err(format!("{handed:?}: {message:?}")) }
    }

    async fn settled(&self, upto: u64) {
        let settled = Settled { upto, count: 1, ..Settled::default() };
        let lane = LaneRequest { key: None, settled, held_upto: 0, limit: 100 };
        let released = self.store.release(&self.owner, &self.known, &[lane]).await.unwrap();
        assert!(released.runs[0].messages.is_empty());
    }

    /// Requests a withdrawal. Redis wakes the owner to carry it out.
    async fn withdraw(&mut self, sequence: u64) -> Result<(), String> {
        let messages = [(None, sequence)];
        let (how, reason) = (Tombstone::Cancelled, "test");
        let withdrawal = Withdrawal { how, reason, error: None, messages: &messages };
        self.store.withdraw(&self.known, Who::Operator, &withdrawal).await.unwrap();
        self.next_wake().await.map(drop)
    }
}

fn nothing(handed: Option<HandOver>, what: &str) -> Result<(), String> {
    handed.map_or(Ok(()), |handed| Err(format!("{what} was handed over: {handed:?}")))
}

fn arrival(body: &str, headers: Vec<(String, String)>) -> Arrival {
    let (id, body) = ("id".to_owned(), body_of(body));
    Arrival::of(Message { id, key: None, headers, body, received_ms: 0 })
}

fn body_of(text: &str) -> Body {
    Body { content_type: "text/plain".into(), bytes: text.to_owned().into() }
}
