//! Checks the Redis servers: settings, memory, replicas, clocks.

use super::{
    Findings,
    Severity::{Error, Info, Warning},
    counted, named,
};
use crate::Api;
use store::{Memory, Replica, ServerState, StoreError};

/// A clock is wrong if it differs by more than this, in ms.
const CLOCK_MS_MAX: u64 = 1_000;
/// A replica is behind if its last report is older than this, in seconds.
const LAG_SECONDS_MAX: u64 = 10;
/// A replica is behind if it lacks more of the primary's writes than this, in bytes.
const BEHIND_BYTES_MAX: u64 = 64 << 20;
/// A server is nearly full if it uses at least this much of its memory or connections, in percent.
const FULL_PERCENT: u64 = 80;

/// The checks of each server.
pub(super) const CHECKS: &[&str] = &[
    "redis_writes",
    "redis_persistence",
    "redis_fsync",
    "redis_eviction",
    "redis_memory",
    "redis_connections",
    "redis_replicas",
    "clocks",
];

pub(super) async fn check(api: &Api, findings: &mut Findings) {
    for (name, state) in api.store.examine_servers().await {
        match state {
            Ok(state) => {
                writes(&name, state.refusal.as_deref(), findings);
                settings(&name, &state, findings);
                memory(&name, &state, api.memory_high_percent, findings);
                replicas(&name, &state, api.store.replicas_wanted(), findings);
                clock(&name, &state, findings);
            }
            Err(StoreError::RefusesWrites(sentence)) => {
                writes(&name, Some(&sentence), findings);
                findings.cannot_check(&CHECKS[1..], &format!("{name} refuses: {sentence}"));
            }
            Err(error) => {
                findings.add(
                    (Error, "redis_reachable"),
                    &name,
                    format!("Redis does not answer: {error}. {}", takes_along(api, &name)),
                    "Check that it runs, and that the pod can reach it. Messages of its partitions \
                     wait meanwhile.",
                );
                findings.cannot_check(CHECKS, &format!("{name} does not answer."));
            }
        }
    }
}

/// The destinations whose messages wait for this server.
fn takes_along(api: &Api, name: &str) -> String {
    let all = api.catalog.all();
    let held = api.store.held_by(&all).into_iter().find(|(server, _)| server == name);
    let held = held.map(|(_, members)| members).unwrap_or_default();
    let names: Vec<String> = held.iter().map(|at| all[*at].destination.name.to_string()).collect();
    match names.len() {
        0 => "It holds no destinations.".to_owned(),
        count => format!("It holds {}: {}.", counted(count as u64, "destination"), named(&names)),
    }
}

fn writes(name: &str, refusal: Option<&str>, findings: &mut Findings) {
    if let Some(sentence) = refusal {
        findings.add(
            (Error, "redis_writes"),
            name,
            format!("Redis refuses writes: {sentence}"),
            "Fix what the sentence names: the replicas (NOREPLICAS), the disk (MISCONF), the address, if it is that of \
             a replica (READONLY), or a script that does not end (BUSY: SCRIPT KILL).",
        );
    }
}

fn settings(name: &str, state: &ServerState, findings: &mut Findings) {
    if !state.appends {
        findings.add(
            (Warning, "redis_persistence"),
            name,
            "Redis keeps no append-only file: a restart of Redis loses messages.".to_owned(),
            "Set appendonly yes.",
        );
    }
    for what in &state.failed_writes {
        findings.add(
            (Error, "redis_persistence"),
            name,
            format!("The last attempt of Redis at {what} failed."),
            "Check the disk of Redis: its space, its rights, and the log of Redis. Redis may refuse \
             writes until it succeeds.",
        );
    }
    match state.fsync.as_deref() {
        Some("no") if state.appends => findings.add(
            (Warning, "redis_fsync"),
            name,
            "appendfsync is no: a power cut loses what the system has not written yet, often 30 s."
                .to_owned(),
            "Set appendfsync everysec, or always.",
        ),
        None => findings.add(
            (Info, "redis_fsync"),
            name,
            "The Redis user may not read appendfsync.".to_owned(),
            "Give it the rule +config|get, or check the setting yourself.",
        ),
        Some(_) => {}
    }
    if state.skips_syncs && state.appends {
        findings.add(
            (Warning, "redis_fsync"),
            name,
            "no-appendfsync-on-rewrite is yes: while Redis saves or rewrites, it does not sync, whatever appendfsync \
             says."
                .to_owned(),
            "Set no-appendfsync-on-rewrite no.",
        );
    }
    if state.policy != "noeviction" {
        let policy = &state.policy;
        findings.add(
            (Error, "redis_eviction"),
            name,
            format!(
                "maxmemory-policy is {policy}: Redis deletes messages when its memory is full."
            ),
            "Set maxmemory-policy noeviction.",
        );
    }
    if state.evicted > 0 {
        findings.add(
            (Error, "redis_eviction"),
            name,
            format!(
                "Redis has deleted {} to free memory since it started.",
                counted(state.evicted, "key")
            ),
            "Set maxmemory-policy noeviction, and run reseq repair for each destination.",
        );
    }
    if is_full(state.clients, state.clients_max) {
        findings.add(
            (Warning, "redis_connections"),
            name,
            format!("{} of {} connections are open.", state.clients, state.clients_max),
            "Raise maxclients of Redis, or lower redis.connections of the pods.",
        );
    }
}

fn memory(name: &str, state: &ServerState, high_percent: u8, findings: &mut Findings) {
    let memory = Memory { used: state.used, max: state.max };
    let mb = |bytes: u64| bytes >> 20;
    let (used, max) = (mb(state.used), mb(state.max));
    if memory.is_at(high_percent) {
        findings.add(
            (Error, "redis_memory"),
            name,
            format!(
                "{used} of {max} MiB are used: from {high_percent} % on (ingest.memory_high_percent), \
                 Reseq accepts no messages."
            ),
            "Raise maxmemory, or find what fills it: reseq status, reseq dead-letters list.",
        );
    } else if is_full(state.used, state.max) {
        findings.add(
            (Warning, "redis_memory"),
            name,
            format!("{used} of {max} MiB are used."),
            "Raise maxmemory, or find what fills it: reseq status, reseq dead-letters list.",
        );
    } else if state.max == 0 {
        let of_machine = mb(state.of_machine);
        findings.add(
            (Warning, "redis_memory"),
            name,
            format!("maxmemory is not set: a long backlog can use all {of_machine} MiB of the machine."),
            "Set maxmemory to about 70 % of the machine's memory: then Reseq refuses messages in time.",
        );
    }
}

fn replicas(name: &str, state: &ServerState, wanted: u32, findings: &mut Findings) {
    let online = state.replicas.iter().filter(|replica| replica.is_online).count() as u64;
    if online < u64::from(wanted) {
        findings.add(
            (Error, "redis_replicas"),
            name,
            format!("{online} of {} are online (redis.replicas).", counted(wanted.into(), "replica")),
            "Start the missing replicas. Until then, messages with durability replicated are refused.",
        );
    }
    for Replica { address, is_online, lag_seconds, bytes_behind } in &state.replicas {
        if !is_online {
            let summary = format!("The replica {address} does not follow its primary.");
            let action = "Check that it runs, and read its log.";
            findings.add((Warning, "redis_replicas"), name, summary, action);
        } else if *lag_seconds > LAG_SECONDS_MAX || *bytes_behind > BEHIND_BYTES_MAX {
            let behind = bytes_behind >> 20;
            findings.add(
                (Warning, "redis_replicas"),
                name,
                format!(
                    "The replica {address} is behind: it last reported {lag_seconds} s ago, and lacks \
                     {behind} MiB. A failover to it would lose these writes."
                ),
                "Check its network and its load.",
            );
        }
    }
}

fn clock(name: &str, state: &ServerState, findings: &mut Findings) {
    let off = state.ahead_ms.unsigned_abs().saturating_sub(state.round_trip_ms);
    if off <= CLOCK_MS_MAX {
        return;
    }
    let (seconds, direction) = match state.ahead_ms {
        ahead if ahead > 0 => (off as f64 / 1e3, "ahead of"),
        _ => (off as f64 / 1e3, "behind"),
    };
    findings.add(
        (Warning, "clocks"),
        name,
        format!("The clock of Redis is {seconds:.1} s {direction} that of the pod that answers."),
        "Synchronise both clocks with NTP. Reseq uses the clock of Redis; the times that producers give \
         (due_at) and those in logs of pods may be off by this much.",
    );
}

fn is_full(used: u64, max: u64) -> bool {
    max > 0 && u128::from(used) * 100 >= u128::from(max) * u128::from(FULL_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Finding;

    fn healthy() -> ServerState {
        ServerState {
            policy: "noeviction".to_owned(),
            used: 10 << 20,
            max: 100 << 20,
            appends: true,
            fsync: Some("everysec".to_owned()),
            clients: 10,
            clients_max: 10_000,
            ..ServerState::default()
        }
    }

    fn found(state: &ServerState, wanted: u32) -> Vec<(super::super::Severity, &'static str)> {
        let mut findings = Findings::default();
        writes("redis", state.refusal.as_deref(), &mut findings);
        settings("redis", state, &mut findings);
        memory("redis", state, 90, &mut findings);
        replicas("redis", state, wanted, &mut findings);
        clock("redis", state, &mut findings);
        findings.sort();
        let all = findings.found;
        assert!(all.iter().all(|Finding { action, .. }| !action.is_empty()), "{all:?}");
        all.into_iter().map(|finding| (finding.severity, finding.check)).collect()
    }

    #[test]
    fn each_bad_setting_is_found_and_a_good_server_is_not() {
        assert_eq!(found(&healthy(), 0), []);
        let replica = |lag_seconds, is_online| Replica {
            address: "10.0.0.7:6379".to_owned(),
            is_online,
            lag_seconds,
            bytes_behind: 0,
        };
        for (state, wanted, expected) in [
            (ServerState { appends: false, ..healthy() }, 0, (Warning, "redis_persistence")),
            (
                ServerState { failed_writes: vec!["saving a snapshot"], ..healthy() },
                0,
                (Error, "redis_persistence"),
            ),
            (ServerState { fsync: Some("no".into()), ..healthy() }, 0, (Warning, "redis_fsync")),
            (ServerState { fsync: None, ..healthy() }, 0, (Info, "redis_fsync")),
            (ServerState { skips_syncs: true, ..healthy() }, 0, (Warning, "redis_fsync")),
            (
                ServerState { refusal: Some("NOREPLICAS".into()), ..healthy() },
                0,
                (Error, "redis_writes"),
            ),
            (
                ServerState { policy: "allkeys-lru".into(), ..healthy() },
                0,
                (Error, "redis_eviction"),
            ),
            (ServerState { evicted: 1, ..healthy() }, 0, (Error, "redis_eviction")),
            (ServerState { max: 0, ..healthy() }, 0, (Warning, "redis_memory")),
            (ServerState { used: 85 << 20, ..healthy() }, 0, (Warning, "redis_memory")),
            (ServerState { used: 95 << 20, ..healthy() }, 0, (Error, "redis_memory")),
            (ServerState { clients: 9_000, ..healthy() }, 0, (Warning, "redis_connections")),
            (healthy(), 1, (Error, "redis_replicas")),
            (
                ServerState { replicas: vec![replica(60, true)], ..healthy() },
                1,
                (Warning, "redis_replicas"),
            ),
            (
                ServerState { replicas: vec![replica(0, false)], ..healthy() },
                0,
                (Warning, "redis_replicas"),
            ),
            (ServerState { ahead_ms: -5_000, ..healthy() }, 0, (Warning, "clocks")),
        ] {
            assert_eq!(found(&state, wanted), [expected], "{state:?}");
        }
        // An answer that took long says little of the clock.
        let slow = ServerState { ahead_ms: 1_500, round_trip_ms: 1_000, ..healthy() };
        assert_eq!(found(&slow, 0), []);
    }
}
