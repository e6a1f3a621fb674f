//! Lists pending messages for display, with the state of each.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use redis::{Cmd, Pipeline};

use crate::{Store, StoreError, calls::unexpected, entry::CatalogEntry};
use domain::{LeaseToken, Ordering, Sequence, Stamped, State, Tombstone, WorkerName};

/// The most leases of a partition that are searched for leases of a destination.
const LEASES_MAX: isize = 5_000;
/// How many messages to read at once when a filter selects some of them.
const SCAN: usize = 500;
/// The number of keys that one round trip searches for the lane of a damaged message.
const SCAN_KEYS: usize = 1_000;
/// How many messages to read in one round trip, without bodies that are stored out of line.
const READ_MAX: usize = 500;

/// Which pending messages to list.
#[derive(Debug, Clone, Default)]
pub struct Which {
    /// Only messages in this state.
    pub state: Option<State>,
    /// Only messages with this ordering key; empty: only messages without an ordering key.
    pub key: Option<String>,
    /// Only messages beginning at this sequence.
    pub from: Sequence,
    /// The cursor of the previous page.
    pub cursor: Option<u64>,
    /// The approximate size of a page.
    pub limit: usize,
}

/// A pending message and its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The message.
    pub message: Stamped,
    /// The state of the message. A tombstone has the state in which it will leave.
    pub state: State,
    /// When a delayed message is due, in ms since 1970.
    pub due_ms: Option<u64>,
    /// Since when a halted message is halted, in ms since 1970.
    pub halted_ms: Option<u64>,
    /// True if the message leaves as soon as the attempt in progress has ended.
    pub withdrawing: bool,
    /// The lease on the message: of a processor or worker if the message is being processed, of a consumer if it is
    /// ready.
    pub lease: Option<Leased>,
    /// True if a consumer may take the message, or holds it.
    pub is_for_consumers: bool,
}

impl Listed {
    /// True if the message waits because its worker asked to get it later.
    pub fn waits_for_later(&self) -> bool {
        self.state == State::Delayed && self.message.attempts.waits_for_later
    }
}

/// A lease on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leased {
    /// The worker, consumer or pod that holds the lease; `None` if it gave no name.
    pub holder: Option<WorkerName>,
    /// When the lease expires unless extended, in ms since 1970.
    pub expires_ms: u64,
}

/// A page of pending messages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Page {
    /// The messages, without bodies. If they are of one lane, in order of sequence.
    pub items: Vec<Listed>,
    /// Where the next page begins; `None` on the last page.
    pub next: Option<u64>,
}

/// Messages to which the filter has not been applied yet.
struct Candidates {
    sequences: Vec<Sequence>,
    /// Where the next page continues.
    next: Option<u64>,
    /// True if `next` is a sequence.
    by_sequence: bool,
}

impl Store {
    /// The pending messages that match `which`, one page at a time.
    pub async fn pending(&self, entry: &CatalogEntry, which: &Which) -> Result<Page, StoreError> {
        let Candidates { sequences, mut next, by_sequence } = self.candidates(entry, which).await?;
        let is_wanted = |one: &Listed| {
            // A message without an ordering key counts as one with an empty key.
            let key = one.message.message.key.as_deref().unwrap_or_default();
            // A damaged message is halted, or will be halted.
            let is_damaged = one.state == State::Damaged;
            which
                .state
                .is_none_or(|state| state == one.state || is_damaged && state == State::Halted)
                && one.message.position.sequence >= which.from
                && which.key.as_deref().is_none_or(|wanted| wanted == key)
        };
        let mut items: Vec<Listed> = Vec::new();
        for some in sequences.chunks(READ_MAX) {
            let listed = self.listed_in(entry, some, which.key.as_deref()).await?;
            items.extend(listed.into_iter().filter(is_wanted).map(without_body));
        }
        // The filter may reject many messages, so more messages were read than the page needs.
        let limit = which.limit.max(1);
        if by_sequence && let Some(left_out) = items.get(limit) {
            next = Some(left_out.message.position.sequence);
            items.truncate(limit);
        }
        Ok(Page { items, next })
    }

    /// Sequences that may match, and where the next page continues.
    async fn candidates(
        &self,
        entry: &CatalogEntry,
        which: &Which,
    ) -> Result<Candidates, StoreError> {
        let keys = self.keys_of(entry);
        let limit = which.limit.max(1);
        let at = which.cursor.unwrap_or_default();
        let by_rank = |found: Vec<Sequence>| {
            let next = (found.len() == limit).then_some(at + limit as u64);
            Candidates { sequences: found, next, by_sequence: false }
        };
        let end = (at as isize) + (limit as isize) - 1;
        let mut pipe = Pipeline::new();
        match (which.state, entry.destination.ordering, &which.key) {
            (Some(State::Halted | State::Damaged), _, _) => {
                pipe.zrange(keys.halted(), at as isize, end);
                let (found,) = self.query(&pipe).await?;
                return Ok(by_rank(found));
            }
            (Some(State::Waiting), Ordering::Destination | Ordering::Key, None)
                if entry.destination.processing == domain::Processing::Parallel =>
            {
                pipe.lrange(keys.waiting(), at as isize, end);
                let (found,) = self.query(&pipe).await?;
                return Ok(by_rank(found));
            }
            (_, Ordering::Key, None) => {
                pipe.cmd("HSCAN")
                    .arg(keys.messages())
                    .arg(at)
                    .arg("COUNT")
                    .arg(limit.min(READ_MAX));
                let ((next, found),): ((u64, Vec<(Bytes, Bytes)>),) = self.query(&pipe).await?;
                // A field that is not a sequence names no message.
                let sequence = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
                let mut found: Vec<Sequence> =
                    found.iter().filter_map(|(field, _)| sequence(field)).collect();
                found.sort_unstable();
                let next = (next != 0).then_some(next);
                return Ok(Candidates { sequences: found, next, by_sequence: false });
            }
            _ => {}
        }
        let set = entry.destination.lane_key(which.key.as_deref());
        let count = if which.state.is_some() { SCAN } else { limit };
        let from = at.max(which.from);
        pipe.zrangebyscore_limit(keys.in_progress(set), from, "+inf", 0, count as isize);
        let (found,): (Vec<Sequence>,) = self.query(&pipe).await?;
        let next = found.last().filter(|_| found.len() == count).map(|last| last + 1);
        Ok(Candidates { sequences: found, next, by_sequence: true })
    }

    /// The states of these messages, without bodies that are stored out of line. Skips messages that have left. Redis
    /// does not know which ready messages are being delivered.
    pub async fn listed(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
    ) -> Result<Vec<Listed>, StoreError> {
        self.listed_in(entry, sequences, None).await
    }

    /// Like `listed`, for messages that have this ordering key.
    async fn listed_in(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
        key: Option<&str>,
    ) -> Result<Vec<Listed>, StoreError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let name = &entry.destination.name;
        let keys = self.keys().destination(name);
        let messages = self.headers(entry, sequences).await?;
        let messages = self.with_missing(entry, sequences, messages, key).await?;
        let mut pipe = Pipeline::new();
        pipe.zrange_withscores(keys.partition.leases(), 0, LEASES_MAX - 1);
        for message in &messages {
            let sequence = message.position.sequence;
            let set = entry.destination.lane_key(message.message.key.as_deref());
            pipe.zscore(keys.ready(set), sequence).zscore(keys.halted(), sequence);
            pipe.zscore(keys.partition.delayed(), format!("{name}/{sequence}"));
            pipe.hexists(keys.withdrawals(), sequence);
        }
        type Scores = (Option<f64>, Option<f64>, Option<f64>, bool);
        let answers = self.query_lenient(&pipe).await?;
        let shape = |_| unexpected("a look at messages");
        let mut answers = answers.into_iter();
        let mut next = || answers.next().unwrap_or(redis::Value::Nil);
        let leases: Vec<(String, f64)> = redis::from_redis_value(next()).map_err(shape)?;
        let leases =
            leases.iter().filter_map(|(member, deadline)| leased(member, *deadline, entry));
        let mut leases: HashMap<Sequence, Leased> = leases.collect();
        let mut listed = Vec::with_capacity(messages.len());
        for message in messages {
            let scores = redis::Value::Array(vec![next(), next(), next(), next()]);
            let (ready, halted, due, withdrawing): Scores =
                redis::from_redis_value(scores).map_err(shape)?;
            let lease = leases.remove(&message.position.sequence);
            let state = match message.damaged.is_some() && message.tombstone.is_none() {
                true => State::Damaged,
                false => state_of(message.tombstone, ready, halted, due, lease.is_some()),
            };
            let (due_ms, halted_ms) = (due.map(|ms| ms as u64), halted.map(|ms| ms as u64));
            let lease = lease.filter(|_| state == State::Processing);
            listed.push(Listed {
                message,
                state,
                due_ms,
                halted_ms,
                withdrawing,
                lease,
                is_for_consumers: false,
            });
        }
        self.note_consumers(entry, &mut listed).await?;
        Ok(listed)
    }
}

impl Store {
    /// Adds to `found` the messages without a record that a lane or `halted` still names. With ordering by key and an
    /// unknown `key`, only checks `halted`.
    async fn with_missing(
        &self,
        entry: &CatalogEntry,
        sequences: &[Sequence],
        found: Vec<Option<Stamped>>,
        key: Option<&str>,
    ) -> Result<Vec<Stamped>, StoreError> {
        let keys = self.keys_of(entry);
        let set = entry.destination.lane_key(key);
        let missing: Vec<Sequence> = found
            .iter()
            .zip(sequences)
            .filter_map(|(found, sequence)| found.is_none().then_some(*sequence))
            .collect();
        let mut named = HashSet::new();
        if !missing.is_empty() {
            let mut pipe = Pipeline::new();
            for sequence in &missing {
                pipe.zscore(keys.in_progress(set), sequence).zscore(keys.halted(), sequence);
                pipe.hexists(keys.messages(), sequence);
            }
            let answers = self.query_lenient(&pipe).await?;
            for (sequence, answers) in missing.iter().zip(answers.chunks(3)) {
                let shape = |_| unexpected("a look at messages");
                let answers = redis::Value::Array(answers.to_vec());
                let (pending, halted, exists): (Option<f64>, Option<f64>, bool) =
                    redis::from_redis_value(answers).map_err(shape)?;
                if (pending.is_some() || halted.is_some()) && !exists {
                    named.insert(*sequence);
                }
            }
        }
        let mut messages = Vec::with_capacity(found.len());
        for (found, sequence) in found.into_iter().zip(sequences) {
            let mut message = match found {
                Some(message) => message,
                None if named.contains(sequence) => {
                    let name = entry.destination.name.clone();
                    Stamped::unreadable(name, *sequence, "its record is missing".to_owned())
                }
                None => continue,
            };
            if message.damaged.is_some() {
                message.message.key = message.message.key.or(key.map(str::to_owned));
            }
            messages.push(message);
        }
        Ok(messages)
    }

    /// Finds the lane of an unreadable message by a search of all lanes of its destination. `None` if the message is
    /// in no lane.
    pub async fn lane_holding(
        &self,
        entry: &CatalogEntry,
        sequence: Sequence,
    ) -> Result<Option<Option<String>>, StoreError> {
        let keys = self.keys_of(entry);
        if entry.destination.ordering != Ordering::Key {
            let score: Option<f64> =
                self.ask(&Cmd::zscore(keys.in_progress(None), sequence)).await?;
            return Ok(score.map(|_| entry.destination.lane_of(None, sequence)));
        }
        let prefix = keys.in_progress(Some(""));
        let pattern = format!("{}*", escaped(&prefix));
        let mut cursor = 0u64;
        loop {
            let mut pipe = Pipeline::new();
            pipe.cmd("SCAN").arg(cursor).arg("MATCH").arg(&pattern).arg("COUNT").arg(SCAN_KEYS);
            let ((next, found),): ((u64, Vec<String>),) =
                self.query_at(prefix.as_bytes(), &pipe).await?;
            if !found.is_empty() {
                let mut pipe = Pipeline::new();
                for key in &found {
                    pipe.zscore(key, sequence);
                }
                // A key with another type holds no message.
                let scores = self.query_lenient(&pipe).await?;
                let at = scores.iter().position(|score| *score != redis::Value::Nil);
                if let Some(key) = at.and_then(|at| found[at].strip_prefix(&prefix)) {
                    return Ok(Some(Some(key.to_owned())));
                }
            }
            if next == 0 {
                return Ok(None);
            }
            cursor = next;
        }
    }
}

/// Escapes a text for use in a SCAN pattern.
fn escaped(text: &str) -> String {
    let mut pattern = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, '*' | '?' | '[' | ']' | '^' | '\\') {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

/// Removes bodies, because pages do not contain them. `accounted_bytes` holds their length.
fn without_body(mut listed: Listed) -> Listed {
    listed.message.message.body.bytes = Bytes::new();
    listed.message.input = None;
    listed
}

/// The message of this destination that a member of the partition's leases names, and its lease.
fn leased(member: &str, deadline: f64, entry: &CatalogEntry) -> Option<(Sequence, Leased)> {
    let mut parts = member.splitn(3, '/');
    let is_ours = parts.next() == Some(entry.destination.name.as_str());
    let sequence = parts.next().filter(|_| is_ours)?.parse().ok()?;
    let holder = LeaseToken::holder_of(parts.next().unwrap_or_default());
    Some((sequence, Leased { holder, expires_ms: deadline as u64 }))
}

fn state_of(
    tombstone: Option<Tombstone>,
    ready: Option<f64>,
    halted: Option<f64>,
    due: Option<f64>,
    is_leased: bool,
) -> State {
    match (tombstone, halted, ready, due) {
        (Some(tombstone), ..) => tombstone.into(),
        (_, Some(_), ..) => State::Halted,
        (_, _, Some(_), _) => State::Ready,
        (.., Some(_)) => State::Delayed,
        _ if is_leased => State::Processing,
        _ => State::Waiting,
    }
}
