//! The caller of a request, and its permissions.

use std::sync::Arc;

use formats::code::Code;

use super::problem::Problem;
use domain::{DestinationName, Grant, Scope};

/// Why a token that lists destinations may not use a name.
const NOT_LISTED: &str =
    "this token does not list this destination, or each destination of this topic";

/// The caller of a request. The guard of the routes adds it to each request.
#[derive(Debug, Clone)]
pub struct Principal {
    /// The id of the caller's token, or the reason why the caller needs none.
    pub who: Arc<str>,
    /// The name of the caller's token.
    pub name: Option<Arc<str>>,
    grant: Arc<Grant>,
    /// The id of the caller's session in the console, and when the session began.
    session: Option<(Arc<str>, u64)>,
    /// What the caller has proved. Where no token is needed, the caller may do more than it has proved.
    proof: Proof,
}

/// The proof that a caller has shown.
#[derive(Debug, Clone)]
enum Proof {
    /// A token or a valid signature, with this grant.
    Of(Arc<Grant>),
    /// No proof: the caller needs no token here.
    NotNeeded,
    /// A signature that is not verified yet.
    Unverified,
}

impl Principal {
    /// A caller whose token has this grant.
    pub fn new(who: &str, grant: Arc<Grant>) -> Principal {
        let proof = Proof::Of(grant.clone());
        Principal { who: who.into(), name: None, session: None, proof, grant }
    }

    /// The same caller, with the name of its token.
    pub fn named(self, name: &str) -> Principal {
        Principal { name: Some(name.into()), ..self }
    }

    /// The same caller, in a session of the console that began at `begun_ms`.
    pub fn in_session(self, id: &str, begun_ms: u64) -> Principal {
        Principal { session: Some((id.into(), begun_ms)), ..self }
    }

    /// The id of the caller's session in the console, and when the session began.
    pub fn session(&self) -> Option<(&str, u64)> {
        self.session.as_ref().map(|(id, begun_ms)| (&**id, *begun_ms))
    }

    /// A caller that needs no token for this grant.
    pub fn without_token(who: &str, grant: Arc<Grant>) -> Principal {
        Principal { who: who.into(), name: None, grant, session: None, proof: Proof::NotNeeded }
    }

    /// A caller without token, but with a signature for this destination that is not verified yet.
    pub fn with_signature(destination: &DestinationName) -> Principal {
        let grant = Arc::new(Grant::to_send(destination));
        let (who, proof) = ("signature".into(), Proof::Unverified);
        Principal { who, name: None, grant, session: None, proof }
    }

    /// This caller, with the proof of the other caller.
    pub fn showing(self, other: &Principal) -> Principal {
        Principal { proof: other.proof.clone(), ..self }
    }

    /// The same caller, after the signature of its request for this destination was verified.
    pub fn with_verified_signature(self, destination: &DestinationName) -> Principal {
        Principal { proof: Proof::Of(Arc::new(Grant::to_send(destination))), ..self }
    }

    /// True if the caller has shown a token or a valid signature.
    pub fn has_token(&self) -> bool {
        matches!(self.proof, Proof::Of(_))
    }

    /// True if the caller has only a signature that is not verified yet.
    pub fn is_unverified(&self) -> bool {
        matches!(self.proof, Proof::Unverified)
    }

    /// True if the caller has proved that it may send to this destination, which verifies signatures.
    pub fn has_proof_for(&self, destination: &DestinationName) -> bool {
        matches!(&self.proof, Proof::Of(grant) if grant.allows(Scope::Ingest) && grant.covers(destination))
    }

    /// Refuses to send to this destination, which verifies signatures, without a signature or a token with the
    /// scope `ingest`.
    pub fn check_proof(&self, destination: &DestinationName) -> Result<(), Problem> {
        if self.has_proof_for(destination) {
            return Ok(());
        }
        let name = destination.as_str();
        let (code, detail) = match &self.proof {
            Proof::Of(_) => (
                Code::Forbidden,
                format!(
                    "the destination {name:?} verifies signatures; in this way it takes messages only from a \
                     token with the scope ingest for it"
                ),
            ),
            Proof::NotNeeded | Proof::Unverified => (
                Code::NoSignature,
                format!(
                    "the destination {name:?} verifies signatures; send a signed request to \
                     POST /v1/destinations/{name}/messages, or a token with the scope ingest"
                ),
            ),
        };
        Err(Problem::new(code, detail))
    }

    /// The permissions of the caller.
    pub fn grant(&self) -> &Grant {
        &self.grant
    }

    /// True if the caller may use all destinations.
    pub fn is_unlimited(&self) -> bool {
        self.grant.destinations.is_none()
    }

    /// True if the caller may use this destination.
    pub fn covers(&self, destination: &DestinationName) -> bool {
        self.grant.covers(destination)
    }

    /// Refuses a call if the caller does not have this scope.
    pub fn check_scope(&self, scope: Scope) -> Result<(), Problem> {
        if self.grant.allows(scope) {
            return Ok(());
        }
        let held: Vec<&str> = self.grant.scopes.iter().map(|scope| scope.as_str()).collect();
        let held = held.join(", ");
        let detail =
            format!("this call needs a token with the scope {scope}; this one has: {held}");
        Err(Problem::new(Code::Forbidden, detail))
    }

    /// Refuses a call for a destination that the caller's token does not list.
    pub fn check(&self, destination: &DestinationName) -> Result<(), Problem> {
        self.check_all(std::slice::from_ref(destination))
    }

    /// Refuses a call unless the caller's token lists all these destinations.
    pub fn check_all(&self, destinations: &[DestinationName]) -> Result<(), Problem> {
        match destinations.iter().all(|name| self.covers(name)) {
            true => Ok(()),
            false => Err(Problem::new(Code::Forbidden, NOT_LISTED)),
        }
    }

    /// The answer for an unknown name, given the 404. A token that lists destinations gets the same
    /// answer as for a name that it may not use, so that it does not learn which names exist.
    pub fn unknown(&self, problem: Problem) -> Problem {
        match self.is_unlimited() {
            true => problem,
            false => Problem::new(Code::Forbidden, NOT_LISTED),
        }
    }

    /// Refuses a call that concerns all destinations.
    pub fn check_unlimited(&self) -> Result<(), Problem> {
        if self.is_unlimited() {
            return Ok(());
        }
        let detail = "this call concerns all destinations, and this token is limited to some";
        Err(Problem::new(Code::Forbidden, detail))
    }
}
