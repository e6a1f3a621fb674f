//! `GET /v1/doctor`: problems of this deployment, and how to solve them.

mod definitions;
mod deployment;
mod destinations;
pub(crate) mod expiry;
mod sentinels;
mod servers;

use axum::{Extension, Json, extract::State};
use serde::Serialize;
use utoipa::ToSchema;

use super::{Api, views::rfc3339};
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{StoreError, known_schema, server_clock_ms};

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Severity {
    /// Messages wait, are refused, or may be lost.
    Error,
    /// Something that may become an error.
    Warning,
    /// A fact that is worth knowing.
    Info,
}

/// Something that an operator should know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct Finding {
    severity: Severity,
    /// The check that found the problem: one of `checks`.
    check: &'static str,
    /// The subject: a server, a pod or a destination; empty for the whole deployment.
    subject: String,
    /// The finding, in one sentence.
    summary: String,
    /// The remedy.
    action: String,
}

/// A check that could not run, or only in part. It has neither passed nor failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(super) struct NotChecked {
    /// The check: one of `checks`.
    check: &'static str,
    /// Why the check could not run, in one sentence.
    reason: String,
}

/// The checks that ran, and their findings.
#[derive(Serialize, ToSchema)]
pub(super) struct Report {
    /// The pod that answers. The checks of the clock, the rights and the damage show what this pod knows.
    pod: String,
    /// The version of this pod.
    version: &'static str,
    /// The newest schema that this pod knows.
    schema: u32,
    #[schema(format = DateTime)]
    checked_at: String,
    /// The names of all checks. A check has passed if it has no finding and is not in `not_checked`.
    checks: Vec<&'static str>,
    /// The findings, the worst first.
    findings: Vec<Finding>,
    not_checked: Vec<NotChecked>,
}

/// The checks, in the order in which they are listed.
const CHECKS: &[&str] = &[
    "redis_reachable",
    "redis_writes",
    "redis_persistence",
    "redis_fsync",
    "redis_eviction",
    "redis_memory",
    "redis_connections",
    "redis_replicas",
    "redis_sentinels",
    "redis_rights",
    "clocks",
    "pods",
    "schema",
    "partitions",
    "damage",
    "definitions",
    "credentials",
    "expiry",
    "stuck_lanes",
    "paused",
    "backlogs",
    "dead_letters",
];

/// Collects findings.
#[derive(Default)]
struct Findings {
    found: Vec<Finding>,
    not_checked: Vec<NotChecked>,
}

impl Findings {
    fn add(
        &mut self,
        (severity, check): (Severity, &'static str),
        subject: &str,
        summary: String,
        action: impl Into<String>,
    ) {
        debug_assert!(CHECKS.contains(&check), "{check} is not in CHECKS");
        let (subject, action) = (subject.to_owned(), action.into());
        self.found.push(Finding { severity, check, subject, summary, action });
    }

    /// Notes that these checks could not run.
    fn cannot_check(&mut self, checks: &[&'static str], reason: &str) {
        for check in checks {
            debug_assert!(CHECKS.contains(check), "{check} is not in CHECKS");
            let reason = reason.to_owned();
            self.not_checked.push(NotChecked { check, reason });
        }
    }

    fn sort(&mut self) {
        let place = |check| CHECKS.iter().position(|known| *known == check);
        self.found.sort_by_key(|finding| (finding.severity, place(finding.check)));
        self.not_checked.sort_by_key(|one| place(one.check));
    }
}

/// `GET /v1/doctor`
#[utoipa::path(get, path = "/v1/doctor", tag = "health", operation_id = "doctor",
    responses((status = 200, description = "What was checked and found", body = Report),
        openapi_responses::Reads))]
pub(super) async fn doctor(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
) -> Result<Json<Report>, Problem> {
    caller.check_unlimited()?;
    let mut findings = Findings::default();
    servers::check(&api, &mut findings).await;
    sentinels::check(&api, &mut findings).await;
    expiry::check(&api, &mut findings);
    match api.store.ping().await {
        // With a full disk, a server refuses even PING, but still answers reads.
        Ok(()) | Err(StoreError::RefusesWrites(_)) => {
            deployment::check(&api, &mut findings).await;
            definitions::check(&api, &mut findings).await;
            destinations::check(&api, &mut findings).await;
        }
        // Without Redis, no other check can run.
        Err(error) => {
            let made = ["redis_reachable", "redis_sentinels", "expiry"];
            let of_servers = [&made, servers::CHECKS].concat();
            let others = CHECKS.iter().copied().filter(|check| !of_servers.contains(check));
            findings.cannot_check(&others.collect::<Vec<_>>(), &format!("{error}."));
        }
    }
    findings.sort();
    Ok(Json(Report {
        pod: api.store.pod().to_owned(),
        version: env!("CARGO_PKG_VERSION"),
        schema: known_schema(),
        checked_at: rfc3339(server_clock_ms()),
        checks: CHECKS.to_vec(),
        findings: findings.found,
        not_checked: findings.not_checked,
    }))
}

/// The first of these names, and how many more there are.
fn named(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// One finding for the destinations that have no finding of their own.
fn others_too(
    names: Vec<String>,
    kind: (Severity, &'static str),
    what: &str,
    action: &str,
    findings: &mut Findings,
) {
    if !names.is_empty() {
        let summary = format!("Others {what}, too: {}.", named(&names));
        findings.add(kind, "", summary, action);
    }
}

fn counted(count: u64, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}
