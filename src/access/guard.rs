//! Checks tokens.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use axum::http::{HeaderMap, Method, Uri, header};
use subtle::ConstantTimeEq;
use tokio_util::sync::CancellationToken;

use super::{page, routes::Needed, session};
use crate::{
    config::{Auth, AuthMode},
    domain::{Grant, Scope, TokenText, token::sha256_of},
    store::{Catalog, Store, server_clock_ms},
    wire::{caller::Caller, code::Code, problem::Problem},
};

/// How often the last use of tokens is noted in Redis.
const NOTE_EVERY: Duration = Duration::from_secs(5);

/// Checks who calls. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    shared: Arc<Shared>,
    /// True if only this machine can reach the listener.
    is_loopback: bool,
    /// True if operators have a listener of their own, and this is another.
    is_public: bool,
}

struct Shared {
    catalog: Catalog,
    mode: AuthMode,
    /// The SHA-256 of the configured admin token, in hex.
    admin_sha256: Option<String>,
    /// The caller with that token, and the one where no token is needed.
    admin: Caller,
    anyone: Caller,
    /// When each token was used, as far as that is not noted in Redis.
    used: Mutex<HashMap<String, u64>>,
}

impl Guard {
    /// A guard of listeners that only this machine reaches.
    pub fn new(catalog: Catalog, auth: &Auth) -> Guard {
        let admin_sha256 = auth.admin_token().map(sha256_of);
        let everything = Arc::new(Grant::all());
        let admin = Caller::new("admin_token", everything.clone());
        let anyone = Caller::new("anyone", everything);
        let (mode, used) = (auth.mode, Mutex::default());
        let shared = Shared { catalog, mode, admin_sha256, admin, anyone, used };
        Guard { shared: Arc::new(shared), is_loopback: true, is_public: false }
    }

    /// The guard of a listener at this address.
    pub fn at(&self, address: std::net::IpAddr) -> Guard {
        Guard { shared: self.shared.clone(), is_loopback: address.is_loopback(), is_public: false }
    }

    /// The same, for a listener that serves only producers, workers and health checks.
    pub fn without_operators(self) -> Guard {
        Guard { is_public: true, ..self }
    }

    /// True if its listener has what a route needs.
    pub fn serves(&self, needed: Needed) -> bool {
        !self.is_public
            || matches!(needed, Needed::Nothing | Needed::Scope(Scope::Ingest | Scope::Work))
    }

    /// True if there is a token, or none is wanted: without one, only loopback may be served.
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
        self.shared.admin_sha256.is_some() || self.shared.catalog.has_tokens()
    }

    /// Who makes an HTTP request.
    pub fn caller(
        &self,
        method: &Method,
        headers: &HeaderMap,
        uri: &Uri,
    ) -> Result<Caller, Problem> {
        if self.is_open() {
            if self.shared.mode == AuthMode::Tokens {
                page::check(headers, uri)?;
            }
            return Ok(self.anyone());
        }
        if !self.is_public
            && !headers.contains_key(header::AUTHORIZATION)
            && let Some(token) = session::token_of(headers)
        {
            session::check_origin(method, headers, uri)?;
            return self.caller_of(&token);
        }
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let (first, others) = (given.next(), given.next().is_some());
        let text = first.and_then(|value| value.to_str().ok()).and_then(bearer);
        match text {
            Some(text) if !others => self.caller_of(text),
            _ => {
                let detail =
                    "this call needs a token: send the header Authorization: Bearer <token>";
                Err(Problem::new(Code::Unauthorized, detail))
            }
        }
    }

    /// The caller where no token is needed.
    pub fn anyone(&self) -> Caller {
        self.shared.anyone.clone()
    }

    /// Who has this token.
    pub fn caller_of(&self, text: &str) -> Result<Caller, Problem> {
        let sha256 = sha256_of(text);
        let is_same = |known: &str| bool::from(known.as_bytes().ct_eq(sha256.as_bytes()));
        if self.shared.admin_sha256.as_deref().is_some_and(is_same) {
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
        let mut used = self.shared.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get_mut(&held.token.id) {
            Some(at) => *at = now_ms,
            None => drop(used.insert(held.token.id.clone(), now_ms)),
        }
        drop(used);
        Ok(Caller::new(&held.token.id, held.grant.clone()))
    }

    /// Notes in Redis when tokens were last used, until `stop`.
    pub async fn note_uses(self, store: Store, stop: CancellationToken) {
        let mut ticks = tokio::time::interval(NOTE_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while stop.run_until_cancelled(ticks.tick()).await.is_some() {
            let used = std::mem::take(
                &mut *self.shared.used.lock().unwrap_or_else(PoisonError::into_inner),
            );
            let used: Vec<(String, u64)> = used.into_iter().collect();
            if let Err(error) = store.note_tokens_used(&used).await {
                tracing::debug!(%error, "the last use of tokens cannot be noted");
            }
        }
    }
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
