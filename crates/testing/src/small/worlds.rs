//! The small worlds.

use domain::{Ordering, ProcessingOptions, Tombstone, TransformKind};

use crate::{
    model::{
        op::Arrival,
        state::{Definition, Until},
    },
    small::node::{Operator, Troubles, World},
};

const DEFINITION: Definition = Definition {
    ordering: Ordering::Destination,
    serial: false,
    kind: TransformKind::Http,
    backlog_max: 12,
    backlog_bytes_max: 0,
    idempotency_keys_max: 1000,
    compares_keys: false,
    sources_max: 4,
    has_window: true,
    stalls_max: 0,
    log_max: 1,
    dead_letters_max: 0,
    letters_age: false,
    rate_burst: 0,
    gives_up: None,
    previous_keys_max: 1,
};

fn arrival(body: &str, key: Option<&'static str>) -> Arrival {
    Arrival { key, body: body.to_owned(), accounted_bytes: body.len() as u64, ..Arrival::default() }
}

fn under(key: &str, arrival: Arrival) -> Arrival {
    Arrival { idempotency_key: Some(key.to_owned()), ..arrival }
}

/// Its producer waits for its result.
fn awaited(arrival: Arrival) -> Arrival {
    let options = ProcessingOptions { keep_result: true, ..ProcessingOptions::default() };
    Arrival { options, ..arrival }
}

/// Two messages in one call, two processors, one sender; no faults.
fn plain(name: &'static str) -> World {
    World {
        name,
        definition: DEFINITION,
        producers: vec![vec![vec![arrival("a", None), arrival("b", None)]]],
        processors: 2,
        senders: 1,
        on_arrival: false,
        claim: 1,
        limit: 2,
        fails: None,
        asks_later: false,
        refuses: None,
        drops: None,
        hands_back: false,
        settles_each: false,
        covets: false,
        vouches: false,
        operator: None,
        errors: Troubles::default(),
        wanted: &[],
    }
}

/// One message per call, from two producers.
fn out_of_line() -> Vec<Vec<Vec<Arrival>>> {
    vec![vec![vec![arrival("a", None)]], vec![vec![arrival("b", None)]]]
}

/// The messages of one producer, who waits for each answer.
fn one_by_one(bodies: [&str; 2]) -> Vec<Vec<Vec<Arrival>>> {
    vec![bodies.into_iter().map(|body| vec![arrival(body, None)]).collect()]
}

/// Worlds small enough to try every order with the real scripts.
pub fn small() -> Vec<World> {
    [dying(), again(), standing(), seen_to(), removed(), changed(), begun_on_arrival()].concat()
}

/// An actor dies, or is slow.
fn dying() -> Vec<World> {
    let none = Troubles::default();
    vec![
        World { producers: out_of_line(), ..plain("two producers, two processors") },
        World {
            errors: Troubles { processor_dies: 1, ..none },
            wanted: &["lease reaped"],
            ..plain("a processor dies")
        },
        World {
            errors: Troubles { slow_processors: 1, ..none },
            wanted: &["lease reaped", "stale lease completed", "completed what was settled"],
            ..plain("a lease ends while its processor lives")
        },
        World {
            senders: 2,
            processors: 1,
            claim: 2,
            errors: Troubles { sender_dies: 1, ..none },
            wanted: &["released by the second sender after the first died", "repeat delivered"],
            ..plain("a sender dies")
        },
        World {
            senders: 2,
            processors: 1,
            claim: 2,
            settles_each: true,
            errors: Troubles { paused_senders: 1, ..none },
            wanted: &["refused: NOT_OWNER", "repeat delivered", "delivered by who was paused"],
            ..plain("a sender is paused beyond its lease")
        },
    ]
}

/// A call arrives twice, or Redis becomes another server.
fn again() -> Vec<World> {
    let none = Troubles::default();
    vec![
        World {
            processors: 1,
            claim: 2,
            errors: Troubles { lost_answers: 2, ..none },
            wanted: &["the same call again"],
            ..plain("answers are lost")
        },
        World {
            // Only calls with numbers are refused when late. A completion has no number.
            hands_back: true,
            errors: Troubles { late_calls: 1, ..none },
            wanted: &["late call refused", "late call answered"],
            ..plain("a call arrives late")
        },
        World {
            processors: 1,
            claim: 2,
            producers: out_of_line(),
            errors: Troubles { restarts: 1, ..none },
            wanted: &["ingest refused: STALE_EPOCH", "refused: STALE_EPOCH"],
            ..plain("Redis restarts")
        },
        World {
            definition: Definition { kind: TransformKind::None, ..DEFINITION },
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            errors: Troubles { forgets: 1, ..none },
            wanted: &[
                "Redis forgot",
                "repeat delivered",
                "a sequence was stamped again in another epoch",
            ],
            ..plain("Redis forgets the last calls")
        },
        World {
            definition: Definition { kind: TransformKind::None, ..DEFINITION },
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            senders: 2,
            settles_each: true,
            vouches: true,
            errors: Troubles { restarts: 1, ..none },
            wanted: &["takeover wait ended by a vouch", "repeat delivered"],
            ..plain("Redis restarts, and its owner vouches")
        },
        World {
            definition: Definition { kind: TransformKind::None, ..DEFINITION },
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            senders: 2,
            vouches: true,
            errors: Troubles { forgets: 1, ..none },
            wanted: &[
                "Redis forgot",
                "takeover wait ended by a vouch",
                "vouched, and another owns",
            ],
            ..plain("Redis forgets its owner, who vouches")
        },
        World {
            producers: vec![vec![vec![arrival("a", None)]]],
            processors: 1,
            errors: Troubles { forgets: 1, ..none },
            wanted: &["Redis forgot", "stale lease completed"],
            ..plain("Redis forgets what a processor did")
        },
    ]
}

/// Other kinds of lanes, and failed attempts.
fn standing() -> Vec<World> {
    let none = Troubles::default();
    let keyed = Definition { ordering: Ordering::Key, ..DEFINITION };
    vec![
        World {
            definition: keyed,
            producers: vec![vec![vec![arrival("a", Some("a")), arrival("b", Some("b"))]]],
            errors: Troubles { processor_dies: 1, ..none },
            wanted: &["lease reaped"],
            ..plain("two lanes, a processor dies")
        },
        World {
            definition: Definition { ordering: Ordering::None, ..DEFINITION },
            wanted: &[],
            ..plain("no order")
        },
        World {
            definition: Definition { serial: true, ..DEFINITION },
            errors: Troubles { processor_dies: 1, ..none },
            wanted: &["lease reaped"],
            ..plain("serial, a processor dies")
        },
        World {
            fails: Some(Some(Until::Future)),
            wanted: &["failed or handed back", "delay reaped"],
            ..plain("an attempt fails, and waits")
        },
        World {
            fails: Some(Some(Until::Future)),
            asks_later: true,
            errors: Troubles { slow_processors: 1, ..none },
            wanted: &["failed or handed back", "delay reaped", "lease reaped"],
            ..plain("an attempt asks for its message later")
        },
        World {
            definition: Definition { gives_up: Some(Tombstone::DeadLettered), ..DEFINITION },
            fails: Some(None),
            errors: Troubles { slow_processors: 1, lost_answers: 1, ..none },
            wanted: &[
                "left at its last attempt",
                "stale lease ended otherwise",
                "the same call again",
            ],
            ..plain("the last attempt fails")
        },
        World {
            definition: Definition { rate_burst: 1, ..DEFINITION },
            errors: Troubles { processor_dies: 1, ..none },
            wanted: &["lease reaped", "delay reaped"],
            ..plain("a rate, a processor dies")
        },
        World {
            producers: vec![vec![vec![awaited(arrival("a", None)), arrival("b", None)]]],
            errors: Troubles { slow_processors: 1, ..none },
            wanted: &["lease reaped", "stale lease completed", "result kept"],
            ..plain("a producer waits, and a lease ends while its processor lives")
        },
        World {
            fails: Some(Some(Until::Past)),
            hands_back: true,
            wanted: &["failed or handed back"],
            ..plain("one fails, one is handed back")
        },
    ]
}

/// Refused deliveries, operators, duplicates.
fn seen_to() -> Vec<World> {
    let none = Troubles::default();
    vec![
        World {
            refuses: Some(Some(Until::Future)),
            senders: 2,
            processors: 1,
            claim: 2,
            errors: Troubles { sender_dies: 1, ..none },
            wanted: &["delivery refused", "released by the second sender after the first died"],
            ..plain("a delivery is refused, a sender dies")
        },
        World {
            refuses: Some(None),
            operator: Some(Operator::Retry),
            wanted: &["delivery refused", "retried in place"],
            ..plain("a head is halted, and retried")
        },
        World {
            operator: Some(Operator::Withdraw(Tombstone::Cancelled, 1)),
            wanted: &[
                "withdrawn at once",
                "ordered to withdraw",
                "withdrawn too late",
                "withdrawal carried out",
            ],
            ..plain("the first is cancelled")
        },
        World {
            operator: Some(Operator::Withdraw(Tombstone::DeadLettered, 2)),
            senders: 2,
            processors: 1,
            claim: 2,
            errors: Troubles { sender_dies: 1, ..none },
            wanted: &["withdrawn at once", "ordered to withdraw", "withdrawal carried out"],
            ..plain("the second is skipped, a sender dies")
        },
        World {
            producers: vec![
                vec![vec![under("i", arrival("a", None))]],
                vec![vec![under("i", arrival("a", None))]],
            ],
            processors: 1,
            errors: Troubles { lost_answers: 1, ..none },
            wanted: &["duplicate", "the same call again"],
            ..plain("the same key from two producers")
        },
        World { drops: Some(1), wanted: &[], ..plain("the first output is nothing") },
    ]
}

/// A destination is removed with pending messages, and created again. The messages that actors
/// hold belong to the old destination, whose numbers are the same.
fn removed() -> Vec<World> {
    let none = Troubles::default();
    let delivered = Definition { kind: TransformKind::None, ..DEFINITION };
    let remade = |name| World {
        producers: one_by_one(["a", "b"]),
        processors: 1,
        operator: Some(Operator::Remake),
        wanted: &["removed and made again", "refused: STALE_DEFINITION"],
        ..plain(name)
    };
    vec![
        World {
            wanted: &[
                "removed and made again",
                "ingest refused: STALE_DEFINITION",
                "ingest refused: STALE_EPOCH",
                "completed what was settled",
                "refused: STALE_DEFINITION",
            ],
            ..remade("a destination is made again")
        },
        World {
            definition: delivered,
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            refuses: Some(Some(Until::Future)),
            wanted: &["removed and made again", "refused: STALE_DEFINITION", "delivery refused"],
            ..remade("a destination is made again, a delivery is refused")
        },
        World {
            definition: delivered,
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            errors: Troubles { restarts: 1, ..none },
            wanted: &[
                "removed and made again",
                "refused: STALE_DEFINITION",
                "refused: STALE_EPOCH",
            ],
            ..remade("a destination is made again, Redis restarts")
        },
        World {
            definition: delivered,
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            operator: Some(Operator::RemakeOther),
            wanted: &["removed and made again"],
            ..remade("another destination is made again")
        },
    ]
}

/// A record is lost, or the definition changes, while actors hold messages.
fn changed() -> Vec<World> {
    let none = Troubles::default();
    let keyed = Definition { ordering: Ordering::Key, ..DEFINITION };
    let two_lanes = vec![vec![vec![arrival("a", Some("a")), arrival("b", Some("b"))]]];
    let damaged = |name| World {
        processors: 1,
        operator: Some(Operator::CancelDamaged),
        errors: Troubles { damages: 1, ..none },
        wanted: &["a record is lost", "halted as damaged", "withdrawn at once"],
        ..plain(name)
    };
    vec![
        World { definition: keyed, producers: two_lanes, ..damaged("two lanes, a record is lost") },
        World { claim: 2, ..damaged("one lane, a record is lost") },
        World {
            processors: 1,
            producers: one_by_one(["a", "b"]),
            operator: Some(Operator::Redefine),
            wanted: &["ingest refused: STALE_DEFINITION", "refused: STALE_DEFINITION"],
            ..plain("a destination is defined otherwise")
        },
    ]
}

/// A pod processes messages as they arrive.
fn begun_on_arrival() -> Vec<World> {
    let none = Troubles::default();
    let keyed = Definition { ordering: Ordering::Key, ..DEFINITION };
    let begun = |name| World {
        producers: one_by_one(["a", "b"]),
        processors: 1,
        on_arrival: true,
        wanted: &["leased on arrival"],
        ..plain(name)
    };
    vec![
        World {
            errors: Troubles { processor_dies: 1, ..none },
            wanted: &["leased on arrival", "lease reaped"],
            ..begun("begun on arrival, its pod dies")
        },
        World {
            errors: Troubles { slow_processors: 1, ..none },
            wanted: &["leased on arrival", "lease reaped", "stale lease completed"],
            ..begun("begun on arrival, its lease ends")
        },
        World {
            producers: out_of_line(),
            errors: Troubles { lost_answers: 1, ..none },
            wanted: &["leased on arrival", "the same call again"],
            ..begun("begun on arrival by two pods, an answer is lost")
        },
        World {
            definition: Definition { serial: true, ..keyed },
            producers: vec![vec![vec![arrival("a", Some("a")), arrival("b", Some("a"))]]],
            ..begun("begun on arrival, serial")
        },
        World {
            producers: vec![vec![vec![arrival("a", None)]]],
            errors: Troubles { forgets: 1, ..none },
            wanted: &["leased on arrival", "Redis forgot"],
            ..begun("begun on arrival, and Redis forgets it")
        },
        World {
            operator: Some(Operator::Remake),
            wanted: &["leased on arrival", "removed and made again", "completed what was settled"],
            ..begun("begun on arrival, its destination is made again")
        },
    ]
}

/// Worlds only for the model.
pub fn larger(all: bool) -> Vec<World> {
    let none = Troubles::default();
    let three = vec![vec![vec![arrival("a", None), arrival("b", None), arrival("c", None)]]];
    let mut worlds = vec![
        World {
            producers: three.clone(),
            errors: Troubles { processor_dies: 1, ..none },
            wanted: &["lease reaped"],
            ..plain("three messages, a processor dies")
        },
        World {
            definition: Definition { kind: TransformKind::None, ..DEFINITION },
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            senders: 2,
            vouches: true,
            errors: Troubles { forgets: 1, restarts: 2, ..none },
            wanted: &[
                "Redis forgot",
                "takeover wait ended by a vouch",
                "vouched, and another owns",
            ],
            ..plain("Redis forgets and restarts, and owners vouch")
        },
    ];
    if !all {
        return worlds;
    }
    worlds.extend([
        World {
            producers: three,
            senders: 2,
            errors: Troubles { processor_dies: 1, sender_dies: 1, ..none },
            wanted: &["lease reaped", "released by the second sender after the first died"],
            ..plain("three messages, one of each dies")
        },
        World {
            senders: 2,
            errors: Troubles { slow_processors: 1, paused_senders: 1, restarts: 1, ..none },
            wanted: &["stale lease completed", "refused: NOT_OWNER", "refused: STALE_EPOCH"],
            ..plain("pauses and a restart")
        },
        World {
            definition: Definition { kind: TransformKind::None, ..DEFINITION },
            processors: 0,
            producers: one_by_one(["done a", "done b"]),
            senders: 2,
            errors: Troubles { forgets: 2, ..none },
            wanted: &["Redis forgot", "a sequence was stamped again in another epoch"],
            ..plain("Redis forgets twice, two senders")
        },
    ]);
    worlds
}
