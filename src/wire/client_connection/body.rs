//! Bodies of answers that report their own end or loss.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use futures::FutureExt;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};

use super::{ClientConnection, Lost, Unconfirmed};

/// Passes a body on. Dropping it marks the answer as complete.
pub(super) struct Answering {
    body: Body,
    client: ClientConnection,
}

impl Answering {
    pub(super) fn new(body: Body, client: ClientConnection) -> Answering {
        Answering { body, client }
    }
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.client.end();
    }
}

/// A body with a callback for its loss.
pub struct Tracked {
    body: Full<Bytes>,
    client: Option<ClientConnection>,
    lost: Option<Lost>,
}

impl Tracked {
    /// These bytes for this client; calls `lost` when they are known not to have arrived.
    pub fn new(bytes: Bytes, client: Option<ClientConnection>, lost: Lost) -> Tracked {
        Tracked { body: Full::new(bytes), client, lost: Some(lost) }
    }
}

impl HttpBody for Tracked {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        // The connection now holds all of it, and knows whether it arrives.
        if let (Some(client), Some(lost)) = (&self.client.take(), self.lost.take()) {
            client.left().now_or_never();
            client.state().unconfirmed = Some(Unconfirmed { lost, is_written: false });
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        HttpBody::size_hint(&self.body)
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        if let Some(lost) = self.lost.take() {
            lost();
        }
    }
}
