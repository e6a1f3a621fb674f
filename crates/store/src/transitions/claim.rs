//! Claims waiting messages (`lua/claim.lua`).

use std::{ops::RangeInclusive, sync::Arc, time::Duration};

use bytes::Bytes;
use redis::{FromRedisValue, Value};
use sha2::{Digest, Sha256};

use super::fail::Failed;
use crate::{
    CallSequence, Store, StoreError, attempts,
    calls::unexpected,
    contract::contract,
    entry::CatalogEntry,
    keys::{Claimers, DestinationKeys},
    record,
};
use domain::{
    AttemptError, Attempts, Disposition, ErrorKind, LeaseToken, MessageIds, Sequence, Stage,
    Stamped, WorkerName,
};

contract! {
    claim
    keys(keys: &DestinationKeys, caller: &str, claimers: Claimers) {
        call: keys.call(caller), destination: keys.hash(), waiting, messages, attempts, leases,
        active: keys.active(claimers), epoch, bodies, withdrawn, delayed, lanes,
    }
    args<'a> {
        call_number: u64,
        destination: &'a str,
        version: u64,
        secret: &'a str,
        lease_ms: u64,
        most: usize,
        bytes_max: usize,
        fewest: usize,
        ordering: &'a str,
        has_no_suspects: u8,
        /// 0: no limit.
        rate_per_second: u32,
        rate_burst: u32,
    }
}

/// The most bytes of records that one call returns. It returns at least one record.
const BYTES_MAX: usize = 8 << 20;

/// The number of digits in the random part of a lease's secret: 65 bits in total. The part is short, because every
/// lease contains it and Lua hashes each string argument byte by byte.
const SECRET_LENGTH: usize = 11;

const SECRET_DIGITS: &[u8; 62] = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// Claimed messages, under a lease.
#[derive(Debug, Default)]
pub struct Claimed {
    /// When the lease expires unless extended, in ms since 1970 by the server's clock.
    pub deadline_ms: u64,
    /// The messages, lowest sequence first, each with its token.
    pub messages: Vec<(LeaseToken, Stamped)>,
    /// True if more messages may be waiting that the call left out: because of their size, because of suspects, or
    /// because they were out of its reach.
    pub may_have_more: bool,
    /// True if Redis has no memory left, so that only heads of lanes were claimed.
    pub is_full: bool,
    /// How long the destination rests from now on, because of the rate of its transform.
    pub rest: Option<Duration>,
}

impl Claimed {
    /// True if a process that holds these messages must hold no other suspects.
    pub fn must_be_alone(&self) -> bool {
        self.messages.iter().any(|(_, message)| message.attempts.must_be_alone())
    }
}

impl Store {
    /// Claims waiting messages of one destination for this pod, at most `count.end()`. Claims none if fewer than
    /// `count.start()` are waiting.
    pub async fn claim(
        &self,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        count: RangeInclusive<usize>,
        lease: Duration,
    ) -> Result<Claimed, StoreError> {
        self.claim_for(self.holder().as_ref(), true, call_sequence, entry, count, lease).await
    }

    /// The name of this pod, as the holder of a lease.
    pub fn holder(&self) -> Option<WorkerName> {
        self.pod().parse().ok()
    }

    /// Like `claim`, but the lease names `holder`. Without `suspects`, the claim leaves out messages that [must be
    /// alone](Attempts::must_be_alone).
    pub async fn claim_for(
        &self,
        holder: Option<&WorkerName>,
        suspects: bool,
        call_sequence: &CallSequence,
        entry: &CatalogEntry,
        count: RangeInclusive<usize>,
        lease: Duration,
    ) -> Result<Claimed, StoreError> {
        let destination = &entry.destination;
        let keys = self.keys().destination(&destination.name);
        let secret = LeaseToken::secret_of(&self.random_of(call_sequence), holder);
        let most = (*count.end()).clamp(1, 1000);
        let least = (*count.start()).clamp(1, most);
        let (caller, number) = call_sequence.current();
        let call = Args {
            call_number: number,
            destination: destination.name.as_str(),
            version: entry.version,
            secret: &secret,
            lease_ms: lease.as_millis() as u64,
            most,
            bytes_max: BYTES_MAX,
            fewest: least,
            ordering: entry.ordering_text(),
            has_no_suspects: u8::from(suspects),
            rate_per_second: destination.transform.rate_per_second_max,
            rate_burst: destination.transform.burst,
        }
        .call(self, &keys, &caller, entry.claimers());
        let answer = call_sequence.answered(self.run::<Vec<Value>>(&call).await)?;

        let (mut bytes_given, mut damaged) = (0, Vec::new());
        let mut parts = answer.into_iter().peekable();
        let deadline = parts.next().ok_or_else(|| unexpected("claim"))?;
        let looks_again = parts.next_if(|part| is_word(part, b"again")).is_some();
        let rest = match parts.next_if(|part| is_word(part, b"rest")) {
            Some(_) => Some(read(parts.next().ok_or_else(|| unexpected("claim"))?)?),
            None => None,
        };
        let is_full = parts.next_if(|part| is_word(part, b"full")).is_some();
        let with_attempts = parts.next_if(|part| is_word(part, b"attempts")).is_some();
        let mut result = Claimed {
            deadline_ms: read(deadline)?,
            messages: Vec::with_capacity(parts.len() / 2),
            may_have_more: false,
            is_full,
            rest: rest.map(Duration::from_millis),
        };
        // The time by Redis's clock, because scripts compare it.
        let claimed_ms = result.deadline_ms.saturating_sub(lease.as_millis() as u64);
        while let Some(sequence) = parts.next() {
            let sequence: Sequence = read(sequence)?;
            let mut next = || parts.next().ok_or_else(|| unexpected("claim"));
            let bytes: Bytes = read(next()?)?;
            let attempts = match with_attempts {
                true => {
                    let kept = read::<Bytes>(next()?)?;
                    bytes_given += kept.len();
                    attempts::read(&kept)
                }
                false => Attempts::default(),
            };
            bytes_given += bytes.len();
            let body = match record::is_out_of_line(&bytes) {
                true => Some(read::<Bytes>(parts.next().ok_or_else(|| unexpected("claim"))?)?),
                false => None,
            };
            bytes_given += body.as_ref().map_or(0, Bytes::len);
            let message = record::read_with(bytes, body, &destination.name, sequence, attempts);
            let message = match message {
                Ok(message) => message,
                // One damaged message must not delay the others.
                Err(error) => {
                    damaged.push((sequence, error));
                    continue;
                }
            };
            let key = destination.lane_key(message.message.key.as_deref()).map(str::to_owned);
            let token = LeaseToken {
                destination: destination.name.clone(),
                sequence,
                secret: secret.clone(),
                claimed_ms,
                key,
            };
            result.messages.push((token, message));
        }
        if !damaged.is_empty() {
            self.halt_damaged(entry, &secret, damaged).await;
        }
        result.may_have_more = looks_again || bytes_given >= BYTES_MAX;
        Ok(result)
    }

    /// Halts claimed messages that cannot be read, even if the destination drops exhausted messages: an operator may
    /// be able to restore them. If halting fails, their leases expire, and they are claimed again.
    async fn halt_damaged(
        &self,
        entry: &CatalogEntry,
        secret: &Arc<str>,
        damaged: Vec<(Sequence, record::RecordError)>,
    ) {
        let name = &entry.destination.name;
        let failed = damaged.into_iter().map(|(sequence, error)| {
            tracing::error!(destination = %name, sequence, %error, "halting a damaged message");
            let (destination, secret) = (name.clone(), secret.clone());
            Failed {
                token: LeaseToken { destination, sequence, secret, claimed_ms: 0, key: None },
                disposition: Disposition::Halt,
                is_later: false,
                error: AttemptError::new(Stage::Transform, ErrorKind::Damaged, error.to_string()),
                // The record is unreadable, so the ids are unknown.
                ids: MessageIds::default(),
            }
        });
        let (call_sequence, failed) =
            (self.new_call_sequence("damaged"), failed.collect::<Vec<_>>());
        if let Err(error) = self.fail(&call_sequence, entry, &failed).await {
            tracing::debug!(destination = %name, %error, "cannot halt a damaged message");
        }
        // From now on, damage checks find these messages among the halted ones.
        let sequences: Vec<_> = failed.iter().map(|one| one.token.sequence).collect();
        self.note_damaged_messages(entry, &sequences);
    }

    /// A text that no other process can guess. A retry of the same call gets the same text.
    pub(super) fn random_of(&self, call_sequence: &CallSequence) -> String {
        let mut hash = Sha256::new();
        hash.update(self.inner.seed.as_bytes());
        let (caller, number) = call_sequence.current();
        hash.update(caller.as_bytes());
        hash.update(number.to_be_bytes());
        let digits = hash.finalize();
        digits[..SECRET_LENGTH]
            .iter()
            .map(|byte| char::from(SECRET_DIGITS[usize::from(byte % 62)]))
            .collect()
    }
}

/// True if the value is this word.
fn is_word(value: &Value, word: &[u8]) -> bool {
    matches!(value, Value::BulkString(bytes) if bytes == word)
}

fn read<T: FromRedisValue>(value: Value) -> Result<T, StoreError> {
    redis::from_redis_value(value).map_err(|_| unexpected("claim"))
}
