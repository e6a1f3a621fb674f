//! Each scenario passes without a bug, and shows a named anomaly with each bug planted for it.
#![cfg(all(feature = "pause-points", feature = "planted-bugs"))]

use std::{
    collections::{BTreeSet, VecDeque},
    pin::Pin,
    sync::{Arc, Mutex},
    time::Instant,
};

use scenario::Anomaly;
use scenarios::Ended;
use support::source::{code_of, files};

mod clocks;
mod crowd;
mod scenario;
mod scenarios;
mod strangers;
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
    scenario!(sent_twice, "journey"),
    scenario!(receiver_fails, "journey"),
    scenario!(deep_body, "journey"),
    scenario!(damaged_lane, "journey"),
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
    scenario!(worker_hangs_up, "sockets"),
    scenario!(closes_its_direction, "pause points"),
    scenario!(made_again, "pause points"),
    scenario!(late_hand_overs, "pause points"),
    scenario!(comes_and_goes, "journey"),
    scenario!(forged, "journey"),
    scenario!(defined_again, "journey"),
    scenario!(tokens of strangers, "requests"),
    scenario!(callers_without_tokens of strangers, "requests"),
    scenario!(forbidden_receiver of strangers, "journey"),
    scenario!(rebound_receiver of strangers, "journey"),
    scenario!(beyond_limits of strangers, "requests"),
    scenario!(sessions of strangers, "requests"),
    scenario!(without_credentials of strangers, "requests"),
    scenario!(hogs of crowd, "journey"),
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
    ("retry_restamped", "a failed transform arrives anew", "failures", &[Anomaly::Reordered]),
    ("epoch_ignored", "ingest keeps its old epoch", "failures", &[Anomaly::Stuck]),
    ("leases_not_extended", "leases are never extended", "failures", &[Anomaly::ProcessedTwice]),
    ("unclear_is_yes", "an unclear answer accepts all", "unclear_answers", &[Anomaly::Lost]),
    ("headers_ignored", "headers beside JSON do nothing", "sent_twice", &[Anomaly::Doubled]),
    ("deep_body_embedded", "any JSON is embedded in leases", "deep_body", &[Anomaly::Stuck]),
    ("damage_unnamed", "what is damaged is not noted", "damaged_lane", &[Anomaly::Unnamed]),
    (
        "answers_of_blocks_shifted",
        "of a call for several callers, each gets the answer of the next one",
        "many_in_one_call",
        &[Anomaly::Reordered],
    ),
    ("batches_side_by_side", "ingest calls not in turn", "batches", &[Anomaly::Reordered]),
    ("call_renumbered", "a lost call again as a new one", "lost_answer", &[Anomaly::Doubled]),
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
        "probe_never_ends",
        "waits for ever for the probe of a receiver that fails",
        "receiver_fails",
        &[Anomaly::Stuck],
    ),
    (
        "probe_reorders",
        "probes a receiver with the message behind the head of a lane",
        "receiver_fails",
        &[Anomaly::Reordered],
    ),
    (
        "drain_settles_nothing",
        "draining drops what is in hand",
        "owner_drains",
        &[Anomaly::Repeated],
    ),
    (
        "lost_leases_kept",
        "leases of an answer that was lost last to their end",
        "worker_hangs_up",
        &[Anomaly::Stuck],
    ),
    (
        "end_of_input_is_the_end",
        "a client that closed its direction gets no answer",
        "closes_its_direction",
        &[Anomaly::Unanswered],
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
    ("signature_unchecked", "any signature is right", "forged", &[Anomaly::Admitted]),
    (
        "signature_prefix_compared",
        "only the beginning of a signature is compared",
        "forged",
        &[Anomaly::Admitted],
    ),
    ("signature_time_unchecked", "a signature never expires", "forged", &[Anomaly::Admitted]),
    (
        "secrets_compared_as_stored",
        "secrets are compared encrypted",
        "defined_again",
        &[Anomaly::ChangedByNothing],
    ),
    ("gone_series_kept", "series of what is gone go on", "comes_and_goes", &[Anomaly::Stuck]),
    (
        "destinations_of_token_ignored",
        "a token that lists a destination is good for all",
        "tokens",
        &[Anomaly::Admitted],
    ),
    ("end_of_token_ignored", "an expired token is good", "tokens", &[Anomaly::Admitted]),
    (
        "revocation_not_followed",
        "another pod accepts a token that was revoked",
        "tokens",
        &[Anomaly::Admitted],
    ),
    (
        "sign_out_not_followed",
        "a session of the console goes on after signing out",
        "sessions",
        &[Anomaly::Admitted],
    ),
    (
        "unverified_kept",
        "a connection with a request keeps its place, though it has shown no token",
        "without_credentials",
        &[Anomaly::Stuck],
    ),
    (
        "auth_not_awaited",
        "a TCP connection that has shown no token stays open",
        "without_credentials",
        &[Anomaly::Stuck],
    ),
    (
        "host_unchecked",
        "without tokens, web pages of other hosts are answered",
        "callers_without_tokens",
        &[Anomaly::Admitted],
    ),
    (
        "http_taken_for_frames",
        "each line of an HTTP request is a message at a TCP listener",
        "callers_without_tokens",
        &[Anomaly::Admitted],
    ),
    (
        "one_address_of_redis",
        "the own Redis may be a receiver at another address of this machine",
        "callers_without_tokens",
        &[Anomaly::LetOut],
    ),
    (
        "unknown_names_told",
        "a token for some destinations learns which topics there are",
        "tokens",
        &[Anomaly::Admitted],
    ),
    ("audit_flooded", "one token fills the audit log at once", "tokens", &[Anomaly::Admitted]),
    (
        "client_certificate_not_required",
        "a listener that wants certificates serves clients without one",
        "callers_without_tokens",
        &[Anomaly::Admitted],
    ),
    (
        "connection_unchecked",
        "the address of a receiver is checked when it is defined, and not when it is connected to",
        "forbidden_receiver",
        &[Anomaly::LetOut],
    ),
    (
        "tcp_connection_unchecked",
        "a name that got another address since the definition is connected to over TCP",
        "rebound_receiver",
        &[Anomaly::LetOut],
    ),
    (
        "rates_not_kept",
        "tokens and destinations take more messages than their rates allow",
        "beyond_limits",
        &[Anomaly::Admitted],
    ),
    (
        "ambiguous_requests_read",
        "a request whose length can be read in two ways is read",
        "beyond_limits",
        &[Anomaly::Admitted],
    ),
    ("slow_bodies_kept", "a body may take any time", "beyond_limits", &[Anomaly::Stuck]),
    (
        "counts_without_limit",
        "an address has any number of connections",
        "beyond_limits",
        &[Anomaly::Admitted],
    ),
    ("place_not_given_back", "a connection keeps its place for ever", "hogs", &[Anomaly::Stuck]),
    ("share_without_halves", "a destination may have all connections", "hogs", &[Anomaly::Stuck]),
    ("lookups_not_shared", "each delivery looks the name up", "hogs", &[Anomaly::Repeated]),
];

/// The names of planted bugs that the code checks.
fn names_in_the_code() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files("src", "rs").into_iter().chain(files("crates", "rs")) {
        let code = code_of(&path);
        let asked = code.split("planted::is(\"").skip(1);
        names.extend(asked.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    names
}

#[test]
fn the_table_names_the_bugs_that_the_code_has() {
    let listed: BTreeSet<String> = BUGS.iter().map(|(bug, ..)| (*bug).to_owned()).collect();
    assert_eq!(listed, names_in_the_code());
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
