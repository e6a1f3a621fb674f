//! Requests to destinations that verify signatures. A signature is a credential: such a request needs no token. A
//! message without a signature, or over TCP, needs a token with the scope `ingest`.

use std::sync::Arc;

use axum::{body::Bytes, http::HeaderMap};

use super::Ingest;
use crate::{Draft, message_headers::check_covered, recipients::id_of_key};
use domain::{
    DestinationName,
    destination::{KeySource, Verify, VerifyKind},
};
use formats::{
    code::Code,
    signatures::{Claim, SignatureError},
};
use http_server::{principal::Principal, problem::Problem};
use store::{CatalogEntry, server_clock_ms};

/// A longer body is verified in a thread of its own.
const VERIFIED_AT_ONCE_BYTES_MAX: usize = 64 << 10;

/// A request whose signature is not verified yet. Its time is already checked.
pub(super) struct Signed {
    entry: Arc<CatalogEntry>,
    claim: Claim,
}

impl Ingest {
    /// The signature of a request, if its destination verifies signatures. `None` if the caller has another right to
    /// send.
    pub(super) async fn signed(
        &self,
        caller: &Principal,
        name: &DestinationName,
        headers: &HeaderMap,
    ) -> Result<Option<Signed>, Problem> {
        if caller.has_proof_for(name) {
            return Ok(None);
        }
        let entry = match self.committer.find(name).await {
            Ok(entry) => entry,
            Err(refusal) => return Err(refusal.problem()),
        };
        let Some(verify) = &entry.destination.verify else {
            // The definition has changed since the guard accepted the request.
            let detail = "the destination does not verify signatures: send a token";
            let refused = || Problem::new(Code::Unauthorized, detail);
            return if caller.is_unverified() { Err(refused()) } else { Ok(None) };
        };
        let claim = Claim::read(verify, headers, server_clock_ms());
        let claim = claim.map_err(|error| refused(&entry, error))?;
        Ok(Some(Signed { entry, claim }))
    }

    /// Refuses to send to destinations that verify signatures, unless the caller has proved that it may send there.
    pub(super) async fn check_proof(
        &self,
        caller: &Principal,
        destinations: &[DestinationName],
    ) -> Result<(), Problem> {
        if destinations.iter().all(|name| caller.has_proof_for(name)) {
            return Ok(());
        }
        for name in destinations {
            // An unknown destination gets its own outcome later.
            if let Ok(entry) = self.committer.find(name).await
                && entry.destination.verify.is_some()
                && let Err(problem) = caller.check_proof(name)
            {
                telemetry::refused(name.as_str(), problem.code.as_str());
                return Err(problem);
            }
        }
        Ok(())
    }
}

impl Signed {
    /// Checks the signature of this body, and that the signature covers the headers that describe the message.
    pub(super) async fn check(&self, headers: &HeaderMap, body: &Bytes) -> Result<(), Problem> {
        let checked = if body.len() <= VERIFIED_AT_ONCE_BYTES_MAX {
            self.verify().map_or(Ok(()), |verify| self.claim.check(verify, body))
        } else {
            self.check_apart(body.clone()).await?
        };
        checked.map_err(|error| refused(&self.entry, error))?;
        check_covered(headers, self.claim.covers_delivery_headers())
            .map_err(Problem::invalid_header)
    }

    fn verify(&self) -> Option<&Verify> {
        self.entry.destination.verify.as_ref()
    }

    async fn check_apart(&self, body: Bytes) -> Result<Result<(), SignatureError>, Problem> {
        let (entry, claim) = (self.entry.clone(), self.claim.clone());
        let checking = tokio::task::spawn_blocking(move || {
            let verify = entry.destination.verify.as_ref();
            verify.map_or(Ok(()), |verify| claim.check(verify, &body))
        });
        // Fails only if the process stops.
        let stopping = |_| crate::Refusal::Draining.problem();
        checking.await.map_err(stopping)
    }

    /// Sets the idempotency key from the signed parts, so that a repeated request is recognised: the signed id;
    /// otherwise the body and the signed time, if there is one. Ignores headers that are not signed, such as
    /// `Idempotency-Key`. Sets `None` if the key is in the body, or if the definition names no key, id or time.
    pub(super) fn set_idempotency_key(&self, draft: &mut Draft) {
        let arrival = &mut draft.arrival;
        let time = self.claim.timestamp();
        let [_, source] = self.entry.destination.key_sources();
        let has_id = self
            .verify()
            .is_some_and(|verify| verify.kind == VerifyKind::Github || verify.id_header.is_some());
        let is_in_body = source.is_some_and(KeySource::is_of_body);
        let is_of_body = !is_in_body && (time.is_some() || has_id || source.is_some());
        let of_body = || id_of_key(time.unwrap_or_default(), &arrival.message.body.bytes);
        let id = self.claim.id().map(str::to_owned);
        arrival.idempotency_key = id.or_else(|| is_of_body.then(of_body));
    }
}

/// Counts a refused request, and returns its problem.
fn refused(entry: &CatalogEntry, error: SignatureError) -> Problem {
    let problem = Problem::from(error);
    telemetry::refused(entry.destination.name.as_str(), problem.code.as_str());
    problem
}
