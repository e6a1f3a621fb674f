//! Authenticates a TCP connection: its first frame is `AUTH <token>`, unless the listener accepts the certificate of
//! the producer instead.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;

use super::{Connection, Frames};
use domain::{Scope, message::is_token};
use formats::{FrameCodec, FrameError, code::Code, tcp_answer::ToProducer};
use http_server::{concurrency_limit::Held, principal::Principal, problem::Problem};
use tls::Subject;

/// The beginning of a frame that authenticates.
const AUTH: &[u8] = b"AUTH ";
/// The longest first frame of a connection that needs a token, in bytes.
const AUTH_BYTES_MAX: usize = 256;
/// A connection that needs a token has this time to show it.
const AUTH_WITHIN: Duration = Duration::from_secs(5);

/// True for a first frame that is the request line of HTTP, or the header of the PROXY protocol. A web page can make a
/// browser send an HTTP request, and each of its lines would become a message. A browser also shows a client
/// certificate on its own.
pub(super) fn is_of_another_protocol(frame: &[u8]) -> bool {
    let mut words = frame.trim_ascii().split(|byte| *byte == b' ');
    let first = words.next().unwrap_or_default();
    let is_method = !first.is_empty() && first.iter().all(|byte| is_token(*byte));
    let has_version = words.next_back().is_some_and(|last| last.starts_with(b"HTTP/"));
    let is_http = is_method && has_version && words.next().is_some();
    is_http || first == b"PROXY"
}

/// The credential that a connection has shown, if any.
#[derive(Default)]
pub(super) struct Shown {
    text: Option<String>,
    caller: Option<Principal>,
    /// Why the certificate does not allow the producer to send here.
    refused: Option<Problem>,
    /// Counts the connection for its token until it ends.
    _in_progress: Option<Held<Arc<str>>>,
}

/// The answer to a connection that has not shown its token.
fn no_token() -> Problem {
    let detail = format!(
        "the first frame must be AUTH <token>, of at most {AUTH_BYTES_MAX} bytes, within {} s",
        AUTH_WITHIN.as_secs()
    );
    Problem::new(Code::Unauthorized, detail)
}

impl Connection {
    /// The rights of the producer's certificate, if the listener accepts certificates instead of tokens.
    pub(super) fn certified(&self, certificate: Option<Subject>) -> Shown {
        // If no grants for certificates are configured, every certificate of the authority may send.
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

    /// Handles the first frame of the connection. `Some` with the answer if the frame authenticates.
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
        // Where no token is needed, an invalid token counts as none. The frame is still not stored as a message.
        if begun.is_err() && self.needs_no_token() {
            return Some(Ok(ToProducer::Authenticated));
        }
        Some(begun.map(|(caller, in_progress)| {
            let (text, caller) = (Some(text), Some(caller));
            *shown = Shown { text, caller, refused: None, _in_progress: Some(in_progress) };
            ToProducer::Authenticated
        }))
    }

    /// Refuses frames if the connection may not send, or no longer: its token can expire or be revoked while it is
    /// open.
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
        Err(no_token())
    }

    /// The codec for the first frame.
    pub(super) fn first_codec(&self) -> FrameCodec {
        match self.needs_no_token() {
            true => self.codec(),
            false => FrameCodec::new(self.framing, AUTH_BYTES_MAX),
        }
    }

    /// The next frame. Refuses a connection that does not show its token in time, or begins with a long frame.
    pub(super) async fn next_allowed(
        &self,
        stream: &mut Frames,
        shown: &mut Shown,
    ) -> Result<Option<Result<Bytes, FrameError>>, Problem> {
        tokio::select! {
            next = self.next_frame(stream) => {
                if let Some(Err(FrameError::TooLong { .. })) = &next {
                    self.check(shown)?;
                }
                Ok(next)
            }
            () = self.lacks_token(shown) => {
                telemetry::connection_closed("slow_auth");
                Err(no_token())
            }
        }
    }

    /// Resolves when the connection has not shown its token in time. Checks again and again, because the first token
    /// may be created meanwhile.
    async fn lacks_token(&self, shown: &Shown) {
        loop {
            tokio::time::sleep(AUTH_WITHIN).await;
            if shown.text.is_none() && !self.needs_no_token() {
                return;
            }
        }
    }

    /// True if the connection may send to a destination that verifies signatures, although frames have none.
    pub(super) fn has_proof(&self, shown: &Shown) -> bool {
        self.has_certificate || shown.text.is_some()
    }

    fn needs_no_token(&self) -> bool {
        self.has_certificate || self.shared.guard.is_open()
    }

    /// Counts `count` frames against the rate limit of the connection's token, and waits until the limit allows them.
    /// Meanwhile the connection is not read. Returns false if the process stops.
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

    fn allowed(&self, text: &str) -> Result<Principal, Problem> {
        let caller: Principal = self.shared.guard.caller_of(text)?;
        caller.check_scope(Scope::Ingest)?;
        caller.check(&self.destination)?;
        Ok(caller)
    }
}
