//! The receiver over HTTP. Answers every request with 200 at once.

use std::{future::ready, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use hyper::Response;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tools::servers;

use super::Tally;
use crate::plan::{Numbered, numbered};

/// The part of an envelope that the receiver reads.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    body_base64: Option<&'a str>,
}

/// Accepts messages while it is polled: one in each request, or many if `with_batches`.
pub async fn serve(listener: TcpListener, with_batches: bool, tally: Arc<Tally>) {
    servers::http(listener, move |request| {
        let (body, at) = (request.body(), tally.now());
        match with_batches {
            true => match serde_json::from_slice::<Vec<Envelope>>(body) {
                Ok(envelopes) => {
                    envelopes.iter().for_each(|envelope| tally.arrives(number_of(envelope), at));
                }
                Err(_) => tally.arrives(None, at),
            },
            false => tally.arrives(numbered(body), at),
        }
        ready(Response::default())
    })
    .await;
}

fn number_of(envelope: &Envelope) -> Option<Numbered> {
    match (envelope.body, envelope.body_base64) {
        (Some(body), _) => numbered(body.get().as_bytes()),
        (None, Some(base64)) => numbered(&STANDARD.decode(base64).ok()?),
        (None, None) => None,
    }
}
