//! The receiver over HTTP. Answers every request with 200 at once.

use std::{convert::Infallible, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::{net::TcpListener, task::JoinSet};

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

/// Accepts connections while polled.
pub async fn serve(listener: TcpListener, with_batches: bool, tally: Arc<Tally>) {
    // Owns the connections, so that they end with the listener.
    let mut connections = JoinSet::new();
    loop {
        // `accept` fails if the connection is already gone. The peer will notice that.
        if let Ok((stream, _)) = listener.accept().await {
            // Otherwise answers may wait for an acknowledgement, and that time would count for Reseq.
            let _ = stream.set_nodelay(true);
            let tally = tally.clone();
            let service = service_fn(move |request| accept(request, with_batches, tally.clone()));
            // A connection ends when the sender ends. Messages that were not accepted come again.
            connections
                .spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn accept(
    request: Request<Incoming>,
    with_batches: bool,
    tally: Arc<Tally>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let body = request.into_body().collect().await;
    let at = tally.now();
    match body.map(|body| body.to_bytes()) {
        Ok(body) if with_batches => match serde_json::from_slice::<Vec<Envelope>>(&body) {
            Ok(envelopes) => {
                envelopes.iter().for_each(|envelope| tally.arrives(number_of(envelope), at));
            }
            Err(_) => tally.arrives(None, at),
        },
        Ok(body) => tally.arrives(numbered(&body), at),
        // The request broke off. The sender will repeat it.
        Err(_) => {}
    }
    Ok(Response::new(Empty::new()))
}

fn number_of(envelope: &Envelope) -> Option<Numbered> {
    match (envelope.body, envelope.body_base64) {
        (Some(body), _) => numbered(body.get().as_bytes()),
        (None, Some(base64)) => numbered(&STANDARD.decode(base64).ok()?),
        (None, None) => None,
    }
}
