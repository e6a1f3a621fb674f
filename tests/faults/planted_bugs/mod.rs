//! Each scenario passes without a bug, and shows a named anomaly with each bug planted for it.
#![cfg(all(feature = "pause-points", feature = "planted-bugs"))]

use std::{
    collections::{BTreeSet, VecDeque},
    fs,
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Instant,
};

use scenario::Anomaly;
use scenarios::Ended;
use support::source::{code_of, files};

mod clocks;
mod scenario;
mod scenarios;
use crate::support;

/// The most scenarios that run at the same time.
const AT_ONCE: usize = 4;

type Running = Pin<Box<dyn Future<Output = Ended>>>;

/// A scenario, and the means that make its race certain.
struct Of {
    name: &'static str,
    layer: &'static str,
    run: fn(Option<String>) -> Running,
}

macro_rules! scenario {
    ($name:ident, $layer:literal) => {
        Of { name: stringify!($name), layer: $layer, run: |bug| Box::pin(scenarios::$name(bug)) }
    };
    ($name:ident of $file:ident, $layer:literal) => {
        Of { name: stringify!($name), layer: $layer, run: |bug| Box::pin($file::$name(bug)) }
    };
}

const SCENES: &[Of] = &[
    scenario!(failures, "journey"),
    scenario!(unclear_answers, "journey"),
    scenario!(many_in_one_call, "requests"),
    scenario!(batches, "pause points"),
    scenario!(lost_answer, "pause points"),
    scenario!(full, "pause points"),
    scenario!(dies_before_the_call, "pause points"),
    scenario!(dies_before_the_answer, "pause points"),
    scenario!(dies_with_claims, "pause points"),
    scenario!(owner_is_late, "pause points"),
    scenario!(owner_is_late_for_an_epoch, "pause points"),
    scenario!(owner_is_forgotten of clocks, "pause points"),
    scenario!(clock_steps_forward of clocks, "moved clock"),
    scenario!(clock_steps_back of clocks, "moved clock"),
    scenario!(owner_dies_after_a_refusal, "pause points"),
    scenario!(owner_drains, "pause points"),
    scenario!(made_again, "pause points"),
    scenario!(late_hand_overs, "pause points"),
];

/// Each bug, its description, the scenario that must find it, and the anomalies that prove it.
/// With two anomalies: a request sent before the previous answer may also overtake that request.
const BUGS: &[(&str, &str, &str, &[Anomaly])] = &[
    (
        "accepted_when_sent",
        "settles before the receiver's answer",
        "failures",
        &[Anomaly::Lost, Anomaly::Reordered],
    ),
    ("two_in_flight", "two requests of a lane at once", "failures", &[Anomaly::Reordered]),
    ("wake_and_poll_lost", "wake-up and poll both lost", "failures", &[Anomaly::Stuck]),
    ("leases_not_extended", "leases are never extended", "failures", &[Anomaly::ProcessedTwice]),
    ("unclear_is_yes", "an unclear answer accepts all", "unclear_answers", &[Anomaly::Lost]),
    (
        "answers_of_blocks_shifted",
        "of a call for several callers, each gets the answer of the next one",
        "many_in_one_call",
        &[Anomaly::Reordered],
    ),
    ("batches_side_by_side", "ingest calls not in turn", "batches", &[Anomaly::Reordered]),
    ("answer_not_kept", "a lost call runs again", "lost_answer", &[Anomaly::Doubled]),
    (
        "failed_session_goes_on",
        "later frames overtake a refused one",
        "full",
        &[Anomaly::Overtaken],
    ),
    ("answered_early", "answers before Redis did", "dies_before_the_call", &[Anomaly::Lost]),
    (
        "idempotency_key_dropped",
        "the key is lost on the way",
        "dies_before_the_answer",
        &[Anomaly::Doubled],
    ),
    ("housekeeping_skipped", "nothing overdue is taken up", "dies_with_claims", &[Anomaly::Stuck]),
    (
        "partition_lease_end_ignored",
        "sends on when its partition lease is over",
        "owner_is_late",
        &[Anomaly::TwoOwners],
    ),
    (
        "vouches_after_its_lease",
        "vouches though another may send",
        "owner_is_late_for_an_epoch",
        &[Anomaly::TwoOwners],
    ),
    (
        "takeover_wait_skipped",
        "does not wait for an owner that Redis has forgotten",
        "owner_is_forgotten",
        &[Anomaly::TwoOwners],
    ),
    (
        "owner_unseen",
        "takes a partition whose owner renews its lease",
        "clock_steps_forward",
        &[Anomaly::TwoOwners, Anomaly::Stuck],
    ),
    (
        "clock_step_unnoticed",
        "leases and backoffs do not move with a clock that steps back",
        "clock_steps_back",
        &[Anomaly::Stuck],
    ),
    (
        "backoff_forgotten",
        "a refused head does not wait",
        "owner_dies_after_a_refusal",
        &[Anomaly::AttemptForgotten],
    ),
    (
        "drain_settles_nothing",
        "draining drops what is in hand",
        "owner_drains",
        &[Anomaly::Repeated],
    ),
    (
        "generation_ignored",
        "keeps what it holds of a removed destination",
        "made_again",
        &[Anomaly::Lost],
    ),
    (
        "late_hand_over_taken",
        "a wake-up that carries a message is obeyed whenever it comes",
        "late_hand_overs",
        &[Anomaly::Repeated],
    ),
];

/// The bugs of the table that are in a script: the file in `lua/`, the correct text, which occurs once there, and the
/// wrong text.
const IN_SCRIPTS: &[(&str, &str, &str, &str)] = &[
    (
        "leases_not_extended",
        "extend",
        "if #scores > 0 then redis.call('ZADD', key_leases, 'XX', unpack(scores)) end",
        "",
    ),
    (
        "wake_and_poll_lost",
        "complete",
        "    redis.call('ZADD', key_releasable, '0', destination)
    wake(key_wake_releasable, destination)",
        "",
    ),
    (
        "answers_of_blocks_shifted",
        "include/blocks",
        "answers[answered + 1], answers[answered + 2] = is_answer, answer",
        "table.insert(answers, 1, answer) table.insert(answers, 1, is_answer)",
    ),
    (
        "answer_not_kept",
        "include/call",
        "redis.call('SET', key, cmsgpack.pack({number, answer}), 'PXAT', text(math.ceil(number / 1000)))",
        "",
    ),
    (
        "idempotency_key_dropped",
        "ingest",
        "remember[#remember + 1] = {index, math.max(0, (due or 0) - now)}",
        "",
    ),
    (
        "housekeeping_skipped",
        "reap",
        "local now = now_ms()",
        "if key_leases then return {0, 0, 0} end local now = now_ms()",
    ),
    ("owner_unseen", "acquire_partition", "own_token .. ' ' .. lease_ms", "own_token .. ' 0'"),
    ("clock_step_unnoticed", "step_back", "back_ms = tonumber(back_ms)", "back_ms = 0"),
    ("backoff_forgotten", "postpone", "keep_attempts(key_attempts, sequence, attempts)", ""),
];

/// The variable of a process that plants this bug. Writes the script with the bug into `folder`.
fn variable_of(bug: &str, folder: &Path) -> (String, String) {
    let Some((_, name, right, wrong)) = IN_SCRIPTS.iter().find(|(name, ..)| *name == bug) else {
        return ("RESEQ_PLANTED_BUG".into(), bug.into());
    };
    let lua = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua");
    let text = fs::read_to_string(lua.join(name).with_extension("lua")).unwrap();
    assert_eq!(text.matches(right).count(), 1, "lua/{name}.lua must have once: {right}");
    let file = folder.join(name).with_extension("lua");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, text.replace(right, wrong)).unwrap();
    ("RESEQ_PLANTED_SCRIPTS".into(), folder.to_str().unwrap().into())
}

/// The names of planted bugs that the code checks, and those in scripts.
fn names_planted() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files("src", "rs").into_iter().chain(files("crates", "rs")) {
        let code = code_of(&path);
        let asked = code.split("planted::is(\"").skip(1);
        names.extend(asked.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    names.extend(IN_SCRIPTS.iter().map(|(bug, ..)| (*bug).to_owned()));
    names
}

#[test]
fn table_names_the_bugs_that_the_code_and_scripts_have() {
    let listed: BTreeSet<String> = BUGS.iter().map(|(bug, ..)| (*bug).to_owned()).collect();
    assert_eq!(listed, names_planted());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_planted_bug_is_caught_and_nothing_is_without_one() {
    let _one_at_a_time = crate::ALL_PROCESSORS.lock().await;
    let begun = Instant::now();
    let only = std::env::var("RESEQ_CASES").ok();
    let chosen = |name: &str| only.as_ref().is_none_or(|only| name.contains(only));
    let clean = SCENES.iter().map(|of| (of.name, None));
    let planted = BUGS.iter().map(|(bug, _, scenario, _)| (*scenario, Some(*bug)));
    let queue: VecDeque<_> =
        clean.chain(planted).filter(|(scenario, bug)| chosen(bug.unwrap_or(scenario))).collect();
    let planned = queue.len();
    let (queue, ended) = (Arc::new(Mutex::new(queue)), Arc::new(Mutex::new(Vec::new())));
    let runs = async {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|_| {
                let (queue, ended) = (queue.clone(), ended.clone());
                tokio::task::spawn_local(async move {
                    let next = || queue.lock().unwrap().pop_front();
                    while let Some((scenario, bug)) = next() {
                        let of = SCENES.iter().find(|of| of.name == scenario).unwrap();
                        let begun = Instant::now();
                        let found = (of.run)(bug.map(str::to_owned)).await;
                        let ms = begun.elapsed().as_millis();
                        ended.lock().unwrap().push((of, bug, found, ms));
                    }
                })
            })
            .collect();
        for worker in workers {
            worker.await.expect("every scenario can be played");
        }
    };
    tokio::task::LocalSet::new().run_until(runs).await;
    let ended = std::mem::take(&mut *ended.lock().unwrap());
    assert_eq!(ended.len(), planned);
    println!("| bug | what it does | caught by | as | after messages |\n|---|---|---|---|---|");
    let mut wrong = Vec::new();
    for (of, bug, (verdict, sent), ms) in &ended {
        let expected = BUGS.iter().find(|(name, ..)| Some(*name) == *bug);
        match (expected, verdict) {
            (Some((bug, what, _, anomalies)), Err(found)) if anomalies.contains(found) => {
                println!("| `{bug}` | {what} | {} | {found} | {sent} |", of.layer);
            }
            (None, Ok(())) => {}
            _ => wrong.push(format!("{} with {bug:?}: {verdict:?} after {ms} ms", of.name)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    println!("{planned} runs in {} s", begun.elapsed().as_secs());
}
