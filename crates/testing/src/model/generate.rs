//! Turns random numbers into sensible operations: mostly valid ones, sometimes stale, forged, late
//! or repeated.

mod learn;
mod pick;

use std::collections::BTreeMap;

use domain::{Ordering, Sequence, Tombstone, TransformKind};

use super::{
    draw::{CALLERS, Draw, Kind, Twist},
    op::{
        Call, CatalogEntry, Deadline, Extension, Failure, Gone, Harm, LaneRequest, Op, Output,
        Refused, Token,
    },
    state::{Definition, Lane, NAMES, Name, Stand, State, Until},
};
use pick::{arrival, deadline, deadlines, definition, lanes_of, nonempty, output};

const OWNERS: usize = 2;
const PAUSES: [&str; 5] = ["", "ingest", "delivery", "ingest,delivery", "processing"];

/// The memory of the callers.
#[derive(Debug, Default)]
pub struct CallSequences {
    numbers: [u64; CALLERS],
    /// Each caller's last numbered call.
    last: BTreeMap<usize, Op>,
    known: BTreeMap<Name, Vec<CatalogEntry>>,
    tokens: BTreeMap<Name, Vec<Token>>,
    /// The messages that the owner holds.
    in_hand: BTreeMap<(Name, Lane), Vec<Gone>>,
    /// The last caller that acquired the partition.
    owner: usize,
    /// Delivery attempts so far.
    attempts: u32,
}

/// True if the message is leased, and the lease has not expired.
fn is_leased(stand: &Stand) -> bool {
    matches!(stand, Stand::Leased { until: Until::Future, .. })
}

/// True if the message is leased, and the lease has expired.
fn is_over(stand: &Stand) -> bool {
    matches!(stand, Stand::Leased { until: Until::Past, .. })
}

fn is_waiting(stand: &Stand) -> bool {
    *stand == Stand::Waiting
}

impl CallSequences {
    /// The initial destinations, each of another kind.
    pub fn beginning() -> Vec<Op> {
        let plain = Definition {
            ordering: Ordering::Destination,
            serial: false,
            kind: TransformKind::Http,
            backlog_max: 12,
            backlog_bytes_max: 0,
            idempotency_keys_max: 1000,
            compares_keys: false,
            sources_max: 4,
            has_window: true,
            stalls_max: 2,
            log_max: 3,
            dead_letters_max: 0,
            letters_age: true,
            rate_burst: 0,
            gives_up: None,
            previous_keys_max: 2,
        };
        let (key, none) = (Ordering::Key, Ordering::None);
        let kinds = [
            Definition { dead_letters_max: 1, gives_up: Some(Tombstone::DeadLettered), ..plain },
            Definition {
                ordering: key,
                serial: true,
                has_window: false,
                gives_up: Some(Tombstone::Dropped),
                stalls_max: 1,
                rate_burst: 2,
                ..plain
            },
            Definition {
                kind: TransformKind::None,
                backlog_bytes_max: 60,
                idempotency_keys_max: 3,
                compares_keys: true,
                sources_max: 1,
                ..plain
            },
            Definition {
                ordering: none,
                kind: TransformKind::Worker,
                has_window: false,
                stalls_max: 0,
                rate_burst: 3,
                log_max: 0,
                ..plain
            },
        ];
        let define = |(name, definition)| Op::Define { name, definition };
        NAMES.into_iter().zip(kinds).map(define).chain([Op::AcquirePartition { who: 0 }]).collect()
    }

    /// The operation for a draw; `None` if the state has no object for it.
    pub fn resolve(&mut self, draw: &Draw, state: &State) -> Option<(Op, bool)> {
        let name = self.name_for(draw, state);
        let by_hand = [Kind::Restart, Kind::Pass, Kind::Damage, Kind::Repair];
        let by_script = !by_hand.contains(&draw.kind);
        let memory_full = draw.twist == Twist::MemoryFull && by_script;
        if let Some(op) = self.mend(draw, name, state) {
            return Some((op, memory_full));
        }
        let op = match draw.kind {
            Kind::Own => Op::AcquirePartition { who: self.someone(draw, state) },
            Kind::Disown => {
                let vouched = match draw.many[0].0 % 4 {
                    0 => None,
                    1 => Some(state.epoch.saturating_sub(1)),
                    _ => Some(state.epoch),
                };
                Op::ResignPartition { who: self.someone(draw, state), vouched }
            }
            Kind::Overdue => Op::Overdue,
            Kind::Restart if draw.many[0].0 < 64 => Op::LoseEpoch,
            Kind::Restart => Op::Restart,
            Kind::ScriptFlush => Op::ScriptFlush,
            Kind::Define => Op::Define { name, definition: definition(draw, name, state) },
            Kind::Pause => {
                Op::Pause { name, paused: PAUSES[draw.many[0].0 as usize % PAUSES.len()] }
            }
            Kind::BeginRemove => Op::BeginRemove { name },
            Kind::Remove => Op::Remove { name, purge: draw.many[0].0 < 160 },
            Kind::Pass => Op::Pass(deadline(draw, name, state)),
            Kind::Repeat => self.last.get(&draw.caller)?.clone(),
            Kind::Late => self.last.get(&draw.caller)?.clone().late(),
            Kind::Damage => pick::to_damage(draw, name, state)?,
            _ => self.about(draw, name, state)?,
        };
        Some((op, memory_full))
    }

    /// The drawn destination, or, for rare operations, one where they are possible.
    fn name_for(&self, draw: &Draw, state: &State) -> Name {
        let drawn = NAMES[draw.name];
        let has_hand = |name: Name| self.some_hand(draw, name).is_some();
        let mut rotated = NAMES.into_iter().cycle().skip(draw.name).take(NAMES.len());
        let found = match draw.kind {
            Kind::Retry => rotated.find(|name| pick::to_retry(draw, name, state).is_some()),
            Kind::Postpone | Kind::Halt => rotated.find(|name| has_hand(name)),
            Kind::Discard | Kind::Expire => rotated.find(|name| pick::has_letters(name, state)),
            Kind::GiveUp => rotated.find(|name| pick::has_halted(name, state)),
            Kind::Damage => rotated.find(|name| pick::to_damage(draw, name, state).is_some()),
            // Prefer leases of a message that has stalled before, so that it stalls again.
            Kind::Reap => {
                let stalled = |name: &Name| pick::stalled(name, state, is_leased).is_some();
                let over = rotated.clone().find(|name| pick::has(name, state, is_over));
                over.or_else(|| rotated.find(stalled))
            }
            Kind::Claim if !draw.many[0].2.is_multiple_of(4) => {
                rotated.find(|name| pick::stalled(name, state, is_waiting).is_some())
            }
            Kind::CarryOut => rotated.find(|name| pick::has_withdrawals(name, state)),
            _ => None,
        };
        found.unwrap_or(drawn)
    }

    /// Usually, an operation that prepares the drawn one for the next time.
    fn mend(&self, draw: &Draw, name: Name, state: &State) -> Option<Op> {
        if draw.many[0].2 < 56 || draw.twist != Twist::Nothing {
            return None;
        }
        let destination = state.destinations.get(name);
        let has_owner = matches!(state.owner, Some((_, Until::Future)));
        match draw.kind {
            Kind::Release | Kind::Postpone | Kind::Halt | Kind::CarryOut if !has_owner => {
                Some(Op::AcquirePartition { who: draw.caller % OWNERS })
            }
            Kind::Release if state.takeover_wait == Some(Until::Future) => {
                Some(Op::Pass(Deadline::TakeoverWait))
            }
            Kind::Release
                if draw.many[0].0 < 128
                    && destination.is_some_and(|d| d.lanes.values().any(|hint| !hint.is_due())) =>
            {
                Some(Op::Pass(Deadline::Postponed { name }))
            }
            // Often, the lease of a message that stalled before expires again.
            Kind::Reap | Kind::Complete | Kind::Fail | Kind::Requeue
                if draw.many[0].1 < 128
                    && !pick::has(name, state, is_over)
                    && pick::stalled(name, state, is_leased).is_some() =>
            {
                let sequence = pick::stalled(name, state, is_leased)?;
                Some(Op::Pass(Deadline::Lease { name, sequence }))
            }
            Kind::Reap if pick::has(name, state, is_over) => None,
            Kind::Reap => {
                let mut all = deadlines(name, state);
                all.retain(|one| {
                    !matches!(one, Deadline::Seen { .. } | Deadline::Postponed { .. })
                });
                let at = draw.many[0].0 as usize % all.len().max(1);
                all.get(at).filter(|_| draw.many[0].1 < 128).cloned().map(Op::Pass)
            }
            // Otherwise, few messages would be claimed.
            Kind::Claim
                if draw.many[0].1 < 160
                    && destination
                        .is_some_and(|d| (1..=d.granted).contains(&d.definition.rate_burst)) =>
            {
                Some(Op::Pass(Deadline::Rate { name }))
            }
            Kind::Expire => {
                let letters =
                    destination.map(|found| &found.letters).filter(|_| draw.many[0].1 < 160);
                let young = letters?.iter().find(|(_, letter)| !letter.is_old)?;
                Some(Op::Pass(Deadline::Letter { name, sequence: *young.0 }))
            }
            Kind::Ingest | Kind::Claim | Kind::Complete | Kind::Withdraw => match destination {
                None => Some(Op::Define { name, definition: definition(draw, name, state) }),
                Some(found) if found.deleted && draw.kind != Kind::Complete => {
                    Some(Op::EndRemove { name })
                }
                Some(_) => None,
            },
            _ => None,
        }
    }

    /// An operation by a caller that knows the destination.
    fn about(&mut self, draw: &Draw, name: Name, state: &State) -> Option<Op> {
        let all = self.known.get(name)?;
        let known = match draw.twist {
            Twist::StaleDefinition => all[draw.many[0].0 as usize % all.len()],
            _ => *all.last()?,
        };
        let epoch = match draw.kind {
            Kind::Ingest => state.carried(name),
            _ => state.epoch,
        };
        let epoch = epoch - u64::from(draw.twist == Twist::StaleEpoch);
        self.numbers[draw.caller] += 1;
        let call = Call { caller: draw.caller, number: 10 + self.numbers[draw.caller] };
        let who = self.someone(draw, state);
        match draw.kind {
            Kind::Ingest => {
                let arrivals = draw.many.iter().map(|pick| arrival(pick, name, state)).collect();
                let leases = draw.many[0].2.is_multiple_of(3);
                Some(Op::Ingest { call, known, epoch, arrivals, leases })
            }
            Kind::Claim => {
                let max = 1 + draw.many[0].0 as usize % 5;
                let min = if draw.many[0].1 < 40 { max } else { 1 };
                Some(Op::Claim { call, known, min, max })
            }
            // No message is leased: usually claim one first.
            Kind::Complete | Kind::Fail | Kind::Requeue | Kind::Extend
                if !pick::is_leased(name, state) && draw.many[0].2 >= 56 =>
            {
                Some(Op::Claim { call, known, min: 1, max: 3 })
            }
            Kind::Complete | Kind::Fail | Kind::Requeue | Kind::Extend => {
                self.end_of_lease(draw, call, known, state)
            }
            Kind::Reap => Some(Op::Reap { known }),
            Kind::Expire => known.definition.letters_age.then_some(Op::Expire { known }),
            Kind::GiveUp => Some(Op::GiveUp { known }),
            Kind::Repair => {
                let is_current = all.last().is_some_and(|last| last.version == known.version);
                let harm = if is_current { pick::harm(draw, name, state) } else { Harm::Nothing };
                Some(Op::Repair { known, harm })
            }
            Kind::Release => {
                Some(Op::Release { who, epoch, known, lanes: self.requests(draw, known, state)? })
            }
            Kind::Postpone | Kind::Halt => self.refused(draw, who, epoch, known, state),
            _ => self.operator(draw, who, known, state),
        }
    }

    fn end_of_lease(
        &self,
        draw: &Draw,
        call: Call,
        known: CatalogEntry,
        state: &State,
    ) -> Option<Op> {
        let name = known.name;
        let picked = draw.many.iter().filter_map(|pick| {
            let token = self.token(pick, name, state)?;
            Some((*pick, token))
        });
        let picked = nonempty(picked)?;
        let tokens = picked.iter().map(|(_, token)| token.clone()).collect();
        Some(match draw.kind {
            Kind::Complete => {
                let complete = |(pick, token): ((u8, u8, u8), Token)| -> (Token, Output) {
                    let output = output(&token, pick, name, state);
                    (token, output)
                };
                Op::Complete { known, items: picked.into_iter().map(complete).collect() }
            }
            Kind::Fail => {
                let fail = |(pick, mut token): ((u8, u8, u8), Token)| {
                    // A forged lane matters only after the last attempt.
                    if pick.2 % 16 == 3 {
                        token.key = pick::KEYS[pick.0 as usize % pick::KEYS.len()];
                    }
                    let wait = if pick.2 % 2 == 0 { Until::Past } else { Until::Future };
                    let wait = (pick.1 / 4 % 3 > 0).then_some(wait);
                    Failure { token, wait, is_later: pick.1 % 4 == 1 }
                };
                Op::Fail { call, known, items: picked.into_iter().map(fail).collect() }
            }
            Kind::Requeue => Op::Requeue { call, known, tokens },
            _ => {
                let extend = |(pick, token): ((u8, u8, u8), Token)| {
                    let checkpoint = format!("{{\"at\":{}}}", pick.2 % 4);
                    let checkpoint = (pick.2 % 2 == 0).then_some(checkpoint);
                    Extension { token, checkpoint, is_long_ago: pick.1 % 2 == 0 }
                };
                Op::Extend { known, items: picked.into_iter().map(extend).collect() }
            }
        })
    }

    /// The end of a delivery attempt at a head; a release if the owner holds nothing.
    fn refused(
        &mut self,
        draw: &Draw,
        who: usize,
        epoch: u64,
        known: CatalogEntry,
        state: &State,
    ) -> Option<Op> {
        let (_, pick, last) = draw.many[0];
        if let Some((lane, sequence)) = pick::halted(known.name, state).filter(|_| pick > 180) {
            let known = known_of(lane, known)?;
            let refused = Refused { who, epoch, known, lane, sequence, attempts: self.attempts };
            return Some(Op::Halt { refused });
        }
        let hand = self.some_hand(draw, known.name);
        let Some((lane, hand)) = hand.filter(|(_, hand)| hand[0].tombstone.is_none()) else {
            let lanes = self.requests(draw, known, state)?;
            return Some(Op::Release { who, epoch, known, lanes });
        };
        let known = known_of(lane, known)?;
        let at = if pick < 200 { 0 } else { pick as usize % hand.len() };
        let sequence = hand[at].sequence;
        if hand[at].tombstone.is_some() {
            return None;
        }
        self.attempts += u32::from(pick % 8 != 0);
        let attempts = self.attempts;
        let refused = Refused { who, epoch, known, lane, sequence, attempts };
        Some(match draw.kind {
            Kind::Halt => Op::Halt { refused },
            _ => {
                let wait = if last < 40 { Until::Past } else { Until::Future };
                Op::Postpone { refused, wait }
            }
        })
    }

    /// An operation by an operator, or by the owner on an operator's behalf.
    fn operator(&self, draw: &Draw, who: usize, known: CatalogEntry, state: &State) -> Option<Op> {
        let name = known.name;
        let (first, second, third) = draw.many[0];
        Some(match draw.kind {
            Kind::Withdraw => {
                let messages = pick::to_withdraw(&draw.many, name, state);
                let how = pick::how(second);
                Op::Withdraw { who: None, known, how, failed: None, messages: nonempty(messages)? }
            }
            Kind::CarryOut => {
                let (how, messages) = pick::to_carry_out(draw, name, state)?;
                let failed = (first % 2 == 0).then_some(u32::from(third % 4) + 1);
                Op::Withdraw { who: Some(who), known, how, failed, messages }
            }
            Kind::Retry => {
                let (lane, sequence) = pick::to_retry(draw, name, state)?;
                let repaired = (third % 3 == 0).then(|| format!("repaired {second}"));
                Op::Retry { known, lane, sequence, repaired }
            }
            Kind::Discard => {
                let destination = state.destinations.get(name)?;
                let letters = destination.letters.keys().copied();
                let letters = letters.take(1 + first as usize % 2).chain([Sequence::from(third)]);
                Op::Discard { known, letters: letters.collect() }
            }
            _ => return None,
        })
    }

    /// A sender, usually the owner.
    fn someone(&self, draw: &Draw, state: &State) -> usize {
        let owner = state.owner.map_or(0, |(owner, _)| owner);
        if draw.many[0].2 < 12 { (owner + 1) % OWNERS } else { owner }
    }

    /// A token: usually a valid one, otherwise an old or forged one.
    fn token(&self, pick: &(u8, u8, u8), name: Name, state: &State) -> Option<Token> {
        let all = self.tokens.get(name).filter(|all| !all.is_empty())?;
        let holds = |token: &&Token| {
            let message = state.destinations.get(name)?.messages.get(&token.sequence)?;
            let held =
                matches!(&message.stand, Stand::Leased { secret, .. } if *secret == token.secret);
            held.then_some(())
        };
        let held: Vec<&Token> = all.iter().filter(|token| holds(token).is_some()).collect();
        let errors = |token: &&&Token| {
            let message = state.destinations.get(name)?.messages.get(&token.sequence)?;
            Some(message.left.errors.len())
        };
        let mut token = match pick.0 {
            // Sometimes the token of the message with most errors.
            0..48 if !held.is_empty() => (*held.iter().max_by_key(errors)?).clone(),
            // Usually a token of a message that blocks a head.
            48..128 if !held.is_empty() => held[pick.1 as usize % held.len().min(2)].clone(),
            128..228 if !held.is_empty() => held[pick.1 as usize % held.len()].clone(),
            _ => all[pick.1 as usize % all.len()].clone(),
        };
        match pick.2 {
            0..6 => token.secret = "f0f0".to_owned(),
            6..14 => token.key = pick::KEYS[pick.1 as usize % pick::KEYS.len()],
            14..18 => token.sequence += 1,
            _ => {}
        }
        Some(token)
    }

    fn some_hand(&self, draw: &Draw, name: Name) -> Option<(Lane, &Vec<Gone>)> {
        let mut hands =
            self.in_hand.iter().filter(|((of, _), hand)| *of == name && !hand.is_empty());
        let count = hands.clone().count();
        let ((_, lane), hand) = hands.nth(draw.many[0].0 as usize % count.max(1))?;
        Some((*lane, hand))
    }

    /// The owner's request for one or more lanes: settles some of the messages it holds, and asks
    /// for more.
    fn requests(
        &self,
        draw: &Draw,
        known: CatalogEntry,
        state: &State,
    ) -> Option<Vec<LaneRequest>> {
        let mut lanes = lanes_of(known, state);
        let start = draw.many[0].0 as usize % lanes.len().max(1);
        lanes.rotate_left(start);
        let requests = lanes.into_iter().zip(&draw.many).map(|(lane, &(_, share, limit))| {
            let hand = self.in_hand.get(&(known.name, lane)).map_or(&[][..], |hand| hand);
            // Unreadable messages, and messages behind them, are not delivered.
            let whole = hand.iter().take_while(|one| !one.is_damaged).count();
            // The owner settles all, some or none of them; or it has restarted and holds nothing.
            let settled = match share {
                0..110 => whole,
                110..240 => share as usize % (whole + 1),
                _ => 0,
            };
            let (gone, left) = hand.split_at(settled);
            let held_upto = left.last().filter(|_| share < 240).map_or(0, |one| one.sequence);
            LaneRequest {
                lane,
                settled_to: gone.last().map_or(0, |one| one.sequence),
                settled: gone.to_vec(),
                held_upto,
                limit: limit as usize % 5,
            }
        });
        nonempty(requests)
    }
}

/// A holder of a lane knows the destination's ordering.
fn known_of(lane: Lane, known: CatalogEntry) -> Option<CatalogEntry> {
    let is_so = match known.definition.ordering {
        Ordering::Destination => lane == Lane::Whole,
        Ordering::Key => matches!(lane, Lane::Key(_)),
        Ordering::None => matches!(lane, Lane::Single(_)),
    };
    is_so.then_some(known)
}
