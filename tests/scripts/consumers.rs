//! Lanes whose messages consumers take. Runs operations of an owner, an operator and consumers on
//! a reference model and on the real scripts: random operations, and every interleaving of small
//! worlds. `RESEQ_MODEL_SEED` is the seed, in hex, as a failure prints it.

use rand::{SeedableRng, rngs::StdRng};
use reseq_testing::consumers::{Act, Both};

const OPERATIONS: u64 = 20_000;

/// The cases that must have occurred.
const CASES: [&str; 24] = [
    "accept ok",
    "accept settled",
    "accept stale_lease",
    "cancel done",
    "cancel withdrawing",
    "consume messages",
    "consume nothing",
    "extend ok",
    "extend stale_lease",
    "halt done",
    "look a refusal",
    "look messages",
    "look nothing",
    "postpone done",
    "process ",
    "refuse ok",
    "refuse stale_lease",
    "repeat settled",
    "requeue ok",
    "requeue stale_lease",
    "settle messages",
    "withdraw done",
    "withdraw settled",
    "withdraw withdrawing",
];

#[tokio::test]
async fn consumers_do_and_answer_what_the_model_says() {
    let seed = std::env::var("RESEQ_MODEL_SEED").ok();
    let seed = seed.and_then(|text| u64::from_str_radix(&text, 16).ok());
    let seed: u64 = seed.unwrap_or_else(rand::random);
    let mut both = Both::start().await;
    let mut rng = StdRng::seed_from_u64(seed);
    if let Err(difference) = both.compare(&mut rng, OPERATIONS).await {
        panic!("RESEQ_MODEL_SEED={seed:x}\n{difference}");
    }
    let happened = both.happened();
    println!("{happened:#?}\nRESEQ_MODEL_SEED={seed:x}");
    let missing: Vec<_> = CASES.iter().filter(|case| !happened.contains_key(**case)).collect();
    assert!(missing.is_empty(), "{missing:?} never happened; seed {seed:x}");
}

/// Two consumers, while the owner settles the messages that they accept.
const ACCEPTED: [&[Act]; 3] = [
    &[Act::Look(9), Act::Settle, Act::Postpone],
    &[Act::Consume(2), Act::Acknowledge("accept", 0), Act::Acknowledge("accept", 0)],
    &[Act::Consume(100), Act::Acknowledge("refuse", 0)],
];
/// A lease expires at any moment, and another consumer calls.
const EXPIRES: [&[Act]; 4] = [
    &[Act::Look(9), Act::Look(9)],
    &[Act::Consume(2), Act::Acknowledge("accept", 0), Act::Acknowledge("accept", 1)],
    &[Act::Consume(2), Act::Acknowledge("accept", 0)],
    &[Act::PassDeadline],
];
/// The owner withdraws a message that a consumer holds, while Redis may have lost leases.
const WITHDRAWN: [&[Act]; 3] = [
    &[Act::Look(9), Act::Withdraw(0), Act::Settle],
    &[Act::Consume(2), Act::Acknowledge("extend", 0), Act::Acknowledge("requeue", 0)],
    &[Act::RaiseEpoch, Act::EndWait],
];

/// A consumer refuses a message behind more accepted messages than the owner reads at once. It
/// comes again after its backoff.
const REFUSED: [&[Act]; 3] = [
    &[Act::Look(1), Act::Settle, Act::Look(9), Act::Settle, Act::Postpone],
    &[Act::Consume(3), Act::Acknowledge("refuse", 2)],
    &[Act::Consume(9)],
];

#[tokio::test]
async fn consumers_in_every_interleaving_do_what_the_model_says() {
    let mut both = Both::start().await;
    let first = [(&ACCEPTED[..], 560), (&EXPIRES[..], 1680), (&WITHDRAWN[..], 560)];
    for (world, count) in first.into_iter().chain([(&REFUSED[..], 168)]) {
        match both.interleave(world).await {
            Ok(orders) => assert_eq!(orders, count, "{world:?}"),
            Err(difference) => panic!("{world:?}\n{difference}"),
        }
    }
}
