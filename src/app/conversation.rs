//! Serves one connection over HTTP/1 or HTTP/2.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::{extract::Request, response::Response};
use futures::future::BoxFuture;
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::Service,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};

use http_server::client_connection::HEAD_BYTES_MAX;

/// The most headers of a request.
const HEADERS_MAX: usize = 100;
/// HTTP/2: the most requests in progress on one connection, and the most bytes of bodies in
/// flight, per request and in total.
const STREAMS_MAX: u32 = 64;
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
/// HTTP/2: the most bytes of an answer that wait for a client to read.
const SEND_BYTES_MAX: usize = 64 << 10;
/// HTTP/2: a client loses its connection if it resets more requests than this before their answer (CVE-2023-44487).
const RESETS_MAX: usize = 20;
/// HTTP/2: a client loses its connection if its errors make this side reset more requests than this (CVE-2025-8671).
const ERRORS_MAX: usize = 64;

/// A served connection, in one of the two versions.
pub(super) enum Conversation<I: AsyncRead + AsyncWrite + Send + Unpin + 'static, S: HttpService> {
    Http1(Box<http1::Connection<TokioIo<I>, S>>),
    Http2(Pin<Box<http2::Connection<TokioIo<I>, S, TokioExecutor>>>),
}

/// A service that answers the requests of a connection.
pub(super) trait HttpService:
    Service<
        Request<Incoming>,
        Response = Response,
        Error = std::convert::Infallible,
        Future = BoxFuture<'static, Result<Response, std::convert::Infallible>>,
    > + Unpin
{
}

impl<S> HttpService for S where
    S: Service<
            Request<Incoming>,
            Response = Response,
            Error = std::convert::Infallible,
            Future = BoxFuture<'static, Result<Response, std::convert::Infallible>>,
        > + Unpin
{
}

impl<I, S> Conversation<I, S>
where
    I: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    S: HttpService,
{
    /// Serves HTTP/1.
    pub(super) fn over_http1(io: I, service: S, half_close: bool) -> Conversation<I, S> {
        let mut builder = http1::Builder::new();
        builder.half_close(half_close).max_buf_size(HEAD_BYTES_MAX).max_headers(HEADERS_MAX);
        Conversation::Http1(Box::new(builder.serve_connection(TokioIo::new(io), service)))
    }

    /// Serves HTTP/2, with limits on the memory and work that a client can cause.
    pub(super) fn over_http2(io: I, service: S) -> Conversation<I, S> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .max_concurrent_streams(STREAMS_MAX)
            .max_pending_accept_reset_streams(RESETS_MAX)
            .max_local_error_reset_streams(ERRORS_MAX)
            .max_header_list_size(HEAD_BYTES_MAX as u32)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BYTES_MAX);
        Conversation::Http2(Box::pin(builder.serve_connection(TokioIo::new(io), service)))
    }

    /// Ready when the connection has ended, with or without an error.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Conversation::Http1(connection) => connection.poll_without_shutdown(cx).map(drop),
            Conversation::Http2(connection) => connection.as_mut().poll(cx).map(drop),
        }
    }

    /// Ends the connection after the requests in progress.
    pub(super) fn end_gracefully(&mut self) {
        match self {
            Conversation::Http1(connection) => Pin::new(&mut **connection).graceful_shutdown(),
            Conversation::Http2(connection) => connection.as_mut().graceful_shutdown(),
        }
    }

    /// The stream; `None` for HTTP/2, which closes the stream itself.
    pub(super) fn into_io(self) -> Option<I> {
        match self {
            Conversation::Http1(connection) => Some(connection.into_parts().io.into_inner()),
            Conversation::Http2(_) => None,
        }
    }
}
