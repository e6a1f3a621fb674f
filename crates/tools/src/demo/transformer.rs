//! The transformer: a real HTTP service with a random delay for each message. It does not know the order of the
//! messages.
//!
//! `POST /demo-http` and `POST /demo-tcp` with `{"n": 17}` return `{"n": 17, "transformed": true}`
//! after the planned time of that message. A repeated attempt takes the same time.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderValue},
};
use serde_json::{Map, Value};
use tokio_util::task::AbortOnDropHandle;

use super::{ledger::Ledger, plan::Stream};
use crate::servers;

/// A running transformer; dropping this stops it.
pub struct Transformer {
    address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Transformer {
    /// Starts a transformer on a free port.
    pub async fn start(ledger: Arc<Ledger>) -> std::io::Result<Transformer> {
        let answer = move |request| transform(ledger.clone(), request);
        let (address, server) = servers::spawn(|listener| servers::http(listener, answer)).await?;
        Ok(Transformer { address, _server: server })
    }

    /// The URL for a destination's messages.
    pub fn url(&self, stream: Stream) -> String {
        format!("http://{}/{}", self.address, stream.destination())
    }
}

async fn transform(ledger: Arc<Ledger>, request: Request<Bytes>) -> Response<Full<Bytes>> {
    let arrived = Instant::now();
    let stream = Stream::of_destination(request.uri().path().trim_start_matches('/'));
    let (Some((n, mut object)), Some(stream)) = (parse(request.body()), stream) else {
        return refusal("this is not one of the demo's messages");
    };
    let Some(drawn) = ledger.plan().work_of(stream, n) else {
        return refusal("the demo has no message of this number");
    };
    let mut hold = Hold::new(&ledger, drawn);
    tokio::time::sleep_until((arrived + drawn).into()).await;
    hold.held = Some(arrived.elapsed());
    object.insert("transformed".into(), true.into());
    let mut answer = Response::new(Value::Object(object).to_string().into());
    let json = HeaderValue::from_static("application/json");
    answer.headers_mut().insert(CONTENT_TYPE, json);
    answer
}

fn refusal(problem: &'static str) -> Response<Full<Bytes>> {
    let mut answer = Response::new(problem.into());
    *answer.status_mut() = StatusCode::BAD_REQUEST;
    answer
}

fn parse(body: &[u8]) -> Option<(usize, Map<String, Value>)> {
    let object: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let n = object.get("n")?.as_u64()?;
    Some((n.try_into().ok()?, object))
}

/// A message in processing. If the caller was killed, its request is cancelled. Then dropping this records the end.
struct Hold<'a> {
    ledger: &'a Ledger,
    drawn: Duration,
    held: Option<Duration>,
}

impl<'a> Hold<'a> {
    fn new(ledger: &'a Ledger, drawn: Duration) -> Hold<'a> {
        ledger.hold();
        Hold { ledger, drawn, held: None }
    }
}

impl Drop for Hold<'_> {
    fn drop(&mut self) {
        self.ledger.let_go(self.drawn, self.held);
    }
}
