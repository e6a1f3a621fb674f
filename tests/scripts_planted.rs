//! Each bug that can be planted in a script is caught: by random operations that are compared with
//! the reference model, or by the interleavings of small worlds. The same each time.

mod model;
mod scripts;
mod support;

#[path = "interleavings/small/mod.rs"]
mod small;

use std::sync::atomic::{AtomicU64, Ordering};

use model::{compare::compare, draw::draws, real::Real, tally::Tally};
use rand::{SeedableRng, rngs::StdRng};
use reseq::faults::planted_lua::{BUGS, plant};
use small::{explore::Share, survey::survey, worlds};

/// Where the random numbers begin.
const SEED: u64 = 7;
/// The most operations that are compared before the interleavings are asked.
const OPS_MAX: u64 = 4_000;
/// The most operations of one sequence.
const SEQUENCE_MAX: usize = 200;
/// So many threads, each with a Redis of its own.
const THREADS: usize = 2;

/// What caught a bug, and after how many operations or calls.
struct Caught {
    bug: &'static str,
    by: Option<(&'static str, u64)>,
}

#[test]
fn every_bug_planted_in_a_script_is_caught() {
    let next = AtomicU64::new(0);
    let mut caught: Vec<Caught> = std::thread::scope(|scope| {
        let work = || {
            let mut all = Vec::new();
            while let Some(bug) = BUGS.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                all.push(Caught { bug: bug.name, by: catch(bug.name) });
            }
            all
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    caught.sort_by_key(|one| BUGS.iter().position(|bug| bug.name == one.bug));
    println!("| bug | caught by | after |\n| --- | --- | ---: |");
    for Caught { bug, by } in &caught {
        match by {
            Some((layer, after)) => println!("| {bug} | {layer} | {after} |"),
            None => println!("| {bug} | nothing | |"),
        }
    }
    let missed: Vec<_> = caught.iter().filter(|one| one.by.is_none()).map(|one| one.bug).collect();
    assert_eq!(caught.len(), BUGS.len());
    assert!(missed.is_empty(), "not caught: {missed:?}");
}

#[test]
fn what_catches_the_bugs_finds_nothing_without_one() {
    let operations = AtomicU64::new(0);
    let found = std::thread::scope(|scope| {
        scope.spawn(|| random_operations(None, OPS_MAX, &operations)).join().unwrap()
    });
    assert_eq!(found, None);
    assert!(operations.into_inner() >= OPS_MAX);
}

fn catch(bug: &'static str) -> Option<(&'static str, u64)> {
    let counted = AtomicU64::new(0);
    let by_model = std::thread::scope(|scope| {
        let run = || random_operations(Some(bug), OPS_MAX, &counted).is_some();
        // What the scripts left behind may be so wrong that it cannot be read.
        scope.spawn(run).join().unwrap_or(true)
    });
    if by_model {
        return Some(("model", counted.into_inner()));
    }
    let by_interleavings =
        std::thread::scope(|scope| scope.spawn(|| interleavings(bug)).join().unwrap_or(Some(0)));
    by_interleavings.map(|calls| ("interleavings", calls))
}

/// What the comparison found, if anything.
fn random_operations(bug: Option<&'static str>, most: u64, counted: &AtomicU64) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _planted = bug.map(plant);
    let mut real = runtime.block_on(Real::start());
    let mut rng = StdRng::seed_from_u64(SEED);
    while counted.load(Ordering::Relaxed) < most {
        let draws = draws(&mut rng, SEQUENCE_MAX);
        let mut tally = Tally::default();
        let result = runtime.block_on(compare(&mut real, &draws, &mut tally, counted));
        if let Err(found) = result {
            return Some(found);
        }
    }
    None
}

/// After how many calls a small world is not as it should be.
fn interleavings(bug: &'static str) -> Option<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _planted = plant(bug);
    let mut real = runtime.block_on(Real::start());
    let calls = AtomicU64::new(0);
    for world in worlds::small() {
        let survey = survey(&world).unwrap();
        let share = Share { at: 0, of: 50 };
        let result =
            runtime.block_on(small::explore::explore(&world, &survey, &mut real, share, &calls));
        if result.is_err() {
            return Some(calls.into_inner());
        }
    }
    None
}
