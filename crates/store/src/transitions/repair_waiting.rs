//! Compares the stored waiting messages with the messages that must wait. If they differ, stores the waiting messages
//! again (`lua/repair_waiting.lua`).

use bytes::Bytes;

use super::repair::{Bits, Repairing, lanes::PAGE, number};
use crate::{StoreError, contract::contract, keys::DestinationKeys};
use domain::{Ordering, Sequence};

contract! {
    repair_waiting
    keys(keys: &DestinationKeys) {
        epoch, destination: keys.hash(), waiting, withdrawn, messages, active_builtin, active_worker,
        wake_waiting, delayed,
    }
    args<'a> {
        destination: &'a str,
        version: u64,
        ordering: &'a str,
        is_first: bool,
    }
    lists {
        sequences: u64,
    }
}

impl Repairing<'_> {
    /// Stores the messages that must wait, if other messages are stored as waiting. `last` is the last sequence that
    /// was stamped when the pass began.
    pub(super) async fn check_waiting(&mut self, last: Sequence) -> Result<(), StoreError> {
        let (mut stored, mut differs, mut at) = (Bits::default(), false, Some(0));
        while let Some(from) = at {
            let (page, next) = self.waiting_page(from).await?;
            for member in page {
                if number(&member).is_none_or(|sequence| !stored.insert(sequence)) {
                    let text = String::from_utf8_lossy(&member).into_owned();
                    self.note("left_over", text, !self.dry_run);
                    differs = true;
                }
            }
            at = next;
        }
        // A stored message that had a lease may wait if the lease has ended since.
        let may_be_leased = stored.all().any(|sequence| self.pass.leased.has(sequence));
        let leases = if may_be_leased { self.leases().await? } else { Vec::new() };
        let leased = Bits::of(leases.into_iter().map(|(sequence, _)| sequence));
        for sequence in stored.all() {
            let is_leased = leased.has(sequence);
            let waits = self.pass.waiting.has(sequence);
            if waits || !is_leased && self.may_wait(sequence, last).await? {
                continue;
            }
            differs = true;
            if !self.pass.damaged.has(sequence) {
                let kind = if self.pass.seen.has(sequence) { "twice" } else { "left_over" };
                self.note(kind, sequence.to_string(), !self.dry_run);
            }
        }
        let waiting = std::mem::take(&mut self.pass.waiting);
        for sequence in waiting.all().filter(|one| !stored.has(*one)) {
            differs = true;
            self.note("nowhere", sequence.to_string(), !self.dry_run);
        }
        if !differs || self.dry_run {
            return Ok(());
        }
        if self.store_waiting(&[], true).await? == 1 {
            self.note("hint", self.entry.destination.name.to_string(), true);
        }
        let mut all = waiting.all().peekable();
        while all.peek().is_some() {
            let some: Vec<Sequence> = all.by_ref().take(PAGE).collect();
            self.store_waiting(&some, false).await?;
        }
        self.pass.has_repaired = true;
        Ok(())
    }

    /// True if a stored message may stay although the pass did not find it waiting: it was withdrawn, its lease or
    /// delay has ended since, or it was redriven or replayed since.
    async fn may_wait(&mut self, sequence: Sequence, last: Sequence) -> Result<bool, StoreError> {
        self.begin()?;
        let member = format!("{}/{sequence}", self.entry.destination.name);
        let mut pipe = redis::pipe();
        pipe.sismember(self.keys.withdrawn(), sequence).zscore(self.keys.delayed(), member);
        pipe.hexists(self.keys.messages(), sequence);
        let (is_withdrawn, due, exists): (bool, Option<f64>, bool) =
            self.store.query(&pipe).await?;
        let is_due = due.is_none() && self.pass.delayed.has(sequence);
        let waits_now = exists && (is_due || self.pass.leased.has(sequence) || sequence > last);
        if waits_now {
            self.pass.waiting.insert(sequence);
        }
        Ok(is_withdrawn || waits_now)
    }

    /// Reads a page of the stored messages. Also returns where the next page begins. Reads a list from its end,
    /// because operators add messages at its front meanwhile.
    async fn waiting_page(&self, from: u64) -> Result<(Vec<Bytes>, Option<u64>), StoreError> {
        if self.entry.destination.ordering == Ordering::None {
            let mut cursor = from;
            let page: Vec<(Bytes, f64)> =
                self.scan("ZSCAN", &self.keys.waiting(), &mut cursor, PAGE).await?;
            let members = page.into_iter().map(|(member, _)| member).collect();
            return Ok((members, Some(cursor).filter(|cursor| *cursor > 0)));
        }
        let end = -1 - from as isize;
        let mut pipe = redis::pipe();
        pipe.lrange(self.keys.waiting(), end + 1 - PAGE as isize, end);
        let page: Vec<Bytes> = self.query(&pipe).await?;
        let next = (page.len() == PAGE).then_some(from + PAGE as u64);
        Ok((page, next))
    }

    async fn store_waiting(
        &self,
        sequences: &[Sequence],
        is_first: bool,
    ) -> Result<u64, StoreError> {
        self.begin()?;
        let keys = self.keys.clone();
        let call = Args {
            destination: self.entry.destination.name.as_str(),
            version: self.entry.version,
            ordering: self.entry.ordering_text(),
            is_first,
            sequences: sequences.to_vec(),
        }
        .call(self.store, &keys);
        self.store.run(&call).await
    }
}
