//! Small worlds: a few producers, processors and senders, one destination, a few messages, and a
//! fault. Tries every order in which their calls can reach Redis, on the reference model and with
//! the real scripts in a real Redis. After each call, the answer and the whole state must equal the
//! model's, and all promises must hold.
//!
//! `RESEQ_INTERLEAVINGS=all` tries all interleavings. Otherwise the test tries a tenth, always
//! the same. `RESEQ_WORLD` selects one world.

use crate::model;

use crate::small;

use std::sync::atomic::AtomicU64;

use model::real::Real;
use small::{
    Counts,
    explore::{Done, Share, explore},
    node::World,
    survey::{Survey, survey},
    worlds::{larger, small},
};

/// The number of threads, each with its own Redis.
const THREADS: u128 = 2;
/// Unless all interleavings are tried, one in this many is.
const ONE_OF: u128 = 10;
/// A world with at most this many interleavings is tried completely.
const FEW: u128 = 500;

fn is_chosen(world: &World) -> bool {
    std::env::var("RESEQ_WORLD").ok().is_none_or(|name| world.name.contains(&name))
}

fn are_all_wanted() -> bool {
    std::env::var("RESEQ_INTERLEAVINGS").is_ok_and(|wanted| wanted == "all")
}

#[test]
fn every_interleaving_of_small_worlds_keeps_the_promises() {
    let surveyed: Vec<(World, Survey)> = small()
        .into_iter()
        .filter(is_chosen)
        .map(|world| {
            let found = survey(&world).unwrap_or_else(|broken| panic!("{}: {broken}", world.name));
            (world, found)
        })
        .collect();
    let done: Vec<Vec<(Done, u64)>> = std::thread::scope(|scope| {
        let surveyed = &surveyed;
        let threads: Vec<_> =
            (0..THREADS).map(|at| scope.spawn(move || explore_all(surveyed, at))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!(
        "{:44} {:>9} {:>12} {:>13} {:>9} {:>9}",
        "world", "states", "transitions", "interleavings", "tried", "calls"
    );
    let (mut tried, mut calls) = (0, 0);
    for (at, (world, survey)) in surveyed.iter().enumerate() {
        let of_world = || done.iter().map(|thread| &thread[at]);
        let tried_here: u128 = of_world().map(|(done, _)| done.tried).sum();
        let calls_here: u64 = of_world().map(|(_, calls)| calls).sum();
        let Survey { states, transitions, paths, .. } = survey;
        println!(
            "{:44} {states:>9} {transitions:>12} {paths:>13} {tried_here:>9} {calls_here:>9}",
            world.name
        );
        let mut counts = Counts::new();
        for (what, count) in of_world().flat_map(|(done, _)| &done.counts) {
            *counts.entry(what).or_default() += count;
        }
        println!("    {counts:?}");
        let missing: Vec<_> =
            world.wanted.iter().filter(|wanted| !counts.contains_key(*wanted)).collect();
        assert!(missing.is_empty(), "{}: {missing:?} never came up", world.name);
        (tried, calls) = (tried + tried_here, calls + calls_here);
    }
    println!("{tried} interleavings, {calls} calls to the real scripts");
}

/// For each world, the interleavings tried, and the number of calls to the real scripts.
fn explore_all(surveyed: &[(World, Survey)], at: u128) -> Vec<(Done, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut real = Real::start().await;
        let mut done = Vec::new();
        for (world, survey) in surveyed {
            let is_whole = are_all_wanted() || survey.paths <= FEW;
            let share = Share { at, of: THREADS * if is_whole { 1 } else { ONE_OF } };
            let calls = AtomicU64::new(0);
            let result = explore(world, survey, &mut real, share, &calls).await;
            let tried = result.unwrap_or_else(|broken| panic!("{}: {broken}", world.name));
            done.push((tried, calls.into_inner()));
        }
        done
    })
}

#[test]
fn larger_worlds_keep_the_promises_in_the_model() {
    println!("{:44} {:>9} {:>12} {:>24}", "world", "states", "transitions", "interleavings");
    for world in larger(are_all_wanted()).into_iter().filter(is_chosen) {
        let found = survey(&world).unwrap_or_else(|broken| panic!("{}: {broken}", world.name));
        let Survey { states, transitions, paths, counts, .. } = &found;
        println!("{:44} {states:>9} {transitions:>12} {paths:>24}", world.name);
        let missing: Vec<_> =
            world.wanted.iter().filter(|wanted| !counts.contains_key(*wanted)).collect();
        assert!(missing.is_empty(), "{}: {missing:?} never came up", world.name);
    }
}
