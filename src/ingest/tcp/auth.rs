//! Who sends over a TCP connection: its first frame is `AUTH <token>`, unless the listener takes the
//! certificate of the producer for it.

use std::sync::Arc;

use bytes::Bytes;
use tokio::time::Instant;

use super::Connection;
use crate::{
    domain::Scope,
    tls::Subject,
    wire::{caller::Caller, code::Code, counts::Held, problem::Problem, tcp_answer::ToProducer},
};

/// What a frame that authenticates begins with.
const AUTH: &[u8] = b"AUTH ";

/// The token that a connection has shown, if any.
#[derive(Default)]
pub(super) struct Shown {
    text: Option<String>,
    caller: Option<Caller>,
    /// Its certificate does not allow what the listener is for.
    refused: Option<Problem>,
    /// The connection counts for its token as long as it lasts.
    _in_progress: Option<Held<Arc<str>>>,
}

impl Connection {
    /// What the certificate of the producer shows, where a certificate is enough to send.
    pub(super) fn certified(&self, certificate: Option<Subject>) -> Shown {
        // Where certificates say nothing, each certificate of the authority may send.
        if !self.has_certificate || !self.shared.guard.has_certified() {
            return Shown::default();
        }
        let caller = certificate.and_then(|it| self.shared.guard.certified(&it.names));
        let allowed = caller.ok_or_else(|| {
            let detail = "auth.certificate does not list the certificate of this connection";
            Problem::new(Code::Forbidden, detail)
        });
        let begun = allowed.and_then(|caller| {
            caller.check_scope(Scope::Ingest)?;
            caller.check(&self.destination)?;
            Ok((self.shared.guard.begin(&caller)?, caller))
        });
        match begun {
            Ok((held, caller)) => {
                Shown { caller: Some(caller), _in_progress: Some(held), ..Shown::default() }
            }
            Err(problem) => Shown { refused: Some(problem), ..Shown::default() },
        }
    }

    /// Takes the first frame of the connection, if it authenticates: `Some` with the answer.
    pub(super) fn authenticate(
        &self,
        frame: &Bytes,
        shown: &mut Shown,
    ) -> Option<Result<ToProducer, Problem>> {
        let token = frame.strip_prefix(AUTH)?;
        let text = String::from_utf8_lossy(token.trim_ascii()).into_owned();
        let begun = self.allowed(&text).and_then(|caller| {
            let in_progress = self.shared.guard.begin(&caller)?;
            Ok((caller, in_progress))
        });
        // Where no token is needed, one that is not valid is as good as none. It is not stored as a message either.
        if begun.is_err() && self.needs_no_token() {
            return Some(Ok(ToProducer::Authenticated));
        }
        Some(begun.map(|(caller, in_progress)| {
            let (text, caller) = (Some(text), Some(caller));
            *shown = Shown { text, caller, refused: None, _in_progress: Some(in_progress) };
            ToProducer::Authenticated
        }))
    }

    /// Refuses frames of a connection that may not send (any more): a token may end meanwhile.
    pub(super) fn check(&self, shown: &mut Shown) -> Result<(), Problem> {
        if let Some(text) = &shown.text {
            shown.caller = Some(self.allowed(text)?);
            return Ok(());
        }
        if let Some(problem) = &shown.refused {
            return Err(problem.clone());
        }
        if self.needs_no_token() {
            return Ok(());
        }
        Err(Problem::new(Code::Unauthorized, "the first frame must be AUTH <token>"))
    }

    /// True if the connection may send to a destination that verifies signatures, which frames do not have.
    pub(super) fn has_proof(&self, shown: &Shown) -> bool {
        self.has_certificate || shown.text.is_some()
    }

    fn needs_no_token(&self) -> bool {
        self.has_certificate || self.shared.guard.is_open()
    }

    /// Takes frames from the rate of the token. Waits until it allows them: meanwhile nothing is read. False when the
    /// process stops.
    pub(super) async fn waits_for_rate(&self, shown: &Shown, count: usize) -> bool {
        let Some(caller) = &shown.caller else { return true };
        let rate = caller.grant().rate_per_second_max;
        while let Err(wait) = self.shared.rates.take(&caller.who, rate, count, Instant::now()) {
            tokio::select! {
                () = self.stop.cancelled() => return false,
                () = tokio::time::sleep(wait) => {}
            }
        }
        true
    }

    fn allowed(&self, text: &str) -> Result<Caller, Problem> {
        let caller: Caller = self.shared.guard.caller_of(text)?;
        caller.check_scope(Scope::Ingest)?;
        caller.check(&self.destination)?;
        Ok(caller)
    }
}
