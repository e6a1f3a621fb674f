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

/// A request in progress. Dropping this ends the request.
pub struct Begun {
    client: ClientConnection,
    number: u64,
}

impl Begun {
    pub(super) fn new(client: ClientConnection, number: u64) -> Begun {
        Begun { client, number }
    }

    /// Wraps the answer's body. The end of the body marks the answer as complete.
    pub fn answering(self, body: Body) -> Body {
        self.client.note_unread(self.number, true);
        Body::new(Answering { body, request: self })
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        self.client.end(self.number);
    }
}

/// Forwards a body. Dropping this marks the answer as complete.
struct Answering {
    body: Body,
    request: Begun,
}

impl HttpBody for Answering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        // The server polls for a frame when the client has room for it. Until then, a ready frame
        // waits for the client; a body that is not ready waits for Reseq.
        self.request.client.note_unread(self.request.number, frame.is_ready());
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A body with a callback for its loss.
pub struct Tracked {
    body: Full<Bytes>,
    client: Option<ClientConnection>,
    lost: Option<Lost>,
}

impl Tracked {
    /// Sends these bytes to this client. Calls `lost` if they certainly did not arrive.
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
        // The connection now holds the whole answer, and tracks whether it arrives. Over HTTP/2,
        // other answers may follow at once, and the connection cannot tell which arrived: leases
        // in a lost answer then expire by themselves.
        let client = self.client.take().filter(|client| !client.is_multiplexed());
        if let (Some(client), Some(lost)) = (&client, self.lost.take()) {
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
