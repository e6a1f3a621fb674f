//! `/v1/tokens`: create, show and revoke tokens.

use std::collections::{BTreeSet, HashMap};

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{Path, State, rejection::BytesRejection},
    http::StatusCode,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Api, audit,
    destinations::{Listing, page_of},
    read_json,
    request::Params,
    views::{Items, rfc3339},
};
use domain::{
    DestinationName, Grant, Scope, Token, TokenText,
    message::check_text,
    token::{NAME_BYTES_MAX, TOKEN_DESTINATIONS_MAX},
};
use formats::code::Code;
use http_server::{openapi_responses, principal::Principal, problem::Problem};
use store::{CatalogToken, server_clock_ms};

/// The longest lifetime of a token that ends, in milliseconds: ten years.
const EXPIRES_IN_MS_MAX: u64 = 3_650 * 24 * 3_600_000;

/// The highest rate that a token may have.
const RATE_PER_SECOND_MAX: u32 = 1_000_000;

/// A token to create.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = TokenRequest)]
struct Request {
    /// A name that says what the token is for.
    #[schema(min_length = 1, max_length = 128)]
    name: String,
    /// The scopes: what the holder may do.
    #[schema(value_type = Vec<Scope>, min_items = 1)]
    scopes: BTreeSet<Scope>,
    /// The destinations that the holder may use; all if absent.
    #[schema(value_type = Option<Vec<DestinationName>>, min_items = 1, max_items = 1000)]
    destinations: Option<BTreeSet<DestinationName>>,
    /// The token ends after this time; never if absent.
    #[schema(minimum = 1000, maximum = 315_360_000_000_u64)]
    expires_in_ms: Option<u64>,
    /// The most messages that each process accepts from the holder in one second; 0: no limit.
    #[serde(default)]
    #[schema(maximum = 1_000_000)]
    rate_per_second_max: u32,
}

impl Request {
    fn check(&self) -> Result<(), Problem> {
        check_text("name", &self.name, NAME_BYTES_MAX).map_err(Problem::invalid_field)?;
        if self.scopes.is_empty() {
            let all = Scope::ALL.map(Scope::as_str).join(", ");
            return Err(Problem::invalid_field(format!("scopes: name at least one of {all}")));
        }
        let count = self.destinations.as_ref().map_or(1, BTreeSet::len);
        if !(1..=TOKEN_DESTINATIONS_MAX).contains(&count) {
            let detail = format!(
                "destinations: name 1 to {TOKEN_DESTINATIONS_MAX}; leave it out for all of them"
            );
            return Err(Problem::invalid_field(detail));
        }
        if self.rate_per_second_max > RATE_PER_SECOND_MAX {
            let detail = format!("rate_per_second_max: must be 0 to {RATE_PER_SECOND_MAX}");
            return Err(Problem::invalid_field(detail));
        }
        match self.expires_in_ms {
            Some(ms) if !(1_000..=EXPIRES_IN_MS_MAX).contains(&ms) => {
                let detail = format!("expires_in_ms: {ms} is outside 1000 to {EXPIRES_IN_MS_MAX}");
                Err(Problem::invalid_field(detail))
            }
            _ => Ok(()),
        }
    }
}

/// A token, without its secret.
#[derive(Serialize, ToSchema)]
#[schema(as = Token)]
pub(super) struct View {
    id: String,
    name: String,
    #[serde(flatten)]
    grant: Grant,
    #[schema(format = DateTime)]
    created_at: String,
    /// When the token ends; null: never.
    #[schema(format = DateTime)]
    expires_at: Option<String>,
    expired: bool,
    /// When the token was last used, up to some seconds late; null: no known use.
    #[schema(format = DateTime)]
    last_used_at: Option<String>,
}

impl View {
    fn of(token: &Token, used: &HashMap<String, u64>) -> View {
        View {
            id: token.id.clone(),
            name: token.name.clone(),
            grant: token.grant.clone(),
            created_at: rfc3339(token.created_ms),
            expires_at: token.expires_ms.map(rfc3339),
            expired: token.is_expired(server_clock_ms()),
            last_used_at: used.get(&token.id).copied().map(rfc3339),
        }
    }
}

/// A new token.
#[derive(Serialize, ToSchema)]
#[schema(as = NewToken)]
pub(super) struct Made {
    /// The token itself. Only this answer shows it; Redis stores only its SHA-256.
    token: String,
    #[serde(flatten)]
    view: View,
}

/// A token that was revoked.
#[derive(Serialize, ToSchema)]
#[schema(as = RevokedToken)]
pub(super) struct Revoked {
    revoked: String,
}

/// `POST /v1/tokens`
#[utoipa::path(post, path = "/v1/tokens", tag = "tokens", operation_id = "make_token",
    request_body = Request,
    responses((status = 201, description = "The token, shown this once", body = Made),
        openapi_responses::MakesToken))]
pub(super) async fn make(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    body: Result<Bytes, BytesRejection>,
) -> Result<(StatusCode, Json<Made>), Problem> {
    let request: Request = read_json(body, api.batch_bytes_max)?;
    request.check()?;
    if let Some(shard) = request.destinations.iter().flatten().find(|name| name.shard() > 0) {
        let detail =
            format!("destinations: {shard} is a shard; name {}, with all its shards", shard.base());
        return Err(Problem::invalid_field(detail));
    }
    caller.check_unlimited()?;
    let text = TokenText::random(&mut rand::rng());
    let now_ms = server_clock_ms();
    let token = Token {
        id: text.id().to_owned(),
        name: request.name,
        grant: Grant {
            scopes: request.scopes,
            destinations: request.destinations,
            rate_per_second_max: request.rate_per_second_max,
        },
        created_ms: now_ms,
        expires_ms: request.expires_in_ms.map(|ms| now_ms + ms),
        sha256: text.sha256(),
    };
    api.store.make_token(&token).await?;
    api.catalog.refresh_token(&token.id).await?;
    audit::target(&token.id);
    let view = View::of(&token, &HashMap::new());
    Ok((StatusCode::CREATED, Json(Made { token: text.reveal().to_owned(), view })))
}

/// `GET /v1/tokens`
#[utoipa::path(get, path = "/v1/tokens", tag = "tokens", operation_id = "list_tokens",
    params(Listing),
    responses((status = 200, description = "A page, by id", body = Items<View>), openapi_responses::Reads))]
pub(super) async fn list(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    listing: Result<Params<Listing>, Problem>,
) -> Result<Json<Items<View>>, Problem> {
    caller.check_unlimited()?;
    let Params(listing) = listing?;
    let all = api.catalog.tokens();
    let (page, next_cursor) = page_of(&all, &listing, |held| held.token.id.as_str())?;
    let ids: Vec<&str> = page.iter().map(|held| held.token.id.as_str()).collect();
    let used = api.store.tokens_used(&ids).await?;
    let items = page.iter().map(|held| View::of(&held.token, &used)).collect();
    Ok(Json(Items { items, next_cursor }))
}

/// `GET /v1/tokens/{id}`
#[utoipa::path(get, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "show_token",
    params(("id" = String, Path, description = "The id of the token")),
    responses((status = 200, description = "The token, without its secret", body = View),
        openapi_responses::ReadsToken))]
pub(super) async fn show(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<View>, Problem> {
    caller.check_unlimited()?;
    let held = held(&api, &id).await?;
    let used = api.store.tokens_used(&[&id]).await?;
    Ok(Json(View::of(&held.token, &used)))
}

/// `DELETE /v1/tokens/{id}`
#[utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens", operation_id = "revoke_token",
    params(("id" = String, Path, description = "The id of the token")),
    responses((status = 200, description = "It is valid no longer: within a second at all pods",
            body = Revoked),
        openapi_responses::RevokesToken))]
pub(super) async fn revoke(
    State(api): State<Api>,
    Extension(caller): Extension<Principal>,
    Path(id): Path<String>,
) -> Result<Json<Revoked>, Problem> {
    caller.check_unlimited()?;
    check_id(&id)?;
    let was_there = api.store.revoke_token(&id).await?;
    api.catalog.refresh_token(&id).await?;
    if !was_there {
        return Err(unknown(&id));
    }
    Ok(Json(Revoked { revoked: id }))
}

async fn held(api: &Api, id: &str) -> Result<std::sync::Arc<CatalogToken>, Problem> {
    check_id(id)?;
    match api.catalog.token(id) {
        Some(held) => Ok(held),
        None => api.catalog.refresh_token(id).await?.ok_or_else(|| unknown(id)),
    }
}

/// Only a text that can be an id may name a field of the index.
fn check_id(id: &str) -> Result<(), Problem> {
    let is_id = !id.is_empty() && id.len() <= 64 && id.bytes().all(|b| b.is_ascii_alphanumeric());
    if is_id { Ok(()) } else { Err(unknown(id)) }
}

fn unknown(id: &str) -> Problem {
    let shown = domain::excerpt::excerpt(id.as_bytes());
    Problem::new(Code::UnknownToken, format!("there is no token {shown:?}"))
}
