//! Checks the pods, the partitions, the schema, the rights of the Redis user, and damaged data.

use super::{
    Findings,
    Severity::{Error, Warning},
    counted, named,
};
use crate::Api;
use store::{Damaged, PodInfo, known_schema};

pub(super) async fn check(api: &Api, findings: &mut Findings) {
    match api.store.pods().await {
        Ok(pods) => {
            roles(&pods, findings);
            clocks(api.store.pod(), &pods, findings);
            schemas(api, &pods, findings).await;
            partitions(api, &pods, findings).await;
        }
        Err(error) => findings.cannot_check(
            &["clocks", "pods", "schema", "partitions"],
            &format!("The heartbeats of the pods cannot be read: {error}."),
        ),
    }
    rights(api, findings);
    api.store.look_at_damage().await;
    for Damaged { location, call, problem } in api.store.damaged() {
        findings.add(
            (Error, "damage"),
            &location.to_string(),
            format!("Redis holds data that cannot be used: {call}: {problem}."),
            "Find and repair it: reseq repair DESTINATION --dry-run.",
        );
    }
}

fn roles(pods: &[PodInfo], findings: &mut Findings) {
    // The first heartbeat of a pod does not name its roles.
    if pods.iter().any(|pod| pod.roles.is_empty()) {
        return;
    }
    for (role, effect) in [
        ("ingest", "messages are not accepted"),
        ("processor", "built-in transforms do not run"),
        ("sender", "nothing is delivered"),
    ] {
        if !pods.iter().any(|pod| pod.has_role(role)) {
            findings.add(
                (Error, "pods"),
                "",
                format!("No pod has the role {role}: {effect}."),
                format!("Start one: reseq serve --roles {role}."),
            );
        }
    }
}

/// Checks the clocks of the other pods, which their heartbeats report. The clock of this pod is compared with each
/// server.
fn clocks(this: &str, pods: &[PodInfo], findings: &mut Findings) {
    for pod in pods.iter().filter(|pod| pod.clock_ahead_s != 0 && pod.pod != this) {
        let direction = if pod.clock_ahead_s > 0 { "ahead of" } else { "behind" };
        let (seconds, host) = (pod.clock_ahead_s.unsigned_abs(), &pod.host);
        findings.add(
            (Warning, "clocks"),
            &pod.pod,
            format!("The clock of this pod ({host}) is {seconds} s {direction} that of Redis."),
            "Synchronise both clocks with NTP. The times in its log are off by this much.",
        );
    }
}

async fn schemas(api: &Api, pods: &[PodInfo], findings: &mut Findings) {
    let (mut stored, mut unread) = (known_schema(), None);
    for schema in api.store.schema_of_each().await {
        match schema {
            Ok(schema) => stored = stored.min(schema),
            Err(error) => unread = Some(error),
        }
    }
    if let Some(error) = unread {
        let reason = format!("The schema of some partitions cannot be read: {error}.");
        findings.cannot_check(&["schema"], &reason);
    }
    let least = pods.iter().map(|pod| pod.schema).min().unwrap_or(known_schema());
    let older: Vec<String> =
        pods.iter().filter(|pod| pod.schema < known_schema()).map(|pod| pod.pod.clone()).collect();
    if !older.is_empty() {
        findings.add(
            (Warning, "schema"),
            "",
            format!("These pods know only schema {least} and earlier: {}.", named(&older)),
            "Finish the upgrade of all pods, then run reseq migrate.",
        );
    } else if stored < known_schema() {
        findings.add(
            (Warning, "schema"),
            "",
            format!(
                "Redis holds data of schema {stored}; all pods know schema {}.",
                known_schema()
            ),
            "Run reseq migrate.",
        );
    }
}

async fn partitions(api: &Api, pods: &[PodInfo], findings: &mut Findings) {
    let all = api.store.keys().partitions();
    let owned = |partition: &u16| pods.iter().any(|pod| pod.partitions.contains(partition));
    let mut free: Vec<u16> = (0..all).filter(|partition| !owned(partition)).collect();
    // The owner of a partition is unknown while its server does not answer.
    let owners = api.store.owners(&free).await;
    let unread: Vec<u16> =
        free.iter().zip(&owners).filter(|(_, owner)| owner.is_err()).map(|(at, _)| *at).collect();
    if let Some(error) = owners.into_iter().find_map(Result::err) {
        let count = counted(unread.len() as u64, "partition");
        let reason = format!("The owner of {count} cannot be read: {error}.");
        findings.cannot_check(&["partitions"], &reason);
    }
    free.retain(|partition| !unread.contains(partition));
    if free.is_empty() {
        return;
    }
    let used = api.catalog.all();
    let waiting = used.iter().filter(|entry| free.contains(&entry.partition)).count() as u64;
    // A partition without destinations delivers nothing.
    if waiting > 0 {
        findings.add(
            (Error, "partitions"),
            "",
            format!(
                "{} of {all} have no owner: nothing is delivered for {}.",
                counted(free.len() as u64, "partition"),
                counted(waiting, "destination")
            ),
            "Wait for sender.lease_ms after a start, a crash or a failover. Pods that are killed more \
             often deliver nothing. Otherwise check the pods with the role sender, and their logs.",
        );
    }
}

fn rights(api: &Api, findings: &mut Findings) {
    let missing = api.store.missing_rights();
    if let Some(sentence) = missing.rights_sentence() {
        findings.add(
            (Error, "redis_rights"),
            "",
            format!("{sentence}."),
            "Give it these rules (ACL SETUSER).",
        );
    }
    if let Some(sentence) = missing.hints_sentence() {
        findings.add(
            (Warning, "redis_rights"),
            "",
            format!("{sentence}."),
            "Give it these rules (ACL SETUSER).",
        );
    }
}
