//! What is offered to consumers: operations of an owner and of consumers, on a reference model and on the real scripts;
//! random ones, and every interleaving of small worlds. `RESEQ_MODEL_SEED` is the seed, in hex, as a failure prints it.

use rand::{SeedableRng, rngs::StdRng};
use reseq_testing::offers::{Act, Both};

const OPERATIONS: u64 = 12_000;

/// What must have happened: the interesting cases.
const CASES: [&str; 24] = [
    "accept ok",
    "accept settled",
    "accept stale_lease",
    "consume messages",
    "consume nothing",
    "extend ok",
    "extend stale_lease",
    "look accepted 1",
    "look expired 0",
    "look expired 1",
    "look gone",
    "look leased 0",
    "look leased 1",
    "look refused 0",
    "look refused 1",
    "offer accepted 1",
    "offer leased 0",
    "offer wait",
    "refuse ok",
    "refuse stale_lease",
    "requeue ok",
    "withdraw done",
    "withdraw settled",
    "withdraw withdrawing",
];

#[tokio::test]
async fn offers_do_and_answer_what_the_model_says() {
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

/// Two consumers, while the owner offers more.
const GROWS: [&[Act]; 3] = [
    &[Act::Offer(2), Act::Look, Act::Offer(3)],
    &[Act::Consume(1), Act::Acknowledge("accept", 0), Act::Consume(2)],
    &[Act::Consume(100), Act::Acknowledge("refuse", 0)],
];
/// A lease expires at any moment, and another consumer comes.
const EXPIRES: [&[Act]; 4] = [
    &[Act::Offer(2), Act::Look],
    &[Act::Consume(2), Act::Acknowledge("accept", 0), Act::Acknowledge("accept", 1)],
    &[Act::Consume(2), Act::Acknowledge("accept", 0)],
    &[Act::PassDeadline],
];
/// The owner takes its offer back and withdraws a message, while Redis may have forgotten leases.
const RECALLED: [&[Act]; 3] = [
    &[Act::Offer(2), Act::Recall, Act::Withdraw(0)],
    &[Act::Consume(2), Act::Acknowledge("extend", 0), Act::Acknowledge("requeue", 0)],
    &[Act::RaiseEpoch, Act::EndWait],
];

#[tokio::test]
async fn every_interleaving_of_an_owner_and_consumers_is_what_the_model_says() {
    let mut both = Both::start().await;
    for (world, count) in [(&GROWS[..], 560), (&EXPIRES[..], 1680), (&RECALLED[..], 560)] {
        match both.interleave(world).await {
            Ok(orders) => assert_eq!(orders, count, "{world:?}"),
            Err(difference) => panic!("{world:?}\n{difference}"),
        }
    }
}
