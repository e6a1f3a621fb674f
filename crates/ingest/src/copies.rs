//! The copies that one request submits, grouped by destination.

use std::{collections::HashMap, mem, sync::Arc};

use tokio_util::sync::CancellationToken;

use super::{
    Committer, Draft, MemoryPermit, Outcome, Refusal, Session,
    commit::{CopyResult, Pending},
    recipients::id_of_key,
};
use domain::DestinationName;
use store::CatalogEntry;

/// The copies for one destination, in order.
pub(super) struct Copies<'a> {
    pub(super) name: &'a DestinationName,
    /// The messages, each with its index in the request.
    pub(super) messages: Vec<(usize, &'a Draft)>,
    /// An error if the destination accepts no copies now.
    entry: Result<Arc<CatalogEntry>, Refusal>,
    copies: Vec<CopyResult>,
    session: Session,
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
        let copy = |(_, draft): &(usize, &Draft)| match &entry {
            Ok(entry) => draft.copy_for(&entry.destination),
            Err(refusal) => Err(refusal.clone()),
        };
        let copies = messages.iter().map(copy).collect();
        Copies { name, messages, entry, copies, session }
    }

    /// True if the destination finds keys in its messages.
    pub(super) fn may_lack_keys(&self) -> bool {
        self.entry.as_ref().is_ok_and(|entry| entry.destination.has_key_sources())
    }

    /// Finds the keys that the producer did not give. May last as long as the time limit of an expression.
    pub(super) async fn find_keys(&mut self, committer: &Committer, stop: &CancellationToken) {
        let Some(entry) = self.entry.as_ref().ok().filter(|_| self.may_lack_keys()) else { return };
        let copies = mem::take(&mut self.copies);
        if self.session.has_failed() {
            self.copies = vec![Err(Refusal::Aborted); copies.len()];
            return;
        }
        let drafts = self.messages.iter().map(|(_, draft)| Some(*draft));
        let copies = copies.into_iter().zip(drafts).collect();
        self.copies = committer.keys().find_all(copies, &entry.destination, stop).await;
    }

    fn bytes(&self) -> usize {
        self.copies.iter().flatten().map(|copy| copy.message.body.bytes.len()).sum()
    }

    async fn submit(&mut self, committer: &Committer, room: MemoryPermit) -> Pending {
        let copies = mem::take(&mut self.copies);
        committer.submit(&self.entry, copies, &self.session, room).await
    }
}

/// Submits all copies of a request, and waits for their outcomes. Each round submits the copies for one destination, in
/// the memory of the request (`room`), and for as many others as there is memory for. Returns the outcomes for each
/// destination, in order.
pub(super) async fn submit_all(
    all: &mut [Copies<'_>],
    committer: &Committer,
    room: &MemoryPermit,
) -> Vec<Vec<Outcome>> {
    let mut outcomes = Vec::with_capacity(all.len());
    let mut all = all.iter_mut().peekable();
    while let Some(first) = all.next() {
        let mut submitted = vec![first.submit(committer, room.clone()).await];
        // Does not wait for more memory here: requests that hold memory while they wait could block each other for
        // ever.
        while let Some(copies) = all.peek()
            && let Some(permit) = committer.memory().try_take(copies.bytes())
            && let Some(next) = all.next()
        {
            submitted.push(next.submit(committer, permit).await);
        }
        for pending in submitted {
            outcomes.push(pending.outcomes().await);
        }
    }
    outcomes
}

/// Gives all copies of a message the same id, if the id is derived from an idempotency key that was found
/// in the message. Returns these ids, by the index of the message.
pub(super) fn settle_ids(all: &mut [Copies<'_>]) -> HashMap<usize, String> {
    let mut ids = HashMap::new();
    // Destinations may find different keys. The key of the first destination by name decides, also in a retry.
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
