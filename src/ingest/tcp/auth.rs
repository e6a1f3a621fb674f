//! Who sends over a TCP connection: its first frame is `AUTH <token>`, unless the listener takes the
//! certificate of the producer for it.

use bytes::Bytes;

use super::Connection;
use crate::{
    domain::Scope,
    wire::{caller::Caller, code::Code, problem::Problem, tcp_answer::ToProducer},
};

/// What a frame that authenticates begins with.
const AUTH: &[u8] = b"AUTH ";

/// The token that a connection has shown, if any.
#[derive(Default)]
pub(super) struct Shown(Option<String>);

impl Connection {
    /// Takes the first frame of the connection, if it authenticates: `Some` with the answer.
    pub(super) fn authenticate(
        &self,
        frame: &Bytes,
        shown: &mut Shown,
    ) -> Option<Result<ToProducer, Problem>> {
        let token = frame.strip_prefix(AUTH)?;
        // Where no token is needed, it is not checked, and not stored as a message either.
        if self.needs_no_token() {
            return Some(Ok(ToProducer::Authenticated));
        }
        let text = String::from_utf8_lossy(token.trim_ascii()).into_owned();
        let allowed = self.allowed(&text);
        *shown = Shown(Some(text));
        Some(allowed.map(|()| ToProducer::Authenticated))
    }

    /// Refuses frames of a connection that may not send (any more): a token may end meanwhile.
    pub(super) fn check(&self, shown: &Shown) -> Result<(), Problem> {
        match &shown.0 {
            Some(text) => self.allowed(text),
            None if self.needs_no_token() => Ok(()),
            None => {
                let detail = "the first frame must be AUTH <token>";
                Err(Problem::new(Code::Unauthorized, detail))
            }
        }
    }

    fn needs_no_token(&self) -> bool {
        self.has_certificate || self.shared.guard.is_open()
    }

    fn allowed(&self, text: &str) -> Result<(), Problem> {
        let caller: Caller = self.shared.guard.caller_of(text)?;
        caller.check_scope(Scope::Ingest)?;
        caller.check(&self.destination)
    }
}
