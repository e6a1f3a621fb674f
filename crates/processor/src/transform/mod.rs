//! Transforms: the trait, and one file per kind.
//!
//! A transform written in Rust implements [`Transform`]; see the crate's example.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use async_trait::async_trait;
use parking_lot::Mutex;

use ::jq::{Evaluators, Program};
use domain::{Body, DestinationName, ErrorKind, Stamped, TransformKind};
use outbound::http_client::Clients;
use store::CatalogEntry;

mod http;
mod jq;

pub use http::Http;
pub use jq::Jq;

/// The result of a successful transform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Deliver this body in place of the message's own.
    Deliver(Body),
    /// Deliver nothing: a tombstone holds the position of the message until its lane has passed it.
    Drop,
}

/// A failed attempt.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// What happened, as text. The first 2 kB are stored with the message. Must not contain
    /// secrets.
    pub reason: String,
    /// The shortest wait before the next attempt, if the transform asks for one.
    pub retry_after: Option<Duration>,
    /// True if another attempt cannot succeed.
    pub is_final: bool,
    /// The kind of error.
    pub kind: ErrorKind,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
}

impl Default for Failure {
    fn default() -> Failure {
        Failure {
            reason: "the transform failed".into(),
            retry_after: None,
            is_final: false,
            kind: ErrorKind::Failed,
            status: None,
        }
    }
}

impl Failure {
    /// A failure that a retry may fix.
    pub fn retryable(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), ..Failure::default() }
    }

    /// A failure that no retry can fix: the destination's `on_exhausted` applies at once.
    pub fn permanent(reason: impl Into<String>) -> Failure {
        Failure { is_final: true, ..Failure::retryable(reason) }
    }

    /// Sets the kind of error.
    pub fn with_kind(self, kind: ErrorKind) -> Failure {
        Failure { kind, ..self }
    }

    /// Sets the HTTP status of the answer.
    pub fn with_status(self, status: u16) -> Failure {
        Failure { status: Some(status), ..self }
    }

    /// Sets the shortest wait before the next attempt.
    pub fn retry_after(self, wait: Duration) -> Failure {
        Failure { retry_after: Some(wait), ..self }
    }
}

/// Processes messages. The processor calls it for many messages at once, in any order.
#[async_trait]
pub trait Transform: Send + Sync {
    /// One attempt at one message. May run again for the same message, even after a success (a
    /// crash before the result was stored), so it should be idempotent.
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure>;

    /// How many attempts are useful at once, if fewer than `transform.concurrency`. The processor then claims no more
    /// messages than this.
    fn at_once_max(&self) -> Option<usize> {
        None
    }

    /// True if the transform itself enforces `transform.timeout_ms`, because part of its waiting must not count.
    fn limits_its_time(&self) -> bool {
        false
    }
}

/// An unused transform is dropped after this time: it may hold connections or processes.
const IDLE: Duration = Duration::from_secs(60);

/// A transform, the definition it was built from, and when it was last used.
type Built = (domain::Transform, Arc<dyn Transform>, Instant);

/// Finds the transform of a destination: built from its definition, or registered by name.
pub struct Transforms {
    clients: Clients,
    output_bytes_max: usize,
    native: HashMap<String, Arc<dyn Transform>>,
    /// The evaluators of `jq` expressions, which all destinations share.
    evaluators: Evaluators,
    built: Mutex<HashMap<DestinationName, Built>>,
}

impl Transforms {
    /// The transforms of this pod. An output longer than `output_bytes_max` fails
    /// permanently. Expressions run in at most `processes_max` processes.
    pub fn new(
        clients: Clients,
        output_bytes_max: usize,
        native: HashMap<String, Arc<dyn Transform>>,
        processes_max: usize,
    ) -> Self {
        let program = Program::of_environment();
        let evaluators = Evaluators::with_processes(output_bytes_max, program, processes_max);
        Transforms { clients, output_bytes_max, native, evaluators, built: Mutex::default() }
    }

    /// The destination's transform; `None` if this pod does not have it.
    pub fn of(&self, entry: &CatalogEntry) -> Option<Arc<dyn Transform>> {
        let definition = &entry.destination.transform;
        match definition.kind {
            TransformKind::None => Some(Arc::new(Identity)),
            TransformKind::Worker => None,
            TransformKind::Native => self.native.get(definition.name.as_deref()?).cloned(),
            TransformKind::Http | TransformKind::Jq => {
                let mut built = self.built.lock();
                if let Some((of, transform, used)) = built.get_mut(&entry.destination.name)
                    && of == definition
                {
                    *used = Instant::now();
                    return Some(transform.clone());
                }
                let transform = self.build(definition);
                let cached = (definition.clone(), transform.clone(), Instant::now());
                built.insert(entry.destination.name.clone(), cached);
                Some(transform)
            }
        }
    }

    /// Drops transforms of destinations that are gone, idle, or no longer use them.
    pub fn keep(&self, entry_of: impl Fn(&DestinationName) -> Option<Arc<CatalogEntry>>) {
        let mut built = self.built.lock();
        built.retain(|name, (of, transform, used)| {
            // Running attempts hold it too.
            let is_idle = Arc::strong_count(transform) == 1 && used.elapsed() > IDLE;
            !is_idle
                && entry_of(name).is_some_and(|entry| entry.destination.transform.kind == of.kind)
        });
    }

    fn build(&self, definition: &domain::Transform) -> Arc<dyn Transform> {
        let output_bytes_max = self.output_bytes_max;
        match definition.kind {
            TransformKind::Jq => Arc::new(Jq::sharing(definition, self.evaluators.clone())),
            _ => Arc::new(Http::new(definition, self.clients.clone(), output_bytes_max)),
        }
    }
}

/// Returns messages unchanged: delayed messages of a destination without a transform, and messages that still wait
/// after their transform was removed.
struct Identity;

#[async_trait]
impl Transform for Identity {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        Ok(Output::Deliver(message.message.body.clone()))
    }
}
