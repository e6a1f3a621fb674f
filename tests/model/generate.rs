//! Random numbers made into sensible questions: mostly about what is there, sometimes stale,
//! forged, late or repeated.

use std::collections::BTreeMap;

use reseq::domain::{Ordering, Sequence, TransformKind};

use super::{
    draw::{CALLERS, Draw, Kind, Twist},
    op::{Arrival, Call, Deadline, Known, LaneRequest, Op, Output, Reply, Token},
    state::{Definition, Lane, NAMES, Name, Stand, State, Until},
};

const OWNERS: usize = 2;
/// Tokens that are remembered after their lease has ended.
const OLD_TOKENS: usize = 12;
const KEYS: [Lane; 4] = [None, Some("a"), Some("b"), Some("{x}:y")];

/// What the callers remember.
#[derive(Debug, Default)]
pub struct Callers {
    numbers: [u64; CALLERS],
    /// Each caller's last numbered call, and whether it was answered.
    last: BTreeMap<usize, Op>,
    known: BTreeMap<Name, Vec<Known>>,
    tokens: BTreeMap<Name, Vec<Token>>,
    /// What the owner holds: sequences, and whether each is a tombstone.
    in_hand: BTreeMap<(Name, Lane), Vec<(Sequence, bool)>>,
    /// The last who took the partition.
    owner: usize,
    /// Attempts at deliveries so far.
    attempts: u64,
}

impl Callers {
    /// The destinations as they are at first, each of another kind.
    pub fn beginning() -> Vec<Op> {
        let kinds = [
            (Ordering::Destination, TransformKind::Http),
            (Ordering::Key, TransformKind::Http),
            (Ordering::Destination, TransformKind::None),
        ];
        let define = |(name, (ordering, kind))| Op::Define {
            name,
            definition: Definition { ordering, kind, max_backlog: 12 },
        };
        NAMES.into_iter().zip(kinds).map(define).chain([Op::Own { who: 0 }]).collect()
    }

    /// The operation that was meant; none if there is nothing to do it with.
    pub fn resolve(&mut self, draw: &Draw, state: &State) -> Option<(Op, bool)> {
        let name = NAMES[draw.name];
        let by_script = !matches!(draw.kind, Kind::Restart | Kind::Pass);
        let memory_full = draw.twist == Twist::MemoryFull && by_script;
        if let Some(op) = self.mend(draw, name, state) {
            return Some((op, memory_full));
        }
        let op = match draw.kind {
            Kind::Own => Op::Own { who: self.someone(draw, state) },
            Kind::Disown => Op::Disown { who: self.someone(draw, state) },
            Kind::Overdue => Op::Overdue,
            Kind::Restart => Op::Restart,
            Kind::ScriptFlush => Op::ScriptFlush,
            Kind::Define => Op::Define { name, definition: definition(draw, name, state) },
            Kind::BeginRemove => Op::BeginRemove { name },
            Kind::Remove => Op::Remove { name, purge: draw.many[0].0 < 160 },
            Kind::Pass => Op::Pass(deadline(draw, name, state)),
            Kind::Repeat => self.last.get(&draw.caller)?.clone(),
            Kind::Late => self.last.get(&draw.caller)?.clone().late(),
            _ => self.about(draw, name, state)?,
        };
        Some((op, memory_full))
    }

    /// What is done first, mostly, so that the operation that was drawn can do something next time.
    fn mend(&self, draw: &Draw, name: Name, state: &State) -> Option<Op> {
        if draw.many[0].2 < 56 || draw.twist != Twist::Nothing {
            return None;
        }
        let destination = state.destinations.get(name);
        match draw.kind {
            Kind::Release | Kind::Postpone if !matches!(state.owner, Some((_, Until::Future))) => {
                Some(Op::Own { who: draw.caller % OWNERS })
            }
            Kind::Release if state.quarantine == Some(Until::Future) => {
                Some(Op::Pass(Deadline::Quarantine))
            }
            Kind::Reap => {
                let mut all = deadlines(name, state);
                all.retain(|one| {
                    !matches!(one, Deadline::Seen { .. } | Deadline::Postponed { .. })
                });
                let at = draw.many[0].0 as usize % all.len().max(1);
                all.get(at).filter(|_| draw.many[0].1 < 128).cloned().map(Op::Pass)
            }
            Kind::Ingest | Kind::Claim | Kind::Complete => match destination {
                None => Some(Op::Define { name, definition: definition(draw, name, state) }),
                Some(found) if found.deleted && draw.kind != Kind::Complete => {
                    Some(Op::EndRemove { name })
                }
                Some(_) => None,
            },
            _ => None,
        }
    }

    /// An operation by somebody who knows the destination.
    fn about(&mut self, draw: &Draw, name: Name, state: &State) -> Option<Op> {
        let all = self.known.get(name)?;
        let known = match draw.twist {
            Twist::StaleDefinition => all[draw.many[0].0 as usize % all.len()],
            _ => *all.last()?,
        };
        let epoch = state.epoch - u64::from(draw.twist == Twist::StaleEpoch);
        self.numbers[draw.caller] += 1;
        let call = Call { caller: draw.caller, number: 10 + self.numbers[draw.caller] };
        let who = self.someone(draw, state);
        Some(match draw.kind {
            Kind::Ingest => {
                Op::Ingest { call, known, epoch, arrivals: draw.many.iter().map(arrival).collect() }
            }
            Kind::Claim => Op::Claim { call, known, max: 1 + draw.many[0].0 as usize % 5 },
            Kind::Complete => {
                let picked = draw.many.iter().filter_map(|pick| self.token(pick, name, state));
                let complete = |(at, token): (usize, Token)| {
                    let output = output(&token, draw.many[at], name, state);
                    (token, output)
                };
                Op::Complete { call, known, items: nonempty(picked.enumerate().map(complete))? }
            }
            Kind::Fail => {
                let wait = |pick: &(u8, u8, u8)| match pick.2 % 3 {
                    0 => Until::Past,
                    _ => Until::Future,
                };
                let fail = |pick: &(u8, u8, u8)| Some((self.token(pick, name, state)?, wait(pick)));
                Op::Fail { call, known, items: nonempty(draw.many.iter().filter_map(fail))? }
            }
            Kind::Unclaim | Kind::Extend => {
                let picked = draw.many.iter().filter_map(|pick| self.token(pick, name, state));
                let tokens = nonempty(picked)?;
                match draw.kind {
                    Kind::Unclaim => Op::Unclaim { call, known, tokens },
                    _ => Op::Extend { known, tokens },
                }
            }
            Kind::Reap => Op::Reap { known },
            Kind::Release => {
                Op::Release { who, epoch, known, lanes: self.requests(draw, known, state)? }
            }
            Kind::Postpone => {
                let (lane, hand) = self.some_hand(draw, name)?;
                let sequence = hand[draw.many[0].1 as usize % 8 % hand.len()].0;
                let lane = known.definition.lane_of(lane);
                self.attempts += 1;
                let wait = if draw.many[0].2 < 40 { Until::Past } else { Until::Future };
                let attempts = self.attempts;
                Op::Postpone { who, epoch, known, lane, sequence, attempts, wait }
            }
            _ => return None,
        })
    }

    /// The owner, mostly.
    fn someone(&self, draw: &Draw, state: &State) -> usize {
        let owner = state.owner.map_or(0, |(owner, _)| owner);
        if draw.many[0].2 < 12 { (owner + 1) % OWNERS } else { owner }
    }

    /// A token: mostly one that holds, else an old or a forged one.
    fn token(&self, pick: &(u8, u8, u8), name: Name, state: &State) -> Option<Token> {
        let all = self.tokens.get(name).filter(|all| !all.is_empty())?;
        let holds = |token: &&Token| {
            let message = state.destinations.get(name)?.messages.get(&token.sequence)?;
            let held =
                matches!(&message.stand, Stand::Leased { secret, .. } if *secret == token.secret);
            held.then_some(())
        };
        let held: Vec<&Token> = all.iter().filter(|token| holds(token).is_some()).collect();
        let mut token = match pick.0 {
            // Those that block a head, mostly.
            0..128 if !held.is_empty() => held[pick.1 as usize % held.len().min(2)].clone(),
            128..228 if !held.is_empty() => held[pick.1 as usize % held.len()].clone(),
            _ => all[pick.1 as usize % all.len()].clone(),
        };
        match pick.2 {
            0..6 => token.secret = "f0f0".to_owned(),
            6..14 => token.key = KEYS[pick.1 as usize % KEYS.len()],
            14..18 => token.sequence += 1,
            _ => {}
        }
        Some(token)
    }

    fn some_hand(&self, draw: &Draw, name: Name) -> Option<(Lane, &Vec<(Sequence, bool)>)> {
        let mut hands =
            self.in_hand.iter().filter(|((of, _), hand)| *of == name && !hand.is_empty());
        let count = hands.clone().count();
        let ((_, lane), hand) = hands.nth(draw.many[0].0 as usize % count.max(1))?;
        Some((*lane, hand))
    }

    /// What the owner asks of one or more lanes: settles some of what it holds, and wants more.
    fn requests(&self, draw: &Draw, known: Known, state: &State) -> Option<Vec<LaneRequest>> {
        let destination = state.destinations.get(known.name);
        let mut lanes: Vec<Lane> = match known.definition.ordering {
            Ordering::Destination => vec![None],
            Ordering::Key => {
                let in_use = destination.into_iter().flat_map(|d| d.lanes_in_use());
                let hinted = destination.into_iter().flat_map(|d| d.lanes.keys().map(|k| Some(*k)));
                in_use.chain(hinted).chain([Some("a")]).collect()
            }
        };
        lanes.sort_unstable();
        lanes.dedup();
        let start = draw.many[0].0 as usize % lanes.len();
        lanes.rotate_left(start);
        let requests = lanes.into_iter().zip(&draw.many).map(|(lane, &(_, share, want))| {
            let hand = self.in_hand.get(&(known.name, lane)).map_or(&[][..], |hand| hand);
            // All of it, some of it, or nothing yet; or a new start that knows of nothing.
            let settled = match share {
                0..128 => hand.len(),
                128..240 => share as usize % (hand.len() + 1),
                _ => 0,
            };
            let (gone, left) = hand.split_at(settled);
            LaneRequest {
                lane,
                settled_to: gone.last().map_or(0, |(sequence, _)| *sequence),
                tombstones: gone.iter().filter(|(_, tombstone)| *tombstone).count() as u64,
                in_hand: left.last().filter(|_| share < 240).map_or(0, |(sequence, _)| *sequence),
                want: want as usize % 5,
            }
        });
        nonempty(requests)
    }

    /// Remembers what was answered.
    pub fn learn(&mut self, op: &Op, reply: &Reply) {
        if let Some(call) = op.call().filter(|_| !matches!(reply, Reply::Refused(_))) {
            self.last.insert(call.caller, op.clone());
        }
        match (op, reply) {
            (Op::Define { name, definition }, Reply::Defined { version, .. }) => {
                let known = Known { name, version: *version, definition: *definition };
                let all = self.known.entry(name).or_default();
                all.retain(|other| other.version != known.version);
                all.push(known);
            }
            (Op::Claim { call, known, .. }, Reply::Claimed(given)) => {
                let all = self.tokens.entry(known.name).or_default();
                for message in given {
                    let (sequence, key) = (message.sequence, message.key);
                    let key = match known.definition.ordering {
                        Ordering::Destination => None,
                        Ordering::Key => Some(key.unwrap_or_default()),
                    };
                    let token = Token { sequence, secret: call.secret(), key };
                    if !all.contains(&token) {
                        all.push(token);
                    }
                }
                let old = all.len().saturating_sub(OLD_TOKENS);
                all.drain(..old);
            }
            (Op::Release { known, lanes, .. }, Reply::Runs(runs)) => {
                for (request, run) in lanes.iter().zip(runs) {
                    let hand = self.in_hand.entry((known.name, request.lane)).or_default();
                    hand.retain(|(at, _)| *at > request.settled_to && *at <= request.in_hand);
                    hand.extend(run.messages.iter().map(|m| (m.sequence, m.tombstone)));
                }
            }
            // Whoever takes a partition holds nothing yet.
            (Op::Own { who }, Reply::Owned { .. }) if *who != self.owner => {
                self.owner = *who;
                self.in_hand.clear();
            }
            (Op::Remove { name, .. } | Op::EndRemove { name }, Reply::Removed { .. }) => {
                self.in_hand.retain(|(of, _), _| of != name);
            }
            _ => {}
        }
    }
}

fn nonempty<T>(items: impl Iterator<Item = T>) -> Option<Vec<T>> {
    let items: Vec<T> = items.collect();
    (!items.is_empty()).then_some(items)
}

fn arrival(&(key, idempotency, body): &(u8, u8, u8)) -> Arrival {
    Arrival {
        key: KEYS[key as usize % KEYS.len()],
        idempotency_key: (idempotency % 4 == 0).then(|| format!("i{}", idempotency / 4 % 8)),
        body: format!("body {}", body % 2),
    }
}

/// What the processor makes of the message that it was given.
fn output(token: &Token, draw: (u8, u8, u8), name: Name, state: &State) -> Output {
    let found = state.destinations.get(name);
    let message = found.and_then(|found| found.messages.get(&token.sequence));
    let tombstone = draw.1 < 64;
    Output {
        epoch: message.map_or(state.epoch, |message| message.epoch),
        previous: message.map_or(0, |message| message.previous),
        key: message.and_then(|message| message.key),
        tombstone,
        body: if tombstone { String::new() } else { format!("output {}", draw.1 % 5) },
    }
}

fn definition(draw: &Draw, name: Name, state: &State) -> Definition {
    let (a, b, c) = draw.many[0];
    let found = state.destinations.get(name).map(|found| found.definition);
    let drawn = if c % 2 == 0 { Ordering::Key } else { Ordering::Destination };
    let ordering = found.filter(|_| c < 160).map_or(drawn, |found| found.ordering);
    let kind = match a % 4 {
        0 => TransformKind::Worker,
        1 => TransformKind::None,
        _ => TransformKind::Http,
    };
    Definition { ordering, kind, max_backlog: if b < 64 { 4 } else { 12 } }
}

/// The deadlines that there are.
fn deadlines(name: Name, state: &State) -> Vec<Deadline> {
    let mut all = vec![Deadline::Postponed { name }];
    for (sequence, message) in state.destinations.get(name).into_iter().flat_map(|d| &d.messages) {
        match message.stand {
            Stand::Leased { .. } => all.push(Deadline::Lease { name, sequence: *sequence }),
            Stand::Delayed { .. } => all.push(Deadline::Delay { name, sequence: *sequence }),
            _ => {}
        }
    }
    let seen = state.seen.keys().filter(|(of, _)| *of == name).take(2);
    all.extend(seen.map(|(_, key)| Deadline::Seen { name, idempotency_key: key.clone() }));
    all
}

fn deadline(draw: &Draw, name: Name, state: &State) -> Deadline {
    let mut all = deadlines(name, state);
    match draw.many[0].2 {
        0..12 => Deadline::Owner,
        _ if state.quarantine == Some(Until::Future) => Deadline::Quarantine,
        _ => all.swap_remove(draw.many[0].0 as usize % all.len()),
    }
}
