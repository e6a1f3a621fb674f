//! Bodies of answers that report their own end or loss.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum::body::{Body, Bytes, HttpBody};
use futures::FutureExt;
use http_body_util::Full;
use hyper::body::{Frame, SizeHint};

use super::{Lost, Peer, Unconfirmed};

/// Passes a body on. Dropping it marks the answer as complete.
pub(super) struct Answering {
    body: Body,
    peer: Peer,
}

impl Answering {
    pub(super) fn new(body: Body, peer: Peer) -> Answering {
        Answering { body, peer }
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
        self.peer.end();
    }
}

/// A body with a callback for its loss.
pub struct Tracked {
    body: Full<Bytes>,
    peer: Option<Peer>,
    lost: Option<Lost>,
}

impl Tracked {
    /// These bytes for this client; calls `lost` when they are known not to have arrived.
    pub fn new(bytes: Bytes, peer: Option<Peer>, lost: Lost) -> Tracked {
        Tracked { body: Full::new(bytes), peer, lost: Some(lost) }
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
        if let (Some(peer), Some(lost)) = (&self.peer.take(), self.lost.take()) {
            peer.left().now_or_never();
            peer.state().unconfirmed = Some(Unconfirmed { lost, is_written: false });
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
