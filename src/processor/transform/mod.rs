//! Turning one message into another: the trait, and one file per kind of transform.
//!
//! A transform written in Rust implements [`Transform`]; see the crate's example.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use async_trait::async_trait;

use crate::{
    domain::{self, Body, DestinationName, ErrorKind, Stamped, TransformKind},
    store::CatalogEntry,
};

mod http;
pub mod jq;

pub use http::Http;
pub use jq::Jq;

/// What a transform that succeeded says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output {
    /// Deliver this body in place of the message's own.
    Deliver(Body),
    /// Deliver nothing: the message keeps its place until its lane has passed it.
    Drop,
}

/// An attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// What happened, for people: it is kept with the message, the first 2 kB of it. Never a
    /// secret.
    pub reason: String,
    /// How long to wait at least before the next attempt, if the other side said.
    pub retry_after: Option<Duration>,
    /// True when another attempt cannot help.
    pub is_final: bool,
    /// What kind of error it was.
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
    /// It may succeed another time.
    pub fn retryable(reason: impl Into<String>) -> Failure {
        Failure { reason: reason.into(), ..Failure::default() }
    }

    /// It never will succeed: what the destination's `on_exhausted` says happens at once.
    pub fn permanent(reason: impl Into<String>) -> Failure {
        Failure { is_final: true, ..Failure::retryable(reason) }
    }

    /// The same, with what kind of error it was.
    pub fn with_kind(self, kind: ErrorKind) -> Failure {
        Failure { kind, ..self }
    }

    /// The same, with the HTTP status that it came with.
    pub fn with_status(self, status: u16) -> Failure {
        Failure { status: Some(status), ..self }
    }

    /// The same, with the least to wait before the next attempt.
    pub fn retry_after(self, wait: Duration) -> Failure {
        Failure { retry_after: Some(wait), ..self }
    }
}

/// Processes messages. Called for many messages at once, in any order.
#[async_trait]
pub trait Transform: Send + Sync {
    /// One attempt at one message. It may be run again for the same message, also after it
    /// succeeded (a crash before the result was kept), so it should be idempotent.
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure>;

    /// How many attempts make sense at once, if that is less than `transform.concurrency`: what waits
    /// for its turn is then not claimed at all.
    fn at_once_max(&self) -> Option<usize> {
        None
    }
}

/// What was built and not used for so long goes: it may hold connections, or processes.
const IDLE: Duration = Duration::from_secs(60);

/// A transform, the definition that it was built from, and when it was last used.
type Built = (domain::Transform, Arc<dyn Transform>, Instant);

/// Finds the transform of a destination: built from its definition, or registered by name.
pub struct Transforms {
    client: reqwest::Client,
    output_bytes_max: usize,
    native: HashMap<String, Arc<dyn Transform>>,
    built: Mutex<HashMap<DestinationName, Built>>,
}

impl Transforms {
    /// The transforms of this pod. An output longer than `output_bytes_max` fails for good.
    pub fn new(
        client: reqwest::Client,
        output_bytes_max: usize,
        native: HashMap<String, Arc<dyn Transform>>,
    ) -> Self {
        Transforms { client, output_bytes_max, native, built: Mutex::default() }
    }

    /// The destination's transform; none if this pod lacks it.
    pub fn of(&self, known: &CatalogEntry) -> Option<Arc<dyn Transform>> {
        let definition = &known.destination.transform;
        match definition.kind {
            TransformKind::None => Some(Arc::new(Identity)),
            TransformKind::Worker => None,
            TransformKind::Native => self.native.get(definition.name.as_deref()?).cloned(),
            TransformKind::Http | TransformKind::Jq => {
                let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((of, transform, used)) = built.get_mut(&known.destination.name)
                    && of == definition
                {
                    *used = Instant::now();
                    return Some(transform.clone());
                }
                let transform = self.build(definition);
                let entry = (definition.clone(), transform.clone(), Instant::now());
                built.insert(known.destination.name.clone(), entry);
                Some(transform)
            }
        }
    }

    /// Lets go of what was built for destinations that are gone or idle, or need it no more.
    pub fn keep(&self, known: impl Fn(&DestinationName) -> Option<Arc<CatalogEntry>>) {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        built.retain(|name, (of, transform, used)| {
            // Attempts under way hold it too.
            let is_idle = Arc::strong_count(transform) == 1 && used.elapsed() > IDLE;
            !is_idle && known(name).is_some_and(|known| known.destination.transform.kind == of.kind)
        });
    }

    fn build(&self, definition: &domain::Transform) -> Arc<dyn Transform> {
        let output_bytes_max = self.output_bytes_max;
        match definition.kind {
            TransformKind::Jq => {
                Arc::new(Jq::new(definition, output_bytes_max, jq::Program::of_environment()))
            }
            _ => Arc::new(Http::new(definition, self.client.clone(), output_bytes_max)),
        }
    }
}

/// Leaves messages as they are: what waited for a transform that was since taken away.
struct Identity;

#[async_trait]
impl Transform for Identity {
    async fn transform(&self, message: &Stamped) -> Result<Output, Failure> {
        Ok(Output::Deliver(message.message.body.clone()))
    }
}
