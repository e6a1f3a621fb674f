//! Random numbers for operations; [`generate`](super::generate) turns them into valid ones.

use rand::{Rng, rngs::StdRng};

use super::state::NAMES;

/// Number of callers.
pub const CALLERS: usize = 3;

/// An operation as drawn, before the state is known.
#[derive(Debug, Clone)]
pub struct Draw {
    pub kind: Kind,
    pub name: usize,
    pub caller: usize,
    pub many: Vec<(u8, u8, u8)>,
    pub twist: Twist,
    /// True if the operation waits, to run on Redis together with the next one.
    pub waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ingest,
    Claim,
    Complete,
    Fail,
    Requeue,
    Extend,
    Reap,
    Overdue,
    Own,
    Disown,
    Release,
    Postpone,
    Halt,
    Withdraw,
    CarryOut,
    Retry,
    Discard,
    Expire,
    GiveUp,
    Damage,
    Repair,
    Pause,
    Define,
    BeginRemove,
    Remove,
    Restart,
    Pass,
    ScriptFlush,
    Repeat,
    Late,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twist {
    Nothing,
    StaleDefinition,
    StaleEpoch,
    MemoryFull,
}

/// The weight of each kind.
const KINDS: [(u32, Kind); 30] = [
    (16, Kind::Ingest),
    (20, Kind::Claim),
    (26, Kind::Complete),
    (14, Kind::Fail),
    (3, Kind::Requeue),
    (4, Kind::Extend),
    (18, Kind::Reap),
    (1, Kind::Overdue),
    (4, Kind::Own),
    (3, Kind::Disown),
    (44, Kind::Release),
    (12, Kind::Postpone),
    (8, Kind::Halt),
    (8, Kind::Withdraw),
    (6, Kind::CarryOut),
    (11, Kind::Retry),
    (2, Kind::Discard),
    (2, Kind::Expire),
    (2, Kind::GiveUp),
    (3, Kind::Damage),
    (2, Kind::Repair),
    (2, Kind::Pause),
    (3, Kind::Define),
    (1, Kind::BeginRemove),
    (1, Kind::Remove),
    (1, Kind::Restart),
    (12, Kind::Pass),
    (1, Kind::ScriptFlush),
    (3, Kind::Repeat),
    (1, Kind::Late),
];

/// Operations whose calls may run together. Calls of ingest may too, but only with each other.
const TOGETHER: [Kind; 4] = [Kind::Claim, Kind::Complete, Kind::Complete, Kind::Release];
/// One of this many operations begins a group that runs together.
const TOGETHER_ONE_IN: u32 = 12;
/// The most operations that run together.
const TOGETHER_MAX: usize = 7;

/// The weights of the twists.
const TWISTS: [(u32, Twist); 4] = [
    (40, Twist::Nothing),
    (2, Twist::StaleDefinition),
    (1, Twist::StaleEpoch),
    (3, Twist::MemoryFull),
];

/// In one of this many sequences, processors die often. Otherwise, several leases of one message
/// would rarely expire one after the other.
const DYING_ONE_IN: u32 = 4;

/// A sequence of operations, fewer than `most`.
pub fn draws(rng: &mut StdRng, most: usize) -> Vec<Draw> {
    let wanted: &[Kind] = match rng.random_range(0..DYING_ONE_IN) {
        0 => &[Kind::Claim, Kind::Reap],
        _ => &[],
    };
    draws_with_more_of(rng, most, wanted)
}

/// Like `draws`, with higher weights for these kinds.
pub fn draws_with_more_of(rng: &mut StdRng, most: usize, wanted: &[Kind]) -> Vec<Draw> {
    let kinds = KINDS.map(|(weight, kind)| match wanted.contains(&kind) {
        true => (12 * weight.min(4), kind),
        false => (weight, kind),
    });
    let count = rng.random_range(1..most);
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        if rng.random_range(0..TOGETHER_ONE_IN) > 0 {
            all.push(draw(rng, &kinds));
            continue;
        }
        let some: &[Kind] = if rng.random() { &[Kind::Ingest] } else { &TOGETHER };
        let kinds: Vec<_> = some.iter().map(|kind| (1, *kind)).collect();
        let together = (0..rng.random_range(2..=TOGETHER_MAX)).map(|_| draw(rng, &kinds));
        all.extend(together.map(|one| Draw {
            twist: without_limits(one.twist),
            waits: true,
            ..one
        }));
        if let Some(last) = all.last_mut() {
            last.waits = false;
        }
    }
    all
}

/// A memory limit would also affect the operations that run together with this one.
fn without_limits(twist: Twist) -> Twist {
    if twist == Twist::MemoryFull { Twist::Nothing } else { twist }
}

fn draw(rng: &mut StdRng, kinds: &[(u32, Kind)]) -> Draw {
    let many = rng.random_range(1..6);
    Draw {
        kind: one_of(rng, kinds),
        name: rng.random_range(0..NAMES.len()),
        caller: rng.random_range(0..CALLERS),
        many: (0..many).map(|_| rng.random()).collect(),
        twist: one_of(rng, &TWISTS),
        waits: false,
    }
}

fn one_of<T: Copy>(rng: &mut StdRng, all: &[(u32, T)]) -> T {
    let mut at = rng.random_range(0..all.iter().map(|(weight, _)| weight).sum());
    for (weight, one) in all {
        if at < *weight {
            return *one;
        }
        at -= weight;
    }
    unreachable!("it is below the sum")
}
