//! Tests that every bug planted in a script is caught by random operations compared with the
//! reference model, or by the interleavings of small worlds. The outcome is deterministic.
//! `RESEQ_CASES=halt` tries only the bugs whose file or name contains `halt`.

use reseq_testing::{
    blocks::many_partitions, consumers::Both, hand_overs::wake_ups_carry_heads, model, small,
    support::generated,
};

mod lua_bugs;

use std::sync::atomic::{AtomicU64, Ordering};

use lua_bugs::{BUGS, Bug};
use model::{
    compare::compare,
    draw::{Kind, draws_with_more_of},
    real::Real,
    tally::Tally,
};
use rand::{SeedableRng, rngs::StdRng};
use small::{explore::Share, survey::survey, worlds};

/// The first seed.
const SEED: u64 = 7;
/// The most operations to compare.
const OPS_MAX: u64 = 4_000;
/// The most operations to compare with more of the kinds that reach the script.
const MORE_OPS_MAX: u64 = 8_000;
/// The most operations for a bug that only shows when the reserve of a full Redis is used up, or several things meet in
/// one call without ordering.
const RARE_OPS_MAX: u64 = 40_000;
/// The most operations of one sequence.
const SEQUENCE_MAX: usize = 200;
/// The most operations of consumers with one bug.
const CONSUMER_OPS_MAX: u64 = 16_000;
/// Threads, each with its own Redis.
const THREADS: usize = 2;

/// The head of the table in docs/explanation/testing.md.
const HEAD: [&str; 3] = ["script", "what is wrong with it", "found by"];

/// The method that caught a bug, and the number of operations or calls until then.
struct Caught {
    bug: &'static Bug,
    by: Option<(&'static str, u64)>,
}

#[test]
fn every_bug_planted_in_a_script_is_caught() {
    let next = AtomicU64::new(0);
    let cases = std::env::var("RESEQ_CASES").unwrap_or_default();
    let bugs: Vec<&Bug> =
        BUGS.iter().filter(|bug| bug.file.contains(&cases) || bug.name.contains(&cases)).collect();
    let mut caught: Vec<Caught> = std::thread::scope(|scope| {
        let work = || {
            let mut all = Vec::new();
            while let Some(&bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                all.push(Caught { bug, by: catch(bug) });
            }
            all
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    caught.sort_by_key(|one| BUGS.iter().position(|bug| std::ptr::eq(bug, one.bug)));
    let row = |Caught { bug, by }: &Caught| {
        let (layer, after) = by.unwrap_or(("nothing", 0));
        println!("{layer:28} {after:>5}  {}: {}", bug.file, bug.name);
        vec![format!("`{}`", bug.file), bug.name.to_owned(), layer.to_owned()]
    };
    let table = generated::table(&HEAD, caught.iter().map(row));
    let missed: Vec<_> = caught.iter().filter(|one| one.by.is_none()).map(|one| one.bug).collect();
    assert_eq!(caught.len(), bugs.len());
    assert!(missed.is_empty(), "not caught: {missed:?}");
    // The method that catches a bug may change with any change of a script, so the page is
    // written only on request. tests/quick/structure.rs checks that the page has every bug.
    if cases.is_empty() && std::env::var("RESEQ_WRITE_DOCS").is_ok_and(|value| value == "1") {
        generated::check("docs/explanation/testing.md", "bugs in scripts", &table);
    }
}

#[test]
fn what_catches_the_bugs_finds_nothing_without_one() {
    // Each set of kinds used to find bugs, and the empty set.
    let mut sets: Vec<&[Kind]> = BUGS.iter().map(|bug| meeting(bug.file)).collect();
    sets.push(&[]);
    let mut tried: Vec<&[Kind]> = Vec::new();
    for set in sets {
        if !tried.contains(&set) {
            tried.push(set);
        }
    }
    let next = AtomicU64::new(0);
    let run = || {
        while let Some(set) = tried.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
            let most = if set.is_empty() { OPS_MAX } else { MORE_OPS_MAX };
            let operations = AtomicU64::new(0);
            assert_eq!(random_operations(None, most, set, &operations), None, "{set:?}");
            assert!(operations.into_inner() >= most);
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn every_bug_has_its_one_place() {
    for bug in BUGS {
        assert_ne!(bug.planted_text(), bug.whole_text(), "{}", bug.name);
    }
}

fn catch(bug: &'static Bug) -> Option<(&'static str, u64)> {
    // A wrong script may also make the check that finds it panic.
    let found_by = |finds_it: fn(&Bug) -> bool| {
        std::thread::scope(|scope| scope.spawn(|| finds_it(bug)).join().unwrap_or(true))
    };
    if is_about_consumers(bug) && found_by(by_consumers) {
        return Some(("model of consumers", 0));
    }
    if is_about_hand_overs(bug) && found_by(by_hand_overs) {
        return Some(("hand-overs", 0));
    }
    let by_model = |most: u64, wanted: &'static [Kind]| {
        let counted = AtomicU64::new(0);
        std::thread::scope(|scope| {
            let run = || random_operations(Some(bug), most, wanted, &counted).is_some();
            // A wrong script may leave a state that makes the comparison panic.
            scope.spawn(run).join().unwrap_or(true)
        })
        .then(|| counted.into_inner())
    };
    let of_partitions = ["include/owner", "include/schema"].contains(&bug.file);
    if of_partitions && found_by(by_partitions) {
        return Some(("blocks of several partitions", 0));
    }
    let wanted = meeting(bug.file);
    let is_rare = ["include/reserve", "release_each_fast"].contains(&bug.file);
    let most = if is_rare { RARE_OPS_MAX } else { MORE_OPS_MAX };
    if !wanted.is_empty()
        && let Some(operations) = by_model(most, wanted)
    {
        return Some(("model, more of its kind", operations));
    }
    if let Some(operations) = by_model(OPS_MAX, &[]) {
        return Some(("model", operations));
    }
    let by_interleavings =
        std::thread::scope(|scope| scope.spawn(|| interleavings(bug)).join().unwrap_or(Some(0)));
    if let Some(calls) = by_interleavings {
        return Some(("interleavings", calls));
    }
    found_by(by_partitions).then_some(("blocks of several partitions", 0))
}

/// The kinds of operations that reach the rare branches of a script.
fn meeting(file: &str) -> &'static [Kind] {
    match file {
        "postpone" => &[Kind::Postpone],
        "halt" => &[Kind::Halt],
        "retry_head" => &[Kind::Retry, Kind::Ingest],
        "acquire_partition" => &[Kind::Own, Kind::Pass],
        "resign_partition" => &[Kind::Own, Kind::Disown, Kind::Restart],
        "include/call" => &[Kind::Late],
        "include/suspects" | "include/rate" | "claim" | "reap" => {
            &[Kind::Claim, Kind::Reap, Kind::Fail]
        }
        "fail" => &[Kind::Define, Kind::Claim, Kind::Reap, Kind::Fail],
        "release_each_fast" => {
            &[Kind::Complete, Kind::Release, Kind::Postpone, Kind::Halt, Kind::Damage, Kind::Repair]
        }
        "complete" => &[Kind::Ingest, Kind::Claim, Kind::Complete, Kind::Pass],
        "extend" => &[Kind::Claim, Kind::Extend],
        "include/sources" => &[Kind::Ingest, Kind::Define, Kind::BeginRemove, Kind::Remove],
        "include/changes" => &[Kind::Define, Kind::BeginRemove, Kind::Remove],
        "include/heads" | "include/reserve" => &[Kind::Claim, Kind::Complete, Kind::Pause],
        "repair" | "repair_counters" => &[Kind::Damage, Kind::Repair, Kind::Withdraw],
        "include/on_arrival" => &[Kind::Ingest, Kind::Claim, Kind::Complete, Kind::Pause],
        "withdraw" => &[Kind::Withdraw, Kind::Halt, Kind::GiveUp],
        "include/settle" => &[Kind::Withdraw, Kind::CarryOut, Kind::GiveUp],
        "expire" | "discard" | "include/dead_letters" => {
            &[Kind::Discard, Kind::Expire, Kind::Withdraw, Kind::GiveUp, Kind::Pass]
        }
        _ => &[],
    }
}

/// Compares random operations. Returns the number of operations until a difference, if there is one.
fn random_operations(
    bug: Option<&Bug>,
    most: u64,
    wanted: &[Kind],
    counted: &AtomicU64,
) -> Option<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _planted = bug.map(Bug::plant);
    let mut real = runtime.block_on(Real::start());
    let mut rng = StdRng::seed_from_u64(SEED);
    while counted.load(Ordering::Relaxed) < most {
        let draws = draws_with_more_of(&mut rng, SEQUENCE_MAX, wanted);
        let mut tally = Tally::default();
        let result = runtime.block_on(compare(&mut real, &draws, &mut tally, counted));
        if let Err(found) = result {
            return Some(found);
        }
    }
    None
}

fn is_about_consumers(bug: &Bug) -> bool {
    let files = ["consume", "acknowledge", "include/consumers", "include/pulled"];
    let elsewhere = ["lease_covers", "entry.accepted", "end_refusal", "has_consumer"];
    files.contains(&bug.file) || elsewhere.iter().any(|part| bug.right.contains(part))
}

/// True if the model of consumers differs.
fn by_consumers(bug: &Bug) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _planted = bug.plant();
    runtime.block_on(async {
        let mut rng = StdRng::seed_from_u64(SEED);
        Both::start().await.compare(&mut rng, CONSUMER_OPS_MAX).await.is_err()
    })
}

fn is_about_hand_overs(bug: &Bug) -> bool {
    let elsewhere =
        ["has_head and count == 1", "return length == 0", "not definition[6]", "wake(key_wake"];
    bug.file == "include/hand_over" || elsewhere.iter().any(|part| bug.right.contains(part))
}

/// True if the check of wake-ups fails.
fn by_hand_overs(bug: &Bug) -> bool {
    fails(bug, wake_ups_carry_heads())
}

/// True if the check of blocks of several partitions fails.
fn by_partitions(bug: &Bug) -> bool {
    fails(bug, many_partitions())
}

/// True if these checks fail with this bug in the scripts.
fn fails(bug: &Bug, checks: impl Future<Output = Result<(), String>>) -> bool {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _planted = bug.plant();
    runtime.block_on(checks).is_err()
}

/// The number of calls until a small world fails.
fn interleavings(bug: &Bug) -> Option<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _planted = bug.plant();
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
