//! Checks tokens.

use std::{collections::HashMap, net::SocketAddr, sync::Arc, time::Duration};

use axum::http::{HeaderMap, Method, Uri, header};
use parking_lot::{Mutex, RwLock};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::{
    page,
    routes::Needed,
    session::{self, Session},
};
use config::{Auth, AuthMode, CertificateGrant};
use domain::{DestinationName, Grant, Scope, TokenText, token::sha256_of};
use formats::{code::Code, signatures::SignatureError};
use http_server::{
    concurrency_limit::{ConcurrencyLimit, Held},
    principal::Principal,
    problem::Problem,
};
use store::{Catalog, CatalogToken, Store, StoreError, server_clock_ms};

/// How often a long request checks whether its token has ended.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// How often the last uses of tokens are written to Redis.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// Checks the callers of a listener. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    shared: Arc<Shared>,
    /// True if only this machine can reach the listener.
    is_loopback: bool,
    /// True if operators have a separate listener, and this is not it.
    is_public: bool,
}

struct Shared {
    catalog: Catalog,
    mode: AuthMode,
    /// The SHA-256 of the configured admin token, in hex.
    admin_sha256: RwLock<Option<String>>,
    /// The caller with the admin token, and the caller where no token is needed.
    admin: Principal,
    anyone: Principal,
    /// Callers with certificates, by a name of the certificate.
    certified: HashMap<String, Principal>,
    /// The number of requests in progress of each token.
    in_progress: ConcurrencyLimit<Arc<str>>,
    /// The last use of each token that is not yet written to Redis.
    used: Mutex<HashMap<String, u64>>,
}

impl Guard {
    /// A guard of listeners that only this machine reaches.
    pub fn new(catalog: Catalog, auth: &Auth) -> Guard {
        let admin_sha256 = RwLock::new(auth.admin_token().map(sha256_of));
        let everything = Arc::new(Grant::all());
        let admin = Principal::new("admin_token", everything.clone());
        let why = match auth.mode {
            AuthMode::None => "anyone",
            AuthMode::Tokens => "loopback_without_token",
        };
        let anyone = Principal::without_token(why, everything);
        let (mode, used) = (auth.mode, Mutex::default());
        let in_progress = ConcurrencyLimit::new(auth.requests_per_token_max);
        let of_certificate = |it: &CertificateGrant| {
            let who = format!("certificate:{}", it.name);
            (it.name.clone(), Principal::new(&who, Arc::new(it.grant())))
        };
        let certified = auth.certificates.iter().map(of_certificate).collect();
        let shared =
            Shared { catalog, mode, admin_sha256, admin, anyone, certified, in_progress, used };
        Guard { shared: Arc::new(shared), is_loopback: true, is_public: false }
    }

    /// From now on takes the admin token and the limit of requests of this configuration.
    pub fn reload(&self, auth: &Auth) {
        let mut admin = self.shared.admin_sha256.write();
        *admin = auth.admin_token().map(sha256_of);
        self.shared.in_progress.set_max(auth.requests_per_token_max);
    }

    /// The guard of a listener at these addresses.
    pub fn at(&self, addresses: &[SocketAddr]) -> Guard {
        let is_loopback = addresses.iter().all(|address| address.ip().is_loopback());
        Guard { shared: self.shared.clone(), is_loopback, is_public: false }
    }

    /// The same guard, for a listener that serves only producers, workers, consumers and health checks.
    pub fn without_operators(self) -> Guard {
        Guard { is_public: true, ..self }
    }

    /// True if this guard's listener serves routes with this need.
    pub fn serves(&self, needed: Needed) -> bool {
        !self.is_public
            || matches!(needed, Needed::Nothing | Needed::Scope(Scope::Ingest | Scope::Work))
    }

    /// True if a token exists, or none is required. Otherwise the process may serve only loopback.
    pub fn is_set_up(&self) -> bool {
        self.shared.mode == AuthMode::None || self.has_tokens()
    }

    /// True if callers need no token.
    pub fn is_open(&self) -> bool {
        match self.shared.mode {
            AuthMode::None => true,
            AuthMode::Tokens => self.is_loopback && !self.has_tokens(),
        }
    }

    fn has_tokens(&self) -> bool {
        self.shared.admin_sha256.read().is_some() || self.shared.catalog.has_tokens()
    }

    /// True if the configuration has grants for client certificates.
    pub fn has_certified(&self) -> bool {
        !self.shared.certified.is_empty()
    }

    /// The caller with a certificate with these names. The first configured name counts.
    pub fn certified(&self, names: &[String]) -> Option<Principal> {
        names.iter().find_map(|name| self.shared.certified.get(name)).cloned()
    }

    /// The caller of an HTTP request over a connection whose certificate has these names.
    pub fn caller(
        &self,
        method: &Method,
        headers: &HeaderMap,
        uri: &Uri,
        names: Option<&[String]>,
    ) -> Result<Principal, Problem> {
        if self.is_open() {
            if self.shared.mode == AuthMode::Tokens {
                page::check(headers, uri)?;
            }
            // The token still counts for destinations that verify signatures.
            let shown = only_bearer(headers).and_then(|text| self.caller_of(text).ok());
            return Ok(match shown {
                Some(shown) => self.anyone().showing(&shown),
                None => self.anyone(),
            });
        }
        if !self.is_public
            && !headers.contains_key(header::AUTHORIZATION)
            && let Some(session) = self.session_of(headers)
        {
            session::check_origin(method, headers, uri)?;
            return Ok(self.caller_of(&session.token)?.in_session(&session.id, session.begun_ms));
        }
        let has_credentials = headers.contains_key(header::AUTHORIZATION);
        if !has_credentials && let Some(caller) = names.and_then(|names| self.certified(names)) {
            // A browser shows a certificate on its own, even for a page of another origin.
            if headers.contains_key(header::ORIGIN) || headers.contains_key(session::FETCH_SITE) {
                session::check_origin(method, headers, uri)?;
            }
            return Ok(caller);
        }
        match only_bearer(headers) {
            Some(text) => self.caller_of(text),
            None => {
                let detail =
                    "this call needs a token: send the header Authorization: Bearer <token>";
                Err(Problem::new(Code::Unauthorized, detail))
            }
        }
    }

    /// Counts a request, or a TCP connection, of a caller until the returned value is dropped.
    /// Refuses it if the token already has the maximum.
    pub fn begin(&self, caller: &Principal) -> Result<Held<Arc<str>>, Problem> {
        self.shared.in_progress.take(caller.who.clone()).ok_or_else(|| {
            let detail = "this token has as many requests in progress, or TCP connections, as \
                          auth.requests_per_token_max allows; nothing was done, send the same later";
            Problem::new(Code::TooManyRequests, detail)
        })
    }

    /// The caller of a request to send to this destination, after its token was refused or found missing. If the
    /// destination verifies signatures, a signature may count instead.
    pub fn signer(
        &self,
        destination: &DestinationName,
        headers: &HeaderMap,
        refused: Problem,
    ) -> Result<Principal, Problem> {
        let entry = self.shared.catalog.get(destination.as_str());
        let Some(verify) = entry.as_ref().and_then(|entry| entry.destination.verify.as_ref())
        else {
            return Err(refused);
        };
        if headers.contains_key(verify.signature_header()) {
            return Ok(Principal::with_signature(destination));
        }
        let has_credentials =
            headers.contains_key(header::AUTHORIZATION) || session::secret_of(headers).is_some();
        if has_credentials || refused.code != Code::Unauthorized {
            return Err(refused);
        }
        Err(SignatureError::Missing(verify.signature_header().to_owned()).into())
    }

    /// The session of a request, if it has not ended.
    pub fn session_of(&self, headers: &HeaderMap) -> Option<Session> {
        let key = self.shared.catalog.session_key()?;
        let session = Session::shown(&key, headers, server_clock_ms())?;
        let has_ended = self.shared.catalog.has_ended(&session.id, session.begun_ms);
        (!has_ended).then_some(session)
    }

    /// Begins a session with this token. Returns the secret, and the value of the cookie.
    pub fn begin_session(&self, token: &str) -> Option<(String, String)> {
        let key = self.shared.catalog.session_key()?;
        let (session, secret) = Session::begin(token, server_clock_ms());
        let value = session.sealed(&key, &secret)?;
        Some((secret, value))
    }

    /// Prolongs the session of a request from now. Returns the new value of its cookie.
    pub fn prolonged(&self, headers: &HeaderMap) -> Option<String> {
        let session = self.session_of(headers)?.seen(server_clock_ms());
        session.sealed(&self.shared.catalog.session_key()?, session::secret_of(headers)?)
    }

    /// Ends the session of a request, in all pods.
    pub async fn end_session(&self, headers: &HeaderMap) -> Result<(), StoreError> {
        match self.session_of(headers) {
            Some(session) => self.shared.catalog.end_session(&session.id).await,
            None => Ok(()),
        }
    }

    /// True while neither the token nor the session of an accepted caller has ended.
    pub fn still_allows(&self, caller: &Principal) -> bool {
        let catalog = &self.shared.catalog;
        let session = caller.session();
        if session.is_some_and(|(id, begun_ms)| catalog.has_ended(id, begun_ms)) {
            return false;
        }
        let has_token = caller.has_token() && caller.name.is_some();
        let is_valid = |held: Arc<CatalogToken>| !held.token.is_expired(server_clock_ms());
        !has_token || catalog.token(&caller.who).is_some_and(is_valid)
    }

    /// Resolves when the token or the session of a caller has ended.
    pub async fn ended(self, caller: Principal) {
        while self.still_allows(&caller) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// The caller where no token is needed.
    pub fn anyone(&self) -> Principal {
        self.shared.anyone.clone()
    }

    /// The caller with this token.
    pub fn caller_of(&self, text: &str) -> Result<Principal, Problem> {
        let sha256 = sha256_of(text);
        let is_same = |known: &str| bool::from(known.as_bytes().ct_eq(sha256.as_bytes()));
        if self.shared.admin_sha256.read().as_deref().is_some_and(is_same) {
            return Ok(self.shared.admin.clone());
        }
        let unknown = || {
            let detail = "this token is not valid: it is unknown, revoked or expired";
            Problem::new(Code::Unauthorized, detail)
        };
        let text = TokenText::parse(text).ok_or_else(unknown)?;
        let held = self.shared.catalog.token(text.id()).ok_or_else(unknown)?;
        let now_ms = server_clock_ms();
        if !is_same(&held.token.sha256) || held.token.is_expired(now_ms) {
            return Err(unknown());
        }
        let mut used = self.shared.used.lock();
        match used.get_mut(&held.token.id) {
            Some(at) => *at = now_ms,
            None => drop(used.insert(held.token.id.clone(), now_ms)),
        }
        drop(used);
        Ok(Principal::new(&held.token.id, held.grant.clone()).named(&held.token.name))
    }

    /// Notes in Redis when tokens were last used, until `stop`.
    pub async fn note_uses(self, store: Store, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(NOTE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let used = std::mem::take(&mut *self.shared.used.lock());
            let used: Vec<(String, u64)> = used.into_iter().collect();
            if let Err(error) = store.note_tokens_used(&used).await {
                tracing::debug!(%error, "the last use of tokens cannot be noted");
            }
        }
    }
}

/// The token of a request, if it has exactly one `Authorization` header, with a bearer token.
fn only_bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(header::AUTHORIZATION).iter();
    let (first, others) = (given.next()?, given.next().is_some());
    first.to_str().ok().and_then(bearer).filter(|_| !others)
}

/// The token of an `Authorization` header.
fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_bearer_token_is_one() {
        assert_eq!(bearer("Bearer abc"), Some("abc"));
        assert_eq!(bearer("bearer  abc "), Some("abc"));
        for other in ["abc", "Basic abc", "Bearerabc", ""] {
            assert_eq!(bearer(other), None, "{other:?}");
        }
    }
}
