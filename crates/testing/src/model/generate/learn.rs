//! Remembers answers for the callers.

use super::{
    super::{
        op::{CatalogEntry, Deadline, Gone, Op, Reply, Token},
        state::State,
    },
    CallSequences,
};

/// The most expired tokens to remember.
const OLD_TOKENS: usize = 12;

impl CallSequences {
    /// Remembers an answer, and the current definitions.
    pub fn learn(&mut self, op: &Op, reply: &Reply, state: &State) {
        if let Some(call) = op.call().filter(|_| !matches!(reply, Reply::Refused(_))) {
            self.last.insert(call.caller, op.clone());
        }
        for (name, destination) in &state.destinations {
            let (version, definition) = (destination.version, destination.definition);
            let all = self.known.entry(name).or_default();
            if all.iter().all(|other| other.version != version) {
                all.push(CatalogEntry { name, version, definition });
            }
        }
        match (op, reply) {
            (Op::Claim { call, known, .. }, Reply::Claimed(given))
            | (Op::Ingest { call, known, .. }, Reply::Ingested(_, given)) => {
                let all = self.tokens.entry(known.name).or_default();
                for message in given {
                    let key = known.definition.set_of(message.key);
                    let token = Token { sequence: message.sequence, secret: call.secret(), key };
                    if !all.contains(&token) {
                        all.push(token);
                    }
                }
                let old = all.len().saturating_sub(OLD_TOKENS);
                all.drain(..old);
            }
            (Op::Release { known, lanes, .. }, Reply::Runs { runs, .. }) => {
                for (request, run) in lanes.iter().zip(runs) {
                    let hand = self.in_hand.entry((known.name, request.lane)).or_default();
                    hand.retain(|one| {
                        one.sequence > request.settled_to && one.sequence <= request.held_upto
                    });
                    hand.extend(run.messages.iter().map(Gone::of));
                }
            }
            // The owner no longer holds a lane whose head was halted or withdrawn.
            (Op::Halt { refused }, Reply::Done) => {
                self.in_hand.remove(&(refused.known.name, refused.lane));
            }
            (Op::Withdraw { who: Some(_), known, messages, .. }, Reply::Withdrawn(_)) => {
                for (lane, _) in messages {
                    self.in_hand.remove(&(known.name, *lane));
                }
            }
            // A new owner holds nothing yet.
            (Op::AcquirePartition { who }, Reply::Owned { .. }) if *who != self.owner => {
                self.owner = *who;
                self.in_hand.clear();
            }
            (Op::ResignPartition { who, .. }, Reply::Resigned { was_owned: true, .. })
                if *who == self.owner =>
            {
                self.in_hand.clear();
            }
            // A new partition lease does not inherit the messages of the last one.
            (Op::Pass(Deadline::Owner), _) => self.in_hand.clear(),
            (Op::Remove { name, .. } | Op::EndRemove { name }, Reply::Removed { .. }) => {
                self.in_hand.retain(|(of, _), _| of != name);
            }
            _ => {}
        }
    }
}
