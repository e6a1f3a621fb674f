//! The copies of the messages of one request, by destination, on their way to be submitted.

use std::{collections::HashMap, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{
    Committer, MemoryPermit, Outcome, Refusal, Session,
    commit::Pending,
    draft::{Draft, Prepared},
    recipients::id_of_key,
};
use domain::{Arrival, DestinationName};
use store::CatalogEntry;

/// The copies for one destination, in order.
pub(super) struct Copies<'a> {
    name: &'a DestinationName,
    /// Which messages of the request they are of.
    messages: Vec<(usize, &'a Draft)>,
    /// An error if none can be submitted.
    entry: Result<Arc<CatalogEntry>, Refusal>,
    copies: Vec<Result<Arrival, Refusal>>,
    session: Session,
}

/// The outcomes of the copies for one destination.
pub(super) struct Stored<'a> {
    pub(super) name: &'a DestinationName,
    /// Which messages of the request they are of.
    pub(super) messages: Vec<usize>,
    pub(super) outcomes: Vec<Outcome>,
}

impl<'a> Copies<'a> {
    /// The copies of these messages, each with its index in the request.
    pub(super) async fn of(
        committer: &Committer,
        name: &'a DestinationName,
        messages: Vec<(usize, &'a Draft)>,
        session: Session,
    ) -> Copies<'a> {
        let entry = committer.find(name).await;
        let copies = match &entry {
            Ok(entry) => {
                let copy = |(_, draft): &(usize, &Draft)| draft.copy_for(&entry.destination);
                messages.iter().map(copy).collect()
            }
            Err(refusal) => vec![Err(refusal.clone()); messages.len()],
        };
        Copies { name, messages, entry, copies, session }
    }

    /// True if the destination finds keys in its messages.
    pub(super) fn may_lack_keys(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.destination.has_key_sources())
    }

    /// Finds the keys that the producer did not give. May take as long as an expression may.
    pub(super) async fn find_keys(&mut self, committer: &Committer, stop: &CancellationToken) {
        let Some(entry) = self.entry.as_ref().ok().filter(|_| self.may_lack_keys()) else { return };
        let copies = std::mem::take(&mut self.copies);
        if self.session.has_failed() {
            self.copies = vec![Err(Refusal::Aborted); copies.len()];
            return;
        }
        let prepared = copies.into_iter().zip(&self.messages).map(|(copy, (_, draft))| Prepared {
            copy,
            request: draft.request.as_ref(),
            is_id_final: draft.is_id_final,
        });
        self.copies = committer.keys().find_all(prepared.collect(), &entry.destination, stop).await;
    }

    fn bytes(&self) -> usize {
        self.copies.iter().flatten().map(|copy| copy.message.body.bytes.len()).sum()
    }

    async fn submit(self, committer: &Committer, room: MemoryPermit) -> (Stored<'a>, Pending) {
        let Copies { name, messages, entry, copies, session } = self;
        let entry = entry.as_deref().map_err(Refusal::clone);
        let pending = committer.submit_copies(entry, copies, &session, room).await;
        let messages = messages.into_iter().map(|(at, _)| at).collect();
        (Stored { name, messages, outcomes: Vec::new() }, pending)
    }
}

/// Submits all copies of a request, and waits for their outcomes: those for one destination, whose memory the
/// request has (`room`), and at the same time those for as many others as there is memory for; then the next ones.
pub(super) async fn submit_all<'a>(
    all: Vec<Copies<'a>>,
    committer: &Committer,
    room: &MemoryPermit,
) -> Vec<Stored<'a>> {
    let mut stored = Vec::with_capacity(all.len());
    let mut all = all.into_iter().peekable();
    while let Some(first) = all.next() {
        let mut submitted = vec![first.submit(committer, room.clone()).await];
        // Waiting for memory while holding some could last for ever.
        while let Some(copies) = all.peek()
            && let Some(permit) = committer.memory().try_take(copies.bytes())
            && let Some(next) = all.next()
        {
            submitted.push(next.submit(committer, permit).await);
        }
        for (some, pending) in submitted {
            stored.push(Stored { outcomes: pending.outcomes().await, ..some });
        }
    }
    stored
}

/// Gives all copies of a message the same id, if it follows from an idempotency key that was found
/// in the message. Returns these ids, by the index of the message.
pub(super) fn settle_ids(all: &mut [Copies<'_>]) -> HashMap<usize, String> {
    let mut ids = HashMap::new();
    // Destinations may find different keys: the first by name decides, also in a retry.
    let mut by_name: Vec<&Copies> = all.iter().collect();
    by_name.sort_by_key(|copies| copies.name);
    for copies in by_name {
        for ((at, draft), copy) in copies.messages.iter().zip(&copies.copies) {
            if let (false, Ok(copy)) = (draft.is_id_final, copy)
                && let Some(key) = &copy.idempotency_key
            {
                ids.entry(*at).or_insert_with(|| id_of_key(key, &copy.message.body.bytes));
            }
        }
    }
    for copies in all {
        for ((at, _), copy) in copies.messages.iter().zip(&mut copies.copies) {
            if let (Some(id), Ok(copy)) = (ids.get(at), copy) {
                copy.message.id.clone_from(id);
            }
        }
    }
    ids
}
