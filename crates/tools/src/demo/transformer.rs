//! The transformer: a real HTTP service with a random delay per message. It knows nothing about
//! their order.
//!
//! `POST /demo-http` and `POST /demo-tcp` with `{"n": 17}` return `{"n": 17, "transformed": true}`
//! after the planned time of that message. A repeated attempt takes the same time.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
    serve::ListenerExt,
};
use serde_json::{Map, Value};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::{ledger::Ledger, plan::Stream};

/// The largest accepted body, in bytes; the demo's own are far smaller.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// A running transformer; dropping this stops it.
pub struct Transformer {
    address: SocketAddr,
    _server: AbortOnDropHandle<()>,
}

impl Transformer {
    /// Starts one on a free port.
    pub async fn start(ledger: Arc<Ledger>) -> std::io::Result<Transformer> {
        let routes = Router::new().route("/{destination}", post(transform)).with_state(ledger);
        let (address, server) = serve(routes).await?;
        Ok(Transformer { address, _server: server })
    }

    /// The URL for a destination's messages.
    pub fn url(&self, stream: Stream) -> String {
        format!("http://{}/{}", self.address, stream.destination())
    }
}

/// Serves on a free port of the loopback interface.
pub async fn serve(routes: Router) -> std::io::Result<(SocketAddr, AbortOnDropHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| {
        // Without this, answers may wait for TCP acknowledgements and distort the measurement.
        let _ = stream.set_nodelay(true);
    });
    let server = tokio::spawn(async move {
        // Ends only by being dropped: accept errors are retried inside.
        let _ = axum::serve(listener, routes).await;
    });
    Ok((address, AbortOnDropHandle::new(server)))
}

async fn transform(
    State(ledger): State<Arc<Ledger>>,
    Path(destination): Path<String>,
    request: Request,
) -> Response {
    let arrived = Instant::now();
    let body = axum::body::to_bytes(request.into_body(), BODY_BYTES_MAX).await;
    let parsed = body.ok().and_then(|body| parse(&body));
    let stream = Stream::of_destination(&destination);
    let (Some((n, mut object)), Some(stream)) = (parsed, stream) else {
        return (StatusCode::BAD_REQUEST, "this is not one of the demo's messages").into_response();
    };
    let Some(drawn) = ledger.plan().work_of(stream, n) else {
        return (StatusCode::BAD_REQUEST, "the demo has no message of this number").into_response();
    };
    let mut hold = Hold::new(&ledger, drawn);
    tokio::time::sleep_until((arrived + drawn).into()).await;
    hold.held = Some(arrived.elapsed());
    object.insert("transformed".into(), true.into());
    axum::Json(object).into_response()
}

fn parse(body: &Bytes) -> Option<(usize, Map<String, Value>)> {
    let object: Map<String, Value> = serde_json::from_slice(body).ok()?;
    let n = object.get("n")?.as_u64()?;
    Some((n.try_into().ok()?, object))
}

/// A message in processing. If the caller was killed, its request is cancelled, and only the drop
/// records the end.
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
