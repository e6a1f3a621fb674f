//! Stores outputs and makes them ready (`lua/complete.lua`).

use std::collections::{BTreeSet, HashMap};

use redis::{FromRedisValue, ParsingError, Value};

use crate::{
    domain::{LeaseToken, Ordering, Processing, Stamped},
    faults::planted,
    redis_client::ScriptCall,
    store::{Store, StoreError, calls::unexpected, entry::CatalogEntry, keys::Claimers, record},
};

/// The result of a script for one lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = LeaseStatus)]
pub enum Status {
    /// Done.
    Ok,
    /// Done, and the message's attempts are used up.
    Halted,
    /// The lease is no longer the caller's; nothing was changed.
    StaleLease,
    /// The message had already been finished; nothing was changed, and nothing needs to be.
    Settled,
    /// The data of its lane or destination in Redis is damaged. The lease runs on unchanged.
    Damaged,
    /// Redis has no memory left for the output. The lease runs on unchanged. Workers get 503 `memory_high`.
    #[serde(skip)]
    Full,
}

impl FromRedisValue for Status {
    fn from_redis_value(value: Value) -> Result<Self, ParsingError> {
        match String::from_redis_value(value)?.as_str() {
            "ok" => Ok(Status::Ok),
            "halted" => Ok(Status::Halted),
            "stale_lease" => Ok(Status::StaleLease),
            "settled" => Ok(Status::Settled),
            "damaged" => Ok(Status::Damaged),
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
    /// The output equals the input, and nothing else is noted: Redis keeps the stored record.
    pub is_unchanged: bool,
}

impl Store {
    /// Stores outputs of one destination's messages and makes them ready. One status each, in
    /// order; at most 1,000 messages. Repeated after a lost answer, it answers that they are settled.
    pub async fn complete(
        &self,
        entry: &CatalogEntry,
        completions: &[Completion],
    ) -> Result<Vec<Status>, StoreError> {
        if let [one] = completions
            && entry.destination.ordering == Ordering::Destination
            && entry.destination.processing == Processing::Parallel
        {
            let call = |schema| self.complete_one(schema, entry, one);
            match self.in_schema(entry.partition, call).await {
                Err(StoreError::MoreKeys) => {}
                answer => return answer,
            }
        }
        let call = |schema| self.complete_in(schema, entry, completions);
        self.in_schema(entry.partition, call).await
    }

    /// Completes one message of a destination that is one lane.
    async fn complete_one(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        one: &Completion,
    ) -> Result<Vec<Status>, StoreError> {
        let record = match one.is_unchanged {
            true => Vec::new(),
            false => {
                let ordering = entry.destination.ordering;
                let written = record::of_stamped(&one.output, ordering, schema);
                if !written.bodies.is_empty() {
                    return Err(StoreError::MoreKeys);
                }
                written.record
            }
        };
        let call = self.short_complete(schema, entry, &one.token, &record);
        let exceptions = self.run(&call).await;
        self.statuses(entry, std::slice::from_ref(one), &[0], exceptions)
    }

    fn short_complete(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        token: &LeaseToken,
        record: &[u8],
    ) -> ScriptCall<'_> {
        let keys = self.keys().destination(&entry.destination.name);
        let mut call = self.call(|scripts| &scripts.complete);
        call.key(keys.hash()).key(keys.messages()).key(keys.attempts());
        call.key(keys.partition.leases()).key(keys.partition.releasable());
        call.key(keys.partition.wake_releasable()).key(keys.partition.epoch());
        call.key(keys.in_progress(None)).key(keys.ready(None));
        call.arg(entry.destination.name.as_str()).arg(schema).arg(token.sequence);
        call.arg(token.member()).arg(record);
        call
    }

    async fn complete_in(
        &self,
        schema: u32,
        entry: &CatalogEntry,
        completions: &[Completion],
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        // The script expects them in the order of their sequences.
        let mut order: Vec<usize> = (0..completions.len()).collect();
        order.sort_by_key(|&which| completions[which].token.sequence);
        let sorted = || order.iter().map(|&which| &completions[which]);
        let mut lanes: Vec<Option<&str>> = Vec::new();
        let mut index = HashMap::new();
        let lane_of: Vec<usize> = sorted()
            .map(|completion| {
                let lane = entry.destination.lane_key(completion.token.key.as_deref());
                *index.entry(lane).or_insert_with(|| {
                    lanes.push(lane);
                    lanes.len()
                })
            })
            .collect();

        let mut call = self.call(|scripts| &scripts.complete);
        call.key(keys.hash()).key(keys.messages());
        call.key(keys.attempts()).key(keys.partition.leases()).key(keys.partition.releasable());
        call.key(keys.lanes()).key(keys.partition.wake_releasable());
        call.key(keys.waiting()).key(keys.partition.delayed());
        call.key(keys.partition.active(Claimers::Builtin));
        call.key(keys.partition.active(Claimers::Worker)).key(keys.partition.wake_waiting());
        call.key(keys.partition.epoch()).key(keys.bodies());
        for lane in &lanes {
            call.key(keys.in_progress(*lane)).key(keys.ready(*lane));
        }
        call.arg(entry.destination.name.as_str());
        call.arg(lanes.len()).arg(schema).arg(completions.len());
        for lane in &lanes {
            call.arg(lane.unwrap_or_default());
        }
        for completion in sorted() {
            call.arg(completion.token.sequence);
        }
        for completion in sorted() {
            call.arg(completion.token.member());
        }
        let mut bodies = Vec::new();
        for (which, Completion { output, is_unchanged, .. }) in (1_usize..).zip(sorted()) {
            if *is_unchanged {
                call.arg("");
                continue;
            }
            let written = record::of_stamped(output, entry.destination.ordering, schema);
            call.arg(written.record);
            bodies.extend(written.bodies.into_iter().map(|(part, body)| (which, part, body)));
        }
        if lanes.len() > 1 {
            for lane in lane_of {
                call.arg(lane);
            }
        }
        for (which, part, body) in bodies {
            call.arg(which).arg(part.suffix()).arg(body.as_deref().unwrap_or_default());
        }
        call.of_messages(completions.len());
        let exceptions = self.run(&call).await;
        self.statuses(entry, completions, &order, exceptions)
    }

    /// The status of each completion. `order`: which completion each message of the call was.
    fn statuses(
        &self,
        entry: &CatalogEntry,
        completions: &[Completion],
        order: &[usize],
        exceptions: Result<Vec<(usize, Status)>, StoreError>,
    ) -> Result<Vec<Status>, StoreError> {
        let keys = self.keys().destination(&entry.destination.name);
        let damaged = exceptions.iter().flatten().filter(|(_, status)| *status == Status::Damaged);
        let mut damaged_keys = BTreeSet::new();
        for (which, _) in damaged {
            let at = order.get(usize::wrapping_sub(*which, 1)).copied();
            let Some(one) = at.and_then(|at| completions.get(at)) else { continue };
            let lane = entry.destination.lane_key(one.token.key.as_deref());
            damaged_keys.extend([keys.in_progress(lane), keys.ready(lane), keys.bodies()]);
        }
        if !damaged_keys.is_empty() {
            self.note_damaged_keys(entry, "complete", damaged_keys.into_iter().collect());
            if planted::is("damaged_lane_fails_all") {
                return Err(StoreError::Failed("one of the lanes is damaged".into()));
            }
        }
        let mut statuses = vec![Status::Ok; completions.len()];
        for (which, status) in exceptions? {
            let at = order.get(usize::wrapping_sub(which, 1));
            statuses[*at.ok_or_else(|| unexpected("complete"))?] = status;
        }
        Ok(statuses)
    }
}
