//! Stores outputs of messages and makes the messages ready (`lua/complete.lua`).

use redis::{FromRedisValue, ParsingError, Value};

use crate::{
    Store, StoreError,
    calls::unexpected,
    contract::{contract, row},
    entry::CatalogEntry,
    kept_result::KeptResult,
    keys::DestinationKeys,
    record::{self, Written},
    rows::{BodyOutOfLine, LaneRow, Numbered},
};
use domain::{LeaseToken, Ordering, Processing, Sequence, Stamped};

/// The result of a script for one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LeaseStatus)]
pub enum Status {
    /// The call succeeded.
    Ok,
    /// The call succeeded, and the message gets no further attempt: it is halted.
    Halted,
    /// The call succeeded, and the message gets no further attempt: it is dropped or dead-lettered, as `on_exhausted`
    /// says.
    #[serde(skip)]
    Withdrawn,
    /// The caller does not hold the lease any more; nothing was changed.
    StaleLease,
    /// The message was finished before. Nothing was changed, and the caller has nothing to do.
    Settled,
    /// The data of the destination in Redis is damaged. The lease continues unchanged.
    Damaged,
    /// Only for `extend`: the attempt took too long and has failed.
    AttemptTimeout,
    /// Redis has no memory left for the output. The lease continues unchanged. Workers get 503 `memory_high`.
    #[serde(skip)]
    Full,
}

impl FromRedisValue for Status {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "ok" => Ok(Status::Ok),
            "halted" => Ok(Status::Halted),
            "withdrawn" => Ok(Status::Withdrawn),
            "stale_lease" => Ok(Status::StaleLease),
            "settled" => Ok(Status::Settled),
            "attempt_timeout" => Ok(Status::AttemptTimeout),
            "full" => Ok(Status::Full),
            other => Err(ParsingError::from(format!("unknown status {other:?}"))),
        }
    }
}

/// A claimed message with the result of its processing.
#[derive(Debug, Clone)]
pub struct Completion {
    /// The lease.
    pub token: LeaseToken,
    /// The message, with the output as its body, or a tombstone.
    pub output: Stamped,
    /// True if the output equals the input and there is nothing else to store: Redis keeps the stored record.
    pub is_unchanged: bool,
}

row! {
    /// A completed message.
    CompletionRow {
        sequence: Sequence,
        /// The lease, as a member of `leases`.
        member: String,
        /// The record with the output; empty: the stored record stays.
        record: Vec<u8>,
        /// The number of the message's lane, from 1.
        lane: usize,
    }
}

row! {
    /// An output that a producer waits for.
    ResultRow {
        [result]
        /// The number of the message in the call, from 1.
        of: usize,
        value: Vec<u8>,
    }
}

contract! {
    complete
    keys(keys: &DestinationKeys) {
        destination: keys.hash(), messages, attempts, leases, releasable, lanes, wake_releasable,
        waiting, delayed, active_builtin, active_worker, wake_waiting, epoch, bodies,
        results, wake_results,
    }
    args<'a> {
        destination: &'a str,
        record_schema: u32,
    }
    lists {
        lanes: LaneRow<'a>,
        /// The completed messages, by ascending sequence.
        completions: CompletionRow,
        bodies: BodyOutOfLine,
        kept: ResultRow,
    }
}

/// The record and bodies to store for a completion; empty if the message is unchanged.
fn written(completion: &Completion, entry: &CatalogEntry, schema: u32) -> Written {
    match completion.is_unchanged {
        true => Written::default(),
        false => record::of_stamped(&completion.output, entry.destination.ordering, schema),
    }
}

impl Store {
    /// Stores outputs of one destination's messages and makes the messages ready. Returns one status each, in order;
    /// at most 1,000 messages. If the call is repeated after a lost answer, the statuses say that the messages are
    /// settled.
    pub async fn complete(
        &self,
        entry: &CatalogEntry,
        completions: &[Completion],
    ) -> Result<Vec<Status>, StoreError> {
        if let [one] = completions
            && entry.destination.ordering == Ordering::Destination
            && entry.destination.processing == Processing::Parallel
            && !one.output.options.keep_result
        {
            let call =
                |schema| self.complete_fast(schema, entry, &one.token, written(one, entry, schema));
            match self.in_schema(entry.partition, call).await {
                Ok(()) => return Ok(vec![Status::Ok]),
                Err(StoreError::NotFast) => {}
                Err(error) => return Err(error),
            }
        }
        let call = |schema| self.complete_in(schema, entry, completions);
        self.in_schema(entry.partition, call).await
    }

    async fn complete_in(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        completions: &[Completion],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys_of(entry);
        // The script expects the messages in the order of their sequences.
        let mut order: Vec<usize> = (0..completions.len()).collect();
        order.sort_by_key(|&which| completions[which].token.sequence);
        let mut lanes = Numbered::default();
        let (mut bodies, mut kept) = (Vec::new(), Vec::new());
        let sorted = order.iter().map(|&which| &completions[which]).enumerate();
        let rows = sorted.map(|(which, completion)| {
            let written = written(completion, entry, schema);
            let key = entry.destination.lane_key(completion.token.key.as_deref());
            bodies.extend(written.bodies.into_iter().map(|(part, body)| BodyOutOfLine {
                of: which + 1,
                suffix: part.suffix(),
                body: body.unwrap_or_default(),
            }));
            if completion.output.options.keep_result {
                kept.push(ResultRow {
                    result: keys.result(completion.token.sequence),
                    of: which + 1,
                    value: KeptResult::of(&completion.output).encode(),
                });
            }
            CompletionRow {
                sequence: completion.token.sequence,
                member: completion.token.member(),
                record: written.record,
                lane: lanes.number_of(key),
            }
        });
        let rows = rows.collect();
        let mut call = Args {
            destination: entry.destination.name.as_str(),
            record_schema: schema,
            lanes: LaneRow::of_all(&keys, &lanes),
            completions: rows,
            bodies,
            kept,
        }
        .call(self, &keys);
        call.of_messages(completions.len());
        let exceptions: Vec<(usize, Status)> = self.run(&call).await?;
        let mut statuses = vec![Status::Ok; completions.len()];
        for (which, status) in exceptions {
            let at = order.get(usize::wrapping_sub(which, 1));
            statuses[*at.ok_or_else(|| unexpected("complete"))?] = status;
        }
        Ok(statuses)
    }
}
