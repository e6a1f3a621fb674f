//! Serves HTTP: accepts connections, closes slow connections, and answers health checks even when all
//! slots are taken.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use axum::{
    Router,
    body::Body,
    extract::Request,
    http::{HeaderValue, StatusCode, header},
    response::Response,
};
use futures::FutureExt;
use hyper::{
    body::Incoming,
    service::{Service, service_fn},
};
use hyper_util::service::TowerToHyperService;
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    connections::{ConnectionSlot, Connections},
    conversation::Conversation,
};
use access::Guard;
use domain::destination::REQUEST_ID;
use formats::code::Code;
use http_server::{
    client_connection::{Activity, Ambiguous, ClientConnection, TlsIo},
    concurrency_limit::{ConcurrencyLimit, peer_of},
    problem::Problem,
};
use tls::Acceptor;

/// Connections that are accepted beyond the limit, to answer health checks, and to refuse other requests with a
/// problem.
pub(super) const RESERVE: usize = 32;
/// Further connections that may be closing at the same time. At this limit, the listener accepts no more.
pub(super) const CLOSING_MAX: usize = 16;
/// The HTTP listener.
pub(super) struct HttpServer {
    routes: TowerToHyperService<Router>,
    guard: Guard,
    header_timeout: Duration,
    idle_timeout: Duration,
    acknowledge_timeout: Duration,
    connections: Connections,
    by_address: ConcurrencyLimit<IpAddr>,
    reserve: Connections,
    /// Permits for file descriptors, including those of closing connections.
    sockets: Arc<Semaphore>,
    /// Set if the listener serves TLS.
    tls: Option<Acceptor>,
    stop: CancellationToken,
}

impl HttpServer {
    /// A server of these routes behind this guard, with at most `connections_max` connections. Serves TLS if it has
    /// certificates.
    pub(super) fn new(
        (routes, guard, by_address): (Router, Guard, ConcurrencyLimit<IpAddr>),
        settings: &config::Http,
        tls: Option<Acceptor>,
        connections_max: usize,
        stop: CancellationToken,
    ) -> HttpServer {
        HttpServer {
            routes: TowerToHyperService::new(routes),
            guard,
            header_timeout: Duration::from_millis(settings.header_timeout_ms),
            idle_timeout: Duration::from_millis(settings.idle_timeout_ms),
            acknowledge_timeout: Duration::from_millis(settings.acknowledge_timeout_ms),
            connections: Connections::new(connections_max),
            by_address,
            reserve: Connections::new(RESERVE),
            sockets: Arc::new(Semaphore::new(connections_max + RESERVE + CLOSING_MAX)),
            tls,
            stop,
        }
    }

    /// Accepts connections until `stop`. The connections run on `tracker`, and end after the answers in progress.
    pub(super) async fn run(self: Arc<Self>, listener: TcpListener, tracker: TaskTracker) {
        let server = self;
        loop {
            let next = async {
                let socket = server.sockets.clone().acquire_owned().await;
                (socket, accept(&listener).await)
            };
            let (socket, (stream, address)) = tokio::select! {
                () = server.stop.cancelled() => return,
                next = next => next,
            };
            let Some(of_address) = server.by_address.take(peer_of(address.ip())) else {
                telemetry::connection_closed("address");
                continue;
            };
            let client = ClientConnection::new(stream, server.acknowledge_timeout);
            if server.guard.is_open() {
                client.verify();
            }
            let (place, is_reserve) = match server.connections.take(&client) {
                Some(place) => (Some(place), false),
                None => (server.reserve.take(&client), true),
            };
            let Some(place) = place else {
                telemetry::connection_closed("full");
                continue;
            };
            let serving = server.clone().serve(client, place, is_reserve);
            tracker.spawn(async move {
                serving.await;
                drop((socket, of_address));
            });
        }
    }

    async fn serve(
        self: Arc<Self>,
        client: ClientConnection,
        place: ConnectionSlot,
        is_reserve: bool,
    ) {
        let _place = place;
        let _open = telemetry::ConnectionOpen::begin("http");
        let may_come = match &self.tls {
            None => self.clone().converse(&client, client.io(), is_reserve).await,
            Some(acceptor) => match self.shake_hands(acceptor, &client).await {
                Ok(io) => self.clone().converse(&client, io, is_reserve).await,
                Err(may_come) => may_come,
            },
        };
        client.shut_down();
        if may_come {
            tokio::select! {
                () = client.closing() => {}
                () = client.drain() => {}
            }
        }
        client.settle().await;
    }

    /// Does the TLS handshake. If it fails, returns whether more input may come.
    async fn shake_hands(
        &self,
        acceptor: &Acceptor,
        client: &ClientConnection,
    ) -> Result<TlsIo, bool> {
        let reason = tokio::select! {
            biased;
            shaken = acceptor.accept(client.io_under_tls()) => match shaken {
                Ok(stream) => {
                    if let Some(subject) = tls::subject_of(&stream) {
                        client.note_certificate(subject);
                    }
                    if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) {
                        client.multiplex();
                    }
                    return Ok(TlsIo::new(stream, client.clone()));
                }
                Err(error) => {
                    tracing::debug!(%error, "a client and this process found no way to speak TLS");
                    "handshake"
                }
            },
            () = client.closing() => return Err(false),
            () = client.failed() => return Err(false),
            () = self.stop.cancelled() => return Err(false),
            activity = self.overdue(client) => match activity {
                Activity::Head => "handshake",
                _ => "idle",
            },
        };
        telemetry::connection_closed(reason);
        // The client may still be writing, and must be able to read why the handshake failed.
        Err(reason == "handshake")
    }

    /// Serves requests. Returns whether more input may come.
    async fn converse<I: AsyncRead + AsyncWrite + Send + Unpin + 'static>(
        self: Arc<Self>,
        client: &ClientConnection,
        io: I,
        is_reserve: bool,
    ) -> bool {
        let (server, of_request) = (self.clone(), client.clone());
        let service = service_fn(move |request: Request<Incoming>| {
            let (server, client) = (server.clone(), of_request.clone());
            async move {
                Ok::<_, std::convert::Infallible>(server.answer(client, request, is_reserve).await)
            }
            .boxed()
        });
        // A client that closed its direction after the request still gets its answer. Over TLS,
        // such a client counts as gone: few clients close only one direction there.
        let half_close = self.tls.is_none();
        let mut connection = match client.is_multiplexed() {
            true => Conversation::over_http2(io, service),
            false => Conversation::over_http1(io, service, half_close),
        };
        let mut is_stopping = false;
        let is_slow = loop {
            tokio::select! {
                biased;
                () = std::future::poll_fn(|cx| connection.poll(cx)) => break None,
                () = client.closing() => break None,
                () = client.failed() => break None,
                activity = self.overdue(client) => break Some(activity),
                () = self.stop.cancelled(), if !is_stopping => {
                    is_stopping = true;
                    connection.end_gracefully();
                }
            }
        };
        // Unread input would reset the connection and cut off the answer, so the code below reads it.
        let mut may_come = !self.stop.is_cancelled();
        // Drops buffered data, such as an unwritten answer.
        let Some(mut io) = connection.into_io() else {
            // HTTP/2 has already ended the connection itself.
            let reason = is_slow.map(|activity| match activity {
                Activity::Head => "slow_head",
                _ => "idle",
            });
            reason.into_iter().for_each(telemetry::connection_closed);
            return false;
        };
        match is_slow {
            Some(Activity::Head) => {
                telemetry::connection_closed("slow_head");
                io.write_all(head_timeout().as_bytes()).now_or_never();
            }
            Some(_) => {
                telemetry::connection_closed("idle");
                may_come = false;
            }
            None => {
                if let Some(ambiguous) = client.ambiguous() {
                    let mut problem = Problem::new(Code::InvalidRequest, ambiguous.to_string());
                    if ambiguous == Ambiguous::LongHead {
                        problem.status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
                    }
                    io.write_all(as_bytes(&problem).as_bytes()).now_or_never();
                }
            }
        }
        // Over TLS, tells the client that this is the end.
        io.shutdown().now_or_never();
        may_come
    }

    async fn answer(
        &self,
        client: ClientConnection,
        request: Request<Incoming>,
        is_reserve: bool,
    ) -> Response {
        let request_of_it = client.begin();
        let is_open = request_of_it.is_some();
        let path = request.uri().path();
        let place = is_reserve.then(|| self.connections.take_for_request()).flatten();
        let is_refused = is_reserve && place.is_none() && !api::is_of_health(path);
        let response = if !is_open || is_refused {
            telemetry::connection_closed("full");
            busy()
        } else {
            let mut request = request.map(Body::new);
            request.extensions_mut().insert(client.clone());
            match self.routes.call(request).await {
                Ok(response) => response,
                Err(never) => match never {},
            }
        };
        drop(place);
        let mut response = match request_of_it {
            Some(begun) => response.map(|body| begun.answering(body)),
            None => response,
        };
        // HTTP/2 has no such header (RFC 9113, 8.2.2).
        if (is_reserve || !is_open) && !client.is_multiplexed() {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        response
    }

    /// Resolves when the client has been too slow. Returns the activity that took too long.
    async fn overdue(&self, client: &ClientConnection) -> Activity {
        loop {
            let now = Instant::now();
            let (mut activity, since) = client.activity();
            let mut end = match activity {
                Activity::Head => Some(since + self.header_timeout),
                Activity::Idle => Some(since + self.idle_timeout),
                Activity::Busy => client.unread_since().map(|since| since + self.idle_timeout),
                Activity::Closing => None,
            };
            if let Some(since) = client.head_since()
                && end.is_none_or(|end| since + self.header_timeout < end)
            {
                (activity, end) = (Activity::Head, Some(since + self.header_timeout));
            }
            if end.is_some_and(|end| end <= now) {
                return activity;
            }
            // The activity may change meanwhile.
            let next = now + self.header_timeout.min(self.idle_timeout);
            tokio::time::sleep_until(end.map_or(next, |end| end.min(next))).await;
        }
    }
}

/// The next connection. If no file descriptor is free, waits until other connections end.
async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        let error = match listener.accept().await {
            Ok(accepted) => return accepted,
            Err(error) => error,
        };
        telemetry::accept_failed("http");
        tracing::warn!(%error, "could not accept an HTTP connection");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// The answer when all connections are in use.
fn busy() -> Response {
    let detail = "this pod has reached its limit of connections (http.connections_max), each with \
                  a request in progress; nothing was stored, send the same again later or to another pod";
    let problem = Problem::new(Code::ConnectionsFull, detail);
    let id = uuid::Uuid::now_v7().to_string();
    let mut response = problem.response(Some(&id));
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// The answer to a slow head, as bytes, because there is no request to answer.
fn head_timeout() -> String {
    let detail = "the head of the request was not complete in time; nothing was stored";
    as_bytes(&Problem::new(Code::RequestTimeout, detail))
}

/// An HTTP response as bytes, for a connection on which no complete request arrived. The connection closes after it.
fn as_bytes(problem: &Problem) -> String {
    let body = problem.json(None).to_string();
    format!(
        "HTTP/1.1 {}\r\ncontent-type: application/problem+json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        problem.status,
        body.len(),
    )
}
