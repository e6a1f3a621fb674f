//! The reference model of what is offered to consumers.

use std::collections::{BTreeMap, BTreeSet};

use super::LANES;

/// A lane's offer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) epoch: u64,
    /// The secret of its consumer, and whether the lease has expired.
    pub(super) lease: Option<(String, bool)>,
    pub(super) leased: usize,
    pub(super) accepted: usize,
    pub(super) is_refused: bool,
    pub(super) sequences: Vec<u64>,
}

impl Offer {
    pub(super) fn is_held(&self) -> bool {
        self.lease.as_ref().is_some_and(|(_, is_over)| !is_over)
    }

    pub(super) fn left(&self) -> &[u64] {
        &self.sequences[self.accepted..]
    }

    /// Its consumer has it no longer.
    pub(super) fn free(&mut self) {
        (self.lease, self.leased) = (None, self.accepted);
    }
}

#[derive(Debug, Default)]
pub(super) struct Model {
    pub(super) epoch: u64,
    /// True while leases that Redis forgot may last.
    pub(super) waits: bool,
    /// The messages that have not left, by lane.
    pub(super) pending: BTreeMap<&'static str, Vec<u64>>,
    pub(super) offers: BTreeMap<&'static str, Offer>,
    pub(super) offered: BTreeSet<&'static str>,
}

impl Model {
    pub(super) fn start(&mut self, lane: &'static str, sequences: &[u64]) -> String {
        let sequences = sequences.to_vec();
        let offer = Offer {
            epoch: self.epoch,
            lease: None,
            leased: 0,
            accepted: 0,
            is_refused: false,
            sequences,
        };
        self.offers.insert(lane, offer);
        self.offered.insert(lane);
        "offered".to_owned()
    }

    fn forget(&mut self, lane: &str) {
        self.offers.remove(lane);
        self.offered.remove(lane);
    }

    /// What became of an offer that is over.
    fn outcome(&mut self, lane: &str, accepted: usize) -> Option<String> {
        let offer = self.offers.get(lane)?;
        let (is_over, all) = (offer.lease.is_some(), offer.sequences.len());
        let outcome = match offer.is_refused {
            true => format!("refused {accepted}"),
            false if offer.accepted == all => format!("accepted {accepted}"),
            false if is_over && !offer.is_held() => format!("expired {accepted}"),
            false => return None,
        };
        self.forget(lane);
        Some(outcome)
    }

    pub(super) fn put(&mut self, lane: &'static str, sequences: &[u64]) -> String {
        if let Some(offer) = self.offers.get(lane)
            && offer.epoch != self.epoch
        {
            if offer.is_held() {
                return "wait".to_owned();
            }
            self.forget(lane);
        }
        if self.waits {
            return "wait".to_owned();
        }
        let Some(offer) = self.offers.get(lane) else { return self.start(lane, sequences) };
        let done = &offer.sequences[..offer.accepted];
        let accepted = sequences.iter().take_while(|one| Some(*one) <= done.last()).count();
        if accepted == 0 && offer.left().first() != sequences.first() {
            return self.start(lane, sequences);
        }
        if let Some(outcome) = self.outcome(lane, accepted) {
            return outcome;
        }
        if accepted > 0 {
            return format!("accepted {accepted}");
        }
        if !self.offers[lane].is_held() {
            return self.start(lane, sequences);
        }
        if let Some(offer) = self.offers.get_mut(lane) {
            offer.leased = (offer.leased - offer.accepted).min(sequences.len());
            (offer.accepted, offer.sequences) = (0, sequences.to_vec());
        }
        "leased 0".to_owned()
    }

    pub(super) fn look(&mut self, lane: &'static str, is_recalled: bool) -> String {
        let Some(accepted) = self.offers.get(lane).map(|offer| offer.accepted) else {
            return "gone".to_owned();
        };
        if let Some(outcome) = self.outcome(lane, accepted) {
            return outcome;
        }
        if self.offers[lane].is_held() {
            return format!("leased {accepted}");
        }
        if is_recalled {
            self.forget(lane);
        }
        if is_recalled || accepted > 0 { format!("accepted {accepted}") } else { "offered".into() }
    }

    /// Takes what Redis leased, if it may.
    pub(super) fn lease(
        &mut self,
        secret: &str,
        most: usize,
        taken: &[(String, u64)],
        still_offered: &BTreeSet<&'static str>,
    ) -> Result<(), String> {
        let (mut free, mut stale) = (0, Vec::new());
        for lane in &self.offered {
            match self.offers.get(lane) {
                Some(offer) if offer.epoch == self.epoch => free += offer.left().len(),
                _ => stale.push(*lane),
            }
        }
        if taken.len() != free.min(most) {
            return Err(format!("{} of {free} were leased, {most} at most", taken.len()));
        }
        let mut by_lane: BTreeMap<&'static str, Vec<u64>> = BTreeMap::new();
        for (lane, sequence) in taken {
            let lane = LANES.into_iter().find(|one| *one == lane.as_str());
            let lane = lane.ok_or("an unknown lane")?;
            by_lane.entry(lane).or_default().push(*sequence);
        }
        for (lane, sequences) in &by_lane {
            let offer = self.offers.get_mut(lane).ok_or("there is no offer")?;
            let is_free = self.offered.remove(lane) && offer.epoch == self.epoch;
            if !is_free || !offer.left().starts_with(sequences) {
                return Err(format!("{sequences:?} of {lane} were leased: {offer:?}"));
            }
            offer.lease = Some((secret.to_owned(), false));
            offer.leased = offer.accepted + sequences.len();
        }
        // Their owner offers them again. The script drops those that it comes past.
        stale.retain(|lane| taken.len() < most || !still_offered.contains(lane));
        for lane in stale {
            self.offered.remove(lane);
        }
        Ok(())
    }

    pub(super) fn acknowledge(
        &mut self,
        what: &str,
        lane: &'static str,
        secret: &str,
        sequence: u64,
    ) -> &'static str {
        let epoch = self.epoch;
        let offer = self.offers.get_mut(lane);
        let at = offer.as_ref().and_then(|offer| {
            let is_his = offer.lease.as_ref().is_some_and(|(held, _)| held == secret);
            let at = offer.left().iter().position(|one| *one == sequence)?;
            let at = offer.accepted + at + 1;
            (is_his && offer.is_held() && offer.epoch == epoch && at <= offer.leased).then_some(at)
        });
        match (offer, at) {
            (Some(offer), Some(at)) => {
                match what {
                    "accept" => offer.accepted = at,
                    "refuse" => (offer.accepted, offer.is_refused) = (at - 1, true),
                    _ => {}
                }
                if what != "extend" && (what != "accept" || at == offer.leased) {
                    offer.free();
                    if !offer.is_refused && offer.accepted < offer.sequences.len() {
                        self.offered.insert(lane);
                    }
                }
                "ok"
            }
            (Some(offer), None)
                if offer.accepted > 0 && sequence <= offer.sequences[offer.accepted - 1] =>
            {
                "settled"
            }
            _ if self.pending.values().any(|all| all.contains(&sequence)) => "stale_lease",
            _ => "settled",
        }
    }

    /// The owner withdraws a message that it does not deliver.
    pub(super) fn withdraw(&mut self, lane: &'static str, sequence: u64) -> &'static str {
        let Some(offer) = self.offers.get(lane) else { return "done" };
        if offer.epoch == self.epoch && offer.sequences[..offer.accepted].contains(&sequence) {
            return "settled";
        }
        match (offer.left().contains(&sequence), offer.is_held()) {
            (false, _) => "done",
            (true, true) => "withdrawing",
            (true, false) => {
                self.forget(lane);
                "done"
            }
        }
    }

    pub(super) fn leave(&mut self, lane: &str, gone: impl Fn(&u64) -> bool) {
        if let Some(pending) = self.pending.get_mut(lane) {
            pending.retain(|one| !gone(one));
        }
    }
}
