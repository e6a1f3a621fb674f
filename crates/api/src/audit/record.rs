//! Records the actions of operators: one entry for each request that changes something, except the requests of
//! producers and workers.
//!
//! The route decides whether a request is recorded, and nothing that the client sends. A separate task writes the
//! entry, and continues if the client leaves. If Redis refuses the entry, the action stays done: the process logs the
//! entry, and a metric counts it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::{
    extract::{RawPathParams, Request},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse, Response},
};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;

use super::entry::Entry;
use crate::{RequestId, docs};
use domain::{DestinationName, Scope, excerpt::excerpt};
use formats::code::Code;
use http_server::{client_connection::ClientConnection, principal::Principal, problem::Problem};
use store::{Author, Store};

/// Each token may fill `1 / SHARES` of the log at once, and then add one entry per `ENTRY_EVERY`.
const SHARES: usize = 10;
const ENTRY_EVERY: Duration = Duration::from_secs(1);

tokio::task_local! {
    /// The action of the current request.
    static CURRENT: Arc<Action>;
}

/// Writes the audit log. Cheap to clone.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    store: Store,
    entries_max: usize,
    /// The writes that are in flight.
    tasks: TaskTracker,
    /// For each token that has used its share of the log: when the share is free again.
    filled: Mutex<HashMap<Arc<str>, Instant>>,
}

impl Recorder {
    /// A recorder that keeps this many entries. The writes run on `tasks`.
    pub fn new(store: Store, entries_max: usize, tasks: TaskTracker) -> Recorder {
        Recorder(Arc::new(Shared { store, entries_max, tasks, filled: Mutex::default() }))
    }

    /// Refuses an action of a token that has filled its share of the log: with more entries, it could push out entries
    /// of others, or its own. A caller with the scope `admin` for all destinations has no such limit.
    fn admit(&self, caller: &Principal) -> Result<(), Problem> {
        if caller.is_unlimited() && caller.grant().allows(Scope::Admin) {
            return Ok(());
        }
        let entries = u32::try_from(self.0.entries_max / SHARES).unwrap_or(u32::MAX).max(1);
        let (share, now) = (ENTRY_EVERY.saturating_mul(entries), Instant::now());
        let mut filled = self.0.filled.lock();
        filled.retain(|_, until| *until > now);
        let until = filled.get(&caller.who).map_or(now, |until| *until) + ENTRY_EVERY;
        if until > now + share {
            let detail = format!(
                "this token has filled its share of the audit log: {entries} actions at once, and 1 each {} s; \
                 nothing was done, send the same later",
                ENTRY_EVERY.as_secs()
            );
            return Err(Problem::new(Code::TooManyRequests, detail));
        }
        filled.insert(caller.who.clone(), until);
        Ok(())
    }

    /// Carries out a request of an operator, and records it. The answer waits for the entry.
    pub(crate) async fn carry_out(
        &self,
        caller: &Principal,
        path: &str,
        parameters: &RawPathParams,
        request: Request,
        next: Next,
    ) -> Response {
        if let Err(problem) = self.admit(caller) {
            return problem.into_response();
        }
        let entry = self.entry_of(caller, path, parameters, &request);
        let action = Arc::new(Action {
            recorder: self.clone(),
            entry: Mutex::new(entry),
            is_over: false.into(),
        });
        let unfinished = Unfinished(action.clone());
        let response = CURRENT.scope(action.clone(), next.run(request)).await;
        action.answered(response.status(), outcome_of(&response)).await;
        drop(unfinished);
        response
    }

    fn entry_of(
        &self,
        caller: &Principal,
        path: &str,
        parameters: &RawPathParams,
        request: &Request,
    ) -> Entry {
        let client = request.extensions().get::<ClientConnection>();
        let (mut destination, mut target) = (None, None);
        for (name, value) in parameters {
            match name {
                "destination" => {
                    destination = value.parse().ok().map(|name: DestinationName| name.to_string());
                }
                _ => target = Some(excerpt(value.as_bytes())),
            }
        }
        let request_id = request.extensions().get::<RequestId>();
        Entry {
            actor: caller.who.to_string(),
            actor_name: caller.name.as_deref().map(str::to_owned),
            certificate: client.and_then(|client| Some(client.certificate()?.text.clone())),
            address: client.and_then(|client| client.address()).map(|address| address.to_string()),
            action: docs::operation(request.method(), path).map_or_else(
                || format!("{} {path}", request.method()),
                |operation| operation.operation_id.clone(),
            ),
            destination,
            target,
            request_id: request_id.map(|id| excerpt(id.0.as_bytes())),
            ..Entry::default()
        }
    }

    /// Writes an entry, even if the calling task ends before.
    async fn write(&self, entry: Entry) {
        let recorder = self.clone();
        // Fails only when the runtime stops.
        let _ = self.0.tasks.spawn(async move { recorder.store(&entry).await }).await;
    }

    async fn store(&self, entry: &Entry) {
        store_entry(&self.0.store, self.0.entries_max, entry).await;
    }
}

/// Records how the configuration file of this process changed a destination.
pub async fn record_of_file(
    store: &Store,
    entries_max: usize,
    by: &Author,
    destination: &DestinationName,
    outcome: &str,
) {
    let entry = Entry {
        actor: by.actor.clone(),
        actor_name: by.actor_name.clone(),
        action: "define_destination".to_owned(),
        destination: Some(destination.to_string()),
        affected: u64::from(outcome == "succeeded"),
        outcome: outcome.to_owned(),
        ..Entry::default()
    };
    store_entry(store, entries_max, &entry).await;
}

async fn store_entry(store: &Store, entries_max: usize, entry: &Entry) {
    tracing::info!(
        actor = entry.actor,
        name = entry.actor_name,
        certificate = entry.certificate,
        address = entry.address,
        action = entry.action,
        destination = entry.destination,
        target_of_it = entry.target,
        affected = entry.affected,
        outcome = entry.outcome,
        operation = entry.operation,
        "an operator acted",
    );
    let text = serde_json::to_string(entry).unwrap_or_default();
    if let Err(error) = store.audit(&text, entries_max).await {
        telemetry::audit_failed();
        tracing::error!(%error, entry = text, "an action could not be added to the audit log");
    }
}

/// An action in progress.
pub(crate) struct Action {
    recorder: Recorder,
    entry: Mutex<Entry>,
    /// True once the outcome of the action is recorded.
    is_over: AtomicBool,
}

impl Action {
    fn change(&self, change: impl FnOnce(&mut Entry)) {
        change(&mut self.entry.lock());
    }

    fn now(&self) -> Entry {
        self.entry.lock().clone()
    }

    /// Marks the outcome as recorded. True for the first caller, which has to record it.
    fn end(&self) -> bool {
        !self.is_over.swap(true, Ordering::Relaxed)
    }

    /// Records that a bulk operation begins. The operation may continue after the answer.
    pub(crate) async fn operation_begins(&self, id: &str, dry_run: bool) {
        self.change(|entry| {
            entry.operation = Some(id.to_owned());
            entry.dry_run = dry_run;
        });
        if !dry_run {
            self.recorder.write(Entry { outcome: "running".to_owned(), ..self.now() }).await;
        }
    }

    /// Records how a bulk operation ended.
    pub(crate) async fn operation_ended(&self, outcome: String, affected: u64) {
        if self.end() {
            self.recorder.write(Entry { outcome, affected, ..self.now() }).await;
        }
    }

    /// Records the outcome, given the answer.
    async fn answered(&self, status: StatusCode, outcome: String) {
        let mut entry = self.now();
        let is_running = entry.operation.is_some() && status == StatusCode::ACCEPTED;
        if is_running || !self.end() {
            return;
        }
        entry.outcome = outcome;
        // Programs compare definitions again and again. Their entries would push all others out of the log.
        if status.is_success() && entry.dry_run {
            return;
        }
        if status.is_success() && entry.affected == 0 {
            entry.affected = 1;
        }
        self.recorder.write(entry).await;
    }
}

/// The outcome that an answer shows: `succeeded`, or the code of its problem.
fn outcome_of(response: &Response) -> String {
    match response.extensions().get::<Problem>() {
        Some(problem) => problem.code.to_string(),
        None if response.status().is_success() => "succeeded".to_owned(),
        None => response.status().as_u16().to_string(),
    }
}

/// Records the action as unfinished when dropped before the answer: the client has left.
struct Unfinished(Arc<Action>);

impl Drop for Unfinished {
    fn drop(&mut self) {
        let action = &self.0;
        // The task of a bulk operation records its end.
        if action.now().operation.is_some() || !action.end() {
            return;
        }
        let (recorder, entry) = (action.recorder.clone(), action.now());
        let entry = Entry { outcome: "unfinished".to_owned(), ..entry };
        let tasks = recorder.0.tasks.clone();
        if tokio::runtime::Handle::try_current().is_ok() {
            tasks.spawn(async move { recorder.store(&entry).await });
        }
    }
}

/// The action of the current request, for tasks that outlive the request.
pub(crate) fn current() -> Option<Arc<Action>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// The author of the current action.
pub(crate) fn author() -> Author {
    let Entry { actor, actor_name, .. } = current().map(|action| action.now()).unwrap_or_default();
    Author { actor, actor_name }
}

/// Notes that the current action only compares. If it succeeds, it is not recorded.
pub(crate) fn dry_run() {
    let _ = CURRENT.try_with(|action| action.change(|entry| entry.dry_run = true));
}

/// Notes how many messages or definitions the current action has changed.
pub(crate) fn affected(count: u64) {
    let _ = CURRENT.try_with(|action| action.change(|entry| entry.affected = count));
}

/// Notes the target of the current action, if the path of the request does not name it.
pub(crate) fn target(name: &str) {
    let target = Some(excerpt(name.as_bytes()));
    let _ = CURRENT.try_with(|action| action.change(|entry| entry.target = target));
}
