//! The reference model of lanes whose messages consumers take.

use std::collections::BTreeMap;

/// The owner reads this many messages behind the accepted ones, to find tombstones.
const BEHIND_MAX: usize = 32;

/// The state of a pending message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stand {
    Waiting,
    Ready,
    /// Ready, with a pending withdrawal.
    Withdrawing,
    Halted,
    Tombstone,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) secret: String,
    pub(super) epoch: u64,
    pub(super) leased: u64,
    pub(super) is_shared: bool,
    pub(super) is_over: bool,
}

/// When the owner must read a lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Look {
    #[default]
    Never,
    Now,
    WhenItEnds,
}

/// The data in Redis about the consumers of a lane.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) accepted: u64,
    pub(super) lease: Option<Lease>,
    /// The message, and whether its lease expired.
    pub(super) refusal: Option<(u64, bool)>,
    /// The most messages of the next lease, and the message until whose accept this limit applies.
    pub(super) most: Option<(u64, u64)>,
    pub(super) look: Look,
}

impl Entry {
    fn has_consumer(&self) -> bool {
        self.lease.as_ref().is_some_and(|lease| !lease.is_over)
    }

    fn holds(&self, sequence: u64) -> bool {
        let covers = |lease: &Lease| sequence > self.accepted && sequence <= lease.leased;
        self.lease.as_ref().is_some_and(covers)
    }

    fn accept(&mut self, upto: u64) {
        self.accepted = self.accepted.max(upto);
        self.most = self.most.filter(|(_, suspects)| self.accepted < *suspects);
    }
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) epoch: u64,
    /// True while leases that Redis lost may still last.
    pub(super) waits: bool,
    /// The messages that have not left, by lane.
    pub(super) pending: BTreeMap<&'static str, BTreeMap<u64, Stand>>,
    pub(super) entries: BTreeMap<&'static str, Entry>,
    /// The heads whose backoff is not over.
    pub(super) postponed: BTreeMap<&'static str, u64>,
}

/// The messages that an owner got of a lane, and the message that a consumer did not accept.
pub(super) type Run = (Vec<u64>, Option<u64>);

impl Model {
    /// The processed messages behind a sequence, without a gap, at most this many.
    fn run(&self, lane: &str, after: u64, most: usize) -> Vec<(u64, Stand)> {
        let behind = self.pending[lane].range(after + 1..);
        let ready = behind.take_while(|(_, stand)| **stand != Stand::Waiting).take(most);
        ready.map(|(sequence, stand)| (*sequence, *stand)).collect()
    }

    /// True while the head of a lane is in backoff.
    pub(super) fn is_postponed(&self, lane: &str) -> bool {
        let head = self.pending[lane].iter().next();
        let head = head.filter(|(_, stand)| **stand != Stand::Tombstone);
        head.is_some_and(|(sequence, _)| self.postponed.get(lane) == Some(sequence))
    }

    pub(super) fn consume(
        &mut self,
        secret: &str,
        most: usize,
        lanes: &[&'static str],
    ) -> Vec<(String, u64)> {
        let (mut taken, mut leased, mut left) = (Vec::new(), Vec::new(), most);
        for &lane in lanes.iter().filter(|_| !self.waits) {
            let entry = self.entries.entry(lane).or_default().clone();
            if left == 0 {
                break;
            }
            if entry.has_consumer()
                || (entry.most.is_some()
                    && !leased.is_empty()
                    && entry.lease.is_none()
                    && entry.refusal.is_none())
            {
                continue;
            }
            if entry.lease.is_some() || entry.refusal.is_some() {
                self.entries.get_mut(lane).unwrap().look = Look::Now;
                continue;
            }
            if self.is_postponed(lane) {
                continue;
            }
            let run =
                self.run(lane, entry.accepted, left.min(entry.most.map_or(left, |m| m.0 as usize)));
            let is_open =
                |(_, stand): &&(u64, Stand)| matches!(stand, Stand::Ready | Stand::Tombstone);
            let front: Vec<_> = run.iter().take_while(is_open).collect();
            let ready: Vec<u64> =
                front.iter().filter(|one| one.1 == Stand::Ready).map(|one| one.0).collect();
            let stopped_by = run.get(front.len()).map(|one| one.1);
            let entry = self.entries.get_mut(lane).unwrap();
            match ready.last() {
                Some(last) => {
                    let epoch = self.epoch;
                    entry.lease = Some(Lease {
                        secret: secret.into(),
                        epoch,
                        leased: *last,
                        is_shared: false,
                        is_over: false,
                    });
                    entry.look = Look::WhenItEnds;
                    left -= ready.len();
                    taken.extend(ready.iter().map(|one| (lane.to_owned(), *one)));
                    leased.push(lane);
                    if entry.most.is_some() {
                        break;
                    }
                }
                // The owner must handle a tombstone or a withdrawal.
                None if !run.is_empty() && stopped_by != Some(Stand::Halted) => {
                    entry.look = Look::Now
                }
                None => {}
            }
        }
        for lane in &leased {
            let lease = self.entries.get_mut(lane).unwrap().lease.as_mut().unwrap();
            lease.is_shared = leased.len() > 1;
        }
        taken
    }

    pub(super) fn acknowledge(
        &mut self,
        what: &str,
        lane: &'static str,
        secret: &str,
        sequence: u64,
    ) -> &'static str {
        let epoch = self.epoch;
        let entry = self.entries.entry(lane).or_default();
        let is_his = entry
            .lease
            .as_ref()
            .is_some_and(|lease| lease.secret == secret && lease.epoch == epoch && !lease.is_over);
        if !is_his || !entry.holds(sequence) {
            let is_gone = !self.pending.values().any(|all| all.contains_key(&sequence));
            return if sequence <= entry.accepted || is_gone { "settled" } else { "stale_lease" };
        }
        match what {
            "accept" => {
                entry.accept(sequence);
                entry.lease = entry.lease.take().filter(|lease| entry.accepted < lease.leased);
                entry.look = Look::Now;
            }
            "refuse" => {
                entry.accept(sequence - 1);
                (entry.lease, entry.refusal, entry.look) =
                    (None, Some((sequence, false)), Look::Now);
            }
            "requeue" => (entry.lease, entry.look) = (None, Look::Now),
            _ => {}
        }
        "ok"
    }

    /// The owner asks for at most this many messages of a lane.
    pub(super) fn look(&mut self, lane: &'static str, most: usize) -> Run {
        let mut entry = self.entries.get(lane).cloned().unwrap_or_default();
        let behind = self.accepted_of(lane, &entry) + BEHIND_MAX;
        let run = self.run(lane, 0, most.min(behind));
        let run: Vec<_> = run.into_iter().take_while(|one| one.1 != Stand::Halted).collect();
        let is_done = |(sequence, _): &&(u64, Stand)| *sequence <= entry.accepted;
        let mut count = run.iter().take_while(is_done).count();
        count += run[count..].iter().take_while(|one| one.1 == Stand::Tombstone).count();
        let next = run.get(count).map(|one| one.0);
        if let Some(lease) = entry.lease.take_if(|lease| lease.is_over)
            && let Some(next) = next
            && lease.epoch == self.epoch
        {
            let left = self.pending[lane]
                .range(entry.accepted + 1..=lease.leased.max(entry.accepted))
                .count() as u64;
            if left > 0 {
                if left == 1 && !lease.is_shared {
                    entry.refusal = Some((next, true));
                }
                entry.most = Some(((left / 2).max(1), lease.leased));
            }
        }
        // A refused message may be behind more accepted messages than the owner read.
        let last = run.last().map_or(0, |one| one.0);
        let is_behind = |sequence| sequence > last && self.pending[lane].contains_key(&sequence);
        entry.refusal = entry.refusal.filter(|(sequence, _)| match next {
            Some(next) => *sequence == next,
            None => is_behind(*sequence),
        });
        let refused = entry.refusal.map(|(sequence, _)| sequence);
        count += usize::from(next.is_some() && refused.is_some());
        let run: Vec<u64> = run[..count].iter().map(|one| one.0).collect();
        self.keep(lane, entry, !run.is_empty());
        (run, refused)
    }

    fn accepted_of(&self, lane: &str, entry: &Entry) -> usize {
        self.pending[lane].range(..=entry.accepted).count()
    }

    fn keep(&mut self, lane: &'static str, mut entry: Entry, has_run: bool) {
        let is_settled = self.accepted_of(lane, &entry) == 0;
        if is_settled && entry.lease.is_none() {
            entry.accepted = 0;
        }
        entry.look = match () {
            () if !is_settled || entry.refusal.is_some() || has_run => Look::Now,
            () if entry.lease.is_some() => Look::WhenItEnds,
            () => Look::Never,
        };
        self.entries.insert(lane, entry);
    }

    pub(super) fn settle(&mut self, lane: &'static str, upto: u64) {
        let all = self.pending.get_mut(lane).unwrap();
        let is_gone = |sequence: &u64, stand: &Stand| *sequence <= upto && *stand != Stand::Waiting;
        let gone = all.iter().filter(|(sequence, stand)| is_gone(sequence, stand));
        let gone = gone.map(|(sequence, _)| *sequence).max();
        all.retain(|sequence, stand| !is_gone(sequence, stand));
        let mut entry = self.entries.get(lane).cloned().unwrap_or_default();
        entry.most = entry.most.filter(|(_, suspects)| gone.is_none_or(|gone| gone < *suspects));
        self.keep(lane, entry, false);
    }

    /// The owner withdraws a message, or an operator requests it.
    pub(super) fn withdraw(
        &mut self,
        lane: &'static str,
        sequence: u64,
        is_owner: bool,
    ) -> &'static str {
        let entry = self.entries.entry(lane).or_default();
        let all = self.pending.get_mut(lane).unwrap();
        let is_head = all.keys().next() == Some(&sequence);
        let Some(stand) = all.get_mut(&sequence) else { return "settled" };
        match stand {
            Stand::Tombstone => return "settled",
            Stand::Ready | Stand::Withdrawing if !is_owner => *stand = Stand::Withdrawing,
            Stand::Ready | Stand::Withdrawing if sequence <= entry.accepted => {
                *stand = Stand::Ready;
                return "settled";
            }
            Stand::Ready | Stand::Withdrawing if entry.has_consumer() && entry.holds(sequence) => {
                *stand = Stand::Withdrawing;
            }
            _ => {
                *stand = Stand::Tombstone;
                if is_head {
                    entry.look = Look::Now;
                }
                return "done";
            }
        }
        "withdrawing"
    }
}
