//! Runs random operations on the reference model of one partition and on the real scripts in a
//! real Redis. After each operation the answers and the whole state must be equal.
//!
//! `RESEQ_MODEL_OPS` is the least number of operations; `RESEQ_MODEL_SEED` is the seed, in hex, as
//! a failure prints it.

use crate::model;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use model::{
    compare::{compare, shortest},
    draw::draws,
    real::Real,
    tally::Tally,
};
use rand::{SeedableRng, rngs::StdRng};

/// The default number of operations.
const OPS: u64 = 100_000;
/// The most rounds until every rare case has occurred.
const ROUNDS_MAX: u64 = 4;
/// Threads, each with its own Redis.
const THREADS: u64 = 2;
/// The most operations of one sequence.
const OPS_MAX: usize = 200;

#[test]
fn the_scripts_do_and_answer_what_the_model_says() {
    let told = std::env::var("RESEQ_MODEL_OPS").ok().and_then(|text| text.parse().ok());
    let seed = std::env::var("RESEQ_MODEL_SEED").ok();
    let seed =
        seed.and_then(|text| u64::from_str_radix(&text, 16).ok()).unwrap_or_else(rand::random);
    let operations = told.unwrap_or(OPS);
    let mut all = Tally::default();
    let mut compared = 0;
    for round in 0..ROUNDS_MAX {
        let seeds = (0..THREADS).map(|at| seed.wrapping_add(round * THREADS + at));
        let done: Vec<(Tally, u64)> = std::thread::scope(|scope| {
            let run = |seed| scope.spawn(move || random_operations(seed, operations / THREADS));
            let threads: Vec<_> = seeds.map(run).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for (tally, operations) in done {
            all.add(tally);
            compared += operations;
        }
        if operations < OPS || all.missing().is_empty() {
            break;
        }
    }
    println!("{all:#?}");
    println!("{compared} operations compared; RESEQ_MODEL_SEED={seed:x}");
    if operations >= OPS {
        let missing = all.missing();
        assert!(missing.is_empty(), "{missing:?} never happened; seed {seed:x}");
    }
}

/// Compares at least this many operations, with a new Redis.
fn random_operations(seed: u64, at_least: u64) -> (Tally, u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut real = Real::start().await;
        let (mut tally, operations) = (Tally::default(), AtomicU64::new(0));
        let mut rng = StdRng::seed_from_u64(seed);
        while operations.load(Relaxed) < at_least {
            let draws = draws(&mut rng, OPS_MAX);
            if let Err(failure) = compare(&mut real, &draws, &mut tally, &operations).await {
                let shortest = shortest(&mut real, draws, failure).await;
                panic!("RESEQ_MODEL_SEED={seed:x}\n{shortest}");
            }
        }
        (tally, operations.into_inner())
    })
}
