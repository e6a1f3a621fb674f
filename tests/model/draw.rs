//! Random numbers for operations, of which [`generate`](super::generate) makes sense.

use proptest::prelude::*;

use super::state::NAMES;

/// Those who make calls.
pub const CALLERS: usize = 3;

/// An operation as it is drawn, before it is known what there is.
#[derive(Debug, Clone)]
pub struct Draw {
    pub kind: Kind,
    pub name: usize,
    pub caller: usize,
    pub many: Vec<(u8, u8, u8)>,
    pub twist: Twist,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Ingest,
    Claim,
    Complete,
    Fail,
    Unclaim,
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

pub fn draws(most: usize) -> impl Strategy<Value = Vec<Draw>> {
    let kind = prop_oneof![
        16 => Just(Kind::Ingest), 20 => Just(Kind::Claim), 26 => Just(Kind::Complete),
        14 => Just(Kind::Fail), 3 => Just(Kind::Unclaim), 4 => Just(Kind::Extend),
        18 => Just(Kind::Reap), 1 => Just(Kind::Overdue), 4 => Just(Kind::Own),
        3 => Just(Kind::Disown), 44 => Just(Kind::Release), 12 => Just(Kind::Postpone),
        8 => Just(Kind::Halt), 8 => Just(Kind::Withdraw), 6 => Just(Kind::CarryOut),
        11 => Just(Kind::Retry), 2 => Just(Kind::Discard), 2 => Just(Kind::Pause),
        3 => Just(Kind::Define), 1 => Just(Kind::BeginRemove), 1 => Just(Kind::Remove),
        1 => Just(Kind::Restart), 12 => Just(Kind::Pass), 1 => Just(Kind::ScriptFlush),
        3 => Just(Kind::Repeat), 1 => Just(Kind::Late),
    ];
    let twist = prop_oneof![
        40 => Just(Twist::Nothing), 2 => Just(Twist::StaleDefinition),
        1 => Just(Twist::StaleEpoch), 1 => Just(Twist::MemoryFull),
    ];
    let many = prop::collection::vec(any::<(u8, u8, u8)>(), 1..6);
    let draw = (kind, 0..NAMES.len(), 0..CALLERS, many, twist)
        .prop_map(|(kind, name, caller, many, twist)| Draw { kind, name, caller, many, twist });
    prop::collection::vec(draw, 1..most)
}
