//! A destination: a named receiver with its transform and its policies.

mod changes;
mod defaults;
mod delivery;
pub mod expression;
mod forward_headers;
mod ids;
mod key_source;
mod modes;
mod shards;
mod signatures;
mod validate;
mod verify;

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

pub use changes::Change;
pub use delivery::{Ack, BatchFormat, Delivery, DeliveryKind, Envelope, Framing};
pub use forward_headers::{ForwardHeaders, REQUEST_ID, is_reserved};
pub use ids::IDS_SEARCHED_MAX;
pub use key_source::KeySource;
pub use modes::{IdempotencyCompare, OnExhausted, Ordering, Processing};
pub use signatures::{Secrets, Sign, StandardSecret};
pub use verify::{HmacAlgorithm, SignatureEncoding, SignedPart, Verify, VerifyKind};

use super::{Backoff, DestinationName, Sequence, secret};

/// Replaces a secret in output.
pub const MASK: &str = "***";

/// The prefix of the names of the headers of Standard Webhooks.
pub const SIGNATURE_PREFIX: &str = "webhook-";

/// The definition of a destination, as in `[[destination]]` and in `PUT /v1/destinations/{d}`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Destination {
    /// The name of the destination: `[a-z0-9._-]{1,64}`.
    pub name: DestinationName,
    /// The URL of the receiver: `http://`, `https://`, `tcp://host:port` or `tls://host:port`. Required if
    /// `delivery.kind` is `push`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Static headers sent with each delivery (HTTP only), such as `authorization`.
    #[serde(default, skip_serializing_if = "Headers::is_empty", deserialize_with = "secret::map")]
    pub headers: Headers,
    /// Signs each delivery according to Standard Webhooks (HTTP only).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<Sign>,
    /// Verifies the signatures of arriving requests. A request without a signature needs a token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Which headers travel with a message: names in lower case, or prefixes followed by `*`.
    #[serde(default)]
    #[schema(value_type = Vec<String>, max_items = 50)]
    pub forward_headers: ForwardHeaders,
    /// The part of a message that holds the ordering key, if the producer gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_from: Option<KeySource>,
    /// The part of a message that holds the idempotency key, if the producer gives none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key_from: Option<KeySource>,
    /// How messages are processed before they are delivered.
    #[serde(default)]
    pub transform: Transform,
    /// How messages are delivered.
    #[serde(default)]
    pub delivery: Delivery,
    /// Which messages stay in order.
    #[serde(default)]
    pub ordering: Ordering,
    /// With ordering by key or without ordering: over how many shards the messages are spread. Each shard is on one
    /// server of a cluster, and has an equal part of each limit of the destination.
    #[serde(default = "defaults::shards", skip_serializing_if = "shards::is_one")]
    #[schema(minimum = 1, maximum = 256)]
    pub shards: u16,
    /// How many messages of a lane are processed at a time.
    #[serde(default)]
    pub processing: Processing,
    /// What happens to a message when its attempts are used up.
    #[serde(default)]
    pub on_exhausted: OnExhausted,
    /// Where a message must be before its producer gets an acknowledgement.
    #[serde(default)]
    pub durability: Durability,
    /// The destination's share of the processors' claims, relative to other destinations.
    #[serde(default = "defaults::weight")]
    pub weight: u32,
    /// The most pending messages. Beyond this, ingest refuses messages.
    #[serde(default = "defaults::backlog_max")]
    pub backlog_max: u64,
    /// The most bytes of bodies of pending messages. Beyond this, ingest refuses messages; 0: no limit.
    #[serde(default)]
    pub backlog_bytes_max: u64,
    /// The most messages per second that each ingest process accepts for the destination; 0: no limit.
    #[serde(default)]
    pub ingest_rate_per_second_max: u32,
    /// How long Reseq remembers an idempotency key, in milliseconds; 0: while the message that used the key is pending.
    #[serde(default = "defaults::idempotency_window_ms")]
    pub idempotency_window_ms: u64,
    /// The most idempotency keys within the window. Beyond this, ingest refuses messages that have one.
    #[serde(default = "defaults::idempotency_keys_max")]
    pub idempotency_keys_max: u64,
    /// When a message with a known idempotency key counts as a repeat.
    #[serde(default)]
    pub idempotency_compare: IdempotencyCompare,
    /// The most sources whose marks the destination keeps.
    #[serde(default = "defaults::sources_max")]
    pub sources_max: u64,
    /// How many of the last settled messages the log keeps; 0: no log.
    #[serde(default = "defaults::log_max")]
    pub log_max: u64,
    /// True if the log also keeps bodies as they arrived, which a replay needs.
    #[serde(default)]
    pub log_bodies: bool,
    /// The most dead letters. At the limit, a message that would become a dead letter halts its lane instead. 0: no
    /// limit.
    #[serde(default = "defaults::dead_letters_max")]
    pub dead_letters_max: u64,
    /// How long Reseq keeps a dead letter, in milliseconds; 0: until it is redriven or discarded.
    #[serde(default = "defaults::dead_letters_max_age_ms")]
    pub dead_letters_age_max_ms: u64,
    /// With ordering by key: the number of keys without pending messages whose last sequence Reseq remembers, the most
    /// recent keys; 0: none.
    #[serde(default = "defaults::previous_keys_max")]
    pub previous_keys_max: u64,
    /// How many of the last messages can be found by their id; 0: none. Beyond 1,000, Reseq keeps an index.
    #[serde(default = "defaults::ids_max")]
    pub ids_max: u64,
}

/// Where a message must be before its producer gets an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// In the memory of Redis, which writes it to disk if it is configured to.
    #[default]
    Memory,
    /// Also in the memory of all configured replicas.
    Replicated,
    /// In the memory of more than half of all servers: the primary and its replicas.
    Quorum,
    /// On the disk of the primary.
    Fsynced,
}

impl std::fmt::Display for Durability {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Durability::Memory => "memory",
            Durability::Replicated => "replicated",
            Durability::Quorum => "quorum",
            Durability::Fsynced => "fsynced",
        })
    }
}

/// How messages are processed.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Transform {
    /// Who processes the messages.
    pub kind: TransformKind,
    /// `http`: the URL that gets the body by POST.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `native`: the name that the Rust transform was registered under.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// `jq`: the expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expression: Option<String>,
    /// `http`: static headers of each request.
    #[serde(skip_serializing_if = "Headers::is_empty", deserialize_with = "secret::map")]
    pub headers: Headers,
    /// Time limit of one attempt, in milliseconds.
    pub timeout_ms: u64,
    /// `worker`: an attempt fails this many milliseconds after it began or last saved a checkpoint, even if the worker
    /// extends its lease; 0: never.
    pub attempt_ms_max: u64,
    /// The most attempts that run at once in one processor pod.
    pub concurrency: u32,
    /// The most attempts started per second, over all processors and workers; 0: no limit.
    pub rate_per_second_max: u32,
    /// How many of these attempts may start at once, after a time without attempts.
    pub burst: u32,
    /// After this many failed attempts, Reseq gives the message up (`on_exhausted`); 0: never.
    pub attempts_max: u32,
    /// After this many expired leases (its processors died), Reseq gives the message up; 0: never.
    pub stalls_max: u32,
    /// The upper limit of the first wait between attempts, in milliseconds.
    pub backoff_ms: u64,
    /// The longest wait between attempts, in milliseconds.
    pub backoff_max_ms: u64,
    /// The longest `Retry-After` that is honoured, in milliseconds.
    pub retry_after_max_ms: u64,
}

/// Who processes a destination's messages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransformKind {
    /// Nobody: a message is ready at once.
    #[default]
    None,
    /// A service that the processor calls with POST.
    Http,
    /// A process of the user, over the worker API.
    Worker,
    /// A `jq` expression, run by the processor.
    Jq,
    /// Rust code linked into the processor (Reseq as a library).
    Native,
}

/// Header names in lower case, and their values.
pub type Headers = BTreeMap<String, String>;

impl Default for Transform {
    fn default() -> Self {
        Transform {
            kind: TransformKind::None,
            url: None,
            name: None,
            expression: None,
            headers: Headers::new(),
            timeout_ms: 30_000,
            attempt_ms_max: 3_600_000,
            concurrency: 64,
            rate_per_second_max: 0,
            burst: 1,
            attempts_max: 10,
            stalls_max: 5,
            backoff_ms: 200,
            backoff_max_ms: 30_000,
            retry_after_max_ms: 3_600_000,
        }
    }
}

impl Transform {
    /// The wait between attempts.
    pub fn backoff(&self) -> Backoff {
        Backoff { base_ms: self.backoff_ms, max_ms: self.backoff_max_ms }
    }

    /// When the rate allows the next attempt, in ms since 1970; `None`: now. `granted_until_us`: the end of the time
    /// that earlier attempts have used, in us since 1970, as `lua/include/rate.lua` stores it.
    pub fn next_attempt_ms(&self, granted_until_us: u64) -> Option<u64> {
        let rate = self.rate_per_second_max;
        let interval_us = (rate > 0).then(|| 1_000_000_u64.div_ceil(rate.into()))?;
        let ahead_us = u64::from(self.burst.saturating_sub(1)) * interval_us;
        Some(granted_until_us.saturating_sub(ahead_us).div_ceil(1000))
    }
}

/// An invalid field of a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct InvalidField {
    /// The path of the field, such as `transform.url`.
    pub field: &'static str,
    /// The problem, and how to correct it.
    pub problem: String,
}

/// Shows the definition without its secrets.
impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(&self.masked()).map_err(|_| fmt::Error)?)
    }
}

/// Shows the transform without its secrets.
impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transform").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Destination {
    /// A destination with all defaults.
    pub fn new(name: DestinationName, url: impl Into<String>) -> Self {
        Destination {
            name,
            url: Some(url.into()),
            headers: Headers::new(),
            sign: None,
            verify: None,
            forward_headers: ForwardHeaders::default(),
            key_from: None,
            idempotency_key_from: None,
            transform: Transform::default(),
            delivery: Delivery::default(),
            ordering: Ordering::default(),
            shards: defaults::shards(),
            processing: Processing::default(),
            on_exhausted: OnExhausted::default(),
            durability: Durability::default(),
            weight: defaults::weight(),
            backlog_max: defaults::backlog_max(),
            backlog_bytes_max: 0,
            ingest_rate_per_second_max: 0,
            idempotency_window_ms: defaults::idempotency_window_ms(),
            idempotency_keys_max: defaults::idempotency_keys_max(),
            idempotency_compare: IdempotencyCompare::default(),
            sources_max: defaults::sources_max(),
            log_max: defaults::log_max(),
            log_bodies: false,
            dead_letters_max: defaults::dead_letters_max(),
            dead_letters_age_max_ms: defaults::dead_letters_max_age_ms(),
            previous_keys_max: defaults::previous_keys_max(),
            ids_max: defaults::ids_max(),
        }
    }

    /// The URLs that Reseq connects to, each with the name of its field.
    pub fn urls(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let transform = self.transform.url.as_deref().map(|url| ("transform.url", url));
        self.url.as_deref().map(|url| ("url", url)).into_iter().chain(transform)
    }

    /// True if ingest must look for keys in messages.
    pub fn has_key_sources(&self) -> bool {
        self.key_sources().iter().any(Option::is_some)
    }

    /// The most messages to send together if an earlier attempt at the first of them was refused. Over TCP, where each
    /// frame is answered, only the first.
    pub fn refused_max(&self) -> usize {
        if self.is_tcp() { 1 } else { self.delivery.batch_max as usize }
    }

    /// True if the receiver uses TCP frames.
    pub fn is_tcp(&self) -> bool {
        let url = self.url.as_deref().unwrap_or_default();
        url.starts_with("tcp://") || url.starts_with("tls://")
    }

    /// The key in the names of the Redis keys that hold a message with this ordering key; `None`: the destination's own
    /// Redis keys.
    pub fn lane_key<'a>(&self, key: Option<&'a str>) -> Option<&'a str> {
        match self.ordering {
            Ordering::Destination | Ordering::None => None,
            Ordering::Key => Some(key.unwrap_or_default()),
        }
    }

    /// This destination's part of `room` by its weight, at least 1. `weights` is the sum of the weights of all
    /// destinations that want a part.
    pub fn share(&self, room: usize, weights: u64) -> usize {
        let part = (room as u64 * u64::from(self.weight)).div_ceil(weights.max(1));
        (part as usize).clamp(1, room.max(1))
    }

    /// The lane of a message with this ordering key and sequence. Without ordering, each message is a lane, and its
    /// sequence is the name. `None`: the destination's only lane.
    pub fn lane_of(&self, key: Option<&str>, sequence: Sequence) -> Option<String> {
        match self.ordering {
            Ordering::None => Some(sequence.to_string()),
            Ordering::Destination | Ordering::Key => self.lane_key(key).map(str::to_owned),
        }
    }

    /// True if this body cannot be sent unchanged: it contains a line break, and frames are lines. An envelope is
    /// always one line.
    pub fn breaks_lines(&self, body: &[u8]) -> bool {
        let Delivery { framing, envelope, .. } = self.delivery;
        self.is_tcp()
            && (framing, envelope) == (Framing::Lines, Envelope::None)
            && body.contains(&b'\n')
    }

    /// True if a header with this name, in lower case, travels with a message. If deliveries are signed, the headers of
    /// another signature do not travel: a receiver would take them for Reseq's.
    pub fn forwards(&self, name: &str) -> bool {
        let is_replaced = self.sign.is_some() && name.starts_with(SIGNATURE_PREFIX);
        self.forward_headers.has(name) && !is_replaced && !self.verifies(name)
    }

    /// True if Reseq, or a receiver that gets no headers, must be able to read the body without decoding it.
    pub fn reads_bodies(&self) -> bool {
        let is_jq = |source: &Option<KeySource>| matches!(source, Some(KeySource::Jq(_)));
        self.transform.kind == TransformKind::Jq
            || is_jq(&self.key_from)
            || is_jq(&self.idempotency_key_from)
    }

    /// The definition with all secrets masked. All header values are masked, because they are often secrets.
    pub fn masked(&self) -> Destination {
        let mut shown = self.clone();
        shown.secrets_mut().into_iter().for_each(|(_, secret)| *secret = MASK.to_owned());
        shown
    }

    /// The secrets of the definition, each with the path of its field, such as `headers.authorization` or
    /// `sign.secrets.0`. All header values count as secrets.
    pub fn secrets_mut(&mut self) -> Vec<(String, &mut String)> {
        let headers =
            [("headers", &mut self.headers), ("transform.headers", &mut self.transform.headers)];
        let headers = headers.into_iter().flat_map(|(field, headers)| {
            headers.iter_mut().map(move |(name, value)| (format!("{field}.{name}"), value))
        });
        let lists = [
            ("sign.secrets", self.sign.as_mut().map(|sign| &mut sign.secrets)),
            ("verify.secrets", self.verify.as_mut().map(|verify| &mut verify.secrets)),
        ];
        let lists = lists.into_iter().filter_map(|(field, list)| Some((field, list?)));
        let lists = lists.flat_map(|(field, list)| {
            list.iter_mut().enumerate().map(move |(at, secret)| (format!("{field}.{at}"), secret))
        });
        headers.chain(lists).collect()
    }

    /// The secrets of the definition.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.values().chain(self.transform.headers.values());
        let sign = self.sign.iter().flat_map(|sign| sign.secrets.iter());
        let verify = self.verify.iter().flat_map(|verify| verify.secrets.iter());
        headers.map(String::as_str).chain(sign).chain(verify)
    }
}
